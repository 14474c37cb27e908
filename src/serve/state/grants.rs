//! What a person grants here beyond one ask: planned with the answer, in force once it is kept, counted, and ended.
//!
//! ```text
//! Chosen ─▶ Answer ─▶ Delivered ─▶ KeepGrants ─▶ GrantsKept: in force ─▶ what waits is judged again
//!                                                    └─ its time, its last use, its file gone ─▶ logged, DropGrants
//! ```
//!
//! A grant is in force only once its answer has reached somebody and its file lies there. What policy allows by a grant is published
//! only while that grant is in force; where it is not any more, the ask is judged again.
//!
//! Invariants: a grant never outlives its lifetime by this session's own clock, and what the machine slept; each grant ends once, in the log; nothing is granted
//! by an answer that was not given here.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::again::Again;
use super::{Noted, Stage, State};
use crate::audit::{Entry, Event};
use crate::clock::Moment;
use crate::policy::{
    GrantId, GrantScope, GrantTerms, Grants, Lifetime, SessionGrant, Used, chain_of,
};
use crate::presentation::select::Choice;
use crate::prompt::Answerer;
use crate::serve::event::Effect;
use crate::spool::Candidate;
use crate::wire::{
    Decision, DecisionState, ForwardedPermissionRequest, GrantWidth, RequestId, UserSurface,
    lifetime_value, scope_value,
};

/// Why an answer that was recorded goes to nobody.
const RESTED: &str = "a grant that it rests on is not in force any more";

/// What somebody chose to grant along with an answer.
#[derive(Debug, Clone)]
pub(super) struct Granting {
    lifetime: Lifetime,
    given_by: Arc<str>,
}

/// When the grants end whose time is limited.
#[derive(Debug, Default)]
pub(super) struct GrantEnds(BTreeMap<GrantId, Moment>);

impl GrantEnds {
    /// When the next one does.
    pub(super) fn next(&self) -> Option<Moment> {
        self.0.values().min().copied()
    }
}

impl Granting {
    /// What a choice grants beyond the ask.
    pub(super) fn of(choice: &Choice, by: &Answerer) -> Option<Self> {
        let Choice::Session { lifetime, .. } = choice else {
            return None;
        };
        Some(Self {
            lifetime: *lifetime,
            given_by: match by {
                Answerer::Person(UserSurface::Dialog) => "dialog".into(),
                Answerer::Person(UserSurface::Select) => "select".into(),
                Answerer::Program(name) => Arc::clone(name),
            },
        })
    }
}

impl State {
    /// Records a grant that a server before this one gave, and that is taken over. `left` is how much of its time remains.
    pub fn take_over(&mut self, now: Moment, grant: SessionGrant, left: Option<Duration>) {
        if let Some(left) = left {
            self.grant_ends.0.insert(grant.id(), now.after(left));
        }
        self.grants.put(grant);
    }

    /// Gives no number up to this one to a grant: they were given before.
    pub fn skip_grants_to(&mut self, last: u64) {
        self.grants.skip_to(last);
    }

    /// Whether all of these grants are in force.
    pub fn are_in_force(&self, now: Moment, grants: &[GrantId]) -> bool {
        grants.iter().all(|id| {
            self.grants.get(*id).is_some()
                && self.grant_ends.0.get(id).is_none_or(|ends| *ends > now)
        })
    }

    /// The grants that an ask is judged by.
    pub(super) fn grants_for<'a>(&'a self, id: &RequestId, chain: &'a [String]) -> Grants<'a> {
        let distrusts = self.asks.get(id).is_some_and(|ask| ask.distrusts_grants);
        if distrusts {
            Grants::NONE
        } else {
            self.grants.seen_by(chain)
        }
    }

    /// Translates the scope of an approval into what is written and what is granted here. A grant for the whole serving session is
    /// recorded here and written as a plain approval. One for the requester is recorded by the requester itself; ours remember
    /// nothing, so it is recorded here for them, and for everybody where it ends before the session, which no requester would see
    /// to. The decider stays.
    ///
    /// It holds once the answer has reached somebody, for an answer to an ask that has gone decides nothing. What another session
    /// granted along with an answer that is only passed on is granted there.
    pub(super) fn translate_scope(
        &mut self,
        request: &ForwardedPermissionRequest,
        mut decision: Decision,
        granting: Option<Granting>,
        entries: &mut Vec<Entry>,
    ) -> (Decision, Vec<SessionGrant>) {
        let width = decision.width;
        let for_a_while = (granting.as_ref()).is_some_and(|it| it.lifetime != Lifetime::SessionEnd);
        let scope = match decision.state {
            DecisionState::ApprovedForServingSession => Some(GrantScope::ServingSession),
            DecisionState::ApprovedForSession if request.relay.is_some() || for_a_while => {
                Some(GrantScope::Subagent(chain_of(request)))
            }
            DecisionState::ApprovedForSession
            | DecisionState::Approved
            | DecisionState::Denied
            | DecisionState::DeniedWithReason => None,
        };
        if scope == Some(GrantScope::ServingSession) || for_a_while && scope.is_some() {
            decision.state = DecisionState::Approved;
            decision.width = GrantWidth::Proven;
        }
        let (Some(scope), Some(granting)) = (scope, granting) else {
            return (decision, Vec::new());
        };
        if request.grants.is_empty() {
            return (decision, Vec::new());
        }
        let terms = GrantTerms {
            scope,
            lifetime: granting.lifetime,
            given_by: granting.given_by.to_string(),
            request_id: request.id.as_str().to_owned(),
        };
        let plan = self.grants.plan(&request.grants, width, &terms);
        let ids: Vec<u64> = plan.ids.iter().map(|id| id.get()).collect();
        let grants = serde_json::to_value(&request.grants).unwrap_or_default();
        entries.push(
            self.details(Entry::new(Event::SessionRecorded), request)
                .with("grants", grants)
                .with_known("sessionGrantWidth", family(width))
                .with("grantIds", ids)
                .with("scope", scope_of(&terms.scope))
                .with("lifetime", lifetime_value(terms.lifetime))
                .with_known("kept", self.setup.persist_grants.then_some(true)),
        );
        (decision, plan.new)
    }

