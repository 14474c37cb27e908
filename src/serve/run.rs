//! The serving loop: gathers events, performs effects. Whatever is decided is decided by the pure step.

use std::collections::{HashMap, HashSet, VecDeque};
use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, mpsc};
use tokio::task::{AbortHandle, JoinSet};

use super::event::{
    Answer, Care, Delivery, Effect, Event, FileClock, ParentLife, Relay, RelayOutcome,
};
use super::state::{Person, Setup, State};
use crate::ask::{Ask, Outcome, Requester};
use crate::audit::{AuditError, Entry, ReviewLog};
use crate::clock::{self, Moment};
use crate::policy::{Policy, SessionRules};
use crate::process;
use crate::prompt::{PersonEvent, Prompter};
use crate::spool::{
    AnswerOutcome, Candidate, Effort, Events, FileRead, FileStamp, HeartbeatFile, Inbox,
    LivenessProbe, LockOutcome, OnWake, Owner, RequesterLife, Scan, ServingLock, Spool, SpoolError,
    Unchanged, Wake, Watch, WatchId,
};
use crate::wire::{
    Decision, Digest, ForwardedPermissionResponse, Heartbeat, HeartbeatRelay, Hop, RequestId,
    ResponseRelay, SessionId,
};

/// How often the heartbeat is written. A requester takes a record for stale after five seconds.
const HEARTBEAT_EVERY: Duration = Duration::from_secs(2);
/// How often the inbox is looked at behind a watch that works, and without one.
const POLL_PROVEN: Duration = Duration::from_secs(2);
const POLL_UNPROVEN: Duration = Duration::from_millis(250);
/// How long work goes on before other inputs get their turn.
const SLICE: Duration = Duration::from_millis(5);
/// How often the parent's liveness is looked at.
const PARENT_EVERY: Duration = Duration::from_secs(1);
/// More names of closed files than this are "all of them".
const MAX_CLOSED: usize = 1024;

/// How a session is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Numbered questions.
    Select,
    /// No person: policy, then the parent, then nobody.
    Headless,
}

impl Mode {
    /// Its name, as the heartbeat shows it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Select => "select",
            Self::Headless => "headless",
        }
    }
}

/// The session that this one asks in turn.
#[derive(Debug)]
pub struct Parent {
    /// Its id.
    pub session: SessionId,
    /// How it is asked.
    pub requester: Requester,
}

/// What serving needs to be told.
#[derive(Debug)]
pub struct Settings {
    /// The session that is served.
    pub session: SessionId,
    /// Its agent name.
    pub agent: String,
    /// How it is served.
    pub mode: Mode,
    /// Its parent, if it has one.
    pub parent: Option<Parent>,
    /// Recorded policy.
    pub policy: Arc<Policy>,
    /// Home directory, for patterns that begin with it.
    pub home: Option<String>,
    /// How long an ask is passed on for at most.
    pub forwarding_timeout: Duration,
    /// When a request expires that does not say how long it waits.
    pub request_max_age: Duration,
    /// Whether a decision counts only once it is in the review log.
    pub require_audit: bool,
}

/// A session cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// Another process serves it.
    #[error("session \"{session}\" is served already{}", by(.owner))]
    Busy {
        /// The session.
        session: SessionId,
        /// Who serves it.
        owner: Owner,
    },
    /// The spool failed.
    #[error(transparent)]
    Spool(#[from] SpoolError),
}

fn by(owner: &Owner) -> String {
    owner
        .pid
        .map(|pid| format!(", by process {pid}"))
        .unwrap_or_default()
}

impl ServeError {
    /// What to do about it.
    pub fn hint(&self) -> String {
        match self {
            Self::Busy { owner, .. } => match owner.pid {
                Some(pid) => {
                    format!("stop process {pid} first, or serve another session with --session")
                }
                None => "stop the other server first, or serve another session with --session"
                    .to_owned(),
            },
            Self::Spool(error) => error.hint(),
        }
    }
}

