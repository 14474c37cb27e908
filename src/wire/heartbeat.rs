//! The record that says a session is being served, and what it can say about liveness.

use std::borrow::Cow;

use serde::Serialize;

use super::bound;
use super::json::{Document, Fields};
use super::process::ProcessMark;
use super::{MAX_HEARTBEAT_BYTES, Unusable, WriteError};

/// Contents of `serving/<session>.json`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heartbeat {
    /// The session that is served, never empty.
    pub session_id: String,
    /// Process that serves it, never zero.
    pub pid: u32,
    /// When the record was written, by the writer's wall clock, in epoch milliseconds: shown, never compared with ours.
    pub updated_at_ms: i64,
    /// Our own facts.
    pub relay: Option<HeartbeatRelay>,
}

/// What `relay` holds in a heartbeat.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HeartbeatRelay {
    /// The server holds the session's lock file for as long as it serves.
    pub held: bool,
    /// Verifies seals of this serving session.
    pub public_key: Option<String>,
    /// Which process serves, comparable within one boot and pid namespace.
    pub process: ProcessMark,
    /// Asks that wait for a person; for inspection only.
    pub queued: Option<u64>,
    /// How the session is served; for inspection only.
    pub mode: Option<String>,
    /// Agent name of the session; for inspection only.
    pub agent: Option<String>,
    /// Why its review log cannot be written, while that is so; for inspection only.
    pub log_failure: Option<String>,
    /// Why the files of its configuration are not in force as they are, while that is so; for inspection only.
    pub config_failure: Option<String>,
    /// The links of its chain of authorizers, in order; for inspection only.
    pub authorizers: Vec<LinkHealth>,
}

/// How a link of the chain fares, as its server tells.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LinkHealth {
    /// Its name, as configured.
    pub name: String,
    /// How often it was asked; zero where nobody answers to the name.
    pub asked: u64,
    /// How often it gave no verdict.
    pub failed: u64,
    /// Whether nobody answers to the name, so that it is skipped.
    pub missing: bool,
}

/// Most links that a heartbeat tells of. All of it has to stay small: a record that is too large to be read says that nobody serves.
const MAX_LINKS: usize = 16;
/// Most UTF-16 units of the name of one there.
const MAX_LINK_NAME: usize = 60;
/// Most UTF-16 units of an agent name there.
const MAX_AGENT_NAME: usize = 200;
/// Most UTF-16 units of what does not work.
const MAX_FAILURE: usize = 1_000;

impl Heartbeat {
    /// Reads a heartbeat file.
    pub fn from_json(bytes: &[u8]) -> Result<Self, Unusable> {
        let document = Document::decode(bytes, MAX_HEARTBEAT_BYTES)?;
        let fields = document.object()?;
        Ok(Self {
            session_id: fields
                .text("sessionId")
                .filter(|id| !id.is_empty())
                .ok_or(Unusable::Field("sessionId"))?,
            pid: fields.process_id("pid").ok_or(Unusable::Field("pid"))?,
            updated_at_ms: fields
                .finite_number("updatedAt")
                .ok_or(Unusable::Field("updatedAt"))?,
            relay: fields
                .object("relay")
                .map(|fields| HeartbeatRelay::read(&fields)),
        })
    }

    /// Writes a heartbeat file.
    pub fn to_json(&self) -> Result<Vec<u8>, WriteError> {
        let relay = self.relay.as_ref().map(|relay| RelayOut {
            v: super::RELAY_VERSION,
            held: relay.held,
            public_key: relay.public_key.as_deref(),
            pid_start: relay.process.pid_start.as_deref(),
            boot_id: relay.process.boot_id.as_deref(),
            pid_ns: relay.process.pid_ns.as_deref(),
            queued: relay.queued,
            mode: relay.mode.as_deref(),
            agent: clipped(relay.agent.as_ref(), MAX_AGENT_NAME),
            log_failure: clipped(relay.log_failure.as_ref(), MAX_FAILURE),
            config_failure: clipped(relay.config_failure.as_ref(), MAX_FAILURE),
            authorizers: relay
                .authorizers
                .iter()
                .take(MAX_LINKS)
                .map(LinkOut::of)
                .collect(),
        });
        Ok(serde_json::to_vec(&Out {
            session_id: &self.session_id,
            pid: self.pid,
            updated_at: self.updated_at_ms,
            relay,
        })?)
    }
}

impl HeartbeatRelay {
    fn read(fields: &Fields<'_>) -> Self {
        Self {
            held: fields.boolean("held").unwrap_or(false),
            public_key: fields.text("publicKey"),
            process: ProcessMark::read(fields),
            queued: fields.whole_number("queued"),
            mode: fields.text("mode"),
            agent: fields.text("agent"),
            log_failure: fields.text("logFailure"),
            config_failure: fields.text("configFailure"),
            authorizers: fields
                .each("authorizers", |link| {
                    Some(LinkHealth {
                        name: link.text("name")?,
                        asked: link.whole_number("asked")?,
                        failed: link.whole_number("failed")?,
                        missing: link.boolean("missing").unwrap_or(false),
                    })
                })
                .unwrap_or_default(),
        }
    }
}

fn clipped(text: Option<&String>, most: usize) -> Option<Cow<'_, str>> {
    text.map(|text| bound::clip(text, most))
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Out<'a> {
    session_id: &'a str,
    pid: u32,
    updated_at: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    relay: Option<RelayOut<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct RelayOut<'a> {
    v: u32,
    held: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    public_key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pid_start: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    boot_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pid_ns: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    queued: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mode: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    agent: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    log_failure: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    config_failure: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    authorizers: Vec<LinkOut<'a>>,
}

#[derive(Serialize)]
struct LinkOut<'a> {
    name: Cow<'a, str>,
    asked: u64,
    failed: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    missing: Option<bool>,
}

impl<'a> LinkOut<'a> {
    fn of(link: &'a LinkHealth) -> Self {
        Self {
            name: bound::clip(&link.name, MAX_LINK_NAME),
            asked: link.asked,
            failed: link.failed,
            missing: link.missing.then_some(true),
        }
    }
}

/// What a requester knows about the session it waits for, by its own observation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Liveness {
    /// It is served.
    Alive,
    /// No usable record.
    Absent,
    /// The record claims a lock that nobody holds.
    LockFree,
    /// The record has not changed for as long as a live server would leave it.
    Stale,
    /// The record's process does not exist any more.
    DeadPid,
    /// It is served, by a process whose seals the requester does not believe.
    OtherKey,
    /// It cannot be judged.
    Unknown,
}

impl Liveness {
    /// Wire name, as it stands in the review log.
    pub fn name(self) -> &'static str {
        match self {
            Self::Alive => "alive",
            Self::Absent => "absent",
            Self::LockFree => "lock_free",
            Self::Stale => "stale",
            Self::DeadPid => "dead_pid",
            Self::OtherKey => "other_key",
            Self::Unknown => "unknown",
        }
    }

    /// Whether the requester's patience runs out: only where it is sure that nobody serves.
    pub fn is_unserved(self) -> bool {
        match self {
            Self::Alive | Self::Unknown => false,
            Self::Absent | Self::LockFree | Self::Stale | Self::DeadPid | Self::OtherKey => true,
        }
    }
}
