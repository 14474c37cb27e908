//! The serving side of one session's directory: requests in, responses out.
//!
//! While it is open, a dot file keeps `requests/` alive, so that neither a watch nor a child's write ever loses its
//! directory to somebody's clean-up. It says what is there and publishes what it is told; it decides nothing.

use std::ffi::{CStr, CString};
use std::io;
use std::path::Path;

use rustix::io::Errno;

use super::dir::{
    Dir, FileRead, FileStamp, Opened, PublishOutcome, Removal, Replace, os_str_of, text_of,
};
use super::lock::{self, LockState};
use super::watch::PROBE_PREFIX;
use super::{
    Events, IoContext as _, KEEP, RACES, REQUESTS, RESPONSES, SESSIONS, Spool, SpoolError, cleanup,
    quarantine,
};
use crate::clock;
use crate::wire::{MAX_REQUEST_BYTES, MAX_RESPONSE_BYTES, RequestId, SessionId};

/// A directory's time moves in steps of the kernel's clock. Only a change this much older than the scan is certain to have
/// been seen by it.
const COARSE_NS: i128 = 50_000_000;

/// Inbox and outbox of a session that this process serves.
#[derive(Debug)]
pub struct Inbox {
    spool: Spool,
    session: SessionId,
    name: String,
    requests: Dir,
    responses: Dir,
    /// The time of `requests/` as of a scan that surely saw everything up to it.
    settled: Option<i128>,
}

/// A file name as it is on disk, which need not be text.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NameOnDisk(CString);

impl NameOnDisk {
    /// The name, where it is text.
    pub fn as_str(&self) -> Option<&str> {
        text_of(&self.0)
    }

    /// The name for a person, with what is no text replaced. It may still hold control characters.
    pub fn lossy(&self) -> String {
        String::from_utf8_lossy(self.0.to_bytes()).into_owned()
    }
}

/// Which names a reader looks at: `*.json`, in the order of their UTF-16 units.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Candidate {
    /// The name.
    pub name: NameOnDisk,
    /// The id that it stands for, where it is a safe one.
    pub id: Option<RequestId>,
}

impl Candidate {
    /// The candidate that a request of this id is.
    pub fn of(id: &RequestId) -> Self {
        // An id holds no byte that a file name could not, so this never comes out empty.
        let name = CString::new(id.file_name()).unwrap_or_default();
        Self {
            name: NameOnDisk(name),
            id: Some(id.clone()),
        }
    }
}

/// What a scan gave.
#[derive(Debug)]
#[must_use]
pub enum Scan {
    /// Nothing can have changed since the last scan.
    Unchanged,
    /// All candidates that are there.
    Listed(Vec<Candidate>),
    /// The directory is not the one that was opened: it was removed or replaced. [`Inbox::reopen`] is due.
    Replaced,
}

/// How hard to look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effort {
    /// List the directory in any case.
    Full,
    /// List it unless its own time says that nothing changed.
    IfChanged,
}

/// What became of an answer.
#[derive(Debug)]
#[must_use]
pub enum AnswerOutcome {
    /// It is published and the request is removed.
    Delivered,
    /// It is published, and what should have gone with that could not be removed.
    Left(SpoolError),
    /// The request was gone: nobody can take an answer, and none lies there.
    Unclaimed,
    /// Another file has the request's name now: what was decided is not what is asked.
    RequestChanged,
    /// A response lay there already, with these bytes. It is untouched.
    AlreadyThere(Vec<u8>),
}

/// Whether somebody still waits for a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum RequesterLife {
    /// Its lock is held.
    Waiting,
    /// Its lock is free: it ended.
    Gone,
    /// The request file is not there any more.
    RequestGone,
    /// It cannot be told.
    Unknown,
}

impl Inbox {
    /// Opens the directories of `session`, making what is missing.
    pub fn open(spool: &Spool, session: &SessionId) -> Result<Self, SpoolError> {
        let name = session.encoded();
        let (requests, responses) = open_dirs(spool, session, &name)?;
        let inbox = Self {
            spool: spool.clone(),
            session: session.clone(),
            name,
            requests,
            responses,
            settled: None,
        };
        inbox.keep_alive()?;
        Ok(inbox)
    }

    /// The session.
    pub fn session(&self) -> &SessionId {
        &self.session
    }

    /// The directory to watch.
    pub fn watched_path(&self) -> &Path {
        self.requests.path()
    }

    /// Opens the directories anew, after they were removed or replaced.
    pub fn reopen(&mut self) -> Result<(), SpoolError> {
        (self.requests, self.responses) = open_dirs(&self.spool, &self.session, &self.name)?;
        self.settled = None;
        self.keep_alive()
    }

