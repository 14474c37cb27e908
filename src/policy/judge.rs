//! What the recorded authority says about one ask, and why.
//!
//! An ask is judged on the facts that its requester fixed, and on nothing else: no path is resolved here, no display text is
//! looked at, and an ask without facts is put to somebody. Each surface, and each unit of a command line that the requester
//! left asking, is judged by itself; the strictest of them is the verdict.
//!
//! One surface is judged in this order: a deny of the rules; a grant of the session; the rules' own verdict, lifted from allow
//! to ask by a floor; the switch that turns an ask into an allow; and what no rule may allow, because nobody knows what it
//! would do.
//!
//! This module asks nobody and records nothing. Until a shell reader stands before it, a command line is text.
//!
//! # Invariants
//!
//! * An allow needs a rule or a grant that matches; everything else is at least an ask.
//! * Text that differs from the bytes on disk is never allowed.

use std::sync::Arc;

use super::config::Switch;
use super::rules::{Origin, Policy, Rule, RuleSet, Verdict};
use super::session_rules::{SessionGrant, SessionRules};
use super::{BASH_SURFACE, family_members, is_path_surface};
use crate::wire::{
    DecisionSource, ForwardedAccessIntent, SENTINEL_LOSSY_TEXT, SENTINEL_UNPARSEABLE_COMMAND,
};

/// What is to be judged.
#[derive(Debug, Clone, Copy)]
pub struct Question<'a> {
    /// The facts of the ask; without them nothing is ever allowed or denied.
    pub intent: Option<&'a ForwardedAccessIntent>,
    /// Whether the text is what stands on disk.
    pub text: TextFidelity,
}

/// Whether the text of an ask is what stands on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextFidelity {
    /// It is.
    Exact,
    /// Some of it could not be decoded and was replaced.
    Replaced,
}

/// What is said about an ask.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judgement {
    /// The verdict.
    pub verdict: Verdict,
    /// What decided. Of an ask it names what asks, and is no decision.
    pub decided_by: DecisionSource,
    /// Reason of the deny rule that decided.
    pub reason: Option<String>,
    /// Of an ask: the pattern that asks, or the sentinel that lifted an allow. `None` where no rule matched.
    pub asked_because: Option<String>,
    /// Everything that matched, in the order in which it was tried.
    pub matched: Vec<MatchedRule>,
}

/// One rule or grant that matched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MatchedRule {
    /// Place of the asking unit that was judged; `None` for the ask itself.
    pub unit: Option<usize>,
    /// What matched.
    pub matched: Matched,
}

/// What matched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Matched {
    /// A rule of the configuration.
    Rule(Arc<Rule>),
    /// A grant of the session.
    Grant(Arc<SessionGrant>),
}

impl MatchedRule {
    /// The surface that the rule or grant names.
    pub fn surface(&self) -> &str {
        match &self.matched {
            Matched::Rule(rule) => &rule.surface,
            Matched::Grant(grant) => grant.surface(),
        }
    }

    /// Its pattern as written.
    pub fn pattern(&self) -> &str {
        match &self.matched {
            Matched::Rule(rule) => rule.pattern.as_str(),
            Matched::Grant(grant) => grant.pattern().as_str(),
        }
    }

    /// What it says.
    pub fn verdict(&self) -> Verdict {
        match &self.matched {
            Matched::Rule(rule) => rule.verdict,
            Matched::Grant(_) => Verdict::Allow,
        }
    }

    /// Where it comes from.
    pub fn origin(&self) -> Origin {
        match &self.matched {
            Matched::Rule(rule) => rule.origin,
            Matched::Grant(_) => Origin::Session,
        }
    }
}

impl Policy {
    /// What the rules, and the grants of the session, say about an ask.
    pub fn judge(&self, question: &Question<'_>, grants: &SessionRules) -> Judgement {
        let Some(intent) = question.intent else {
            return Finding::unknown("").into_judgement(Vec::new());
        };
        let mut bench = Bench {
            rules: self.rules_for(&intent.principal.agent_name),
            grants,
            unit: None,
            matched: Vec::new(),
        };
        let mut found = bench.ask(intent);
        for (place, unit) in intent.asking_units.iter().flatten().enumerate() {
            bench.unit = Some(place);
            let values = [unit.command.as_str()];
            found = found.or_stricter(bench.surface(
                BASH_SURFACE,
                BASH_SURFACE,
                &values,
                unit.floor.as_deref(),
            ));
        }
        if question.text == TextFidelity::Replaced {
            found = found.lifted(SENTINEL_LOSSY_TEXT);
        }
        found.into_judgement(bench.matched)
    }
}

