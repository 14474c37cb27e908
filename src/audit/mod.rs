//! The review log: one JSON line for each thing that happened to an ask.

mod entry;
mod log;
mod reader;

use std::io;
use std::path::PathBuf;

pub use self::log::{Options, ReviewLog};
pub use entry::Entry;
pub use reader::{Entries, Record, read_entries};

/// What went wrong with the review log.
#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    /// A directory above the log cannot be made.
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
    /// What lies at the log's path is not ours to write to.
    #[error("refusing the review log {}: {reason}", path.display())]
    Refused {
        /// The log.
        path: PathBuf,
        /// What is wrong with it.
        reason: Refusal,
    },
    /// A record did not get into the log.
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
