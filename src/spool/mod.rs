//! The spool: a directory of files that is the whole state of the relay. Memory is a cache of it.
//!
//! ```text
//! <root>/sessions/<session>/requests/<id>.json     asks to that session, written by children
//!                           responses/<id>.json    its answers, consumed by those children
//!        serving/<session>.json                    heartbeat of the process that serves it
//!                <session>.lock                    held by that process, never unlinked
//!        grants/<session>/<number>.json            what a person granted there, while it is in force
//!        answered/<id>                            calls that a hook let run, until their host says that they are over
//!        quarantine/                               what could not be used, with the reason beside it
//! ```
//!
//! This ring is the only one that touches files, locks and watches. It decides nothing: it says what is there. Whatever is
//! expected to happen to files that others write, remove and race for is an outcome, not an error.

mod answered;
mod cleanup;
mod dir;
#[cfg(debug_assertions)]
pub mod fault;
mod foreign;
mod grants;
mod heartbeat;
mod inbox;
mod inspect;
mod installed;
mod lock;
mod operator;
mod outbox;
mod prompts;
mod quarantine;
mod root;
mod subject;
#[cfg(test)]
mod testing;
mod trusted;
mod watch;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use dir::{FileRead, FileStamp, Refusal, Removal};
pub use foreign::{ForeignError, ForeignFile, canonical_path, is_program, replaceable_by_others};
pub use grants::{
    FoundGrant, GrantFiles, GrantHold, GrantLook, GrantStamp, GrantView, GrantsOf, Lost, TakenBack,
};
pub use heartbeat::{HeartbeatFile, LivenessProbe, Observation};
pub use inbox::{
    AnswerOutcome, Candidate, Effort, Inbox, NameOnDisk, RequesterLife, Scan, Unchanged,
};
pub use inspect::{HeartbeatView, RequestView, SessionView};
pub use installed::{InstallStore, Installed};
pub(crate) use lock::{Attempt, lock_exclusive};
pub use lock::{LockOutcome, LockState, Owner, ServingLock};
pub use operator::{
    LookedAt, OperatorFile, leads_somewhere, list_operator_files, look_at_operator_file,
    path_spellings, read_operator_file,
};
pub use outbox::{Consumed, Freshness, Held, Outbox, Submission, SubmitOutcome};
pub use prompts::{PROMPT_KEPT, PromptFile, PromptFiles};
pub use root::Missing;
pub use subject::{SubjectFile, read_subject_file};
pub use trusted::{TrustError, TrustRecord, TrustStore, TrustedFile, canonical_directory};
pub use watch::{OnWake, Wake, Watch, WatchError, WatchId};

use crate::wire::SessionId;
use dir::Dir;

/// A spool cannot be used. The text says what was tried and on which path; [`SpoolError::hint`] what to do.
#[derive(Debug, thiserror::Error)]
pub enum SpoolError {
    /// The path does not start at the root of the file system, or climbs.
    #[error("the spool path {path:?} is not an absolute path without \"..\"")]
    NotAbsolute {
        /// The path.
        path: PathBuf,
    },
    /// There is nothing at the path.
    #[error("there is no spool at {path:?}")]
    NoSpool {
        /// The path.
        path: PathBuf,
    },
    /// A file stands where a directory should.
    #[error("{path:?} is not a directory")]
    NotADirectory {
        /// The path.
        path: PathBuf,
    },
    /// A component of the path is a link.
    #[error("{path:?}, on the way to the spool {root:?}, is a symbolic link")]
    Symlink {
        /// The link.
        path: PathBuf,
        /// The spool.
        root: PathBuf,
    },
    /// Something that is no file stands where a file should.
    #[error("{path:?} is not a regular file")]
    NotAFile {
        /// The path.
        path: PathBuf,
    },
    /// Somebody else owns it.
    #[error("{path:?} belongs to user {owner}, not to this one")]
    ForeignOwner {
        /// The path.
        path: PathBuf,
        /// User id of the owner.
        owner: u32,
    },
    /// Others may write where only this user should.
    #[error("{path:?} is writable by others (mode {mode:04o})")]
    WritableByOthers {
        /// The path.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// The machine refused.
    #[error("cannot {doing} {path:?}")]
    Io {
        /// What was tried.
        doing: &'static str,
        /// On which path.
        path: PathBuf,
        /// What the machine said.
        #[source]
        source: io::Error,
    },
}

impl SpoolError {
    /// What to do about it.
    pub fn hint(&self) -> String {
        match self {
            Self::NotAbsolute { .. } => "give the whole path, from / on".to_owned(),
            Self::NoSpool { .. } => {
                "start `askrelay serve` once: it makes the spool; or name another with --spool"
                    .to_owned()
            }
            Self::NotADirectory { path } => {
                format!(
                    "move {} away, or name another spool with --spool",
                    path.display()
                )
            }
            Self::Symlink { path, .. } => {
                format!(
                    "name the real directory with --spool; `readlink -f {}` prints it",
                    path.display()
                )
            }
            Self::NotAFile { path } => format!("name a file instead of {}", path.display()),
            Self::ForeignOwner { .. } => "use one of your own".to_owned(),
            Self::WritableByOthers { path, .. } => format!("run `chmod go-w {}`", path.display()),
            Self::Io { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
                "check who owns the path, and its mode".to_owned()
            }
            Self::Io { source, .. } if source.kind() == io::ErrorKind::StorageFull => {
                "make room on that file system (bytes or inodes)".to_owned()
            }
            Self::Io { .. } => {
                "check the path, and that its file system is mounted and writable".to_owned()
            }
        }
    }
}

impl SpoolError {
    /// Whether a clean-up of another process removed a directory just when it was needed.
    pub fn is_race(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }

