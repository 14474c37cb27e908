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
        Self::beside(path, access, open(path, access)?)
    }

    /// Finds those that belong to the current file, which was opened a moment ago.
    fn beside(path: &Path, access: Access, current: Option<File>) -> Result<Self, AuditError> {
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
        if let Some(own) = own
            && let Some(at) = place_of(&rotated, own)
        {
            if is_at(path, own) {
                // A file under several names is read once.
                rotated.retain(|rotated| !is_at(&rotated.path, own));
            } else {
                // What was opened was rotated away before the others were listed, and so may have been what came behind it: that is
                // read another time, for here it would come before what it follows.
                rotated.truncate(at);
            }
        }
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

/// Where among those that were rotated away this file stands.
pub(super) fn place_of(rotated: &[Rotated], file: Identity) -> Option<usize> {
    rotated
        .iter()
        .position(|rotated| is_at(&rotated.path, file))
}

fn is_at(path: &Path, file: Identity) -> bool {
    look(path).is_ok_and(|facts| facts.is_some_and(|(found, _)| found == file))
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

    /// Two rotations between opening and listing: what came behind the file that was opened is not read before it.
    #[test]
    fn nothing_is_read_before_what_it_follows() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        let path = at("review.jsonl");
        fs::write(at("review.000001.jsonl"), "1").unwrap();
        fs::write(&path, "2").unwrap();
        let opened = open(&path, Access::Own).unwrap();
        for (name, next) in [("review.000002.jsonl", "3"), ("review.000003.jsonl", "4")] {
            fs::rename(&path, at(name)).unwrap();
            fs::write(&path, next).unwrap();
        }
        let read = |files: Files| -> String {
            files
                .each()
                .map(|file| io::read_to_string(file.unwrap().1).unwrap())
                .collect()
        };
        let files = Files::beside(&path, Access::Own, opened).unwrap();
        assert_eq!(read(files), "12");
        assert_eq!(read(Files::find(&path, Access::Own).unwrap()), "1234");
    }
}
