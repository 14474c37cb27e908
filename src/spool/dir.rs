//! One directory of the spool, held open: every file in it is named relative to this handle.
//!
//! Whatever lies in a spool may be hostile: it was put there by a program that wants to be allowed something. So a file is
//! opened without following a link and without blocking, and then the *opened* descriptor is judged. A write goes to a
//! temporary name in the same directory and is published by one rename.

use std::ffi::{CStr, CString, OsStr};
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir, RenameFlags, SeekFrom, Stat};
use rustix::io::Errno;

/// Mode of every file that we make.
pub(crate) const FILE_MODE: Mode = Mode::from_raw_mode(0o600);
/// Mode of every directory that we make.
pub(crate) const DIR_MODE: Mode = Mode::from_raw_mode(0o700);

/// An open directory of the spool.
#[derive(Debug)]
pub(crate) struct Dir {
    fd: OwnedFd,
    path: PathBuf,
    /// Which directory it is; asked for once, for an open descriptor never leads to another.
    identity: OnceLock<FileStamp>,
}

/// Which file it is and how it looked: two equal stamps mean that nothing was done to it in between.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FileStamp {
    /// Device number.
    pub dev: u64,
    /// Inode number.
    pub ino: u64,
    /// Size in bytes.
    pub size: u64,
    /// Modification time in epoch nanoseconds, by the clock of the file system.
    pub mtime_ns: i128,
}

impl FileStamp {
    pub(crate) fn of(stat: &Stat) -> Self {
        #[expect(
            clippy::unnecessary_cast,
            clippy::cast_sign_loss,
            reason = "the widths of these fields differ between platforms; a size is never negative"
        )]
        Self {
            dev: stat.st_dev as u64,
            ino: stat.st_ino as u64,
            size: stat.st_size as u64,
            mtime_ns: i128::from(stat.st_mtime) * 1_000_000_000 + i128::from(stat.st_mtime_nsec),
        }
    }

    pub(crate) fn of_file(file: &File) -> io::Result<Self> {
        Ok(Self::of(&rustix::fs::fstat(file)?))
    }

    /// Whether both stamps are of one file, whatever was written to it in between.
    pub fn same_file(&self, other: &Self) -> bool {
        (self.dev, self.ino) == (other.dev, other.ino)
    }
}

/// What reading a file of the spool gave.
#[derive(Debug)]
#[must_use]
pub enum FileRead {
    /// Its whole content.
    Content {
        /// The bytes.
        bytes: Vec<u8>,
        /// The file they were read from.
        stamp: FileStamp,
    },
    /// There is no such file (any more).
    Missing,
    /// It is not read, for a reason that lies in the file.
    Refused(Refusal),
    /// It could not be read now; another time it may.
    Failed(io::Error),
}

/// What opening a file of the spool gave.
#[derive(Debug)]
#[must_use]
pub(crate) enum Opened {
    /// An open file of any kind.
    File(File),
    /// There is none.
    Missing,
    /// It is not opened.
    Refused(Refusal),
}

/// Why an object in the spool is not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Refusal {
    /// A symbolic link.
    #[error("it is a symbolic link")]
    Symlink,
    /// A directory, pipe, socket or device.
    #[error("it is {0}, not a regular file")]
    NotRegular(&'static str),
    /// Another user's file.
    #[error("it belongs to user {0}")]
    ForeignOwner(u32),
    /// A second name leads to it, so somebody else may still change it.
    #[error("it has more than one hard link")]
    SecondLink,
    /// Too large.
    #[error("it is larger than {0} bytes")]
    TooLarge(usize),
}

/// Whether publishing may replace a file of the same name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Replace {
    /// Never: the first writer wins.
    Never,
    /// Yes: the newest record counts.
    Always,
}

/// What publishing a file did.
#[derive(Debug)]
#[must_use]
pub(crate) enum PublishOutcome {
    /// The file is there, whole.
    Published(Published),
    /// A file of this name was there before; it is untouched.
    AlreadyThere,
}

