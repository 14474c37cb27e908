//! Which directories of projects the operator trusts, and the files of theirs that somebody looked at when they said so.
//!
//! One owner-only file for each directory, named by a digest of its canonical path. A directory is trusted for the bytes that are
//! recorded and for no others: who edits one of the files, adds one or takes one away, has an untrusted directory.
//!
//! What such files may say is not known here.

#![expect(
    clippy::disallowed_methods,
    reason = "ring 1: resolves the paths of directories"
)]

use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::dir::{Removal, Replace};
use super::operator::{OperatorFile, list_operator_files, read_operator_file};
use super::{IoContext as _, Missing, SpoolError, root};
use crate::wire::Digest;

/// Largest record that is read.
const MAX_RECORD_BYTES: usize = 1 << 20;
/// Version of the records.
const VERSION: u32 = 1;

/// What was trusted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrustRecord {
    /// The directory, for people.
    pub directory: String,
    /// When, by the wall clock.
    pub trusted_at_ms: i64,
    /// Its files.
    pub files: Vec<TrustedFile>,
}

/// One file that was trusted.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrustedFile {
    /// Its path below the directory.
    pub path: String,
    /// Digest of its bytes.
    pub digest: String,
}

/// A record of trust cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// It cannot be read or written.
    #[error(transparent)]
    Spool(#[from] SpoolError),
    /// It is no record.
    #[error("{path:?} is no record of trust")]
    Garbled {
        /// The file.
        path: PathBuf,
    },
    /// It would be larger than one that is read.
    #[error("{files} files are too many for a record of trust")]
    TooMany {
        /// How many.
        files: usize,
    },
}

/// The records.
#[derive(Debug, Clone)]
pub struct TrustStore {
    directory: PathBuf,
}

impl TrustStore {
    /// Those in this directory, which need not exist.
    pub fn new(directory: PathBuf) -> Self {
        Self { directory }
    }

    /// Where they lie.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Where the record about the canonical path of a directory lies.
    pub fn path_of(&self, canonical: &Path) -> PathBuf {
        self.directory.join(Self::name_of(canonical))
    }

    fn name_of(canonical: &Path) -> String {
        let digest = Digest::of(canonical.as_os_str().as_bytes()).to_string();
        let hex = digest.split_once(':').map_or("", |(_, hex)| hex);
        format!("{}.json", hex.get(..32).unwrap_or(hex))
    }

    /// What is recorded about a directory; `None` where it is not trusted.
    pub fn record(&self, canonical: &Path) -> Result<Option<TrustRecord>, TrustError> {
        Self::read(&self.path_of(canonical))
    }

    fn read(path: &Path) -> Result<Option<TrustRecord>, TrustError> {
        match read_operator_file(path, MAX_RECORD_BYTES)? {
            OperatorFile::Missing => Ok(None),
            OperatorFile::Content(bytes) => match parse(&bytes) {
                Some(record) => Ok(Some(record)),
                None => Err(TrustError::Garbled {
                    path: path.to_owned(),
                }),
            },
        }
    }

    /// Records that a directory is trusted, in place of what was recorded before.
    pub fn publish(&self, canonical: &Path, record: &TrustRecord) -> Result<(), TrustError> {
        let value = OnDisk {
            v: VERSION,
            directory: record.directory.clone(),
            trusted_at: record.trusted_at_ms,
            files: record.files.clone(),
        };
        let mut bytes = serde_json::to_vec(&value)
            .map_err(io::Error::from)
            .context("write", self.path_of(canonical))?;
        bytes.push(b'\n');
        if bytes.len() > MAX_RECORD_BYTES {
            let files = record.files.len();
            return Err(TrustError::TooMany { files });
        }
        let dir = root::open(&self.directory, Missing::Create)?;
        let name = Self::name_of(canonical);
        let _published = dir
            .publish(&name, &bytes, Replace::Always)
            .context("write", self.directory.join(&name))?;
        Ok(())
    }

    /// Takes the trust in a directory back. Tells whether there was any.
    pub fn remove(&self, canonical: &Path) -> Result<Removal, TrustError> {
        match root::open(&self.directory, Missing::Fail) {
            Err(SpoolError::NoSpool { .. }) => Ok(Removal::AlreadyGone),
            Err(error) => Err(error.into()),
            Ok(dir) => Ok(dir
                .remove(&Self::name_of(canonical))
                .context("remove", self.path_of(canonical))?),
        }
    }

