//! The files of the grants of a session: one for each that is in force.
//!
//! The server that granted writes them, and knows what it wrote: a file that somebody puts there or changes grants nothing. A file
//! that is gone, or is not as the server left it, takes the grant back: the server looks before it publishes what rests on a grant.
//!
//! Whoever takes one back locks the directory for as long as that takes, and the server keeps it locked against that from the look
//! until the answer is out. So no answer that comes after a revocation rests on what was revoked. Where the file system has no
//! locks, one that is just being published may.
//!
//! This module does not decide what holds; it says what is there.

mod seen;

use std::collections::HashMap;
use std::ffi::CString;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{FlockOperation, Stat};
use rustix::io::Errno;

use super::dir::{Dir, FileRead, FileStamp, PublishOutcome, Removal, text_of};
use super::{GRANTS, IoContext as _, Spool, SpoolError, quarantine};
use crate::clock;
use crate::wire::{GrantRecord, MAX_REQUEST_BYTES, SessionId};
pub use seen::{GrantView, GrantsOf, TakenBack};

/// How many files that it did not write a server moves aside in one look; the next one goes on.
const MOST_ASIDE: usize = 64;

/// How often, and with which pause, a server tries to keep revocations away. Whoever revokes holds the lock for as long as a file
/// takes to go.
const HOLD_TRIES: u32 = 20;
const HOLD_PAUSE: Duration = Duration::from_millis(1);

/// The files of the grants of a session that this process serves.
#[derive(Debug)]
pub struct GrantFiles {
    spool: Spool,
    /// Name of the session on disk.
    name: String,
    dir: Option<Arc<Dir>>,
    /// The files as this process left them.
    files: HashMap<u64, GrantStamp>,
    /// The directory as it was when it was last looked through.
    seen: Option<FileStamp>,
}

/// Which file a grant has, and that nothing has happened to it. The time of its last change cannot be set: a file that was linked or
/// moved, and put back, is not as it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GrantStamp {
    file: FileStamp,
    changed_ns: i128,
    links: u64,
}

impl GrantStamp {
    fn of(stat: &Stat) -> Self {
        #[expect(
            clippy::useless_conversion,
            reason = "the widths of these fields differ between platforms"
        )]
        Self {
            file: FileStamp::of(stat),
            changed_ns: i128::from(stat.st_ctime) * 1_000_000_000 + i128::from(stat.st_ctime_nsec),
            links: u64::from(stat.st_nlink),
        }
    }
}

/// Why a grant is not in force any more, by its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Lost {
    /// It is not there.
    #[error("its file is gone")]
    Gone,
    /// It is not as the server left it.
    #[error("its file was changed by somebody else")]
    Changed,
    /// It cannot be told.
    #[error("its file cannot be looked at")]
    Unknown,
}

/// What keeps revocations away while it lives.
#[derive(Debug)]
#[must_use]
pub enum GrantHold {
    /// Nobody can take back a grant.
    Held(Held),
    /// There is no lock to be had on this file system.
    Unlocked,
    /// Somebody takes back grants, or keeps the lock for no reason.
    Busy,
}

/// A lock on the directory of the grants.
#[derive(Debug)]
pub struct Held(Arc<Dir>);

impl Drop for Held {
    fn drop(&mut self) {
        // What is not freed here is when the directory is closed; nothing can be done about it.
        let _freed = rustix::fs::flock(&*self.0, FlockOperation::Unlock);
    }
}

/// What a look at all files gave.
#[derive(Debug, Default)]
pub struct GrantLook {
    /// Grants that are lost.
    pub lost: Vec<(u64, Lost)>,
    /// Names of files that this process did not write; they were moved aside.
    pub foreign: Vec<String>,
}

/// A file that lay there when the server came.
#[derive(Debug)]
pub struct FoundGrant {
    /// Its name.
    pub name: String,
    /// What it holds, and the file that it is; or why it is not used.
    pub read: Result<(GrantRecord, GrantStamp), String>,
}

impl GrantFiles {
    /// The files of `session`. Nothing is made before there is a grant.
    pub fn new(spool: &Spool, session: &SessionId) -> Self {
        Self {
            spool: spool.clone(),
            name: session.encoded(),
            dir: None,
            files: HashMap::new(),
            seen: None,
        }
    }

    /// Writes the file of a grant that comes into force.
    pub fn write(&mut self, record: &GrantRecord) -> Result<(), SpoolError> {
        let dir = self.place()?;
        let name = file_name(record.id);
        let path = || dir.path_of(&name);
        let bytes = (record.to_json())
            .map_err(io::Error::other)
            .context("write the file of a grant", path())?;
        match quarantine::publish_over(&self.spool, &dir, &name, &bytes)
            .context("write the file of a grant", path())?
        {
            PublishOutcome::Published(published) => {
                let stat = rustix::fs::fstat(&published.file).map_err(io::Error::from);
                let stat = stat.context("look at the file of a grant", path())?;
                self.files.insert(record.id, GrantStamp::of(&stat));
                Ok(())
            }
            PublishOutcome::AlreadyThere => Err(SpoolError::Io {
                doing: "write the file of a grant",
                path: path(),
                source: io::ErrorKind::AlreadyExists.into(),
            }),
        }
    }

