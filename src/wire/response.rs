//! The answer to one ask, and the decision that both sides work with.

use std::borrow::Cow;

use serde::Serialize;

use super::bound;
use super::decider::DecisionSource;
use super::grant::GrantWidth;
use super::json::{Document, Fields};
use super::seal::{Digest, Envelope, EnvelopeOut, SealFault, SealKey, ServingKey};
use super::{MAX_RESPONSE_BYTES, Unusable, WriteError};

/// Outcome of an ask, as it stands on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DecisionState {
    /// Allowed, once.
    Approved,
    /// Allowed, and the requester records its own suggestion as a grant of its session.
    ApprovedForSession,
    /// Allowed, and the serving session recorded the suggestion. Never written by us: it is translated to `approved`.
    ApprovedForServingSession,
    /// Refused, without a reason.
    Denied,
    /// Refused, with a reason.
    DeniedWithReason,
}

impl DecisionState {
    /// Whether the call may run.
    pub fn is_approved(self) -> bool {
        match self {
            Self::Approved | Self::ApprovedForSession | Self::ApprovedForServingSession => true,
            Self::Denied | Self::DeniedWithReason => false,
        }
    }

    /// The state with this wire name.
    pub fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "approved" => Self::Approved,
            "approved_for_session" => Self::ApprovedForSession,
            "approved_for_serving_session" => Self::ApprovedForServingSession,
            "denied" => Self::Denied,
            "denied_with_reason" => Self::DeniedWithReason,
            _ => return None,
        })
    }

    /// Wire name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Approved => "approved",
            Self::ApprovedForSession => "approved_for_session",
            Self::ApprovedForServingSession => "approved_for_serving_session",
            Self::Denied => "denied",
            Self::DeniedWithReason => "denied_with_reason",
        }
    }
}

/// What was decided about one ask, and by whom. The decider is no option: a decision without one cannot be made.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub struct Decision {
    /// The outcome.
    pub state: DecisionState,
    /// Why it was refused; set exactly where the state says so, or where nobody ruled.
    pub denial_reason: Option<String>,
    /// Who decided, stamped at the deciding site.
    pub decided_by: DecisionSource,
    /// How wide a session grant is.
    pub width: GrantWidth,
}

impl Decision {
    /// Allowed once.
    pub fn approved(decided_by: DecisionSource) -> Self {
        Self {
            state: DecisionState::Approved,
            denial_reason: None,
            decided_by,
            width: GrantWidth::Proven,
        }
    }

    /// Refused by an authority; a blank reason is none.
    pub fn denied(reason: Option<String>, decided_by: DecisionSource) -> Self {
        let denial_reason = reason.filter(|reason| !super::session::trim(reason).is_empty());
        let state = if denial_reason.is_some() {
            DecisionState::DeniedWithReason
        } else {
            DecisionState::Denied
        };
        Self {
            state,
            denial_reason,
            decided_by,
            width: GrantWidth::Proven,
        }
    }

    /// Refused because nobody ruled. The reason and the provenance are one text.
    pub fn unavailable(reason: impl Into<String>) -> Self {
        let reason = reason.into();
        Self {
            state: DecisionState::Denied,
            denial_reason: Some(reason.clone()),
            decided_by: DecisionSource::Unavailable { reason },
            width: GrantWidth::Proven,
        }
    }

    /// Refused because the deciding code failed.
    pub fn gate_error(reason: impl Into<String>) -> Self {
        let reason = reason.into();
        Self {
            state: DecisionState::DeniedWithReason,
            denial_reason: Some(reason.clone()),
            decided_by: DecisionSource::GateError { reason },
            width: GrantWidth::Proven,
        }
    }

    /// Whether the call may run.
    pub fn is_approved(&self) -> bool {
        self.state.is_approved()
    }

    /// Nobody ruled, for only rules were asked and none is about it.
    pub fn unruled() -> Self {
        Self::unavailable(super::UNRULED)
    }

    /// Whether nobody ruled because only rules were asked and none is about it.
    pub fn is_unruled(&self) -> bool {
        matches!(self.decided_by.effective(), DecisionSource::Unavailable { reason } if reason == super::UNRULED)
    }

    /// Nobody ruled, for a rule has somebody asked and nobody was to be.
    pub fn unasked() -> Self {
        Self::unavailable(super::UNASKED)
    }

    /// Whether nobody ruled because a rule has somebody asked and nobody was to be.
    pub fn is_unasked(&self) -> bool {
        matches!(self.decided_by.effective(), DecisionSource::Unavailable { reason } if reason == super::UNASKED)
    }

    /// Whether it was left to the requester: no rule decides it, and only rules were asked.
    pub fn is_left(&self) -> bool {
        self.is_unruled() || self.is_unasked()
    }

    /// Name of the resolution, from the effective decider.
    pub fn resolution(&self) -> &'static str {
        let approved = self.is_approved();
        match self.decided_by.effective() {
            DecisionSource::Rule { .. } if approved => "policy_allow",
            DecisionSource::Rule { .. } => "policy_deny",
            DecisionSource::SessionApproval { .. } => "session_approved",
            DecisionSource::InfrastructureRead => "infrastructure_auto_allowed",
            DecisionSource::Yolo { .. } => "auto_approved",
            DecisionSource::Authorizer { .. } if approved => "authorizer_allowed",
            DecisionSource::Authorizer { .. } => "authorizer_denied",
            DecisionSource::Unavailable { .. } => "confirmation_unavailable",
            DecisionSource::GateError { .. } => "gate_error",
            DecisionSource::User { .. } | DecisionSource::Forwarded { .. } => match self.state {
                DecisionState::Denied | DecisionState::DeniedWithReason => "user_denied",
                DecisionState::ApprovedForSession | DecisionState::ApprovedForServingSession => {
                    "user_approved_for_session"
                }
                DecisionState::Approved => "user_approved",
            },
        }
    }
}

