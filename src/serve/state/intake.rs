//! What comes in: listings, files, and what policy says to them.

use std::collections::HashSet;
use std::time::Duration;

use super::inbox::Fate;
use super::limits::name_of_requester;
use super::{
    CHANGED, ENDED, GONE, Look, Noted, Pending, Reach, SPOOL_LABEL, Stage, State, TOO_OLD,
};
use crate::audit::{Ending, Entry, Event};
use crate::clock::Moment;
use crate::policy::{Judgement, Question, TextFidelity, Verdict, chain_of};
use crate::presentation::select::Plain;
use crate::process;
use crate::serve::event::{Care, Effect};
use crate::serve::listing::Outcome;
use crate::spool::{Candidate, FileRead, FileStamp, Refusal, RequesterLife};
use crate::wire::{
    Decision, Digest, ForwardedPermissionRequest, Malformed, RequestId, SessionId, Unusable, trim,
};

/// How long a file that may still be growing, or is refused for a passing reason, is looked at again.
pub(crate) const GROWING_GRACE: Duration = Duration::from_secs(2);
/// What a request may be older than its own timeout before it expires.
const EXPIRY_MARGIN: Duration = Duration::from_mins(1);
/// What is recorded where a request is too old to be answered.
pub(super) const EXPIRED: &str = "it is older than its requester waits";

impl State {
    pub(super) fn listed(&mut self, candidates: Vec<Candidate>, effects: &mut Vec<Effect>) {
        if !self.asks.is_empty() {
            let there: HashSet<&RequestId> = candidates
                .iter()
                .filter_map(|candidate| candidate.id.as_ref())
                .collect();
            let gone: Vec<RequestId> = self
                .asks
                .keys()
                .filter(|id| !there.contains(id))
                .cloned()
                .collect();
            for id in gone {
                self.withdrawn(&id, effects);
            }
        }
        if !self.growing.is_empty() || !self.given_up.is_empty() {
            let there: HashSet<&Candidate> = candidates.iter().collect();
            self.growing
                .retain(|candidate, _| there.contains(candidate));
            self.given_up.retain(|candidate| there.contains(candidate));
        }
        for candidate in candidates {
            let known = candidate
                .id
                .as_ref()
                .is_some_and(|id| self.asks.contains_key(id))
                || self.growing.contains_key(&candidate)
                || self.given_up.contains(&candidate);
            if !known {
                self.look_at(candidate, effects);
            }
        }
    }

    /// Has a file read, unless that is about to happen anyway.
    pub(super) fn look_at(&mut self, candidate: Candidate, effects: &mut Vec<Effect>) {
        if self.reading.insert(candidate.clone()) {
            effects.push(Effect::Read(candidate));
        }
    }

    pub(super) fn look_at_growing(&mut self, effects: &mut Vec<Effect>) {
        let growing: Vec<Candidate> = self.growing.keys().cloned().collect();
        for candidate in growing {
            self.look_at(candidate, effects);
        }
    }

    pub(super) fn read(
        &mut self,
        now: Moment,
        candidate: Candidate,
        read: FileRead,
        life: RequesterLife,
        effects: &mut Vec<Effect>,
    ) {
        self.reading.remove(&candidate);
        let (bytes, stamp) = match read {
            FileRead::Missing if candidate.name.as_str().is_none() => {
                return self.set_aside(candidate, None, "its name is not text", effects);
            }
            FileRead::Missing => {
                self.growing.remove(&candidate);
                if let Some(id) = &candidate.id {
                    self.withdrawn(&id.clone(), effects);
                }
                return;
            }
            FileRead::Refused(Refusal::SecondLink) => {
                let why = "it has more than one hard link";
                return self.look_again(now, candidate, None, why, effects);
            }
            FileRead::Refused(refusal) => {
                return self.set_aside(candidate, None, &refusal.to_string(), effects);
            }
            FileRead::Failed(error) => {
                return self.look_again(now, candidate, None, &error.to_string(), effects);
            }
            FileRead::Content { bytes, stamp } => (bytes, stamp),
        };
        let digest = Digest::of(&bytes);
        let read = process::caught(|| ForwardedPermissionRequest::from_json(&bytes));
        let read = match read {
            Ok(read) => read,
            Err(cause) => {
                let why = format!("reading it failed: {cause}");
                return self.set_aside(candidate, Some(digest), &why, effects);
            }
        };
        let request = match read {
            Ok(request) => request,
            // A writer that does not rename may not be done yet.
            Err(unusable @ Unusable::Malformed(Malformed::Syntax(_) | Malformed::Empty)) => {
                let why = unusable.to_string();
                return self.look_again(now, candidate, Some(digest), &why, effects);
            }
            Err(unusable) => {
                return self.set_aside(candidate, Some(digest), &unusable.to_string(), effects);
            }
        };
        if let Some(reason) = self.refusal(&candidate, &request) {
            return self.set_aside(candidate, Some(digest), &reason, effects);
        }
        self.growing.remove(&candidate);
        drop(bytes);
        self.usable(now, candidate, request, stamp, digest, life, effects);
    }