/// A session that is being served.
pub struct Server {
    inbox: Inbox,
    heartbeat: HeartbeatFile,
    lock: Option<ServingLock>,
    state: State,
    log: Arc<ReviewLog>,
    log_failed: bool,
    woken: Arc<Woken>,
    watch: Option<(Arc<Watch>, WatchId)>,
    events: Events,
    prompter: Option<Box<dyn Prompter>>,
    person: mpsc::UnboundedReceiver<PersonEvent>,
    parent: Option<(Parent, LivenessProbe)>,
    relays: JoinSet<(RequestId, Digest, RelayOutcome)>,
    relay_handles: HashMap<RequestId, AbortHandle>,
    /// What is to be done, in the order in which it was decided.
    work: VecDeque<Effect>,
    /// What is to be read when that is done: whatever follows from one file is done before the next one is read.
    reads: VecDeque<Candidate>,
    mode: Mode,
    agent: String,
    session: SessionId,
    require_audit: bool,
    finished: bool,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server")
            .field("session", &self.session)
            .finish_non_exhaustive()
    }
}

/// What the watch sets.
#[derive(Default)]
struct Woken {
    notify: Notify,
    changed: AtomicBool,
    removed: AtomicBool,
    lost: AtomicBool,
    proven: AtomicBool,
    /// Whether anything is open, so that a file that is closed or removed can be news. This process closes and removes what it
    /// has answered itself.
    anything_open: AtomicBool,
    closed: Mutex<Closed>,
}

#[derive(Default)]
enum Closed {
    #[default]
    None,
    These(HashSet<String>),
    Any,
}

impl Woken {
    fn wake(&self, wake: Wake<'_>) {
        if matches!(wake, Wake::Closed(_) | Wake::Removed)
            && !self.anything_open.load(Ordering::Relaxed)
        {
            return;
        }
        match wake {
            Wake::Changed | Wake::Overflow => self.changed.store(true, Ordering::Relaxed),
            Wake::Removed => self.removed.store(true, Ordering::Relaxed),
            Wake::Lost => self.lost.store(true, Ordering::Relaxed),
            Wake::Proof => self.proven.store(true, Ordering::Relaxed),
            Wake::Closed(name) => {
                let mut closed = self.closed.lock().unwrap_or_else(PoisonError::into_inner);
                match &mut *closed {
                    Closed::None => *closed = Closed::These(HashSet::from([name.to_owned()])),
                    Closed::These(names) if names.len() < MAX_CLOSED => {
                        names.insert(name.to_owned());
                    }
                    Closed::These(_) | Closed::Any => *closed = Closed::Any,
                }
            }
        }
        if wake == Wake::Overflow {
            *self.closed.lock().unwrap_or_else(PoisonError::into_inner) = Closed::Any;
        }
        self.notify.notify_one();
    }
}

