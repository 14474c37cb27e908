//! The record that a session is served: written by the server, judged by those who wait for it.

use std::fs::File;
use std::time::Duration;

use rustix::fs::Stat;

use super::dir::{Dir, FileRead, FileStamp, PublishOutcome, text_of};
use super::lock::{self, LockState};
use super::{IoContext as _, SERVING, Spool, SpoolError, quarantine};
use crate::clock::Moment;
use crate::process::{self, Life};
use crate::wire::{Heartbeat, Liveness, MAX_HEARTBEAT_BYTES, ServingKey, SessionId};

/// A record that has not changed for this long, on the observer's own clock, is stale.
const STALE_AFTER: Duration = Duration::from_secs(5);

/// The heartbeat file of a session that this process serves.
#[derive(Debug)]
pub struct HeartbeatFile {
    spool: Spool,
    serving: Dir,
    name: String,
    /// The record as this process left it, and when its entry was changed last.
    published: Option<(FileStamp, i128)>,
}

impl HeartbeatFile {
    /// Prepares the record of `session`; nothing is written yet.
    pub fn new(spool: &Spool, session: &SessionId) -> Result<Self, SpoolError> {
        let serving = open_serving(spool)?;
        Ok(Self {
            spool: spool.clone(),
            serving,
            name: record_name(session),
            published: None,
        })
    }

    /// Writes the record. Gives the file's time, which is "now" by the clock of the file system.
    pub fn publish(&mut self, record: &[u8]) -> Result<FileStamp, SpoolError> {
        let path = || self.serving.path_of(&self.name);
        match quarantine::publish_over(&self.spool, &self.serving, &self.name, record)
            .context("write the heartbeat", path())?
        {
            PublishOutcome::Published(published) => {
                let stat = rustix::fs::fstat(&published.file).map_err(std::io::Error::from);
                let stat = stat.context("look at the heartbeat", path())?;
                let stamp = FileStamp::of(&stat);
                self.published = Some((stamp, changed_ns(&stat)));
                Ok(stamp)
            }
            PublishOutcome::AlreadyThere => Err(SpoolError::Io {
                doing: "write the heartbeat",
                path: path(),
                source: std::io::ErrorKind::AlreadyExists.into(),
            }),
        }
    }

    /// Whether somebody else has had a hand in the record that this process wrote last: another one lies there, or it was moved
    /// away and back. Nobody has a reason to.
    pub fn is_foreign(&self) -> bool {
        let Some(published) = self.published else {
            return false;
        };
        let there = self.serving.stat_whole(&self.name).ok().flatten();
        there.is_some_and(|there| (FileStamp::of(&there), changed_ns(&there)) != published)
    }

    /// Opens the directory anew where it was removed or replaced: whoever looks, looks into the new one.
    pub fn keep_place(&mut self) -> Result<(), SpoolError> {
        if !self.is_current() {
            self.serving = open_serving(&self.spool)?;
        }
        Ok(())
    }

    /// Whether the path still leads to the directory that is open.
    fn is_current(&self) -> bool {
        let named = self.spool.root.stat(SERVING).ok().flatten();
        let open = self.serving.stamp().ok();
        matches!((named, open), (Some(named), Some(open)) if named.same_file(&open))
    }

    /// Removes the record, if this process wrote it.
    pub fn withdraw(&self) -> Result<(), SpoolError> {
        if let Some(record) = read_record(&self.serving, &self.name)
            && record.pid == process::own_pid()
        {
            let removed = self.serving.remove(&self.name);
            let _gone =
                removed.context("remove the heartbeat", self.serving.path_of(&self.name))?;
        }
        Ok(())
    }