    fn keep_alive(&self) -> Result<(), SpoolError> {
        match quarantine::publish_over(&self.spool, &self.requests, KEEP, b"")
            .context("write", self.requests.path_of(KEEP))?
        {
            PublishOutcome::Published(_) | PublishOutcome::AlreadyThere => Ok(()),
        }
    }

    /// Makes and removes a probe file in `requests/`. Where events come, the watch sees it; where caches are stale (network
    /// mounts), the directory is fresh afterwards.
    /// The time of the file is "now" by the clock of the file system.
    pub fn touch(&self) -> Result<FileStamp, SpoolError> {
        let name = format!("{PROBE_PREFIX}{}.tmp", crate::process::own_pid());
        let path = self.requests.path_of(&name);
        let made = quarantine::publish_over(&self.spool, &self.requests, &name, b"");
        let stamp = match made.context("write", &path)? {
            PublishOutcome::Published(published) => {
                FileStamp::of_file(&published.file).context("look at", &path)?
            }
            PublishOutcome::AlreadyThere => self.requests.stamp().context("look at", &path)?,
        };
        let _removal = self.requests.remove(&name).context("remove", path)?;
        Ok(stamp)
    }

    /// Looks which requests are there.
    pub fn scan(&mut self, effort: Effort) -> Result<Scan, SpoolError> {
        let remote = self.spool.events() == Events::Remote;
        if remote {
            let _now = self.touch()?;
        }
        let path = self.requests.path().to_owned();
        // A look that is made in any case is made while much happens: it costs no call more than it must.
        let mut before = None;
        if effort == Effort::IfChanged {
            let now = self.requests.stamp().context("look at", &path)?;
            if !self.leads_to(REQUESTS, now)? {
                return Ok(Scan::Replaced);
            }
            if !remote && self.settled == Some(now.mtime_ns) {
                return Ok(Scan::Unchanged);
            }
            before = Some(now.mtime_ns);
        }
        let began_ns = clock::wall_ns();
        let mut candidates = Vec::new();
        let listed = self.requests.each_name(|name| {
            if name.to_bytes().ends_with(b".json") {
                let id = text_of(name).and_then(RequestId::from_file_name);
                candidates.push(Candidate {
                    name: NameOnDisk(name.to_owned()),
                    id,
                });
            }
        });
        match listed {
            // A directory that has been removed cannot even be listed.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Scan::Replaced),
            other => other.context("list", &path)?,
        }
        self.settled = before.filter(|before| began_ns - before > COARSE_NS);
        if candidates.is_empty() && !self.is_current()? {
            return Ok(Scan::Replaced);
        }
        candidates
            .sort_unstable_by(|a, b| in_utf16_order(a.name.0.to_bytes(), b.name.0.to_bytes()));
        Ok(Scan::Listed(candidates))
    }

    /// Whether the path still leads to the directory that is open.
    fn is_current(&self) -> Result<bool, SpoolError> {
        let open = self
            .requests
            .stamp()
            .context("look at", self.requests.path())?;
        self.leads_to(REQUESTS, open)
    }

    /// Whether the session's directory of this name is this very one.
    fn leads_to(&self, child: &str, open: FileStamp) -> Result<bool, SpoolError> {
        let named = self
            .spool
            .root
            .stat(&format!("{SESSIONS}/{}/{child}", self.name))
            .or_else(|error| match Errno::from_io_error(&error) {
                Some(Errno::NOTDIR | Errno::LOOP) => Ok(None),
                Some(_) | None => Err(error),
            })
            .context("look at", self.spool.session_path(&self.session))?;
        Ok(named.is_some_and(|named| named.same_file(&open)))
    }

    /// Reads a request file, and looks whether its requester holds it.
    pub fn read(&self, name: &NameOnDisk) -> (FileRead, RequesterLife) {
        // A name that is no text can be no id: whatever is in it, it is not read.
        let Some(name) = name.as_str() else {
            return (FileRead::Missing, RequesterLife::Unknown);
        };
        let (read, file) = self.requests.read_open(name, MAX_REQUEST_BYTES);
        (
            read,
            file.map_or(RequesterLife::Unknown, |file| life_of(&file)),
        )
    }

    /// Whether a request of this id lies there. Where that cannot be told, it may.
    pub fn has_request(&self, id: &RequestId) -> bool {
        self.requests
            .stat(&id.file_name())
            .map_or(true, |stamp| stamp.is_some())
    }

