//! The review log: one JSON line for each thing that happened to an ask, so that later it can be told who allowed what.
//!
//! One writer ([`ReviewLog`]), one kind of record ([`Entry`]), one reader of a file ([`read_entries`]). Several processes append to the
//! same file: they take turns by a lock on it, and each takes the hash of the last line into its own, so that a line that was
//! edited, removed or moved shows. When the file is large or old it is renamed away, and the chain goes on in a new one.
//!
//! Reading it back has rooms of its own: all its files as they grow ([`Scan`]), the check of its chain ([`verify()`]), the story of one
//! ask ([`Story`]), its numbers ([`Stats`]), and what persons approved ([`Approvals`]). They take no lock and change nothing.
//!
//! It does not look for secrets that no name announces, see [`crate::presentation::secrets`]. It syncs to the disk only what it is
//! told to.
//!
//! Invariants: directories 0700 and the file 0600 from the first byte; a link, or somebody else's file, is refused; no value
//! under a telling key, and none behind a telling name in a command line, is written; no written byte is a control or invisible
//! character; what was cut says so, with the length and digest of the whole; a record that did not get written is an error, never silence; nobody is waited for longer than a
//! quarter of a second; no line that was written is changed or removed.

mod approvals;
mod chain;
mod current;
mod decider;
mod entry;
mod event;
mod family;
mod files;
mod granted;
mod held;
mod line;
mod lines;
mod lock;
mod log;
mod logged;
mod place;
mod query;
mod reader;
mod recall;
mod rotation;
mod scan;
mod stats;
mod story;
mod verify;
mod writer;

use std::io;
use std::path::PathBuf;

pub use self::log::{Options, ReviewLog, Stream};
pub use approvals::{Approvals, Approved, Unknown};
pub use decider::{Decider, DeciderKind, Hop};
pub use entry::Entry;
pub use event::{Ending, Event};
pub use files::Access;
pub use granted::{Borne, Claim, GrantedLog, NotBorne, granted};
pub use held::Unwritten;
pub use logged::{Logged, Outcome};
pub use query::{DeciderFilter, Query};
pub use reader::{Entries, Record, read_entries};
pub use recall::{Recall, Recalled, recall};
pub use scan::{Found, Scan, Scanned, See};
pub use stats::{LinkTally, Stats, Tally};
pub use story::{Node, Part, Role, Story, Telling};
pub use verify::{Break, Checked, Fault, Note, NoteKind, Spot, verify};

/// What went wrong with the review log.
#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    /// The directory above the log cannot be made.
    #[error("creating the directory {}", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The log cannot be opened.
    #[error("opening the review log {}", path.display())]
    Open {
        /// The log.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// What lies at the log's path is not ours to use.
    #[error("refusing the review log {}: {reason}", path.display())]
    Refused {
        /// The log.
        path: PathBuf,
        /// What is wrong with it.
        reason: Refusal,
    },
    /// A record did not get into the log, or not whole.
    #[error("writing to the review log {}", path.display())]
    Write {
        /// The log.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A record is in the log, and may not survive a loss of power.
    #[error("syncing the review log {}", path.display())]
    Sync {
        /// The log.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The log cannot be read.
    #[error("reading the review log {}", path.display())]
    Read {
        /// The log.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Another process keeps the lock of the log.
    #[error("the review log {} is locked by another process", path.display())]
    Busy {
        /// The log.
        path: PathBuf,
    },
    /// Another file lies at the path of the log whenever it is looked at.
    #[error("the review log {} is replaced again and again", path.display())]
    Restless {
        /// The log.
        path: PathBuf,
    },
}

impl AuditError {
    /// What to do about it.
    pub fn hint(&self) -> String {
        match self {
            Self::Directory { path, .. } => format!(
                "make {} a directory that you may write, or name another log with --log FILE",
                path.display()
            ),
            Self::Open { .. } => {
                "make the file readable and writable for you, or name another log with --log FILE"
                    .to_owned()
            }
            Self::Refused { path, .. } => format!(
                "the log must be a file of your own: move {} away, or name another log with --log FILE",
                path.display()
            ),
            Self::Write { source, .. } | Self::Sync { source, .. }
                if source.kind() == io::ErrorKind::StorageFull =>
            {
                "make room on its file system; what is held is written then".to_owned()
            }
            Self::Write { .. } | Self::Sync { .. } => {
                "look at the file system of the log; what is held is written as soon as that works"
                    .to_owned()
            }
            Self::Read { path, .. } => format!(
                "a line can only be chained to one that can be read: move {} away if it is no review log",
                path.display()
            ),
            Self::Busy { path } => format!(
                "no writer keeps the lock for longer than a write: `fuser {}` names who has the file open",
                path.display()
            ),
            Self::Restless { path } => format!(
                "find out which program replaces {}, or let the log grow (reviewLogRotation)",
                path.display()
            ),
        }
    }

    /// Whether it stays as it is until somebody does something about the file.
    fn is_lasting(&self) -> bool {
        match self {
            Self::Refused { .. } => true,
            Self::Open { source, .. } => matches!(
                source.kind(),
                io::ErrorKind::PermissionDenied | io::ErrorKind::NotFound
            ),
            Self::Directory { .. }
            | Self::Write { .. }
            | Self::Sync { .. }
            | Self::Read { .. }
            | Self::Busy { .. }
            | Self::Restless { .. } => false,
        }
    }
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

/// Why a file is not taken as the review log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// It is a symbolic link.
    #[error("it is a symbolic link")]
    SymbolicLink,
    /// It is a directory, a pipe, a device or a socket.
    #[error("it is not a regular file")]
    NotRegular,
    /// Somebody else owns it.
    #[error("it belongs to the user with id {0}")]
    ForeignOwner(u32),
}