impl Server {
    /// Takes the session: lock, directories, watch, first look, heartbeat, in this order, so that nobody who sees the
    /// heartbeat asks in vain.
    pub fn start(
        spool: &Spool,
        settings: Settings,
        watch: Option<Arc<Watch>>,
        log: Arc<ReviewLog>,
        prompter: Option<Box<dyn Prompter>>,
        person: mpsc::UnboundedReceiver<PersonEvent>,
    ) -> Result<Self, ServeError> {
        let session = settings.session.clone();
        let lock = match ServingLock::take(spool, &session, clock::wall_ms())? {
            LockOutcome::Taken(lock) => Some(lock),
            LockOutcome::Busy(owner) => return Err(ServeError::Busy { session, owner }),
            LockOutcome::Unsupported => None,
        };
        let inbox = Inbox::open(spool, &session)?;
        let heartbeat = HeartbeatFile::new(spool, &session)?;
        let setup = Setup {
            session: session.clone(),
            requests_path: inbox.watched_path().to_string_lossy().into_owned(),
            responses_path: spool
                .session_path(&session)
                .join("responses")
                .to_string_lossy()
                .into_owned(),
            person: if prompter.is_some() {
                Person::Here
            } else {
                Person::Nobody
            },
            parent: settings
                .parent
                .as_ref()
                .map(|parent| parent.session.clone()),
            forwarding_timeout: settings.forwarding_timeout,
            request_max_age: settings.request_max_age,
        };
        let grants = SessionRules::new(settings.home.as_deref());
        let parent = settings.parent.map(|parent| {
            let probe = LivenessProbe::new(spool.clone(), parent.session.clone());
            (parent, probe)
        });
        let mut server = Self {
            inbox,
            heartbeat,
            lock,
            state: State::new(setup, settings.policy, grants),
            log,
            log_failed: false,
            woken: Arc::default(),
            watch: None,
            events: spool.events(),
            prompter,
            person,
            parent,
            relays: JoinSet::new(),
            relay_handles: HashMap::new(),
            work: VecDeque::new(),
            reads: VecDeque::new(),
            mode: settings.mode,
            agent: settings.agent,
            session,
            require_audit: settings.require_audit,
            finished: false,
        };
        server.start_watch(watch);
        let now = clock::now();
        let file_now = server.inbox.touch()?;
        server.state.set_file_clock(FileClock {
            at: now,
            mtime_ns: file_now.mtime_ns,
        });
        server.look_at_parent(now);
        server.scan(now, Effort::Full)?;
        server.beat(now);
        server.heartbeat.sweep_dead(file_now);
        let started = Entry::new("forwarded_permission.serving_started")
            .with("sessionId", server.session.as_str())
            .with("mode", server.mode.name());
        server.record(&[started]);
        Ok(server)
    }

    fn start_watch(&mut self, watch: Option<Arc<Watch>>) {
        let Some(watch) = watch else { return };
        let woken = Arc::clone(&self.woken);
        let on_wake: OnWake = Arc::new(move |wake| woken.wake(wake));
        match watch.watch(self.inbox.watched_path(), on_wake) {
            Ok(id) => self.watch = Some((watch, id)),
            Err(error) => {
                let message = crate::ask::describe(&error);
                self.notice(&message);
                self.record(&[warning(&message)]);
            }
        }
    }

    /// Serves until `stop` resolves, then settles everything that is open and takes leave.
    pub async fn run(mut self, stop: impl Future<Output = ()>) -> Result<(), ServeError> {
        let mut stop = std::pin::pin!(stop);
        let mut stopping = false;
        let mut next_beat = clock::now().after(HEARTBEAT_EVERY);
        let mut next_poll = clock::now().after(POLL_UNPROVEN);
        let mut next_parent = clock::now().after(PARENT_EVERY);
        while !self.finished {
            if self.is_busy() {
                // What is opened in this slice may be closed before it ends.
                self.woken.anything_open.store(true, Ordering::Relaxed);
                self.work_a_slice();
            }
            self.woken
                .anything_open
                .store(self.state.has_open(), Ordering::Relaxed);
            if self.finished {
                break;
            }
            let now = clock::now();
            let mut due = next_beat.min(next_poll);
            if self.parent.is_some() {
                due = due.min(next_parent);
            }
            if let Some(wait) = self.state.next_due(now) {
                due = due.min(now.after(wait));
            }
            let woken = Arc::clone(&self.woken);
            let busy = self.is_busy();
            tokio::select! {
                biased;
                () = &mut stop, if !stopping => {
                    stopping = true;
                    // What lies in the inbox now is settled as well; what comes later finds nobody serving.
                    let now = clock::now();
                    self.scan(now, Effort::Full)?;
                    self.dispatch(now, Event::Shutdown);
                }
                Some(event) = self.person.recv() => self.person_event(event),
                Some(ended) = self.relays.join_next() => {
                    // A relay that was cancelled has nothing to say.
                    if let Ok((id, digest, outcome)) = ended {
                        self.relay_handles.remove(&id);
                        self.dispatch(clock::now(), Event::Relayed(id, digest, outcome));
                    }
                }
                () = woken.notify.notified() => self.wake(clock::now())?,
                () = tokio::time::sleep_until(clock::instant(due).into()) => {
                    let now = clock::now();
                    if now >= next_beat {
                        self.beat(now);
                        next_beat = now.after(HEARTBEAT_EVERY);
                    }
                    if now >= next_poll {
                        next_poll = now.after(self.poll(now)?);
                    }
                    if self.parent.is_some() && now >= next_parent {
                        self.look_at_parent(now);
                        next_parent = now.after(PARENT_EVERY);
                    }
                    self.dispatch(now, Event::Tick);
                }
                () = tokio::task::yield_now(), if busy => {}
            }
        }
        self.take_leave()
    }

