//! The serving session as a pure step: one event in, effects out. No file, no clock, no randomness.
//!
//! ```text
//! Listed ─▶ Read ─▶ judge ─┬─ allow, deny ──────────▶ Answer ─▶ Answered ─▶ forgotten
//!                          └─ ask ─┬─ Relay ─▶ Relayed ─▶ Answer
//!                                  ├─ Authorize ─▶ Authorized ─▶ read and judged again ─▶ Answer
//!                                  └─ queue ─▶ read and judged again ─▶ Show ─▶ Chosen ─▶ Answer
//!                                      └─ Annotate ─▶ Annotated ─────────────┘
//! ```
//!
//! It keeps little of an ask: what it needs to answer and to be fair. The request itself stays in its file and is read again
//! when its turn comes, which also settles without a person whatever has become decidable meanwhile. A decision is kept
//! until it is delivered: a failed write never leads to a second question.

mod again;
mod annotations;
mod batch;
mod chain;
mod given;
pub(super) mod grants;
mod inbox;
mod intake;
mod leave;
mod limits;
mod people;
mod settle;

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use self::annotations::Annotations;
pub use self::chain::{CHAIN_GRACE, LinkTally, MOST_CHAINS};
use super::chain::AuthorizerChain;
use super::event::{Care, Effect, Event, FileClock, InLine, ParentLife};
use super::queue::Queue;
use super::renewal::Trouble;
use crate::audit::{self, Ending, Entry, Recalled};
use crate::clock::Moment;
use crate::policy::{self, GrantId, Policy, SessionGrant, SessionRules};
use crate::presentation::review_line;
use crate::spool::{Candidate, FileStamp};
use crate::wire::{
    Decision, DecisionSource, Digest, ForwardedPermissionRequest, PromptPayload, RequestId,
    SessionId,
};

/// First wait after a failed write; it doubles up to [`RETRY_MOST`].
const RETRY_FIRST: Duration = Duration::from_millis(10);
/// How often requesters are looked after where the events that say so are known to come, and where they are not.
const LIFE_EVERY: Duration = Duration::from_secs(10);
const LIFE_EVERY_WITHOUT_EVENTS: Duration = Duration::from_secs(1);

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
    /// How much of what policy leaves open is taken in.
    pub limits: policy::Limits,
    /// The limits of the inbox, where asks wait in one until the person opens them; `None` where they are put before the person.
    pub inbox: Option<policy::Inbox>,
    /// Whether there are annotators.
    pub annotates: bool,
    /// Whether what is granted outlives this server.
    pub persist_grants: bool,
    /// Who is asked before the person.
    pub chain: AuthorizerChain,
    /// How many asks have a chain running at once.
    pub most_chains: usize,
}

/// A serving session.
#[derive(Debug)]
pub struct State {
    setup: Setup,
    /// When the event came that is being looked at.
    now: Moment,
    person: Person,
    parent_life: ParentLife,
    policy: Arc<Policy>,
    /// What is wrong with the files of the configuration, while something is.
    config_trouble: Option<Trouble>,
    grants: SessionRules,
    grant_ends: grants::GrantEnds,
    asks: HashMap<RequestId, Pending>,
    queue: Queue,
    groups: batch::Groups,
    on_screen: Option<RequestId>,
    inbox: Option<inbox::Inbox>,
    /// How many asks are being annotated.
    annotating: usize,
    /// Asks in line that are still to be annotated, in order of arrival; some of them may have gone.
    unannotated: VecDeque<RequestId>,
    /// How many asks have a place before the chain.
    chains: usize,
    /// Asks that wait for one.
    chain_line: Queue,
    tallies: Vec<LinkTally>,
    /// Files whose reading was asked for and is still to come: a listing in between asks for none of them again.
    reading: HashSet<Candidate>,
    /// Files that are looked at again, and since when.
    growing: HashMap<Candidate, Moment>,
    /// Files that could not even be moved aside.
    given_up: HashSet<Candidate>,
    /// What a person decided before a crash about requests that may still lie there.
    recalled: HashMap<RequestId, Recalled>,
    given: given::Given,
    load: limits::Load,
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
    /// The name that its requester goes by here.
    requester: String,
    held: bool,
    /// When it stops being worth an answer.
    expires_at: Moment,
    /// When its requester gives up, by its own word.
    gives_up_at: Option<Moment>,
    stage: Stage,
    noted: Noted,
    /// Whether it is judged without grants, because it could not be told whether they are in force.
    distrusts_grants: bool,
    whose: Whose,
    annotations: Annotations,
    /// Whether it stands among those that are still to be annotated.
    unannotated: bool,
    chain: chain::Chain,
    /// The links that have answered about it and left it open.
    heard: Vec<String>,
    /// Until when the chain has it alone.
    alone_until: Option<Moment>,
    /// What has changed since it was judged last, where it is about to be judged again.
    again: Option<again::Again>,
    /// The pattern or sentinel of this session that made it an ask.
    asked_because: Option<String>,
    reach: Reach,
    /// What it is named by beside others that are like it, while it waits for the person here.
    member: Option<Box<batch::Member>>,
    /// What it is read again for, where that is not to be shown.
    fate: Option<inbox::Fate>,
    /// The others that it was answered with, where it was one of several.
    batch: Option<Arc<batch::Batch>>,
}

