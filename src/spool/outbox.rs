//! The requesting side of another session's directory: one request in, its response out.
//!
//! A child makes the directories it needs, writes its request without ever replacing one, holds a lock on it for as long as
//! it waits, and alone consumes the response.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use super::cleanup::Emptied;
use super::dir::{Dir, FileRead, FileStamp, PublishOutcome, Removal, Replace};
use super::lock::{self, Attempt};
use super::watch::PROBE_PREFIX;
use super::{
    Events, IoContext as _, KEEP, RACES, REQUESTS, RESPONSES, SESSIONS, Spool, SpoolError, cleanup,
};
use crate::wire::{MAX_RESPONSE_BYTES, RequestId, SessionId};

/// Another session's directories, as a requester uses them.
#[derive(Debug)]
pub struct Outbox {
    spool: Spool,
    session: SessionId,
    name: String,
    dirs: Option<Dirs>,
}

#[derive(Debug)]
struct Dirs {
    session: Dir,
    requests: Dir,
    responses: Dir,
}

/// A request that has been written. Its lock is freed when this is dropped.
#[derive(Debug)]
pub struct Submission {
    id: RequestId,
    path: PathBuf,
    file: File,
}

/// What submitting gave.
#[derive(Debug)]
#[must_use]
pub enum SubmitOutcome {
    /// The request is there.
    Written(Submission),
    /// A request or a response of this id lies there already: another id is needed.
    IdTaken,
}

/// A number that this process has not used yet.
fn next_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// How far a look goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Freshness {
    /// Into the directory that is open.
    ByHandle,
    /// Into the one that the path leads to now, if the open one has been removed.
    ByPath,
}

/// What looking for a response gave.
#[derive(Debug)]
#[must_use]
pub enum Consumed {
    /// None yet.
    NotYet,
    /// These bytes, and which file they were read from.
    Bytes(Vec<u8>, FileStamp),
    /// Something lies there that is not read.
    Unreadable(String),
}

/// Whether the requester could lock its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Held {
    /// It holds a lock for as long as it waits.
    Locked,
    /// This file system cannot lock.
    Unlocked,
}

impl Submission {
    /// Id of the request.
    pub fn id(&self) -> &RequestId {
        &self.id
    }

    /// Path of the request file: the thing to watch, for the server removes it once the response is there.
    pub fn path(&self) -> &PathBuf {
        &self.path
    }

    /// Raises an event on the request file, so that a watch on it can prove itself.
    pub fn touch(&self) {
        // Best effort: without it the poll stays fast.
        let _touched = rustix::fs::fchmod(&self.file, super::dir::FILE_MODE);
    }
}

impl Outbox {
    /// The directories of `session`; nothing is made yet.
    pub fn new(spool: &Spool, session: &SessionId) -> Self {
        Self {
            spool: spool.clone(),
            session: session.clone(),
            name: session.encoded(),
            dirs: None,
        }
    }

    /// The session that is asked.
    pub fn session(&self) -> &SessionId {
        &self.session
    }

