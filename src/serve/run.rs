//! The serving loop: gathers events and times, and does what needs the runtime. Whatever is decided is decided by the pure
//! step.

use std::collections::{HashMap, HashSet, VecDeque};
use std::future::Future;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};
use zeroize::Zeroizing;

use super::Broadcasts;
use super::annotate::{Annotating, AnnotatorChain};
use super::chain::{AuthorizerChain, Authorizing};
use super::core::{Core, Ended, Errand, Notices, Reopened, Rest, warning};
use super::event::{Event, FileClock, InLine, Relay, RelayOutcome};
use super::grants::GrantKeeper;
use super::renewal::{Renewal, Trouble};
use super::state::{MOST_CHAINS, Person, Setup, State};
use super::wake::{Woken, Worth};
use crate::ask::{Ask, Outcome, Requester, Trust, describe};
use crate::audit::{self, Entry, ReviewLog};
use crate::clock::{self, Moment};
use crate::policy::{self, Policy, SessionRules};
use crate::presentation::broadcast::Broadcast;
use crate::process;
use crate::prompt::{PersonEvent, Prompter};
use crate::spool::{
    Effort, Events, HeartbeatFile, Inbox, LivenessProbe, LockOutcome, OnWake, Owner, ServingLock,
    Spool, SpoolError, Wake, Watch, WatchId,
};
use crate::wire::{Digest, Hop, RequestId, SEAL_SEED_BYTES, SealKey, ServingKey, SessionId};

/// How often the heartbeat is written. A requester takes a record for stale after five seconds.
const HEARTBEAT_EVERY: Duration = Duration::from_secs(2);
/// How often the inbox is looked at behind a watch that works, and without one.
const POLL_PROVEN: Duration = Duration::from_secs(2);
const POLL_UNPROVEN: Duration = Duration::from_millis(250);
/// How often the parent's liveness is looked at.
const PARENT_EVERY: Duration = Duration::from_secs(1);

/// How a session is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// One bounded dialog at a time, on a terminal.
    Dialog,
    /// Numbered questions.
    Select,
    /// Asks wait in a list until the person opens one, within these limits.
    Inbox(policy::Inbox),
    /// One form at a time, in an agent that shows them.
    Form,
    /// No person: policy, then the parent, then nobody.
    Headless,
}

impl Mode {
    /// Its name, as the heartbeat shows it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Dialog => "dialog",
            Self::Select => "select",
            Self::Inbox(_) => "inbox",
            Self::Form => "form",
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
    /// Who adds a text to what a person is asked.
    pub annotators: AnnotatorChain,
    /// Who is asked before the person.
    pub authorizers: AuthorizerChain,
    /// Recorded policy, until a renewal brings another.
    pub policy: Arc<Policy>,
    /// Where configurations come from that were read again. One that is closed brings none.
    pub renewals: mpsc::UnboundedReceiver<Renewal>,
    /// What is wrong with the files of the configuration from the start.
    pub trouble: Option<Trouble>,
    /// Home directory, for patterns that begin with it.
    pub home: Option<String>,
    /// How long an ask is passed on for at most.
    pub forwarding_timeout: Duration,
    /// When a request expires that does not say how long it waits.
    pub request_max_age: Duration,
    /// How much of what policy leaves open is taken in.
    pub limits: policy::Limits,
    /// Whether a decision counts only once it is in the review log.
    pub require_audit: bool,
    /// Whether what a person grants outlives this server.
    pub persist_grants: bool,
    /// Where it is told what does not work, where no person is asked who could be told.
    pub notices: Option<Notices>,
    /// Where it is told what is asked and how it ended; whoever listens subscribes before the session starts.
    pub broadcasts: Broadcasts,
}

