//! Files that the operator writes: the configuration, and the agents beside it.
//!
//! They may be links (people keep them in a repository), but whoever can write them can allow anything, so they must belong to
//! this user or to root and be writable by nobody else.

#![expect(
    clippy::disallowed_methods,
    reason = "ring 1: reads the operator's files"
)]

use std::fs;
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType};
use rustix::io::Errno;

use super::dir::{FileStamp, is_accepted_owner};
use super::subject::open_without_waiting;
use super::{IoContext as _, SpoolError};

/// What lies at the path of an operator's file.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum OperatorFile {
    /// Its bytes.
    Content(Vec<u8>),
    /// Nothing.
    Missing,
}

/// Reads an operator's file of at most `limit` bytes.
pub fn read_operator_file(path: &Path, limit: usize) -> Result<OperatorFile, SpoolError> {
    let file = match open_without_waiting(path) {
        Ok(Some(file)) => file,
        Ok(None) => return Ok(OperatorFile::Missing),
        // A socket cannot be opened at all.
        Err(Errno::NXIO) => {
            return Err(SpoolError::NotAFile {
                path: path.to_owned(),
            });
        }
        Err(error) => return Err(io::Error::from(error)).context("open", path),
    };
    let facts = file.metadata().context("look at", path)?;
    if !facts.is_file() {
        return Err(SpoolError::NotAFile {
            path: path.to_owned(),
        });
    }
    if !is_accepted_owner(facts.uid()) {
        return Err(SpoolError::ForeignOwner {
            path: path.to_owned(),
            owner: facts.uid(),
        });
    }
    if facts.mode() & 0o022 != 0 {
        return Err(SpoolError::WritableByOthers {
            path: path.to_owned(),
            mode: facts.mode() & 0o7777,
        });
    }
    let mut bytes = Vec::new();
    let _count = file
        .take(limit as u64 + 1)
        .read_to_end(&mut bytes)
        .context("read", path)?;
    Ok(OperatorFile::Content(bytes))
}

/// How an operator's file, or a directory of them, looks from outside: two that are equal mean that nothing was done to it in
/// between, or to where a link leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LookedAt {
    itself: Option<Facts>,
    behind: Option<Facts>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Facts {
    stamp: FileStamp,
    /// Change of its content or its owner and mode; no program can set it back.
    changed_ns: i128,
    is_link: bool,
}

impl LookedAt {
    /// Whether a link stands there.
    pub fn is_link(&self) -> bool {
        self.itself.is_some_and(|facts| facts.is_link)
    }

    /// Whether something was done to it since then, in epoch nanoseconds by the clock of its file system.
    pub fn changed_since(&self, ns: i128) -> bool {
        let mut facts = self.itself.iter().chain(&self.behind);
        facts.any(|facts| facts.changed_ns >= ns)
    }

    /// Whether anything stands there, be it a link that leads nowhere.
    pub fn is_there(&self) -> bool {
        self.itself.is_some()
    }
}

/// Looks at what stands at a path, without opening it.
pub fn look_at_operator_file(path: &Path) -> LookedAt {
    let facts = |flags: AtFlags| {
        let stat = rustix::fs::statat(CWD, path, flags).ok()?;
        Some(Facts {
            stamp: FileStamp::of(&stat),
            changed_ns: i128::from(stat.st_ctime) * 1_000_000_000 + i128::from(stat.st_ctime_nsec),
            is_link: FileType::from_raw_mode(stat.st_mode) == FileType::Symlink,
        })
    };
    let itself = facts(AtFlags::SYMLINK_NOFOLLOW);
    let is_link = itself.is_some_and(|facts| facts.is_link);
    LookedAt {
        itself,
        behind: is_link.then(|| facts(AtFlags::empty())).flatten(),
    }
}

/// The files in `directory` whose names end in `suffix`, by name. A missing directory has none.
pub fn list_operator_files(directory: &Path, suffix: &str) -> Result<Vec<PathBuf>, SpoolError> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error).context("list", directory),
    };
    let mut paths = Vec::new();
    for entry in entries {
        let path = entry.context("list", directory)?.path();
        if path
            .file_name()
            .and_then(|name| name.to_str())
            .is_some_and(|name| name.ends_with(suffix))
        {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

/// The spellings of one path: absolute, relative to `cwd`, and canonical, each once; and the canonical one. What does not
/// exist yet is resolved as far as it does.
pub fn path_spellings(path: &str, cwd: &Path) -> (Vec<String>, String) {
    let absolute = normalise(&cwd.join(path));
    let canonical = canonical(&absolute);
    let relative = absolute
        .strip_prefix(normalise(cwd))
        .ok()
        .filter(|relative| !relative.as_os_str().is_empty());
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let mut spellings = vec![text(&absolute)];
    for spelling in relative.map(text).into_iter().chain([text(&canonical)]) {
        if !spellings.contains(&spelling) {
            spellings.push(spelling);
        }
    }
    (spellings, text(&canonical))
}

/// Whether anything can be opened by this path.
pub fn leads_somewhere(path: &Path) -> bool {
    path.exists()
}

/// Removes `.` and `..` by name alone.
fn normalise(path: &Path) -> PathBuf {
    use std::path::Component;
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => drop(normal.pop()),
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => {
                normal.push(component);
            }
        }
    }
    normal
}

fn canonical(absolute: &Path) -> PathBuf {
    let mut missing = Vec::new();
    let mut here = absolute;
    loop {
        if let Ok(mut found) = here.canonicalize() {
            found.extend(missing.iter().rev());
            return found;
        }
        match (here.file_name(), here.parent()) {
            (Some(name), Some(parent)) => {
                missing.push(name.to_owned());
                here = parent;
            }
            _ => return absolute.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests;
