//! What performs effects: files, log, prompter. It decides nothing; the pure step does.
//!
//! It is used by the loop and, so that an answer that policy can give needs no second thread to wake up, by the watcher's own
//! thread: whichever comes first works, a slice at a time, and the other one looks after what is left.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use super::Broadcasts;
use super::event::{
    Annotate, Answer, Authorize, Care, Delivery, Effect, Event, FileClock, InLine, ParentLife,
    Relay, Shown, UNRECORDED,
};
use super::grants::GrantKeeper;
use super::renewal::Renewal;
use super::state::State;
use super::wake::{Closed, Woken};
use crate::ask::describe;
use crate::audit::{self, AuditError, Entry, Recall, ReviewLog, Unwritten};
use crate::clock::{self, Moment};
use crate::presentation::broadcast::Broadcast;
use crate::presentation::text;
use crate::process;
use crate::prompt::{PersonEvent, Prompter};
use crate::spool::{
    AnswerOutcome, Candidate, Effort, FileRead, FileStamp, HeartbeatFile, Inbox, LivenessProbe,
    LockOutcome, Owner, RequesterLife, Scan, ServingLock, Spool, SpoolError, Unchanged,
};
use crate::wire::{
    Decision, Digest, ForwardedPermissionRequest, ForwardedPermissionResponse, Heartbeat,
    HeartbeatRelay, Liveness, RequestId, ResponseRelay, SealKey, SessionId,
};

/// Where it is told what does not work, by a session that asks nobody.
pub struct Notices(Box<dyn Fn(&str) + Send>);

impl Notices {
    /// Tells by calling `tell` with one line.
    pub fn new(tell: impl Fn(&str) + Send + 'static) -> Self {
        Self(Box::new(tell))
    }

    fn tell(&self, text: &str) {
        (self.0)(text);
    }
}

impl std::fmt::Debug for Notices {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Notices").finish_non_exhaustive()
    }
}

/// How long work goes on before other inputs get their turn.
const SLICE: Duration = Duration::from_millis(5);
/// Of how many requests the age is asked for when decisions about them are looked up.
const MOST_DATED: usize = 256;

/// What only the loop can do, for it needs the runtime or the watcher's thread.
#[derive(Debug)]
pub(super) enum Errand {
    /// Pass an ask on.
    Relay(Box<Relay>),
    /// Stop waiting for the parent's answer to it.
    CancelRelay(RequestId),
    /// Ask the annotators about an ask.
    Annotate(Box<Annotate>),
    /// Stop them.
    CancelAnnotating(RequestId),
    /// Ask a link of the chain about an ask.
    Authorize(Box<Authorize>),
    /// Stop it.
    CancelAuthorizing(RequestId),
    /// Watch the directory anew.
    Rearm,
}

/// A served session's files, log and prompter, around its state.
pub(super) struct Core {
    pub(super) spool: Spool,
    pub(super) inbox: Inbox,
    pub(super) heartbeat: HeartbeatFile,
    pub(super) lock: Option<ServingLock>,
    pub(super) state: State,
    pub(super) log: Arc<ReviewLog>,
    /// Whether it was said that the log cannot be written.
    pub(super) log_failed: bool,
    /// Asks whose decision had to be recorded and could not be: it must not be delivered any more.
    pub(super) unrecorded: HashSet<RequestId>,
    pub(super) notices: Option<Notices>,
    pub(super) woken: Arc<Woken>,
    pub(super) prompter: Option<Box<dyn Prompter>>,
    pub(super) broadcasts: Broadcasts,
    /// How many waiting asks the prompter was told of last.
    pub(super) waiting_told: InLine,
    pub(super) parent: Option<LivenessProbe>,
    /// What is to be done, in the order in which it was decided.
    pub(super) work: VecDeque<Effect>,
    /// What is to be read when that is done: whatever follows from one file is done before the next one is read.
    pub(super) reads: VecDeque<Candidate>,
    pub(super) errands: Vec<Errand>,
    pub(super) mode: &'static str,
    pub(super) agent: String,
    pub(super) session: SessionId,
    /// Seals every answer of this session; known to this process only.
    pub(super) seal_key: SealKey,
    /// Its public half, as text.
    pub(super) public_key: String,
    pub(super) require_audit: bool,
    /// The files of the grants.
    pub(super) grants: GrantKeeper,
    /// Requests for which a response lay there when this process came.
    pub(super) answered_before: HashSet<RequestId>,
    /// What does not work at the moment, so that it is said once and not with every try.
    pub(super) troubles: HashMap<&'static str, String>,
    /// Another process that serves the session by now: it is left to that one.
    pub(super) successor: Option<Owner>,
    /// Why the session is over, once it is.
    pub(super) ended: Option<Ended>,
}