    /// Why a well-formed request is not for this session.
    pub(super) fn refusal(
        &self,
        candidate: &Candidate,
        request: &ForwardedPermissionRequest,
    ) -> Option<String> {
        let own = self.setup.session.as_str();
        if candidate.id.as_ref() != Some(&request.id) {
            return Some(format!(
                "its id {:?} is not its file name",
                request.id.as_str()
            ));
        }
        if SessionId::parse(&request.target_session_id).ok().as_ref() != Some(&self.setup.session) {
            return Some(format!(
                "it is addressed to session {:?}, this is {own:?}",
                request.target_session_id
            ));
        }
        (trim(&request.requester_session_id) == own).then(|| format!("session {own:?} asks itself"))
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "one place, called once: the parts of a read request"
    )]
    pub(super) fn usable(
        &mut self,
        now: Moment,
        candidate: Candidate,
        request: ForwardedPermissionRequest,
        stamp: FileStamp,
        digest: Digest,
        life: RequesterLife,
        effects: &mut Vec<Effect>,
    ) {
        let relay = request.relay.as_ref();
        let held = relay.is_some_and(|relay| relay.held);
        // What a person decided before a crash has its end in the log; nobody is left to take the answer.
        let is_over = |state: &Self| {
            let recalled = state.recalled.get(&request.id);
            !state.asks.contains_key(&request.id)
                && recalled.is_some_and(|recalled| recalled.digest == digest)
        };
        if held && life == RequesterLife::Gone {
            let entry = if is_over(self) {
                Entry::new(Event::AnswerUnclaimed).with("requestId", request.id.as_str())
            } else {
                self.unanswered(Ending::RequesterGone, &request.id, GONE)
            };
            self.recalled.remove(&request.id);
            effects.push(Effect::Log(
                entry.with("requesterSessionId", request.requester_session_id.as_str()),
            ));
            self.take_off(&request.id, GONE, Outcome::Cancelled, effects);
            effects.push(Effect::Remove(request.id));
            return;
        }
        let timeout = relay
            .and_then(|relay| relay.timeout_ms)
            .map(Duration::from_millis);
        let limit = timeout.map_or(self.setup.request_max_age, |timeout| {
            timeout.saturating_add(EXPIRY_MARGIN)
        });
        let age = self.files.age(now, stamp);
        if age > limit {
            let entry = if is_over(self) {
                Entry::new(Event::AnswerUnclaimed).with("requestId", request.id.as_str())
            } else {
                self.unanswered(Ending::RequestExpired, &request.id, EXPIRED)
            };
            self.recalled.remove(&request.id);
            effects.push(Effect::Log(
                entry
                    .with("requesterSessionId", request.requester_session_id.as_str())
                    .with("ageMs", u64::try_from(age.as_millis()).unwrap_or(u64::MAX)),
            ));
            self.take_off(&request.id, TOO_OLD, Outcome::Expired, effects);
            let reason = format!("it expired: {}s old", age.as_secs());
            effects.push(Effect::SetAside {
                candidate,
                digest: Some(digest),
                reason,
                answer: None,
            });
            return;
        }
        let id = request.id.clone();
        let look = match self.asks.get_mut(&id) {
            Some(known) if known.digest == digest => {
                // The same bytes; if somebody has put them there anew, this is the file that is answered.
                known.stamp = stamp;
                match known.stage {
                    Stage::Rereading | Stage::AwaitingAnnotations => Look::Turn,
                    Stage::Queued | Stage::WithChain => Look::Waiting,
                    Stage::Shown(_) | Stage::Relayed(_) => Look::Asked,
                    Stage::Deciding(_) => return,
                }
            }
            // Other bytes under a known id: what was waiting is not what is asked.
            Some(_) => {
                let entry = self.unanswered(Ending::RequestChanged, &id, CHANGED);
                effects.push(Effect::Log(entry));
                self.take_off(&id, CHANGED, Outcome::Cancelled, effects);
                Look::First
            }
            None => Look::First,
        };
        if look == Look::First {
            self.asks.insert(
                id.clone(),
                Pending {
                    held,
                    gives_up_at: timeout.map(|timeout| now.after(timeout.saturating_sub(age))),
                    ..Pending::new(
                        stamp,
                        digest,
                        name_of_requester(&request),
                        now.after(limit.saturating_sub(age)),
                    )
                },
            );
            // What was decided for other bytes under this id is nothing.
            if let Some(recalled) = self.recalled.remove(&id)
                && recalled.digest == digest
            {
                return self.settle_again(&request, recalled, effects);
            }
            if let Some(decision) = self.given.of(&id, digest).cloned() {
                return self.give_again(&request, &decision, effects);
            }
        }
        self.judge(now, request, look, effects);
    }

    pub(super) fn judge(
        &mut self,
        now: Moment,
        request: ForwardedPermissionRequest,
        look: Look,
        effects: &mut Vec<Effect>,
    ) {
        let text = if request.was_replaced {
            TextFidelity::Replaced
        } else {
            TextFidelity::Exact
        };
        let question = Question {
            intent: request.access_intent.as_ref(),
            text,
            payload: request.payload.as_ref(),
        };
        let id = request.id.clone();
        self.expire_grants(now, effects);
        let chain = chain_of(&request);
        let judged = process::caught(|| {
            #[cfg(debug_assertions)]
            crate::spool::fault::strike("judged", id.as_str());
            self.policy.judge(&question, self.grants_for(&id, &chain))
        });
        let judgement = match judged {
            Ok(judgement) => judgement,
            Err(cause) => {
                self.end_waiting(&id, "it cannot be judged", effects);
                let decision = Decision::gate_error(format!("judging it failed: {cause}"));
                return self.decide(&request, decision, Care::Fast, effects);
            }
        };
        let fate = (look == Look::Turn).then(|| self.fate(&id)).flatten();
        let reach = reach_of(&request, &judgement);
        let is_left = reach != Reach::Anybody;
        if let Some(ask) = self.asks.get_mut(&id) {
            ask.reach = reach;
        }
        if is_left && look == Look::First {
            // No question: nothing is recorded of it, and nobody is asked but a parent for its rules.
            return self.escalate(now, &id, request, effects);
        }
        if is_left && judgement.verdict != Verdict::Ask {
            self.end_waiting(&id, "no rule is about it by now", effects);
            return self.leave(&request, effects);
        }
        if self.hears_links_alone(&request) {
            return self.hear_links(now, request, look, effects);
        }
        if judgement.verdict == Verdict::Ask {
            self.note_why(&request, judgement.asked_because.as_ref());
        }
        // No yes undoes the deny of a link that came before it.
        let is_open = judgement.verdict == Verdict::Ask && !self.is_denied_by_link(&id);
        let fate = match fate {
            Some(Fate::Answered(answered)) if answered.verdict == Plain::No || is_open => {
                return self.answer_unshown(now, request, answered, effects);
            }
            Some(Fate::Answered(answered)) => {
                let why = match judgement.verdict {
                    Verdict::Allow => None,
                    Verdict::Deny => Some("policy denies it"),
                    Verdict::Ask => Some("an authorizer has denied it"),
                };
                if let Some(why) = why {
                    Self::say_missed(&id, answered.batch.as_ref(), why, effects);
                }
                None
            }
            fate => fate,
        };
        if judgement.verdict == Verdict::Ask {
            if self.settle_as_ruled(&request, effects) {
                return;
            }
            if !self.shutting_down {
                self.begin_chain(&request, effects);
            }
        }
        match judgement.verdict {
            Verdict::Allow | Verdict::Deny => self.settle_by_policy(&request, judgement, effects),
            // It stays where it is, and as it is.
            Verdict::Ask if look == Look::Waiting => {
                self.annotate_in_line(&request, effects);
            }
            Verdict::Ask if look == Look::Asked => {}
            Verdict::Ask if self.shutting_down => self.unavailable(&request, ENDED, effects),
            Verdict::Ask if fate.is_some() => self.expire(&request, effects),
            // The person here is asked where it is the parent's turn no more as well: the parent has given it back.
            Verdict::Ask if look == Look::Turn && self.on_screen.as_ref() == Some(&id) => {
                self.show(now, request, &judgement, effects);
            }
            Verdict::Ask => {
                let ask = self.asks.get_mut(&id);
                if ask.is_some_and(|ask| ask.noted.advance(Noted::Prompted)) {
                    let prompted = self.details(Entry::new(Event::Prompted), &request);
                    effects.push(Effect::Log(
                        prompted.with_known("floor", judgement.asked_because),
                    ));
                    if let Some(reason) = self.beyond_limits(now, &request) {
                        return self.unavailable(&request, &reason, effects);
                    }
                }
                self.escalate(now, &id, request, effects);
            }
        }
    }

    /// Goes on with an ask that only the chain is to hear of, behind the rules: by what a link has ruled, else by the next one.
    fn hear_links(
        &mut self,
        now: Moment,
        request: ForwardedPermissionRequest,
        look: Look,
        effects: &mut Vec<Effect>,
    ) {
        if self.settle_as_ruled(&request, effects) {
            return;
        }
        match look {
            Look::Turn if self.shutting_down => self.unavailable(&request, ENDED, effects),
            Look::Turn => {
                let id = request.id.clone();
                self.end_waiting(&id, "only rules were asked", effects);
                self.escalate(now, &id, request, effects);
            }
            Look::First | Look::Waiting | Look::Asked if self.shutting_down => {}
            Look::First | Look::Waiting | Look::Asked => self.begin_chain(&request, effects),
        }
    }

    /// Looks at a file again later, for two seconds; then it is set aside.
    pub(super) fn look_again(
        &mut self,
        now: Moment,
        candidate: Candidate,
        digest: Option<Digest>,
        reason: &str,
        effects: &mut Vec<Effect>,
    ) {
        let since = *self.growing.entry(candidate.clone()).or_insert(now);
        if now.since(since) >= GROWING_GRACE || self.shutting_down {
            self.growing.remove(&candidate);
            self.set_aside(candidate, digest, reason, effects);
        }
    }

    /// Gives up on a file: it is moved aside, and whoever waits for it is told why.
    pub(super) fn set_aside(
        &mut self,
        candidate: Candidate,
        digest: Option<Digest>,
        reason: &str,
        effects: &mut Vec<Effect>,
    ) {
        if let Some(id) = &candidate.id {
            let why = format!("its file cannot be used any more: {reason}");
            self.take_off(&id.clone(), &why, Outcome::Error, effects);
        }
        let warning = Entry::new(Event::Warning)
            .with("message", "a request cannot be used")
            .with_known("requestId", candidate.id.as_ref().map(RequestId::as_str))
            .with("file", candidate.name.lossy())
            .with("reason", reason);
        effects.push(Effect::Log(warning));
        let answer = candidate.id.as_ref().map(|id| {
            let decision = Decision::gate_error(format!("the request cannot be used: {reason}"));
            effects.push(Effect::Log(
                Entry::ending(Ending::Denied, &decision.decided_by)
                    .with("requestId", id.as_str())
                    .with("source", SPOOL_LABEL)
                    .with("targetSessionId", self.setup.session.as_str())
                    .with("resolution", decision.state.name())
                    .with_opt("denialReason", decision.denial_reason.clone())
                    .with_opt("requestDigest", digest.map(|digest| digest.to_string())),
            ));
            decision
        });
        effects.push(Effect::SetAside {
            candidate,
            digest,
            reason: reason.to_owned(),
            answer,
        });
    }
}

/// Who is asked where policy leaves it open.
fn reach_of(request: &ForwardedPermissionRequest, judgement: &Judgement) -> Reach {
    let asks = judgement.verdict == Verdict::Ask;
    if judgement.is_said {
        return if asks && request.is_verdict_only() {
            Reach::VerdictOnly
        } else {
            Reach::Anybody
        };
    }
    if request.is_rules_only() && (asks || request.is_guard()) {
        Reach::RulesOnly
    } else {
        Reach::Anybody
    }
}
