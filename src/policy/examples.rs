//! Examples on a rule: values that its pattern has to cover, and values that it must not.
//!
//! An example is judged as an ask would be, by this one rule and nothing else, so a command line is taken apart. An allow covers
//! what it would allow by itself: every command of the line. A deny or an ask covers what it would hit: any command of the line,
//! in any spelling. A file does not know whose home it is read in, so `~` stands for the same unknown directory in a pattern and
//! in an example for a path.
//!
//! Examples say nothing about an ask; they are looked at when a file is read, and forgotten.

use super::config::ConfigProblem;
use super::is_path_surface;
use super::json::clip;
use super::judge::{Judgement, Question, TextFidelity};
use super::permission::{PatternRule, PermissionMap, SurfaceRules};
use super::rules::{LayerRules, Layers, Origin, Policy, Verdict};
use super::session_rules::SessionRules;
use super::trace::{Part, Step};
use crate::wire::{ForwardedAccessIntent, Principal};

/// What `~` stands for here. Nobody lives there.
const HOME: &str = "/~";

/// What has to hold of an example.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Expected {
    /// `match`: the rule covers it.
    Covered,
    /// `notMatch`: it does not.
    Missed,
}

impl Expected {
    /// The keys that hold examples.
    pub(super) const KEYS: [(&'static str, Self); 2] =
        [("match", Self::Covered), ("notMatch", Self::Missed)];
}

/// One rule by itself, ready to be tried.
pub(super) struct Trial<'r> {
    surface: &'r str,
    rule: &'r PatternRule,
    alone: Policy,
}

impl<'r> Trial<'r> {
    pub(super) fn new(surface: &'r str, rule: &'r PatternRule) -> Self {
        // What asks and what denies cover the same; only the deny can be told from what nobody says.
        let verdict = match rule.verdict {
            Verdict::Allow => Verdict::Allow,
            Verdict::Ask | Verdict::Deny => Verdict::Deny,
        };
        let alone = PermissionMap {
            surfaces: vec![(
                surface.to_owned(),
                SurfaceRules::Patterns(vec![PatternRule {
                    pattern: rule.pattern.clone(),
                    verdict,
                    reason: None,
                    position: None,
                }]),
            )],
            ..PermissionMap::default()
        };
        Self {
            surface,
            rule,
            alone: Policy::from_layers(&Layers {
                global: LayerRules::Rules(&alone),
                home: Some(HOME),
                ..Layers::default()
            }),
        }
    }

    /// Tries one example.
    pub(super) fn check(&self, example: &str, expected: Expected) -> Result<(), ConfigProblem> {
        let value = self.value_of(example);
        let intent = ForwardedAccessIntent {
            surface: self.surface.to_owned(),
            match_values: vec![value],
            boundary_value: None,
            requester_cwd: String::new(),
            principal: Principal {
                session_id: String::new(),
                agent_name: String::new(),
            },
            floor: None,
            asking_units: None,
        };
        let question = Question {
            intent: Some(&intent),
            text: TextFidelity::Exact,
            payload: None,
        };
        let explained = self.alone.explain(&question, &SessionRules::default());
        let pattern = || clip(&self.rule.pattern);
        match (expected, self.is_covered(&explained.judgement)) {
            (Expected::Covered, true) | (Expected::Missed, false) => Ok(()),
            (Expected::Covered, false) => Err(ConfigProblem::ExampleMissed {
                pattern: pattern(),
                example: clip(example),
                because: self.because(&explained.judgement, &explained.steps),
            }),
            (Expected::Missed, true) => Err(ConfigProblem::ExampleCovered {
                pattern: pattern(),
                example: clip(example),
            }),
        }
    }

    fn is_covered(&self, judgement: &Judgement) -> bool {
        let wanted = match self.rule.verdict {
            Verdict::Allow => Verdict::Allow,
            Verdict::Ask | Verdict::Deny => Verdict::Deny,
        };
        // What comes along with an allow on MCP is not the rule's doing.
        let mut matched = judgement.matched.iter();
        judgement.verdict == wanted && matched.any(|rule| rule.origin() == Origin::Global)
    }

    /// Why an allow is not enough for a command line, where that can be said.
    fn because(&self, judgement: &Judgement, steps: &[Step]) -> Option<String> {
        if self.rule.verdict != Verdict::Allow {
            return None;
        }
        let mut matched = judgement.matched.iter();
        let covers_some = matched.any(|rule| rule.origin() == Origin::Global);
        let mut unit = None;
        for step in steps {
            if let Step::Begin(Part::Unit { command, .. }) = step {
                unit = Some(command);
            }
            if let Step::End(verdict) = step
                && let Some(command) = unit.take()
                && *verdict != Verdict::Allow
                && covers_some
            {
                return Some(match &judgement.asked_because {
                    Some(sentinel) => format!("{:?} is asked as {sentinel}", clip(command)),
                    None => format!("it would run {:?} too", clip(command)),
                });
            }
        }
        let sentinel = judgement.asked_because.as_ref().filter(|_| covers_some)?;
        Some(format!("the line is asked as {sentinel}"))
    }

    /// The value of an ask about this example.
    fn value_of(&self, example: &str) -> String {
        let rest = example
            .strip_prefix('~')
            .or_else(|| example.strip_prefix("$HOME"));
        match rest {
            Some(rest)
                if is_path_surface(self.surface) && (rest.is_empty() || rest.starts_with('/')) =>
            {
                format!("{HOME}{rest}")
            }
            Some(_) | None => example.to_owned(),
        }
    }
}