    /// Writes the file of a grant that is in force anew, unless it was taken back meanwhile.
    pub fn rewrite(&mut self, record: &GrantRecord) -> Result<Option<Lost>, SpoolError> {
        let hold = self.hold();
        if matches!(hold, GrantHold::Busy) {
            // What stands there is for inspection only, and the next time comes.
            return Ok(None);
        }
        match self.lost(record.id) {
            Some(lost) => Ok(Some(lost)),
            None => self.write(record).map(|()| None),
        }
    }

    /// Takes a file over that lay there when the server came.
    pub fn adopt(&mut self, id: u64, stamp: GrantStamp) {
        self.files.insert(id, stamp);
    }

    /// Removes the file of a grant that has ended.
    pub fn remove(&mut self, id: u64) -> Result<(), SpoolError> {
        if self.files.remove(&id).is_none() {
            return Ok(());
        }
        let Some(dir) = &self.dir else { return Ok(()) };
        let name = file_name(id);
        let removed = dir.remove(&name);
        let (Removal::Removed | Removal::AlreadyGone) =
            removed.context("remove the file of a grant", dir.path_of(&name))?;
        Ok(())
    }

    /// Keeps revocations away until what it gives is dropped.
    pub fn hold(&self) -> GrantHold {
        let Some(dir) = &self.dir else {
            return GrantHold::Unlocked;
        };
        for attempt in 0..HOLD_TRIES {
            match rustix::fs::flock(&**dir, FlockOperation::NonBlockingLockShared) {
                Ok(()) => return GrantHold::Held(Held(Arc::clone(dir))),
                Err(Errno::WOULDBLOCK | Errno::INTR) => {}
                Err(_) => return GrantHold::Unlocked,
            }
            if attempt + 1 < HOLD_TRIES {
                std::thread::sleep(HOLD_PAUSE);
            }
        }
        GrantHold::Busy
    }

    /// Which of these grants are lost.
    pub fn lost_of(&self, ids: impl IntoIterator<Item = u64>) -> Vec<(u64, Lost)> {
        let in_place = self.in_place();
        ids.into_iter()
            .filter_map(|id| {
                let lost = in_place.err().or_else(|| self.lost(id))?;
                Some((id, lost))
            })
            .collect()
    }

    /// Looks at all files, and moves aside what this process did not write.
    pub fn look(&mut self) -> GrantLook {
        let mut look = GrantLook {
            lost: self.lost_of(self.files.keys().copied().collect::<Vec<_>>()),
            foreign: Vec::new(),
        };
        look.lost.sort_unstable_by_key(|(id, _)| *id);
        let Some(dir) = self.dir.clone() else {
            return look;
        };
        let stamp = dir.stamp().ok();
        if stamp.is_some() && stamp == self.seen {
            return look;
        }
        let mut foreign: Vec<CString> = Vec::new();
        let listed = dir.each_name(|name| {
            let id = text_of(name).and_then(id_of);
            let is_own = id.is_some_and(|id| self.files.contains_key(&id));
            if !is_own && foreign.len() <= MOST_ASIDE {
                foreign.push(name.to_owned());
            }
        });
        if listed.is_err() {
            return look;
        }
        let is_all = foreign.len() <= MOST_ASIDE;
        for name in foreign.into_iter().take(MOST_ASIDE) {
            let reason = "the server of this session did not write it";
            let taken = quarantine::take(&self.spool, &dir, &name, reason, clock::wall_ms());
            if matches!(taken, Ok(Some(_))) {
                look.foreign.push(name.to_string_lossy().into_owned());
            }
        }
        self.seen = dir.stamp().ok().filter(|_| is_all);
        look
    }

    /// What lies there, before anything is granted. What has no business there is told as well.
    pub fn found(&mut self) -> Result<Vec<FoundGrant>, SpoolError> {
        let path = self.path();
        let Some(grants) = self.spool.root.open_dir(GRANTS).context("open", &path)? else {
            return Ok(Vec::new());
        };
        let Some(dir) = grants.open_dir(&self.name).context("open", &path)? else {
            return Ok(Vec::new());
        };
        let dir = Arc::new(dir);
        self.dir = Some(Arc::clone(&dir));
        let mut found = Vec::new();
        dir.each_name(|name| {
            found.push(match text_of(name) {
                Some(name) => FoundGrant {
                    name: name.to_owned(),
                    read: read_private(&dir, name),
                },
                None => FoundGrant {
                    name: name.to_string_lossy().into_owned(),
                    read: Err("its name is not text".to_owned()),
                },
            });
        })
        .context("list", &path)?;
        found.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        Ok(found)
    }

    /// Moves a file that is not taken over aside.
    pub fn set_aside(&self, name: &str, reason: &str) -> Result<(), SpoolError> {
        let Some(dir) = &self.dir else { return Ok(()) };
        let path = dir.path_of(name);
        let name = CString::new(name)
            .map_err(io::Error::other)
            .context("move aside", path)?;
        quarantine::take(&self.spool, dir, &name, reason, clock::wall_ms()).map(drop)
    }