/// What is recorded of an ask that is not settled, each once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Noted {
    /// Nothing.
    Nothing,
    /// That no rule decides it.
    Prompted,
    /// That it waits.
    Waiting,
}

impl Noted {
    /// Whether this is still to be recorded; from now on it is.
    fn advance(&mut self, to: Self) -> bool {
        let is_new = *self < to;
        *self = to.max(*self);
        is_new
    }
}

/// Whose an ask is that policy leaves open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Whose {
    /// Whoever is asked at the time.
    Anybodys,
    /// The person's here: the parent was asked, and had no answer.
    GivenBack,
}

/// Whom an ask that policy leaves open is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reach {
    /// The chain, the person, the parent.
    Anybody,
    /// Nobody: only rules were asked, and none here is about it. At most the rules of a parent are.
    RulesOnly,
    /// Nobody: a rule here has somebody asked, and that is all that was to be known. At most the rules of a parent are asked.
    VerdictOnly,
}

#[derive(Debug)]
enum Stage {
    /// With the chain, and with nobody else yet.
    WithChain,
    /// In line for the person.
    Queued,
    /// Its turn has come; it is read again.
    Rereading,
    /// Its turn has come; its annotations are awaited.
    AwaitingAnnotations,
    /// On screen.
    Shown(Box<ForwardedPermissionRequest>),
    /// With the parent.
    Relayed(Box<ForwardedPermissionRequest>),
    /// Decided; the answer is being delivered.
    Deciding(Box<Undelivered>),
}

impl Pending {
    /// One of which nothing is known but its file.
    fn new(stamp: FileStamp, digest: Digest, requester: String, expires_at: Moment) -> Self {
        Self {
            stamp,
            digest,
            requester,
            held: false,
            expires_at,
            gives_up_at: None,
            stage: Stage::Queued,
            noted: Noted::Nothing,
            distrusts_grants: false,
            whose: Whose::Anybodys,
            annotations: Annotations::Unasked,
            unannotated: false,
            chain: chain::Chain::Unasked,
            heard: Vec::new(),
            alone_until: None,
            again: None,
            asked_because: None,
            reach: Reach::Anybody,
            member: None,
            fate: None,
            batch: None,
        }
    }

    /// The others that it was answered with, or is about to be.
    fn batch_of(&self) -> Option<&Arc<batch::Batch>> {
        let about_to_be = match &self.fate {
            Some(inbox::Fate::Answered(answered)) => answered.batch.as_ref(),
            Some(inbox::Fate::Expired) | None => None,
        };
        about_to_be.or(self.batch.as_ref())
    }
}

impl Stage {
    /// Whether the ask stands in line for the person.
    fn is_queued(&self) -> bool {
        matches!(self, Self::Queued)
    }

    /// Whether it waits for the person here, in line or on the screen.
    fn waits_for_person(&self) -> bool {
        match self {
            Self::Queued | Self::Rereading | Self::AwaitingAnnotations | Self::Shown(_) => true,
            Self::WithChain | Self::Relayed(_) | Self::Deciding(_) => false,
        }
    }
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
    /// It is on screen or with the parent, and policy may be able to decide it by now.
    Asked,
}

/// A decision that has not reached its requester yet.
#[derive(Debug)]
struct Undelivered {
    decision: Decision,
    /// What is granted once the decision has reached its requester.
    granted: Vec<SessionGrant>,
    /// The grants that must be in force when it is published.
    rests_on: Vec<GrantId>,
    care: Care,
    /// Whether it is recorded: then it is only to be delivered.
    recorded: bool,
    /// Whether the log refused it for good.
    refused: bool,
    retry_at: Option<Moment>,
    retry_after: Duration,
}