    /// Removes the records of servers that are provably dead, and those that nobody can read. Gives their names.
    ///
    /// A record that names only a pid may come from another pid namespace, so it must also have gone unrefreshed: `now` is
    /// the file system's own time.
    pub fn sweep_dead(&self, now: FileStamp) -> Vec<String> {
        let mut names = Vec::new();
        let listed = self.serving.each_name(|name| {
            if let Some(name) =
                text_of(name).filter(|name| name.ends_with(".json") && *name != self.name)
            {
                names.push(name.to_owned());
            }
        });
        if listed.is_err() {
            return Vec::new();
        }
        names.retain(|name| self.is_dead(name, now) && self.serving.remove(name).is_ok());
        names
    }

    fn is_dead(&self, name: &str, now: FileStamp) -> bool {
        let FileRead::Content { bytes, stamp } = self.serving.read(name, MAX_HEARTBEAT_BYTES)
        else {
            return false;
        };
        let unrefreshed = now.mtime_ns - stamp.mtime_ns
            > i128::try_from(STALE_AFTER.as_nanos()).unwrap_or(i128::MAX);
        let Ok(record) = Heartbeat::from_json(&bytes) else {
            return unrefreshed;
        };
        let Some(session) = name.strip_suffix(".json").and_then(SessionId::from_encoded) else {
            return unrefreshed;
        };
        match &record.relay {
            Some(relay) if relay.held => {
                matches!(lock::state(&self.serving, &session), Ok(LockState::Free))
            }
            Some(relay) if process::life(record.pid, &relay.process) == Life::Dead => true,
            Some(_) | None => unrefreshed && process::exists(record.pid) == Life::Dead,
        }
    }
}

/// When anything about a file was changed last, its name included, in epoch nanoseconds.
fn changed_ns(stat: &Stat) -> i128 {
    i128::from(stat.st_ctime) * 1_000_000_000 + i128::from(stat.st_ctime_nsec)
}

fn open_serving(spool: &Spool) -> Result<Dir, SpoolError> {
    spool
        .root
        .ensure_dir(SERVING)
        .context("create", spool.path().join(SERVING))
}

fn record_name(session: &SessionId) -> String {
    format!("{}.json", session.encoded())
}

fn read_record(serving: &Dir, name: &str) -> Option<Heartbeat> {
    match serving.read(name, MAX_HEARTBEAT_BYTES) {
        FileRead::Content { bytes, .. } => Heartbeat::from_json(&bytes).ok(),
        FileRead::Missing | FileRead::Refused(_) | FileRead::Failed(_) => None,
    }
}

/// What one look at a session's liveness gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Observation {
    /// The verdict.
    pub liveness: Liveness,
    /// Whether a serving lock was seen to be held.
    pub lock_held: bool,
}

/// Judges, look by look, whether a session is being served. It keeps what it saw and when, on its own clock: the time in
/// the record is another process's and is not compared with anything.
#[derive(Debug)]
pub struct LivenessProbe {
    spool: Spool,
    session: SessionId,
    serving: Option<Dir>,
    /// The lock file, kept open while it is held, so that a look costs one system call.
    lock: Option<File>,
    seen: Option<Seen>,
    /// The key that the session must be served with.
    key: Option<String>,
}

/// The record as it was at its last change.
#[derive(Debug, Clone)]
struct Seen {
    stamp: FileStamp,
    changed_at: Moment,
    record: Option<Heartbeat>,
}

impl LivenessProbe {
    /// A probe of `session` that has not looked yet.
    pub fn new(spool: Spool, session: SessionId) -> Self {
        Self {
            spool,
            session,
            serving: None,
            lock: None,
            seen: None,
            key: None,
        }
    }

    /// Looks once.
    pub fn look(&mut self, now: Moment) -> Observation {
        let mut liveness = self.judge(now);
        if matches!(liveness, Liveness::Alive | Liveness::Unknown) && self.is_other_key() {
            liveness = Liveness::OtherKey;
            // Somebody may have written this over the true record, which is back with the next beat.
            self.seen = None;
        }
        Observation {
            liveness,
            lock_held: self.lock.is_some(),
        }
    }

