//! What the log says about grants that files claim after a restart: who gave what, and whether that has ended.
//!
//! A file names the line that granted it by the BLAKE3 of that line. The log is read backwards from its end to that line. The chain
//! must hold all the way: whatever has happened to the grant since then stands between, and a line that was taken out there may have
//! been its end.
//!
//! It takes the log for what it is: lines that are chained without a secret. Who rewrites it from some line on, chain and all,
//! writes what is found here.
//!
//! Invariant: what is not found, does not fit, or cannot be read bears nothing out.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::path::Path;

use serde_json::Value;

use super::logged::Logged;
use super::recall::each_line_backwards;
use super::{AuditError, Ending, Event, line};
use crate::wire::SessionId;

/// How much is read at most.
const MOST_BYTES: u64 = 256 << 20;
/// What stands before the hash at the end of a line.
const CHAIN_KEY: &[u8] = b",\"chain\":\"";
const HASH_DIGITS: usize = 64;
/// Numbers from here on are none that a server gave, for it counts from 1; a line that says so was written to leave it none.
const NO_NUMBER: u64 = 1 << 53;

/// A grant that a file claims.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// Its number.
    pub id: u64,
    /// BLAKE3 of the line that granted it.
    pub line: String,
}

/// What the log says about a claimed grant.
#[derive(Debug, Clone, PartialEq)]
pub struct Borne {
    /// When it was recorded, in epoch milliseconds.
    pub at_ms: i64,
    /// The ask that it was given with.
    pub request_id: String,
    /// Where the person was asked who gave it.
    pub via: String,
    /// Surface and pattern, as they were suggested.
    pub surface: String,
    /// See there.
    pub pattern: String,
    /// Whether the wide form was chosen.
    pub is_family: bool,
    /// For whom.
    pub scope: Value,
    /// For how long.
    pub lifetime: Value,
    /// How many answers have rested on it since.
    pub uses: u32,
}

/// Why the log does not bear a claim out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotBorne {
    /// The line is not there, or too far back.
    #[error("the review log has no line that granted it")]
    NoLine,
    /// A line behind it was changed, or is missing.
    #[error("the review log is not whole from the line on that granted it")]
    Broken,
    /// The line is about something else.
    #[error("the line of the review log that it names grants something else")]
    OtherLine,
    /// It was given by a server that was not to keep grants.
    #[error("it was given while grants were not kept over a restart")]
    NotForKeeping,
    /// No person approved that ask, as far as the lines beside it say.
    #[error("no person's approval stands beside the line that granted it")]
    NoPerson,
    /// Its end stands behind it.
    #[error("the review log says that it was taken back, used up, over, or never in force")]
    Ended,
    /// What its answer says behind it is that nobody took it.
    #[error("the answer that it was given with did not reach its requester")]
    NotAnswered,
}

/// What a log says about claimed grants.
#[derive(Debug, Default)]
pub struct GrantedLog {
    /// For each claim, by its number.
    pub claims: HashMap<u64, Result<Borne, NotBorne>>,
    /// The highest number that was seen to be given to a grant of the session.
    pub last: u64,
    /// The latest time that any line tells.
    pub newest_ms: Option<i64>,
}

/// Looks in the log at `path` for what it says about grants of a session, whose requests lie in the directory `requests`: sessions of
/// other spools may have the same name, and the same log.
pub fn granted(
    path: &Path,
    session: &SessionId,
    requests: &str,
    claims: &[Claim],
) -> Result<GrantedLog, AuditError> {
    let mut search = Search {
        session,
        requests,
        open: claims
            .iter()
            .map(|claim| (claim.line.as_str(), claim))
            .fold(HashMap::new(), |mut open, (line, claim)| {
                open.entry(line).or_insert_with(Vec::new).push(claim.id);
                open
            }),
        found: GrantedLog::default(),
        is_whole: true,
        next: None,
        ended: HashSet::new(),
        unanswered: HashSet::new(),
        uses: HashMap::new(),
        beside: Vec::new(),
    };
    each_line_backwards(path, MOST_BYTES, |line| search.look(line))?;
    // The oldest line has none before it that could say who approved.
    for (id, _) in std::mem::take(&mut search.beside) {
        search.found.claims.insert(id, Err(NotBorne::NoPerson));
    }
    for ids in search.open.values() {
        for id in ids {
            search.found.claims.insert(*id, Err(NotBorne::NoLine));
        }
    }
    Ok(search.found)
}