    /// Removes a file that a server before this one left, and that nobody is to see any more.
    pub fn sweep(&self, name: &str) -> Result<(), SpoolError> {
        let Some(dir) = &self.dir else { return Ok(()) };
        (dir.remove_any(name)).context("remove the file of a grant", dir.path_of(name))
    }

    /// Removes all that this process wrote, and the directory if nothing else is in it.
    pub fn leave(&mut self) -> Result<(), SpoolError> {
        let mut ids: Vec<u64> = self.files.keys().copied().collect();
        ids.sort_unstable();
        // One that fails keeps none of the others.
        let removed = ids.into_iter().map(|id| self.remove(id));
        let removed = removed.fold(Ok(()), Result::and);
        self.leave_place().and(removed)
    }

    /// Removes the directory where nothing is in it.
    pub fn leave_place(&mut self) -> Result<(), SpoolError> {
        if self.dir.take().is_none() {
            return Ok(());
        }
        let path = self.path();
        if let Some(grants) = self.spool.root.open_dir(GRANTS).context("open", &path)? {
            let _left = grants.remove_dir(&self.name).context("remove", &path)?;
        }
        Ok(())
    }

    fn path(&self) -> std::path::PathBuf {
        self.spool.path().join(GRANTS).join(&self.name)
    }

    /// The directory, made where it is missing. What was in one that was replaced is lost.
    fn place(&mut self) -> Result<Arc<Dir>, SpoolError> {
        if let Some(dir) = &self.dir
            && self.in_place().is_ok()
        {
            return Ok(Arc::clone(dir));
        }
        let made = quarantine::ensure_dir_over(&self.spool, &self.spool.root, GRANTS)
            .and_then(|grants| quarantine::ensure_dir_over(&self.spool, &grants, &self.name));
        let dir = Arc::new(made.context("create", self.path())?);
        self.seen = None;
        self.dir = Some(Arc::clone(&dir));
        Ok(dir)
    }

    /// Whether the path leads to the directory that is open.
    fn in_place(&self) -> Result<(), Lost> {
        let dir = self.dir.as_ref().ok_or(Lost::Gone)?;
        let named = self.spool.root.stat(&format!("{GRANTS}/{}", self.name));
        match (named, dir.identity()) {
            (Ok(Some(named)), Ok(open)) if named.same_file(&open) => Ok(()),
            (Ok(_), Ok(_)) => Err(Lost::Gone),
            (Err(_), _) | (_, Err(_)) => Err(Lost::Unknown),
        }
    }

    fn lost(&self, id: u64) -> Option<Lost> {
        let (Some(known), Some(dir)) = (self.files.get(&id), &self.dir) else {
            return Some(Lost::Gone);
        };
        match dir.stat_whole(&file_name(id)) {
            Ok(Some(there)) if GrantStamp::of(&there) == *known => None,
            Ok(Some(_)) => Some(Lost::Changed),
            Ok(None) => Some(Lost::Gone),
            Err(_) => Some(Lost::Unknown),
        }
    }
}

/// Reads the file of a grant; `None` where it is gone.
fn read(dir: &Dir, name: &str) -> Option<Result<(GrantRecord, FileStamp), String>> {
    Some(match dir.read(name, MAX_REQUEST_BYTES) {
        FileRead::Missing => return None,
        FileRead::Refused(refusal) => Err(refusal.to_string()),
        FileRead::Failed(error) => Err(error.to_string()),
        FileRead::Content { bytes, stamp } => match GrantRecord::from_json(&bytes) {
            Ok(record) if id_of(name) == Some(record.id) => Ok((record, stamp)),
            Ok(record) => Err(format!("its number {} is not its name", record.id)),
            Err(unusable) => Err(unusable.to_string()),
        },
    })
}

/// As [`read`], of a file that nobody else may even read, and that belongs to nobody else.
fn read_private(dir: &Dir, name: &str) -> Result<(GrantRecord, GrantStamp), String> {
    let stat = dir.stat_whole(name).map_err(|error| error.to_string())?;
    let (record, stamp) = read(dir, name).ok_or("it is gone")??;
    let Some(stat) = stat.filter(|stat| FileStamp::of(stat) == stamp) else {
        return Err("it changes while it is read".to_owned());
    };
    if stat.st_uid != rustix::process::geteuid().as_raw() {
        return Err(format!("it belongs to user {}", stat.st_uid));
    }
    let mode = stat.st_mode & 0o7777;
    if mode != 0o600 {
        return Err(format!("its mode is {mode:04o}, not 0600"));
    }
    Ok((record, GrantStamp::of(&stat)))
}

fn file_name(id: u64) -> String {
    format!("{id}.json")
}

/// The number that a file name stands for.
fn id_of(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(".json")?;
    let id: u64 = digits.parse().ok()?;
    (file_name(id) == name).then_some(id)
}

#[cfg(test)]
mod tests;
