//! The requester's loop: performs what the pure step says, on files, timers and wakes.

use std::collections::HashSet;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use super::state::{
    Expected, Heartbeats, LIVENESS_EVERY, Next, Outcome, POLL_PROVEN, POLL_UNPROVEN, Seen, Waiting,
};
use super::{Abandonment, Answer, Ask, Settings};
use crate::audit::{Entry, ReviewLog};
use crate::clock::{self, Moment};
use crate::presentation::dialog;
use crate::process;
use crate::spool::{
    Consumed, Events, Held, LivenessProbe, Observation, Outbox, Spool, SpoolError, Submission,
    SubmitOutcome, Wake, Watch, WatchId,
};
use crate::wire::{
    Digest, ForwardedPermissionRequest, Generation, MAX_HOPS, RequestId, RequestRelay, WriteError,
};

/// Waits between tries of a write that failed for a passing reason.
const RETRY_AFTER: [Duration; 3] = [
    Duration::from_millis(10),
    Duration::from_millis(20),
    Duration::from_millis(30),
];
/// How long a lost race with clean-ups is taken up again, and how long apart.
const RACE_BUDGET: Duration = Duration::from_secs(2);
const RACE_PAUSE: Duration = Duration::from_millis(3);
/// How many ids are tried: a taken one is a new mint.
const ID_TRIES: usize = 16;
/// From how many waiting asks on one listing is cheaper than a look for each.
const LIST_FROM: usize = 5;

/// What all asks of one requester share.
#[derive(Debug)]
pub(super) struct Shared {
    settings: Settings,
    events: Events,
    session_path: PathBuf,
    outbox: Mutex<Outbox>,
    liveness: Mutex<(LivenessProbe, Option<(Moment, Observation)>)>,
    listed: Mutex<Option<(Moment, HashSet<RequestId>)>>,
    waiting: AtomicUsize,
    watch: Option<Arc<Watch>>,
    log: Arc<ReviewLog>,
}

impl Shared {
    pub(super) fn new(
        spool: &Spool,
        settings: Settings,
        watch: Option<Arc<Watch>>,
        log: Arc<ReviewLog>,
    ) -> Self {
        Self {
            events: spool.events(),
            session_path: spool.session_path(&settings.target),
            outbox: Mutex::new(Outbox::new(spool, &settings.target)),
            liveness: Mutex::new((
                LivenessProbe::new(spool.clone(), settings.target.clone()),
                None,
            )),
            listed: Mutex::new(None),
            waiting: AtomicUsize::new(0),
            watch,
            log,
            settings,
        }
    }

    pub(super) fn session_path(&self) -> PathBuf {
        self.session_path.clone()
    }

    fn outbox(&self) -> MutexGuard<'_, Outbox> {
        self.outbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn record(&self, entry: &Entry) {
        // A requester's log explains; it decides nothing, so it cannot hold up an answer.
        let _logged = self.log.append(clock::wall_ms(), entry);
    }

    /// One look at the session's liveness serves all asks that wait for it.
    fn liveness(&self, now: Moment) -> Observation {
        let mut guard = self.liveness.lock().unwrap_or_else(PoisonError::into_inner);
        let (probe, last) = &mut *guard;
        match *last {
            // While it looks unserved, each look counts: the grace is short.
            Some((at, seen))
                if !seen.liveness.is_unserved() && now.since(at) < LIVENESS_EVERY / 2 =>
            {
                seen
            }
            Some(_) | None => {
                let seen = probe.look(now);
                *last = Some((now, seen));
                seen
            }
        }
    }

    /// Looks for a response. With many asks waiting, a poll lists the directory once for all of them.
    fn look(&self, id: &RequestId, why: Look, now: Moment) -> Result<Consumed, SpoolError> {
        let mut outbox = self.outbox();
        if why == Look::Poll {
            if self.waiting.load(Ordering::Relaxed) >= LIST_FROM {
                let mut listed = self.listed.lock().unwrap_or_else(PoisonError::into_inner);
                let fresh = listed
                    .as_ref()
                    .is_some_and(|(at, _)| now.since(*at) < POLL_UNPROVEN / 2);
                if !fresh {
                    outbox.refresh();
                    *listed = Some((now, outbox.list_responses()?.into_iter().collect()));
                }
                if listed.as_ref().is_some_and(|(_, ids)| !ids.contains(id)) {
                    return Ok(Consumed::NotYet);
                }
            } else {
                outbox.refresh();
            }
        }
        outbox.look(id)
    }
}