struct Search<'a> {
    session: &'a SessionId,
    requests: &'a str,
    /// The numbers that lines are still looked for, by their hash.
    open: HashMap<&'a str, Vec<u64>>,
    found: GrantedLog,
    /// Whether each line so far is chained to the one before it.
    is_whole: bool,
    /// The line behind the one that is looked at.
    next: Option<Vec<u8>>,
    /// Numbers of grants whose end was seen.
    ended: HashSet<u64>,
    /// Asks whose recorded answer reached nobody, or was only given out by the next server: nothing was granted with it.
    unanswered: HashSet<String>,
    /// How many answers rested on a grant.
    uses: HashMap<u64, u32>,
    /// What the line behind this one granted, if this one says that a person approved it.
    beside: Vec<(u64, Borne)>,
}

impl Search<'_> {
    fn look(&mut self, bytes: &[u8]) -> ControlFlow<()> {
        self.found.newest_ms = self.found.newest_ms.max(line::time_of(bytes));
        // Where nothing is claimed any more, only the numbers are looked for.
        let claimed = !self.open.is_empty() || !self.beside.is_empty();
        let ids = if claimed {
            let hash = blake3::hash(bytes).to_hex();
            if let Some(next) = &self.next {
                self.is_whole &= chained_to(next) == Some(hash.as_bytes());
            }
            self.open.remove(hash.as_str())
        } else {
            None
        };
        // Most lines are about something else: they are not taken apart.
        let entry = if ids.is_some() || !self.beside.is_empty() || may_tell(bytes) {
            Logged::parse(bytes)
        } else {
            None
        };
        for (id, borne) in std::mem::take(&mut self.beside) {
            let approves = self.is_whole
                && entry.as_ref().is_some_and(|entry| {
                    entry.event() == Ending::RequestApproved.name()
                        && is_by_person(entry, &borne.request_id, &borne.via)
                });
            let said = if approves {
                Ok(borne)
            } else {
                Err(NotBorne::NoPerson)
            };
            self.found.claims.insert(id, said);
        }
        if let Some(ids) = ids {
            for id in ids {
                match self.bear_out(id, entry.as_ref()) {
                    Ok(borne) => self.beside.push((id, borne)),
                    Err(why) => drop(self.found.claims.insert(id, Err(why))),
                }
            }
        }
        if let Some(entry) = &entry {
            self.note(entry);
        }
        self.next = claimed.then(|| bytes.to_vec());
        if self.open.is_empty() && self.beside.is_empty() && self.found.last > 0 {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }

    /// Notes what happened to grants.
    fn note(&mut self, entry: &Logged) {
        let numbers = |key: &str| -> Vec<u64> {
            let list = entry.members().get(key).and_then(Value::as_array);
            list.into_iter()
                .flatten()
                .filter_map(Value::as_u64)
                .filter(|number| *number < NO_NUMBER)
                .collect()
        };
        match Event::from_name(entry.event()) {
            Some(
                Event::GrantExpired
                | Event::GrantUsedUp
                | Event::GrantRevoked
                | Event::GrantRefused,
            ) if entry.text("sessionId") == Some(self.session.as_str()) => {
                // One that is refused for its file has no number there.
                let id = entry.members().get("grantId").and_then(Value::as_u64);
                self.ended.extend(id);
            }
            Some(Event::AnswerUnclaimed | Event::DecisionRecalled) if self.is_of_session(entry) => {
                self.unanswered
                    .extend(entry.request_id().map(str::to_owned));
            }
            Some(Event::SessionRecorded) if self.is_own(entry) => {
                let newest = numbers("grantIds").into_iter().max();
                self.found.last = self.found.last.max(newest.unwrap_or(0));
            }
            _ if entry.event() == Ending::AutoApproved.name() && self.is_own(entry) => {
                for id in numbers("grantIds") {
                    let uses = self.uses.entry(id).or_default();
                    *uses = uses.saturating_add(1);
                }
            }
            _ => {}
        }
    }

    fn is_of_session(&self, entry: &Logged) -> bool {
        entry.text("targetSessionId") == Some(self.session.as_str())
    }

    /// Whether it is about an ask of this session in this spool.
    fn is_own(&self, entry: &Logged) -> bool {
        let within = |path: &str| Some(path.strip_prefix(self.requests)?.starts_with('/'));
        self.is_of_session(entry) && entry.text("requestPath").and_then(within) == Some(true)
    }

    /// What the line that granted it says about a grant.
    fn bear_out(&self, id: u64, entry: Option<&Logged>) -> Result<Borne, NotBorne> {
        if !self.is_whole {
            return Err(NotBorne::Broken);
        }
        if self.ended.contains(&id) {
            return Err(NotBorne::Ended);
        }
        let borne = entry
            .filter(|entry| entry.event() == Event::SessionRecorded.name() && self.is_own(entry))
            .and_then(|entry| self.read(id, entry))
            .ok_or(NotBorne::OtherLine)?;
        if self.unanswered.contains(&borne.request_id) {
            return Err(NotBorne::NotAnswered);
        }
        if entry.and_then(|entry| entry.flag("kept")) != Some(true) {
            return Err(NotBorne::NotForKeeping);
        }
        // The answer's own entry was written with it, and stands right behind it.
        let next = self.next.as_deref().and_then(Logged::parse);
        let is_answered = next.is_some_and(|next| {
            next.event() == Ending::Approved.name()
                && is_by_person(&next, &borne.request_id, &borne.via)
        });
        if is_answered {
            Ok(borne)
        } else {
            Err(NotBorne::NoPerson)
        }
    }

    fn read(&self, id: u64, entry: &Logged) -> Option<Borne> {
        let members = entry.members();
        let ids = members.get("grantIds")?.as_array()?;
        let place = ids.iter().position(|of| of.as_u64() == Some(id))?;
        let grant = members.get("grants")?.as_array()?.get(place)?;
        let text = |key: &str| Some(grant.get(key)?.as_str()?.to_owned());
        let next = self.next.as_deref().and_then(Logged::parse)?;
        let via = next.members().get("decidedBy")?.get("via")?.as_str()?;
        Some(Borne {
            at_ms: entry.at_ms()?,
            request_id: entry.request_id()?.to_owned(),
            via: via.to_owned(),
            surface: text("surface")?,
            pattern: text("pattern")?,
            is_family: entry.text("sessionGrantWidth") == Some("family"),
            scope: members.get("scope")?.clone(),
            lifetime: members.get("lifetime")?.clone(),
            uses: self.uses.get(&id).copied().unwrap_or(0),
        })
    }
}

/// Whether an entry about this ask says that a person decided it there.
fn is_by_person(entry: &Logged, request_id: &str, via: &str) -> bool {
    let decider = entry.members().get("decidedBy");
    let says = |key: &str| {
        decider
            .and_then(|decider| decider.get(key))
            .and_then(Value::as_str)
    };
    entry.request_id() == Some(request_id)
        && says("kind") == Some("user")
        && says("via") == Some(via)
}

/// Whether a line may be about grants.
fn may_tell(bytes: &[u8]) -> bool {
    let has = |word: &str| memchr::memmem::find(bytes, word.as_bytes()).is_some();
    has("\"grant") || has(Event::AnswerUnclaimed.name()) || has(Event::DecisionRecalled.name())
}

/// The hash that a line is chained to.
fn chained_to(line: &[u8]) -> Option<&[u8]> {
    let body = line.strip_suffix(b"\"}")?;
    let (before, hash) = body.split_at_checked(body.len().checked_sub(HASH_DIGITS)?)?;
    before.ends_with(CHAIN_KEY).then_some(hash)
}

#[cfg(test)]
mod tests;