    /// Whether it is certain that nobody serves the session: there is no record at all, and nobody holds the lock. A server that starts
    /// takes the lock first; one that has died, or whose record is half-written, has left a record.
    pub fn is_nobody_there(&self) -> bool {
        let serving = match self.spool.root.open_dir(SERVING) {
            Ok(Some(serving)) => serving,
            Ok(None) => return true,
            Err(_) => return false,
        };
        matches!(serving.stat(&record_name(&self.session)), Ok(None))
            && matches!(
                lock::state(&serving, &self.session),
                Ok(LockState::Free | LockState::Absent)
            )
    }

    /// As a probe for a requester that believes this key only: whoever serves with another one serves nobody here.
    #[must_use]
    pub fn expecting(mut self, key: &ServingKey) -> Self {
        self.key = Some(key.to_string());
        self
    }

    fn is_other_key(&self) -> bool {
        let (Some(expected), Some(record)) = (&self.key, self.record()) else {
            return false;
        };
        let found = record
            .relay
            .as_ref()
            .and_then(|relay| relay.public_key.as_ref());
        found != Some(expected)
    }

    /// The record as it was last seen, where it is usable.
    pub fn record(&self) -> Option<&Heartbeat> {
        self.seen.as_ref().and_then(|seen| seen.record.as_ref())
    }

    fn judge(&mut self, now: Moment) -> Liveness {
        if self.serving.is_none() {
            self.serving = self.spool.root.open_dir(SERVING).ok().flatten();
        }
        let Some(serving) = &self.serving else {
            return Liveness::Absent;
        };
        let name = record_name(&self.session);
        let stamp = match serving.stat(&name) {
            Ok(Some(stamp)) => stamp,
            Ok(None) => {
                self.seen = None;
                // The directory itself may have been replaced; open it anew next time.
                self.serving = None;
                return Liveness::Absent;
            }
            Err(_) => return Liveness::Unknown,
        };
        self.lock = self
            .lock
            .take()
            .filter(|file| lock::probe_file(file) == LockState::Held);
        match &mut self.seen {
            Some(seen) if seen.stamp == stamp => {}
            // Refreshed, by the holder of the lock: what it says need not be read again, but where it matters who that is. The file
            // of the lock outlives its holders.
            Some(seen) if self.lock.is_some() && self.key.is_none() => {
                (seen.stamp, seen.changed_at) = (stamp, now);
            }
            Some(_) | None => {
                let record = read_record(serving, &name)
                    .filter(|record| is_of_session(record, &self.session));
                self.seen = Some(Seen {
                    stamp,
                    changed_at: now,
                    record,
                });
            }
        }
        let Some((record, changed_at)) = self
            .seen
            .as_ref()
            .and_then(|seen| Some((seen.record.as_ref()?, seen.changed_at)))
        else {
            return Liveness::Absent;
        };
        if self.lock.is_none() && record.relay.as_ref().is_some_and(|relay| relay.held) {
            match lock::open_held(serving, &self.session) {
                Ok(lock::Probe::Held(file)) => self.lock = Some(file),
                Ok(lock::Probe::Free | lock::Probe::Absent) => return Liveness::LockFree,
                // It claims a lock that cannot be looked at from here: the record alone counts.
                Ok(lock::Probe::Unsupported) | Err(_) => {}
            }
        }
        if now.since(changed_at) >= STALE_AFTER {
            return Liveness::Stale;
        }
        // Who holds a lock lives.
        if self.lock.is_some() {
            return Liveness::Alive;
        }
        match record
            .relay
            .as_ref()
            .map(|relay| process::life(record.pid, &relay.process))
        {
            Some(Life::Dead) => Liveness::DeadPid,
            Some(Life::Alive | Life::Unknown) | None => Liveness::Alive,
        }
    }
}

fn is_of_session(record: &Heartbeat, session: &SessionId) -> bool {
    SessionId::parse(&record.session_id).is_ok_and(|id| id == *session)
}

#[cfg(test)]
mod tests;
