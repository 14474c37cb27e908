//! The file of a log that is open for writing: whether it is still the one that the path leads to, what is known of its end, and
//! how lines get into it and onto the disk.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use blake3::Hash;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::{AuditError, chain, place};

/// The file that is open, and what is known of it.
#[derive(Debug)]
pub(super) struct Open {
    /// It, shared with those who sync it.
    pub(super) log: Arc<LogFile>,
    /// The last line that we saw, where it stood.
    pub(super) known: Option<Known>,
    /// The time of its first line, once it was looked for; where that tells none, it is never old.
    pub(super) first_at_ms: Option<i64>,
}

impl Open {
    /// Opens the log at `path`; makes it where it is missing.
    pub(super) fn at(path: &Path) -> Result<Self, AuditError> {
        Ok(Self {
            log: Arc::new(LogFile::open(path)?),
            known: None,
            first_at_ms: None,
        })
    }
}

/// A file of a log.
#[derive(Debug)]
pub(super) struct LogFile {
    /// It.
    pub(super) file: File,
    /// Its device and inode.
    id: (u64, u64),
    /// Whether the entry in its directory is known to be on the disk.
    placed: AtomicBool,
}

impl LogFile {
    fn open(path: &Path) -> Result<Self, AuditError> {
        let file = place::open_to_append(path)?;
        let facts = rustix::fs::fstat(&file).map_err(|error| AuditError::Open {
            path: path.to_owned(),
            source: error.into(),
        })?;
        Ok(Self {
            file,
            id: (facts.st_dev, facts.st_ino),
            placed: AtomicBool::new(false),
        })
    }

    /// Its length, if the path leads to it.
    pub(super) fn length_at(&self, path: &Path) -> io::Result<Option<u64>> {
        let there = match rustix::fs::lstat(path) {
            Ok(there) => there,
            Err(Errno::NOENT | Errno::NOTDIR) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        // While it is open, no other file can get its inode.
        let same = self.id == (there.st_dev, there.st_ino);
        Ok(same.then(|| u64::try_from(there.st_size).unwrap_or(0)))
    }

    /// Whether it lies at this path.
    pub(super) fn is_at(&self, path: &Path) -> bool {
        self.length_at(path).is_ok_and(|length| length.is_some())
    }

    /// Writes lines behind `length` bytes. The kernel takes them in one piece, but on a full disk or another odd day. What it
    /// took then is taken back, if nobody else can have written meanwhile; else the next writer finds a piece of a line.
    pub(super) fn write(&self, lines: &[u8], length: u64, excludes: bool) -> io::Result<()> {
        let mut file = &self.file;
        let mut rest = lines;
        while !rest.is_empty() {
            let written = match file.write(rest) {
                Ok(0) => Err(io::ErrorKind::WriteZero.into()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                other => other,
            };
            match written {
                Ok(count) => rest = rest.get(count..).unwrap_or_default(),
                Err(error) => {
                    let begun = length + (lines.len() - rest.len()) as u64;
                    if begun > length
                        && excludes
                        && file.metadata().is_ok_and(|facts| facts.len() == begun)
                    {
                        let _taken_back = file.set_len(length);
                    }
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Returns when everything that was written is on the disk, and found there.
    pub(super) fn sync(&self, path: &Path) -> io::Result<()> {
        rustix::fs::fdatasync(&self.file)?;
        if !self.placed.load(Ordering::Relaxed) {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let directory = rustix::fs::open(place::parent(path), flags, Mode::empty())?;
            rustix::fs::fsync(directory)?;
            self.placed.store(true, Ordering::Relaxed);
        }
        Ok(())
    }
}

/// A line: its bytes are those from `start` to `end`, and a newline follows.
#[derive(Debug, Clone, Copy)]
pub(super) struct Known {
    /// Where it begins.
    pub(super) start: u64,
    /// Where its newline stands.
    pub(super) end: u64,
    /// Hash of it.
    pub(super) hash: Hash,
}

impl Known {
    /// Whether the line still stands in the file.
    pub(super) fn is_in(self, file: &File) -> io::Result<bool> {
        if file.metadata()?.len() <= self.end {
            return Ok(false);
        }
        let mut byte = [0];
        file.read_exact_at(&mut byte, self.end)?;
        Ok(byte == *b"\n" && chain::hash_of(file, self.start, self.end)? == self.hash)
    }
}