/// Why a session is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    /// It took its leave.
    Left,
    /// The spool is not there any more.
    SpoolGone,
}

/// Whether the directories of the session could be opened anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reopened {
    Yes,
    No,
}

/// Whether anything is left to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(super) enum Rest {
    /// Nothing: nobody needs to be woken.
    Nothing,
    /// Work, an errand, or something that is open and has a time of its own.
    Some,
}

impl Core {
    /// Steps the state, and puts its effects behind those that are there.
    pub(super) fn dispatch(&mut self, now: Moment, event: Event) {
        for effect in self.state.step(now, event) {
            if let Effect::Read(candidate) = effect {
                self.reads.push_back(candidate);
            } else {
                self.work.push_back(effect);
            }
        }
    }

    /// As [`Core::dispatch`], and what is to be read then goes before everything that waits to be read.
    fn dispatch_first(&mut self, now: Moment, event: Event) {
        let before = self.reads.len();
        self.dispatch(now, event);
        let new = self.reads.len() - before;
        self.reads.rotate_right(new);
    }

    /// Whether anything is to be done.
    pub(super) fn is_busy(&self) -> bool {
        !self.work.is_empty() || !self.reads.is_empty()
    }

    fn next_effect(&mut self) -> Option<Effect> {
        let read = || self.reads.pop_front().map(Effect::Read);
        self.work.pop_front().or_else(read)
    }

    pub(super) fn person_event(&mut self, event: PersonEvent) {
        let now = clock::now();
        match event {
            // The next question goes before everything that waits to be read.
            PersonEvent::Chosen {
                id,
                digest,
                choice,
                by,
            } => {
                self.dispatch_first(
                    now,
                    Event::Chosen {
                        id,
                        digest,
                        choice,
                        by,
                    },
                );
            }
            PersonEvent::PutOff { id, digest, via } => {
                self.dispatch_first(now, Event::PutOff { id, digest, via });
            }
            PersonEvent::Resume => self.dispatch_first(now, Event::Resume),
            PersonEvent::AnsweredTogether {
                asks,
                likeness,
                verdict,
                by,
            } => self.dispatch_first(
                now,
                Event::AnsweredTogether {
                    asks,
                    likeness,
                    verdict,
                    by,
                },
            ),
            PersonEvent::Review(id) => self.dispatch_first(now, Event::Review(id)),
            PersonEvent::Close(id) => self.dispatch(now, Event::CloseReview(id)),
            PersonEvent::Denied { id, digest, by } => {
                self.dispatch_first(now, Event::Denied { id, digest, by });
            }
            PersonEvent::Unshowable { id, digest, cause } => {
                self.dispatch_first(now, Event::Unshowable { id, digest, cause });
            }
            PersonEvent::Unanswered { id, digest, cause } => {
                self.dispatch_first(now, Event::Unanswered { id, digest, cause });
            }
            PersonEvent::Gone => self.dispatch(now, Event::PersonGone),
            PersonEvent::Leave => self.leave(),
        }
    }

    /// Begins to end the session. What lies in the inbox now is settled as well; what comes later finds nobody serving.
    pub(super) fn leave(&mut self) {
        let now = clock::now();
        self.scan(now, Effort::Full);
        self.dispatch(now, Event::Shutdown);
    }

    /// Tells the person how many wait, where that has changed.
    fn tell_waiting(&mut self) {
        let waiting = self.state.in_line();
        if std::mem::replace(&mut self.waiting_told, waiting) != waiting
            && let Some(prompter) = &mut self.prompter
        {
            prompter.waiting(waiting);
        }
    }

    /// Looks at what the watch said.
    pub(super) fn wake(&mut self, now: Moment) {
        let news = self.woken.take();
        match news.closed {
            Closed::None => {}
            Closed::These(ids) => ids
                .into_iter()
                .for_each(|id| self.dispatch(now, Event::Closed(id))),
            Closed::Any => {
                for id in self.state.held_ids() {
                    self.dispatch(now, Event::Closed(id));
                }
            }
        }
        if news.changed || (news.removed && self.state.waiting() > 0) {
            self.scan(now, Effort::Full);
        }
    }

