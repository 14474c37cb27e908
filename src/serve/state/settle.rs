//! How an ask is settled: decided, recorded, delivered, and what was granted with it.

use std::time::Duration;

use super::grants::{Granting, family};
use super::{
    CHANGED, Pending, RETRY_FIRST, Reach, SPOOL_LABEL, Stage, State, TAKEN_BACK, Undelivered,
};
use crate::audit::{Ending, Entry, Event, Recalled};
use crate::clock::Moment;
use crate::policy::GrantId;
use crate::presentation::broadcast::Broadcast;
use crate::serve::event::{Answer, Care, Delivery, Effect, UNRECORDED};
use crate::serve::listing::Outcome;
use crate::spool::Candidate;
use crate::wire::{Decision, DecisionSource, ForwardedPermissionRequest, RequestId};

const RETRY_MOST: Duration = Duration::from_secs(1);

/// What goes with a decision that settles an ask.
pub(super) struct Record {
    /// What is written to the log before the answer's own entry.
    pub(super) entries: Vec<Entry>,
    /// What is told to whoever listens.
    pub(super) told: Option<Broadcast>,
    /// The grants that allow it.
    pub(super) rests_on: Vec<GrantId>,
    /// What is granted beyond the ask.
    pub(super) granting: Option<Granting>,
}

impl State {
    pub(super) fn unavailable(
        &mut self,
        request: &ForwardedPermissionRequest,
        reason: &str,
        effects: &mut Vec<Effect>,
    ) {
        self.decide(request, Decision::unavailable(reason), Care::Fast, effects);
    }

    /// Says that no rule is about an ask for which only rules were asked. That is no decision: nothing of it is recorded or told.
    pub(super) fn leave(
        &mut self,
        request: &ForwardedPermissionRequest,
        effects: &mut Vec<Effect>,
    ) {
        let record = Record {
            entries: Vec::new(),
            told: None,
            rests_on: Vec::new(),
            granting: None,
        };
        let ask = self.asks.get(&request.id);
        let decision = if ask.is_some_and(|ask| ask.reach == Reach::VerdictOnly) {
            Decision::unasked()
        } else {
            Decision::unruled()
        };
        self.settle(request, decision, record, Care::Fast, effects);
    }

    pub(super) fn decide_unpassable(
        &mut self,
        request: &ForwardedPermissionRequest,
        reason: &str,
        effects: &mut Vec<Effect>,
    ) {
        let decision = Decision::gate_error(format!("the ask cannot be passed on: {reason}"));
        self.decide(request, decision, Care::Fast, effects);
    }

    /// Settles an ask that no rule decides, and tells so to whoever listens.
    pub(super) fn decide(
        &mut self,
        request: &ForwardedPermissionRequest,
        decision: Decision,
        care: Care,
        effects: &mut Vec<Effect>,
    ) {
        self.decide_granting(request, decision, None, care, effects);
    }

    /// As [`State::decide`], where something may be granted beyond the ask.
    pub(super) fn decide_granting(
        &mut self,
        request: &ForwardedPermissionRequest,
        decision: Decision,
        granting: Option<Granting>,
        care: Care,
        effects: &mut Vec<Effect>,
    ) {
        if !self.asks.contains_key(&request.id) {
            return;
        }
        if decision.is_left() && request.is_rules_only() {
            // A rule of the parent's has somebody asked.
            if let Some(ask) = self
                .asks
                .get_mut(&request.id)
                .filter(|_| decision.is_unasked())
            {
                ask.reach = Reach::VerdictOnly;
            }
            return self.leave(request, effects);
        }
        let record = Record {
            entries: vec![Self::decision_entry(request, &decision)],
            told: Some(Broadcast::decision(request, &decision)),
            rests_on: Vec::new(),
            granting,
        };
        self.settle(request, decision, record, care, effects);
    }

    /// What is recorded of a decision that no rule made, with the scope that was chosen.
    fn decision_entry(request: &ForwardedPermissionRequest, decision: &Decision) -> Entry {
        let ending = if decision.is_approved() {
            Ending::RequestApproved
        } else {
            Ending::RequestDenied
        };
        let nobody = matches!(
            decision.decided_by.effective(),
            DecisionSource::Unavailable { .. }
        );
        let resolution = if nobody {
            decision.resolution()
        } else {
            decision.state.name()
        };
        let entry = Entry::ending(ending, &decision.decided_by);
        Self::question(entry, request, &request.core())
            .with("resolution", resolution)
            .with_opt("denialReason", decision.denial_reason.clone())
            .with_known("sessionGrantWidth", family(decision.width))
    }