    /// These grants have their files: they are in force from now on. What waits may be decided by them, and is not kept until its
    /// turn.
    pub(super) fn kept(&mut self, now: Moment, kept: Vec<SessionGrant>, effects: &mut Vec<Effect>) {
        if kept.is_empty() {
            return;
        }
        for grant in kept {
            if let Lifetime::For(time) = grant.terms.lifetime {
                self.grant_ends.0.insert(grant.id(), now.after(time));
            }
            self.grants.put(grant);
        }
        self.judge_again(Again::Granted, effects);
    }

    /// Counts an answer that was published.
    pub(super) fn count_uses(&mut self, rested_on: &[GrantId], effects: &mut Vec<Effect>) {
        for id in rested_on {
            match self.grants.count(*id) {
                Used::Uncounted => {}
                Used::Left(grant) => effects.push(Effect::CountGrant(grant)),
                Used::Up(grant) => {
                    let entry = self.end_of_grant(Event::GrantUsedUp, &grant);
                    effects.push(Effect::Log(entry));
                    effects.push(Effect::DropGrant(*id));
                }
            }
        }
    }

    /// Ends the grants whose time is over.
    pub(super) fn expire_grants(&mut self, now: Moment, effects: &mut Vec<Effect>) {
        let ends = &mut self.grant_ends.0;
        let over: Vec<GrantId> = (ends.iter())
            .filter(|(_, ends)| **ends <= now)
            .map(|(id, _)| *id)
            .collect();
        for id in over {
            self.grant_ends.0.remove(&id);
            if let Some(grant) = self.grants.revoke(id) {
                let entry = self.end_of_grant(Event::GrantExpired, &grant);
                effects.push(Effect::Log(entry));
                effects.push(Effect::DropGrant(id));
            }
        }
    }

    /// The machine has slept: what was given for a time ends so much sooner by a clock that stood still.
    pub(super) fn slept(&mut self, now: Moment, time: Duration, effects: &mut Vec<Effect>) {
        for ends in self.grant_ends.0.values_mut() {
            *ends = Moment::from_start(ends.since_start().saturating_sub(time));
        }
        self.expire_grants(now, effects);
    }

    /// Ends grants whose files are not as they were left: somebody took them back.
    pub(super) fn take_back(&mut self, lost: Vec<(GrantId, String)>, effects: &mut Vec<Effect>) {
        for (id, reason) in lost {
            self.grant_ends.0.remove(&id);
            if let Some(grant) = self.grants.revoke(id) {
                let entry = self.end_of_grant(Event::GrantRevoked, &grant);
                let entry = entry.with("by", "server").with("reason", reason);
                effects.push(Effect::Log(entry));
                effects.push(Effect::DropGrant(id));
            }
        }
    }

    fn end_of_grant(&self, event: Event, grant: &SessionGrant) -> Entry {
        Entry::new(event)
            .with("sessionId", self.setup.session.as_str())
            .with("grantId", grant.id().get())
            .with("surface", grant.surface())
            .with("pattern", grant.pattern().as_str())
            .with("givenWith", grant.terms.request_id.as_str())
    }

    /// An ask that a grant allowed, and whose answer was not published, is read and judged again as if it had just come.
    pub(super) fn judge_anew(&mut self, id: &RequestId, effects: &mut Vec<Effect>) {
        let Some(ask) = self.asks.get_mut(id) else {
            return;
        };
        let Stage::Deciding(undelivered) = std::mem::replace(&mut ask.stage, Stage::Rereading)
        else {
            return;
        };
        if undelivered.recorded {
            // Its end stands in the log, and it will have another one.
            effects.push(Effect::Log(
                Entry::new(Event::AnswerUnclaimed)
                    .with("requestId", id.as_str())
                    .with("requesterSessionId", ask.requester.as_str())
                    .with("targetSessionId", self.setup.session.as_str())
                    .with("reason", RESTED),
            ));
            ask.noted = Noted::Nothing;
        }
        self.open_again(id);
        self.look_at(Candidate::of(id), effects);
    }
}

/// For whom a grant holds, as the log and its file say it.
pub(in crate::serve) fn scope_of(scope: &GrantScope) -> serde_json::Value {
    scope_value(match scope {
        GrantScope::ServingSession => None,
        GrantScope::Subagent(chain) => Some(chain),
    })
}

/// The width of a grant, where there is something to say about it.
pub(super) fn family(width: GrantWidth) -> Option<&'static str> {
    (width == GrantWidth::Family).then_some("family")
}