    /// Whether what came under this name was seen by an earlier look: while many come at once, one look sees them all, and the
    /// events about the others are still to be told.
    pub(super) fn is_old_news(&self, name: &str) -> bool {
        RequestId::from_file_name(name)
            .is_some_and(|id| self.state.knows(&id) || !self.inbox.has_request(&id))
    }

    /// What the watcher's own thread does on a wake: looks, and works one slice.
    pub(super) fn serve_wake(&mut self) -> Rest {
        if self.woken.is_lost() {
            return Rest::Some;
        }
        self.wake(clock::now());
        self.work_a_slice();
        if !self.is_busy()
            && self.errands.is_empty()
            && !self.state.has_open()
            && self.ended.is_none()
        {
            Rest::Nothing
        } else {
            Rest::Some
        }
    }

    /// Works until nothing is left or the slice is over.
    pub(super) fn work_a_slice(&mut self) {
        if self.is_busy() {
            // What is opened in this slice may be closed before it ends.
            self.woken.set_open(true);
            let until = clock::now().after(SLICE);
            let mut done = 0_u32;
            while let Some(effect) = self.next_effect() {
                self.perform(effect);
                done += 1;
                if done.is_multiple_of(8) && clock::now() >= until {
                    break;
                }
            }
        }
        self.woken.set_open(self.state.has_open());
        self.tell_waiting();
    }

    /// Looks which requests are there. What fails now is tried again with the next poll.
    pub(super) fn scan(&mut self, now: Moment, effort: Effort) {
        match self.inbox.scan(effort) {
            Ok(Scan::Unchanged) => {}
            Ok(Scan::Listed(candidates)) => self.dispatch(now, Event::Listed(candidates)),
            Ok(Scan::Replaced) => self.errands.push(Errand::Rearm),
            // A full table of descriptors, a mount that hangs.
            Err(error) => return self.trouble("scan", Err(error)),
        }
        self.trouble("scan", Ok(()));
    }

    /// Opens the directories anew, after they were removed or replaced.
    #[must_use]
    pub(super) fn reopen(&mut self) -> Reopened {
        match self.inbox.reopen() {
            Ok(()) => {
                self.trouble("reopen", Ok(()));
                self.woken.forget_proof();
                self.scan(clock::now(), Effort::Full);
                Reopened::Yes
            }
            Err(error) => {
                self.trouble("reopen", Err(error));
                self.look_for_the_spool();
                // The next poll finds it replaced still, and comes here again.
                Reopened::No
            }
        }
    }

    /// Ends the session where the spool itself was removed, moved or replaced: whoever comes by its path does not come here.
    pub(super) fn look_for_the_spool(&mut self) {
        if self.ended.is_none() && self.spool.is_gone() {
            self.ended = Some(Ended::SpoolGone);
        }
    }

    /// Looks in the log for what a person decided about the requests that lie there now, and which were not answered: the process
    /// before this one may have ended in between. Without any there is nothing to look for.
    pub(super) fn recall(&mut self) {
        let waiting: Vec<&RequestId> = self
            .reads
            .iter()
            .filter_map(|read| read.id.as_ref())
            .collect();
        let Some(path) = self.log.path().filter(|_| !waiting.is_empty()) else {
            return;
        };
        // Of many it costs more to ask for their age than to read some more of the log.
        let few = waiting.len() <= MOST_DATED;
        let oldest = few
            .then(|| self.inbox.oldest_ms(waiting.iter().copied()))
            .flatten();
        let Recall { decisions, trouble } = audit::recall(path, &self.session, waiting, oldest);
        self.state.recall(decisions);
        if let Some(error) = trouble {
            let text = format!(
                "whether somebody decided before about what waits cannot be told: {}",
                describe(&error)
            );
            self.record(&[warning(&text)]);
        }
    }

    fn warn(&mut self, error: &SpoolError) {
        self.record(&[warning(&describe(error))]);
    }

    /// Says that something does not work, once until it works again or fails otherwise. Nothing of this ends the session:
    /// what can be done still is, and the rest is tried again.
    pub(super) fn trouble(&mut self, with: &'static str, outcome: Result<(), SpoolError>) {
        match outcome {
            Ok(()) => drop(self.troubles.remove(with)),
            Err(error) => {
                let text = describe(&error);
                if self.troubles.get(with) != Some(&text) {
                    self.record(&[warning(&text)]);
                    self.troubles.insert(with, text);
                }
            }
        }
    }

