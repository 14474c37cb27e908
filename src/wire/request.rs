//! The request file: what a child asks, and how it is read and written.

use std::fmt;

use serde::Serialize;

use super::grant::{self, ApprovalGrant};
use super::intent::ForwardedAccessIntent;
use super::json::{Document, Fields};
use super::payload::{PromptPayload, Requester};
use super::process::ProcessMark;
use super::{MAX_REQUEST_BYTES, RELAY_VERSION, Unusable, WriteError, session};

/// Longest chain of hops that is carried along.
pub const MAX_HOPS: usize = 8;

/// Id of one ask: it names the request file, the response file and every log entry.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct RequestId(String);

impl RequestId {
    /// An id that may name a file: `^[A-Za-z0-9._-]{1,200}$`, neither `.` nor `..`.
    pub fn parse(text: &str) -> Option<Self> {
        let safe = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
        let named = (1..=200).contains(&text.len()) && !matches!(text, "." | "..");
        (named && text.bytes().all(safe)).then(|| Self(text.to_owned()))
    }

    /// A fresh id in the peer's form, from 16 random bytes.
    pub fn mint(random: [u8; 16]) -> Self {
        Self(format!(
            "perm-{}",
            uuid::Builder::from_random_bytes(random)
                .into_uuid()
                .hyphenated()
        ))
    }

    /// The id as it stands in documents.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Name of its request or response file.
    pub fn file_name(&self) -> String {
        format!("{}.json", self.0)
    }

    /// The id that a file of this name belongs to.
    pub fn from_file_name(name: &str) -> Option<Self> {
        Self::parse(name.strip_suffix(".json")?)
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What led to the ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RequestSource {
    /// A tool call.
    #[default]
    ToolCall,
    /// Input of a skill.
    SkillInput,
    /// A file of a skill that is read.
    SkillRead,
}

impl RequestSource {
    /// The source with this wire name.
    pub fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "tool_call" => Self::ToolCall,
            "skill_input" => Self::SkillInput,
            "skill_read" => Self::SkillRead,
            _ => return None,
        })
    }

    /// Wire name.
    pub fn name(self) -> &'static str {
        match self {
            Self::ToolCall => "tool_call",
            Self::SkillInput => "skill_input",
            Self::SkillRead => "skill_read",
        }
    }
}

/// A request file as a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForwardedPermissionRequest {
    /// Id of the ask.
    pub id: RequestId,
    /// When it was made, by the requester's clock, in epoch milliseconds: shown, never trusted.
    pub created_at_ms: i64,
    /// The session that asks.
    pub requester_session_id: String,
    /// The session that is asked.
    pub target_session_id: String,
    /// Agent name of the requester; empty means unknown.
    pub requester_agent_name: String,
    /// The complete facts, where the requester sent usable ones.
    pub payload: Option<PromptPayload>,
    /// Pre-rendered text of the oldest generation.
    pub message: Option<String>,
    /// What led to the ask.
    pub source: Option<RequestSource>,
    /// Display surface.
    pub surface: Option<String>,
    /// Display value.
    pub value: Option<String>,
    /// What the requester suggests to grant for its session; empty where it suggests nothing.
    pub grants: Vec<ApprovalGrant>,
    /// The facts that a policy judges.
    pub access_intent: Option<ForwardedAccessIntent>,
    /// Our own facts.
    pub relay: Option<RequestRelay>,
    /// Whether any text in here differs from the bytes on disk. Such a request is never allowed automatically.
    pub was_replaced: bool,
}

/// What `relay` holds in a request.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a member of the document"
)]
pub struct RequestRelay {
    /// The requester holds a lock on the request file for as long as it waits.
    pub held: bool,
    /// Process that asks.
    pub pid: Option<u32>,
    /// What makes that pid comparable.
    pub process: ProcessMark,
    /// How long the requester waits at most, in milliseconds.
    pub timeout_ms: Option<u64>,
    /// 128 random bits as text, so that two equal asks have different digests.
    pub nonce: Option<String>,
    /// The sessions that this ask came through, outermost child first.
    pub path: Vec<Hop>,
    /// Only what was decided beforehand is wanted: rules and grants answer, and where a rule says so somebody is asked; what no rule
    /// is about is left to the requester.
    pub rules_only: bool,
    /// It is about a call that is asked by another name as well, so what holds where no rule is about it is not wanted either. Counts
    /// with `rules_only` alone.
    pub guard: bool,
    /// Where a rule has somebody asked, that is wanted to be known, and nobody is to be asked. Counts with `rules_only` alone.
    pub verdict_only: bool,
}

