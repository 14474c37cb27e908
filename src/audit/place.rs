//! How the file of a review log is opened: only where it is a regular file of ours, and closed to everybody else.

use std::fs::{DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;

use super::{AuditError, Refusal};

/// Mode of the log, from its first byte on.
pub(super) const OWNER_ONLY: Mode = Mode::RUSR.union(Mode::WUSR);

/// Opens the log for appending; makes it, and the directories above it, where they are missing.
pub(super) fn open_to_append(path: &Path) -> Result<File, AuditError> {
    let flags = OFlags::RDWR | OFlags::APPEND | OFlags::CREATE;
    let file = match open_checked(path, flags) {
        // The directory is looked at only where it is missing: this is also how a log is opened again.
        Err(AuditError::Open { source, .. })
            if matches!(
                source.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
            ) =>
        {
            make_parent(path)?;
            open_checked(path, flags)?
        }
        other => other?,
    };
    close_to_others(&file).map_err(|source| AuditError::Open {
        path: path.to_owned(),
        source,
    })?;
    Ok(file)
}

/// The directory that the log lies in.
pub(super) fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        Some(_) | None => Path::new("."),
    }
}

fn make_parent(path: &Path) -> Result<(), AuditError> {
    let parent = parent(path);
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(parent)
        .map_err(|source| AuditError::Directory {
            path: parent.to_owned(),
            source,
        })
}

/// Takes from others what a log of an older or another program may have left open to them.
fn close_to_others(file: &File) -> io::Result<()> {
    let mode = Mode::from_raw_mode(rustix::fs::fstat(file)?.st_mode);
    if mode.intersects(Mode::RWXG | Mode::RWXO) {
        rustix::fs::fchmod(file, OWNER_ONLY)?;
    }
    Ok(())
}

/// Opens `path` without following a link or waiting for a pipe, and looks at what was opened: a regular file of ours.
pub(super) fn open_checked(path: &Path, flags: OFlags) -> Result<File, AuditError> {
    let refused = |reason| AuditError::Refused {
        path: path.to_owned(),
        reason,
    };
    let failed = |error: Errno| AuditError::Open {
        path: path.to_owned(),
        source: error.into(),
    };
    let guards = OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = match rustix::fs::open(path, flags | guards, OWNER_ONLY) {
        Ok(descriptor) => File::from(descriptor),
        Err(Errno::LOOP) => return Err(refused(Refusal::SymbolicLink)),
        Err(Errno::ISDIR | Errno::NXIO) => return Err(refused(Refusal::NotRegular)),
        Err(error) => return Err(failed(error)),
    };
    let status = rustix::fs::fstat(&file).map_err(failed)?;
    if FileType::from_raw_mode(status.st_mode) != FileType::RegularFile {
        return Err(refused(Refusal::NotRegular));
    }
    if status.st_uid != rustix::process::geteuid().as_raw() {
        return Err(refused(Refusal::ForeignOwner(status.st_uid)));
    }
    Ok(file)
}
