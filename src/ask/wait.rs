//! The requester's loop: performs what the pure step says, on files, timers and wakes.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use super::abandonment::Outcome;
use super::state::{
    Around, Glance, Heartbeats, LIVENESS_EVERY, Next, OTHER_KEY_GRACE, POLL_PROVEN, POLL_UNPROVEN,
    Seals, Waiting,
};
use super::submit::{adopt_or_mint, request_of, submit};
use super::verify::{Expected, Mismatch, Seen};
use super::{Abandonment, Answer, Ask, Settings, Trust, Verified, WhereNobodyServes};
use super::{describe, record};
use crate::audit::{Entry, ReviewLog};
use crate::clock::{self, Moment};
use crate::spool::{
    Consumed, Events, Freshness, LivenessProbe, Observation, Outbox, Spool, SpoolError, Submission,
    Wake, Watch, WatchId,
};
use crate::wire::{Generation, Liveness, MAX_HOPS, RequestId};

/// From how many waiting asks on one listing is cheaper than a look for each.
const LIST_FROM: usize = 5;

/// How many refusals of one ask are recorded: nobody fills the log by writing answers that do not count.
const REFUSALS_RECORDED: u32 = 8;

/// What all asks of one requester share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) settings: Settings,
    spool: Spool,
    events: Events,
    pub(super) session_path: PathBuf,
    outbox: Mutex<Outbox>,
    liveness: Mutex<(LivenessProbe, Option<(Moment, Observation)>)>,
    listed: Mutex<Option<(Moment, HashSet<RequestId>)>>,
    waiting: AtomicUsize,
    /// Whether a change has ever been seen to raise an event here.
    events_come: Arc<AtomicBool>,
    watch: Option<Arc<Watch>>,
    pub(super) log: Arc<ReviewLog>,
}

/// What looks whether the session is served, by the process whose key is known.
fn probe(spool: &Spool, settings: &Settings) -> LivenessProbe {
    let probe = LivenessProbe::new(spool.clone(), settings.target.clone());
    match &settings.trust {
        Trust::Pinned(key) => probe.expecting(key),
        Trust::Anybody | Trust::NoKey => probe,
    }
}

impl Shared {
    pub(super) fn new(
        spool: &Spool,
        settings: Settings,
        watch: Option<Arc<Watch>>,
        log: Arc<ReviewLog>,
    ) -> Self {
        Self {
            spool: spool.clone(),
            events: spool.events(),
            session_path: spool.session_path(&settings.target),
            outbox: Mutex::new(Outbox::new(spool, &settings.target)),
            liveness: Mutex::new((probe(spool, &settings), None)),
            listed: Mutex::new(None),
            waiting: AtomicUsize::new(0),
            events_come: Arc::default(),
            watch,
            log,
            settings,
        }
    }

    pub(super) fn outbox(&self) -> MutexGuard<'_, Outbox> {
        self.outbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn record(&self, entry: &Entry) {
        // A requester's log explains; it decides nothing, so it cannot hold up an answer.
        let _logged = self
            .log
            .append_or_hold(clock::wall_ms(), std::slice::from_ref(entry));
    }