/// One session that an ask came through.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Hop {
    /// Its id.
    pub session_id: String,
    /// Its agent.
    pub agent_name: String,
}

/// For which generation of the peer a request is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Generation {
    /// The newest.
    #[default]
    Current,
    /// The version on the npm registry: needs `message`, knows one surface per suggestion.
    G1,
}

impl ForwardedPermissionRequest {
    /// Reads a request file.
    pub fn from_json(bytes: &[u8]) -> Result<Self, Unusable> {
        let document = Document::decode(bytes, MAX_REQUEST_BYTES)?;
        let fields = document.object()?;
        let text = |key| fields.text(key).ok_or(Unusable::Field(key));
        let raw_id = text("id")?;
        let mut request = Self {
            id: RequestId::parse(&raw_id).ok_or(Unusable::UnsafeId)?,
            created_at_ms: fields
                .number("createdAt")
                .ok_or(Unusable::Field("createdAt"))?,
            requester_session_id: text("requesterSessionId")?,
            target_session_id: text("targetSessionId")?,
            requester_agent_name: text("requesterAgentName")?,
            payload: fields
                .object("payload")
                .and_then(|fields| PromptPayload::read(&fields)),
            message: fields.text("message"),
            source: fields
                .text("source")
                .and_then(|name| RequestSource::from_name(&name)),
            surface: fields.text("surface"),
            value: fields.text("value"),
            grants: fields
                .object("sessionApproval")
                .map(|fields| grant::read(&fields))
                .unwrap_or_default(),
            access_intent: fields
                .object("accessIntent")
                .and_then(|fields| ForwardedAccessIntent::read(&fields)),
            relay: fields
                .object("relay")
                .map(|fields| RequestRelay::read(&fields)),
            was_replaced: false,
        };
        request.was_replaced = document.was_replaced();
        Ok(request)
    }

    /// Writes a request file: one line without a newline, in the peer's key order.
    ///
    /// For [`Generation::G1`] the pre-rendered `message` must be set. A path of more than [`MAX_HOPS`] is refused, for a
    /// reader would drop it whole.
    pub fn to_json(&self, generation: Generation) -> Result<Vec<u8>, WriteError> {
        if self
            .relay
            .as_ref()
            .is_some_and(|relay| relay.path.len() > MAX_HOPS)
        {
            return Err(WriteError::TooManyHops);
        }
        let message = match generation {
            Generation::Current => None,
            Generation::G1 => Some(self.message.as_deref().ok_or(WriteError::NoMessage)?),
        };
        Ok(serde_json::to_vec(&Out {
            id: self.id.as_str(),
            created_at: self.created_at_ms,
            requester_session_id: &self.requester_session_id,
            target_session_id: &self.target_session_id,
            requester_agent_name: &self.requester_agent_name,
            message,
            payload: self.payload.as_ref(),
            source: self.source,
            surface: self.surface.as_deref(),
            value: self.value.as_deref(),
            session_approval: self.approval(generation),
            access_intent: self.access_intent.as_ref(),
            relay: self.relay.as_ref().map(RelayOut::from),
        })?)
    }

