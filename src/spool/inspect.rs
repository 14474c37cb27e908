//! Looking into a spool without touching it: nothing here writes, locks for longer than an instant, or fails on a bad file.

use std::collections::BTreeSet;
use std::ffi::CString;

use super::dir::{Dir, FileRead, FileStamp, os_str_of, text_of};
use super::inbox::{RequesterLife, lossy};
use super::lock::{self, LockState, Owner};
use super::{
    IoContext as _, QUARANTINE, REQUESTS, RESPONSES, SERVING, SESSIONS, Spool, SpoolError,
};
use crate::process::{self, Life};
use crate::wire::{
    Digest, ForwardedPermissionRequest, Heartbeat, MAX_HEARTBEAT_BYTES, MAX_REQUEST_BYTES,
    RequestId, SessionId,
};

/// One session that has a directory, a heartbeat or a lock.
#[derive(Debug)]
pub struct SessionView {
    /// Its name on disk, unescaped: for a person it must be made visible first.
    pub name: String,
    /// The session, where the name is one.
    pub session: Option<SessionId>,
    /// Its heartbeat.
    pub heartbeat: HeartbeatView,
    /// Its lock.
    pub lock: LockState,
    /// Who holds the lock, by its own word.
    pub owner: Owner,
    /// Number of candidates in its inbox; `None` where it has none.
    pub requests: Option<usize>,
    /// Number of responses that nobody has consumed; `None` where it has no such directory.
    pub responses: Option<usize>,
}

/// A heartbeat, as far as it can be used.
#[derive(Debug)]
pub enum HeartbeatView {
    /// There is none.
    Absent,
    /// It is there, but unusable, for this reason.
    Bad(String),
    /// A record, when its file was written (epoch nanoseconds), and whether its process lives.
    Record(Box<Heartbeat>, i128, Life),
}

/// One candidate of an inbox.
#[derive(Debug)]
pub struct RequestView {
    /// Name of the file, unescaped.
    pub name: String,
    /// The id that the name stands for.
    pub id: Option<RequestId>,
    /// The request and the digest of its bytes, or why it cannot be used.
    pub content: Result<(Box<ForwardedPermissionRequest>, Digest), String>,
    /// Facts of the file, where it could be opened.
    pub stamp: Option<FileStamp>,
    /// Whether its requester still waits.
    pub life: RequesterLife,
}

impl Spool {
    /// All sessions, by name.
    pub fn sessions(&self) -> Result<Vec<SessionView>, SpoolError> {
        let mut names = BTreeSet::new();
        let sessions = self.open_top(SESSIONS)?;
        let serving = self.open_top(SERVING)?;
        if let Some(dir) = &sessions {
            dir.each_name(|name| names.extend([lossy(name)]))
                .context("list", dir.path())?;
        }
        if let Some(dir) = &serving {
            dir.each_name(|name| {
                let name = lossy(name);
                let stem = name
                    .strip_suffix(".json")
                    .or_else(|| name.strip_suffix(".lock"));
                names.extend(stem.map(str::to_owned));
            })
            .context("list", dir.path())?;
        }
        Ok(names
            .into_iter()
            .map(|name| view(name, sessions.as_ref(), serving.as_ref()))
            .collect())
    }

    /// Some of the sessions that have a heartbeat of a process that is not known to be dead, in the order of their names. Nothing
    /// else of them is looked at, and of the heartbeats no more than twice as many.
    pub fn served(&self, most: usize) -> Result<Vec<SessionId>, SpoolError> {
        let mut names = BTreeSet::new();
        let Some(serving) = self.open_top(SERVING)? else {
            return Ok(Vec::new());
        };
        serving
            .each_name(|name| {
                names.extend(lossy(name).strip_suffix(".json").map(str::to_owned));
                if names.len() > most.saturating_mul(2) {
                    names.pop_last();
                }
            })
            .context("list", serving.path())?;
        let lives = |name: &String| match heartbeat_view(&serving, name) {
            HeartbeatView::Record(_, _, life) => life != Life::Dead,
            HeartbeatView::Absent | HeartbeatView::Bad(_) => false,
        };
        Ok(names
            .into_iter()
            .filter(lives)
            .filter_map(|name| SessionId::from_encoded(&name))
            .take(most)
            .collect())
    }

    /// The names on disk of the sessions that have a directory.
    pub fn inboxes(&self) -> Result<Vec<String>, SpoolError> {
        let mut names = Vec::new();
        if let Some(dir) = self.open_top(SESSIONS)? {
            dir.each_name(|name| names.push(lossy(name)))
                .context("list", dir.path())?;
        }
        names.sort();
        Ok(names)
    }

    /// Hands every candidate in the inbox of the session called `name` on disk to `see`, in the order of their names. An inbox
    /// that cannot be looked into is handed over itself, with the reason: one bad session must not hide the others.
    pub fn each_request(&self, name: &str, see: impl FnMut(RequestView)) -> Result<(), SpoolError> {
        self.each_request_from(name, b"", see)
    }

