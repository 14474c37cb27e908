//! How a log goes on in a new file: the old one is renamed away, and the chain goes on from its last line.
//!
//! Both is done under the lock. A crash in between leaves no current file, or an empty one; whoever writes next sees by that
//! that the chain goes on from the file that was rotated away last.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use rustix::fs::{CWD, OFlags, RenameFlags};
use rustix::io::Errno;

use super::chain::{self, Link, Tail};
use super::current::LogFile;
use super::{AuditError, describe, family, line, place};

/// The file that was rotated away last, and how the chain goes on from it.
pub(super) struct Previous {
    /// Its name.
    pub(super) name: String,
    /// Hash of its last line.
    pub(super) hash: Link,
    /// Why it does not go on from there.
    pub(super) unreadable: Option<String>,
}

impl Previous {
    /// The one of the log at `path`, if any was ever rotated away.
    pub(super) fn of(path: &Path) -> Result<Option<Self>, AuditError> {
        let newest = family::newest(path).map_err(|source| AuditError::Read {
            path: path.to_owned(),
            source,
        })?;
        let Some(newest) = newest else {
            return Ok(None);
        };
        let file = match place::open_checked(&newest.path, OFlags::RDONLY) {
            Ok(file) => file,
            // Somebody put it there, or took it from us. The log goes on, and says so.
            Err(error) if error.is_lasting() => {
                return Ok(Some(Self {
                    name: newest.name(),
                    hash: None,
                    unreadable: Some(describe(&error)),
                }));
            }
            Err(error) => return Err(error),
        };
        let tail = file
            .metadata()
            .and_then(|facts| chain::tail(&file, facts.len()))
            .map_err(|source| AuditError::Read {
                path: newest.path.clone(),
                source,
            })?;
        Ok(Some(Self {
            name: newest.name(),
            hash: match tail {
                Tail::Nothing => None,
                Tail::Line { hash, .. } | Tail::Torn { hash, .. } => Some(hash),
            },
            unreadable: None,
        }))
    }
}

/// Whether the file lies beside the log under the name of one that was rotated away.
pub(super) fn is_kept(path: &Path, log: &LogFile) -> io::Result<bool> {
    let rotated = family::list(path)?;
    // It went away a moment ago: it is one of the last.
    Ok(rotated.iter().rev().any(|rotated| log.is_at(&rotated.path)))
}

/// Renames the log to the next free name of its family.
///
/// Its lines are brought to the disk before. The file that comes next is synced by itself: after a loss of power it could else
/// stand there, chained to a line that is nowhere.
pub(super) fn rotate(path: &Path, file: &File) -> io::Result<()> {
    let to = family::next(path)?.path;
    rustix::fs::fdatasync(file)?;
    match rustix::fs::renameat_with(CWD, path, CWD, &to, RenameFlags::NOREPLACE) {
        // A file system that cannot promise it. All writers are kept out by the lock.
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => match rustix::fs::lstat(&to) {
            Err(Errno::NOENT) => rustix::fs::rename(path, &to)?,
            Ok(_) => return Err(io::ErrorKind::AlreadyExists.into()),
            Err(error) => return Err(error.into()),
        },
        other => other?,
    }
    #[cfg(debug_assertions)]
    crate::spool::fault::at("log/renamed");
    Ok(())
}

/// The time of the first line of a log.
pub(super) fn first_time(file: &File) -> io::Result<Option<i64>> {
    let mut start = [0; 64];
    let read = file.read_at(&mut start, 0)?;
    Ok(line::time_of(start.get(..read).unwrap_or_default()))
}

#[cfg(test)]
#[expect(
    clippy::disallowed_methods,
    reason = "the test lays out a log and looks at where it is"
)]
mod tests {
    use super::*;

    /// A pipe cannot be synced, in the place of a disk that fails.
    #[test]
    fn a_log_that_does_not_get_to_the_disk_is_not_rotated_away() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("review.jsonl");
        std::fs::write(&path, "x\n").unwrap();
        let (_reader, writer) = io::pipe().unwrap();
        let pipe = File::from(std::os::fd::OwnedFd::from(writer));
        assert!(rotate(&path, &pipe).is_err());
        assert!(path.exists() && family::newest(&path).unwrap().is_none());
        rotate(&path, &File::open(&path).unwrap()).unwrap();
        assert!(!path.exists() && family::newest(&path).unwrap().is_some());
    }
}