/// A published file, still open.
#[derive(Debug)]
pub(crate) struct Published {
    /// Descriptor of the file, opened for writing.
    pub(crate) file: File,
}

/// Whether a removal found something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Removal {
    /// It was there.
    Removed,
    /// It was gone already.
    AlreadyGone,
}

impl Dir {
    pub(crate) fn from_fd(fd: OwnedFd, path: PathBuf) -> Self {
        Self {
            fd,
            path,
            identity: OnceLock::new(),
        }
    }

    /// Where it is, for messages and for the watch.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn path_of(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Opens a directory in this one; `None` where it does not exist. A link is an error (`ELOOP` or `ENOTDIR`).
    pub(crate) fn open_dir(&self, name: &str) -> io::Result<Option<Self>> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match rustix::fs::openat(&self.fd, name, flags, Mode::empty()) {
            Ok(fd) => Ok(Some(Self::from_fd(fd, self.path.join(name)))),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Opens a directory in this one, making it first where it is missing.
    pub(crate) fn ensure_dir(&self, name: &str) -> io::Result<Self> {
        // Somebody may remove it between the two calls; a few tries outlast any such race.
        for _ in 0..8 {
            if let Some(dir) = self.open_dir(name)? {
                return Ok(dir);
            }
            match rustix::fs::mkdirat(&self.fd, name, DIR_MODE) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(Errno::NOENT.into())
    }

    /// Makes a directory that must not be there yet.
    pub(crate) fn make_dir(&self, name: &str) -> io::Result<()> {
        Ok(rustix::fs::mkdirat(&self.fd, name, DIR_MODE)?)
    }

    /// Gives something in this directory another name, which must be free.
    pub(crate) fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        match rustix::fs::renameat_with(&self.fd, from, &self.fd, to, RenameFlags::NOREPLACE) {
            // A plain rename replaces an empty directory only, which is as good as none.
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
                Ok(rustix::fs::renameat(&self.fd, from, &self.fd, to)?)
            }
            other => Ok(other?),
        }
    }

    /// The same directory, under the path that it has now.
    pub(crate) fn at(self, path: PathBuf) -> Self {
        Self { path, ..self }
    }

    /// Removes an empty directory.
    pub(crate) fn remove_dir(&self, name: &str) -> io::Result<DirRemoval> {
        match rustix::fs::unlinkat(&self.fd, name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => Ok(DirRemoval::Gone),
            Err(Errno::NOTEMPTY | Errno::EXIST) => Ok(DirRemoval::NotEmpty),
            Err(error) => Err(error.into()),
        }
    }

    /// Removes whatever has this name, as far as that goes: what stands in a directory stays.
    pub(crate) fn remove_any(&self, name: &str) -> io::Result<()> {
        match rustix::fs::unlinkat(&self.fd, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(Errno::ISDIR | Errno::PERM) => self.remove_dir(name).map(|_| ()),
            Err(error) => Err(error.into()),
        }
    }

    /// Which directory this is: device and inode of it, as of the first time that somebody asked.
    pub(crate) fn identity(&self) -> io::Result<FileStamp> {
        if let Some(identity) = self.identity.get() {
            return Ok(*identity);
        }
        let stamp = self.stamp()?;
        Ok(*self.identity.get_or_init(|| stamp))
    }

    /// Facts of this directory itself.
    pub(crate) fn stamp(&self) -> io::Result<FileStamp> {
        Ok(FileStamp::of(&rustix::fs::fstat(&self.fd)?))
    }

    /// Facts of an entry, without following a link; `None` where it does not exist.
    pub(crate) fn stat(&self, name: &str) -> io::Result<Option<FileStamp>> {
        Ok(self.stat_whole(name)?.map(|stat| FileStamp::of(&stat)))
    }

