//! Where the files of a measurement lie.
//!
//! Two things spoil such figures. ext4 without a journal does not reuse inodes that were freed a moment ago: after some 10,000
//! files in one block group a write takes fifty times as long, for a minute. And a directory stays in the block group of its
//! parent, unless the parent is marked as the top of a hierarchy. So each measurement gets its own directory below a parent with
//! that mark (`chattr +T`), which puts it into a block group of its own. On other filesystems the mark does nothing.

use std::fs::File;
use std::path::{Path, PathBuf};

use rustix::fs::{IFlags, ioctl_getflags, ioctl_setflags};

/// The parent of all directories of one run.
pub(crate) struct Place {
    root: tempfile::TempDir,
    marked: bool,
}

impl Place {
    /// Below `dir`, or below cargo's directory for such things.
    pub(crate) fn new(dir: Option<&Path>) -> Self {
        let dir = dir.map_or_else(
            || PathBuf::from(env!("CARGO_TARGET_TMPDIR")),
            Path::to_path_buf,
        );
        std::fs::create_dir_all(&dir).unwrap();
        let root = tempfile::Builder::new()
            .prefix("goals-")
            .tempdir_in(dir)
            .unwrap();
        let opened = File::open(root.path()).unwrap();
        let marked = ioctl_getflags(&opened)
            .and_then(|flags| ioctl_setflags(&opened, flags | IFlags::TOPDIR))
            .is_ok();
        Self { root, marked }
    }

    /// A directory for one measurement.
    pub(crate) fn fresh(&self) -> tempfile::TempDir {
        tempfile::tempdir_in(self.root.path()).unwrap()
    }

    /// What has to be known about the figures.
    pub(crate) fn describe(&self) -> String {
        let kind = rustix::fs::statfs(self.root.path()).unwrap().f_type;
        let name = match kind {
            0xef53 => "ext4",
            0x0102_1994 => "tmpfs",
            0x5846_5342 => "xfs",
            0x9123_683e => "btrfs",
            0x794c_7630 => "overlay",
            _ => "an unnamed filesystem",
        };
        let mark = if self.marked {
            "each measurement in a block group of its own"
        } else {
            "without a mark for block groups"
        };
        format!("{name} below {}, {mark}", self.root.path().display())
    }
}