/// Why a requester looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Look {
    /// It was woken, or has just asked, or is about to give up.
    Now,
    /// Time has passed.
    Poll,
}

/// An id of the caller, if it may name a file, else a fresh one.
pub(super) fn adopt_or_mint(id: Option<&str>) -> RequestId {
    id.and_then(RequestId::parse)
        .unwrap_or_else(|| RequestId::mint(random()))
}

/// 128 random bits. Where the machine has none to give, time and pid still keep ids apart; nothing rests on them being
/// secret.
fn random() -> [u8; 16] {
    let mut bytes = [0; 16];
    if getrandom::fill(&mut bytes).is_err() {
        let seed = format!(
            "{:?} {} {}",
            clock::now(),
            clock::wall_ms(),
            process::own_pid()
        );
        for (to, from) in bytes
            .iter_mut()
            .zip(blake3::hash(seed.as_bytes()).as_bytes())
        {
            *to = *from;
        }
    }
    bytes
}

/// A request that is taken back when it is dropped before its end.
struct Open<'a> {
    shared: &'a Shared,
    submission: Option<Submission>,
    watching: Option<WatchId>,
}

impl<'a> Open<'a> {
    fn new(shared: &'a Shared, submission: Submission) -> Self {
        shared.waiting.fetch_add(1, Ordering::Relaxed);
        Self {
            shared,
            submission: Some(submission),
            watching: None,
        }
    }

    fn id(&self) -> Option<&RequestId> {
        self.submission.as_ref().map(Submission::id)
    }

