//! The serving session as a pure step: one event in, effects out. No file, no clock, no randomness.
//!
//! ```text
//! Listed ─▶ Read ─▶ judge ─┬─ allow, deny ──────────▶ Answer ─▶ Answered ─▶ forgotten
//!                          └─ ask ─┬─ Relay ─▶ Relayed ─▶ Answer
//!                                  └─ queue ─▶ read and judged again ─▶ Show ─▶ Chosen ─▶ Answer
//! ```
//!
//! It keeps little of an ask: what it needs to answer and to be fair. The request itself stays in its file and is read again
//! when its turn comes, which also settles without a person whatever has become decidable meanwhile. A decision is kept
//! until it is delivered: a failed write never leads to a second question.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use super::event::{
    Answer, Care, Delivery, Effect, Event, FileClock, ParentLife, Relay, RelayOutcome, Shown,
};
use super::queue::Queue;
use crate::audit::Entry;
use crate::clock::Moment;
use crate::policy::{Judgement, Policy, Question, SessionRules, TextFidelity, Verdict};
use crate::presentation::review_line;
use crate::presentation::select::Choice;
use crate::prompt::Answerer;
use crate::spool::{Candidate, FileRead, FileStamp, Refusal, RequesterLife};
use crate::wire::{
    ApprovalGrant, Decision, DecisionState, Digest, ForwardedPermissionRequest, GrantWidth,
    MAX_HOPS, Malformed, RequestId, SessionId, Unusable, trim,
};

/// How long a file that may still be growing, or is refused for a passing reason, is looked at again.
pub(crate) const GROWING_GRACE: Duration = Duration::from_secs(2);
/// What a request may be older than its own timeout before it expires.
const EXPIRY_MARGIN: Duration = Duration::from_mins(1);
/// How much sooner than its child a relaying session gives up, so that its answer still counts.
const RELAY_MARGIN: Duration = Duration::from_secs(1);
/// First wait after a failed write; it doubles up to [`RETRY_MOST`].
const RETRY_FIRST: Duration = Duration::from_millis(10);
const RETRY_MOST: Duration = Duration::from_secs(1);
/// How often requesters are looked after where the events that say so are known to come, and where they are not.
const LIFE_EVERY: Duration = Duration::from_secs(10);
const LIFE_EVERY_WITHOUT_EVENTS: Duration = Duration::from_secs(1);
/// How many waiting asks are checked for the same each time.
const LIFE_BATCH: usize = 1;

/// Who can be asked where policy does not decide.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Person {
    /// A person sits here.
    Here,
    /// Nobody does.
    Nobody,
}

/// What a serving session is told once.
#[derive(Debug, Clone)]
pub struct Setup {
    /// The session that is served.
    pub session: SessionId,
    /// Directory of its requests, for the log.
    pub requests_path: String,
    /// Directory of its responses, for the log.
    pub responses_path: String,
    /// Whether a person sits here.
    pub person: Person,
    /// Its own parent, if it has one.
    pub parent: Option<SessionId>,
    /// How long an ask is passed on for where its requester did not say.
    pub forwarding_timeout: Duration,
    /// When a request expires where its requester did not say how long it waits.
    pub request_max_age: Duration,
}

/// A serving session.
#[derive(Debug)]
pub struct State {
    setup: Setup,
    person: Person,
    parent_life: ParentLife,
    policy: Arc<Policy>,
    grants: SessionRules,
    asks: HashMap<RequestId, Pending>,
    queue: Queue,
    on_screen: Option<RequestId>,
    /// Files whose reading was asked for and is still to come: a listing in between asks for none of them again.
    reading: HashSet<Candidate>,
    /// Files that are looked at again, and since when.
    growing: HashMap<Candidate, Moment>,
    /// Files that could not even be moved aside.
    given_up: HashSet<Candidate>,
    files: FileClock,
    shutting_down: bool,
    life_every: Duration,
    life_checked_at: Moment,
    life_cursor: usize,
}

/// What is kept of an ask that is not settled.
#[derive(Debug)]
struct Pending {
    stamp: FileStamp,
    digest: Digest,
    requester: String,
    held: bool,
    /// When it stops being worth an answer.
    expires_at: Moment,
    /// When its requester gives up, by its own word.
    gives_up_at: Option<Moment>,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    /// In line for the person.
    Queued,
    /// Its turn has come; it is read again.
    Rereading,
    /// On screen.
    Shown(Box<ForwardedPermissionRequest>),
    /// With the parent.
    Relayed(Box<ForwardedPermissionRequest>),
    /// Decided; the answer is being delivered.
    Deciding(Box<Undelivered>),
}

