//! Moving aside what cannot be used, so that it is looked at once and never deleted unseen.
//!
//! Each object is moved, whatever it is, without being opened; beside it lies a JSON file that says where it came from and
//! why it is here.

use std::ffi::{CStr, CString};
use std::io;

use rustix::io::Errno;

use super::dir::{Dir, MoveOutcome, PublishOutcome, Replace, os_str_of};
use super::{IoContext as _, QUARANTINE, Spool, SpoolError};
use crate::clock;

/// How many names are tried for one object.
const TRIES: u32 = 64;
/// Longest part of the old name that is kept in the new one, in bytes.
const KEPT_NAME: usize = 80;

/// Moves the object `name` of `from` into the quarantine. Gives its new name, or `None` where it was gone.
pub(super) fn take(
    spool: &Spool,
    from: &Dir,
    name: &CStr,
    reason: &str,
    now_ms: i64,
) -> Result<Option<String>, SpoolError> {
    let path = from.path().join(os_str_of(name));
    let quarantine = spool
        .root
        .ensure_dir(QUARANTINE)
        .context("create", spool.path().join(QUARANTINE))?;
    for attempt in 0..TRIES {
        let new_name = format!("{now_ms}-{attempt}-{}", safe_name(name));
        match from
            .move_to(name, &quarantine, &new_name)
            .context("move aside", &path)?
        {
            MoveOutcome::Gone => return Ok(None),
            MoveOutcome::NameTaken => {}
            MoveOutcome::Moved => {
                let note = serde_json::json!({
                    "file": new_name,
                    "from": path.to_string_lossy(),
                    "reason": reason,
                    "movedAt": now_ms,
                });
                let note_name = format!("{new_name}.reason.json");
                // Best effort: the object is aside already, and the log has the reason too.
                let _noted =
                    quarantine.publish(&note_name, note.to_string().as_bytes(), Replace::Never);
                return Ok(Some(new_name));
            }
        }
    }
    Err(SpoolError::Io {
        doing: "move aside",
        path,
        source: io::Error::from(io::ErrorKind::AlreadyExists),
    })
}

/// As [`Dir::publish`] with [`Replace::Always`], where nobody but this process has any business under that name. A rename
/// replaces whatever lies there, but for a directory: that is moved aside first.
pub(super) fn publish_over(
    spool: &Spool,
    dir: &Dir,
    name: &str,
    bytes: &[u8],
) -> io::Result<PublishOutcome> {
    match dir.publish(name, bytes, Replace::Always) {
        Err(error) if error.kind() == io::ErrorKind::IsADirectory => {
            clear(spool, dir, name, "a directory where a file belongs")?;
            dir.publish(name, bytes, Replace::Always)
        }
        other => other,
    }
}

/// As [`Dir::ensure_dir`]; what is no directory there is moved aside first.
pub(super) fn ensure_dir_over(spool: &Spool, dir: &Dir, name: &str) -> io::Result<Dir> {
    match dir.ensure_dir(name) {
        Err(error)
            if matches!(
                Errno::from_io_error(&error),
                Some(Errno::NOTDIR | Errno::LOOP)
            ) =>
        {
            clear(
                spool,
                dir,
                name,
                "no directory, where a directory of the session belongs",
            )?;
            dir.ensure_dir(name)
        }
        other => other,
    }
}

fn clear(spool: &Spool, dir: &Dir, name: &str, reason: &str) -> io::Result<()> {
    let name = CString::new(name).map_err(io::Error::other)?;
    match take(spool, dir, &name, reason, clock::wall_ms()) {
        Ok(_) => Ok(()),
        Err(error) => Err(io::Error::other(error)),
    }
}

/// The old name, as far as it is harmless in a file name and a terminal.
fn safe_name(name: &CStr) -> String {
    let kept = name.to_bytes().iter().take(KEPT_NAME);
    kept.map(|&byte| {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-') {
            char::from(byte)
        } else {
            '_'
        }
    })
    .collect()
}

#[cfg(test)]
mod tests;