    fn dirs(&mut self) -> io::Result<&Dirs> {
        if self.dirs.is_none() {
            let session = self
                .spool
                .root
                .ensure_dir(SESSIONS)?
                .ensure_dir(&self.name)?;
            self.dirs = Some(Dirs {
                // In this order, for a clean-up begins with `requests/`: the file that keeps it alive comes right after.
                responses: session.ensure_dir(RESPONSES)?,
                requests: session.ensure_dir(REQUESTS)?,
                session,
            });
        }
        self.dirs
            .as_ref()
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Makes the directories that a request needs.
    pub fn prepare(&mut self) -> Result<(), SpoolError> {
        let path = self.spool.session_path(&self.session);
        self.with_dirs(|_| Ok(())).context("create", path)
    }

    /// Runs `work` on open directories, again where a clean-up has removed them in between.
    fn with_dirs<T>(&mut self, mut work: impl FnMut(&Dirs) -> io::Result<T>) -> io::Result<T> {
        let mut tries = 0;
        loop {
            match self.dirs().and_then(&mut work) {
                Err(error) if error.kind() == io::ErrorKind::NotFound && tries < RACES => {
                    tries += 1;
                    self.dirs = None;
                    std::thread::yield_now();
                }
                other => return other,
            }
        }
    }

    /// Opens the directories so that no clean-up can remove `requests/`: where it is missing it appears, in one step, with a file
    /// in it. Gives that file's name.
    fn pinned_dirs(&mut self) -> io::Result<String> {
        let pin = format!(".pin-{}-{}.tmp", crate::process::own_pid(), next_number());
        let session = self
            .spool
            .root
            .ensure_dir(SESSIONS)?
            .ensure_dir(&self.name)?;
        // Made in this order, the first thing in the session's directory is also what keeps it from being removed.
        session.make_dir(&pin)?;
        let staged = session.open_dir(&pin)?.ok_or(io::ErrorKind::NotFound)?;
        let moved = staged
            .publish(&pin, b"", Replace::Always)
            .and_then(|_| session.rename(&pin, REQUESTS));
        let requests = match moved {
            Ok(()) => staged.at(session.path().join(REQUESTS)),
            Err(error) => {
                let _removed = staged.remove(&pin).and_then(|_| session.remove_dir(&pin));
                // Somebody else made it meanwhile: then the file is put into that one, if it is quick enough.
                if error.kind() != io::ErrorKind::AlreadyExists
                    && error.kind() != io::ErrorKind::DirectoryNotEmpty
                {
                    return Err(error);
                }
                let requests = session.open_dir(REQUESTS)?.ok_or(io::ErrorKind::NotFound)?;
                let _pinned = requests.publish(&pin, b"", Replace::Always)?;
                requests
            }
        };
        let responses = session.ensure_dir(RESPONSES)?;
        self.dirs = Some(Dirs {
            session,
            requests,
            responses,
        });
        Ok(pin)
    }

    fn unpin(&self, pin: &str) {
        if let Some(dirs) = &self.dirs {
            // A leftover is a temporary file like any other.
            let _removed = dirs.requests.remove(pin);
        }
    }

    /// Writes a request. `bytes` makes its content, told whether the file is locked.
    ///
    /// Where a server keeps `requests/` alive, the temporary file lies beside that directory: a watch on it then sees one event,
    /// the request as it appears. Elsewhere it lies inside, and keeps clean-ups from removing the directory.
    pub fn submit<B: AsRef<[u8]>>(
        &mut self,
        id: &RequestId,
        mut bytes: impl FnMut(Held) -> io::Result<B>,
    ) -> Result<SubmitOutcome, SpoolError> {
        let name = id.file_name();
        let path = self.spool.request_path(&self.session, &name);
        let mut write = |dirs: &Dirs| {
            // An answer that lies there already was given to somebody else's bytes, or by somebody else.
            if dirs.responses.stat(&name)?.is_some() {
                return Ok(None);
            }
            let kept = dirs.requests.stat(KEEP)?.is_some();
            let beside = if kept { &dirs.session } else { &dirs.requests };
            let published = beside.publish_into(&dirs.requests, &name, Replace::Never, |file| {
                // Locked before the file has its name, so that nobody ever sees it unlocked.
                let held = match lock::lock_exclusive(file) {
                    Attempt::Locked => Held::Locked,
                    Attempt::Busy | Attempt::Unsupported | Attempt::Failed(_) => Held::Unlocked,
                };
                file.write_all(bytes(held)?.as_ref())
            })?;
            Ok(Some(published))
        };
        let mut written = self.dirs().and_then(&mut write);
        let mut tries = 0;
        while matches!(&written, Err(error) if error.kind() == io::ErrorKind::NotFound)
            && tries < RACES
        {
            tries += 1;
            // A clean-up was faster: now the directory comes with something in it.
            self.dirs = None;
            written = self.pinned_dirs().and_then(|pin| {
                let written = self.dirs().and_then(&mut write);
                self.unpin(&pin);
                written
            });
        }
        Ok(match written.context("write the request", &path)? {
            None | Some(PublishOutcome::AlreadyThere) => SubmitOutcome::IdTaken,
            Some(PublishOutcome::Published(published)) => SubmitOutcome::Written(Submission {
                id: id.clone(),
                path,
                file: published.file,
            }),
        })
    }

    /// Looks for the response to a request.
    pub fn look(&mut self, id: &RequestId, freshness: Freshness) -> Result<Consumed, SpoolError> {
        let name = id.file_name();
        let path = self.spool.response_path(&self.session, &name);
        match self.read_response(&name, freshness) {
            FileRead::Missing => Ok(Consumed::NotYet),
            FileRead::Content { bytes, stamp } => Ok(Consumed::Bytes(bytes, stamp)),
            FileRead::Refused(refusal) => Ok(Consumed::Unreadable(refusal.to_string())),
            FileRead::Failed(source) => Err(SpoolError::Io {
                doing: "read the response",
                path,
                source,
            }),
        }
    }

    fn read_response(&mut self, name: &str, freshness: Freshness) -> FileRead {
        match self
            .dirs()
            .map(|dirs| dirs.responses.read(name, MAX_RESPONSE_BYTES))
        {
            // The handle may be of a directory that was removed or renamed, and made again; the path decides.
            Ok(FileRead::Missing) if freshness == Freshness::ByPath && !self.is_current() => {
                self.dirs = None;
                match self.dirs() {
                    Ok(dirs) => dirs.responses.read(name, MAX_RESPONSE_BYTES),
                    Err(error) => FileRead::Failed(error),
                }
            }
            Ok(read) => read,
            Err(error) => FileRead::Failed(error),
        }
    }

    /// Whether the path of the responses still leads to the directory that is open. What cannot be told is taken for a yes.
    fn is_current(&self) -> bool {
        let Some(dirs) = &self.dirs else { return true };
        let named = self
            .spool
            .root
            .stat(&format!("{SESSIONS}/{}/{RESPONSES}", self.name));
        match (named, dirs.responses.identity()) {
            (Ok(named), Ok(open)) => named.is_some_and(|named| named.same_file(&open)),
            _ => true,
        }
    }

    /// Makes a mount's caches fresh, where they may be stale, before responses are looked for.
    pub fn refresh(&mut self) {
        if self.spool.events() == Events::Remote {
            let name = format!("{PROBE_PREFIX}{}.tmp", crate::process::own_pid());
            // Best effort: the look that follows says what is there.
            let _probed = self.with_dirs(|dirs| {
                let _made = dirs.responses.publish(&name, b"", Replace::Always)?;
                let _gone = dirs.responses.remove(&name)?;
                dirs.responses.each_name(|_| {})
            });
        }
    }

    /// The ids of all responses that lie there.
    pub fn list_responses(&mut self) -> Result<Vec<RequestId>, SpoolError> {
        let path = self.spool.session_path(&self.session).join(RESPONSES);
        let mut ids = Vec::new();
        if !self.is_current() {
            self.dirs = None;
        }
        self.with_dirs(|dirs| {
            ids.clear();
            dirs.responses.each_name(|name| {
                ids.extend(name.to_str().ok().and_then(RequestId::from_file_name));
            })
        })
        .context("list", path)?;
        Ok(ids)
    }

    /// Takes a response away that is not for this requester, so that the true one can come, and gives what was taken: where one
    /// came in the place of the other meanwhile, it is not lost. Whatever lies there goes, a link or a directory as well.
    pub fn refuse(&mut self, id: &RequestId) -> Result<Option<Vec<u8>>, SpoolError> {
        let name = id.file_name();
        let path = self.spool.response_path(&self.session, &name);
        let aside = format!(
            ".refused-{}-{}.tmp",
            crate::process::own_pid(),
            next_number()
        );
        let taken = self.dirs().and_then(|dirs| {
            dirs.responses.rename(&name, &aside)?;
            let mut read = dirs.responses.read(&aside, MAX_RESPONSE_BYTES);
            if let FileRead::Failed(_) = read {
                // A passing fault, such as a full table of descriptors, must not cost a true answer.
                read = dirs.responses.read(&aside, MAX_RESPONSE_BYTES);
            }
            match read {
                FileRead::Failed(error) => {
                    dirs.responses.rename(&aside, &name)?;
                    Err(error)
                }
                read @ (FileRead::Content { .. } | FileRead::Missing | FileRead::Refused(_)) => {
                    dirs.responses.remove_any(&aside)?;
                    Ok(read)
                }
            }
        });
        match taken {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Ok(FileRead::Content { bytes, .. }) => Ok(Some(bytes)),
            Ok(FileRead::Missing | FileRead::Refused(_) | FileRead::Failed(_)) => Ok(None),
            Err(source) => Err(SpoolError::Io {
                doing: "remove the response",
                path,
                source,
            }),
        }
    }

    /// Whether the request lies there still. Where that cannot be told, it may.
    pub fn has_request(&mut self, id: &RequestId) -> bool {
        let name = id.file_name();
        match self.dirs().and_then(|dirs| dirs.requests.stat(&name)) {
            Ok(stamp) => stamp.is_some(),
            Err(error) => error.kind() != io::ErrorKind::NotFound,
        }
    }

    fn remove_response(&mut self, id: &RequestId) -> Result<Removal, SpoolError> {
        let name = id.file_name();
        let path = self.spool.response_path(&self.session, &name);
        match self.dirs().and_then(|dirs| dirs.responses.remove(&name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Removal::AlreadyGone),
            other => other.context("remove the response", path),
        }
    }

    /// Removes the response, the request, and what is empty then: the order in which an answer is consumed.
    pub fn finish(&mut self, submission: Submission) -> Result<(), SpoolError> {
        let consumed = self.remove_response(submission.id());
        // The request goes in any case: it is settled, whatever lies at the place of the response.
        let withdrawn = self.withdraw(submission);
        let _removal = consumed?;
        withdrawn
    }

    /// Removes the request and what is empty then.
    pub fn withdraw(&mut self, submission: Submission) -> Result<(), SpoolError> {
        let name = submission.id.file_name();
        let removed = match self.dirs().and_then(|dirs| dirs.requests.remove(&name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Removal::AlreadyGone),
            other => other,
        };
        let _removal = removed.context("remove the request", &submission.path)?;
        // The lock goes with the file, and only after it: nobody may take this requester for a dead one.
        drop(submission);
        self.clean()
    }

    /// Removes what is empty of the session's directories.
    pub fn clean(&mut self) -> Result<(), SpoolError> {
        let path = self.spool.session_path(&self.session);
        if let Some(dirs) = &self.dirs
            && cleanup::remove_children(&dirs.session).context("clean", &path)? == Emptied::No
        {
            return Ok(());
        }
        self.dirs = None;
        let sessions = self.spool.path().join(SESSIONS);
        match self
            .spool
            .root
            .open_dir(SESSIONS)
            .context("open", &sessions)?
        {
            Some(dir) => cleanup::remove_empty(&dir, &self.name).context("clean", path),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