impl Settings {
    /// What holds for `session` where nothing else is said: everything is asked, of nobody.
    pub fn new(session: SessionId) -> Self {
        let config = policy::Config::default();
        Self {
            session,
            agent: "unknown".to_owned(),
            mode: Mode::Headless,
            parent: None,
            annotators: AnnotatorChain::default(),
            authorizers: AuthorizerChain::default(),
            policy: Arc::default(),
            renewals: mpsc::unbounded_channel().1,
            trouble: None,
            home: None,
            forwarding_timeout: config.forwarding_timeout,
            request_max_age: config.request_max_age,
            limits: config.limits,
            require_audit: false,
            persist_grants: false,
            notices: None,
            broadcasts: Broadcasts::new(1),
        }
    }
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
    /// The machine has no randomness to make a key of.
    #[error("cannot make a key to seal answers with: {0}")]
    NoKey(String),
    /// The memory that holds the key cannot be closed to others.
    #[error("cannot close the memory of this process to others of the same user")]
    OpenMemory(#[source] std::io::Error),
    /// The directory that it was served in was removed, or another has taken its place.
    #[error("the spool {path:?} was removed, so nobody can be served in it any more")]
    SpoolGone {
        /// Where it was.
        path: PathBuf,
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
            Self::NoKey(_) => "check that this system can give random bytes (getrandom)".to_owned(),
            Self::OpenMemory(_) => {
                "check what restricts this process (seccomp, a sandbox): it must be allowed prctl(PR_SET_DUMPABLE)"
                    .to_owned()
            }
            Self::SpoolGone { .. } => {
                "start `askrelay serve` again; it makes a new spool. Children that were launched before know the key of this \
                 server, so start those again too"
                    .to_owned()
            }
            Self::Spool(error) => error.hint(),
        }
    }
}

/// A session that is being served.
pub struct Server {
    core: Arc<Mutex<Core>>,
    woken: Arc<Woken>,
    watch: Option<(Arc<Watch>, WatchId)>,
    events: Events,
    person: mpsc::UnboundedReceiver<PersonEvent>,
    renewals: mpsc::UnboundedReceiver<Renewal>,
    parent: Option<Parent>,
    relays: JoinSet<(RequestId, Digest, RelayOutcome)>,
    relay_handles: HashMap<RequestId, AbortHandle>,
    annotating: Annotating,
    authorizing: Authorizing,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server")
            .field("events", &self.events)
            .finish_non_exhaustive()
    }
}

/// When the loop has to do something although nothing happens.
struct Times {
    beat: Moment,
    poll: Moment,
    parent: Moment,
}

