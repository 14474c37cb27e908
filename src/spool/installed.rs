//! What was written into files of other programs, so that it can be taken out again: one owner-only record for each file, and
//! beside it the bytes that stood there before.
//!
//! What the files mean is not known here.

use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::dir::Replace;
use super::operator::{OperatorFile, list_operator_files, read_operator_file};
use super::{IoContext as _, Missing, SpoolError, root};
use crate::wire::Digest;

/// Largest record, and largest file before it, that is read.
const MAX_BYTES: usize = 8 << 20;
/// Version of the records.
const VERSION: u32 = 1;

/// What was written into one file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Installed {
    v: u32,
    /// What it was written for.
    pub host: String,
    /// The file.
    pub file: String,
    /// When, by the wall clock.
    pub at: i64,
    /// Digest of the bytes that it was left with.
    pub left: String,
    /// Digest of the bytes that it was left with before that: what stands there where the last write did not come about.
    #[serde(default)]
    earlier: String,
    /// Whether it was there before.
    pub existed: bool,
    /// Directories that were made for it, the outermost first.
    pub made: Vec<String>,
    /// Digest of the bytes that are kept beside it.
    #[serde(default)]
    before: String,
    /// Whether there is nothing of ours in them, so that they may be given back.
    #[serde(default)]
    pub is_pristine: bool,
    /// What else has to be known to take it out again, as its host names it.
    pub entries: Vec<(String, String)>,
}

impl Installed {
    /// A record of bytes that a file is left with.
    pub fn new(host: &str, file: &Path, at: i64, left: &[u8]) -> Self {
        Self {
            v: VERSION,
            host: host.to_owned(),
            file: file.to_string_lossy().into_owned(),
            at,
            left: Digest::of(left).to_string(),
            earlier: String::new(),
            existed: true,
            made: Vec::new(),
            entries: Vec::new(),
            before: String::new(),
            is_pristine: false,
        }
    }

    /// It takes the place of this record: until the file is written, it is as that one says.
    pub fn follows(&mut self, earlier: &Self) {
        self.earlier.clone_from(&earlier.left);
    }

    /// These bytes are kept beside it.
    pub fn keeps(&mut self, bytes: &[u8]) {
        self.before = Digest::of(bytes).to_string();
    }

    /// Whether these are the bytes that were kept.
    pub fn kept(&self, bytes: &[u8]) -> bool {
        self.before == Digest::of(bytes).to_string()
    }

    /// Whether a file is as it was left.
    pub fn is_left(&self, bytes: &[u8]) -> bool {
        let digest = Digest::of(bytes).to_string();
        self.left == digest || self.earlier == digest
    }
}

/// The records.
#[derive(Debug, Clone)]
pub struct InstallStore {
    directory: PathBuf,
}

impl InstallStore {
    /// Those in this directory, which need not exist.
    pub fn new(directory: PathBuf) -> Self {
        Self { directory }
    }

    fn name_of(file: &Path, suffix: &str) -> String {
        let digest = Digest::of(file.as_os_str().as_bytes()).to_string();
        let hex = digest.split_once(':').map_or("", |(_, hex)| hex);
        format!("{}.{suffix}", hex.get(..32).unwrap_or(hex))
    }

    /// Where the bytes are kept that stood in a file before.
    pub fn backup_of(&self, file: &Path) -> PathBuf {
        self.directory.join(Self::name_of(file, "before"))
    }

    /// What is recorded of a file. A record that cannot be read says nothing.
    pub fn record(&self, file: &Path) -> Result<Option<Installed>, SpoolError> {
        Self::read(&self.directory.join(Self::name_of(file, "json")))
    }

    fn read(path: &Path) -> Result<Option<Installed>, SpoolError> {
        Ok(match read_operator_file(path, MAX_BYTES)? {
            OperatorFile::Missing => None,
            OperatorFile::Content(bytes) => serde_json::from_slice(&bytes)
                .ok()
                .filter(|record: &Installed| record.v == VERSION),
        })
    }

    /// The bytes that stood in a file before.
    pub fn before(&self, file: &Path) -> Result<Option<Vec<u8>>, SpoolError> {
        Ok(
            match read_operator_file(&self.backup_of(file), MAX_BYTES)? {
                OperatorFile::Missing => None,
                OperatorFile::Content(bytes) => Some(bytes),
            },
        )
    }

