//! The review log: one JSON line for each thing that happened to an ask, so that later it can be told who allowed what.
//!
//! One writer ([`ReviewLog`]), one kind of record ([`Entry`]), one reader ([`read_entries`]). Several processes append to the
//! same file: each record is one `write` on a descriptor opened for appending, which a local filesystem never mixes with
//! another. A record that did get cut (a crash, a full disk) costs itself only: writers start a fresh line behind it, the
//! reader reports the piece and goes on.
//!
//! It does not rotate, does not sync to the disk, and does not look into commands for secrets: a command stands there as it
//! was asked, up to the width of a field.
//!
//! Invariants: directories 0700 and the file 0600 from the first byte; a link, or somebody else's file, is refused; no value
//! under a telling key is written; no written byte is a control or invisible character; what was cut says so, with the length
//! and digest of the whole; a record that did not get written is an error, never silence.

mod decider;
mod entry;
mod event;
mod family;
mod line;
mod lines;
mod log;
mod logged;
mod query;
mod reader;
mod scan;
mod stats;
mod story;
mod verify;

use std::io;
use std::path::PathBuf;

pub use self::log::{Options, ReviewLog};
pub use decider::{Decider, DeciderKind, Hop};
pub use entry::Entry;
pub use event::{Ending, Event};
pub use family::Access;
pub use logged::{Logged, Outcome};
pub use query::{DeciderFilter, Query};
pub use reader::{Entries, Record, read_entries};
pub use scan::{Found, Scan, Scanned, See};
pub use stats::{Stats, Tally};
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
    /// The log cannot be read.
    #[error("reading the review log {}", path.display())]
    Read {
        /// The log.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
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