    /// All that the file system says of a name in this directory, if there is one; no link is followed.
    pub(crate) fn stat_whole(&self, name: &str) -> io::Result<Option<Stat>> {
        match rustix::fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(stat)),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Hands every name in the directory to `see`, in no order.
    pub(crate) fn each_name(&self, mut see: impl FnMut(&CStr)) -> io::Result<()> {
        rustix::fs::seek(&self.fd, SeekFrom::Start(0))?;
        let mut buffer = [MaybeUninit::<u8>::uninit(); 16 * 1024];
        let mut entries = RawDir::new(&self.fd, &mut buffer);
        while let Some(entry) = entries.next() {
            let entry = entry?;
            if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
                see(entry.file_name());
            }
        }
        Ok(())
    }

    /// Reads a whole file of at most `limit` bytes.
    pub(crate) fn read(&self, name: &str, limit: usize) -> FileRead {
        self.read_open(name, limit).0
    }

    /// As [`Dir::read`], and hands out the open file where it was read.
    pub(crate) fn read_open(&self, name: &str, limit: usize) -> (FileRead, Option<File>) {
        match self.open_checked(name) {
            Ok(Opened::Missing) => (FileRead::Missing, None),
            Ok(Opened::Refused(refusal)) => (FileRead::Refused(refusal), None),
            Err(error) => (FileRead::Failed(error), None),
            Ok(Opened::File(mut file)) => match read_checked(&mut file, limit) {
                Ok(read) => {
                    self.done("read", name.as_bytes());
                    // What is refused is not touched any further, not even by a look at its lock.
                    let file = matches!(read, FileRead::Content { .. }).then_some(file);
                    (read, file)
                }
                Err(error) => (FileRead::Failed(error), None),
            },
        }
    }

    /// Opens a file without following a link and without waiting; what it is has to be judged on the descriptor.
    pub(crate) fn open_checked(&self, name: &str) -> io::Result<Opened> {
        // Non-blocking, for opening a named pipe would otherwise wait for a writer.
        let flags =
            OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        match rustix::fs::openat(&self.fd, name, flags, Mode::empty()) {
            Ok(fd) => Ok(Opened::File(File::from(fd))),
            Err(Errno::NOENT) => Ok(Opened::Missing),
            Err(Errno::LOOP) => Ok(Opened::Refused(Refusal::Symlink)),
            // A socket cannot be opened at all.
            Err(Errno::NXIO) => Ok(Opened::Refused(Refusal::NotRegular("a socket or a device"))),
            Err(error) => Err(error.into()),
        }
    }

    /// Publishes `bytes` under `name`, whole or not at all.
    pub(crate) fn publish(
        &self,
        name: &str,
        bytes: &[u8],
        replace: Replace,
    ) -> io::Result<PublishOutcome> {
        self.publish_into(self, name, replace, |file| file.write_all(bytes))
    }

    /// Lets `write` fill a temporary file in this directory, and renames it to `name` in `to`, which must lie on the same file
    /// system.
    ///
    /// Nothing is synced: whatever this writes can be made again from what is on disk.
    pub(crate) fn publish_into(
        &self,
        to: &Self,
        name: &str,
        replace: Replace,
        write: impl FnOnce(&mut File) -> io::Result<()>,
    ) -> io::Result<PublishOutcome> {
        self.publish_by(to, name, write, |dir, from| match replace {
            Replace::Always => rustix::fs::renameat(dir, from, &to.fd, name).map(|()| Renamed::Yes),
            Replace::Never => rename_without_replacing(dir, from, &to.fd, name),
        })
    }

    /// As [`Dir::publish_into`], with the way in which the temporary file gets its name.
    fn publish_by(
        &self,
        to: &Self,
        name: &str,
        write: impl FnOnce(&mut File) -> io::Result<()>,
        rename: impl FnOnce(&OwnedFd, &OsStr) -> Result<Renamed, Errno>,
    ) -> io::Result<PublishOutcome> {
        // The temporary name is unique by `tempfile`, the file itself is made beneath the open handle. Dropped unfinished,
        // it is removed again.
        let mut temp = tempfile::Builder::new()
            .prefix(".")
            .suffix(".tmp")
            .rand_bytes(10)
            .make_in(&self.path, |path| {
                let name = path.file_name().unwrap_or_default();
                let flags = OFlags::WRONLY
                    | OFlags::CREATE
                    | OFlags::EXCL
                    | OFlags::NOFOLLOW
                    | OFlags::CLOEXEC;
                Ok(File::from(rustix::fs::openat(
                    &self.fd, name, flags, FILE_MODE,
                )?))
            })?;
        write(temp.as_file_mut())?;
        to.done("written", name.as_bytes());
        let renamed = rename(&self.fd, temp.path().file_name().unwrap_or_default());
        if renamed.is_ok() {
            to.done("renamed", name.as_bytes());
        }
        match renamed {
            Ok(Renamed::Yes) => {
                temp.disable_cleanup(true);
                let (file, _path) = temp.into_parts();
                Ok(PublishOutcome::Published(Published { file }))
            }
            // The hard link leaves the temporary name behind; dropping `temp` removes it.
            Ok(Renamed::ByLink) => {
                let file = temp.as_file().try_clone()?;
                Ok(PublishOutcome::Published(Published { file }))
            }
            Err(Errno::EXIST) => Ok(PublishOutcome::AlreadyThere),
            Err(error) => Err(error.into()),
        }
    }

    /// Removes a file.
    pub(crate) fn remove(&self, name: &str) -> io::Result<Removal> {
        match rustix::fs::unlinkat(&self.fd, name, AtFlags::empty()) {
            Ok(()) => {
                self.done("removed", name.as_bytes());
                Ok(Removal::Removed)
            }
            Err(Errno::NOENT) => Ok(Removal::AlreadyGone),
            Err(error) => Err(error.into()),
        }
    }

    /// Moves any object, whatever it is, to a free name in `to`. It is not opened.
    pub(crate) fn move_to(
        &self,
        name: &CStr,
        to: &Self,
        new_name: &str,
    ) -> io::Result<MoveOutcome> {
        let new_name = CString::new(new_name).map_err(io::Error::other)?;
        match rustix::fs::renameat_with(&self.fd, name, &to.fd, &new_name, RenameFlags::NOREPLACE) {
            Ok(()) => {
                self.done("moved", name.to_bytes());
                Ok(MoveOutcome::Moved)
            }
            Err(Errno::NOENT) => Ok(MoveOutcome::Gone),
            Err(Errno::EXIST | Errno::NOTEMPTY) => Ok(MoveOutcome::NameTaken),
            Err(Errno::INVAL | Errno::NOSYS) => {
                match rustix::fs::renameat(&self.fd, name, &to.fd, &new_name) {
                    Ok(()) => Ok(MoveOutcome::Moved),
                    Err(Errno::NOENT) => Ok(MoveOutcome::Gone),
                    Err(error) => Err(error.into()),
                }
            }
            Err(error) => Err(error.into()),
        }
    }

    /// A step that a test may end this process at.
    #[cfg(debug_assertions)]
    fn done(&self, what: &str, name: &[u8]) {
        super::fault::at_file(&self.path, name, what);
    }

    #[cfg(not(debug_assertions))]
    #[expect(
        clippy::unused_self,
        reason = "the same as in a debug build, but nothing"
    )]
    fn done(&self, _what: &str, _name: &[u8]) {}

    /// Opens a file for locking, making it where it is missing. It is never truncated and never unlinked.
    pub(crate) fn open_lock(&self, name: &str) -> io::Result<File> {
        let flags =
            OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = File::from(rustix::fs::openat(&self.fd, name, flags, FILE_MODE)?);
        match judge(&rustix::fs::fstat(&file)?, usize::MAX) {
            None => Ok(file),
            Some(refusal) => Err(io::Error::other(refusal)),
        }
    }
}

