//! Opening a spool: the one place where a path is trusted, after it has been checked component by component.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::SpoolError;
use super::dir::{DIR_MODE, Dir, is_accepted_owner};

/// Whether opening may make what is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Missing {
    /// Make it, for the owner only.
    Create,
    /// It is an error.
    Fail,
}

/// Links of the system on the way (`/home` that leads to `/usr/home`) are followed this often.
const MAX_SYSTEM_LINKS: usize = 8;

/// Opens `root` after a walk from `/`: no component may be a link that an unprivileged user made, none may be writable by
/// everybody (but for sticky ones such as `/tmp`), and the last one must be ours and writable by nobody else.
pub(crate) fn open(root: &Path, missing: Missing) -> Result<Dir, SpoolError> {
    // Looked at before anything is made on the way.
    if !root.is_absolute()
        || root
            .components()
            .any(|component| component == Component::ParentDir)
    {
        return Err(SpoolError::NotAbsolute {
            path: root.to_owned(),
        });
    }
    let mut path = root.to_owned();
    for _ in 0..=MAX_SYSTEM_LINKS {
        match walk(&path, missing)? {
            Walk::Arrived(dir) => return Ok(dir),
            Walk::SystemLink(resolved) => path = resolved,
        }
    }
    Err(SpoolError::Symlink {
        path: root.to_owned(),
        root: root.to_owned(),
    })
}

enum Walk {
    Arrived(Dir),
    SystemLink(PathBuf),
}

fn walk(root: &Path, missing: Missing) -> Result<Walk, SpoolError> {
    let io_at = |path: &Path| {
        let path = path.to_owned();
        move |error: Errno| SpoolError::Io {
            doing: "open",
            path,
            source: error.into(),
        }
    };
    let mut here = PathBuf::from("/");
    let mut fd = open_dir(CWD, Path::new("/")).map_err(io_at(&here))?;
    let mut parent_is_roots = true;
    let mut rest: Vec<_> = root
        .components()
        .filter_map(|component| match component {
            Component::Normal(name) => Some(name.to_owned()),
            Component::ParentDir
            | Component::RootDir
            | Component::CurDir
            | Component::Prefix(_) => None,
        })
        .collect();
    rest.reverse();
    while let Some(name) = rest.pop() {
        here.push(&name);
        let opened = match open_dir(&fd, Path::new(&name)) {
            Err(Errno::NOENT) if missing == Missing::Create => {
                match rustix::fs::mkdirat(&fd, &name, DIR_MODE) {
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(error) => {
                        return Err(SpoolError::Io {
                            doing: "create",
                            path: here,
                            source: error.into(),
                        });
                    }
                }
                open_dir(&fd, Path::new(&name))
            }
            other => other,
        };
        fd = match opened {
            Ok(fd) => fd,
            Err(Errno::NOENT) => {
                return Err(SpoolError::NoSpool {
                    path: root.to_owned(),
                });
            }
            Err(Errno::NOTDIR | Errno::LOOP) => {
                let link = rustix::fs::statat(&fd, &name, AtFlags::SYMLINK_NOFOLLOW)
                    .map_err(io_at(&here))?;
                if FileType::from_raw_mode(link.st_mode) != FileType::Symlink {
                    return Err(SpoolError::NotADirectory { path: here });
                }
                // Only root can have put a link of root's into a directory that only root writes.
                if link.st_uid != 0 || !parent_is_roots {
                    return Err(SpoolError::Symlink {
                        path: here,
                        root: root.to_owned(),
                    });
                }
                let mut resolved = canonical(&here)?;
                resolved.extend(rest.iter().rev());
                return Ok(Walk::SystemLink(resolved));
            }
            Err(error) => return Err(io_at(&here)(error)),
        };
        let stat = rustix::fs::fstat(&fd).map_err(io_at(&here))?;
        if rest.is_empty() {
            check_root(&here, &stat)?;
        } else {
            check_on_the_way(&here, &stat)?;
        }
        parent_is_roots = stat.st_uid == 0 && stat.st_mode & 0o022 == 0;
    }
    Ok(Walk::Arrived(Dir::from_fd(fd, root.to_owned())))
}

fn open_dir(at: impl std::os::fd::AsFd, name: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(at, name, flags, Mode::empty())
}

#[expect(
    clippy::disallowed_methods,
    reason = "ring 1: resolves a link of the system"
)]
fn canonical(path: &Path) -> Result<PathBuf, SpoolError> {
    path.canonicalize()
        .map_err(|source: io::Error| SpoolError::Io {
            doing: "resolve",
            path: path.to_owned(),
            source,
        })
}

fn check_root(path: &Path, stat: &Stat) -> Result<(), SpoolError> {
    if !is_accepted_owner(stat.st_uid) {
        return Err(SpoolError::ForeignOwner {
            path: path.to_owned(),
            owner: stat.st_uid,
        });
    }
    if stat.st_mode & 0o022 != 0 {
        return Err(SpoolError::WritableByOthers {
            path: path.to_owned(),
            mode: stat.st_mode & 0o7777,
        });
    }
    Ok(())
}

fn check_on_the_way(path: &Path, stat: &Stat) -> Result<(), SpoolError> {
    const STICKY: u32 = 0o1000;
    if stat.st_mode & 0o002 != 0 && stat.st_mode & STICKY == 0 {
        return Err(SpoolError::WritableByOthers {
            path: path.to_owned(),
            mode: stat.st_mode & 0o7777,
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests;
