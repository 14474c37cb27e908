//! The review log, as those who write to it see it.

use std::path::Path;
use std::time::Duration;

use super::writer::Writer;
use super::{AuditError, Entry, Unwritten};

/// Which log it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Stream {
    /// What was asked and who decided.
    #[default]
    Review,
    /// What helps to find faults; nothing in it counts.
    Debug,
}

impl Stream {
    /// Its name in each line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Review => "review",
            Self::Debug => "debug",
        }
    }
}

/// How a review log is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Which log it is.
    pub stream: Stream,
    /// Most UTF-16 units of one text.
    pub field_max_width: usize,
    /// From which size on the file is rotated away; `None` for never.
    pub max_bytes: Option<u64>,
    /// From which age of its first line on it is; `None` for never.
    pub max_age: Option<Duration>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            stream: Stream::Review,
            field_max_width: 1000,
            max_bytes: Some(64 << 20),
            max_age: Some(Duration::from_hours(30 * 24)),
        }
    }
}

/// An open review log, or none where the operator switched it off.
///
/// What cannot be written is an error each time. Whether it then never stands in the log, or follows when that works again, is
/// the caller's choice. The log itself records that it failed and works again (`review_log.recovered`).
#[derive(Debug)]
pub struct ReviewLog {
    writer: Option<Writer>,
}

impl ReviewLog {
    /// Opens the log at `path` for appending; makes it, and the directories above it, where they are missing.
    pub fn open(path: &Path, options: Options) -> Result<Self, AuditError> {
        Ok(Self {
            writer: Some(Writer::open(path, options)?),
        })
    }

    /// A log that could not be opened at `at_ms`, in epoch milliseconds: each append tries to.
    pub fn unopened(path: &Path, options: Options, at_ms: i64, why: &AuditError) -> Self {
        Self {
            writer: Some(Writer::unopened(path, options, at_ms, why)),
        }
    }

    /// A log that takes every record and keeps none.
    pub fn disabled() -> Self {
        Self { writer: None }
    }

    /// Whether records are kept.
    pub fn is_enabled(&self) -> bool {
        self.writer.is_some()
    }

    /// Where the log lies.
    pub fn path(&self) -> Option<&Path> {
        self.writer.as_ref().map(Writer::path)
    }

    /// Why the last records could not be written, for as long as that is so: in one line, and bounded.
    pub fn failure(&self) -> Option<String> {
        self.writer.as_ref().and_then(Writer::failure)
    }

    /// Appends one record of what happened at `at_ms`, in epoch milliseconds.
    pub fn append(&self, at_ms: i64, entry: &Entry) -> Result<(), AuditError> {
        self.append_all(at_ms, std::slice::from_ref(entry))
    }

    /// Appends several records with one write: they stand next to each other, whoever else writes. After an error none of them
    /// stands in the log, nor will.
    pub fn append_all(&self, at_ms: i64, entries: &[Entry]) -> Result<(), AuditError> {
        self.append_with(at_ms, entries, Unwritten::Refused)
    }

    /// As [`ReviewLog::append_all`]; after an error the records are held in memory, as far as there is room, and go first with
    /// the next that can be written.
    pub fn append_or_hold(&self, at_ms: i64, entries: &[Entry]) -> Result<(), AuditError> {
        self.append_with(at_ms, entries, Unwritten::Held)
    }

    /// Appends records, with `unwritten` for those that cannot be written.
    pub fn append_with(
        &self,
        at_ms: i64,
        entries: &[Entry],
        unwritten: Unwritten,
    ) -> Result<(), AuditError> {
        match &self.writer {
            Some(writer) if !entries.is_empty() => writer.append(at_ms, entries, unwritten),
            Some(_) | None => Ok(()),
        }
    }

    /// As [`ReviewLog::append_with`], and returns when the records are on the disk, with the BLAKE3 of the line of each, as
    /// hexadecimal digits; nothing where no log is kept. [`AuditError::Sync`] says that they are written and may not survive a loss of
    /// power; refused ones are taken out again then, if nobody wrote behind them.
    pub fn append_durably(
        &self,
        at_ms: i64,
        entries: &[Entry],
        unwritten: Unwritten,
    ) -> Result<Vec<String>, AuditError> {
        match &self.writer {
            Some(writer) if !entries.is_empty() => {
                let hashes = writer.append_durably(at_ms, entries, unwritten)?;
                Ok(hashes
                    .iter()
                    .map(|hash| hash.to_hex().to_string())
                    .collect())
            }
            Some(_) | None => Ok(Vec::new()),
        }
    }

    /// Tries again where the last records could not be written: writes what is held, and that the log works again.
    pub fn catch_up(&self, at_ms: i64) -> Result<(), AuditError> {
        self.writer
            .as_ref()
            .map_or(Ok(()), |writer| writer.catch_up(at_ms))
    }
}

#[cfg(test)]
mod tests;
