//! What the recorded authority says about one ask, and why.
//!
//! An ask is judged on the facts that its requester fixed, and on nothing else: no path is resolved here, no display text is
//! looked at, and an ask without facts is put to somebody. Each surface, and each unit of a command line that the requester
//! left asking, is judged by itself; the strictest of them is the verdict.
//!
//! One surface is judged in this order: a deny of the rules; a grant of the session; the rules' own verdict, lifted from allow
//! to ask by a floor; the switch that turns an ask into an allow; and what no rule may allow, because nobody knows what it
//! would do. At the very end, an ask to read what belongs to the host itself is allowed (see [`super::infrastructure`]). A command line is taken apart before (see [`super::command`]).
//!
//! This module asks nobody and records nothing.
//!
//! # Invariants
//!
//! * An allow needs a rule or a grant that matches, the switch, or a directory of the host; everything else is at least an ask.
//! * Text that differs from the bytes on disk is never allowed, and neither is what its requester says no rule was held against.
//! * What is denied or asked as a command is so outside of the sandbox as well.

use std::sync::Arc;

use super::config::Switch;
use super::pattern::Pattern;
use super::rules::{Origin, Policy, Rule, RuleSet, Verdict};
use super::session_grant::{GrantId, SessionGrant};
use super::session_rules::Grants;
use super::trace::{Explained, Part, SaidFloor, Step, Trace};
use super::{
    BASH_SURFACE, OUTSIDE_SANDBOX_SURFACE, family_members, is_command_surface, is_path_surface,
};
use crate::shell::Floor;
use crate::wire::{
    DecisionSource, ForwardedAccessIntent, PromptPayload, SENTINEL_LOSSY_TEXT,
    SENTINEL_OUTSIDE_SANDBOX, is_unseen,
};

/// What is to be judged.
#[derive(Debug, Clone, Copy)]
pub struct Question<'a> {
    /// The facts of the ask; without them nothing is ever allowed or denied.
    pub intent: Option<&'a ForwardedAccessIntent>,
    /// Whether the text is what stands on disk.
    pub text: TextFidelity,
    /// The complete facts, where there are any. No rule looks at them; they tell whether an ask only reads.
    pub payload: Option<&'a PromptPayload>,
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
    /// What decided. Of an ask it names what asks, and is no decision; without facts its surface is empty.
    pub decided_by: DecisionSource,
    /// Reason of the deny rule that decided.
    pub reason: Option<String>,
    /// Of an ask: the pattern that asks, or the sentinel that lifted an allow. `None` where no rule matched.
    pub asked_because: Option<String>,
    /// Whether anything was said about it: by a rule, a grant, the switch. Where not, the verdict is merely what holds where nobody said
    /// anything.
    pub is_said: bool,
    /// Everything that matched, in the order in which it was tried.
    pub matched: Vec<MatchedRule>,
    /// Of an allow: the grants that it rests on, one for each part of the ask that a grant allows. If one of them is gone, the ask
    /// has to be judged again.
    pub rests_on: Vec<GrantId>,
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

    /// The rule, unless it is a grant.
    pub fn rule(&self) -> Option<Arc<Rule>> {
        match &self.matched {
            Matched::Rule(rule) => Some(Arc::clone(rule)),
            Matched::Grant(_) => None,
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
    pub fn judge<'g>(
        &'g self,
        question: &Question<'g>,
        grants: impl Into<Grants<'g>>,
    ) -> Judgement {
        self.judged(question, grants.into(), Trace::default())
            .judgement
    }

    /// The same, with the way to it.
    pub fn explain<'g>(
        &'g self,
        question: &Question<'g>,
        grants: impl Into<Grants<'g>>,
    ) -> Explained {
        self.judged(question, grants.into(), Trace::noting())
    }

    fn judged<'g>(
        &'g self,
        question: &Question<'g>,
        grants: Grants<'g>,
        mut trace: Trace,
    ) -> Explained {
        let Some(intent) = question.intent else {
            trace.note(|| Step::NoFacts);
            let mut judgement = Finding::unknown("").into_judgement(Vec::new(), Vec::new());
            // Without facts nobody knows what is said about it.
            judgement.is_said = true;
            return Explained {
                judgement,
                rule: None,
                steps: trace.into_steps(),
            };
        };
        let agent = intent.principal.agent_name.as_str();
        let rules = self.rules_for(agent);
        trace.note(|| Step::Agent {
            name: agent.to_owned(),
            has_own: self.knows_agent(agent),
            is_clamped: rules.is_clamped(),
        });
        let mut bench = Bench {
            rules,
            grants,
            unit: None,
            matched: Vec::new(),
            rests_on: Vec::new(),
            trace,
        };
        let mut found = bench.ask(intent);
        let of_units = match intent.surface.as_str() {
            surface if is_command_surface(surface) => surface,
            _ => BASH_SURFACE,
        };
        for (place, unit) in intent.asking_units.iter().flatten().enumerate() {
            bench.unit = Some(place);
            bench.trace.note(|| {
                Step::Begin(Part::AskingUnit {
                    place,
                    command: unit.command.clone(),
                })
            });
            let values = [unit.command.as_str()];
            let said = bench.surface(of_units, of_units, &values, unit.floor.as_deref());
            bench.trace.note(|| Step::End(said.verdict));
            found = found.or_stricter(said);
        }
        let unseen = intent.floor.as_deref().filter(|floor| is_unseen(floor));
        if question.text == TextFidelity::Replaced {
            bench.trace.note(|| Step::LossyText);
            found = found.lifted(SENTINEL_LOSSY_TEXT);
        } else if let Some(unseen) = unseen {
            // Whatever a grant or the switch has made of it: no deny was tried against all of it.
            found = bench.lifted_by(found, unseen);
        } else if found.verdict == Verdict::Ask
            && rules.infrastructure().covers(intent, question.payload)
        {
            bench.trace.note(|| Step::Infrastructure);
            found = Finding {
                verdict: Verdict::Allow,
                pattern: None,
                by: By::Infrastructure,
                rule: None,
                ..found
            };
            bench.rests_on.clear();
        }
        Explained {
            rule: found.rule.map(Arc::clone),
            judgement: found.into_judgement(bench.matched, bench.rests_on),
            steps: bench.trace.into_steps(),
        }
    }
}