    /// Some sessions that are served, for whoever asks one that is not.
    pub(super) fn served(&self, most: usize) -> Vec<String> {
        let served = self.spool.served(most).unwrap_or_default();
        let names = served.iter().map(|session| session.as_str().to_owned());
        names.collect()
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

    /// Whether nothing need be asked, for nobody would answer.
    fn gives_up_at_once(&self) -> bool {
        let guard = self.liveness.lock().unwrap_or_else(PoisonError::into_inner);
        self.settings.where_nobody_serves == WhereNobodyServes::GiveUp
            && self.settings.generation == Generation::Current
            && guard.0.is_nobody_there()
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
        // Right after the request was written the open directory is the one; later a clean-up may have replaced it.
        outbox.look(
            id,
            if why == Look::First {
                Freshness::ByHandle
            } else {
                Freshness::ByPath
            },
        )
    }
}

/// Why a requester looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Look {
    /// It has just asked.
    First,
    /// It was woken.
    Now,
    /// Time has passed.
    Poll,
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
        if let (Some(watch), Some(id)) = (&self.shared.watch, self.watching.take()) {
            // The file goes next, and its watch with it.
            watch.forget_removed(&id);
        }
        let path = submission.path().clone();
        let ended = {
            let mut outbox = self.shared.outbox();
            match how {
                End::Consume => outbox.finish(submission),
                End::TakeBack => outbox.withdraw(submission),
            }
        };
        if let Err(error) = ended {
            self.shared.record(&record::warning(&format!(
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
            self.shared.record(&record::withdrawn(self.shared, id));
        }
        self.end(End::TakeBack);
    }
}

pub(super) async fn ask(shared: &Shared, ask: Ask) -> Answer {
    let started_at = clock::now();
    let mut id = adopt_or_mint(ask.id.as_deref());
    let done = |id: &RequestId, outcome: Outcome| Answer {
        request_id: id.clone(),
        sealed: is_sealed(&outcome),
        outcome,
        waited: clock::now().since(started_at),
    };
    if let Some(abandonment) = too_many_hops(shared, &ask) {
        return done(&id, abandon(shared, &id, abandonment));
    }
    let key = match &shared.settings.trust {
        Trust::Anybody => None,
        Trust::Pinned(key) => Some((**key).clone()),
        Trust::NoKey => {
            let target = shared.settings.target.clone();
            let outcome = abandon(shared, &id, Abandonment::NoKey { target });
            return done(&id, outcome);
        }
    };
    if key.is_some() && is_served_by_another(shared, ask.timeout).await {
        let abandonment = Abandonment::NotServing {
            target: shared.settings.target.clone(),
            liveness: Liveness::OtherKey,
        };
        return done(&id, abandon(shared, &id, abandonment));
    }
    if shared.gives_up_at_once() {
        let abandonment = Abandonment::NotServing {
            target: shared.settings.target.clone(),
            liveness: Liveness::Absent,
        };
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
        key,
    };
    let mut open = Open::new(shared, submission);
    let outcome = wait(shared, &mut open, &ask, &expected, started_at).await;
    done(&id, outcome)
}

/// Whether the session is served by a process whose answers would all be refused: then nobody is asked in vain. A record that
/// somebody wrote over the true one does not last that long.
async fn is_served_by_another(shared: &Shared, budget: Duration) -> bool {
    let since = clock::now();
    loop {
        let now = clock::now();
        if shared.liveness(now).liveness != Liveness::OtherKey {
            return false;
        }
        if now.since(since) >= OTHER_KEY_GRACE.min(budget) {
            return true;
        }
        tokio::time::sleep(POLL_UNPROVEN).await;
    }
}

fn is_sealed(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Decided(decision) if decision.decided_by.is_sealed())
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
    let outcome = Outcome::Abandoned(abandonment);
    if let Some(ended) = record::ended(shared, id, &outcome) {
        shared.record(&ended);
    }
    outcome
}

/// What a watch on the request file sets.
#[derive(Debug, Default)]
struct Woken {
    notify: Notify,
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
        if expected.key.is_some() {
            Seals::Pinned
        } else {
            Seals::NotAsked
        },
    );
    let mut refusals = 0_u32;
    let woken = watch_request(shared, open);
    let mut why = Look::First;
    loop {
        let now = clock::now();
        let due = state.due(now);
        let seen = if why != Look::Poll || due.response != Glance::No {
            // What others have listed a moment ago is not good enough for the last look.
            let why = if due.response == Glance::Last {
                Look::Now
            } else {
                why
            };
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
        let around = Around {
            liveness: (due.liveness && nothing).then(|| shared.liveness(now).liveness),
            request_is_there: (due.request && nothing).then(|| shared.outbox().has_request(&id)),
        };
        let poll = match &woken {
            Some(woken)
                if shared.events == Events::Local && shared.events_come.load(Ordering::Relaxed) =>
            {
                POLL_PROVEN
            }
            Some(_) | None => POLL_UNPROVEN,
        };
        match state.step(now, seen, around, poll) {
            Next::Finish(outcome) => return finish(shared, open, &id, outcome),
            Next::Refuse(mismatch) => {
                match refuse(shared, &id, &mismatch, &mut refusals, expected) {
                    // The true one came while the other was taken away.
                    Ok(Some(verified)) => {
                        return finish(shared, open, &id, Outcome::Decided(verified.adopt()));
                    }
                    Ok(None) => {}
                    // It cannot be removed, so the true response cannot come either.
                    Err(error) => {
                        let (target, cause) = (expected.responder.clone(), describe(&error));
                        let outcome = Outcome::Abandoned(Abandonment::Unreadable { target, cause });
                        return finish(shared, open, &id, outcome);
                    }
                }
                // Whoever writes answers without end holds up no other ask of this process.
                tokio::task::yield_now().await;
                why = Look::Now;
            }
            Next::Wait(time) => {
                why = pause(woken.as_deref(), now, time).await;
                if why == Look::Poll
                    && let (Some(_), Some(submission)) = (&woken, &open.submission)
                    && shared.events == Events::Local
                    && !shared.events_come.load(Ordering::Relaxed)
                {
                    submission.touch();
                }
            }
        }
    }
}

/// Takes away a response that does not count. What was taken is looked at once more: the true response may have come in its
/// place a moment before, and then it is that one.
fn refuse(
    shared: &Shared,
    id: &RequestId,
    mismatch: &Mismatch,
    refusals: &mut u32,
    expected: &Expected,
) -> Result<Option<Verified>, SpoolError> {
    let taken = shared.outbox().refuse(id)?;
    if let Some(bytes) = taken
        && let Seen::Response(verified) = Seen::from_bytes(&bytes, expected)
    {
        return Ok(Some(*verified));
    }
    *refusals = refusals.saturating_add(1);
    if *refusals <= REFUSALS_RECORDED {
        shared.record(&record::refused(shared, id, &mismatch.to_string()));
    }
    Ok(None)
}

/// Records the end, and consumes what was answered or takes the request back.
fn finish(shared: &Shared, open: &mut Open<'_>, id: &RequestId, outcome: Outcome) -> Outcome {
    if let Some(ended) = record::ended(shared, id, &outcome) {
        shared.record(&ended);
    }
    open.end(match &outcome {
        Outcome::Decided(_) | Outcome::Abandoned(Abandonment::Unreadable { .. }) => End::Consume,
        Outcome::Abandoned(_) => End::TakeBack,
    });
    outcome
}

/// Waits for a wake or for time.
async fn pause(woken: Option<&Woken>, now: Moment, time: Duration) -> Look {
    let timer = tokio::time::sleep_until(clock::instant(now.after(time)).into());
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
    let events_come = Arc::clone(&shared.events_come);
    let on_wake = Arc::new(move |_: Wake<'_>| {
        events_come.store(true, Ordering::Relaxed);
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
            shared.record(&record::warning(&error.to_string()));
            None
        }
    }
}