    fn take_leave(mut self) -> Result<(), ServeError> {
        self.relays.abort_all();
        let stopped = Entry::new("forwarded_permission.serving_stopped")
            .with("sessionId", self.session.as_str());
        self.record(&[stopped]);
        self.heartbeat.withdraw()?;
        if let Some((watch, id)) = self.watch.take() {
            watch.forget(&id);
        }
        self.inbox.close()?;
        Ok(())
    }

    /// Steps the state, and puts its effects behind those that are there.
    fn dispatch(&mut self, now: Moment, event: Event) {
        for effect in self.state.step(now, event) {
            if let Effect::Read(candidate) = effect {
                self.reads.push_back(candidate);
            } else {
                self.work.push_back(effect);
            }
        }
    }

    /// As [`Server::dispatch`], and what is to be read then goes before everything that waits to be read.
    fn dispatch_first(&mut self, now: Moment, event: Event) {
        let before = self.reads.len();
        self.dispatch(now, event);
        let new = self.reads.len() - before;
        self.reads.rotate_right(new);
    }

    fn person_event(&mut self, event: PersonEvent) {
        let now = clock::now();
        match event {
            PersonEvent::Chosen {
                id,
                digest,
                choice,
                by,
            } => {
                // The next question goes before everything that waits to be read.
                let chosen = Event::Chosen {
                    id,
                    digest,
                    choice,
                    by,
                };
                self.dispatch_first(now, chosen);
            }
            PersonEvent::Gone => self.dispatch(now, Event::PersonGone),
        }
    }

    fn wake(&mut self, now: Moment) -> Result<(), SpoolError> {
        let changed = self.woken.changed.swap(false, Ordering::Relaxed);
        let removed = self.woken.removed.swap(false, Ordering::Relaxed);
        if self.woken.lost.swap(false, Ordering::Relaxed) {
            self.rearm()?;
        }
        let closed = std::mem::take(
            &mut *self
                .woken
                .closed
                .lock()
                .unwrap_or_else(PoisonError::into_inner),
        );
        match closed {
            Closed::None => {}
            Closed::These(names) => {
                for id in names
                    .iter()
                    .filter_map(|name| RequestId::from_file_name(name))
                {
                    self.dispatch(now, Event::Closed(id));
                }
            }
            Closed::Any => {
                for id in self.state.held_ids() {
                    self.dispatch(now, Event::Closed(id));
                }
            }
        }
        // This process removes what it has answered; only where somebody still waits can a removal be news.
        if changed || (removed && self.state.waiting() > 0) {
            self.scan(now, Effort::Full)?;
        }
        Ok(())
    }

    /// The look that stands behind the watch. Gives the time to the next one.
    fn poll(&mut self, now: Moment) -> Result<Duration, SpoolError> {
        self.scan(now, Effort::IfChanged)?;
        if self.events == Events::Remote || self.watch.is_none() {
            return Ok(POLL_UNPROVEN);
        }
        if self.woken.proven.load(Ordering::Relaxed) {
            self.state.events_come();
            return Ok(POLL_PROVEN);
        }
        let _now = self.inbox.touch()?;
        Ok(POLL_UNPROVEN)
    }

    fn scan(&mut self, now: Moment, effort: Effort) -> Result<(), SpoolError> {
        match self.inbox.scan(effort) {
            Ok(Scan::Unchanged) => Ok(()),
            Ok(Scan::Listed(candidates)) => {
                self.dispatch(now, Event::Listed(candidates));
                Ok(())
            }
            Ok(Scan::Replaced) => {
                self.rearm()?;
                match self.inbox.scan(Effort::Full)? {
                    Scan::Listed(candidates) => self.dispatch(now, Event::Listed(candidates)),
                    // Replaced again at once: the next poll looks.
                    Scan::Unchanged | Scan::Replaced => {}
                }
                Ok(())
            }
            // A full table of descriptors, a mount that hangs: it is tried again with the next poll.
            Err(error) => {
                self.record(&[warning(&crate::ask::describe(&error))]);
                Ok(())
            }
        }
    }