    /// Settles an ask: translates the scope of a grant, records, and has the answer delivered.
    pub(super) fn settle(
        &mut self,
        request: &ForwardedPermissionRequest,
        decision: Decision,
        record: Record,
        care: Care,
        effects: &mut Vec<Effect>,
    ) {
        let id = &request.id;
        if !self.asks.contains_key(id) {
            return;
        }
        let digest = self.asks.get(id).map(|ask| ask.digest.to_string());
        let Record {
            mut entries,
            told,
            rests_on,
            granting,
        } = record;
        let (decision, granted) = self.translate_scope(request, decision, granting, &mut entries);
        let ending = if decision.is_approved() {
            Ending::Approved
        } else {
            Ending::Denied
        };
        let ended = || {
            Entry::ending(ending, &decision.decided_by)
                .with("requestId", id.as_str())
                .with("source", SPOOL_LABEL)
                .with("requesterAgentName", request.requester_agent_name.as_str())
                .with("requesterSessionId", request.requester_session_id.as_str())
                .with("targetSessionId", self.setup.session.as_str())
                .with(
                    "responsePath",
                    format!("{}/{}", self.setup.responses_path, id.file_name()),
                )
                .with("resolution", decision.state.name())
                .with_opt("denialReason", decision.denial_reason.clone())
                .with_opt("requestDigest", digest)
                .with_known("sessionGrantWidth", family(decision.width))
        };
        let is_left = decision.is_left() && request.is_rules_only();
        entries.extend((!is_left).then(ended));
        let batch = self.asks.get(id).and_then(|ask| ask.batch.as_ref());
        if let Some(batch) = batch {
            let with_batch = |entry: Entry| entry.with("batch", batch.json());
            entries = entries.into_iter().map(with_batch).collect();
        }
        self.note_ending(id, &decision);
        self.leave_screen(id);
        self.leave_alike(id);
        self.cancel_chain(id, effects);
        self.cancel_annotating(id, effects);
        if let Some(ask) = self.asks.get_mut(id) {
            effects.push(Effect::Answer(Box::new(Answer {
                id: id.clone(),
                stamp: ask.stamp,
                digest: ask.digest,
                decision: decision.clone(),
                entries,
                told,
                care,
                rests_on: rests_on.clone(),
            })));
            ask.stage = Stage::Deciding(Box::new(Undelivered {
                decision,
                granted,
                rests_on,
                care,
                recorded: false,
                refused: false,
                retry_at: None,
                retry_after: RETRY_FIRST,
            }));
        }
    }

    /// Answers an ask as a person decided it before a crash. They are not asked again, and the log has its end already.
    pub(super) fn settle_again(
        &mut self,
        request: &ForwardedPermissionRequest,
        recalled: Recalled,
        effects: &mut Vec<Effect>,
    ) {
        let (id, decision) = (&request.id, recalled.decision);
        // The process that recorded it may have ended before it told.
        let told = Some(Broadcast::decision(request, &decision));
        let Some(answer) = self.recorded(id, &decision, told) else {
            return;
        };
        let entry = Entry::new(Event::DecisionRecalled)
            .with("requestId", id.as_str())
            .with("source", SPOOL_LABEL)
            .with("requesterAgentName", request.requester_agent_name.as_str())
            .with("requesterSessionId", request.requester_session_id.as_str())
            .with("targetSessionId", self.setup.session.as_str())
            .with("resolution", decision.state.name())
            .with("requestDigest", answer.digest.to_string())
            .with("recordedAt", recalled.recorded_at);
        effects.push(Effect::Log(entry));
        effects.push(Effect::Answer(Box::new(answer)));
        self.note_ending(id, &decision);
    }

    /// Answers a request whose very bytes were answered by a person, or a link of the chain, before: somebody has put it there
    /// again.
    pub(super) fn give_again(
        &mut self,
        request: &ForwardedPermissionRequest,
        decision: &Decision,
        effects: &mut Vec<Effect>,
    ) {
        let Some(answer) = self.recorded(&request.id, decision, None) else {
            return;
        };
        effects.push(Effect::Log(
            Entry::new(Event::AnsweredBefore).with("requestId", request.id.as_str()),
        ));
        effects.push(Effect::Answer(Box::new(answer)));
        self.note_ending(&request.id, decision);
    }

    /// The answer with a decision that stands in the log already. What was granted with it for the whole session is no part of it.
    fn recorded(
        &mut self,
        id: &RequestId,
        decision: &Decision,
        told: Option<Broadcast>,
    ) -> Option<Answer> {
        let ask = self.asks.get_mut(id)?;
        ask.stage = Stage::Deciding(Box::new(Undelivered {
            decision: decision.clone(),
            granted: Vec::new(),
            rests_on: Vec::new(),
            care: Care::Person,
            recorded: true,
            refused: false,
            retry_at: None,
            retry_after: RETRY_FIRST,
        }));
        Some(Answer {
            id: id.clone(),
            stamp: ask.stamp,
            digest: ask.digest,
            decision: decision.clone(),
            entries: Vec::new(),
            told,
            care: Care::Person,
            rests_on: Vec::new(),
        })
    }

