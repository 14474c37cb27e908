//! The files of one log, in order: those that were rotated away, oldest first, then the one that is written.
//!
//! The names are the business of `family`; here they are opened, in an order in which nothing is missed that is rotated away meanwhile.

#![expect(
    clippy::disallowed_methods,
    reason = "ring 1: finds and opens the files of a log"
)]

use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use super::AuditError;
use super::family::{self, Rotated};
use super::place::open_checked;

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
pub(super) struct Files {
    path: PathBuf,
    access: Access,
    /// Those that were rotated away, oldest first.
    pub(super) rotated: Vec<Rotated>,
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

impl Files {
    /// Finds the files of the log at `path`. There may be none.
    pub(super) fn find(path: &Path, access: Access) -> Result<Self, AuditError> {
        let current = open(path, access)?;
        let own = match &current {
            Some(file) => Some(Identity::of(&file.metadata().map_err(failed(path))?)),
            None => None,
        };
        let mut rotated = match family::list(path) {
            Ok(rotated) => rotated,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            // A file that was named may lie where nothing can be listed.
            Err(_) if current.is_some() && access == Access::Named => Vec::new(),
            Err(error) => return Err(failed(path)(error)),
        };
        // What was opened may have been rotated away before the others were listed.
        rotated.retain(|rotated| {
            let found = look(&rotated.path).ok().flatten();
            found.map(|(identity, _)| identity) != own || own.is_none()
        });
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
    pub(super) fn each(self) -> impl Iterator<Item = Result<(PathBuf, File), AuditError>> {
        let access = self.access;
        let rotated = self.rotated.into_iter().map(move |rotated| {
            let file = open_rotated(&rotated.path, access)?;
            Ok((rotated.path, file))
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

#[cfg(test)]
mod tests {
    use super::*;

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
        let files = Files::find(&at("review.jsonl"), Access::Own).unwrap();
        let names: Vec<_> = files
            .each()
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
            Files::find(&at("none/at/all.jsonl"), Access::Own)
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
        let files = Files::find(&at("review.jsonl"), Access::Own).unwrap();
        assert_eq!(files.each().count(), 1);
    }
}
