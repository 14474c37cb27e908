//! What the tests of this room share: a spool of their own, and everything odd that can lie in one.
#![expect(
    clippy::disallowed_methods,
    reason = "tests lay out odd files and look at what became of them"
)]

use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{CWD, FileType, Mode};

use super::dir::{Dir, PublishOutcome};
use super::{Missing, Spool};
use crate::clock;
use crate::wire::{RequestId, SessionId};

/// How long anything may take before a test fails; far more than is needed.
pub(super) const DEADLINE: Duration = Duration::from_mins(1);

/// Waits until something holds.
#[track_caller]
pub(super) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let started = clock::now();
    while !holds() {
        assert!(
            clock::now().since(started) < DEADLINE,
            "this never came: {what}"
        );
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A directory that goes with the test, and a spool in it.
pub(super) struct Place {
    dir: tempfile::TempDir,
    pub(super) spool: Spool,
}

impl Place {
    pub(super) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap().join("spool");
        let spool = Spool::open(&root, Missing::Create).unwrap();
        Self { dir, spool }
    }

    /// A path beside the spool.
    pub(super) fn beside(&self, name: &str) -> PathBuf {
        self.dir.path().canonicalize().unwrap().join(name)
    }

    /// A path in the spool.
    pub(super) fn at(&self, relative: &str) -> PathBuf {
        self.spool.path().join(relative)
    }

    /// An open directory in the spool, made where it is missing.
    pub(super) fn dir(&self, name: &str) -> Dir {
        self.spool.root.ensure_dir(name).unwrap()
    }

    pub(super) fn write(&self, relative: &str, bytes: impl AsRef<[u8]>) {
        let path = self.at(relative);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
}

pub(super) fn session() -> SessionId {
    SessionId::parse("main").unwrap()
}

pub(super) fn id(text: &str) -> RequestId {
    RequestId::parse(text).unwrap()
}

/// Whether these tests may do what only root may.
pub(super) fn is_root() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        println!("skipped in part: only root can make other users' files and devices");
    }
    root
}

/// A user that is neither this one nor root.
pub(super) const STRANGER: u32 = 12_345;

/// An object that is no plain file of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Odd {
    Fifo,
    Directory,
    FullDirectory,
    Link,
    DanglingLink,
    LinkLoop,
    Socket,
    Device,
    SecondName,
    Strangers,
    TenGigabytes,
}

impl Odd {
    pub(super) const ALL: [Self; 11] = [
        Self::Fifo,
        Self::Directory,
        Self::FullDirectory,
        Self::Link,
        Self::DanglingLink,
        Self::LinkLoop,
        Self::Socket,
        Self::Device,
        Self::SecondName,
        Self::Strangers,
        Self::TenGigabytes,
    ];

    /// Makes it at `path`. `secret` is a file outside of the spool that a link leads to. Tells whether it could.
    pub(super) fn make(self, path: &Path, secret: &Path) -> bool {
        fs::write(secret, "a secret").unwrap();
        match self {
            Self::Fifo => {
                let mode = Mode::from_raw_mode(0o600);
                rustix::fs::mknodat(CWD, path, FileType::Fifo, mode, 0).unwrap();
            }
            Self::Directory => fs::create_dir(path).unwrap(),
            Self::FullDirectory => {
                fs::create_dir(path).unwrap();
                fs::write(path.join("x.json"), "{}").unwrap();
            }
            Self::Link => symlink(secret, path).unwrap(),
            Self::DanglingLink => symlink(path.with_extension("nothing"), path).unwrap(),
            Self::LinkLoop => symlink(path, path).unwrap(),
            // The name goes with the listener's socket, not with the listener.
            Self::Socket => drop(UnixListener::bind(path).unwrap()),
            Self::Device => {
                let mode = Mode::from_raw_mode(0o600);
                let null = rustix::fs::makedev(1, 3);
                return is_root()
                    && rustix::fs::mknodat(CWD, path, FileType::CharacterDevice, mode, null)
                        .is_ok();
            }
            Self::SecondName => fs::hard_link(secret, path).unwrap(),
            Self::Strangers => {
                if !is_root() {
                    return false;
                }
                fs::write(path, "{}").unwrap();
                std::os::unix::fs::chown(path, Some(STRANGER), None).unwrap();
            }
            Self::TenGigabytes => {
                let file = fs::File::create(path).unwrap();
                file.set_len(10 * 1024 * 1024 * 1024).unwrap();
            }
        }
        true
    }
}

/// Names in a directory, sorted.
pub(super) fn names(path: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(path)
        .unwrap()
        .map(|entry| String::from_utf8_lossy(entry.unwrap().file_name().as_bytes()).into_owned())
        .collect();
    names.sort();
    names
}

pub(super) fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}

/// Everything below `path`: name, inode, mode, size and time of change. Equal before and after means that nothing was done.
pub(super) fn picture(path: &Path) -> Vec<(PathBuf, u64, u32, u64, i64, i64)> {
    let mut all = Vec::new();
    let mut open = vec![path.to_owned()];
    while let Some(path) = open.pop() {
        let facts = fs::symlink_metadata(&path).unwrap();
        if facts.is_dir() {
            open.extend(
                fs::read_dir(&path)
                    .unwrap()
                    .map(|entry| entry.unwrap().path()),
            );
        }
        all.push((
            path,
            facts.ino(),
            facts.mode(),
            facts.size(),
            facts.ctime(),
            facts.ctime_nsec(),
        ));
    }
    all.sort();
    all
}

#[track_caller]
pub(super) fn published(outcome: std::io::Result<PublishOutcome>) -> fs::File {
    match outcome.unwrap() {
        PublishOutcome::Published(published) => published.file,
        PublishOutcome::AlreadyThere => panic!("it was there already"),
    }
}