/// Why a usable request was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Look {
    /// It is new, or its bytes are.
    First,
    /// Its turn has come.
    Turn,
    /// It is in line, and policy may be able to decide it by now.
    Waiting,
}

/// A decision that has not reached its requester yet.
#[derive(Debug)]
struct Undelivered {
    decision: Decision,
    /// What is granted to the whole session once the decision has reached its requester.
    granted: Vec<ApprovalGrant>,
    granted_width: GrantWidth,
    care: Care,
    retry_at: Option<Moment>,
    retry_after: Duration,
}

impl State {
    /// A session that has seen nothing yet.
    pub fn new(setup: Setup, policy: Arc<Policy>, grants: SessionRules) -> Self {
        Self {
            person: setup.person,
            setup,
            parent_life: ParentLife::NotServing,
            policy,
            grants,
            asks: HashMap::new(),
            queue: Queue::default(),
            on_screen: None,
            reading: HashSet::new(),
            growing: HashMap::new(),
            given_up: HashSet::new(),
            files: FileClock::default(),
            shutting_down: false,
            life_every: LIFE_EVERY_WITHOUT_EVENTS,
            life_checked_at: Moment::default(),
            life_cursor: 0,
        }
    }

    /// Tells the time of the file system.
    pub fn set_file_clock(&mut self, files: FileClock) {
        self.files = files;
    }

    /// Tells that changes are known to raise events here.
    pub fn events_come(&mut self) {
        self.life_every = LIFE_EVERY;
    }

    /// How many asks wait for a person or for the parent.
    pub fn waiting(&self) -> usize {
        self.asks.len()
    }

    /// Whether anything is open: an ask, a file that is about to be read, or one that may still be growing.
    pub fn has_open(&self) -> bool {
        !self.asks.is_empty() || !self.reading.is_empty() || !self.growing.is_empty()
    }

    /// The requests whose requesters hold a lock.
    pub fn held_ids(&self) -> Vec<RequestId> {
        self.asks
            .iter()
            .filter(|(_, ask)| ask.held)
            .map(|(id, _)| id.clone())
            .collect()
    }

    /// Whether the requester of this ask holds a lock.
    pub fn is_held(&self, id: &RequestId) -> bool {
        self.asks.get(id).is_some_and(|ask| ask.held)
    }

    /// The grants of this session.
    pub fn grants(&self) -> &SessionRules {
        &self.grants
    }

    /// When something is due although nothing happens.
    pub fn next_due(&self, now: Moment) -> Option<Duration> {
        let retries = self.asks.values().filter_map(|ask| match &ask.stage {
            Stage::Deciding(undelivered) => undelivered.retry_at,
            Stage::Queued | Stage::Rereading | Stage::Shown(_) | Stage::Relayed(_) => None,
        });
        let retry = retries.min().map(|at| at.since(now));
        let look = (!self.growing.is_empty()).then_some(Duration::from_millis(100));
        let life = (!self.asks.is_empty()).then_some(self.life_every);
        [retry, look, life].into_iter().flatten().min()
    }

    /// Whether a person may be asked at all, or the parent.
    fn authority(&self) -> Authority {
        match (&self.setup.parent, self.person, self.parent_life) {
            (Some(_), Person::Here, ParentLife::Serving) | (Some(_), Person::Nobody, _) => {
                Authority::Parent
            }
            (_, Person::Here, _) => Authority::Person,
            (None, Person::Nobody, _) => Authority::Nobody,
        }
    }

    /// Takes one event.
    pub fn step(&mut self, now: Moment, event: Event) -> Vec<Effect> {
        let mut effects = Vec::new();
        match event {
            Event::Listed(candidates) => self.listed(candidates, &mut effects),
            Event::Read(candidate, read, life) => {
                self.read(now, candidate, read, life, &mut effects);
            }
            Event::Closed(id) => {
                // A writer that does not rename is done now.
                let candidate = candidate_of(&id);
                if self.growing.contains_key(&candidate) {
                    self.look_at(candidate, &mut effects);
                }
                if self.asks.get(&id).is_some_and(|ask| ask.held) {
                    effects.push(Effect::CheckLife(id));
                }
            }
            Event::Life(id, life) => self.life(&id, life, &mut effects),
            Event::Chosen {
                id,
                digest,
                choice,
                by,
            } => self.chosen(&id, digest, choice, by, &mut effects),
            Event::PersonGone => self.person_gone(&mut effects),
            Event::Relayed(id, digest, outcome) => self.relayed(&id, digest, outcome, &mut effects),
            Event::Parent(life) => self.parent(life, &mut effects),
            Event::Answered(id, delivery) => self.answered(now, &id, delivery, &mut effects),
            // Until it is seen to be gone it is not looked at again, so that it is reported once.
            Event::Stuck(candidate) => drop(self.given_up.insert(candidate)),
            Event::Tick => self.tick(now, &mut effects),
            Event::Shutdown => self.shutdown(&mut effects),
        }
        self.next_question(&mut effects);
        if self.shutting_down && self.asks.is_empty() && self.reading.is_empty() {
            effects.push(Effect::Finished);
        }
        effects
    }