/// A response file as a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForwardedPermissionResponse {
    /// The outcome. `approved` on the wire is derived from it, and a file in which the two differ is unusable.
    pub state: DecisionState,
    /// Why it was refused.
    pub denial_reason: Option<String>,
    /// The session that answered.
    pub responder_session_id: String,
    /// When it answered, by its own clock, in epoch milliseconds: shown, never trusted.
    pub responded_at_ms: Option<i64>,
    /// What decided within that session.
    pub decided_by: Option<DecisionSource>,
    /// How wide a session grant is.
    pub width: GrantWidth,
    /// Our own facts.
    pub relay: Option<ResponseRelay>,
}

/// What `relay` holds in a response.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ResponseRelay {
    /// Digest of the request bytes that were decided.
    pub request_digest: Option<Digest>,
    /// Name of the person's key, where one signed.
    pub operator: Option<String>,
    /// The serving session's signature over the answer without it.
    pub seal: Option<Envelope>,
}

impl ForwardedPermissionResponse {
    /// Reads a response file.
    pub fn from_json(bytes: &[u8]) -> Result<Self, Unusable> {
        let document = Document::decode(bytes, MAX_RESPONSE_BYTES)?;
        let fields = document.object()?;
        let approved = fields
            .boolean("approved")
            .ok_or(Unusable::Field("approved"))?;
        let state = fields
            .text("state")
            .and_then(|name| DecisionState::from_name(&name))
            .ok_or(Unusable::Field("state"))?;
        if approved != state.is_approved() {
            return Err(Unusable::Disagreement {
                approved,
                state: state.name(),
            });
        }
        Ok(Self {
            state,
            denial_reason: fields.text("denialReason"),
            responder_session_id: fields
                .text("responderSessionId")
                .ok_or(Unusable::Field("responderSessionId"))?,
            responded_at_ms: fields.number("respondedAt"),
            decided_by: fields
                .object("decidedBy")
                .and_then(|fields| DecisionSource::read(&fields)),
            width: match fields.text("sessionGrantWidth").as_deref() {
                Some("family") => GrantWidth::Family,
                _ => GrantWidth::Proven,
            },
            relay: fields
                .object("relay")
                .map(|fields| ResponseRelay::read(&fields)),
        })
    }

    /// Writes a response file that carries a seal of `key` over everything else in it.
    pub fn to_sealed_json(&self, key: &SealKey) -> Result<Vec<u8>, WriteError> {
        let mut response = self.clone();
        let mut relay = response.relay.take().unwrap_or_default();
        relay.seal = None;
        response.relay = Some(relay.clone());
        relay.seal = Some(key.seal(&response.to_json()?));
        response.relay = Some(relay);
        response.to_json()
    }

    /// The answer that a seal of `key` holds. What stands around the seal must say the same.
    pub fn open_seal(mut self, key: &ServingKey) -> Result<Self, SealFault> {
        let seal = self.relay.as_mut().and_then(|relay| relay.seal.take());
        let envelope = seal.ok_or(SealFault::Missing)?;
        let sealed = Self::from_json(envelope.open(key)?).map_err(SealFault::Payload)?;
        if sealed != self {
            return Err(SealFault::Disagrees);
        }
        if sealed.request_digest().is_none() {
            return Err(SealFault::NoDigest);
        }
        Ok(sealed)
    }

    /// Digest of the request bytes that it answers, where it says so.
    pub fn request_digest(&self) -> Option<Digest> {
        self.relay.as_ref()?.request_digest
    }

    /// Writes a response file: one line without a newline, in the peer's key order. Texts of any length are cut.
    pub fn to_json(&self) -> Result<Vec<u8>, WriteError> {
        let relay = self.relay.as_ref().map(|relay| RelayOut {
            v: super::RELAY_VERSION,
            request_digest: relay.request_digest.as_ref().map(ToString::to_string),
            operator: relay.operator.as_deref(),
            seal: relay.seal.as_ref().map(Envelope::to_out),
        });
        let decided_by = self.decided_by.as_ref().map(DecisionSource::bounded);
        Ok(serde_json::to_vec(&Out {
            approved: self.state.is_approved(),
            state: self.state,
            denial_reason: self.denial_reason.as_deref().map(bound::reason),
            responder_session_id: &self.responder_session_id,
            responded_at: self.responded_at_ms,
            decided_by,
            session_grant_width: (self.width == GrantWidth::Family).then_some(GrantWidth::Family),
            relay,
        })?)
    }
}

impl ResponseRelay {
    fn read(fields: &Fields<'_>) -> Self {
        Self {
            request_digest: fields
                .text("requestDigest")
                .and_then(|text| text.parse().ok()),
            operator: fields.text("operator"),
            seal: fields
                .object("seal")
                .and_then(|fields| Envelope::read(&fields)),
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Out<'a> {
    approved: bool,
    state: DecisionState,
    #[serde(skip_serializing_if = "Option::is_none")]
    denial_reason: Option<Cow<'a, str>>,
    responder_session_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    responded_at: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    decided_by: Option<DecisionSource>,
    #[serde(skip_serializing_if = "Option::is_none")]
    session_grant_width: Option<GrantWidth>,
    #[serde(skip_serializing_if = "Option::is_none")]
    relay: Option<RelayOut<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct RelayOut<'a> {
    v: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_digest: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    operator: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    seal: Option<EnvelopeOut<'a>>,
}