    /// The directory was removed or replaced: opens and watches the new one.
    fn rearm(&mut self) -> Result<(), SpoolError> {
        self.inbox.reopen()?;
        self.woken.proven.store(false, Ordering::Relaxed);
        if let Some((watch, id)) = &self.watch
            && let Err(error) = watch.rearm(id)
        {
            let message = crate::ask::describe(&error);
            self.record(&[warning(&message)]);
        }
        self.woken.changed.store(true, Ordering::Relaxed);
        self.woken.notify.notify_one();
        Ok(())
    }

    fn beat(&mut self, now: Moment) {
        let record = Heartbeat {
            session_id: self.session.as_str().to_owned(),
            pid: process::own_pid(),
            updated_at_ms: clock::wall_ms(),
            relay: Some(HeartbeatRelay {
                held: self.lock.is_some(),
                public_key: None,
                process: process::own_mark().clone(),
                queued: u64::try_from(self.state.waiting()).ok(),
                mode: Some(self.mode.name().to_owned()),
                agent: Some(self.agent.clone()),
            }),
        };
        let Ok(bytes) = record.to_json() else { return };
        match self.heartbeat.publish(&bytes) {
            Ok(stamp) => {
                self.state.set_file_clock(FileClock {
                    at: now,
                    mtime_ns: stamp.mtime_ns,
                });
            }
            // A full disk must not end the session: what policy allows may still be answered, and the next beat may work.
            Err(error) => {
                self.record(&[warning(&crate::ask::describe(&error))]);
            }
        }
    }

    fn look_at_parent(&mut self, now: Moment) {
        let Some((_, probe)) = &mut self.parent else {
            return;
        };
        let serving = probe.look(now).liveness == crate::wire::Liveness::Alive;
        let life = if serving {
            ParentLife::Serving
        } else {
            ParentLife::NotServing
        };
        self.dispatch(now, Event::Parent(life));
    }

    fn work_a_slice(&mut self) {
        let until = clock::now().after(SLICE);
        let mut done = 0_u32;
        while let Some(effect) = self.next_effect() {
            self.perform(effect);
            done += 1;
            if done.is_multiple_of(8) && clock::now() >= until {
                return;
            }
        }
    }

    fn is_busy(&self) -> bool {
        !self.work.is_empty() || !self.reads.is_empty()
    }

    fn next_effect(&mut self) -> Option<Effect> {
        let read = || self.reads.pop_front().map(Effect::Read);
        self.work.pop_front().or_else(read)
    }

    fn perform(&mut self, effect: Effect) {
        match effect {
            Effect::Read(candidate) => {
                let (read, life) = self.inbox.read(&candidate.name);
                self.dispatch_first(clock::now(), Event::Read(candidate, read, life));
            }
            Effect::Answer(answer) => self.answer(*answer),
            Effect::Log(entry) => drop(self.record(&[entry])),
            Effect::CheckLife(id) => {
                let life = self.inbox.requester_life(&id);
                self.dispatch(clock::now(), Event::Life(id, life));
            }
            Effect::Remove(id) => {
                if let Err(error) = self.inbox.remove_request(&id) {
                    self.record(&[warning(&crate::ask::describe(&error))]);
                }
            }
            Effect::SetAside {
                candidate,
                reason,
                answer,
            } => {
                if let (Some(id), Some(decision)) = (&candidate.id, answer) {
                    self.answer_unusable(id, decision);
                }
                if let Err(error) =
                    self.inbox
                        .quarantine(&candidate.name, &reason, clock::wall_ms())
                {
                    self.record(&[warning(&crate::ask::describe(&error))]);
                    self.dispatch(clock::now(), Event::Stuck(candidate));
                }
            }
            Effect::Show(shown) => {
                if let Some(prompter) = &mut self.prompter {
                    prompter.show(*shown);
                }
            }
            Effect::Withdraw { id, why } => {
                if let Some(prompter) = &mut self.prompter {
                    prompter.withdraw(&id, &why);
                }
            }
            Effect::Relay(relay) => self.relay(*relay),
            Effect::CancelRelay(id) => {
                if let Some(handle) = self.relay_handles.remove(&id) {
                    handle.abort();
                }
            }
            Effect::Finished => self.finished = true,
        }
    }