    /// Ends the request: consumes what was answered, or takes it back.
    fn end(&mut self, how: End) {
        let Some(submission) = self.submission.take() else {
            return;
        };
        self.shared.waiting.fetch_sub(1, Ordering::Relaxed);
        let path = submission.path().clone();
        let ended = {
            let mut outbox = self.shared.outbox();
            match how {
                End::Consume => outbox.finish(submission),
                End::TakeBack => outbox.withdraw(submission),
            }
        };
        if let (Some(watch), Some(id)) = (&self.shared.watch, self.watching.take()) {
            // The file is removed, and its watch ended with it.
            watch.forget_removed(&id);
        }
        if let Err(error) = ended {
            self.shared.record(&warning(&format!(
                "cannot clean up after {}: {}",
                path.display(),
                describe(&error)
            )));
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum End {
    Consume,
    TakeBack,
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.id() {
            self.shared.record(
                &Entry::new("forwarded_permission.request_withdrawn")
                    .with("requestId", id.as_str())
                    .with("targetSessionId", self.shared.settings.target.as_str()),
            );
        }
        self.end(End::TakeBack);
    }
}

pub(super) async fn ask(shared: &Shared, ask: Ask) -> Answer {
    let started_at = clock::now();
    let mut id = adopt_or_mint(ask.id.as_deref());
    let done = |id: &RequestId, outcome| Answer {
        request_id: id.clone(),
        outcome,
        sealed: false,
        waited: clock::now().since(started_at),
    };
    if let Some(abandonment) = too_many_hops(shared, &ask) {
        return done(&id, abandon(shared, &id, abandonment));
    }
    let mut request = request_of(shared, &ask, &id);
    let (submission, digest) = match submit(shared, &mut request, &mut id).await {
        Ok(submitted) => submitted,
        Err(abandonment) => return done(&id, abandon(shared, &id, abandonment)),
    };
    let expected = Expected {
        responder: shared.settings.target.clone(),
        digest,
    };
    let mut open = Open::new(shared, submission);
    // While the server is at it already.
    record_created(shared, &request);
    let outcome = wait(shared, &mut open, &ask, &expected, started_at).await;
    done(&id, outcome)
}

fn too_many_hops(shared: &Shared, ask: &Ask) -> Option<Abandonment> {
    let cause = if ask.path.len() >= MAX_HOPS {
        format!("it came through {} sessions already", ask.path.len())
    } else if ask
        .path
        .iter()
        .any(|hop| hop.session_id == shared.settings.target.as_str())
    {
        format!(
            "it came through session \"{}\" before",
            shared.settings.target
        )
    } else {
        return None;
    };
    Some(Abandonment::TooManyHops { cause })
}

fn abandon(shared: &Shared, id: &RequestId, abandonment: Abandonment) -> Outcome {
    let entry = Entry::new("permission_forwarding.error")
        .with("requestId", id.as_str())
        .with("message", abandonment.reason());
    shared.record(&entry);
    Outcome::Abandoned(abandonment)
}

fn request_of(shared: &Shared, ask: &Ask, id: &RequestId) -> ForwardedPermissionRequest {
    let Settings {
        target,
        session_id,
        agent_name,
        generation,
    } = &shared.settings;
    ForwardedPermissionRequest {
        id: id.clone(),
        created_at_ms: clock::wall_ms(),
        requester_session_id: session_id.clone(),
        target_session_id: target.as_str().to_owned(),
        requester_agent_name: agent_name.clone(),
        message: (*generation == Generation::G1).then(|| dialog::plain_message(&ask.payload)),
        payload: Some(ask.payload.clone()),
        source: Some(ask.source),
        surface: ask.surface.clone(),
        value: ask.value.clone(),
        grants: ask.grants.clone(),
        access_intent: ask.access_intent.clone(),
        relay: Some(RequestRelay {
            held: false,
            pid: Some(process::own_pid()),
            process: process::own_mark().clone(),
            timeout_ms: Some(u64::try_from(ask.timeout.as_millis()).unwrap_or(u64::MAX)),
            nonce: Some(format!("{:032x}", u128::from_ne_bytes(random()))),
            path: ask.path.clone(),
        }),
        was_replaced: false,
    }
}

/// Writes the request: under another id where its own is taken, again where the machine fails for a moment.
async fn submit(
    shared: &Shared,
    request: &mut ForwardedPermissionRequest,
    id: &mut RequestId,
) -> Result<(Submission, Digest), Abandonment> {
    let target = &shared.settings.target;
    if let Err(error) = with_retries(|| shared.outbox().prepare()).await {
        return Err(Abandonment::NoDirectories {
            target: target.clone(),
            cause: describe(&error),
        });
    }
    for _ in 0..ID_TRIES {
        let mut digest = None;
        let submitted = with_retries(|| {
            shared.outbox().submit(id, |held| {
                if let Some(relay) = &mut request.relay {
                    relay.held = held == Held::Locked;
                }
                let bytes = request
                    .to_json(shared.settings.generation)
                    .map_err(|e: WriteError| io::Error::other(e))?;
                digest = Some(Digest::of(&bytes));
                Ok(bytes)
            })
        })
        .await;
        match (submitted, digest) {
            (Ok(SubmitOutcome::Written(submission)), Some(digest)) => {
                return Ok((submission, digest));
            }
            (Ok(SubmitOutcome::IdTaken | SubmitOutcome::Written(_)), _) => {
                *id = RequestId::mint(random());
                request.id = id.clone();
            }
            (Err(error), _) => {
                // Removes what was made for a request that never came.
                let _cleaned = shared.outbox().clean();
                return Err(Abandonment::NotWritten {
                    target: target.clone(),
                    cause: describe(&error),
                });
            }
        }
    }
    Err(Abandonment::NotWritten {
        target: target.clone(),
        cause: format!("{ID_TRIES} ids in a row were taken"),
    })
}

fn record_created(shared: &Shared, request: &ForwardedPermissionRequest) {
    if !shared.log.is_enabled() {
        return;
    }
    let file = request.id.file_name();
    shared.record(
        &Entry::new("forwarded_permission.request_created")
            .with("requestId", request.id.as_str())
            .with("requesterAgentName", request.requester_agent_name.as_str())
            .with("requesterSessionId", request.requester_session_id.as_str())
            .with("targetSessionId", request.target_session_id.as_str())
            .with(
                "requestPath",
                shared
                    .session_path
                    .join("requests")
                    .join(&file)
                    .to_string_lossy(),
            )
            .with(
                "responsePath",
                shared
                    .session_path
                    .join("responses")
                    .join(&file)
                    .to_string_lossy(),
            ),
    );
}

/// Tries again, a few times and not for long, what another process may be in the way of for a moment.
async fn with_retries<T>(
    mut attempt: impl FnMut() -> Result<T, SpoolError>,
) -> Result<T, SpoolError> {
    let started_at = clock::now();
    let mut pauses = RETRY_AFTER.into_iter();
    loop {
        let pause = match attempt() {
            Err(error) if error.is_passing() => pauses.next().ok_or(error),
            Err(error) if error.is_race() && clock::now().since(started_at) < RACE_BUDGET => {
                Ok(RACE_PAUSE)
            }
            other => return other,
        };
        tokio::time::sleep(pause?).await;
    }
}

/// What a watch on the request file sets.
#[derive(Debug, Default)]
struct Woken {
    notify: Notify,
    events_come: AtomicBool,
}

async fn wait(
    shared: &Shared,
    open: &mut Open<'_>,
    ask: &Ask,
    expected: &Expected,
    started_at: Moment,
) -> Outcome {
    let Some(id) = open.id().cloned() else {
        return Outcome::Abandoned(Abandonment::Withdrawn);
    };
    let heartbeats = match shared.settings.generation {
        Generation::Current => Heartbeats::Expected,
        Generation::G1 => Heartbeats::None,
    };
    let mut state = Waiting::new(
        expected.responder.clone(),
        started_at,
        ask.timeout,
        heartbeats,
    );
    let woken = watch_request(shared, open);
    let mut why = Look::Now;
    loop {
        let now = clock::now();
        let due = state.due(now);
        let seen = if why == Look::Now || due.response {
            match shared.look(&id, why, now) {
                Ok(Consumed::NotYet) => Seen::Nothing,
                Ok(Consumed::Bytes(bytes, _)) => Seen::from_bytes(&bytes, expected),
                Ok(Consumed::Unreadable(cause)) => Seen::Unreadable(cause),
                Err(error) => Seen::Unreadable(describe(&error)),
            }
        } else {
            Seen::NotLooked
        };
        let nothing = matches!(seen, Seen::Nothing | Seen::NotLooked);
        let liveness = (due.liveness && nothing).then(|| shared.liveness(now).liveness);
        let poll = match &woken {
            Some(woken)
                if shared.events == Events::Local && woken.events_come.load(Ordering::Relaxed) =>
            {
                POLL_PROVEN
            }
            Some(_) | None => POLL_UNPROVEN,
        };
        match state.step(now, seen, liveness, poll) {
            Next::Finish(outcome) => {
                record_end(shared, open, &id, &outcome, expected);
                return outcome;
            }
            Next::Refuse(mismatch) => {
                shared.record(
                    &Entry::new("forwarded_permission.response_refused")
                        .with("requestId", id.as_str())
                        .with("targetSessionId", expected.responder.as_str())
                        .with("reason", mismatch.to_string()),
                );
                let refused = shared.outbox().refuse(&id);
                if let Err(error) = refused {
                    // It cannot be removed, so the true response cannot come either.
                    let cause = describe(&error);
                    let outcome = Outcome::Abandoned(Abandonment::Unreadable {
                        target: expected.responder.clone(),
                        cause,
                    });
                    record_end(shared, open, &id, &outcome, expected);
                    return outcome;
                }
                why = Look::Now;
            }
            Next::Wait(time) => {
                why = pause(woken.as_deref(), now, time).await;
                if why == Look::Poll
                    && let (Some(woken), Some(submission)) = (&woken, &open.submission)
                    && shared.events == Events::Local
                    && !woken.events_come.load(Ordering::Relaxed)
                {
                    submission.touch();
                }
            }
        }
    }
}

/// Waits for a wake or for time. Long waits end on a common grid, so that many asks wake the process once.
async fn pause(woken: Option<&Woken>, now: Moment, time: Duration) -> Look {
    const GRID: Duration = Duration::from_millis(100);
    let mut until = now.after(time);
    if time >= LIVENESS_EVERY {
        let past = until.since_start().as_nanos() % GRID.as_nanos();
        let back = Duration::from_nanos(u64::try_from(past).unwrap_or(0));
        until = Moment::from_start(until.since_start().saturating_sub(back));
    }
    let timer = tokio::time::sleep_until(clock::instant(until).into());
    match woken {
        None => {
            timer.await;
            Look::Poll
        }
        Some(woken) => tokio::select! {
            biased;
            () = woken.notify.notified() => Look::Now,
            () = timer => Look::Poll,
        },
    }
}

/// Watches the own request file: the server removes it once the response is there, and nobody else's answer touches it.
fn watch_request(shared: &Shared, open: &mut Open<'_>) -> Option<Arc<Woken>> {
    let watch = shared.watch.as_ref()?;
    let submission = open.submission.as_ref()?;
    let woken = Arc::new(Woken::default());
    let set = Arc::clone(&woken);
    let on_wake = Arc::new(move |_: Wake<'_>| {
        set.events_come.store(true, Ordering::Relaxed);
        set.notify.notify_one();
    });
    match watch.watch(submission.path(), on_wake) {
        Ok(id) => {
            open.watching = Some(id);
            Some(woken)
        }
        // It is answered already, and looked at next.
        Err(crate::spool::WatchError::Missing { .. }) => Some(woken),
        Err(error) => {
            shared.record(&warning(&error.to_string()));
            None
        }
    }
}

fn record_end(
    shared: &Shared,
    open: &mut Open<'_>,
    id: &RequestId,
    outcome: &Outcome,
    expected: &Expected,
) {
    let target = expected.responder.as_str();
    match outcome {
        Outcome::Decided(decision) => {
            let responder = decision.decided_by.responder().map(str::to_owned);
            let entry = Entry::new("forwarded_permission.response_received")
                .with("requestId", id.as_str())
                .with("approved", decision.is_approved())
                .with("state", decision.state.name())
                .with_opt("denialReason", decision.denial_reason.clone())
                .with_opt("responderSessionId", responder)
                .with("targetSessionId", target)
                .with_decider(&decision.decided_by);
            shared.record(&entry);
            open.end(End::Consume);
        }
        Outcome::Abandoned(abandonment) => {
            let how = record_abandoned(shared, id, abandonment, target);
            open.end(how);
        }
    }
}

fn record_abandoned(
    shared: &Shared,
    id: &RequestId,
    abandonment: &Abandonment,
    target: &str,
) -> End {
    let (event, how) = match abandonment {
        Abandonment::NotServing { .. } => {
            ("forwarded_permission.no_serving_session", End::TakeBack)
        }
        Abandonment::TimedOut { .. } => ("forwarded_permission.response_timed_out", End::TakeBack),
        Abandonment::Unreadable { .. } => ("forwarded_permission.response_received", End::Consume),
        Abandonment::NoParent { .. }
        | Abandonment::NoDirectories { .. }
        | Abandonment::NotWritten { .. }
        | Abandonment::Withdrawn
        | Abandonment::TooManyHops { .. } => ("permission_forwarding.error", End::TakeBack),
    };
    let mut entry = Entry::new(event)
        .with("requestId", id.as_str())
        .with("requesterAgentName", shared.settings.agent_name.as_str())
        .with("requesterSessionId", shared.settings.session_id.as_str())
        .with("targetSessionId", target);
    entry = match abandonment {
        Abandonment::NotServing { liveness, .. } => entry
            .with("servingChannel", "heartbeat")
            .with("servingState", liveness.name()),
        Abandonment::Unreadable { .. } => entry
            .with("approved", serde_json::Value::Null)
            .with("state", serde_json::Value::Null),
        Abandonment::TimedOut { .. }
        | Abandonment::NoParent { .. }
        | Abandonment::NoDirectories { .. }
        | Abandonment::NotWritten { .. }
        | Abandonment::Withdrawn
        | Abandonment::TooManyHops { .. } => entry,
    };
    shared.record(
        &entry
            .with("reason", abandonment.reason())
            .with_decider(&abandonment.decision().decided_by),
    );
    how
}

fn warning(message: &str) -> Entry {
    Entry::new("permission_forwarding.warning").with("message", message)
}

/// An error with its causes, in one line.
pub(crate) fn describe(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}