/// What one surface, or one unit, comes to.
pub(super) struct Finding<'a> {
    pub(super) verdict: Verdict,
    surface: &'a str,
    /// Pattern or sentinel that stands behind the verdict.
    pattern: Option<&'a str>,
    by: By,
    reason: Option<&'a str>,
    /// The rule that says so, or that said so before it was lifted or undone.
    rule: Option<&'a Arc<Rule>>,
}

#[derive(Clone, Copy)]
pub(super) enum By {
    Rule(Origin),
    Grant,
    /// The switch, on what the pattern asks.
    Yolo,
    Infrastructure,
}

impl<'a> Finding<'a> {
    /// Nobody said anything.
    pub(super) fn unknown(surface: &'a str) -> Self {
        Self {
            verdict: Verdict::Ask,
            surface,
            pattern: None,
            by: By::Rule(Origin::Builtin),
            reason: None,
            rule: None,
        }
    }

    /// This rule is the last that matches.
    fn ruled(surface: &'a str, rule: &'a Arc<Rule>) -> Self {
        Self {
            verdict: rule.verdict,
            surface,
            // What comes along with another rule has no pattern that anybody wrote.
            pattern: (rule.origin != Origin::Baseline).then(|| rule.pattern.as_str()),
            by: By::Rule(rule.origin),
            reason: rule.reason.as_deref(),
            rule: Some(rule),
        }
    }

    /// A grant covers it.
    pub(super) fn granted(surface: &'a str, grant: &'a SessionGrant) -> Self {
        Self {
            verdict: Verdict::Allow,
            surface,
            pattern: Some(grant.pattern().as_str()),
            by: By::Grant,
            reason: None,
            rule: None,
        }
    }

    pub(super) fn or_stricter(self, other: Self) -> Self {
        if other.verdict > self.verdict {
            other
        } else {
            self
        }
    }

    /// An allow becomes an ask because of `sentinel`.
    pub(super) fn lifted(self, sentinel: &'a str) -> Self {
        if self.verdict > Verdict::Allow {
            return self;
        }
        Self {
            verdict: Verdict::Ask,
            pattern: Some(sentinel),
            // A grant that was lifted approves nothing, so it is not credited as one.
            by: match self.by {
                By::Rule(origin) => By::Rule(origin),
                By::Grant => By::Rule(Origin::Session),
                // Nor is the switch, where it is not enough.
                By::Yolo | By::Infrastructure => By::Rule(Origin::Yolo),
            },
            ..self
        }
    }

    fn into_judgement(self, matched: Vec<MatchedRule>, mut rests_on: Vec<GrantId>) -> Judgement {
        let pattern = self.pattern.map(str::to_owned);
        if self.verdict != Verdict::Allow {
            rests_on.clear();
        }
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
                By::Yolo => DecisionSource::Yolo { pattern },
                By::Infrastructure => DecisionSource::InfrastructureRead,
            },
            is_said: self.rule.is_some()
                || self.pattern.is_some()
                || !matches!(self.by, By::Rule(_))
                || matched.iter().any(|said| said.verdict() == Verdict::Ask),
            matched,
            rests_on,
        }
    }
}

fn owned<S: AsRef<str>>(values: &[S]) -> Vec<String> {
    let values = values.iter();
    values.map(|value| value.as_ref().to_owned()).collect()
}

