//! Who decided: the provenance of a decision, whole from the deciding site to the child.
//!
//! A [`DecisionSource`] is made where the decision is made and never inferred later from a state or an event name. It nests:
//! each session that passes an answer on wraps it in one `forwarded` frame. On the wire it is optional and all-or-nothing.

use serde::{Serialize, Serializer};

use super::MAX_RESPONSE_BYTES;
use super::bound;
use super::json::{Document, Fields};

/// How many nested `forwarded` frames a reader accepts. One more drops the whole value: a cut chain would credit the wrong
/// decider.
pub const FRAME_BUDGET: usize = 4;

/// What decided a permission ask.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(
    tag = "kind",
    rename_all = "snake_case",
    rename_all_fields = "camelCase"
)]
pub enum DecisionSource {
    /// A person, for this very ask.
    User {
        /// The surface on which the person answered.
        via: UserSurface,
    },
    /// A link of the authorizer chain.
    Authorizer {
        /// Name of the link, as configured.
        name: String,
        /// What the link said.
        verdict: AuthorizerVerdict,
        /// Its reason; `None` for an allow.
        reason: Option<String>,
    },
    /// A recorded rule of the deciding session.
    Rule {
        /// Gate surface that was judged.
        surface: String,
        /// Pattern of the rule that decided, if one matched.
        pattern: Option<String>,
        /// Layer of the configuration that holds the rule.
        origin: Option<String>,
    },
    /// A grant that was given earlier in the deciding session.
    SessionApproval {
        /// Gate surface that was judged.
        surface: String,
        /// Pattern of the grant.
        pattern: Option<String>,
    },
    /// The operator's switch that turns every ask into an allow.
    Yolo {
        /// The rule or sentinel that would have asked.
        pattern: Option<String>,
    },
    /// A read of the host's own files, which its configuration exempts.
    InfrastructureRead,
    /// Nobody could be asked, or nobody answered.
    Unavailable {
        /// What was tried and why it failed; the same text as the denial's reason.
        reason: String,
    },
    /// The deciding code itself failed.
    GateError {
        /// What failed.
        reason: String,
    },
    /// Another session answered.
    Forwarded {
        /// The session that answered.
        #[serde(rename = "responderSessionId")]
        responder: Option<String>,
        /// What decided within it; `None` where it did not say.
        decision: Option<Box<DecisionSource>>,
        /// Whether its answer carried a seal of the key that the adopting session expects. It is the word of the session that
        /// adopted the answer, and as good as that one's own seal; a frame of the peer never says it.
        #[serde(
            rename = "relay",
            serialize_with = "write_sealed",
            skip_serializing_if = "is_unsealed"
        )]
        sealed: bool,
    },
}

/// Our own fact about a frame, under the one key that holds our own facts.
#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "the serialiser calls it with a reference to the field"
)]
fn write_sealed<S: Serializer>(sealed: &bool, serializer: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Out {
        sealed: bool,
    }
    Out { sealed: *sealed }.serialize(serializer)
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "the serialiser calls it with a reference to the field"
)]
fn is_unsealed(sealed: &bool) -> bool {
    !sealed
}

/// Where a person answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum UserSurface {
    /// The inline dialog.
    Dialog,
    /// The numbered fallback.
    Select,
}

impl UserSurface {
    /// Wire name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Dialog => "dialog",
            Self::Select => "select",
        }
    }
}

/// What a link of the chain may say when it decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum AuthorizerVerdict {
    /// Allowed, once.
    Allow,
    /// Denied.
    Deny,
}

impl DecisionSource {
    /// Reads a value as it stands under `decidedBy`.
    pub fn from_json(bytes: &[u8]) -> Option<Self> {
        let document = Document::decode(bytes, MAX_RESPONSE_BYTES).ok()?;
        Self::read(&document.object().ok()?)
    }

    /// Reads the value under `decidedBy`. Anything wrong at any depth gives `None` for the whole value.
    pub(crate) fn read(fields: &Fields<'_>) -> Option<Self> {
        Self::read_within(fields, FRAME_BUDGET)
    }