impl Server {
    /// Takes the session: lock, directories, watch, first look, heartbeat, in this order, so that nobody who sees the
    /// heartbeat asks in vain. From then on no other process of the user can look into the memory of this one, which holds the
    /// session's key; that is so for the whole process, and is not undone.
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
        // Closed before there is anything in it to read.
        process::close_memory().map_err(ServeError::OpenMemory)?;
        let seal_key = new_key()?;
        let inbox = Inbox::open(spool, &session)?;
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
            limits: settings.limits,
            inbox: match settings.mode {
                Mode::Inbox(limits) => Some(limits),
                Mode::Dialog | Mode::Select | Mode::Form | Mode::Headless => None,
            },
            annotates: !settings.annotators.is_empty(),
            persist_grants: settings.persist_grants,
            chain: settings.authorizers,
            most_chains: MOST_CHAINS,
        };
        let grants = SessionRules::new(settings.home.as_deref());
        let keeper = GrantKeeper::new(spool, &session, settings.persist_grants);
        let woken = Arc::<Woken>::default();
        let probe = |parent: &Parent| {
            let probe = LivenessProbe::new(spool.clone(), parent.session.clone());
            match parent.requester.trust() {
                Trust::Pinned(key) => probe.expecting(key),
                Trust::Anybody | Trust::NoKey => probe,
            }
        };
        let mut core = Core {
            spool: spool.clone(),
            inbox,
            heartbeat: HeartbeatFile::new(spool, &session)?,
            lock,
            state: State::new(setup, settings.policy, grants),
            log_failed: log.failure().is_some(),
            log,
            unrecorded: HashSet::new(),
            notices: settings.notices,
            woken: Arc::clone(&woken),
            prompter,
            broadcasts: settings.broadcasts,
            waiting_told: InLine::default(),
            parent: settings.parent.as_ref().map(probe),
            work: VecDeque::new(),
            reads: VecDeque::new(),
            errands: Vec::new(),
            mode: settings.mode.name(),
            agent: settings.agent,
            session,
            public_key: seal_key.public().to_string(),
            seal_key,
            require_audit: settings.require_audit,
            grants: keeper,
            answered_before: HashSet::new(),
            troubles: HashMap::new(),
            successor: None,
            ended: None,
        };
        core.state.start_with_trouble(settings.trouble);
        let missing = core.state.chain().unregistered().to_vec();
        let mut server = Self {
            core: Arc::new(Mutex::new(core)),
            woken,
            watch: None,
            events: spool.events(),
            person,
            renewals: settings.renewals,
            parent: settings.parent,
            relays: JoinSet::new(),
            relay_handles: HashMap::new(),
            annotating: Annotating::new(settings.annotators),
            authorizing: Authorizing::default(),
        };
        server.start_watch(watch);
        server.say_who_is_not_there();
        server.say_missing(audit::Event::AuthorizerUnregistered, &missing);
        server.first_look()?;
        Ok(server)
    }

    fn first_look(&self) -> Result<(), SpoolError> {
        let mut core = self.core();
        let now = clock::now();
        let file_now = core.inbox.touch()?;
        core.state.set_file_clock(FileClock {
            at: now,
            mtime_ns: file_now.mtime_ns,
        });
        core.look_at_parent(now);
        core.look_for_grants(now);
        core.answered_before = core.inbox.responses()?.into_iter().collect();
        core.scan(now, Effort::Full);
        core.recall();
        core.beat(now);
        core.heartbeat.sweep_dead(file_now);
        let started = Entry::new(audit::Event::ServingStarted)
            .with("sessionId", core.session.as_str())
            .with("mode", core.mode);
        core.record(&[started]);
        core.tell(Broadcast::ready());
        Ok(())
    }

    /// Annotators that are named and not there: nothing is decided otherwise without them, but somebody counts on them.
    fn say_who_is_not_there(&self) {
        self.say_missing(
            audit::Event::AnnotatorUnregistered,
            self.annotating.unregistered(),
        );
    }

    fn say_missing(&self, event: audit::Event, names: &[String]) {
        let entries: Vec<Entry> = names
            .iter()
            .map(|name| Entry::new(event).with("name", name.as_str()))
            .collect();
        self.core().record(&entries);
    }

    /// Tells the person something that needs no answer.
    pub fn notice(&self, text: &str) {
        self.core().notice(text);
    }

    /// The key that verifies this session's seals.
    pub fn public_key(&self) -> ServingKey {
        self.core().seal_key.public()
    }

    fn core(&self) -> MutexGuard<'_, Core> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn start_watch(&mut self, watch: Option<Arc<Watch>>) {
        let Some(watch) = watch else { return };
        let on_wake = on_wake(Arc::clone(&self.woken), Arc::downgrade(&self.core));
        let path = self.core().inbox.watched_path().to_owned();
        match watch.watch(&path, on_wake) {
            Ok(id) => self.watch = Some((watch, id)),
            Err(error) => {
                let message = describe(&error);
                let mut core = self.core();
                core.notice(&message);
                core.record(&[warning(&message)]);
            }
        }
    }

    /// Serves until `stop` resolves, then settles everything that is open and takes leave.
    pub async fn run(mut self, stop: impl Future<Output = ()>) -> Result<(), ServeError> {
        let mut stop = std::pin::pin!(stop);
        let mut stopping = false;
        let mut unheard = false;
        let now = clock::now();
        let mut times = Times {
            beat: now.after(HEARTBEAT_EVERY),
            poll: now.after(POLL_UNPROVEN),
            parent: now.after(PARENT_EVERY),
        };
        loop {
            let (due, busy) = {
                let mut core = self.core();
                core.work_a_slice();
                if core.ended.is_some() {
                    break;
                }
                (self.next_due(&core, &times), core.is_busy())
            };
            self.run_errands();
            let woken = Arc::clone(&self.woken);
            tokio::select! {
                biased;
                () = &mut stop, if !stopping => {
                    stopping = true;
                    self.core().leave();
                }
                event = self.person.recv(), if !unheard => {
                    // Whoever could have said something is gone without a word, by a fault of its own: nobody is there.
                    unheard = event.is_none();
                    self.core().person_event(event.unwrap_or(PersonEvent::Gone));
                }
                Some(renewal) = self.renewals.recv() => self.renew(renewal),
                Some(ended) = self.relays.join_next() => {
                    // A relay that was cancelled has nothing to say.
                    if let Ok((id, digest, outcome)) = ended {
                        self.relay_handles.remove(&id);
                        self.core().dispatch(clock::now(), Event::Relayed(id, digest, outcome));
                    }
                }
                Some(annotated) = self.annotating.next() => {
                    self.core().dispatch(clock::now(), annotated);
                }
                Some(authorized) = self.authorizing.next() => {
                    self.core().dispatch(clock::now(), authorized);
                }
                () = woken.notify.notified() => self.wake(),
                () = tokio::time::sleep_until(clock::instant(due).into()) => self.on_time(&mut times),
                () = tokio::task::yield_now(), if busy => {}
            }
        }
        self.take_leave()
    }

    /// Takes over a configuration that was read again. Annotators that are at work are left to it.
    fn renew(&mut self, renewal: Renewal) {
        if self.annotating.replace(&renewal.annotators) {
            self.say_who_is_not_there();
        }
        self.core().renew(clock::now(), renewal);
    }

    fn next_due(&self, core: &Core, times: &Times) -> Moment {
        let mut due = times.beat.min(times.poll);
        if self.parent.is_some() {
            due = due.min(times.parent);
        }
        let now = clock::now();
        core.state
            .next_due(now)
            .map_or(due, |wait| due.min(now.after(wait)))
    }

    fn on_time(&self, times: &mut Times) {
        let mut core = self.core();
        let now = clock::now();
        if now >= times.beat {
            // Moved away it can still be written, and nobody comes by there.
            core.look_for_the_spool();
            core.beat(now);
            times.beat = now.after(HEARTBEAT_EVERY);
        }
        // What is due soon is done along with what is due now: waking up costs more than looking.
        if now.after(POLL_UNPROVEN) >= times.poll {
            times.poll = now.after(self.poll(&mut core, now));
        }
        if self.parent.is_some() && now >= times.parent {
            core.look_at_parent(now);
            times.parent = now.after(PARENT_EVERY);
        }
        core.look_for_sleep();
        core.dispatch(now, Event::Tick);
    }

    /// The look that stands behind the watch. Gives the time to the next one.
    fn poll(&self, core: &mut Core, now: Moment) -> Duration {
        core.scan(now, Effort::IfChanged);
        if self.events == Events::Remote || self.watch.is_none() {
            return POLL_UNPROVEN;
        }
        if self.woken.is_proven() {
            core.state.events_come();
            return POLL_PROVEN;
        }
        let touched = core.inbox.touch().map(|_now| ());
        core.trouble("probe", touched);
        POLL_UNPROVEN
    }

    fn wake(&self) {
        if self.woken.take_lost() {
            self.rearm();
        }
        self.core().wake(clock::now());
    }

    /// The directory was removed or replaced: opens and watches the new one. The watcher's thread may be waiting for the
    /// core, so the core is free while the watcher is spoken to.
    fn rearm(&self) {
        let reopened = self.core().reopen();
        if reopened == Reopened::No {
            // Nothing is there to watch or to look at; looking again at once would find the same.
            return;
        }
        if let Some((watch, id)) = &self.watch
            && let Err(error) = watch.rearm(id)
        {
            self.core().record(&[warning(&describe(&error))]);
        }
        // What came between the first look and the new watch.
        self.woken.say_changed();
    }

    fn run_errands(&mut self) {
        let errands = std::mem::take(&mut self.core().errands);
        for errand in errands {
            match errand {
                Errand::Relay(relay) => self.relay(*relay),
                Errand::CancelRelay(id) => {
                    if let Some(handle) = self.relay_handles.remove(&id) {
                        handle.abort();
                    }
                }
                Errand::Annotate(annotate) => self.annotating.start(*annotate),
                Errand::CancelAnnotating(id) => self.annotating.cancel(&id),
                Errand::Authorize(authorize) => self.authorizing.start(*authorize),
                Errand::CancelAuthorizing(id) => self.authorizing.cancel(&id),
                Errand::Rearm => self.rearm(),
            }
        }
    }

    fn relay(&mut self, relay: Relay) {
        let Some(parent) = &self.parent else { return };
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
            // Replaced text looks like any other on the next hop; without these facts no rule there can allow it.
            access_intent: request.access_intent.filter(|_| !request.was_replaced),
            timeout: relay.budget,
            rules_only: request.relay.as_ref().is_some_and(|relay| relay.rules_only),
            guard: request.relay.as_ref().is_some_and(|relay| relay.guard),
            verdict_only: request
                .relay
                .as_ref()
                .is_some_and(|relay| relay.verdict_only),
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

    fn take_leave(mut self) -> Result<(), ServeError> {
        self.relays.abort_all();
        self.annotating.cancel_all();
        self.authorizing.cancel_all();
        if let Some((watch, id)) = self.watch.take() {
            watch.forget(&id);
        }
        let mut core = self.core();
        let stopped =
            Entry::new(audit::Event::ServingStopped).with("sessionId", core.session.as_str());
        core.record(&[stopped]);
        core.leave_grants();
        // One that fails must not keep the other from being tried.
        let withdrawn = core.heartbeat.withdraw();
        // What keeps the inbox of a session that was left to another process is that one's now.
        let closed = if core.successor.is_some() {
            Ok(())
        } else {
            core.inbox.close()
        };
        if core.ended == Some(Ended::SpoolGone) {
            let path = core.spool.path().to_owned();
            return Err(ServeError::SpoolGone { path });
        }
        withdrawn?;
        Ok(closed?)
    }
}

/// A key that nobody has had before.
fn new_key() -> Result<SealKey, ServeError> {
    let mut seed = Zeroizing::new([0; SEAL_SEED_BYTES]);
    getrandom::fill(seed.as_mut()).map_err(|error| ServeError::NoKey(error.to_string()))?;
    Ok(SealKey::from_seed(&seed))
}

/// What the watcher calls: it serves the wake itself if the loop is not at it, and wakes the loop for what is left.
fn on_wake(woken: Arc<Woken>, core: Weak<Mutex<Core>>) -> OnWake {
    Arc::new(move |wake| {
        let Some(core) = core.upgrade() else { return };
        // The loop may hold it; then it looks at the flags when it is done.
        let core = core.try_lock();
        if let (Wake::Changed(Some(name)), Ok(core)) = (wake, &core)
            && core.is_old_news(name)
        {
            return;
        }
        if woken.note(wake) == Worth::Nothing {
            return;
        }
        let rest = core.map_or(Rest::Some, |mut core| core.serve_wake());
        if rest == Rest::Some {
            woken.notify.notify_one();
        }
    })
}