    /// Waits until nobody else writes, for as long as what is given out lives.
    pub fn lock(&self) -> Result<impl Sized + use<>, SpoolError> {
        let dir = root::open(&self.directory, Missing::Create)?;
        loop {
            match rustix::fs::flock(&dir, FlockOperation::LockExclusive) {
                Err(Errno::INTR) => {}
                // A file system without locks has none to offer.
                Ok(()) | Err(Errno::NOSYS | Errno::OPNOTSUPP | Errno::NOLCK) => return Ok(dir),
                Err(error) => {
                    return Err(io::Error::from(error)).context("lock", &self.directory);
                }
            }
        }
    }

    /// Records what is about to be written into a file, and keeps what stands there before.
    pub fn publish(
        &self,
        file: &Path,
        record: &Installed,
        before: &[u8],
    ) -> Result<(), SpoolError> {
        let dir = root::open(&self.directory, Missing::Create)?;
        let mut bytes = serde_json::to_vec(record)
            .map_err(io::Error::from)
            .context("write", &self.directory)?;
        bytes.push(b'\n');
        for (suffix, bytes) in [("before", before), ("json", &bytes)] {
            let name = Self::name_of(file, suffix);
            let _published = dir
                .publish(&name, bytes, Replace::Always)
                .context("write", self.directory.join(&name))?;
        }
        Ok(())
    }

    /// Where bytes are kept that nothing is known of any more but that somebody wrote them.
    pub fn kept_of(&self, file: &Path) -> PathBuf {
        self.directory.join(Self::name_of(file, "kept"))
    }

    /// Keeps bytes that somebody wrote into a file and that go with its record.
    pub fn keep(&self, file: &Path, bytes: &[u8]) -> Result<(), SpoolError> {
        let dir = root::open(&self.directory, Missing::Create)?;
        let name = Self::name_of(file, "kept");
        let _published = dir
            .publish(&name, bytes, Replace::Always)
            .context("write", self.directory.join(&name))?;
        Ok(())
    }

    /// Forgets a file.
    pub fn remove(&self, file: &Path) -> Result<(), SpoolError> {
        let dir = match root::open(&self.directory, Missing::Fail) {
            Err(SpoolError::NoSpool { .. }) => return Ok(()),
            opened => opened?,
        };
        for suffix in ["json", "before"] {
            let name = Self::name_of(file, suffix);
            let _removed = dir
                .remove(&name)
                .context("remove", self.directory.join(&name))?;
        }
        Ok(())
    }

    /// Every record that can be read.
    pub fn list(&self) -> Result<Vec<Installed>, SpoolError> {
        let paths = list_operator_files(&self.directory, ".json")?;
        let read = paths
            .iter()
            .filter_map(|path| Self::read(path).ok().flatten());
        Ok(read.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_recorded_of_a_file_is_found_again_until_it_is_forgotten() {
        let place = tempfile::tempdir().unwrap();
        let store = InstallStore::new(place.path().join("installed"));
        let file = Path::new("/home/me/settings.json");
        assert_eq!(store.record(file).unwrap(), None);
        assert_eq!(store.list().unwrap(), []);
        let record = Installed::new("codex", file, 7, b"new");
        store.publish(file, &record, b"old").unwrap();
        assert_eq!(store.record(file).unwrap(), Some(record.clone()));
        assert_eq!(store.before(file).unwrap().unwrap(), b"old");
        assert_eq!(store.list().unwrap(), std::slice::from_ref(&record));
        assert!(record.is_left(b"new") && !record.is_left(b"old"));
        // Where the next write does not come about, the file is as it was left before.
        let mut next = Installed::new("codex", file, 8, b"newer");
        next.follows(&record);
        assert!(next.is_left(b"newer") && next.is_left(b"new") && !next.is_left(b""));
        store.keep(file, b"mine").unwrap();
        store.remove(file).unwrap();
        store.remove(file).unwrap();
        assert_eq!(store.record(file).unwrap(), None);
        assert_eq!(store.before(file).unwrap(), None);
        let kept = read_operator_file(&store.kept_of(file), MAX_BYTES).unwrap();
        assert!(matches!(kept, OperatorFile::Content(bytes) if bytes == b"mine"));
    }
}