    pub(super) fn answered(
        &mut self,
        now: Moment,
        id: &RequestId,
        delivery: Delivery,
        effects: &mut Vec<Effect>,
    ) {
        match delivery {
            Delivery::Delivered => {
                if let Some(ask) = self.asks.remove(id)
                    && let Stage::Deciding(delivered) = ask.stage
                {
                    if matches!(
                        delivered.decision.decided_by.effective(),
                        DecisionSource::User { .. } | DecisionSource::Authorizer { .. }
                    ) {
                        self.given.keep(id, ask.digest, delivered.decision.clone());
                    }
                    self.count_uses(&delivered.rests_on, effects);
                    if !delivered.granted.is_empty() {
                        effects.push(Effect::KeepGrants(id.clone(), delivered.granted));
                    }
                }
                self.resolve_as_decided(id, effects);
            }
            Delivery::Unrecorded => {
                // What was said in the place of the decision. The log may take it by now.
                let decision = Decision::unavailable(UNRECORDED);
                let entry = Entry::ending(Ending::Denied, &decision.decided_by)
                    .with("requestId", id.as_str())
                    .with("source", SPOOL_LABEL)
                    .with("targetSessionId", self.setup.session.as_str())
                    .with("resolution", decision.state.name())
                    .with_opt("denialReason", decision.denial_reason);
                effects.push(Effect::Log(entry));
                self.asks.remove(id);
                self.resolve(id, Outcome::Error, effects);
            }
            Delivery::AlreadyAnswered => {
                self.asks.remove(id);
                effects.push(Effect::Log(
                    Entry::new(Event::AnsweredBefore).with("requestId", id.as_str()),
                ));
                effects.push(Effect::Remove(id.clone()));
                self.resolve(id, Outcome::Error, effects);
            }
            Delivery::Withdrawn => {
                self.unclaimed(Ending::RequestWithdrawn, id, TAKEN_BACK, effects);
            }
            Delivery::Unclaimed => {
                self.note_recorded(id);
                self.unclaimed(Ending::RequestWithdrawn, id, TAKEN_BACK, effects);
            }
            Delivery::RequesterGone => self.requester_gone(id, effects),
            Delivery::Swapped => {
                self.unclaimed(Ending::RequestChanged, id, CHANGED, effects);
                self.look_at(Candidate::of(id), effects);
            }
            Delivery::RequestChanged => {
                self.note_recorded(id);
                self.unclaimed(Ending::RequestChanged, id, CHANGED, effects);
                self.look_at(Candidate::of(id), effects);
            }
            Delivery::GrantsGone(lost) => {
                self.expire_grants(now, effects);
                self.take_back(lost, effects);
                self.judge_anew(id, effects);
            }
            Delivery::GrantsUnsure => {
                if let Some(ask) = self.asks.get_mut(id) {
                    ask.distrusts_grants = true;
                }
                self.judge_anew(id, effects);
            }
            Delivery::Failed(cause) => {
                let Some(ask) = self.asks.get_mut(id) else {
                    return;
                };
                let Stage::Deciding(undelivered) = &mut ask.stage else {
                    return;
                };
                if undelivered.retry_at.is_none() && undelivered.retry_after == RETRY_FIRST {
                    effects.push(Effect::Log(
                        Entry::new(Event::Error)
                            .with("requestId", id.as_str())
                            .with(
                                "message",
                                "the response cannot be written, it is tried again",
                            )
                            .with("error", cause),
                    ));
                }
                undelivered.recorded |= !undelivered.refused;
                let is_first = undelivered.retry_after == RETRY_FIRST;
                undelivered.retry_at = Some(now.after(undelivered.retry_after));
                undelivered.retry_after = (undelivered.retry_after * 2).min(RETRY_MOST);
                if self.shutting_down && is_first {
                    // What was in the way may be gone by now; there is no later.
                    undelivered.retry_at = Some(now);
                    effects.extend(Self::due_again(id, ask, now));
                } else if self.shutting_down {
                    // It has been tried; the requester sees that nobody serves it any more.
                    let reason = "the session ended before the answer could be written";
                    let entry = self.unanswered(Ending::Denied, id, reason);
                    effects.push(Effect::Log(entry));
                    self.asks.remove(id);
                    self.resolve(id, Outcome::Error, effects);
                }
            }
        }
    }

    /// Nobody takes the answer.
    fn unclaimed(
        &mut self,
        ending: Ending,
        id: &RequestId,
        reason: &str,
        effects: &mut Vec<Effect>,
    ) {
        let entry = self.unanswered(ending, id, reason);
        effects.push(Effect::Log(entry));
        let gone = self.asks.remove(id);
        Self::say_missed(
            id,
            gone.as_ref().and_then(Pending::batch_of),
            reason,
            effects,
        );
        self.resolve(id, Outcome::Cancelled, effects);
    }

    /// The decision is in the log, whatever becomes of the answer.
    fn note_recorded(&mut self, id: &RequestId) {
        if let Some(ask) = self.asks.get_mut(id)
            && let Stage::Deciding(undelivered) = &mut ask.stage
        {
            undelivered.recorded |= !undelivered.refused;
        }
    }

    /// The log did not take the decision, and will not: what is given out in its place has an end of its own.
    pub(in crate::serve) fn log_refused(&mut self, id: &RequestId) {
        if let Some(ask) = self.asks.get_mut(id)
            && let Stage::Deciding(undelivered) = &mut ask.stage
        {
            undelivered.refused = true;
        }
    }
}
