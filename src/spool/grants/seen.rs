//! The grants of a spool as those see them who did not give them, and how one is taken back.

use std::time::Duration;

use rustix::fs::FlockOperation;
use rustix::io::Errno;

use super::{HOLD_PAUSE, file_name, id_of, read};
use crate::clock;
use crate::spool::dir::{Dir, Removal, text_of};
use crate::spool::lock::{self, LockState};
use crate::spool::{GRANTS, IoContext as _, SERVING, Spool, SpoolError};
use crate::wire::{GrantRecord, SessionId};

/// The grants of one session, as they lie in the spool.
#[derive(Debug)]
pub struct GrantsOf {
    /// Name of the session on disk.
    pub name: String,
    /// The session, where the name is that of one.
    pub session: Option<SessionId>,
    /// Whether a server of the session holds its lock. Without one nothing of this is in force.
    pub lock: LockState,
    /// The grants, in the order of their numbers, then what is none.
    pub grants: Vec<GrantView>,
}

/// One file of a grant.
#[derive(Debug)]
pub struct GrantView {
    /// Its name.
    pub name: String,
    /// The number that its name stands for.
    pub id: Option<u64>,
    /// What it says, or why that cannot be told.
    pub record: Result<Box<GrantRecord>, String>,
}

/// What taking grants back did.
#[derive(Debug, Default)]
#[must_use]
pub struct TakenBack {
    /// Those that were there.
    pub taken: Vec<u64>,
    /// Those that were not.
    pub unknown: Vec<u64>,
    /// Those whose files could not be removed.
    pub failed: Vec<(u64, SpoolError)>,
    /// Whether the server could not be kept from publishing meanwhile: an answer that was on its way may still rest on them.
    pub unlocked: bool,
}

impl Spool {
    /// The grants of every session. It changes nothing.
    pub fn grants(&self) -> Result<Vec<GrantsOf>, SpoolError> {
        let path = self.path().join(GRANTS);
        let Some(grants) = self.root.open_dir(GRANTS).context("open", &path)? else {
            return Ok(Vec::new());
        };
        let mut names = Vec::new();
        grants
            .each_name(|name| names.extend(text_of(name).map(str::to_owned)))
            .context("list", &path)?;
        names.sort_unstable();
        let serving = self.root.open_dir(SERVING).context("open", &path)?;
        Ok(names
            .into_iter()
            .filter_map(|name| grants_of(&grants, serving.as_ref(), name))
            .collect())
    }

    /// Takes grants of a session back: removes their files, while no server of it publishes anything that rests on them.
    pub fn take_back(
        &self,
        session: &SessionId,
        ids: &[u64],
        patience: Duration,
    ) -> Result<TakenBack, SpoolError> {
        let path = self.path().join(GRANTS).join(session.encoded());
        let mut back = TakenBack::default();
        let opened = match self.root.open_dir(GRANTS).context("open", &path)? {
            Some(grants) => grants.open_dir(&session.encoded()).context("open", &path)?,
            None => None,
        };
        let Some(dir) = opened else {
            back.unknown = ids.to_vec();
            return Ok(back);
        };
        back.unlocked = !lock_out(&dir, patience);
        for id in ids {
            let name = file_name(*id);
            // What cannot be removed, such as a directory that somebody put there, keeps none of the others.
            match dir.remove(&name).context("remove", dir.path_of(&name)) {
                Ok(Removal::Removed) => back.taken.push(*id),
                Ok(Removal::AlreadyGone) => back.unknown.push(*id),
                Err(error) => back.failed.push((*id, error)),
            }
        }
        // Closing the directory frees the lock.
        drop(dir);
        Ok(back)
    }
}

/// Keeps the server of a session from publishing anything that rests on a grant; tells whether that worked.
fn lock_out(dir: &Dir, patience: Duration) -> bool {
    let until = clock::now().after(patience);
    loop {
        match rustix::fs::flock(dir, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return true,
            Err(Errno::WOULDBLOCK | Errno::INTR) if clock::now() < until => {
                std::thread::sleep(HOLD_PAUSE);
            }
            Err(_) => return false,
        }
    }
}

fn grants_of(grants: &Dir, serving: Option<&Dir>, name: String) -> Option<GrantsOf> {
    let session = SessionId::from_encoded(&name);
    let lock = match (&session, serving) {
        (Some(session), Some(serving)) => {
            lock::state(serving, session).unwrap_or(LockState::Unsupported)
        }
        _ => LockState::Absent,
    };
    let mut views = Vec::new();
    match grants.open_dir(&name) {
        Ok(Some(dir)) => {
            let mut names = Vec::new();
            let listed = dir.each_name(|name| {
                // What is being written has a dot before its name.
                names.extend(
                    text_of(name)
                        .filter(|name| !name.starts_with('.'))
                        .map(str::to_owned),
                );
            });
            if let Err(error) = listed {
                views.push(bad(&name, &error.to_string()));
            }
            names.sort_unstable_by_key(|name| (id_of(name).unwrap_or(u64::MAX), name.clone()));
            for name in names {
                let record = match read(&dir, &name) {
                    None => continue,
                    Some(Ok((record, _))) => Ok(Box::new(record)),
                    Some(Err(reason)) => Err(reason),
                };
                let id = id_of(&name);
                views.push(GrantView { name, id, record });
            }
        }
        Ok(None) => return None,
        Err(error) => views.push(bad(&name, &format!("it cannot be looked into: {error}"))),
    }
    Some(GrantsOf {
        session,
        lock,
        grants: views,
        name,
    })
}

fn bad(name: &str, reason: &str) -> GrantView {
    GrantView {
        name: name.to_owned(),
        id: None,
        record: Err(reason.to_owned()),
    }
}