    /// The same, of the files whose names begin with `start`.
    pub fn each_request_from(
        &self,
        name: &str,
        start: &[u8],
        mut see: impl FnMut(RequestView),
    ) -> Result<(), SpoolError> {
        let Some(sessions) = self.open_top(SESSIONS)? else {
            return Ok(());
        };
        let mut names: Vec<CString> = Vec::new();
        let listed = open_below(&sessions, &[name, REQUESTS]).and_then(|requests| {
            if let Some(requests) = &requests {
                requests.each_name(|name| {
                    let name_bytes = name.to_bytes();
                    let is_wanted = name_bytes.starts_with(start) && name_bytes.ends_with(b".json");
                    names.extend(is_wanted.then(|| name.to_owned()));
                })?;
            }
            Ok(requests)
        });
        let requests = match listed {
            Ok(Some(requests)) => requests,
            Ok(None) => return Ok(()),
            Err(error) => {
                see(bad(REQUESTS, format!("it cannot be looked into: {error}")));
                return Ok(());
            }
        };
        names.sort_unstable();
        names
            .iter()
            .filter_map(|name| request_view(&requests, name))
            .for_each(&mut see);
        Ok(())
    }

    /// Number of objects in the quarantine; the reasons beside them do not count.
    pub fn quarantined(&self) -> Result<usize, SpoolError> {
        let Some(dir) = self.open_top(QUARANTINE)? else {
            return Ok(0);
        };
        let mut count = 0;
        dir.each_name(|name| {
            // A reason that is being written, or whose writer was killed, is nothing that was moved aside either.
            let name = name.to_bytes();
            count += usize::from(!name.starts_with(b".") && !name.ends_with(b".reason.json"));
        })
        .context("list", dir.path())?;
        Ok(count)
    }

    fn open_top(&self, name: &str) -> Result<Option<Dir>, SpoolError> {
        self.root
            .open_dir(name)
            .context("open", self.path().join(name))
    }
}

fn open_below(dir: &Dir, names: &[&str]) -> std::io::Result<Option<Dir>> {
    let mut opened: Option<Dir> = None;
    for name in names {
        match opened.as_ref().unwrap_or(dir).open_dir(name)? {
            Some(next) => opened = Some(next),
            None => return Ok(None),
        }
    }
    Ok(opened)
}

fn view(name: String, sessions: Option<&Dir>, serving: Option<&Dir>) -> SessionView {
    let session = SessionId::from_encoded(&name);
    let (lock, owner) = match (&session, serving) {
        (Some(session), Some(serving)) => (
            lock::state(serving, session).unwrap_or(LockState::Unsupported),
            lock::owner(serving, session),
        ),
        _ => (LockState::Absent, Owner::default()),
    };
    let count = |child: &str| {
        let dir = open_below(sessions?, &[&name, child]).ok().flatten()?;
        let mut count = 0;
        dir.each_name(|name| count += usize::from(name.to_bytes().ends_with(b".json")))
            .ok()?;
        Some(count)
    };
    SessionView {
        session,
        heartbeat: serving.map_or(HeartbeatView::Absent, |serving| {
            heartbeat_view(serving, &name)
        }),
        lock,
        owner,
        requests: count(REQUESTS),
        responses: count(RESPONSES),
        name,
    }
}

fn heartbeat_view(serving: &Dir, name: &str) -> HeartbeatView {
    match serving.read(&format!("{name}.json"), MAX_HEARTBEAT_BYTES) {
        FileRead::Missing => HeartbeatView::Absent,
        FileRead::Refused(refusal) => HeartbeatView::Bad(refusal.to_string()),
        FileRead::Failed(error) => HeartbeatView::Bad(error.to_string()),
        FileRead::Content { bytes, stamp } => match Heartbeat::from_json(&bytes) {
            Err(unusable) => HeartbeatView::Bad(unusable.to_string()),
            Ok(record) => {
                let life = match &record.relay {
                    Some(relay) => process::life(record.pid, &relay.process),
                    None => process::exists(record.pid),
                };
                HeartbeatView::Record(Box::new(record), stamp.mtime_ns, life)
            }
        },
    }
}

fn bad(name: &str, reason: String) -> RequestView {
    RequestView {
        name: name.to_owned(),
        id: None,
        content: Err(reason),
        stamp: None,
        life: RequesterLife::Unknown,
    }
}

fn request_view(requests: &Dir, name: &CString) -> Option<RequestView> {
    let Some(text) = text_of(name) else {
        let name = os_str_of(name).to_string_lossy();
        return Some(bad(&name, "its name is not text".to_owned()));
    };
    let id = RequestId::from_file_name(text);
    let (read, file) = requests.read_open(text, MAX_REQUEST_BYTES);
    let mut stamp = None;
    let content = match read {
        FileRead::Missing => return None,
        FileRead::Refused(refusal) => Err(refusal.to_string()),
        FileRead::Failed(error) => Err(error.to_string()),
        FileRead::Content { bytes, stamp: read } => {
            stamp = Some(read);
            match ForwardedPermissionRequest::from_json(&bytes) {
                Err(unusable) => Err(unusable.to_string()),
                Ok(request) if Some(&request.id) != id.as_ref() => Err(format!(
                    "its id {:?} is not its file name",
                    request.id.as_str()
                )),
                Ok(request) => Ok((Box::new(request), Digest::of(&bytes))),
            }
        }
    };
    let claims_lock = matches!(&content, Ok((request, _)) if request.relay.as_ref().is_some_and(|relay| relay.held));
    let life = match file {
        Some(file) if claims_lock => match lock::probe_file(&file) {
            LockState::Held => RequesterLife::Waiting,
            LockState::Free => RequesterLife::Gone,
            LockState::Absent | LockState::Unsupported => RequesterLife::Unknown,
        },
        Some(_) | None => RequesterLife::Unknown,
    };
    Some(RequestView {
        name: text.to_owned(),
        id,
        content,
        stamp,
        life,
    })
}

#[cfg(test)]
mod tests;