    fn listed(&mut self, candidates: Vec<Candidate>, effects: &mut Vec<Effect>) {
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
    fn look_at(&mut self, candidate: Candidate, effects: &mut Vec<Effect>) {
        if self.reading.insert(candidate.clone()) {
            effects.push(Effect::Read(candidate));
        }
    }

    fn read(
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
                return self.set_aside(candidate, "its name is not text", effects);
            }
            FileRead::Missing => {
                self.growing.remove(&candidate);
                if let Some(id) = &candidate.id {
                    self.withdrawn(&id.clone(), effects);
                }
                return;
            }
            FileRead::Refused(Refusal::SecondLink) => {
                return self.look_again(now, candidate, "it has more than one hard link", effects);
            }
            FileRead::Refused(refusal) => {
                return self.set_aside(candidate, &refusal.to_string(), effects);
            }
            FileRead::Failed(error) => {
                return self.look_again(now, candidate, &error.to_string(), effects);
            }
            FileRead::Content { bytes, stamp } => (bytes, stamp),
        };
        let request = match ForwardedPermissionRequest::from_json(&bytes) {
            Ok(request) => request,
            // A writer that does not rename may not be done yet.
            Err(unusable @ Unusable::Malformed(Malformed::Syntax(_) | Malformed::Empty)) => {
                return self.look_again(now, candidate, &unusable.to_string(), effects);
            }
            Err(unusable) => return self.set_aside(candidate, &unusable.to_string(), effects),
        };
        if let Some(reason) = self.refusal(&candidate, &request) {
            return self.set_aside(candidate, &reason, effects);
        }
        self.growing.remove(&candidate);
        let digest = Digest::of(&bytes);
        drop(bytes);
        self.usable(now, candidate, request, stamp, digest, life, effects);
    }

    /// Why a well-formed request is not for this session.
    fn refusal(
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
    fn usable(
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
        if held && life == RequesterLife::Gone {
            self.forget(&request.id, effects);
            effects.push(Effect::Log(requester_gone(
                &request.id,
                &request.requester_session_id,
            )));
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
            self.forget(&request.id, effects);
            effects.push(Effect::Log(
                Entry::new("forwarded_permission.request_expired")
                    .with("requestId", request.id.as_str())
                    .with("requesterSessionId", request.requester_session_id.as_str())
                    .with("ageMs", u64::try_from(age.as_millis()).unwrap_or(u64::MAX)),
            ));
            let reason = format!("it expired: {}s old", age.as_secs());
            effects.push(Effect::SetAside {
                candidate,
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
                    Stage::Rereading => Look::Turn,
                    Stage::Queued => Look::Waiting,
                    Stage::Shown(_) | Stage::Relayed(_) | Stage::Deciding(_) => return,
                }
            }
            // Other bytes under a known id: what was waiting is not what is asked.
            Some(_) => {
                self.forget(&id, effects);
                Look::First
            }
            None => Look::First,
        };
        if look == Look::First {
            self.asks.insert(
                id.clone(),
                Pending {
                    stamp,
                    digest,
                    requester: request.requester_session_id.clone(),
                    held,
                    expires_at: now.after(limit.saturating_sub(age)),
                    gives_up_at: timeout.map(|timeout| now.after(timeout.saturating_sub(age))),
                    stage: Stage::Queued,
                },
            );
        }
        self.judge(now, request, look, effects);
    }

    fn judge(
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
        };
        let judgement = self.policy.judge(&question, &self.grants);
        let id = request.id.clone();
        if look == Look::Waiting {
            if judgement.verdict == Verdict::Ask {
                return;
            }
            self.queue.remove(&request.requester_session_id, &id);
        }
        match judgement.verdict {
            Verdict::Allow => {
                let entry = self
                    .details("forwarded_permission.auto_approved", &request)
                    .with_decider(&judgement.decided_by);
                let decision = Decision::approved(judgement.decided_by);
                self.decide(&request, decision, vec![entry], Care::Fast, effects);
            }
            Verdict::Deny => {
                let entry = self
                    .details("forwarded_permission.auto_denied", &request)
                    .with_decider(&judgement.decided_by);
                let decision = Decision::denied(judgement.reason, judgement.decided_by);
                self.decide(&request, decision, vec![entry], Care::Fast, effects);
            }
            Verdict::Ask if self.shutting_down => self.unavailable(&request, ENDED, effects),
            // The person here is asked where it is the parent's turn no more as well: the parent has given it back.
            Verdict::Ask if look == Look::Turn && self.on_screen.as_ref() == Some(&id) => {
                self.show(now, request, &judgement, effects);
            }
            Verdict::Ask => {
                if look == Look::First {
                    let prompted = self.details("forwarded_permission.prompted", &request);
                    effects.push(Effect::Log(
                        prompted.with_known("floor", judgement.asked_because),
                    ));
                }
                self.escalate(now, &id, request, effects);
            }
        }
    }

    /// Puts an ask that policy leaves open to whoever can be asked.
    fn escalate(
        &mut self,
        now: Moment,
        id: &RequestId,
        request: ForwardedPermissionRequest,
        effects: &mut Vec<Effect>,
    ) {
        match self.authority() {
            Authority::Nobody => {
                let reason = format!(
                    "no rule of session \"{}\" decides it, and nobody is there to ask",
                    self.setup.session
                );
                self.unavailable(&request, &reason, effects);
            }
            Authority::Person => {
                self.queue.push(&request.requester_session_id, id.clone());
                self.set_stage(id, Stage::Queued);
            }
            Authority::Parent => {
                if let Some(reason) = self.circle(&request) {
                    return self.decide_unpassable(&request, &reason, effects);
                }
                let Some(ask) = self.asks.get(id) else { return };
                let left = ask.gives_up_at.map_or(self.setup.forwarding_timeout, |at| {
                    at.since(now).saturating_sub(RELAY_MARGIN)
                });
                let budget = left.min(self.setup.forwarding_timeout);
                effects.push(Effect::Relay(Box::new(Relay {
                    request: request.clone(),
                    digest: ask.digest,
                    budget,
                })));
                self.set_stage(id, Stage::Relayed(Box::new(request)));
            }
        }
    }

    /// Why an ask cannot be passed on: it has come through here, or through the parent, or through too many.
    fn circle(&self, request: &ForwardedPermissionRequest) -> Option<String> {
        let path = request.relay.as_ref().map_or(&[][..], |relay| &relay.path);
        let parent = self.setup.parent.as_ref()?;
        let been = |session: &SessionId| {
            path.iter()
                .any(|hop| trim(&hop.session_id) == session.as_str())
        };
        if been(&self.setup.session) {
            Some(format!(
                "it came through session \"{}\" before",
                self.setup.session
            ))
        } else if been(parent) || trim(&request.requester_session_id) == parent.as_str() {
            Some(format!(
                "it came through session \"{parent}\", the parent, before"
            ))
        } else if path.len() + 1 >= MAX_HOPS {
            Some(format!(
                "it came through {} sessions already",
                path.len() + 1
            ))
        } else {
            None
        }
    }

    fn show(
        &mut self,
        now: Moment,
        request: ForwardedPermissionRequest,
        judgement: &Judgement,
        effects: &mut Vec<Effect>,
    ) {
        let id = request.id.clone();
        let Some(ask) = self.asks.get_mut(&id) else {
            return;
        };
        let shown = Shown {
            digest: ask.digest,
            asked_because: judgement.asked_because.clone(),
            waiting: self.queue.len(),
            time_left: ask.gives_up_at.map(|at| at.since(now)),
            request: request.clone(),
        };
        ask.stage = Stage::Shown(Box::new(request));
        let facts = review_line::payload_facts(&shown.request.projection());
        effects.push(Effect::Log(
            Self::prompt_entry("permission_request.waiting", &shown.request).with_facts(facts),
        ));
        effects.push(Effect::Show(Box::new(shown)));
        self.on_screen = Some(id);
    }

    /// Asks the next question, where a person sits here and none is open.
    fn next_question(&mut self, effects: &mut Vec<Effect>) {
        // While the parent is asked, only what it gave back is in line.
        if self.on_screen.is_some() || self.shutting_down || self.person != Person::Here {
            return;
        }
        while let Some(id) = self.queue.pop() {
            if let Some(ask) = self.asks.get_mut(&id)
                && matches!(ask.stage, Stage::Queued)
            {
                ask.stage = Stage::Rereading;
                self.look_at(candidate_of(&id), effects);
                self.on_screen = Some(id);
                return;
            }
        }
    }

    fn chosen(
        &mut self,
        id: &RequestId,
        digest: Digest,
        choice: Choice,
        by: Answerer,
        effects: &mut Vec<Effect>,
    ) {
        let Some(ask) = self.asks.get_mut(id) else {
            return;
        };
        // An answer to something that is not on screen, or not in these bytes, decides nothing.
        if ask.digest != digest || !matches!(ask.stage, Stage::Shown(_)) {
            return;
        }
        let Stage::Shown(request) = std::mem::replace(&mut ask.stage, Stage::Queued) else {
            return;
        };
        let decision = by.decision(choice);
        let event = if decision.is_approved() {
            "permission_request.approved"
        } else {
            "permission_request.denied"
        };
        let mut entry = Self::prompt_entry(event, &request)
            .with_decider(&decision.decided_by)
            .with("resolution", decision.state.name())
            .with_opt("denialReason", decision.denial_reason.clone());
        if decision.width == GrantWidth::Family {
            entry = entry.with("sessionGrantWidth", "family");
        }
        self.decide(&request, decision, vec![entry], Care::Person, effects);
    }

    fn unavailable(
        &mut self,
        request: &ForwardedPermissionRequest,
        reason: &str,
        effects: &mut Vec<Effect>,
    ) {
        self.decide(
            request,
            Decision::unavailable(reason),
            Vec::new(),
            Care::Fast,
            effects,
        );
    }

    fn decide_unpassable(
        &mut self,
        request: &ForwardedPermissionRequest,
        reason: &str,
        effects: &mut Vec<Effect>,
    ) {
        let decision = Decision::gate_error(format!("the ask cannot be passed on: {reason}"));
        self.decide(request, decision, Vec::new(), Care::Fast, effects);
    }

    /// Settles an ask: translates the scope of a grant, records, and has the answer delivered.
    fn decide(
        &mut self,
        request: &ForwardedPermissionRequest,
        decision: Decision,
        mut entries: Vec<Entry>,
        care: Care,
        effects: &mut Vec<Effect>,
    ) {
        let id = &request.id;
        if !self.asks.contains_key(id) {
            return;
        }
        let granted_width = decision.width;
        let (decision, granted) = self.translate_scope(request, decision, &mut entries);
        let event = if decision.is_approved() {
            "forwarded_permission.approved"
        } else {
            "forwarded_permission.denied"
        };
        entries.push(
            Entry::new(event)
                .with("requestId", id.as_str())
                .with("source", SPOOL_LABEL)
                .with("requesterAgentName", request.requester_agent_name.as_str())
                .with("requesterSessionId", request.requester_session_id.as_str())
                .with("targetSessionId", request.target_session_id.as_str())
                .with(
                    "responsePath",
                    format!("{}/{}", self.setup.responses_path, id.file_name()),
                )
                .with("resolution", decision.state.name())
                .with_opt("denialReason", decision.denial_reason.clone())
                .with_decider(&decision.decided_by),
        );
        self.leave_screen(id);
        if let Some(ask) = self.asks.get_mut(id) {
            effects.push(Effect::Answer(Box::new(Answer {
                id: id.clone(),
                stamp: ask.stamp,
                digest: ask.digest,
                decision: decision.clone(),
                entries,
                care,
            })));
            ask.stage = Stage::Deciding(Box::new(Undelivered {
                decision,
                granted,
                granted_width,
                care,
                retry_at: None,
                retry_after: RETRY_FIRST,
            }));
        }
    }

    /// A grant for the whole serving session is recorded here and written as a plain approval. The decider stays. Gives what
    /// is granted: it holds once the answer has reached somebody, for an answer to an ask that has gone decides nothing.
    fn translate_scope(
        &self,
        request: &ForwardedPermissionRequest,
        mut decision: Decision,
        entries: &mut Vec<Entry>,
    ) -> (Decision, Vec<ApprovalGrant>) {
        if decision.state != DecisionState::ApprovedForServingSession {
            return (decision, Vec::new());
        }
        if !request.grants.is_empty() {
            let grants = serde_json::to_value(&request.grants).unwrap_or_default();
            entries.push(
                self.details("forwarded_permission.session_recorded", request)
                    .with("grants", grants),
            );
        }
        decision.state = DecisionState::Approved;
        decision.width = GrantWidth::Proven;
        (decision, request.grants.clone())
    }

    /// What was granted with an answer holds from now on. What waits may be decided by it, and is not kept until its turn.
    fn grant(&mut self, delivered: &Undelivered, effects: &mut Vec<Effect>) {
        if delivered.granted.is_empty() {
            return;
        }
        self.grants
            .record(&delivered.granted, delivered.granted_width);
        let waiting: Vec<RequestId> = self
            .asks
            .iter()
            .filter(|(_, ask)| matches!(ask.stage, Stage::Queued))
            .map(|(id, _)| id.clone())
            .collect();
        for id in waiting {
            self.look_at(candidate_of(&id), effects);
        }
    }

    fn answered(
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
                    self.grant(&delivered, effects);
                }
            }
            Delivery::Unrecorded => drop(self.asks.remove(id)),
            Delivery::AlreadyAnswered => {
                self.asks.remove(id);
                effects.push(Effect::Remove(id.clone()));
            }
            Delivery::Unclaimed => {
                self.asks.remove(id);
                effects.push(Effect::Log(
                    Entry::new("forwarded_permission.answer_unclaimed")
                        .with("requestId", id.as_str()),
                ));
            }
            Delivery::RequesterGone => self.life(id, RequesterLife::Gone, effects),
            Delivery::RequestChanged => {
                self.asks.remove(id);
                effects.push(Effect::Log(
                    Entry::new("forwarded_permission.request_changed")
                        .with("requestId", id.as_str()),
                ));
                self.look_at(candidate_of(id), effects);
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
                        Entry::new("permission_forwarding.error")
                            .with("requestId", id.as_str())
                            .with(
                                "message",
                                "the response cannot be written, it is tried again",
                            )
                            .with("error", cause),
                    ));
                }
                undelivered.retry_at = Some(now.after(undelivered.retry_after));
                undelivered.retry_after = (undelivered.retry_after * 2).min(RETRY_MOST);
                if self.shutting_down {
                    // It has been tried; the requester sees that nobody serves it any more.
                    self.asks.remove(id);
                }
            }
        }
    }

    fn relayed(
        &mut self,
        id: &RequestId,
        digest: Digest,
        outcome: RelayOutcome,
        effects: &mut Vec<Effect>,
    ) {
        let Some(ask) = self.asks.get_mut(id) else {
            return;
        };
        // An answer that comes late may be to other bytes of the same name.
        if ask.digest != digest || !matches!(ask.stage, Stage::Relayed(_)) {
            return;
        }
        let Stage::Relayed(request) = std::mem::replace(&mut ask.stage, Stage::Queued) else {
            return;
        };
        match outcome {
            RelayOutcome::Nobody(_) if self.person == Person::Here && !self.shutting_down => {
                self.queue.push(&request.requester_session_id, id.clone());
            }
            RelayOutcome::Nobody(decision) | RelayOutcome::Answered(decision) => {
                self.decide(&request, decision, Vec::new(), Care::Fast, effects);
            }
        }
    }

    fn parent(&mut self, life: ParentLife, effects: &mut Vec<Effect>) {
        if self.parent_life == life {
            return;
        }
        let before = self.authority();
        self.parent_life = life;
        let after = self.authority();
        let Some(parent) = self.setup.parent.as_ref().filter(|_| before != after) else {
            return;
        };
        let started = after == Authority::Parent;
        let event = if started {
            "forwarded_permission.relay_started"
        } else {
            "forwarded_permission.relay_stopped"
        };
        effects.push(Effect::Log(
            Entry::new(event)
                .with("targetSessionId", parent.as_str())
                .with("channel", "env"),
        ));
        if started {
            // What waits for the person here goes to the parent; what is on screen stays until it is answered.
            while let Some(id) = self.queue.pop() {
                if let Some(ask) = self.asks.get_mut(&id) {
                    ask.stage = Stage::Rereading;
                    self.look_at(candidate_of(&id), effects);
                }
            }
        }
    }

    fn person_gone(&mut self, effects: &mut Vec<Effect>) {
        if self.person == Person::Nobody {
            return;
        }
        self.person = Person::Nobody;
        effects.push(Effect::Log(
            Entry::new("permission_forwarding.warning").with(
                "message",
                "nobody can be asked here any more: the input has ended",
            ),
        ));
        if let Some(id) = self.on_screen.take()
            && let Some(ask) = self.asks.get_mut(&id)
            && matches!(ask.stage, Stage::Shown(_))
        {
            ask.stage = Stage::Rereading;
            effects.push(Effect::Withdraw {
                id: id.clone(),
                why: "the input has ended".to_owned(),
            });
            self.look_at(candidate_of(&id), effects);
        }
        while let Some(id) = self.queue.pop() {
            if let Some(ask) = self.asks.get_mut(&id) {
                ask.stage = Stage::Rereading;
                self.look_at(candidate_of(&id), effects);
            }
        }
    }

    fn life(&mut self, id: &RequestId, life: RequesterLife, effects: &mut Vec<Effect>) {
        match life {
            RequesterLife::Waiting | RequesterLife::Unknown => {}
            RequesterLife::RequestGone => self.withdrawn(id, effects),
            RequesterLife::Gone => {
                if let Some(ask) = self.asks.get(id).filter(|ask| ask.held) {
                    effects.push(Effect::Log(requester_gone(id, &ask.requester)));
                    effects.push(Effect::Remove(id.clone()));
                    self.take_off(id, "its requester is gone", effects);
                }
            }
        }
    }

    /// The request is not there any more: its requester took it back.
    fn withdrawn(&mut self, id: &RequestId, effects: &mut Vec<Effect>) {
        if self.asks.contains_key(id) {
            effects.push(Effect::Log(
                Entry::new("forwarded_permission.request_withdrawn").with("requestId", id.as_str()),
            ));
            self.take_off(id, "its requester has taken it back", effects);
        }
    }

    /// Forgets an ask in whatever stage it is, and takes it off the screen.
    fn take_off(&mut self, id: &RequestId, why: &str, effects: &mut Vec<Effect>) {
        let Some(ask) = self.asks.remove(id) else {
            return;
        };
        match ask.stage {
            Stage::Queued => self.queue.remove(&ask.requester, id),
            Stage::Shown(_) => effects.push(Effect::Withdraw {
                id: id.clone(),
                why: why.to_owned(),
            }),
            Stage::Relayed(_) => effects.push(Effect::CancelRelay(id.clone())),
            Stage::Rereading | Stage::Deciding(_) => {}
        }
        self.leave_screen(id);
    }

    fn forget(&mut self, id: &RequestId, effects: &mut Vec<Effect>) {
        self.take_off(id, "the request has changed", effects);
    }

    fn leave_screen(&mut self, id: &RequestId) {
        if self.on_screen.as_ref() == Some(id) {
            self.on_screen = None;
        }
    }

    fn set_stage(&mut self, id: &RequestId, stage: Stage) {
        if let Some(ask) = self.asks.get_mut(id) {
            ask.stage = stage;
        }
        self.leave_screen(id);
    }

    /// Looks at a file again later, for two seconds; then it is set aside.
    fn look_again(
        &mut self,
        now: Moment,
        candidate: Candidate,
        reason: &str,
        effects: &mut Vec<Effect>,
    ) {
        let since = *self.growing.entry(candidate.clone()).or_insert(now);
        if now.since(since) >= GROWING_GRACE || self.shutting_down {
            self.growing.remove(&candidate);
            self.set_aside(candidate, reason, effects);
        }
    }

    /// Gives up on a file: it is moved aside, and whoever waits for it is told why.
    fn set_aside(&mut self, candidate: Candidate, reason: &str, effects: &mut Vec<Effect>) {
        if let Some(id) = &candidate.id {
            self.forget(&id.clone(), effects);
        }
        let mut entry = Entry::new("permission_forwarding.warning")
            .with("message", "a request cannot be used")
            .with("file", candidate.name.lossy())
            .with("reason", reason);
        let answer = candidate.id.as_ref().map(|id| {
            let decision = Decision::gate_error(format!("the request cannot be used: {reason}"));
            entry = entry
                .clone()
                .with("requestId", id.as_str())
                .with_decider(&decision.decided_by);
            decision
        });
        effects.push(Effect::Log(entry));
        effects.push(Effect::SetAside {
            candidate,
            reason: reason.to_owned(),
            answer,
        });
    }

    fn tick(&mut self, now: Moment, effects: &mut Vec<Effect>) {
        self.look_at_growing(effects);
        let mut expired = Vec::new();
        for (id, ask) in &mut self.asks {
            match &mut ask.stage {
                Stage::Deciding(undelivered)
                    if undelivered.retry_at.is_some_and(|at| at <= now) =>
                {
                    undelivered.retry_at = None;
                    effects.push(Effect::Answer(Box::new(Answer {
                        id: id.clone(),
                        stamp: ask.stamp,
                        digest: ask.digest,
                        decision: undelivered.decision.clone(),
                        entries: Vec::new(),
                        care: undelivered.care,
                    })));
                }
                Stage::Queued | Stage::Rereading | Stage::Shown(_) | Stage::Relayed(_)
                    if ask.expires_at <= now =>
                {
                    expired.push(id.clone());
                }
                Stage::Queued
                | Stage::Rereading
                | Stage::Shown(_)
                | Stage::Relayed(_)
                | Stage::Deciding(_) => {}
            }
        }
        for id in expired {
            effects.push(Effect::Log(
                Entry::new("forwarded_permission.request_expired").with("requestId", id.as_str()),
            ));
            self.take_off(&id, "it has expired", effects);
            effects.push(Effect::SetAside {
                candidate: candidate_of(&id),
                reason: "it expired".to_owned(),
                answer: None,
            });
        }
        if now.since(self.life_checked_at) >= self.life_every {
            self.life_checked_at = now;
            self.check_lives(effects);
        }
    }

    fn look_at_growing(&mut self, effects: &mut Vec<Effect>) {
        let growing: Vec<Candidate> = self.growing.keys().cloned().collect();
        for candidate in growing {
            self.look_at(candidate, effects);
        }
    }

    /// Looks after the ask on screen, and after a few of the others in turn: events tell sooner, but may be lost.
    fn check_lives(&mut self, effects: &mut Vec<Effect>) {
        effects.extend(self.on_screen.iter().cloned().map(Effect::CheckLife));
        if self.asks.is_empty() {
            return;
        }
        let from = self.life_cursor % self.asks.len();
        let some = self
            .asks
            .iter()
            .cycle()
            .skip(from)
            .take(LIFE_BATCH.min(self.asks.len()));
        effects.extend(
            some.filter(|(_, ask)| ask.held)
                .map(|(id, _)| Effect::CheckLife(id.clone())),
        );
        self.life_cursor = from + LIFE_BATCH;
    }

    fn shutdown(&mut self, effects: &mut Vec<Effect>) {
        self.shutting_down = true;
        self.look_at_growing(effects);
        let ids: Vec<RequestId> = self.asks.keys().cloned().collect();
        for id in ids {
            let Some(ask) = self.asks.get_mut(&id) else {
                continue;
            };
            match std::mem::replace(&mut ask.stage, Stage::Rereading) {
                Stage::Shown(request) => {
                    effects.push(Effect::Withdraw {
                        id,
                        why: "the session ends".to_owned(),
                    });
                    self.unavailable(&request, ENDED, effects);
                }
                Stage::Relayed(request) => {
                    effects.push(Effect::CancelRelay(id));
                    self.unavailable(&request, ENDED, effects);
                }
                Stage::Queued | Stage::Rereading => self.look_at(candidate_of(&id), effects),
                deciding @ Stage::Deciding(_) => ask.stage = deciding,
            }
        }
    }

    /// What every entry about a served request begins with.
    fn details(&self, event: &'static str, request: &ForwardedPermissionRequest) -> Entry {
        Entry::new(event)
            .with("requestId", request.id.as_str())
            .with("source", SPOOL_LABEL)
            .with("requesterAgentName", request.requester_agent_name.as_str())
            .with("requesterSessionId", request.requester_session_id.as_str())
            .with("targetSessionId", request.target_session_id.as_str())
            .with(
                "requestPath",
                format!("{}/{}", self.setup.requests_path, request.id.file_name()),
            )
    }

    /// What every entry about a question to a person begins with.
    fn prompt_entry(event: &'static str, request: &ForwardedPermissionRequest) -> Entry {
        Entry::new(event)
            .with("requestId", request.id.as_str())
            .with("source", request.source.unwrap_or_default().name())
            .with_opt("agentName", request.agent_name())
    }
}

/// Label under which the peer's entries name the spool.
const SPOOL_LABEL: &str = "primary";
/// What is told to whoever still waits when the session ends.
const ENDED: &str = "the serving session ended before anybody answered";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Authority {
    Person,
    Parent,
    Nobody,
}

fn candidate_of(id: &RequestId) -> Candidate {
    Candidate::of(id)
}

fn requester_gone(id: &RequestId, requester: &str) -> Entry {
    Entry::new("forwarded_permission.requester_gone")
        .with("requestId", id.as_str())
        .with("requesterSessionId", requester)
}