    /// When the oldest of these requests was written, in epoch milliseconds of the file system; `None` where that of one cannot be
    /// told.
    pub fn oldest_ms<'a>(&self, ids: impl IntoIterator<Item = &'a RequestId>) -> Option<i64> {
        let mut oldest = None;
        for id in ids {
            let stamp = self.requests.stat(&id.file_name()).ok()??;
            let at = i64::try_from(stamp.mtime_ns / 1_000_000).ok()?;
            oldest = Some(oldest.map_or(at, |oldest: i64| oldest.min(at)));
        }
        oldest
    }

    /// Looks whether the requester that locks this request still waits.
    pub fn requester_life(&self, id: &RequestId) -> RequesterLife {
        match self.requests.open_checked(&id.file_name()) {
            Ok(Opened::File(file)) => life_of(&file),
            Ok(Opened::Missing) => RequesterLife::RequestGone,
            Ok(Opened::Refused(_)) | Err(_) => RequesterLife::Unknown,
        }
    }

    /// Whether the request file is still the one that was read.
    pub fn is_unchanged(&self, id: &RequestId, stamp: FileStamp) -> Result<Unchanged, SpoolError> {
        let name = id.file_name();
        Ok(
            match self
                .requests
                .stat(&name)
                .context("look at", self.requests.path_of(&name))?
            {
                None => Unchanged::Gone,
                Some(now) if now == stamp => Unchanged::Same,
                Some(_) => Unchanged::Changed,
            },
        )
    }

    /// Publishes the answer to the request that was read as `stamp`, and removes the request.
    ///
    /// The request is looked at before and after: an answer that nobody can take does not stay. Once it lies there it is given, also
    /// where the request cannot be removed: whoever made it so can read it all the same.
    pub fn answer(
        &mut self,
        id: &RequestId,
        stamp: Option<FileStamp>,
        response: &[u8],
    ) -> Result<AnswerOutcome, SpoolError> {
        let name = id.file_name();
        let now = self
            .requests
            .stat(&name)
            .context("look at", self.requests.path_of(&name))?;
        match (now, stamp) {
            (None, _) => return Ok(AnswerOutcome::Unclaimed),
            (Some(now), Some(read)) if now != read => return Ok(AnswerOutcome::RequestChanged),
            (Some(_), _) => {}
        }
        match self.publish_response(&name, response)? {
            PublishOutcome::Published(_) => {}
            PublishOutcome::AlreadyThere => {
                return Ok(match self.responses.read(&name, MAX_RESPONSE_BYTES) {
                    FileRead::Content { bytes, .. } => AnswerOutcome::AlreadyThere(bytes),
                    // What was in the way has gone; if the request has not, the way is free and somebody waits.
                    FileRead::Missing if !self.has_request(id) => AnswerOutcome::Unclaimed,
                    FileRead::Missing | FileRead::Refused(_) | FileRead::Failed(_) => {
                        AnswerOutcome::AlreadyThere(Vec::new())
                    }
                });
            }
        }
        let removed = (self.requests.remove(&name)).context("remove", self.requests.path_of(&name));
        Ok(match removed {
            Ok(Removal::Removed) => AnswerOutcome::Delivered,
            // The child consumed both files already, or it withdrew just before: then its answer must not stay.
            Ok(Removal::AlreadyGone) => {
                let removed = self.responses.remove(&name);
                match removed.context("remove", self.responses.path_of(&name)) {
                    Ok(Removal::Removed) => AnswerOutcome::Unclaimed,
                    Ok(Removal::AlreadyGone) => AnswerOutcome::Delivered,
                    Err(error) => AnswerOutcome::Left(error),
                }
            }
            Err(error) => AnswerOutcome::Left(error),
        })
    }

    fn publish_response(
        &mut self,
        name: &str,
        response: &[u8],
    ) -> Result<PublishOutcome, SpoolError> {
        let open = self
            .responses
            .identity()
            .context("look at", self.responses.path())?;
        if !self.leads_to(RESPONSES, open)? {
            // Renamed away or replaced: an answer in there would reach nobody.
            self.responses = open_responses(&self.spool, &self.session, &self.name)?;
        }
        match self.responses.publish(name, response, Replace::Never) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                // Somebody removed the directory: make it again, once.
                self.responses = open_responses(&self.spool, &self.session, &self.name)?;
                let again = self.responses.publish(name, response, Replace::Never);
                again.context("write the response", self.responses.path_of(name))
            }
            other => other.context("write the response", self.responses.path_of(name)),
        }
    }

    /// The ids of all responses that lie there.
    pub fn responses(&self) -> Result<Vec<RequestId>, SpoolError> {
        let mut ids = Vec::new();
        let see = |name: &CStr| ids.extend(text_of(name).and_then(RequestId::from_file_name));
        match self.responses.each_name(see) {
            // Removed since it was opened: whatever lay there is gone with it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            other => other.context("list", self.responses.path())?,
        }
        Ok(ids)
    }

    /// Bytes of the response that lies there for a request; `None` where there is none that can be read.
    pub fn response(&self, id: &RequestId) -> Option<Vec<u8>> {
        match self.responses.read(&id.file_name(), MAX_RESPONSE_BYTES) {
            FileRead::Content { bytes, .. } => Some(bytes),
            FileRead::Missing | FileRead::Refused(_) | FileRead::Failed(_) => None,
        }
    }

    /// Publishes a denial for a request that is moved aside next. A response that lies there already stays.
    pub fn publish_denial(&mut self, id: &RequestId, response: &[u8]) -> Result<(), SpoolError> {
        match self.publish_response(&id.file_name(), response)? {
            PublishOutcome::Published(_) | PublishOutcome::AlreadyThere => Ok(()),
        }
    }

    /// Removes a request that is not answered: its requester is gone, or its answer lies there.
    pub fn remove_request(&self, id: &RequestId) -> Result<Removal, SpoolError> {
        let name = id.file_name();
        self.requests
            .remove(&name)
            .context("remove", self.requests.path_of(&name))
    }

    /// Moves a request that cannot be used aside. Gives its name in the quarantine, or `None` where it was gone.
    pub fn quarantine(
        &self,
        name: &NameOnDisk,
        reason: &str,
        now_ms: i64,
    ) -> Result<Option<String>, SpoolError> {
        quarantine::take(&self.spool, &self.requests, &name.0, reason, now_ms)
    }

    /// Moves a response that this session did not write aside.
    pub fn quarantine_response(
        &self,
        id: &RequestId,
        reason: &str,
        now_ms: i64,
    ) -> Result<Option<String>, SpoolError> {
        let name = CString::new(id.file_name())
            .map_err(io::Error::other)
            .context("name", self.responses.path())?;
        quarantine::take(&self.spool, &self.responses, &name, reason, now_ms)
    }

    /// Stops keeping the directory alive, and removes what is empty.
    pub fn close(&self) -> Result<(), SpoolError> {
        let _removal = self
            .requests
            .remove(KEEP)
            .context("remove", self.requests.path_of(KEEP))?;
        let sessions = self.spool.path().join(SESSIONS);
        match self
            .spool
            .root
            .open_dir(SESSIONS)
            .context("open", &sessions)?
        {
            Some(dir) => {
                cleanup::remove_empty(&dir, &self.name).context("clean", sessions.join(&self.name))
            }
            None => Ok(()),
        }
    }
}