    fn read_within(fields: &Fields<'_>, budget: usize) -> Option<Self> {
        Some(match fields.text("kind")?.as_str() {
            "user" => Self::User {
                via: match fields.text("via")?.as_str() {
                    "dialog" => UserSurface::Dialog,
                    "select" => UserSurface::Select,
                    _ => return None,
                },
            },
            "authorizer" => Self::Authorizer {
                name: fields.text("name")?,
                verdict: match fields.text("verdict")?.as_str() {
                    "allow" => AuthorizerVerdict::Allow,
                    "deny" => AuthorizerVerdict::Deny,
                    _ => return None,
                },
                reason: fields.nullable_text("reason")?,
            },
            "rule" => Self::Rule {
                surface: fields.text("surface")?,
                pattern: fields.nullable_text("pattern")?,
                origin: fields.nullable_text("origin")?,
            },
            "session_approval" => Self::SessionApproval {
                surface: fields.text("surface")?,
                pattern: fields.nullable_text("pattern")?,
            },
            "yolo" => Self::Yolo {
                pattern: fields.nullable_text("pattern")?,
            },
            "infrastructure_read" => Self::InfrastructureRead,
            "unavailable" => Self::Unavailable {
                reason: fields.text("reason")?,
            },
            "gate_error" => Self::GateError {
                reason: fields.text("reason")?,
            },
            "forwarded" => {
                let rest = budget.checked_sub(1)?;
                let responder = fields.nullable_text("responderSessionId")?;
                let decision = if fields.is_null("decision") {
                    None
                } else {
                    Some(Box::new(Self::read_within(
                        &fields.object("decision")?,
                        rest,
                    )?))
                };
                Self::Forwarded {
                    responder,
                    decision,
                    sealed: fields
                        .object("relay")
                        .is_some_and(|relay| relay.boolean("sealed") == Some(true)),
                }
            }
            _ => return None,
        })
    }

    /// The source that really decided: `forwarded` frames unwrapped, at most four, stopping at one that does not say.
    pub fn effective(&self) -> &Self {
        let mut source = self;
        for _ in 0..FRAME_BUDGET {
            let Self::Forwarded {
                decision: Some(inner),
                ..
            } = source
            else {
                break;
            };
            source = inner;
        }
        source
    }

    /// Wraps an answer of another session, as the session that adopts it does. A chain that would be too long for any reader
    /// says which session answered, and not what decided within it: that is a gap, a shorter chain would be a lie.
    pub fn forwarded_from(responder: Option<String>, decision: Option<Self>) -> Self {
        let decision = decision
            .filter(|inner| inner.frames() < FRAME_BUDGET)
            .map(Box::new);
        Self::Forwarded {
            responder,
            decision,
            sealed: false,
        }
    }

    /// As [`DecisionSource::forwarded_from`], by a session that looked whether the answer was sealed.
    pub fn adopted_from(responder: String, decision: Option<Self>, is_sealed: bool) -> Self {
        let mut frame = Self::forwarded_from(Some(responder), decision);
        if let Self::Forwarded { sealed, .. } = &mut frame {
            *sealed = is_sealed;
        }
        frame
    }

    /// The same, with every text cut to what an answer carries.
    pub(super) fn bounded(&self) -> Self {
        let name = |text: &String| bound::name(text).into_owned();
        let known = |text: &Option<String>| text.as_ref().map(name);
        let reason = |text: &String| bound::reason(text).into_owned();
        match self {
            Self::User { via } => Self::User { via: *via },
            Self::Authorizer {
                name: link,
                verdict,
                reason: why,
            } => Self::Authorizer {
                name: name(link),
                verdict: *verdict,
                reason: why.as_ref().map(reason),
            },
            Self::Rule {
                surface,
                pattern,
                origin,
            } => Self::Rule {
                surface: name(surface),
                pattern: known(pattern),
                origin: known(origin),
            },
            Self::SessionApproval { surface, pattern } => Self::SessionApproval {
                surface: name(surface),
                pattern: known(pattern),
            },
            Self::Yolo { pattern } => Self::Yolo {
                pattern: known(pattern),
            },
            Self::InfrastructureRead => Self::InfrastructureRead,
            Self::Unavailable { reason: why } => Self::Unavailable {
                reason: reason(why),
            },
            Self::GateError { reason: why } => Self::GateError {
                reason: reason(why),
            },
            Self::Forwarded {
                responder,
                decision,
                sealed,
            } => Self::Forwarded {
                responder: known(responder),
                // Nothing nests deeper than what a reader takes, see `forwarded_from`.
                decision: decision.as_ref().map(|inner| Box::new(inner.bounded())),
                sealed: *sealed,
            },
        }
    }

    /// Whether the outermost frame says that the answer in it was sealed.
    pub fn is_sealed(&self) -> bool {
        matches!(self, Self::Forwarded { sealed: true, .. })
    }

    /// How many `forwarded` frames are around the effective source.
    fn frames(&self) -> usize {
        let (mut source, mut frames) = (self, 0);
        while let Self::Forwarded { decision, .. } = source {
            frames += 1;
            match decision {
                Some(inner) => source = inner,
                None => break,
            }
        }
        frames
    }

    /// The session that answered, where another one did and is known.
    pub fn responder(&self) -> Option<&str> {
        let Self::Forwarded { responder, .. } = self else {
            return None;
        };
        responder.as_deref()
    }

    /// Whether nobody with authority ruled: nobody was there, or the deciding code failed.
    pub fn is_nobody(&self) -> bool {
        matches!(
            self.effective(),
            Self::Unavailable { .. } | Self::GateError { .. }
        )
    }
}