    /// Whether lock and heartbeat still lie where others look for them: the lock's path leads there, and so does the one to the
    /// heartbeat beside it.
    fn is_in_place(&self) -> bool {
        self.lock
            .as_ref()
            .is_some_and(|lock| lock.is_current(&self.spool, &self.session))
    }

    /// A lock file that somebody removed or replaced proves nothing to those who look at its name: it is taken anew. Where
    /// another server was faster, the session is that one's.
    fn keep_lock(&mut self) {
        if self.lock.is_none() || self.successor.is_some() {
            return;
        }
        match ServingLock::take(&self.spool, &self.session, clock::wall_ms()) {
            Ok(LockOutcome::Taken(lock)) => {
                self.lock = Some(lock);
                self.trouble("lock", Ok(()));
                self.record(&[warning("the lock file was replaced; it is locked anew")]);
            }
            Ok(LockOutcome::Busy(owner)) => {
                let by = owner
                    .pid
                    .map(|pid| format!(" by process {pid}"))
                    .unwrap_or_default();
                let text = format!(
                    "the lock file was replaced, and the session is served{by} now: this process ends"
                );
                self.notice(&text);
                self.record(&[warning(&text)]);
                self.successor = Some(owner);
                self.dispatch(clock::now(), Event::Shutdown);
            }
            Ok(LockOutcome::Unsupported) => {}
            Err(error) => self.trouble("lock", Err(error)),
        }
    }

    pub(super) fn beat(&mut self, now: Moment) {
        // Who asks in turn for this session writes to the same log.
        if self.log_failed || self.log.failure().is_some() {
            let caught_up = self.log.catch_up(clock::wall_ms());
            self.note_log(caught_up);
        }
        if !self.is_in_place() {
            // With its directory the lock file went: a record that claims it must not come back alone.
            self.keep_lock();
            let kept = self.heartbeat.keep_place();
            self.trouble("heartbeat directory", kept);
        }
        self.look_for_a_foreign_heartbeat();
        self.look_at_grants(now);
        let record = Heartbeat {
            session_id: self.session.as_str().to_owned(),
            pid: process::own_pid(),
            updated_at_ms: clock::wall_ms(),
            relay: Some(HeartbeatRelay {
                held: self.lock.is_some(),
                public_key: Some(self.public_key.clone()),
                process: process::own_mark().clone(),
                queued: u64::try_from(self.state.waiting()).ok(),
                mode: Some(self.mode.to_owned()),
                agent: Some(self.agent.clone()),
                log_failure: self.log.failure(),
                config_failure: (self.state.config_trouble())
                    .map(|trouble| trouble.text().to_owned()),
                authorizers: self.state.link_health(),
            }),
        };
        let Ok(bytes) = record.to_json() else { return };
        // A full disk must not end the session: what policy allows may still be answered, and the next beat may work.
        let beaten = self.heartbeat.publish(&bytes).map(|stamp| {
            self.state.set_file_clock(FileClock {
                at: now,
                mtime_ns: stamp.mtime_ns,
            });
        });
        self.trouble("heartbeat", beaten);
    }

    /// A heartbeat that somebody else wrote names a key that is not ours, or a server that there is none of: a child that is
    /// started in this moment believes it.
    fn look_for_a_foreign_heartbeat(&mut self) {
        if !self.heartbeat.is_foreign() || self.successor.is_some() {
            self.troubles.remove("foreign heartbeat");
            return;
        }
        let text = "somebody else has written the heartbeat of this session; a child that was started just now may have \
                    been told a false key";
        let known = self.troubles.insert("foreign heartbeat", text.to_owned());
        if known.is_none() {
            self.notice(text);
            self.record(&[warning(text)]);
        }
    }

    pub(super) fn look_at_parent(&mut self, now: Moment) {
        let Some(probe) = &mut self.parent else {
            return;
        };
        let serving = probe.look(now).liveness == Liveness::Alive;
        let life = if serving {
            ParentLife::Serving
        } else {
            ParentLife::NotServing
        };
        self.dispatch(now, Event::Parent(life));
    }

    /// Takes over a configuration that was read again, and says at once how it stands.
    pub(super) fn renew(&mut self, now: Moment, renewal: Renewal) {
        self.dispatch_first(now, Event::Renewed(Box::new(renewal)));
        self.beat(now);
    }