/// What one surface, or one unit, comes to.
struct Finding<'a> {
    verdict: Verdict,
    surface: &'a str,
    /// Pattern or sentinel that stands behind the verdict.
    pattern: Option<&'a str>,
    by: By,
    reason: Option<&'a str>,
}

#[derive(Clone, Copy)]
enum By {
    Rule(Origin),
    Grant,
}

impl<'a> Finding<'a> {
    /// Nobody said anything.
    fn unknown(surface: &'a str) -> Self {
        Self {
            verdict: Verdict::Ask,
            surface,
            pattern: None,
            by: By::Rule(Origin::Builtin),
            reason: None,
        }
    }

    fn or_stricter(self, other: Self) -> Self {
        if other.verdict > self.verdict {
            other
        } else {
            self
        }
    }

    /// An allow becomes an ask because of `sentinel`.
    fn lifted(self, sentinel: &'a str) -> Self {
        if self.verdict > Verdict::Allow {
            return self;
        }
        Self {
            verdict: Verdict::Ask,
            pattern: Some(sentinel),
            ..self
        }
    }

    fn into_judgement(self, matched: Vec<MatchedRule>) -> Judgement {
        let pattern = self.pattern.map(str::to_owned);
        Judgement {
            verdict: self.verdict,
            asked_because: match self.verdict {
                Verdict::Ask => pattern.clone(),
                Verdict::Allow | Verdict::Deny => None,
            },
            reason: match self.verdict {
                Verdict::Deny => self.reason.map(str::to_owned),
                Verdict::Allow | Verdict::Ask => None,
            },
            decided_by: match self.by {
                By::Rule(origin) => DecisionSource::Rule {
                    surface: self.surface.to_owned(),
                    pattern,
                    origin: Some(origin.name().to_owned()),
                },
                By::Grant => DecisionSource::SessionApproval {
                    surface: self.surface.to_owned(),
                    pattern,
                },
            },
            matched,
        }
    }
}

/// Where one ask is judged.
struct Bench<'a> {
    rules: &'a RuleSet,
    grants: &'a SessionRules,
    unit: Option<usize>,
    matched: Vec<MatchedRule>,
}

impl<'a> Bench<'a> {
    /// The ask itself. A bare family is both of its directions.
    fn ask(&mut self, intent: &'a ForwardedAccessIntent) -> Finding<'a> {
        let asked = intent.surface.as_str();
        let values: &[String] = &intent.match_values;
        let floor = intent.floor.as_deref();
        let Some([read, write]) = family_members(asked) else {
            let found = self.surface(asked, asked, values, floor);
            return self.boundary(asked, asked, intent, found);
        };
        let reading = self.surface(asked, read, values, floor);
        let writing = self.surface(asked, write, values, floor);
        let found = reading.or_stricter(writing);
        let found = self.boundary(asked, read, intent, found);
        self.boundary(asked, write, intent, found)
    }

    /// The canonical path, should it be missing among the spellings: it can only deny.
    fn boundary(
        &mut self,
        asked: &'a str,
        judged: &str,
        intent: &'a ForwardedAccessIntent,
        found: Finding<'a>,
    ) -> Finding<'a> {
        match &intent.boundary_value {
            Some(path) if is_path_surface(judged) && !intent.match_values.contains(path) => {
                self.or_denied(asked, judged, path, found)
            }
            Some(_) | None => found,
        }
    }

