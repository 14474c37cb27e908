//! The files of one log, in order: those that were rotated away, oldest first, then the one that is written.
//!
//! Beside `review.jsonl` the rotated files are `review.000001.jsonl` and so on; without an extension `review.000001`. What else lies
//! there is none of the log's.

#![expect(
    clippy::disallowed_methods,
    reason = "ring 1: finds and opens the files of a log"
)]

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use super::AuditError;
use super::log::open_checked;

/// Fewest digits of a rotated file's number.
const DIGITS: usize = 6;

/// Whose files are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// The log of this user, by the same rules by which it is written: no links, nobody else's file.
    Own,
    /// Whatever a person has named: it may be a copy, a link or a pipe.
    Named,
}

/// The files of one log.
#[derive(Debug)]
pub(super) struct Family {
    path: PathBuf,
    access: Access,
    /// Numbers of those that were rotated away, ascending, with their paths.
    pub(super) rotated: Vec<(u64, PathBuf)>,
    /// The one that is written, opened before the others were looked for: what is rotated away meanwhile is not missed.
    pub(super) current: Option<File>,
}

/// Which file a name leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Identity {
    device: u64,
    inode: u64,
}

impl Identity {
    pub(super) fn of(facts: &Metadata) -> Self {
        Self {
            device: facts.dev(),
            inode: facts.ino(),
        }
    }
}

impl Family {
    /// Finds the files of the log at `path`. There may be none.
    pub(super) fn find(path: &Path, access: Access) -> Result<Self, AuditError> {
        let current = open(path, access)?;
        let own = match &current {
            Some(file) => Some(Identity::of(&file.metadata().map_err(failed(path))?)),
            None => None,
        };
        let mut rotated = Vec::new();
        // A pipe has no neighbours.
        let directory = match path.parent() {
            Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
            Some(parent) => parent,
            None => path,
        };
        let entries = match fs::read_dir(directory) {
            Ok(entries) => Some(entries),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            // A file that was named may lie where nothing can be listed.
            Err(_) if current.is_some() && access == Access::Named => None,
            Err(error) => return Err(failed(path)(error)),
        };
        for entry in entries.into_iter().flatten() {
            let entry = entry.map_err(failed(path))?;
            let Some(number) = number_of(path, &entry.file_name()) else {
                continue;
            };
            let is_current = || {
                let facts = entry.metadata().ok()?;
                Some(Some(Identity::of(&facts)) == own)
            };
            if is_current() != Some(true) {
                rotated.push((number, entry.path()));
            }
        }
        rotated.sort();
        Ok(Self {
            path: path.to_owned(),
            access,
            rotated,
            current,
        })
    }

    /// Whether there is no file at all.
    pub(super) fn is_empty(&self) -> bool {
        self.rotated.is_empty() && self.current.is_none()
    }

    /// The files in order, each with its path. One that was rotated away is opened when its turn comes.
    pub(super) fn files(self) -> impl Iterator<Item = Result<(PathBuf, File), AuditError>> {
        let access = self.access;
        let rotated = self.rotated.into_iter().map(move |(_, path)| {
            let file = open_rotated(&path, access)?;
            Ok((path, file))
        });
        let path = self.path;
        rotated.chain(
            self.current
                .into_iter()
                .map(move |file| Ok((path.clone(), file))),
        )
    }
}

/// Opens a file that was rotated away. They are never removed by us: one that is not there any more is an error.
pub(super) fn open_rotated(path: &Path, access: Access) -> Result<File, AuditError> {
    open(path, access)?.ok_or_else(|| failed(path)(io::ErrorKind::NotFound.into()))
}

/// Opens a file of a log; `None` where there is none.
pub(super) fn open(path: &Path, access: Access) -> Result<Option<File>, AuditError> {
    let opened = match access {
        Access::Own => open_checked(path, OFlags::RDONLY),
        Access::Named => File::open(path).map_err(|source| AuditError::Open {
            path: path.to_owned(),
            source,
        }),
    };
    match opened {
        Ok(file) => Ok(Some(file)),
        Err(AuditError::Open { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// The file that a path leads to now, and how long it is.
pub(super) fn look(path: &Path) -> io::Result<Option<(Identity, u64)>> {
    match fs::metadata(path) {
        Ok(facts) => Ok(Some((Identity::of(&facts), facts.len()))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

pub(super) fn failed(path: &Path) -> impl Fn(io::Error) -> AuditError {
    move |source| AuditError::Read {
        path: path.to_owned(),
        source,
    }
}

/// The number of a rotated file of the log at `path`; `None` where `name` is none.
fn number_of(path: &Path, name: &OsStr) -> Option<u64> {
    let mut before = OsString::from(path.file_stem()?);
    before.push(".");
    let mut digits = name.as_bytes().strip_prefix(before.as_bytes())?;
    if let Some(extension) = path.extension() {
        digits = digits
            .strip_suffix(extension.as_bytes())?
            .strip_suffix(b".")?;
    }
    let is_number = digits.len() >= DIGITS && digits.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(digits)
        .ok()
        .filter(|_| is_number)?
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rotated_files_are_known_by_their_names() {
        let number = |path: &str, name: &str| number_of(Path::new(path), OsStr::new(name));
        assert_eq!(number("a/review.jsonl", "review.000001.jsonl"), Some(1));
        assert_eq!(
            number("a/review.jsonl", "review.1234567.jsonl"),
            Some(1_234_567)
        );
        assert_eq!(number("a/review", "review.000010"), Some(10));
        assert_eq!(number("a/x.y.jsonl", "x.y.000002.jsonl"), Some(2));
        for name in [
            "review.jsonl",
            "review.00001.jsonl",
            "review.00000x.jsonl",
            "review.+00001.jsonl",
            "review.000001.json",
            "review.000001.jsonl.gz",
            "other.000001.jsonl",
            "review.99999999999999999999.jsonl",
            "review.000001",
        ] {
            assert_eq!(number("a/review.jsonl", name), None, "{name}");
        }
    }

    #[test]
    fn files_come_in_the_order_in_which_they_were_written() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        for name in [
            "review.000010.jsonl",
            "review.000009.jsonl",
            "review.1000000.jsonl",
            "review.jsonl",
            "review.jsonl.bak",
        ] {
            fs::write(at(name), name).unwrap();
        }
        let family = Family::find(&at("review.jsonl"), Access::Own).unwrap();
        let names: Vec<_> = family
            .files()
            .map(|file| file.unwrap().0.file_name().unwrap().to_owned())
            .collect();
        assert_eq!(
            names,
            [
                "review.000009.jsonl",
                "review.000010.jsonl",
                "review.1000000.jsonl",
                "review.jsonl"
            ]
        );
        assert!(
            Family::find(&at("none/at/all.jsonl"), Access::Own)
                .unwrap()
                .is_empty()
        );
    }

    /// What `PATH` led to when it was opened, and was rotated away before the directory was listed, is read once.
    #[test]
    fn a_file_under_two_names_is_read_once() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        fs::write(at("review.jsonl"), "x").unwrap();
        fs::hard_link(at("review.jsonl"), at("review.000001.jsonl")).unwrap();
        let family = Family::find(&at("review.jsonl"), Access::Own).unwrap();
        assert_eq!(family.files().count(), 1);
    }
}