/// Where one ask is judged.
pub(super) struct Bench<'a> {
    pub(super) rules: &'a RuleSet,
    grants: Grants<'a>,
    unit: Option<usize>,
    matched: Vec<MatchedRule>,
    /// The grants that have allowed something so far.
    pub(super) rests_on: Vec<GrantId>,
    pub(super) trace: Trace,
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
        self.trace.note(|| {
            Step::Begin(Part::Surface {
                surface: judged.to_owned(),
                values: owned(values),
            })
        });
        let found = self.values(asked, judged, values, floor);
        self.trace.note(|| Step::End(found.verdict));
        found
    }

    fn values<S: AsRef<str>>(
        &mut self,
        asked: &'a str,
        judged: &'a str,
        values: &[S],
        floor: Option<&'a str>,
    ) -> Finding<'a> {
        let Some((first, others)) = values.split_first() else {
            self.trace.note(|| Step::NoValue);
            // What is said about everything is said about this too, but only against it.
            let found = self.recorded(asked, judged, &["*"]);
            return if found.verdict == Verdict::Allow {
                Finding::unknown(asked)
            } else {
                found
            };
        };
        if is_command_surface(judged) {
            // Of what says so itself, this is judged here, with the rules that are about it.
            let floor = floor.filter(|floor| {
                judged != OUTSIDE_SANDBOX_SURFACE || *floor != SENTINEL_OUTSIDE_SANDBOX
            });
            let found = self.command_lines(asked, judged, values, floor);
            return if judged == OUTSIDE_SANDBOX_SURFACE {
                self.or_within(values, found)
            } else {
                found
            };
        }
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
        if let Some(grant) = self.grant(judged, |pattern| {
            if is_path_surface(judged) {
                values.iter().any(|value| pattern.matches(value.as_ref()))
            } else {
                pattern.matches(first.as_ref())
            }
        }) {
            return Finding::granted(asked, grant);
        }
        let found = match floor {
            Some(floor) => self.lifted_by(found, floor),
            None => found,
        };
        self.switched(found)
    }

    /// `found` of commands that leave the sandbox, or what rules say against them as commands: a deny, or an ask that no grant for the
    /// command answers. What holds for everything else says nothing here.
    fn or_within<S: AsRef<str>>(&mut self, values: &[S], found: Finding<'a>) -> Finding<'a> {
        if found.verdict == Verdict::Deny {
            return found;
        }
        let (before, rested) = (self.matched.len(), self.rested());
        self.trace.note(|| {
            Step::Begin(Part::Surface {
                surface: BASH_SURFACE.to_owned(),
                values: owned(values),
            })
        });
        let grants = std::mem::replace(&mut self.grants, Grants::NONE);
        let mut within = self.command_lines(BASH_SURFACE, BASH_SURFACE, values, None);
        self.grants = grants;
        let matched = self.matched.get(before..).unwrap_or_default();
        let is_said = within.verdict > Verdict::Allow
            && matched.iter().any(|it| it.verdict() == within.verdict);
        if is_said && within.verdict == Verdict::Ask {
            within = self.command_lines(BASH_SURFACE, BASH_SURFACE, values, None);
        }
        self.trace.note(|| Step::End(within.verdict));
        if !is_said {
            self.matched.truncate(before);
            return found;
        }
        if within.verdict != Verdict::Allow {
            let _counts_for_nothing = self.rests_on_since(rested);
        }
        found.or_stricter(within)
    }

    /// An allow becomes an ask because of what the requester says.
    pub(super) fn lifted_by(&mut self, found: Finding<'a>, sentinel: &'a str) -> Finding<'a> {
        self.note_floor(SaidFloor::Requester, sentinel.to_owned(), found.verdict);
        found.lifted(sentinel)
    }

    /// An allow becomes an ask because of what was read.
    pub(super) fn lifted_for(&mut self, found: Finding<'a>, floor: Floor) -> Finding<'a> {
        self.note_floor(SaidFloor::Reading, floor, found.verdict);
        found.lifted(floor.sentinel())
    }

    fn note_floor<F>(&mut self, said: impl FnOnce(F) -> SaidFloor, floor: F, found: Verdict) {
        self.trace.note(|| Step::Floor {
            floor: said(floor),
            lifts: found == Verdict::Allow,
        });
    }

    /// What the switch makes of it.
    pub(super) fn switched(&mut self, found: Finding<'a>) -> Finding<'a> {
        match self.rules.yolo() {
            Switch::On if found.verdict == Verdict::Ask => {
                self.trace.note(|| Step::Switch);
                Finding {
                    verdict: Verdict::Allow,
                    by: By::Yolo,
                    ..found
                }
            }
            Switch::On | Switch::Off => found,
        }
    }

    /// What the rules say: the last one that matches any of `values`.
    pub(super) fn recorded<S: AsRef<str>>(
        &mut self,
        asked: &'a str,
        judged: &str,
        values: &[S],
    ) -> Finding<'a> {
        let rules = self.rules;
        let before = self.matched.len();
        let mut last = None;
        rules.matching(judged, values, |rule| {
            self.matched.push(MatchedRule {
                unit: self.unit,
                matched: Matched::Rule(Arc::clone(rule)),
            });
            last = Some(rule);
        });
        let (default, builtin) = rules.default_verdict();
        let (says, origin) = last.map_or((default, builtin), |rule| (rule.verdict, rule.origin));
        let matched = self.matched.get(before..).unwrap_or_default();
        self.trace.note(|| Step::Rules {
            values: owned(values),
            matched: matched.iter().filter_map(MatchedRule::rule).collect(),
            says,
            origin,
        });
        let found = match last {
            Some(rule) => Finding::ruled(asked, rule),
            None => Finding {
                verdict: default,
                by: By::Rule(builtin),
                ..Finding::unknown(asked)
            },
        };
        let is_named = last.is_some_and(|rule| *rule.surface == *judged);
        if judged == OUTSIDE_SANDBOX_SURFACE && found.verdict == Verdict::Allow && !is_named {
            return self.lifted_by(found, SENTINEL_OUTSIDE_SANDBOX);
        }
        found
    }

    /// `found`, or what a rule says about the same command in another spelling, where that is stricter. A rule that covers both
    /// spellings has had its say: another one, behind it, decided.
    pub(super) fn or_evaded(
        &mut self,
        (asked, judged): (&'a str, &str),
        command: &str,
        spelling: &str,
        found: Finding<'a>,
    ) -> Finding<'a> {
        let rules = self.rules;
        let mut last = None;
        rules.matching(judged, &[spelling], |rule| last = Some(rule));
        let Some(rule) = last.filter(|rule| !rule.pattern.matches(command)) else {
            return found;
        };
        self.trace.note(|| Step::Spelling {
            text: spelling.to_owned(),
            rule: Arc::clone(rule),
            counts: rule.verdict > found.verdict,
        });
        if rule.verdict > found.verdict {
            self.matched.push(MatchedRule {
                unit: self.unit,
                matched: Matched::Rule(Arc::clone(rule)),
            });
        }
        found.or_stricter(Finding::ruled(asked, rule))
    }

    /// `found`, unless the rules deny `value`.
    pub(super) fn or_denied(
        &mut self,
        asked: &'a str,
        judged: &str,
        value: &str,
        found: Finding<'a>,
    ) -> Finding<'a> {
        self.trace.note(|| {
            Step::Begin(Part::Against {
                value: value.to_owned(),
            })
        });
        let other = self.recorded(asked, judged, &[value]);
        self.trace.note(|| Step::End(other.verdict));
        if other.verdict == Verdict::Deny {
            found.or_stricter(other)
        } else {
            found
        }
    }

    /// The grant on a surface whose pattern covers what is asked: the newest, and of those whose uses are counted none where
    /// another one covers it.
    pub(super) fn grant(
        &mut self,
        judged: &'a str,
        covers: impl Fn(&Pattern) -> bool,
    ) -> Option<&'a Arc<SessionGrant>> {
        let grants = self.grants;
        let mut best: Option<&'a Arc<SessionGrant>> = None;
        for grant in grants.for_surface(judged) {
            if covers(grant.pattern()) {
                self.matched.push(MatchedRule {
                    unit: self.unit,
                    matched: Matched::Grant(Arc::clone(grant)),
                });
                let is_better = best
                    .is_none_or(|best| grant.uses_left().is_none() || best.uses_left().is_some());
                if is_better {
                    best = Some(grant);
                }
            }
        }
        if let Some(grant) = best {
            self.trace.note(|| Step::Grant(Arc::clone(grant)));
        }
        if let Some(grant) = best
            && !self.rests_on.contains(&grant.id())
        {
            self.rests_on.push(grant.id());
        }
        best
    }

    /// How many grants the ask rests on so far; see [`Bench::rests_on_since`].
    pub(super) fn rested(&self) -> usize {
        self.rests_on.len()
    }

    /// Takes out the grants that it rests on since then: what was judged since counts for nothing, or otherwise.
    pub(super) fn rests_on_since(&mut self, rested: usize) -> Vec<GrantId> {
        self.rests_on.split_off(rested.min(self.rests_on.len()))
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::option;
    use proptest::prelude::*;

    use super::*;
    use crate::policy::{
        AgentLayer, AgentOwner, GrantTerms, LayerRules, Layers, Lifetime, Pattern, PatternRule,
        PermissionMap, SessionRules, SurfaceRules,
    };
    use crate::wire::{ApprovalGrant, AskingUnit, GrantWidth, Principal};

    const SURFACES: [&str; 13] = [
        "bash",
        "outside_sandbox",
        "read",
        "edit",
        "path",
        "path_read",
        "path_write",
        "external_directory",
        "external_directory_read",
        "mcp",
        "tool",
        "to*",
        "*_read",
    ];
    const PATTERNS: [&str; 16] = [
        "*", "a", "a*", "b", "*b", "a ?", "a *", "a;b", "?b", "*a*", "mcp_*", "b *", "* b",
        "a* b*", "?", "a && b",
    ];
    const VALUES: [&str; 8] = ["a", "b", "a b", "ab", "a;b", "a && b", "*", "mcp_status"];

    fn pick(from: &'static [&'static str]) -> impl Strategy<Value = String> {
        proptest::sample::select(from).prop_map(str::to_owned)
    }

    fn verdict() -> impl Strategy<Value = Verdict> {
        proptest::sample::select(&[Verdict::Allow, Verdict::Ask, Verdict::Deny][..])
    }

    fn surface_rules() -> impl Strategy<Value = SurfaceRules> {
        prop_oneof![
            verdict().prop_map(SurfaceRules::Whole),
            vec((pick(&PATTERNS), verdict()), 0..14).prop_map(|rules| {
                let mut patterns: Vec<PatternRule> = Vec::new();
                for (pattern, verdict) in rules {
                    patterns.retain(|rule| rule.pattern != pattern);
                    patterns.push(PatternRule {
                        pattern,
                        verdict,
                        reason: None,
                        position: None,
                    });
                }
                SurfaceRules::Patterns(patterns)
            }),
        ]
    }

    fn map() -> impl Strategy<Value = PermissionMap> {
        let surfaces = vec((pick(&SURFACES), surface_rules()), 0..6);
        (option::of(verdict()), surfaces).prop_map(|(default, rules)| {
            let mut surfaces: Vec<(String, SurfaceRules)> = Vec::new();
            if let Some(verdict) = default {
                surfaces.push(("*".to_owned(), SurfaceRules::Whole(verdict)));
            }
            for (surface, rules) in rules {
                surfaces.retain(|(key, _)| *key != surface);
                surfaces.push((surface, rules));
            }
            of(surfaces)
        })
    }

    fn of(surfaces: Vec<(String, SurfaceRules)>) -> PermissionMap {
        PermissionMap {
            surfaces,
            ..PermissionMap::default()
        }
    }

    fn unit() -> impl Strategy<Value = AskingUnit> {
        (pick(&VALUES), option::of(pick(&["<floor>"])))
            .prop_map(|(command, floor)| AskingUnit { command, floor })
    }

    fn intent() -> impl Strategy<Value = ForwardedAccessIntent> {
        (
            pick(&SURFACES),
            vec(pick(&VALUES), 0..4),
            option::of(pick(&VALUES)),
            option::of(pick(&["<floor>"])),
            option::of(vec(unit(), 1..3)),
            pick(&["scout", "other"]),
        )
            .prop_map(
                |(surface, match_values, boundary_value, floor, asking_units, agent_name)| {
                    ForwardedAccessIntent {
                        surface,
                        match_values,
                        boundary_value,
                        requester_cwd: "/w".to_owned(),
                        principal: Principal {
                            session_id: "C".to_owned(),
                            agent_name,
                        },
                        floor,
                        asking_units,
                    }
                },
            )
    }

    fn command(value: &str) -> ForwardedAccessIntent {
        ForwardedAccessIntent {
            surface: "bash".to_owned(),
            match_values: vec![value.to_owned()],
            boundary_value: None,
            requester_cwd: String::new(),
            principal: Principal {
                session_id: String::new(),
                agent_name: "scout".to_owned(),
            },
            floor: None,
            asking_units: None,
        }
    }

    fn grants() -> impl Strategy<Value = SessionRules> {
        let width = proptest::sample::select(&[GrantWidth::Proven, GrantWidth::Family][..]);
        vec((pick(&SURFACES), pick(&PATTERNS), width), 0..4).prop_map(|grants| {
            let mut rules = SessionRules::new(None);
            for (surface, pattern, width) in grants {
                rules.record(&[ApprovalGrant { surface, pattern }], width);
            }
            rules
        })
    }

    fn yolo() -> impl Strategy<Value = Switch> {
        proptest::sample::select(&[Switch::Off, Switch::Off, Switch::On][..])
    }

    fn policy(map: &PermissionMap, scout: &PermissionMap, yolo: Switch) -> Policy {
        Policy::from_layers(&Layers {
            global: LayerRules::Rules(map),
            agents: vec![AgentLayer {
                agent: "scout",
                owner: AgentOwner::User,
                rules: LayerRules::Rules(scout),
            }],
            yolo,
            ..Layers::default()
        })
    }

    fn verdict_of(
        policy: &Policy,
        intent: &ForwardedAccessIntent,
        grants: &SessionRules,
    ) -> Verdict {
        judged(policy, intent, TextFidelity::Exact, grants).verdict
    }

    fn judged(
        policy: &Policy,
        intent: &ForwardedAccessIntent,
        text: TextFidelity,
        grants: &SessionRules,
    ) -> Judgement {
        let question = Question {
            intent: Some(intent),
            text,
            payload: None,
        };
        policy.judge(&question, grants)
    }

    /// The map with one more deny, behind everything that is said about the surface.
    fn denying(map: &PermissionMap, surface: &str, pattern: &str) -> PermissionMap {
        let deny = PatternRule {
            pattern: pattern.to_owned(),
            verdict: Verdict::Deny,
            reason: None,
            position: None,
        };
        let mut surfaces = map.surfaces.clone();
        match surfaces.iter_mut().find(|(key, _)| key == surface) {
            Some((_, rules)) => {
                let mut patterns = match rules {
                    SurfaceRules::Whole(verdict) => vec![PatternRule {
                        pattern: "*".to_owned(),
                        verdict: *verdict,
                        reason: None,
                        position: None,
                    }],
                    SurfaceRules::Patterns(patterns) => patterns.clone(),
                };
                patterns.retain(|rule| rule.pattern != pattern);
                patterns.push(deny);
                *rules = SurfaceRules::Patterns(patterns);
            }
            None => surfaces.push((surface.to_owned(), SurfaceRules::Patterns(vec![deny]))),
        }
        of(surfaces)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(512))]

        #[test]
        fn another_deny_never_allows_more(
            map in map(), scout in map(), yolo in yolo(), intent in intent(), grants in grants(),
            surface in pick(&SURFACES), pattern in pick(&PATTERNS),
        ) {
            let before = policy(&map, &scout, yolo);
            let in_base = policy(&denying(&map, &surface, &pattern), &scout, yolo);
            let in_agent = policy(&map, &denying(&scout, &surface, &pattern), yolo);
            let verdict = verdict_of(&before, &intent, &grants);
            if intent.principal.agent_name != "scout" {
                prop_assert!(verdict_of(&in_base, &intent, &grants) >= verdict);
            }
            // An agent that had nothing to say about a surface may now take it over from the base, as any layer does: there
            // only the new deny itself is promised.
            let said = scout.get(&surface).is_some_and(|said| matches!(said, SurfaceRules::Patterns(_)));
            if said {
                prop_assert!(verdict_of(&in_agent, &intent, &grants) >= verdict);
            }
        }

        #[test]
        fn another_unit_never_allows_more(
            map in map(), scout in map(), yolo in yolo(), intent in intent(), grants in grants(), unit in unit(),
        ) {
            let policy = policy(&map, &scout, yolo);
            let mut more = intent.clone();
            more.asking_units.get_or_insert_default().push(unit);
            prop_assert!(verdict_of(&policy, &more, &grants) >= verdict_of(&policy, &intent, &grants));
        }

        #[test]
        fn a_floor_never_allows_more(
            map in map(), scout in map(), yolo in yolo(), intent in intent(), grants in grants(),
        ) {
            let policy = policy(&map, &scout, yolo);
            let without = ForwardedAccessIntent { floor: None, ..intent.clone() };
            let with = ForwardedAccessIntent { floor: Some("<x>".to_owned()), ..intent };
            prop_assert!(verdict_of(&policy, &with, &grants) >= verdict_of(&policy, &without, &grants));
        }

        #[test]
        fn replaced_text_is_never_allowed(
            map in map(), scout in map(), yolo in yolo(), intent in intent(), grants in grants(),
        ) {
            let policy = policy(&map, &scout, yolo);
            let exact = judged(&policy, &intent, TextFidelity::Exact, &grants);
            let replaced = judged(&policy, &intent, TextFidelity::Replaced, &grants);
            prop_assert!(replaced.verdict >= exact.verdict.max(Verdict::Ask));
            if exact.verdict == Verdict::Allow {
                prop_assert_eq!(replaced.asked_because.as_deref(), Some(SENTINEL_LOSSY_TEXT));
            }
        }

        #[test]
        fn without_a_grant_a_broken_layer_allows_nothing(
            map in map(), scout in map(), yolo in yolo(), intent in intent(), grants in grants(),
        ) {
            let none = SessionRules::default();
            let whole = policy(&map, &scout, yolo);
            let clamped = whole.clone().clamped();
            prop_assert!(verdict_of(&clamped, &intent, &none) > Verdict::Allow);
            prop_assert!(verdict_of(&clamped, &intent, &grants) >= verdict_of(&whole, &intent, &grants));
            let broken = Policy::from_layers(&Layers {
                global: LayerRules::Rules(&map),
                project: LayerRules::Unreadable,
                yolo,
                ..Layers::default()
            });
            prop_assert!(verdict_of(&broken, &intent, &none) > Verdict::Allow);
        }

        #[test]
        fn the_switch_lifts_asks_only(
            map in map(), scout in map(), intent in intent(), grants in grants(),
        ) {
            let off = verdict_of(&policy(&map, &scout, Switch::Off), &intent, &grants);
            let on = verdict_of(&policy(&map, &scout, Switch::On), &intent, &grants);
            prop_assert!(on <= off);
            prop_assert_eq!(on == Verdict::Deny, off == Verdict::Deny);
        }

        #[test]
        fn a_line_is_allowed_as_far_as_each_of_its_commands_is(
            map in map(), scout in map(), yolo in yolo(), grants in grants(), line in pick(&["a;b", "a && b", "(a); b"]),
        ) {
            let policy = policy(&map, &scout, yolo);
            let said = |value: &str| judged(&policy, &command(value), TextFidelity::Exact, &grants);
            let judgement = said(&line);
            let granted = DecisionSource::SessionApproval {
                surface: "bash".to_owned(),
                pattern: Some(line.clone()),
            };
            if judgement.decided_by != granted {
                let parts = said("a").verdict.max(said("b").verdict);
                prop_assert!(judgement.verdict >= parts);
                prop_assert!(judgement.verdict == parts || judgement.verdict == Verdict::Deny);
            }
        }

        #[test]
        fn another_command_on_the_line_never_allows_more(
            map in map(), scout in map(), yolo in yolo(), line in pick(&["a", "b", "a b", "sudo a", "a >x"]),
            more in pick(&["b", "a b", "$x", "eval a"]),
        ) {
            let policy = policy(&map, &scout, yolo);
            let none = SessionRules::default();
            let alone = verdict_of(&policy, &command(&line), &none);
            for joined in [format!("{line}; {more}"), format!("{more} | {line}"), format!("x=$({more}) {line}")] {
                prop_assert!(verdict_of(&policy, &command(&joined), &none) >= alone, "{joined}");
            }
        }

        #[test]
        fn an_allow_rests_on_the_grants_that_it_names_and_on_no_others(
            map in map(), scout in map(), yolo in yolo(), intent in intent(), grants in grants(), counted in grants(),
            line in option::of(pick(&["a;b", "a && b", "(a); b", "eval a; b"])),
        ) {
            let policy = policy(&map, &scout, yolo);
            let intent = match line {
                Some(line) => command(&line),
                None => intent,
            };
            // Some of them are counted.
            let mut all = grants;
            for grant in counted.list() {
                let suggested = [ApprovalGrant {
                    surface: grant.surface().to_owned(),
                    pattern: grant.pattern().as_str().to_owned(),
                }];
                let terms = GrantTerms { lifetime: Lifetime::Uses(3), ..GrantTerms::default() };
                let plan = all.plan(&suggested, GrantWidth::Proven, &terms);
                plan.new.into_iter().for_each(|grant| all.put(grant));
            }
            let judgement = judged(&policy, &intent, TextFidelity::Exact, &all);
            let mut only = all.clone();
            let mut without = all.clone();
            for grant in all.list() {
                if judgement.rests_on.contains(&grant.id()) {
                    without.revoke(grant.id());
                } else {
                    only.revoke(grant.id());
                }
            }
            if judgement.verdict == Verdict::Allow {
                let again = judged(&policy, &intent, TextFidelity::Exact, &only);
                prop_assert_eq!(again.verdict, Verdict::Allow);
                prop_assert_eq!(&again.rests_on, &judgement.rests_on);
                let is_granted = matches!(judgement.decided_by, DecisionSource::SessionApproval { .. });
                prop_assert!(!is_granted || !judgement.rests_on.is_empty());
                if judgement.rests_on.is_empty() {
                    let none = SessionRules::default();
                    prop_assert_eq!(verdict_of(&policy, &intent, &none), Verdict::Allow);
                }
            } else {
                prop_assert!(judgement.rests_on.is_empty());
            }
        }

        /// The index finds what a walk over all rules finds, for an agent with rules of its own as well.
        #[test]
        fn the_last_rule_that_matches_decides(
            map in map(), scout in map(), surface in pick(&SURFACES), values in vec(pick(&VALUES), 0..4),
        ) {
            let policy = policy(&map, &scout, Switch::Off);
            for rules in [policy.rules_for("x"), policy.rules_for("scout"), policy.clone().clamped().rules_for("scout")] {
                let mut found = Vec::new();
                rules.matching(&surface, &values, |rule| found.push(Arc::clone(rule)));
                let wanted: Vec<_> = rules
                    .rules()
                    .filter(|rule| {
                        Pattern::compile(&rule.surface, None).matches(&surface)
                            && values.iter().any(|value| rule.pattern.matches(value))
                    })
                    .cloned()
                    .collect();
                prop_assert_eq!(found, wanted);
            }
        }

        #[test]
        fn an_explanation_is_of_the_same_judgement(
            map in map(), scout in map(), yolo in yolo(), intent in intent(), grants in grants(), replaced in any::<bool>(),
        ) {
            let policy = policy(&map, &scout, yolo);
            let text = if replaced { TextFidelity::Replaced } else { TextFidelity::Exact };
            let question = Question { intent: Some(&intent), text, payload: None };
            let explained = policy.explain(&question, &grants);
            prop_assert_eq!(&explained.judgement, &policy.judge(&question, &grants));
            // What is opened is closed, and the strictest of what is said is the verdict, but for what comes at the very end.
            let mut open = 0_usize;
            let mut said = Verdict::Allow;
            for step in &explained.steps {
                if matches!(step, Step::Begin(_)) {
                    open += 1;
                }
                if let Step::End(verdict) = step {
                    open -= 1;
                    if open == 0 {
                        said = said.max(*verdict);
                    }
                }
            }
            prop_assert_eq!(open, 0);
            if !replaced && !explained.steps.iter().any(|step| matches!(step, Step::Begin(Part::Against { .. }))) {
                prop_assert_eq!(said, explained.judgement.verdict);
            }
            if let DecisionSource::Rule { pattern: Some(pattern), .. } = &explained.judgement.decided_by
                && explained.judgement.asked_because.as_ref().is_none_or(|because| !because.starts_with('<'))
            {
                prop_assert_eq!(explained.rule.as_ref().map(|rule| rule.pattern.as_str()), Some(pattern.as_str()));
            }
        }

        #[test]
        fn outside_of_the_sandbox_an_allow_names_it(
            map in map(), scout in map(), intent in intent(), grants in grants(),
        ) {
            let intent = ForwardedAccessIntent { surface: OUTSIDE_SANDBOX_SURFACE.to_owned(), ..intent };
            let judgement = judged(&policy(&map, &scout, Switch::Off), &intent, TextFidelity::Exact, &grants);
            let names_it = |said: &MatchedRule| said.verdict() == Verdict::Allow && said.surface() == OUTSIDE_SANDBOX_SURFACE;
            prop_assert!(judgement.verdict != Verdict::Allow || judgement.matched.iter().any(names_it));
        }

        #[test]
        fn a_grant_never_beats_a_deny(
            map in map(), scout in map(), yolo in yolo(), intent in intent(), grants in grants(),
        ) {
            let policy = policy(&map, &scout, yolo);
            if verdict_of(&policy, &intent, &SessionRules::default()) == Verdict::Deny {
                prop_assert_eq!(verdict_of(&policy, &intent, &grants), Verdict::Deny);
            }
        }
    }

    #[test]
    fn what_is_said_of_everything_and_of_commands_lets_nothing_out_of_the_sandbox() {
        let patterns = |patterns: &[(&str, Verdict)]| {
            let rules = patterns.iter().map(|(pattern, verdict)| PatternRule {
                pattern: (*pattern).to_owned(),
                verdict: *verdict,
                reason: None,
                position: None,
            });
            SurfaceRules::Patterns(rules.collect())
        };
        let map = of(vec![
            ("*".to_owned(), SurfaceRules::Whole(Verdict::Allow)),
            ("bash".to_owned(), SurfaceRules::Whole(Verdict::Allow)),
            ("out*".to_owned(), SurfaceRules::Whole(Verdict::Allow)),
            (
                OUTSIDE_SANDBOX_SURFACE.to_owned(),
                patterns(&[("npm *", Verdict::Allow), ("curl *", Verdict::Deny)]),
            ),
        ]);
        let nobody = of(Vec::new());
        for (line, verdict) in [
            ("make", Verdict::Ask),
            ("npm test", Verdict::Allow),
            ("npm test; make", Verdict::Ask),
            ("npm test && npm run x", Verdict::Allow),
            ("npm test; curl x", Verdict::Deny),
        ] {
            for floor in [None, Some(SENTINEL_OUTSIDE_SANDBOX.to_owned())] {
                let mut intent = command(line);
                intent.surface = OUTSIDE_SANDBOX_SURFACE.to_owned();
                intent.floor.clone_from(&floor);
                let policy = policy(&map, &nobody, Switch::Off);
                let found = judged(
                    &policy,
                    &intent,
                    TextFidelity::Exact,
                    &SessionRules::default(),
                );
                assert_eq!(found.verdict, verdict, "{line} {floor:?}");
                if line == "make" {
                    let because = found.asked_because.as_deref();
                    assert_eq!(because, Some(SENTINEL_OUTSIDE_SANDBOX));
                }
            }
        }
        // The switch is said of every ask.
        let mut intent = command("make");
        intent.surface = OUTSIDE_SANDBOX_SURFACE.to_owned();
        let policy = policy(&map, &nobody, Switch::On);
        let found = judged(
            &policy,
            &intent,
            TextFidelity::Exact,
            &SessionRules::default(),
        );
        assert_eq!(found.verdict, Verdict::Allow);
    }

    #[test]
    fn what_is_denied_or_asked_as_a_command_is_so_outside_of_the_sandbox() {
        let rule = |pattern: &str, verdict| PatternRule {
            pattern: pattern.to_owned(),
            verdict,
            reason: None,
            position: None,
        };
        let rules = vec![
            rule("rm *", Verdict::Deny),
            rule("git*", Verdict::Ask),
            rule("git pull", Verdict::Allow),
        ];
        let map = of(vec![
            ("bash".to_owned(), SurfaceRules::Patterns(rules)),
            (
                OUTSIDE_SANDBOX_SURFACE.to_owned(),
                SurfaceRules::Whole(Verdict::Allow),
            ),
        ]);
        let nobody = of(Vec::new());
        let mut granted = SessionRules::default();
        let suggested = [ApprovalGrant {
            surface: "bash".to_owned(),
            pattern: "git push".to_owned(),
        }];
        let plan = granted.plan(&suggested, GrantWidth::Proven, &GrantTerms::default());
        plan.new.into_iter().for_each(|grant| granted.put(grant));
        let none = SessionRules::default();
        for (line, grants, yolo, verdict) in [
            ("make", &none, Switch::Off, Verdict::Allow),
            ("git pull", &none, Switch::Off, Verdict::Allow),
            ("rm x", &none, Switch::Off, Verdict::Deny),
            ("make; rm x", &granted, Switch::On, Verdict::Deny),
            ("git push", &none, Switch::Off, Verdict::Ask),
            ("make && git push", &none, Switch::Off, Verdict::Ask),
            ("git push", &granted, Switch::Off, Verdict::Allow),
            ("git push", &none, Switch::On, Verdict::Allow),
        ] {
            let mut intent = command(line);
            intent.surface = OUTSIDE_SANDBOX_SURFACE.to_owned();
            let found = judged(
                &policy(&map, &nobody, yolo),
                &intent,
                TextFidelity::Exact,
                grants,
            );
            assert_eq!(found.verdict, verdict, "{line}");
            let by_grant = line == "git push" && found.verdict == Verdict::Allow;
            let by_grant = by_grant && yolo == Switch::Off;
            assert_eq!(!found.rests_on.is_empty(), by_grant, "{line}");
        }
        // What holds for everything else is said of what names the surface only where nothing does.
        let map = of(vec![
            ("*".to_owned(), SurfaceRules::Whole(Verdict::Deny)),
            (
                OUTSIDE_SANDBOX_SURFACE.to_owned(),
                SurfaceRules::Whole(Verdict::Allow),
            ),
        ]);
        let mut intent = command("make");
        intent.surface = OUTSIDE_SANDBOX_SURFACE.to_owned();
        let found = judged(
            &policy(&map, &nobody, Switch::Off),
            &intent,
            TextFidelity::Exact,
            &none,
        );
        assert_eq!(found.verdict, Verdict::Allow);
    }

    #[test]
    fn what_no_rule_was_held_against_is_answered_by_nothing_that_was_said_beforehand() {
        let map = of(vec![("*".to_owned(), SurfaceRules::Whole(Verdict::Allow))]);
        let mut granted = SessionRules::default();
        let suggested = [ApprovalGrant {
            surface: "bash".to_owned(),
            pattern: "*".to_owned(),
        }];
        let plan = granted.plan(&suggested, GrantWidth::Proven, &GrantTerms::default());
        plan.new.into_iter().for_each(|grant| granted.put(grant));
        for sentinel in ["<input-unread>", "<too-many-files>"] {
            for yolo in [Switch::Off, Switch::On] {
                let mut intent = command("a; b");
                intent.floor = Some(sentinel.to_owned());
                let policy = policy(&map, &of(Vec::new()), yolo);
                let found = judged(&policy, &intent, TextFidelity::Exact, &granted);
                assert_eq!(found.verdict, Verdict::Ask);
                assert_eq!(found.asked_because.as_deref(), Some(sentinel));
                assert!(found.rests_on.is_empty());
            }
        }
    }

    #[test]
    fn without_facts_everything_is_asked() {
        let map = of(vec![("*".to_owned(), SurfaceRules::Whole(Verdict::Allow))]);
        for text in [TextFidelity::Exact, TextFidelity::Replaced] {
            let question = Question {
                intent: None,
                text,
                payload: None,
            };
            let judgement =
                policy(&map, &map, Switch::On).judge(&question, &SessionRules::default());
            assert_eq!(judgement.verdict, Verdict::Ask);
            assert_eq!(judgement.asked_because, None);
        }
    }
}