    fn perform(&mut self, effect: Effect) {
        match effect {
            Effect::Read(candidate) => {
                let (mut read, life) = self.inbox.read(&candidate.name);
                if self.is_answered(&candidate, &read) {
                    read = FileRead::Missing;
                }
                self.dispatch_first(clock::now(), Event::Read(candidate, read, life));
            }
            Effect::Answer(answer) => self.answer(*answer),
            Effect::Log(entry) => drop(self.record(&[entry])),
            Effect::Broadcast(told) => self.tell(told),
            Effect::CheckLife(id) => {
                let life = self.inbox.requester_life(&id);
                self.dispatch(clock::now(), Event::Life(id, life));
            }
            Effect::Remove(id) => {
                if let Err(error) = self.inbox.remove_request(&id) {
                    self.warn(&error);
                }
            }
            Effect::SetAside {
                candidate,
                digest,
                reason,
                answer,
            } => {
                if let (Some(id), Some(decision)) = (&candidate.id, answer) {
                    self.answer_unusable(id, digest, decision);
                }
                if let Err(error) =
                    self.inbox
                        .quarantine(&candidate.name, &reason, clock::wall_ms())
                {
                    self.warn(&error);
                    self.dispatch(clock::now(), Event::Stuck(candidate));
                }
            }
            Effect::Show(shown) => self.show(*shown),
            Effect::Alike { id, alike } => {
                if let Some(prompter) = &mut self.prompter {
                    prompter.alike(&id, alike);
                }
            }
            Effect::Withdraw { id, why } => {
                if let Some(prompter) = &mut self.prompter {
                    prompter.withdraw(&id, &why);
                }
            }
            Effect::Notice(text) => self.notice(&text),
            Effect::List(listing) => {
                if let Some(prompter) = &mut self.prompter {
                    prompter.list(*listing);
                }
            }
            Effect::Relay(relay) => self.errands.push(Errand::Relay(relay)),
            Effect::CancelRelay(id) => self.errands.push(Errand::CancelRelay(id)),
            Effect::Annotate(annotate) => self.errands.push(Errand::Annotate(annotate)),
            Effect::CancelAnnotating(id) => self.errands.push(Errand::CancelAnnotating(id)),
            Effect::KeepGrants(id, grants) => self.keep_grants(&id, grants),
            Effect::CountGrant(grant) => self.count_grant(&grant),
            Effect::DropGrant(id) => {
                let dropped = self.grants.remove(id);
                self.trouble("grant file", dropped);
            }
            Effect::Authorize(authorize) => self.errands.push(Errand::Authorize(authorize)),
            Effect::CancelAuthorizing(id) => self.errands.push(Errand::CancelAuthorizing(id)),
            Effect::Thinking(id, link) => {
                if let Some(prompter) = &mut self.prompter {
                    prompter.thinking(&id, link.as_deref());
                }
            }
            Effect::Finished => self.ended = Some(Ended::Left),
        }
    }

    fn show(&mut self, shown: Shown) {
        let Some(prompter) = &mut self.prompter else {
            return;
        };
        let (id, digest) = (shown.request.id.clone(), shown.digest);
        let done = process::caught(|| {
            #[cfg(debug_assertions)]
            crate::spool::fault::strike("shown", id.as_str());
            prompter.show(shown);
        });
        if let Err(cause) = done {
            self.dispatch_first(clock::now(), Event::Unshowable { id, digest, cause });
        }
    }

    /// A process before this one may have answered the request and ended before it could remove it: then it is settled, and
    /// nobody is asked a second time.
    fn is_answered(&mut self, candidate: &Candidate, read: &FileRead) -> bool {
        let (Some(id), FileRead::Content { bytes, .. }) = (&candidate.id, read) else {
            return false;
        };
        if !self.answered_before.remove(id) {
            return false;
        }
        let found = self.inbox.response(id);
        // A request that cannot be used is answered and then moved aside: that is still to be done.
        let settled = found.is_some_and(|found| self.is_own(&found, Digest::of(bytes)))
            && ForwardedPermissionRequest::from_json(bytes).is_ok();
        if settled {
            self.record(&[Entry::new(audit::Event::AnsweredBefore).with("requestId", id.as_str())]);
            if let Err(error) = self.inbox.remove_request(id) {
                self.warn(&error);
            }
        }
        settled
    }

