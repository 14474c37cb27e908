//! Files of other programs that the operator lets us edit: the configurations of agents.
//!
//! They may be links (people keep them in a repository): then the file that the link leads to is written, and the link stays. A
//! file is replaced whole, with its mode and its owner, and only while it is what was read.
//!
//! # Invariants
//!
//! * Whoever reads the file meanwhile finds the old bytes or the new ones.
//! * What somebody else wrote in between is not lost: nothing is written then.

#![expect(
    clippy::disallowed_methods,
    reason = "ring 1: reads and replaces files of other programs"
)]

use std::fs::{self, File, Permissions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{Gid, Uid};
use rustix::io::Errno;

use super::subject::open_without_waiting;

/// Mode of a file that was not there.
const NEW_MODE: u32 = 0o600;

/// A file of another program cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum ForeignError {
    /// A directory, a pipe, a device, a socket.
    #[error("{path:?} is not a regular file")]
    NotAFile {
        /// The path.
        path: PathBuf,
    },
    /// More than is read.
    #[error("{path:?} is larger than {limit} bytes")]
    TooLarge {
        /// The path.
        path: PathBuf,
        /// How much is read.
        limit: usize,
    },
    /// A link that leads nowhere.
    #[error("{path:?} is a symbolic link that leads nowhere")]
    Dangling {
        /// The link.
        path: PathBuf,
    },
    /// Its mode says that it is not to be written.
    #[error("{path:?} is read-only (mode {mode:04o})")]
    ReadOnly {
        /// The path.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// Somebody else owns it, and could not be given it back.
    #[error("{path:?} belongs to user {owner}, not to this one")]
    ForeignOwner {
        /// The path.
        path: PathBuf,
        /// User id of the owner.
        owner: u32,
    },
    /// Somebody wrote it since it was read.
    #[error("{path:?} was changed meanwhile, and was not written")]
    Changed {
        /// The path.
        path: PathBuf,
    },
    /// The machine refused.
    #[error("cannot {doing} {path:?}")]
    Io {
        /// What was tried.
        doing: &'static str,
        /// On which path.
        path: PathBuf,
        /// What the machine said.
        #[source]
        source: io::Error,
    },
}

impl ForeignError {
    /// What to do about it.
    pub fn hint(&self) -> String {
        match self {
            Self::NotAFile { path } => {
                format!("move {} away; a file has to stand there", path.display())
            }
            Self::TooLarge { .. } => {
                "no configuration is that large: look at what it is".to_owned()
            }
            Self::Dangling { .. } => {
                "make the file that it leads to (`readlink` names it), or remove the link".to_owned()
            }
            Self::ReadOnly { .. } => {
                "give yourself leave to write it (`chmod u+w`); where a tool keeps it read-only, add the entry by that tool"
                    .to_owned()
            }
            Self::ForeignOwner { .. } => {
                "have its owner give it to you (`chown`), or add the entry; `--dry-run` shows it".to_owned()
            }
            Self::Changed { .. } => "look at it, and repeat the command".to_owned(),
            Self::Io { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
                "check who owns the file and its directory, and their modes".to_owned()
            }
            Self::Io { source, .. } if source.kind() == io::ErrorKind::StorageFull => {
                "make room on that file system (bytes or inodes)".to_owned()
            }
            Self::Io { .. } => {
                "check the path, and that its file system is mounted and writable".to_owned()
            }
        }
    }
}

trait Context<T> {
    fn context(self, doing: &'static str, path: &Path) -> Result<T, ForeignError>;
}

impl<T> Context<T> for io::Result<T> {
    fn context(self, doing: &'static str, path: &Path) -> Result<T, ForeignError> {
        self.map_err(|source| ForeignError::Io {
            doing,
            path: path.to_owned(),
            source,
        })
    }
}

/// A file as it was read.
#[derive(Debug)]
pub struct ForeignFile {
    path: PathBuf,
    target: PathBuf,
    limit: usize,
    content: Option<Content>,
}

#[derive(Debug)]
struct Content {
    bytes: Vec<u8>,
    mode: u32,
    uid: u32,
    gid: u32,
    stamp: [u64; 4],
}

impl ForeignFile {
    /// Reads a file of at most `limit` bytes, which need not be there.
    pub fn read(path: &Path, limit: usize) -> Result<Self, ForeignError> {
        let target = match fs::symlink_metadata(path) {
            Ok(facts) if facts.is_symlink() => match path.canonicalize() {
                Ok(target) => target,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    return Err(ForeignError::Dangling {
                        path: path.to_owned(),
                    });
                }
                Err(error) => return Err(error).context("follow", path),
            },
            Ok(_) => path.to_owned(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => path.to_owned(),
            Err(error) => return Err(error).context("look at", path),
        };
        let content = Self::content(path, &target, limit)?;
        Ok(Self {
            path: path.to_owned(),
            target,
            limit,
            content,
        })
    }

    fn content(path: &Path, target: &Path, limit: usize) -> Result<Option<Content>, ForeignError> {
        let path = path.to_owned();
        let file = match open_without_waiting(target) {
            Ok(Some(file)) => file,
            Ok(None) => return Ok(None),
            // A socket cannot be opened at all.
            Err(Errno::NXIO) => return Err(ForeignError::NotAFile { path }),
            Err(error) => return Err(io::Error::from(error)).context("open", target),
        };
        let facts = file.metadata().context("look at", target)?;
        if !facts.is_file() {
            return Err(ForeignError::NotAFile { path });
        }
        let mut bytes = Vec::new();
        let _count = file
            .take(limit as u64 + 1)
            .read_to_end(&mut bytes)
            .context("read", target)?;
        if bytes.len() > limit {
            return Err(ForeignError::TooLarge { path, limit });
        }
        Ok(Some(Content {
            bytes,
            mode: facts.mode() & 0o7777,
            uid: facts.uid(),
            gid: facts.gid(),
            stamp: [
                facts.ino(),
                facts.ctime().cast_unsigned(),
                facts.ctime_nsec().cast_unsigned(),
                facts.size(),
            ],
        }))
    }

    /// The path that it was read by.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where the path leads, if it is a link.
    pub fn link_target(&self) -> Option<&Path> {
        (self.target != self.path).then_some(&*self.target)
    }

    /// Its bytes; `None` where it is not there.
    pub fn bytes(&self) -> Option<&[u8]> {
        self.content.as_ref().map(|content| &*content.bytes)
    }

    /// Which file it is, when it was changed last, and its size, where it is there: what was changed in between has another.
    pub fn stamp(&self) -> Option<[u64; 4]> {
        self.content.as_ref().map(|content| content.stamp)
    }

    /// Its permission bits, where it is there.
    pub fn mode(&self) -> Option<u32> {
        self.content.as_ref().map(|content| content.mode)
    }

    /// Whether this user may replace it, as far as its mode and owner say.
    pub fn check_writable(&self) -> Result<(), ForeignError> {
        let Some(content) = &self.content else {
            return Ok(());
        };
        let own = rustix::process::geteuid();
        if !own.is_root() && content.uid != own.as_raw() {
            return Err(ForeignError::ForeignOwner {
                path: self.path.clone(),
                owner: content.uid,
            });
        }
        if content.mode & 0o200 == 0 {
            return Err(ForeignError::ReadOnly {
                path: self.path.clone(),
                mode: content.mode,
            });
        }
        Ok(())
    }

    fn directory(&self) -> &Path {
        self.target.parent().unwrap_or(Path::new("/"))
    }

    /// Whether it is still what was read.
    pub fn check_unchanged(&self) -> Result<(), ForeignError> {
        let now = Self::content(&self.path, &self.target, self.limit)?;
        if now.as_ref().map(|now| &*now.bytes) == self.bytes() {
            Ok(())
        } else {
            Err(ForeignError::Changed {
                path: self.path.clone(),
            })
        }
    }

    /// The directories that are missing on its way, the outermost first.
    pub fn missing_directories(&self) -> Vec<PathBuf> {
        let above = self.directory().ancestors();
        let mut missing: Vec<PathBuf> = above
            .take_while(|directory| fs::symlink_metadata(directory).is_err())
            .map(Path::to_owned)
            .collect();
        missing.reverse();
        missing
    }

    /// Puts these bytes in its place, and makes the directories that are missing.
    pub fn put(&self, bytes: &[u8]) -> Result<(), ForeignError> {
        self.check_writable()?;
        for directory in self.missing_directories() {
            fs::create_dir(&directory).context("create", &directory)?;
            fs::set_permissions(&directory, Permissions::from_mode(0o700))
                .context("set the mode of", &directory)?;
        }
        let directory = self.directory();
        let mut temp = tempfile::Builder::new()
            .prefix(".askrelay-")
            .suffix(".tmp")
            .tempfile_in(directory)
            .context("write into", directory)?;
        temp.write_all(bytes).context("write into", directory)?;
        self.keep_owner_and_mode(temp.as_file())?;
        temp.as_file().sync_all().context("write into", directory)?;
        self.check_unchanged()?;
        let _file = temp
            .persist(&self.target)
            .map_err(|error| error.error)
            .context("replace", &self.target)?;
        // The rename itself.
        File::open(directory)
            .and_then(|directory| directory.sync_all())
            .context("write into", directory)
    }

    fn keep_owner_and_mode(&self, temp: &File) -> Result<(), ForeignError> {
        let mode = self.mode().unwrap_or(NEW_MODE);
        if let Some(content) = &self.content {
            let facts = temp.metadata().context("look at", &self.target)?;
            if (facts.uid(), facts.gid()) != (content.uid, content.gid) {
                let (owner, group) = (Uid::from_raw(content.uid), Gid::from_raw(content.gid));
                rustix::fs::fchown(temp, Some(owner), Some(group)).map_err(|_| {
                    ForeignError::ForeignOwner {
                        path: self.path.clone(),
                        owner: content.uid,
                    }
                })?;
            }
        }
        temp.set_permissions(Permissions::from_mode(mode))
            .context("set the mode of", &self.target)
    }

    /// Removes it, and of `directories` those that are empty then, the innermost first.
    pub fn remove(&self, directories: &[PathBuf]) -> Result<(), ForeignError> {
        self.check_writable()?;
        self.check_unchanged()?;
        fs::remove_file(&self.target).context("remove", &self.target)?;
        for directory in directories.iter().rev() {
            // What holds anything else stays, and that is as it should be.
            if fs::remove_dir(directory).is_err() {
                break;
            }
        }
        Ok(())
    }
}

/// Whether a program stands at this path: a file that somebody may execute.
pub fn is_program(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|facts| facts.is_file() && facts.mode() & 0o111 != 0)
}

/// By which part of a path somebody other than this user and the administrator can put something else there: it belongs to them, or
/// they may write it. `None` where they cannot.
pub fn replaceable_by_others(path: &Path) -> Option<PathBuf> {
    let own = rustix::process::geteuid().as_raw();
    let group = rustix::process::getegid().as_raw();
    let by_part = |path: &Path| {
        let mut is_below_there = true;
        for part in path.ancestors() {
            let Ok(facts) = fs::metadata(part) else {
                is_below_there = false;
                continue;
            };
            let mode = facts.mode();
            let writes =
                mode & 0o002 != 0 || mode & 0o020 != 0 && facts.gid() != group && facts.gid() != 0;
            // What is there in such a directory only its owner can replace.
            let keeps = facts.is_dir() && mode & 0o1000 != 0 && is_below_there;
            if !matches!(facts.uid(), 0) && facts.uid() != own || writes && !keeps {
                return Some(part.to_owned());
            }
            is_below_there = true;
        }
        None
    };
    by_part(path).or_else(|| by_part(&canonical_path(path)?))
}

/// A path with every link resolved, where something is there.
pub fn canonical_path(path: &Path) -> Option<PathBuf> {
    path.canonicalize().ok()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    const LIMIT: usize = 1024;

    fn read(path: &Path) -> Result<ForeignFile, ForeignError> {
        ForeignFile::read(path, LIMIT)
    }

    #[test]
    fn a_file_is_replaced_whole_with_its_mode() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("a");
        fs::write(&path, "1").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        read(&path).unwrap().put(b"22").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"22");
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o640);
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_file_that_is_missing_is_made_for_the_owner_and_taken_away_with_its_directories() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("a/b/c");
        let file = read(&path).unwrap();
        let made = file.missing_directories();
        assert_eq!(made, [place.path().join("a"), place.path().join("a/b")]);
        file.put(b"1").unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        read(&path).unwrap().remove(&made).unwrap();
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_link_is_followed_and_stays() {
        let place = tempfile::tempdir().unwrap();
        let (path, target) = (place.path().join("a"), place.path().join("b"));
        fs::write(&target, "1").unwrap();
        symlink("b", &path).unwrap();
        let file = read(&path).unwrap();
        let real = place.path().canonicalize().unwrap().join("b");
        assert_eq!(file.link_target(), Some(&*real));
        file.put(b"2").unwrap();
        assert!(fs::symlink_metadata(&path).unwrap().is_symlink());
        assert_eq!(fs::read(&target).unwrap(), b"2");
        fs::remove_file(&target).unwrap();
        assert!(matches!(read(&path), Err(ForeignError::Dangling { .. })));
    }

    #[test]
    fn what_somebody_wrote_meanwhile_is_not_lost() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("a");
        let missing = read(&path).unwrap();
        fs::write(&path, "1").unwrap();
        assert!(matches!(
            missing.put(b"2"),
            Err(ForeignError::Changed { .. })
        ));
        let file = read(&path).unwrap();
        fs::write(&path, "3").unwrap();
        assert!(matches!(file.put(b"2"), Err(ForeignError::Changed { .. })));
        assert!(matches!(
            file.remove(&[]),
            Err(ForeignError::Changed { .. })
        ));
        assert_eq!(fs::read(&path).unwrap(), b"3");
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_path_that_others_can_put_something_else_at_is_found_by_its_part() {
        let place = tempfile::tempdir().unwrap();
        let (open, path) = (place.path().join("open"), place.path().join("open/a"));
        fs::create_dir(&open).unwrap();
        fs::write(&path, "1").unwrap();
        let mode = |path: &Path, mode| {
            fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
        };
        mode(&open, 0o755);
        mode(&path, 0o644);
        assert_eq!(replaceable_by_others(&path), None);
        mode(&path, 0o646);
        assert_eq!(replaceable_by_others(&path), Some(path.clone()));
        mode(&path, 0o644);
        mode(&open, 0o757);
        assert_eq!(replaceable_by_others(&path), Some(open.clone()));
        // A link to there is no better.
        let link = place.path().join("link");
        symlink(&path, &link).unwrap();
        let real = open.canonicalize().unwrap();
        assert_eq!(replaceable_by_others(&link), Some(real));
        mode(&open, 0o1757);
        assert_eq!(replaceable_by_others(&path), None);
        assert_eq!(replaceable_by_others(&open.join("b")), Some(open));
    }

    #[test]
    fn what_is_no_file_or_not_to_be_written_is_refused() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("a");
        assert!(matches!(
            read(place.path()),
            Err(ForeignError::NotAFile { .. })
        ));
        fs::write(&path, "1").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o444)).unwrap();
        let refused = read(&path).unwrap().put(b"2");
        assert!(matches!(
            refused,
            Err(ForeignError::ReadOnly { mode: 0o444, .. })
        ));
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        fs::write(&path, vec![b'x'; LIMIT + 1]).unwrap();
        assert!(matches!(read(&path), Err(ForeignError::TooLarge { .. })));
    }
}
