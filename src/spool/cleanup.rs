//! Removing the directories of a session, in the one order that is safe.
//!
//! Both sides try this whenever they are done. `responses/` may only go once `requests/` is gone: otherwise a child that has
//! just asked loses the directory that its answer is written to, and its ask could never be answered.

use std::io;

use super::dir::{Dir, DirRemoval};
use super::{REQUESTS, RESPONSES};

/// Whether a session has no directories any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(super) enum Emptied {
    /// It has none.
    Yes,
    /// Something is in one of them.
    No,
}

/// Removes what is empty of the session whose directory is called `name` in `sessions`.
pub(super) fn remove_empty(sessions: &Dir, name: &str) -> io::Result<()> {
    let Some(session) = sessions.open_dir(name)? else {
        return Ok(());
    };
    if remove_children(&session)? == Emptied::No {
        return Ok(());
    }
    match sessions.remove_dir(name)? {
        DirRemoval::Gone | DirRemoval::NotEmpty => Ok(()),
    }
}

/// Removes a session's two directories, as far as they are empty.
pub(super) fn remove_children(session: &Dir) -> io::Result<Emptied> {
    if session.remove_dir(REQUESTS)? == DirRemoval::NotEmpty
        || session.remove_dir(RESPONSES)? == DirRemoval::NotEmpty
    {
        return Ok(Emptied::No);
    }
    Ok(Emptied::Yes)
}

#[cfg(test)]
mod tests;