fn life_of(file: &std::fs::File) -> RequesterLife {
    match lock::probe_file(file) {
        LockState::Held => RequesterLife::Waiting,
        LockState::Free => RequesterLife::Gone,
        LockState::Absent | LockState::Unsupported => RequesterLife::Unknown,
    }
}

/// Whether a request file is still what it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Unchanged {
    /// Yes.
    Same,
    /// Another file, or other bytes.
    Changed,
    /// There is none.
    Gone,
}

fn open_dirs(spool: &Spool, session: &SessionId, name: &str) -> Result<(Dir, Dir), SpoolError> {
    let path = spool.session_path(session);
    let sessions = spool
        .root
        .ensure_dir(SESSIONS)
        .context("create", spool.path().join(SESSIONS))?;
    // A clean-up may remove each of these right after it was made.
    let mut tries = 0;
    loop {
        let opened = quarantine::ensure_dir_over(spool, &sessions, name).and_then(|dir| {
            let requests = quarantine::ensure_dir_over(spool, &dir, REQUESTS)?;
            Ok((
                requests,
                quarantine::ensure_dir_over(spool, &dir, RESPONSES)?,
            ))
        });
        match opened {
            Err(error) if error.kind() == io::ErrorKind::NotFound && tries < RACES => {
                tries += 1;
                std::thread::yield_now();
            }
            other => return other.context("create", path),
        }
    }
}

fn open_responses(spool: &Spool, session: &SessionId, name: &str) -> Result<Dir, SpoolError> {
    open_dirs(spool, session, name).map(|(_, responses)| responses)
}

/// The peer's order of names: by UTF-16 code unit. It differs from the order of bytes only beyond the first plane.
fn in_utf16_order(a: &[u8], b: &[u8]) -> std::cmp::Ordering {
    if a.is_ascii() && b.is_ascii() {
        return a.cmp(b);
    }
    let units = |bytes: &[u8]| {
        String::from_utf8_lossy(bytes)
            .encode_utf16()
            .collect::<Vec<_>>()
    };
    units(a).cmp(&units(b))
}

/// A name for messages and logs.
pub(super) fn lossy(name: &CStr) -> String {
    os_str_of(name).to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests;
