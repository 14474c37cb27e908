//! Reading a review log back: line by line, past whatever is no record.
//!
//! A piece that a crash left is reported and skipped. Where a good record was glued to such a piece, by a writer that did not
//! know of it, both are given out.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use serde_json::{Map, Value};

use super::place::open_checked;
use super::{AuditError, line};

/// Longest line that is taken into memory, in bytes. What we write is far shorter.
const MAX_LINE: usize = 16 << 20;

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
    input: Option<BufReader<File>>,
    path: PathBuf,
    line: u64,
    /// A record that was found behind a torn piece.
    glued: Option<Map<String, Value>>,
}

/// Reads the log at `path`, as far as it goes now.
pub fn read_entries(path: &Path) -> Result<Entries, AuditError> {
    Ok(Entries {
        input: Some(BufReader::new(open_checked(path, OFlags::RDONLY)?)),
        path: path.to_owned(),
        line: 0,
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
            let (bytes, length) = match read_line(self.input.as_mut()?) {
                Ok(Some(line)) => line,
                Ok(None) => return None,
                Err(source) => {
                    self.input = None;
                    return Some(Err(AuditError::Read {
                        path: self.path.clone(),
                        source,
                    }));
                }
            };
            self.line += 1;
            if bytes.trim_ascii().is_empty() && length <= MAX_LINE as u64 {
                continue;
            }
            if let Ok(entry) = serde_json::from_slice(&bytes) {
                return Some(Ok(Record::Entry(entry)));
            }
            let mut torn = length;
            if let Some((start, entry)) = glued(&bytes) {
                torn = start as u64;
                self.glued = Some(entry);
            }
            return Some(Ok(Record::Torn {
                line: self.line,
                bytes: torn,
            }));
        }
    }
}

/// A whole record at the end of a broken line, and where it starts.
fn glued(bytes: &[u8]) -> Option<(usize, Map<String, Value>)> {
    bytes
        .windows(line::LINE_START.len())
        .enumerate()
        .rev()
        .filter(|(_, window)| *window == line::LINE_START)
        .take(MAX_STARTS)
        .find_map(|(start, _)| {
            let entry = serde_json::from_slice(bytes.get(start..)?).ok()?;
            Some((start, entry))
        })
}

/// The next line without its newline, and its length; of a longer line than [`MAX_LINE`] only the length. `None` at the end.
fn read_line(input: &mut BufReader<File>) -> io::Result<Option<(Vec<u8>, u64)>> {
    let mut line = Vec::new();
    let mut length = 0_u64;
    let mut started = false;
    loop {
        let chunk = match input.fill_buf() {
            Ok(chunk) => chunk,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        if chunk.is_empty() {
            return Ok(started.then_some((line, length)));
        }
        started = true;
        let end = chunk.iter().position(|byte| *byte == b'\n');
        let piece = chunk.get(..end.unwrap_or(chunk.len())).unwrap_or_default();
        length += piece.len() as u64;
        if length > MAX_LINE as u64 {
            line = Vec::new();
        } else {
            line.extend_from_slice(piece);
        }
        let taken = piece.len() + usize::from(end.is_some());
        input.consume(taken);
        if end.is_some() {
            return Ok(Some((line, length)));
        }
    }
}