impl State {
    /// A session that has seen nothing yet.
    pub fn new(setup: Setup, policy: Arc<Policy>, grants: SessionRules) -> Self {
        Self {
            person: setup.person,
            inbox: setup.inbox.map(inbox::Inbox::new),
            now: Moment::default(),
            tallies: LinkTally::none_of(&setup.chain),
            setup,
            parent_life: ParentLife::NotServing,
            policy,
            config_trouble: None,
            grants,
            grant_ends: grants::GrantEnds::default(),
            asks: HashMap::new(),
            queue: Queue::default(),
            groups: batch::Groups::default(),
            on_screen: None,
            annotating: 0,
            unannotated: VecDeque::new(),
            chains: 0,
            chain_line: Queue::default(),
            reading: HashSet::new(),
            growing: HashMap::new(),
            given_up: HashSet::new(),
            recalled: HashMap::new(),
            given: given::Given::default(),
            load: limits::Load::default(),
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

    /// Tells what a person decided in a process before this one, and nobody was told: it is answered when its request has been read.
    pub fn recall(&mut self, recalled: HashMap<RequestId, Recalled>) {
        self.recalled = recalled;
    }

    /// Tells that changes are known to raise events here.
    pub fn events_come(&mut self) {
        self.life_every = LIFE_EVERY;
    }

    /// How many asks wait for a person or for the parent.
    pub fn waiting(&self) -> usize {
        self.asks.len()
    }

    /// The asks that wait for their turn before the person.
    pub fn in_line(&self) -> InLine {
        InLine {
            waiting: self.queue.len(),
            put_off: self.queue.resting(),
        }
    }

    /// Whether an ask of this id is open.
    pub fn knows(&self, id: &RequestId) -> bool {
        self.asks.contains_key(id)
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

    /// Who is asked before the person.
    pub fn chain(&self) -> &AuthorizerChain {
        &self.setup.chain
    }

    /// The grants of this session.
    pub fn grants(&self) -> &SessionRules {
        &self.grants
    }

    /// Tells what is wrong with the files of the configuration from the start.
    pub fn start_with_trouble(&mut self, trouble: Option<Trouble>) {
        self.config_trouble = trouble;
    }

    /// What is wrong with the files of the configuration, while something is.
    pub fn config_trouble(&self) -> Option<&Trouble> {
        self.config_trouble.as_ref()
    }

    /// When something is due although nothing happens.
    pub fn next_due(&self, now: Moment) -> Option<Duration> {
        let retries = self.asks.values().filter_map(|ask| match &ask.stage {
            Stage::Deciding(undelivered) => undelivered.retry_at,
            Stage::WithChain
            | Stage::Queued
            | Stage::Rereading
            | Stage::AwaitingAnnotations
            | Stage::Shown(_)
            | Stage::Relayed(_) => None,
        });
        let retry = retries.min().map(|at| at.since(now));
        let look = (!self.growing.is_empty()).then_some(Duration::from_millis(100));
        let life = (!self.asks.is_empty()).then_some(self.life_every);
        let expiry = self.next_expiry().map(|at| at.since(now));
        let rest = self.queue.next_due().map(|at| at.since(now));
        let grants = self.grant_ends.next().map(|at| at.since(now));
        let grace = self.next_grace().map(|at| at.since(now));
        let due = [retry, look, life, expiry, rest, grants, grace];
        due.into_iter().flatten().min()
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
        self.now = now;
        if let Some(inbox) = &mut self.inbox {
            inbox.now = now;
        }
        match event {
            Event::Listed(candidates) => self.listed(candidates, &mut effects),
            Event::Read(candidate, read, life) => {
                self.read(now, candidate, read, life, &mut effects);
            }
            Event::Closed(id) => {
                // A writer that does not rename is done now.
                let candidate = Candidate::of(&id);
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
            Event::PutOff { id, digest, via } => {
                self.put_off(now, &id, digest, via, &mut effects);
            }
            Event::Resume => self.queue.resume(),
            Event::AnsweredTogether {
                asks,
                likeness,
                verdict,
                by,
            } => self.answered_together(asks, likeness, verdict, by, &mut effects),
            Event::Review(id) => self.review(&id, &mut effects),
            Event::CloseReview(id) => self.close_review(&id, &mut effects),
            Event::Denied { id, digest, by } => self.deny_listed(&id, digest, by, &mut effects),
            Event::Unshowable { id, digest, cause } => {
                self.unshowable(&id, digest, &cause, &mut effects);
            }
            Event::Unanswered { id, digest, cause } => {
                self.unanswered_by_anybody(&id, digest, &cause, &mut effects);
            }
            Event::PersonGone => self.person_gone(&mut effects),
            Event::Relayed(id, digest, outcome) => {
                self.relayed(now, &id, digest, outcome, &mut effects);
            }
            Event::Annotated(id, digest, outcomes) => {
                self.annotated(&id, digest, outcomes, &mut effects);
            }
            Event::Authorized(done) => self.authorized(done, &mut effects),
            Event::Parent(life) => self.parent(life, &mut effects),
            Event::Renewed(renewal) => self.renewed(*renewal, &mut effects),
            Event::Answered(id, delivery) => self.answered(now, &id, delivery, &mut effects),
            Event::GrantsKept(kept) => self.kept(now, kept, &mut effects),
            Event::GrantsLost(lost) => self.take_back(lost, &mut effects),
            // Until it is seen to be gone it is not looked at again, so that it is reported once.
            Event::Stuck(candidate) => drop(self.given_up.insert(candidate)),
            Event::Slept(time) => self.slept(now, time, &mut effects),
            Event::Tick => self.tick(now, &mut effects),
            Event::Shutdown => self.shutdown(&mut effects),
        }
        self.next_question(now, &mut effects);
        self.show_alike(now, &mut effects);
        self.show_list(&mut effects);
        if self.shutting_down && self.asks.is_empty() && self.reading.is_empty() {
            effects.push(Effect::Finished);
        }
        effects
    }

    /// Adds what every entry about a served request tells.
    fn details(&self, entry: Entry, request: &ForwardedPermissionRequest) -> Entry {
        entry
            .with("requestId", request.id.as_str())
            .with("source", SPOOL_LABEL)
            .with("requesterAgentName", request.requester_agent_name.as_str())
            .with("requesterSessionId", request.requester_session_id.as_str())
            // As it is called here: the request may have blanks around it.
            .with("targetSessionId", self.setup.session.as_str())
            .with(
                "requestPath",
                format!("{}/{}", self.setup.requests_path, request.id.file_name()),
            )
    }

    /// Adds what every entry about a question tells: who asks, and for what; no evidence.
    fn question(
        entry: Entry,
        request: &ForwardedPermissionRequest,
        payload: &PromptPayload,
    ) -> Entry {
        entry
            .with("requestId", request.id.as_str())
            .with("source", request.source.unwrap_or_default().name())
            .with_opt("agentName", request.agent_name())
            .with_facts(review_line::payload_facts(payload))
            .with_facts(review_line::call_facts(payload))
    }

    /// Records, once, that an ask waits for somebody.
    fn note_waiting(
        &mut self,
        request: &ForwardedPermissionRequest,
        payload: &PromptPayload,
        effects: &mut Vec<Effect>,
    ) {
        if let Some(ask) = self.asks.get_mut(&request.id)
            && ask.noted.advance(Noted::Waiting)
        {
            effects.push(Effect::Log(
                Self::question(Entry::new(audit::Event::Waiting), request, payload)
                    .with("resolution", Value::Null)
                    .with("denialReason", Value::Null),
            ));
        }
    }

    /// The entry of an ask that goes without an answer. What was decided and recorded already has its end: then it is said only
    /// that nobody took the answer.
    fn unanswered(&self, ending: Ending, id: &RequestId, reason: &str) -> Entry {
        let ask = self.asks.get(id);
        let recorded = ask.is_some_and(|ask| match &ask.stage {
            Stage::Deciding(undelivered) => undelivered.recorded,
            Stage::WithChain
            | Stage::Queued
            | Stage::Rereading
            | Stage::AwaitingAnnotations
            | Stage::Shown(_)
            | Stage::Relayed(_) => false,
        });
        let entry = if recorded {
            Entry::new(audit::Event::AnswerUnclaimed)
        } else {
            Entry::ending(
                ending,
                &DecisionSource::Unavailable {
                    reason: reason.to_owned(),
                },
            )
        };
        entry
            .with("requestId", id.as_str())
            .with_known("requesterSessionId", ask.map(|ask| ask.requester.as_str()))
            .with("targetSessionId", self.setup.session.as_str())
            .with("reason", reason)
    }
}

/// Label under which the peer's entries name the spool.
const SPOOL_LABEL: &str = "primary";
/// What is recorded where nobody waits any more, and where something else is asked.
const GONE: &str = "the process that asked has ended";
const TAKEN_BACK: &str = "its requester has taken it back";
const CHANGED: &str = "something else is asked under its id";
/// What the person is told where a request is as old as it may be.
const TOO_OLD: &str = "it has expired: its requester waits no longer";
/// What is told to whoever still waits when the session ends.
const ENDED: &str = "the serving session ended before anybody answered";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Authority {
    Person,
    Parent,
    Nobody,
}