    fn approval(&self, generation: Generation) -> Option<ApprovalOut<'_>> {
        let first = self.grants.first()?;
        match generation {
            Generation::Current => Some(ApprovalOut::Current {
                grants: &self.grants,
            }),
            Generation::G1 => self
                .grants
                .iter()
                .all(|grant| grant.surface == first.surface)
                .then(|| ApprovalOut::G1 {
                    surface: &first.surface,
                    patterns: self
                        .grants
                        .iter()
                        .map(|grant| grant.pattern.as_str())
                        .collect(),
                }),
        }
    }

    /// Whether only what was decided beforehand is wanted.
    pub fn is_rules_only(&self) -> bool {
        self.relay.as_ref().is_some_and(|relay| relay.rules_only)
    }

    /// Whether it only guards a call that is asked by another name.
    pub fn is_guard(&self) -> bool {
        self.relay
            .as_ref()
            .is_some_and(|relay| relay.rules_only && relay.guard)
    }

    /// Whether nobody is to be asked, whatever rules say.
    pub fn is_verdict_only(&self) -> bool {
        self.relay
            .as_ref()
            .is_some_and(|relay| relay.rules_only && relay.verdict_only)
    }

    /// Agent name, where the requester gave one.
    pub fn agent_name(&self) -> Option<&str> {
        Some(self.requester_agent_name.as_str()).filter(|name| !session::trim(name).is_empty())
    }

    /// What the serving session shows of this request: the sent facts under the envelope's own requester, or the degraded
    /// form where no usable payload came.
    pub fn projection(&self) -> PromptPayload {
        self.projected(PromptPayload::clone)
    }

    /// As [`Self::projection`], without the evidence and what models noted: what the ask is, however much comes with it.
    pub fn core(&self) -> PromptPayload {
        self.projected(|payload| PromptPayload {
            kind: payload.kind,
            request: payload.request.clone(),
            evidence: Vec::new(),
            annotations: Vec::new(),
        })
    }

    fn projected(&self, take: impl FnOnce(&PromptPayload) -> PromptPayload) -> PromptPayload {
        let agent_name = self.agent_name().map(str::to_owned);
        let session_id = Some(self.requester_session_id.clone());
        match &self.payload {
            Some(payload) => take(payload).projected(agent_name, session_id),
            None => PromptPayload::degraded(
                Requester {
                    agent_name,
                    forwarded: true,
                    session_id,
                },
                self.surface.clone(),
                self.value.clone(),
                self.message.clone(),
            ),
        }
    }
}

impl RequestRelay {
    fn read(fields: &Fields<'_>) -> Self {
        Self {
            held: fields.boolean("held").unwrap_or(false),
            pid: fields.process_id("pid"),
            process: ProcessMark::read(fields),
            timeout_ms: fields.whole_number("timeoutMs"),
            nonce: fields.text("nonce"),
            path: fields
                .each("path", Hop::read)
                .filter(|hops| hops.len() <= MAX_HOPS)
                .unwrap_or_default(),
            rules_only: fields.boolean("rulesOnly").unwrap_or(false),
            guard: fields.boolean("guard").unwrap_or(false),
            verdict_only: fields.boolean("verdictOnly").unwrap_or(false),
        }
    }
}

impl Hop {
    fn read(fields: &Fields<'_>) -> Option<Self> {
        Some(Self {
            session_id: fields.text("sessionId")?,
            agent_name: fields.text("agentName")?,
        })
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Out<'a> {
    id: &'a str,
    created_at: i64,
    requester_session_id: &'a str,
    target_session_id: &'a str,
    requester_agent_name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<&'a PromptPayload>,
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<RequestSource>,
    surface: Option<&'a str>,
    value: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    session_approval: Option<ApprovalOut<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    access_intent: Option<&'a ForwardedAccessIntent>,
    #[serde(skip_serializing_if = "Option::is_none")]
    relay: Option<RelayOut<'a>>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum ApprovalOut<'a> {
    Current {
        grants: &'a [ApprovalGrant],
    },
    G1 {
        surface: &'a str,
        patterns: Vec<&'a str>,
    },
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a member of the document"
)]
struct RelayOut<'a> {
    v: u32,
    held: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pid: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pid_start: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    boot_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pid_ns: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timeout_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    nonce: Option<&'a str>,
    #[serde(skip_serializing_if = "<[Hop]>::is_empty")]
    path: &'a [Hop],
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    rules_only: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    guard: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    verdict_only: bool,
}

impl<'a> From<&'a RequestRelay> for RelayOut<'a> {
    fn from(relay: &'a RequestRelay) -> Self {
        Self {
            v: RELAY_VERSION,
            held: relay.held,
            pid: relay.pid,
            pid_start: relay.process.pid_start.as_deref(),
            boot_id: relay.process.boot_id.as_deref(),
            pid_ns: relay.process.pid_ns.as_deref(),
            timeout_ms: relay.timeout_ms,
            nonce: relay.nonce.as_deref(),
            path: &relay.path,
            rules_only: relay.rules_only,
            guard: relay.guard,
            verdict_only: relay.verdict_only,
        }
    }
}
