//! What a prompt may show: the complete facts of one ask, as its gate knew them.
//!
//! The payload is complete by contract; only a renderer leaves anything out. The guard is all-or-nothing at every depth:
//! a missing nullable key is malformed, one bad evidence entry drops the whole payload. What it says about the requester is
//! never believed: the serving session replaces it (see [`PromptPayload::projected`]).

use serde::Serialize;

use super::json::Fields;

/// A complete description of one ask.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PromptPayload {
    /// What kind of gate asks.
    pub kind: PayloadKind,
    /// The facts that every render shows.
    pub request: RequestFacts,
    /// What helps to decide, complete and in order.
    pub evidence: Vec<Evidence>,
    /// Texts that a model wrote about the ask.
    pub annotations: Vec<Annotation>,
}

/// Kind of the gate that asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[expect(
    missing_docs,
    reason = "the names are the wire's own and say all there is"
)]
pub enum PayloadKind {
    Bash,
    Mcp,
    Tool,
    Path,
    ExternalDirectory,
    BashExternalDirectory,
    Skill,
    SkillRead,
    /// A forwarded ask that carried no usable payload.
    Forwarded,
}

impl PayloadKind {
    /// The kind with this wire name.
    pub fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "bash" => Self::Bash,
            "mcp" => Self::Mcp,
            "tool" => Self::Tool,
            "path" => Self::Path,
            "external_directory" => Self::ExternalDirectory,
            "bash_external_directory" => Self::BashExternalDirectory,
            "skill" => Self::Skill,
            "skill_read" => Self::SkillRead,
            "forwarded" => Self::Forwarded,
            _ => return None,
        })
    }
}

/// The invariant core: no budget of any renderer drops one of these.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RequestFacts {
    /// Who asks.
    pub requester: Requester,
    /// Gate surface.
    pub surface: String,
    /// Tool that is gated.
    pub tool_name: Option<String>,
    /// Name under which the tool was called, where it differs.
    pub invoked_tool_name: Option<String>,
    /// What is asked for: a command, a path, a target, a skill.
    pub value: String,
    /// Rule that made this an ask, sentinels included.
    pub matched_pattern: Option<String>,
    /// Where in a command line the unit stands.
    pub command_context: Option<CommandContext>,
    /// The unit that really runs, where it adds to the value.
    pub executed_unit: Option<String>,
    /// Spelling of a path that a rule matched. The only key that may be absent on the wire.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub matched_spelling: Option<String>,
}

/// Who asks, as the serving session knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Requester {
    /// Agent name, where known.
    pub agent_name: Option<String>,
    /// Whether the ask came from another session.
    pub forwarded: bool,
    /// The asking session.
    pub session_id: Option<String>,
}

/// Where in a command line an executed unit stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[expect(
    missing_docs,
    reason = "the names are the wire's own and say all there is"
)]
pub enum CommandContext {
    CommandSubstitution,
    ProcessSubstitution,
    Subshell,
}

/// One labelled piece of evidence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Evidence {
    /// What it is.
    pub label: String,
    /// The text, whole.
    pub text: String,
    /// A second text that belongs to it, such as what a path resolves to.
    pub detail: Option<String>,
}

/// One text about the ask that a model wrote.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Annotation {
    /// Name of the annotator.
    pub source: String,
    /// Its text.
    pub text: String,
}

impl PromptPayload {
    /// Reads the value under `payload`; anything malformed at any depth gives `None`.
    pub(crate) fn read(fields: &Fields<'_>) -> Option<Self> {
        Some(Self {
            kind: PayloadKind::from_name(&fields.text("kind")?)?,
            request: RequestFacts::read(&fields.object("request")?)?,
            evidence: fields.each("evidence", |entry| {
                Some(Evidence {
                    label: entry.text("label")?,
                    text: entry.text("text")?,
                    detail: entry.nullable_text("detail")?,
                })
            })?,
            annotations: fields.each("annotations", |entry| {
                Some(Annotation {
                    source: entry.text("source")?,
                    text: entry.text("text")?,
                })
            })?,
        })
    }

    /// Reads a whole document that is one payload, as `ask --payload` takes it.
    pub fn from_json(bytes: &[u8]) -> Result<Self, super::Unusable> {
        let document = super::json::Document::decode(bytes, super::MAX_REQUEST_BYTES)?;
        Self::read(&document.object()?).ok_or(super::Unusable::NotThisKind {
            what: "prompt payload",
        })
    }

    /// What the serving session shows: everything as sent, but who asks is what the envelope says.
    #[must_use]
    pub fn projected(mut self, agent_name: Option<String>, session_id: Option<String>) -> Self {
        self.request.requester = Requester {
            agent_name,
            forwarded: true,
            session_id,
        };
        self
    }

    /// What is shown where no usable payload came: the display fields, and a pre-rendered text as evidence where an old peer
    /// sent one. The ask still reaches the person.
    pub fn degraded(
        requester: Requester,
        surface: Option<String>,
        value: Option<String>,
        message: Option<String>,
    ) -> Self {
        Self {
            kind: PayloadKind::Forwarded,
            request: RequestFacts {
                requester,
                surface: surface.unwrap_or_default(),
                tool_name: None,
                invoked_tool_name: None,
                value: value.unwrap_or_default(),
                matched_pattern: None,
                command_context: None,
                executed_unit: None,
                matched_spelling: None,
            },
            evidence: message
                .into_iter()
                .map(|text| Evidence {
                    label: "message".to_owned(),
                    text,
                    detail: None,
                })
                .collect(),
            annotations: Vec::new(),
        }
    }
}

impl RequestFacts {
    fn read(fields: &Fields<'_>) -> Option<Self> {
        let requester = fields.object("requester")?;
        Some(Self {
            requester: Requester {
                agent_name: requester.nullable_text("agentName")?,
                forwarded: requester.boolean("forwarded")?,
                session_id: requester.nullable_text("sessionId")?,
            },
            surface: fields.text("surface")?,
            tool_name: fields.nullable_text("toolName")?,
            invoked_tool_name: fields.nullable_text("invokedToolName")?,
            value: fields.text("value")?,
            matched_pattern: fields.nullable_text("matchedPattern")?,
            command_context: match fields.nullable_text("commandContext")? {
                None => None,
                Some(name) => Some(match name.as_str() {
                    "command_substitution" => CommandContext::CommandSubstitution,
                    "process_substitution" => CommandContext::ProcessSubstitution,
                    "subshell" => CommandContext::Subshell,
                    _ => return None,
                }),
            },
            executed_unit: fields.nullable_text("executedUnit")?,
            matched_spelling: if fields.has("matchedSpelling") {
                fields.nullable_text("matchedSpelling")?
            } else {
                None
            },
        })
    }
}
