//! Files that asks are about: what lies now where a tool would write.
//!
//! They are anybody's files in anybody's directories, and only looked at, so links are followed and owners do not matter; what
//! is no regular file is not read, for reading it may wait or change something.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

/// What lies at the path of a file that an ask is about.
#[derive(Debug)]
#[must_use]
pub enum SubjectFile {
    /// Its bytes, all of them.
    Content(Vec<u8>),
    /// Nothing.
    Missing,
    /// More bytes than may be read.
    TooLarge,
    /// A directory, a pipe, a device, a socket.
    NotRegular,
    /// The machine refused.
    Failed(io::Error),
}

/// Opens what may be no file without waiting for it; `None` where there is nothing.
pub(super) fn open_without_waiting(path: &Path) -> Result<Option<File>, Errno> {
    // Non-blocking, for a named pipe in its place would otherwise hold this process until somebody writes.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(fd) => Ok(Some(File::from(fd))),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Reads a file that an ask is about, of at most `limit` bytes.
pub fn read_subject_file(path: &Path, limit: usize) -> SubjectFile {
    match open_without_waiting(path) {
        Ok(Some(file)) => read(file, limit).unwrap_or_else(SubjectFile::Failed),
        Ok(None) => SubjectFile::Missing,
        // A socket cannot be opened at all.
        Err(Errno::NXIO) => SubjectFile::NotRegular,
        Err(error) => SubjectFile::Failed(error.into()),
    }
}

fn read(file: File, limit: usize) -> io::Result<SubjectFile> {
    if !file.metadata()?.is_file() {
        return Ok(SubjectFile::NotRegular);
    }
    let mut bytes = Vec::new();
    let _count = file.take(limit as u64 + 1).read_to_end(&mut bytes)?;
    Ok(if bytes.len() > limit {
        SubjectFile::TooLarge
    } else {
        SubjectFile::Content(bytes)
    })
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests make the files")]
mod tests {
    use std::fs;
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn a_file_is_read_whole_and_anything_else_is_said_to_be_none() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        fs::write(at("file"), "12345").unwrap();
        std::os::unix::fs::symlink("file", at("link")).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, at("pipe"), Mode::RWXU).unwrap();
        let _socket = UnixListener::bind(at("socket")).unwrap();
        for name in ["file", "link"] {
            let read = read_subject_file(&at(name), 5);
            assert!(
                matches!(&read, SubjectFile::Content(bytes) if bytes == b"12345"),
                "{read:?}"
            );
        }
        assert!(matches!(
            read_subject_file(&at("file"), 4),
            SubjectFile::TooLarge
        ));
        assert!(matches!(
            read_subject_file(&at("gone"), 5),
            SubjectFile::Missing
        ));
        for name in ["", "pipe", "socket"] {
            let read = read_subject_file(&at(name), 5);
            assert!(matches!(read, SubjectFile::NotRegular), "{name}: {read:?}");
        }
        let below_a_file = read_subject_file(&at("file/x"), 5);
        assert!(
            matches!(below_a_file, SubjectFile::Failed(_)),
            "{below_a_file:?}"
        );
    }
}