    /// Whether a response is an answer of this very process to the request bytes of this digest.
    fn is_sealed_by_us(&self, response: &[u8], digest: Digest) -> bool {
        ForwardedPermissionResponse::from_json(response).is_ok_and(|response| {
            response
                .open_seal(&self.seal_key.public())
                .is_ok_and(|sealed| sealed.request_digest() == Some(digest))
        })
    }

    /// Whether a response looks like an answer of this session, in an earlier process, to the request bytes of this digest. The
    /// key of that process went with it, so this is no proof: it is looked at for what lay there before this process came, and a
    /// requester that was told a key believes none of it.
    fn is_own(&self, response: &[u8], digest: Digest) -> bool {
        ForwardedPermissionResponse::from_json(response).is_ok_and(|response| {
            response.responder_session_id == self.session.as_str()
                && response.relay.and_then(|relay| relay.request_digest) == Some(digest)
        })
    }

    fn answer(&mut self, answer: Answer) {
        let id = answer.id.clone();
        let delivery = self.deliver(answer);
        if !matches!(delivery, Delivery::Failed(_)) {
            self.unrecorded.remove(&id);
        }
        if !matches!(delivery, Delivery::Failed(_) | Delivery::Delivered) {
            // What comes of it otherwise grants nothing.
            self.grants.forget_line(&id);
        }
        self.dispatch(clock::now(), Event::Answered(id, delivery));
    }

    fn deliver(&mut self, mut answer: Answer) -> Delivery {
        if answer.care == Care::Person {
            match self.inbox.requester_life(&answer.id) {
                RequesterLife::Gone if self.state.is_held(&answer.id) => {
                    return Delivery::RequesterGone;
                }
                RequesterLife::RequestGone => return Delivery::Withdrawn,
                RequesterLife::Gone | RequesterLife::Waiting | RequesterLife::Unknown => {}
            }
            match self.inbox.is_unchanged(&answer.id, answer.stamp) {
                // Where it cannot be told, publishing looks again, and fails for that cause once the decision is recorded.
                Ok(Unchanged::Same) | Err(_) => {}
                // Touched, or put there anew: what counts is whether the same bytes are asked.
                Ok(Unchanged::Changed) => match self.stamp_of_same_bytes(&answer) {
                    Some(stamp) => answer.stamp = stamp,
                    None => return Delivery::Swapped,
                },
                Ok(Unchanged::Gone) => return Delivery::Withdrawn,
            }
        }
        // Until the answer is out nobody takes back what it rests on.
        let _hold = match self.rely_on(&answer.rests_on) {
            Ok(hold) => hold,
            Err(delivery) => return delivery,
        };
        #[cfg(debug_assertions)]
        crate::spool::fault::at("decided");
        let counts = self.record_decision(&answer);
        #[cfg(debug_assertions)]
        crate::spool::fault::at("recorded");
        if !counts {
            answer.decision = Decision::unavailable(UNRECORDED);
        }
        if let Some(told) = answer.told.take() {
            self.tell(if counts { told } else { told.undecided() });
        }
        let response = self.response(&answer);
        let Ok(bytes) = response.to_sealed_json(&self.seal_key) else {
            return Delivery::Failed("the response cannot be written as JSON".to_owned());
        };
        let answered = self.inbox.answer(&answer.id, Some(answer.stamp), &bytes);
        if let Ok(AnswerOutcome::Left(error)) = &answered {
            self.warn(error);
        }
        match answered {
            Ok(AnswerOutcome::Delivered | AnswerOutcome::Left(_)) if counts => Delivery::Delivered,
            Ok(AnswerOutcome::Delivered | AnswerOutcome::Left(_)) => Delivery::Unrecorded,
            Ok(AnswerOutcome::Unclaimed) => Delivery::Unclaimed,
            Ok(AnswerOutcome::RequestChanged) => Delivery::RequestChanged,
            Ok(AnswerOutcome::AlreadyThere(found)) => self.already_there(&answer, &found),
            Err(error) => Delivery::Failed(describe(&error)),
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
    fn already_there(&mut self, answer: &Answer, found: &[u8]) -> Delivery {
        if self.is_sealed_by_us(found, answer.digest) {
            return Delivery::AlreadyAnswered;
        }
        let reason = "this session did not write it";
        self.record(&[Entry::new(audit::Event::ResponseRefused)
            .with("requestId", answer.id.as_str())
            .with("targetSessionId", self.session.as_str())
            .with("reason", reason)]);
        match self
            .inbox
            .quarantine_response(&answer.id, reason, clock::wall_ms())
        {
            Ok(_) => Delivery::Failed("a foreign response was in the way".to_owned()),
            Err(error) => Delivery::Failed(describe(&error)),
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
                ..ResponseRelay::default()
            }),
        }
    }