impl AsFd for Dir {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// What removing a directory did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(crate) enum DirRemoval {
    /// It is not there (any more).
    Gone,
    /// Something is in it.
    NotEmpty,
}

/// What moving an object aside did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(crate) enum MoveOutcome {
    /// It has the new name.
    Moved,
    /// It was gone.
    Gone,
    /// The new name is taken.
    NameTaken,
}

enum Renamed {
    Yes,
    ByLink,
}

/// One rename that fails where the name is taken. Some file systems (NFS, some FUSE) cannot do that; a hard link can.
fn rename_without_replacing(
    dir: &OwnedFd,
    from: &OsStr,
    to_dir: &OwnedFd,
    to: &str,
) -> Result<Renamed, Errno> {
    match rustix::fs::renameat_with(dir, from, to_dir, to, RenameFlags::NOREPLACE) {
        Ok(()) => Ok(Renamed::Yes),
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
            link_without_replacing(dir, from, to_dir, to)
        }
        Err(error) => Err(error),
    }
}

fn link_without_replacing(
    dir: &OwnedFd,
    from: &OsStr,
    to_dir: &OwnedFd,
    to: &str,
) -> Result<Renamed, Errno> {
    rustix::fs::linkat(dir, from, to_dir, to, AtFlags::empty()).map(|()| Renamed::ByLink)
}

