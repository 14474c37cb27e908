//! What a person decided before a crash: in the log, and not yet at the one who asked.
//!
//! A person's decision is on the disk before it is published. Where the server ends in between, the request still lies in its inbox,
//! for nothing but the answer removes it; then the next server finds the decision here, by the request's id, and whoever uses it
//! holds it against the digest of the bytes that lie there. What nobody's word stands behind is not looked for: policy decides
//! again.
//!
//! The log is read backwards, from its end on and over the files that were rotated away, as far as it takes: until the newest word
//! about each request is found, or is older than any of them, or so much has been read.
//!
//! A decision in the log is no proof of itself: who can write the log could forge one. It does not reach a requester that was told
//! a key: the key went with the server that decided, and what another one seals is not believed. Any other requester takes an
//! unsealed answer too, which is easier to forge than a line of a log.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::Duration;

use memchr::memmem::Finder;
use memchr::{memchr, memrchr};
use rustix::fs::OFlags;

use super::logged::Logged;
use super::place::open_checked;
use super::{AuditError, Ending, Event, family, line};
use crate::wire::{
    Decision, DecisionSource, DecisionState, Digest, GrantWidth, RequestId, SessionId,
};

/// How much is read at once.
const CHUNK: usize = 256 << 10;
/// How much is read at most.
const MOST_BYTES: u64 = 64 << 20;
/// Longest line that is looked at. One about a decision is far shorter.
const MAX_LINE: usize = 1 << 20;
/// How far the clock of the log and that of the files may be apart.
const MARGIN: Duration = Duration::from_hours(1);
/// How much may be older than all that waits before nothing newer is expected. A clock that was set back makes some lines look old.
const MOST_OLD_BYTES: usize = 1 << 20;

/// What stands before the id in a line. No text in a line contains it, for its quotes would be escaped there.
const ID_KEY: &[u8] = br#""requestId":""#;

/// A person's decision about a request that was not answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recalled {
    /// Digest of the bytes that were decided.
    pub digest: Digest,
    /// The decision. What was granted with it for the whole session is no part of it.
    pub decision: Decision,
    /// When it was recorded, as it stands there.
    pub recorded_at: String,
}

/// What was found.
#[derive(Debug, Default)]
pub struct Recall {
    /// The decisions, each the newest word about its request.
    pub decisions: HashMap<RequestId, Recalled>,
    /// Why not all could be read.
    pub trouble: Option<AuditError>,
}

/// Looks in the log at `path` for what a person decided about these requests of a session, the oldest of which is from `oldest_ms`.
pub fn recall<'a>(
    path: &Path,
    session: &SessionId,
    waiting: impl IntoIterator<Item = &'a RequestId>,
    oldest_ms: Option<i64>,
) -> Recall {
    let margin = i64::try_from(MARGIN.as_millis()).unwrap_or(i64::MAX);
    let mut search = Search {
        session,
        open: waiting.into_iter().map(|id| (id.as_str(), id)).collect(),
        not_before_ms: oldest_ms.map(|oldest| oldest.saturating_sub(margin)),
        old_bytes: 0,
        id_key: Finder::new(ID_KEY),
        found: HashMap::new(),
    };
    let trouble = search.all_files(path).err();
    Recall {
        decisions: search.found,
        trouble,
    }
}

struct Search<'a> {
    session: &'a SessionId,
    /// Requests about which no word was found yet.
    open: HashMap<&'a str, &'a RequestId>,
    not_before_ms: Option<i64>,
    /// How much of what was read last is older than that.
    old_bytes: usize,
    id_key: Finder<'static>,
    found: HashMap<RequestId, Recalled>,
}

impl Search<'_> {
    fn all_files(&mut self, path: &Path) -> Result<(), AuditError> {
        if self.open.is_empty() {
            return Ok(());
        }
        each_line_backwards(path, MOST_BYTES, |line| self.look(line))
    }

    /// Looks at one line; ends the search where nothing more is to be found.
    fn look(&mut self, line: &[u8]) -> ControlFlow<()> {
        if let (Some(bound), Some(at)) = (self.not_before_ms, line::time_of(line)) {
            self.old_bytes = if at < bound {
                self.old_bytes + line.len()
            } else {
                0
            };
            if self.old_bytes > MOST_OLD_BYTES {
                return ControlFlow::Break(());
            }
        }
        if let Some(id) = self.id_of(line)
            && let Some(entry) = Logged::parse(line)
            && entry.request_id() == Some(id.as_str())
            && entry.text("targetSessionId") == Some(self.session.as_str())
            && let Some(word) = word(&entry)
        {
            self.open.remove(id.as_str());
            if let Word::Decided(recalled) = word {
                self.found.insert(id, *recalled);
            }
        }
        if self.open.is_empty() {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }

    /// The request that a line is about, if it is one of those that are open. Most lines are about others: they are not taken apart.
    fn id_of(&self, line: &[u8]) -> Option<RequestId> {
        let at = self.id_key.find(line)?;
        let rest = line.get(at + ID_KEY.len()..)?;
        let id = std::str::from_utf8(rest.get(..memchr(b'"', rest)?)?).ok()?;
        self.open.get(id).map(|id| (*id).clone())
    }
}