    /// Tells whoever waits for an unusable request that nothing will come of it. Where it could not even be read there is no
    /// digest to bind the denial to; a requester that was told a key then waits no longer than it would without an answer.
    fn answer_unusable(&mut self, id: &RequestId, digest: Option<Digest>, decision: Decision) {
        let response = ForwardedPermissionResponse {
            state: decision.state,
            denial_reason: decision.denial_reason,
            responder_session_id: self.session.as_str().to_owned(),
            responded_at_ms: Some(clock::wall_ms()),
            decided_by: Some(decision.decided_by),
            width: decision.width,
            relay: Some(ResponseRelay {
                request_digest: digest,
                ..ResponseRelay::default()
            }),
        };
        let published = match response.to_sealed_json(&self.seal_key) {
            Ok(bytes) => self
                .inbox
                .publish_denial(id, &bytes)
                .map_err(|error| describe(&error)),
            Err(error) => Err(error.to_string()),
        };
        if let Err(cause) = published {
            self.record(&[warning(&cause)]);
        }
    }

    /// Tells whoever listens. One who is slow misses some; nobody is waited for.
    pub(super) fn tell(&self, told: Broadcast) {
        let _listeners = self.broadcasts.send(told);
    }

    /// Writes to the review log. Tells whether it worked; that it did not is said once, until it does.
    pub(super) fn record(&mut self, entries: &[Entry]) -> bool {
        self.record_or(entries, Unwritten::Held)
    }

    fn record_or(&mut self, entries: &[Entry], unwritten: Unwritten) -> bool {
        let written = self.log.append_with(clock::wall_ms(), entries, unwritten);
        entries.is_empty() || self.note_log(written)
    }

    /// Records a decision before it is published. Tells whether it counts: where it has to be recorded, only once it is, and
    /// what a person decided only once that is on the disk, for they are not asked again.
    fn record_decision(&mut self, answer: &Answer) -> bool {
        // What is tried again was recorded the first time, or could not be.
        if answer.entries.is_empty() {
            return !self.unrecorded.contains(&answer.id);
        }
        self.grants.forget_line(&answer.id);
        let recorded = match answer.care {
            Care::Fast => self.record_or(&answer.entries, self.unwritten()),
            Care::Person => {
                let unwritten = self.unwritten();
                let written = self
                    .log
                    .append_durably(clock::wall_ms(), &answer.entries, unwritten)
                    .map(|lines| self.grants.note_lines(answer, &lines));
                self.note_log(written)
            }
        };
        let counts = recorded || !self.require_audit;
        if !counts {
            self.unrecorded.insert(answer.id.clone());
            self.state.log_refused(&answer.id);
        }
        counts
    }

    /// What was decided otherwise because it could not be recorded must not turn up in the log later as it was decided first.
    fn unwritten(&self) -> Unwritten {
        if self.require_audit {
            Unwritten::Refused
        } else {
            Unwritten::Held
        }
    }

    fn note_log(&mut self, written: Result<(), AuditError>) -> bool {
        let works = written.is_ok();
        let text = match written {
            Err(error) if !self.log_failed => {
                let text = describe(&error);
                format!(
                    "the review log cannot be written: {text} ({})",
                    error.hint()
                )
            }
            Ok(()) if self.log_failed => "the review log is written again".to_owned(),
            Ok(()) | Err(_) => return works,
        };
        self.log_failed = !works;
        self.notice(&text);
        works
    }

    /// Tells the person something that needs no answer; where nobody is asked, whoever runs the session.
    pub(super) fn notice(&mut self, text: &str) {
        let text = text::visible(text);
        match (&mut self.prompter, &self.notices) {
            (Some(prompter), _) => prompter.notice(&text),
            (None, Some(notices)) => notices.tell(&text),
            (None, None) => {}
        }
    }
}

/// An entry about something that does not stop the session.
pub(super) fn warning(message: &str) -> Entry {
    Entry::new(audit::Event::Warning).with("message", message)
}
