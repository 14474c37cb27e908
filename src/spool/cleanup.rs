//! Removing the directories of a session, in the one order that is safe.
//!
//! Both sides try this whenever they are done. `responses/` may only go once `requests/` is gone: otherwise a child that has
//! just asked loses the directory that its answer is written to, and its ask could never be answered.

use std::io;

use super::dir::{Dir, DirRemoval};
use super::{REQUESTS, RESPONSES};

/// Removes what is empty of the session whose directory is called `name` in `sessions`.
pub(super) fn remove_empty(sessions: &Dir, name: &str) -> io::Result<()> {
    let Some(session) = sessions.open_dir(name)? else {
        return Ok(());
    };
    if session.remove_dir(REQUESTS)? == DirRemoval::NotEmpty {
        return Ok(());
    }
    if session.remove_dir(RESPONSES)? == DirRemoval::NotEmpty {
        return Ok(());
    }
    match sessions.remove_dir(name)? {
        DirRemoval::Gone | DirRemoval::NotEmpty => Ok(()),
    }
}