    /// Every record, by file name; those that cannot be used as their errors.
    pub fn list(&self) -> Result<Vec<Result<TrustRecord, TrustError>>, TrustError> {
        let paths = list_operator_files(&self.directory, ".json")?;
        let read = paths.iter().map(|path| Self::read(path).transpose());
        Ok(read.flatten().collect())
    }
}

/// A record as it stands in its file. A member that is not known, or stands twice, makes it unusable.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct OnDisk {
    v: u32,
    directory: String,
    trusted_at: i64,
    files: Vec<TrustedFile>,
}

fn parse(bytes: &[u8]) -> Option<TrustRecord> {
    let read: OnDisk = serde_json::from_slice(bytes).ok()?;
    (read.v == VERSION).then_some(TrustRecord {
        directory: read.directory,
        trusted_at_ms: read.trusted_at,
        files: read.files,
    })
}

/// The canonical path of a directory; an error where it is none.
pub fn canonical_directory(path: &Path) -> Result<PathBuf, SpoolError> {
    let canonical = path.canonicalize().context("find", path)?;
    if canonical.is_dir() {
        Ok(canonical)
    } else {
        Err(SpoolError::NotADirectory { path: canonical })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    fn record() -> TrustRecord {
        TrustRecord {
            directory: "/p\u{1b}[1m".to_owned(),
            trusted_at_ms: 7,
            files: vec![TrustedFile {
                path: ".askrelay/config.json".to_owned(),
                digest: Digest::of(b"{}").to_string(),
            }],
        }
    }

    #[test]
    fn a_record_is_the_owners_alone_and_comes_back_as_it_was_written() {
        let place = tempfile::tempdir().unwrap();
        let store = TrustStore::new(place.path().canonicalize().unwrap().join("state/trusted"));
        let project = Path::new("/some/project");
        assert_eq!(store.record(project).unwrap(), None);
        assert_eq!(store.remove(project).unwrap(), Removal::AlreadyGone);
        assert!(store.list().unwrap().is_empty());
        store.publish(project, &record()).unwrap();
        store.publish(project, &record()).unwrap();
        assert_eq!(store.record(project).unwrap(), Some(record()));
        assert_eq!(store.record(Path::new("/some/other")).unwrap(), None);
        assert_eq!(store.list().unwrap().len(), 1);
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&store.path_of(project)), 0o600);
        assert_eq!(mode(store.directory()), 0o700);
        assert_eq!(store.remove(project).unwrap(), Removal::Removed);
        assert_eq!(store.record(project).unwrap(), None);
    }

    #[test]
    fn a_record_that_would_not_be_read_is_not_written() {
        let place = tempfile::tempdir().unwrap();
        let store = TrustStore::new(place.path().canonicalize().unwrap());
        let project = Path::new("/some/project");
        let mut large = record();
        large.files = vec![large.files.remove(0); 20_000];
        let error = store.publish(project, &large).unwrap_err();
        assert!(matches!(error, TrustError::TooMany { files: 20_000 }));
        assert_eq!(store.record(project).unwrap(), None);
    }

    #[test]
    fn what_is_no_record_trusts_nothing() {
        let place = tempfile::tempdir().unwrap();
        let store = TrustStore::new(place.path().canonicalize().unwrap());
        let project = Path::new("/some/project");
        for text in [
            "",
            "{}",
            "[]",
            r#"{"v": 2, "directory": "/p", "trustedAt": 1, "files": []}"#,
            r#"{"v": 1, "directory": "/p", "trustedAt": 1, "files": [{"path": "a"}]}"#,
        ] {
            fs::write(store.path_of(project), text).unwrap();
            assert!(matches!(
                store.record(project),
                Err(TrustError::Garbled { .. })
            ));
        }
        // One that others could have written counts for nothing either.
        store.publish(project, &record()).unwrap();
        let open = fs::Permissions::from_mode(0o666);
        fs::set_permissions(store.path_of(project), open).unwrap();
        assert!(store.record(project).is_err());
    }
}