fn read_checked(file: &mut File, limit: usize) -> io::Result<FileRead> {
    let stat = rustix::fs::fstat(&*file)?;
    if let Some(refusal) = judge(&stat, limit) {
        return Ok(FileRead::Refused(refusal));
    }
    let stamp = FileStamp::of(&stat);
    // One byte more than it should have, for it may have grown since: a read that comes back short has met the end.
    let size = usize::try_from(stamp.size)
        .unwrap_or(limit)
        .saturating_add(1);
    let mut bytes = vec![0; size];
    let mut filled = 0;
    while let Some(rest) = bytes.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        let wanted = rest.len();
        let count = match file.read(rest) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            other => other?,
        };
        filled += count;
        if count < wanted {
            break;
        }
    }
    bytes.truncate(filled);
    if bytes.len() > limit {
        return Ok(FileRead::Refused(Refusal::TooLarge(limit)));
    }
    Ok(FileRead::Content { bytes, stamp })
}

/// Judges an opened file: regular, ours, under one name, small enough.
fn judge(stat: &Stat, limit: usize) -> Option<Refusal> {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => {}
        FileType::Directory => return Some(Refusal::NotRegular("a directory")),
        FileType::Fifo => return Some(Refusal::NotRegular("a named pipe")),
        FileType::Symlink => return Some(Refusal::Symlink),
        FileType::Socket
        | FileType::CharacterDevice
        | FileType::BlockDevice
        | FileType::Unknown => {
            return Some(Refusal::NotRegular("a socket or a device"));
        }
    }
    if !is_accepted_owner(stat.st_uid) {
        return Some(Refusal::ForeignOwner(stat.st_uid));
    }
    if stat.st_nlink > 1 {
        return Some(Refusal::SecondLink);
    }
    u64::try_from(stat.st_size)
        .map_or(true, |size| size > limit as u64)
        .then_some(Refusal::TooLarge(limit))
}

/// Whose files are read: this user's, and root's, who could do anything anyway.
pub(crate) fn is_accepted_owner(uid: u32) -> bool {
    uid == 0 || uid == rustix::process::geteuid().as_raw()
}

/// A file name as text, where it is text.
pub(crate) fn text_of(name: &CStr) -> Option<&str> {
    name.to_str().ok()
}

/// A file name as a path component.
pub(crate) fn os_str_of(name: &CStr) -> &OsStr {
    OsStr::from_bytes(name.to_bytes())
}

#[cfg(test)]
mod tests;
