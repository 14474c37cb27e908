//! Prompts that were made for children: one owner-only file each, which its child reads when it likes.
//!
//! Whoever starts a child becomes it, so nobody is left to clean up behind it. The file is therefore locked, and the child inherits the
//! lock: it ends with the last process that has it. Who makes the next prompt removes those that nobody holds any more.
//!
//! What a prompt says is not known here.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::io::FdFlags;

use super::dir::{Dir, Opened, Removal, Replace, text_of};
use super::lock::{Attempt, lock_exclusive};
use super::{IoContext as _, Missing, SpoolError, root};

/// How old a file must be before it is removed: a child may close what it inherits, and read its prompt later.
pub const PROMPT_KEPT: Duration = Duration::from_hours(24);

/// End of the names of the files.
const SUFFIX: &str = ".prompt";

/// The directory of prompts.
#[derive(Debug, Clone)]
pub struct PromptFiles {
    directory: PathBuf,
}

/// A prompt on disk. The lock goes on in whatever this process becomes or starts.
#[derive(Debug)]
pub struct PromptFile {
    /// Where it lies.
    pub path: PathBuf,
    dir: Dir,
    name: String,
    /// Closing it frees the lock, where no child has it.
    #[expect(dead_code, reason = "held, not used")]
    lock: File,
}

impl PromptFile {
    /// Removes it: there is no child. Where that fails, it is removed with those that nobody holds.
    pub fn discard(self) {
        let _removed = self.dir.remove(&self.name);
    }
}

impl PromptFiles {
    /// Those in this directory, which need not exist.
    pub fn new(directory: PathBuf) -> Self {
        Self { directory }
    }

    /// Where they lie.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Writes a prompt. `name` is one that nobody else has.
    pub fn write(&self, name: &str, bytes: &[u8]) -> Result<PromptFile, SpoolError> {
        let dir = root::open(&self.directory, Missing::Create)?;
        let name = format!("{name}{SUFFIX}");
        let path = self.directory.join(&name);
        let _published = dir
            .publish(&name, bytes, Replace::Always)
            .context("write", &path)?;
        let lock = match dir.open_checked(&name).context("open", &path)? {
            Opened::File(file) => file,
            Opened::Missing | Opened::Refused(_) => {
                return Err(SpoolError::NotAFile { path });
            }
        };
        // Where it cannot be locked, nobody removes it.
        let _locked = lock_exclusive(&lock);
        rustix::io::fcntl_setfd(&lock, FdFlags::empty())
            .map_err(Into::into)
            .context("keep open", &path)?;
        Ok(PromptFile {
            path,
            dir,
            name,
            lock,
        })
    }

    /// Removes the prompts that nobody holds and that are older than [`PROMPT_KEPT`]; tells how many. `now_ms` is the wall clock's, for it
    /// is compared with the times of files.
    pub fn sweep(&self, now_ms: i64) -> Result<usize, SpoolError> {
        let dir = match root::open(&self.directory, Missing::Fail) {
            Err(SpoolError::NoSpool { .. }) => return Ok(0),
            other => other?,
        };
        let mut names = Vec::new();
        dir.each_name(|name| {
            // What was being written when its writer was killed is a prompt too.
            let name =
                text_of(name).filter(|name| name.ends_with(SUFFIX) || name.ends_with(".tmp"));
            names.extend(name.map(str::to_owned));
        })
        .context("list", &self.directory)?;
        let kept_ns = i128::try_from(PROMPT_KEPT.as_nanos()).unwrap_or(i128::MAX);
        let before_ns = (i128::from(now_ms) * 1_000_000).saturating_sub(kept_ns);
        let mut removed = 0;
        for name in names {
            let is_old = |dir: &Dir| {
                let stamp = dir.stat(&name).ok().flatten();
                stamp.is_some_and(|stamp| stamp.mtime_ns < before_ns)
            };
            if is_old(&dir)
                && let Ok(Opened::File(file)) = dir.open_checked(&name)
                && matches!(lock_exclusive(&file), Attempt::Locked)
                && matches!(dir.remove(&name), Ok(Removal::Removed))
            {
                removed += 1;
            }
        }
        Ok(removed)
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests look at the files")]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;
    use std::time::{SystemTime, UNIX_EPOCH};

    use super::*;

    fn now_ms() -> i64 {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        i64::try_from(now.as_millis()).unwrap()
    }

    #[test]
    fn a_prompt_is_for_its_owner_and_kept_as_it_is() {
        let base = tempfile::tempdir().unwrap();
        let files = PromptFiles::new(base.path().join("state/prompts"));
        let written = files.write("ask-1", b"a\xff\0\n").unwrap();
        assert_eq!(fs::read(&written.path).unwrap(), b"a\xff\0\n");
        let gone = files.write("ask-2", b"x").unwrap();
        let gone_path = gone.path.clone();
        gone.discard();
        assert!(!gone_path.exists());
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&written.path), 0o600);
        assert_eq!(mode(files.directory()), 0o700);
    }

    #[test]
    fn only_what_is_old_and_held_by_nobody_is_removed() {
        let base = tempfile::tempdir().unwrap();
        let files = PromptFiles::new(base.path().join("prompts"));
        assert_eq!(files.sweep(now_ms()).unwrap(), 0);
        let held = files.write("held", b"x").unwrap();
        let left = files.write("left", b"x").unwrap().path;
        fs::write(base.path().join("prompts/other.txt"), b"x").unwrap();
        fs::write(base.path().join("prompts/.unfinished.tmp"), b"x").unwrap();
        let kept_ms = i64::try_from(PROMPT_KEPT.as_millis()).unwrap();
        assert_eq!(files.sweep(now_ms()).unwrap(), 0, "both are new");
        assert_eq!(files.sweep(now_ms() + kept_ms + 60_000).unwrap(), 2);
        assert!(!left.exists());
        assert!(held.path.exists());
        assert!(base.path().join("prompts/other.txt").exists());
    }
}