    /// Whether another process may just have been in the way, so that trying again in a moment is worth it.
    pub fn is_passing(&self) -> bool {
        use rustix::io::Errno;
        let Self::Io { source, .. } = self else {
            return false;
        };
        matches!(
            Errno::from_io_error(source),
            Some(Errno::PERM | Errno::BUSY | Errno::ACCESS)
        )
    }
}

/// Attaches what was tried, and where, to an error of the machine.
pub(crate) trait IoContext<T> {
    fn context(self, doing: &'static str, path: impl Into<PathBuf>) -> Result<T, SpoolError>;
}

impl<T> IoContext<T> for io::Result<T> {
    fn context(self, doing: &'static str, path: impl Into<PathBuf>) -> Result<T, SpoolError> {
        self.map_err(|source| SpoolError::Io {
            doing,
            path: path.into(),
            source,
        })
    }
}

/// How often a race with somebody's clean-up is taken up again. A program that does nothing but clean wins every other time
/// or so, and a try takes microseconds.
const RACES: u32 = 500;

/// Names of the fixed directories.
const SESSIONS: &str = "sessions";
const SERVING: &str = "serving";
const QUARANTINE: &str = "quarantine";
const GRANTS: &str = "grants";
const ANSWERED: &str = "answered";
const REQUESTS: &str = "requests";
const RESPONSES: &str = "responses";
/// Keeps `requests/` from being empty while it is served. No reader looks at a name that does not end in `.json`.
const KEEP: &str = ".askrelay-keep";

/// Whether changes that another machine or mount makes raise events here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Events {
    /// A local file system: every change does.
    Local,
    /// A network mount, or one that a program serves: only own changes do, so it is polled for good.
    Remote,
}

/// A spool that has been opened and checked.
#[derive(Debug, Clone)]
pub struct Spool {
    root: Arc<Dir>,
    events: Events,
}

impl Spool {
    /// Opens the spool at `root` after checking the whole way to it.
    pub fn open(root: &Path, missing: Missing) -> Result<Self, SpoolError> {
        let dir = root::open(root, missing)?;
        let events = events_on(&dir).context("look at the file system of", root)?;
        Ok(Self {
            root: Arc::new(dir),
            events,
        })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.root.path()
    }

    /// Whether the path leads here no more: the directory was removed, or another one has taken its place. Whoever comes by the path
    /// does not come here, and nothing can be made here any more.
    pub fn is_gone(&self) -> bool {
        let Ok(open) = self.root.stamp() else {
            return false;
        };
        match rustix::fs::stat(self.path()) {
            Ok(named) => !FileStamp::of(&named).same_file(&open),
            Err(error) => error == rustix::io::Errno::NOENT,
        }
    }

    /// Whether changes made elsewhere raise events.
    pub fn events(&self) -> Events {
        self.events
    }

    /// Directory of a session, for messages and logs.
    pub fn session_path(&self, session: &SessionId) -> PathBuf {
        self.path().join(SESSIONS).join(session.encoded())
    }

    /// Path of a request file, for messages and logs.
    pub fn request_path(&self, session: &SessionId, file_name: &str) -> PathBuf {
        self.session_path(session).join(REQUESTS).join(file_name)
    }

    /// Path of a response file, for messages and logs.
    pub fn response_path(&self, session: &SessionId, file_name: &str) -> PathBuf {
        self.session_path(session).join(RESPONSES).join(file_name)
    }
}

fn events_on(dir: &Dir) -> io::Result<Events> {
    // File systems whose changes may come from elsewhere: NFS, SMB, CIFS, FUSE (sshfs), 9p, Ceph, AFS, Coda.
    const REMOTE: [u64; 9] = [
        0x6969,
        0x517b,
        0xff53_4d42,
        0xfe53_4d42,
        0x6573_5546,
        0x0102_1997,
        0x00c3_6400,
        0x5346_414f,
        0x7375_7245,
    ];
    let kind = rustix::fs::fstatfs(dir)?.f_type;
    // The field is signed on some platforms; only its low 32 bits are the magic number.
    #[expect(clippy::cast_sign_loss, reason = "a magic number, compared bit by bit")]
    let kind = kind as u64 & 0xffff_ffff;
    Ok(if REMOTE.contains(&kind) {
        Events::Remote
    } else {
        Events::Local
    })
}
