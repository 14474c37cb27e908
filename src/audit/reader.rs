//! Reading a review log back: line by line, past whatever is no record.
//!
//! A piece that a crash left is reported and skipped. Where a good record was glued to such a piece, by a writer that did not
//! know of it, both are given out.

use std::fs::File;
use std::path::{Path, PathBuf};

use memchr::memmem;
use rustix::fs::OFlags;
use serde_json::{Map, Value};

use super::lines::Lines;
use super::place::open_checked;
use super::{AuditError, line};

/// How many places within a broken line are tried as the start of a record.
const MAX_STARTS: usize = 8;

/// What one line of a log holds.
#[derive(Debug, Clone, PartialEq)]
pub enum Record {
    /// A record.
    Entry(Map<String, Value>),
    /// A piece that is no record: what is left of a write that was cut off.
    Torn {
        /// Number of the line, from 1.
        line: u64,
        /// Length of the piece in bytes.
        bytes: u64,
    },
}

/// The records of a log, in order. After an error there is nothing more.
#[derive(Debug)]
pub struct Entries {
    lines: Option<Lines<File>>,
    path: PathBuf,
    /// A record that was found behind a torn piece.
    glued: Option<Map<String, Value>>,
}

/// Reads the log at `path`, as far as it goes now.
pub fn read_entries(path: &Path) -> Result<Entries, AuditError> {
    Ok(Entries {
        lines: Some(Lines::new(open_checked(path, OFlags::RDONLY)?)),
        path: path.to_owned(),
        glued: None,
    })
}

impl Iterator for Entries {
    type Item = Result<Record, AuditError>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(entry) = self.glued.take() {
            return Some(Ok(Record::Entry(entry)));
        }
        loop {
            let line = match self.lines.as_mut()?.next_or_rest() {
                Ok(line) => line?,
                Err(source) => {
                    self.lines = None;
                    return Some(Err(AuditError::Read {
                        path: self.path.clone(),
                        source,
                    }));
                }
            };
            let (number, mut torn) = (line.number, line.length);
            if let Some(bytes) = line.whole() {
                if bytes.trim_ascii().is_empty() {
                    continue;
                }
                if let Ok(entry) = serde_json::from_slice(bytes) {
                    return Some(Ok(Record::Entry(entry)));
                }
                if let Some(start) = glued(bytes) {
                    torn = start as u64;
                    self.glued = serde_json::from_slice(bytes.get(start..)?).ok();
                }
            }
            return Some(Ok(Record::Torn {
                line: number,
                bytes: torn,
            }));
        }
    }
}

/// Where a whole record starts at the end of a broken line.
pub(super) fn glued(bytes: &[u8]) -> Option<usize> {
    memmem::rfind_iter(bytes, line::LINE_START)
        .take(MAX_STARTS)
        .find(|start| {
            let rest = bytes.get(*start..).unwrap_or_default();
            serde_json::from_slice::<Map<String, Value>>(rest).is_ok()
        })
}