/// Shows the lines of a log and of the files that were rotated away, the last one first, at most so many bytes of them.
pub(super) fn each_line_backwards(
    path: &Path,
    most_bytes: u64,
    mut see: impl FnMut(&[u8]) -> ControlFlow<()>,
) -> Result<(), AuditError> {
    let mut left = most_bytes;
    let mut file = |path: &Path| {
        let file = open_checked(path, OFlags::RDONLY)?;
        backwards(&file, &mut left, &mut see).map_err(|source| failed(path, source))
    };
    // Opened before the others are listed: what is rotated away meanwhile is read twice rather than not at all.
    let mut on = match file(path) {
        // It may have been rotated away a moment ago.
        Err(AuditError::Open { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            ControlFlow::Continue(())
        }
        read => read?,
    };
    let rotated = family::list(path).map_err(|source| failed(path, source))?;
    for older in rotated.iter().rev() {
        if on.is_break() {
            break;
        }
        on = file(&older.path)?;
    }
    Ok(())
}

fn failed(path: &Path, source: io::Error) -> AuditError {
    AuditError::Read {
        path: path.to_owned(),
        source,
    }
}

/// What the newest entry about a request says.
enum Word {
    /// A person decided it.
    Decided(Box<Recalled>),
    /// Nothing that holds: it is asked, was decided by nobody's word, or is over.
    Nothing,
}

/// What an entry says about its request; `None` where an older one may say more.
fn word(entry: &Logged) -> Option<Word> {
    let name = entry.event();
    match (Ending::from_name(name), Event::from_name(name)) {
        (Some(ending @ (Ending::Approved | Ending::Denied)), _) => {
            let decided = decided(entry, ending == Ending::Approved);
            Some(decided.map_or(Word::Nothing, |recalled| Word::Decided(Box::new(recalled))))
        }
        // With one write the answer's entry follows: where it did not get written, this counts for nothing.
        (Some(ending), _) => ending.closes().then_some(Word::Nothing),
        (None, Some(Event::RequestCreated | Event::Prompted | Event::AnswerUnclaimed)) => {
            Some(Word::Nothing)
        }
        (None, _) => None,
    }
}

/// The decision of a person that an answer's entry holds.
fn decided(entry: &Logged, is_approved: bool) -> Option<Recalled> {
    let decided_by = serde_json::to_vec(entry.members().get("decidedBy")?).ok()?;
    let decided_by = DecisionSource::from_json(&decided_by)?;
    if !matches!(decided_by.effective(), DecisionSource::User { .. }) {
        return None;
    }
    let state = DecisionState::from_name(entry.text("resolution")?)?;
    let width = match entry.text("sessionGrantWidth") {
        Some("family") => GrantWidth::Family,
        Some(_) | None => GrantWidth::Proven,
    };
    // A grant for the whole serving session is written as a plain approval; it stands in no entry of an answer.
    let is_whole = state != DecisionState::ApprovedForServingSession;
    (state.is_approved() == is_approved && is_whole).then_some(())?;
    Some(Recalled {
        digest: entry.text("requestDigest")?.parse().ok()?,
        decision: Decision {
            state,
            denial_reason: entry.text("denialReason").map(str::to_owned),
            decided_by,
            width,
        },
        recorded_at: entry.text("timestamp")?.to_owned(),
    })
}

/// Shows the lines of a file, the last one first. What has no newline at its end is none yet. Says whether to go on.
fn backwards(
    file: &File,
    left: &mut u64,
    mut see: impl FnMut(&[u8]) -> ControlFlow<()>,
) -> io::Result<ControlFlow<()>> {
    let mut start = file.metadata()?.len();
    // The beginning of what was read, up to its first newline; and whether that newline ends a line that can be shown.
    let mut carried: Vec<u8> = Vec::new();
    let mut ends = false;
    while start > 0 {
        let count = (CHUNK as u64).min(start).min(*left);
        let Ok(count @ 1..) = usize::try_from(count) else {
            return Ok(ControlFlow::Break(()));
        };
        start -= count as u64;
        *left -= count as u64;
        let mut bytes = vec![0; count];
        file.read_exact_at(&mut bytes, start)?;
        bytes.append(&mut carried);
        let mut end = bytes.len();
        while let Some(newline) = memrchr(b'\n', bytes.get(..end).unwrap_or_default()) {
            let line = bytes.get(newline + 1..end).unwrap_or_default();
            if ends && see(line).is_break() {
                return Ok(ControlFlow::Break(()));
            }
            ends = true;
            end = newline;
        }
        bytes.truncate(end);
        if bytes.len() > MAX_LINE {
            bytes.clear();
            ends = false;
        }
        carried = bytes;
    }
    if ends && see(&carried).is_break() {
        return Ok(ControlFlow::Break(()));
    }
    Ok(ControlFlow::Continue(()))
}

#[cfg(test)]
mod tests;