    fn answer(&mut self, answer: Answer) {
        let id = answer.id.clone();
        let delivery = self.deliver(answer);
        self.dispatch(clock::now(), Event::Answered(id, delivery));
    }

    fn deliver(&mut self, mut answer: Answer) -> Delivery {
        if answer.care == Care::Person {
            match self.inbox.requester_life(&answer.id) {
                RequesterLife::Gone if self.state.is_held(&answer.id) => {
                    return Delivery::RequesterGone;
                }
                RequesterLife::RequestGone => return Delivery::Unclaimed,
                RequesterLife::Gone | RequesterLife::Waiting | RequesterLife::Unknown => {}
            }
            match self.inbox.is_unchanged(&answer.id, answer.stamp) {
                // Where it cannot be told, publishing looks again, and fails for that cause once the decision is recorded.
                Ok(Unchanged::Same) | Err(_) => {}
                // Touched, or put there anew: what counts is whether the same bytes are asked.
                Ok(Unchanged::Changed) => match self.stamp_of_same_bytes(&answer) {
                    Some(stamp) => answer.stamp = stamp,
                    None => return Delivery::RequestChanged,
                },
                Ok(Unchanged::Gone) => return Delivery::Unclaimed,
            }
        }
        let counts = self.record(&answer.entries) || !self.require_audit;
        if !counts {
            answer.decision = Decision::unavailable(
                "the decision could not be recorded, and this session decides nothing unrecorded",
            );
        }
        let response = self.response(&answer);
        let Ok(bytes) = response.to_json() else {
            return Delivery::Failed("the response cannot be written as JSON".to_owned());
        };
        match self.inbox.answer(&answer.id, Some(answer.stamp), &bytes) {
            Ok(AnswerOutcome::Delivered) if counts => Delivery::Delivered,
            Ok(AnswerOutcome::Delivered) => Delivery::Unrecorded,
            Ok(AnswerOutcome::Unclaimed) => Delivery::Unclaimed,
            Ok(AnswerOutcome::RequestChanged) => Delivery::RequestChanged,
            Ok(AnswerOutcome::AlreadyThere(found)) => {
                self.already_there(&answer, &response, &found)
            }
            Err(error) => Delivery::Failed(crate::ask::describe(&error)),
        }
    }

    /// The stamp that the request has now, where its bytes are those that were decided.
    fn stamp_of_same_bytes(&self, answer: &Answer) -> Option<FileStamp> {
        match self.inbox.read(&Candidate::of(&answer.id).name).0 {
            FileRead::Content { bytes, stamp } => {
                (Digest::of(&bytes) == answer.digest).then_some(stamp)
            }
            FileRead::Missing | FileRead::Refused(_) | FileRead::Failed(_) => None,
        }
    }

    /// A response lies there already. If it is an answer of this session to these bytes, it stands: nobody is answered twice.
    /// Anything else was put there by somebody who may not answer, and makes room.
    fn already_there(
        &mut self,
        answer: &Answer,
        response: &ForwardedPermissionResponse,
        found: &[u8],
    ) -> Delivery {
        let ours = ForwardedPermissionResponse::from_json(found).is_ok_and(|found| {
            found.responder_session_id == response.responder_session_id
                && found.relay.and_then(|relay| relay.request_digest) == Some(answer.digest)
        });
        if ours {
            return Delivery::AlreadyAnswered;
        }
        let reason = "this session did not write it";
        self.record(&[Entry::new("forwarded_permission.response_refused")
            .with("requestId", answer.id.as_str())
            .with("targetSessionId", self.session.as_str())
            .with("reason", reason)]);
        match self
            .inbox
            .quarantine_response(&answer.id, reason, clock::wall_ms())
        {
            Ok(_) => Delivery::Failed("a foreign response was in the way".to_owned()),
            Err(error) => Delivery::Failed(crate::ask::describe(&error)),
        }
    }

