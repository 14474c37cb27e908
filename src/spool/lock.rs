//! Locks: the one thing in a spool that ends with its holder.
//!
//! A serving session holds `serving/<session>.lock`, a requester holds its own request file. Both are `flock`s, exclusive,
//! for as long as the process serves or waits; the kernel frees them when it ends, however it ends. Lock files are never
//! unlinked, so that a lock is always on the file that the name leads to, and they lie outside the session's directory,
//! which must be able to become empty.
//!
//! The peer takes no locks, so nothing may depend on one being there.

use std::fs::File;
use std::io::{self, Read, Seek as _, Write as _};
use std::time::Duration;

use rustix::io::Errno;

use super::dir::{Dir, FileStamp};
use super::{IoContext as _, SERVING, Spool, SpoolError};
use crate::process;
use crate::wire::SessionId;

/// State of somebody's lock, seen from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum LockState {
    /// A living process holds it.
    Held,
    /// Nobody holds it.
    Free,
    /// There is no lock file.
    Absent,
    /// This file system cannot lock.
    Unsupported,
}

/// The lock of a session that this process serves. Dropping it frees it.
#[derive(Debug)]
pub struct ServingLock {
    /// Closing it frees the lock.
    #[cfg_attr(not(test), expect(dead_code, reason = "held, not used"))]
    file: File,
    stamp: FileStamp,
}

/// Who holds a lock, by its own word.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Owner {
    /// Its pid.
    pub pid: Option<u32>,
    /// When it took the lock, by its own clock, in epoch milliseconds.
    pub since_ms: Option<i64>,
}

/// What asking for a session's lock gave.
#[derive(Debug)]
#[must_use]
pub enum LockOutcome {
    /// It is ours.
    Taken(ServingLock),
    /// Another living process serves the session.
    Busy(Owner),
    /// This file system cannot lock; the heartbeat alone says that the session is served.
    Unsupported,
}

/// A requester that looks whether a session is served holds a shared lock for an instant. A few tries outlast it.
const TRIES: u32 = 20;
const PAUSE: Duration = Duration::from_millis(5);

impl ServingLock {
    /// Takes the lock of `session`.
    pub fn take(
        spool: &Spool,
        session: &SessionId,
        now_ms: i64,
    ) -> Result<LockOutcome, SpoolError> {
        let serving = spool
            .root
            .ensure_dir(SERVING)
            .context("create", spool.path().join(SERVING))?;
        let name = lock_name(session);
        let path = serving.path_of(&name);
        let mut file = serving
            .open_lock(&name)
            .context("open the lock file", &path)?;
        for attempt in 0..TRIES {
            match lock_exclusive(&file) {
                Attempt::Locked => {
                    let owner = format!("{} {now_ms}\n", process::own_pid());
                    let written = file
                        .set_len(0)
                        .and_then(|()| file.rewind())
                        .and_then(|()| file.write_all(owner.as_bytes()));
                    written.context("write the lock file", &path)?;
                    let stamp =
                        FileStamp::of_file(&file).context("look at the lock file", &path)?;
                    return Ok(LockOutcome::Taken(Self { file, stamp }));
                }
                Attempt::Unsupported => return Ok(LockOutcome::Unsupported),
                Attempt::Failed(source) => {
                    return Err(SpoolError::Io {
                        doing: "lock",
                        path,
                        source,
                    });
                }
                Attempt::Busy if attempt + 1 < TRIES => std::thread::sleep(PAUSE),
                Attempt::Busy => {}
            }
        }
        Ok(LockOutcome::Busy(read_owner(&mut file)))
    }

    /// Whether the path still leads to the file that is locked. A tool may have replaced it, or the directory that it lies in;
    /// then the lock proves nothing to those who look there.
    pub fn is_current(&self, spool: &Spool, session: &SessionId) -> bool {
        let named = spool
            .root
            .stat(&format!("{SERVING}/{}", lock_name(session)));
        named.is_ok_and(|named| named.is_some_and(|named| named.same_file(&self.stamp)))
    }
}