    /// Judges `values` by what holds for `judged`, and says it of `asked`.
    fn surface<S: AsRef<str>>(
        &mut self,
        asked: &'a str,
        judged: &'a str,
        values: &[S],
        floor: Option<&'a str>,
    ) -> Finding<'a> {
        let Some((first, others)) = values.split_first() else {
            // What is said about everything is said about this too, but only against it.
            let found = self.recorded(asked, judged, &["*"]);
            return if found.verdict == Verdict::Allow {
                Finding::unknown(asked)
            } else {
                found
            };
        };
        let found = if is_path_surface(judged) {
            self.recorded(asked, judged, values)
        } else {
            let mut found = self.recorded(asked, judged, std::slice::from_ref(first));
            for other in others {
                found = self.or_denied(asked, judged, other.as_ref(), found);
            }
            found
        };
        if found.verdict == Verdict::Deny {
            return found;
        }
        let form = form_of(judged, values);
        if let Some(grant) = self.grant(judged, values, form) {
            return Finding {
                verdict: Verdict::Allow,
                surface: asked,
                pattern: Some(grant.pattern().as_str()),
                by: By::Grant,
                reason: None,
            };
        }
        let found = match floor {
            Some(floor) => found.lifted(floor),
            None => found,
        };
        let found = match self.rules.yolo() {
            Switch::On if found.verdict == Verdict::Ask => Finding {
                verdict: Verdict::Allow,
                by: By::Rule(Origin::Yolo),
                ..found
            },
            Switch::On | Switch::Off => found,
        };
        match form {
            Form::Plain => found,
            Form::Opaque => found.lifted(SENTINEL_UNPARSEABLE_COMMAND),
        }
    }

    /// What the rules say: the last one that matches any of `values`.
    fn recorded<S: AsRef<str>>(
        &mut self,
        asked: &'a str,
        judged: &str,
        values: &[S],
    ) -> Finding<'a> {
        let rules = self.rules;
        let mut last = None;
        rules.for_surface(judged, |rule| {
            if values
                .iter()
                .any(|value| rule.pattern.matches(value.as_ref()))
            {
                self.matched.push(MatchedRule {
                    unit: self.unit,
                    matched: Matched::Rule(Arc::clone(rule)),
                });
                last = Some(rule);
            }
        });
        match last {
            Some(rule) => Finding {
                verdict: rule.verdict,
                surface: asked,
                // What comes along with another rule has no pattern that anybody wrote.
                pattern: (rule.origin != Origin::Baseline).then(|| rule.pattern.as_str()),
                by: By::Rule(rule.origin),
                reason: rule.reason.as_deref(),
            },
            None => {
                let (verdict, origin) = rules.default_verdict();
                Finding {
                    verdict,
                    surface: asked,
                    pattern: None,
                    by: By::Rule(origin),
                    reason: None,
                }
            }
        }
    }

    /// `found`, unless the rules deny `value`.
    fn or_denied(
        &mut self,
        asked: &'a str,
        judged: &str,
        value: &str,
        found: Finding<'a>,
    ) -> Finding<'a> {
        let other = self.recorded(asked, judged, &[value]);
        if other.verdict == Verdict::Deny {
            found.or_stricter(other)
        } else {
            found
        }
    }

    /// The newest grant that covers `values`.
    fn grant<S: AsRef<str>>(
        &mut self,
        judged: &'a str,
        values: &[S],
        form: Form,
    ) -> Option<&'a Arc<SessionGrant>> {
        let grants = self.grants;
        let covered = |grant: &SessionGrant| {
            let pattern = grant.pattern();
            match form {
                // A person approved this very text, so it need not be understood.
                Form::Opaque => {
                    pattern.is_literal()
                        && values
                            .iter()
                            .all(|value| value.as_ref() == pattern.as_str())
                }
                Form::Plain if is_path_surface(judged) => {
                    values.iter().any(|value| pattern.matches(value.as_ref()))
                }
                Form::Plain => values
                    .first()
                    .is_some_and(|value| pattern.matches(value.as_ref())),
            }
        };
        let mut newest = None;
        for grant in grants.for_surface(judged) {
            if covered(grant) {
                self.matched.push(MatchedRule {
                    unit: self.unit,
                    matched: Matched::Grant(Arc::clone(grant)),
                });
                newest = Some(grant);
            }
        }
        newest
    }
}

/// Whether it is known what a value would do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// One thing, as it stands there.
    Plain,
    /// A command line that may run more than the command it begins with.
    Opaque,
}

fn form_of<S: AsRef<str>>(surface: &str, values: &[S]) -> Form {
    let opaque = surface == BASH_SURFACE
        && values
            .iter()
            .any(|value| !is_one_simple_command(value.as_ref()));
    if opaque { Form::Opaque } else { Form::Plain }
}

/// Whether a command line certainly holds one command, without operators, redirections, substitutions or groups. It is told
/// from single characters, so quoted ones count as well: that errs on the side of asking.
fn is_one_simple_command(command: &str) -> bool {
    !command.contains([';', '&', '|', '`', '<', '>', '(', '{', '\n', '\r', '\0'])
}