    fn response(&self, answer: &Answer) -> ForwardedPermissionResponse {
        ForwardedPermissionResponse {
            state: answer.decision.state,
            denial_reason: answer.decision.denial_reason.clone(),
            responder_session_id: self.session.as_str().to_owned(),
            responded_at_ms: Some(clock::wall_ms()),
            decided_by: Some(answer.decision.decided_by.clone()),
            width: answer.decision.width,
            relay: Some(ResponseRelay {
                request_digest: Some(answer.digest),
                operator: None,
            }),
        }
    }

    /// Tells whoever waits for an unusable request that nothing will come of it. There is no digest to bind it to, and a
    /// denial needs none.
    fn answer_unusable(&mut self, id: &RequestId, decision: Decision) {
        let response = ForwardedPermissionResponse {
            state: decision.state,
            denial_reason: decision.denial_reason,
            responder_session_id: self.session.as_str().to_owned(),
            responded_at_ms: Some(clock::wall_ms()),
            decided_by: Some(decision.decided_by),
            width: decision.width,
            relay: Some(ResponseRelay::default()),
        };
        let published = match response.to_json() {
            Ok(bytes) => self
                .inbox
                .publish_denial(id, &bytes)
                .map_err(|error| crate::ask::describe(&error)),
            Err(error) => Err(error.to_string()),
        };
        if let Err(cause) = published {
            self.record(&[warning(&cause)]);
        }
    }

    fn relay(&mut self, relay: Relay) {
        let Some((parent, _)) = &self.parent else {
            return;
        };
        let requester = parent.requester.clone();
        let (request, digest) = (relay.request, relay.digest);
        let id = request.id.clone();
        let mut path = request
            .relay
            .as_ref()
            .map(|relay| relay.path.clone())
            .unwrap_or_default();
        path.push(Hop {
            session_id: request.requester_session_id.clone(),
            agent_name: request.requester_agent_name.clone(),
        });
        let ask = Ask {
            id: Some(id.as_str().to_owned()),
            payload: request.projection(),
            source: request.source.unwrap_or_default(),
            surface: request.surface,
            value: request.value,
            grants: request.grants,
            access_intent: request.access_intent.filter(|_| !request.was_replaced),
            timeout: relay.budget,
            path,
        };
        let handle = self.relays.spawn({
            let id = id.clone();
            async move {
                let answer = requester.ask(ask).await;
                let outcome = match answer.outcome {
                    Outcome::Decided(decision) => RelayOutcome::Answered(decision),
                    Outcome::Abandoned(abandonment) => RelayOutcome::Nobody(abandonment.decision()),
                };
                (id, digest, outcome)
            }
        });
        self.relay_handles.insert(id, handle);
    }

    /// Writes to the review log. Tells whether it worked; that it did not is said once.
    fn record(&mut self, entries: &[Entry]) -> bool {
        if entries.is_empty() {
            return true;
        }
        match self.log.append_all(clock::wall_ms(), entries) {
            Ok(()) => true,
            Err(error) => {
                if !self.log_failed {
                    self.log_failed = true;
                    self.notice_log_failure(&error);
                }
                false
            }
        }
    }

    fn notice_log_failure(&mut self, error: &AuditError) {
        let text = format!(
            "the review log cannot be written: {}",
            crate::ask::describe(error)
        );
        self.notice(&text);
    }

    fn notice(&mut self, text: &str) {
        if let Some(prompter) = &mut self.prompter {
            prompter.notice(&crate::presentation::text::visible(text));
        }
    }
}

fn warning(message: &str) -> Entry {
    Entry::new("permission_forwarding.warning").with("message", message)
}