fn lock_name(session: &SessionId) -> String {
    format!("{}.lock", session.encoded())
}

/// A look at a session's lock that keeps the file where it is held.
pub(super) enum Probe {
    Held(File),
    Free,
    Absent,
    Unsupported,
}

pub(super) fn open_held(serving: &Dir, session: &SessionId) -> io::Result<Probe> {
    use rustix::fs::{Mode, OFlags};
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match rustix::fs::openat(serving, lock_name(session), flags, Mode::empty()) {
        Ok(fd) => File::from(fd),
        Err(Errno::NOENT) => return Ok(Probe::Absent),
        Err(error) => return Err(error.into()),
    };
    Ok(match probe_file(&file) {
        LockState::Held => Probe::Held(file),
        LockState::Free => Probe::Free,
        LockState::Absent => Probe::Absent,
        LockState::Unsupported => Probe::Unsupported,
    })
}

/// Looks whether a session's lock is held.
pub(super) fn state(serving: &Dir, session: &SessionId) -> io::Result<LockState> {
    Ok(match open_held(serving, session)? {
        Probe::Held(_) => LockState::Held,
        Probe::Free => LockState::Free,
        Probe::Absent => LockState::Absent,
        Probe::Unsupported => LockState::Unsupported,
    })
}

/// Who serves the session, as the lock file says. Only for messages.
pub(super) fn owner(serving: &Dir, session: &SessionId) -> Owner {
    match serving.read(&lock_name(session), 256) {
        super::FileRead::Content { bytes, .. } => parse_owner(&bytes),
        super::FileRead::Missing | super::FileRead::Refused(_) | super::FileRead::Failed(_) => {
            Owner::default()
        }
    }
}

fn read_owner(file: &mut File) -> Owner {
    let mut bytes = Vec::new();
    let read = file
        .rewind()
        .and_then(|()| Read::by_ref(file).take(256).read_to_end(&mut bytes));
    if read.is_ok() {
        parse_owner(&bytes)
    } else {
        Owner::default()
    }
}

fn parse_owner(bytes: &[u8]) -> Owner {
    let text = String::from_utf8_lossy(bytes);
    let mut words = text.split_whitespace();
    Owner {
        pid: words.next().and_then(|word| word.parse().ok()),
        since_ms: words.next().and_then(|word| word.parse().ok()),
    }
}

/// Looks whether a file's lock is held, by taking a shared one for an instant.
pub(super) fn probe_file(file: &File) -> LockState {
    // The standard library has methods of the same names; the trait is named in full so that one lock is meant everywhere.
    match fs2::FileExt::try_lock_shared(file) {
        Ok(()) => {
            // Closing the descriptor would do as well; an error here cannot mean that the lock is kept.
            let _freed = fs2::FileExt::unlock(file);
            LockState::Free
        }
        Err(error) if is_contended(&error) => LockState::Held,
        Err(_) => LockState::Unsupported,
    }
}

/// What one try to lock a file gave.
pub(crate) enum Attempt {
    Locked,
    Busy,
    Unsupported,
    Failed(io::Error),
}

/// Tries to lock a file, without waiting.
pub(crate) fn lock_exclusive(file: &File) -> Attempt {
    match fs2::FileExt::try_lock_exclusive(file) {
        Ok(()) => Attempt::Locked,
        Err(error) if is_contended(&error) => Attempt::Busy,
        Err(error) => match Errno::from_io_error(&error) {
            Some(Errno::NOSYS | Errno::NOLCK | Errno::OPNOTSUPP | Errno::INVAL) => {
                Attempt::Unsupported
            }
            Some(_) | None => Attempt::Failed(error),
        },
    }
}

fn is_contended(error: &io::Error) -> bool {
    error.raw_os_error() == fs2::lock_contended_error().raw_os_error()
}

#[cfg(test)]
mod tests;
