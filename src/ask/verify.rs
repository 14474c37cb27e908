//! Which response counts for a request: of the session that was asked, to the very bytes that were, sealed where a key is known.
//!
//! It takes bytes and says what they are; what becomes of them is decided elsewhere.
//!
//! Invariant: a [`Verified`] response cannot be made but by looking.

use crate::wire::{
    Decision, DecisionSource, Digest, ForwardedPermissionResponse, Malformed, SealFault,
    ServingKey, SessionId, Unusable, trim,
};

/// What must be true of a response before it counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expected {
    /// The session that was asked.
    pub responder: SessionId,
    /// Digest of the request bytes.
    pub digest: Digest,
    /// The key whose seal it must carry; without one it need carry none.
    pub key: Option<ServingKey>,
}

/// Why a readable response is not for this request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Mismatch {
    /// Another session claims to have answered.
    #[error("it names {found:?} as the responder, asked was {asked:?}")]
    Responder {
        /// Who it says answered.
        found: String,
        /// Who was asked.
        asked: String,
    },
    /// It answers other bytes.
    #[error("it answers other request bytes ({found}, asked was {asked})")]
    Digest {
        /// Digest in the response.
        found: Digest,
        /// Digest of the request.
        asked: Digest,
    },
    /// It is not sealed as it must be.
    #[error(transparent)]
    Seal(#[from] SealFault),
    /// What lies there is no response, where only a sealed one counts.
    #[error("it is unusable: {0}")]
    Unusable(String),
}

/// Checks that a response answers this very request.
pub fn verify(response: &ForwardedPermissionResponse, expected: &Expected) -> Result<(), Mismatch> {
    if trim(&response.responder_session_id) != expected.responder.as_str() {
        return Err(Mismatch::Responder {
            found: response.responder_session_id.clone(),
            asked: expected.responder.as_str().to_owned(),
        });
    }
    match response
        .relay
        .as_ref()
        .and_then(|relay| relay.request_digest)
    {
        Some(found) if found != expected.digest => Err(Mismatch::Digest {
            found,
            asked: expected.digest,
        }),
        Some(_) | None => Ok(()),
    }
}

/// A response that counts, and what is known of where it comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verified {
    response: ForwardedPermissionResponse,
    sealed: bool,
}

impl Verified {
    /// The response of these bytes, where it is one to this very request, sealed as it must be.
    pub(super) fn new(
        response: ForwardedPermissionResponse,
        expected: &Expected,
    ) -> Result<Self, Mismatch> {
        // Only what is sealed is looked at where a seal is asked for.
        let response = match &expected.key {
            Some(key) => response.open_seal(key)?,
            None => response,
        };
        verify(&response, expected)?;
        Ok(Self {
            response,
            sealed: expected.key.is_some(),
        })
    }

    /// The decision that a requester adopts: who answered, whether that was sealed, and what decided within it.
    pub fn adopt(self) -> Decision {
        let Self { response, sealed } = self;
        Decision {
            state: response.state,
            denial_reason: response.denial_reason,
            decided_by: DecisionSource::adopted_from(
                response.responder_session_id,
                response.decided_by,
                sealed,
            ),
            width: response.width,
        }
    }
}

/// What lies at the place of the response.
#[derive(Debug)]
pub enum Seen {
    /// It was not looked.
    NotLooked,
    /// Nothing.
    Nothing,
    /// A response for this request.
    Response(Box<Verified>),
    /// A response for somebody else, or from somebody else.
    Foreign(Mismatch),
    /// Bytes that are no response.
    Unusable(Unusable),
    /// Something that could not be read at all.
    Unreadable(String),
}

impl Seen {
    /// Judges the bytes of a response file.
    pub fn from_bytes(bytes: &[u8], expected: &Expected) -> Self {
        match ForwardedPermissionResponse::from_json(bytes) {
            // It may still be growing, whoever writes it.
            Err(unusable @ Unusable::Malformed(Malformed::Syntax(_) | Malformed::Empty)) => {
                Self::Unusable(unusable)
            }
            // The session that is believed writes no such thing: the true answer may still come.
            Err(unusable) if expected.key.is_some() => {
                Self::Foreign(Mismatch::Unusable(unusable.to_string()))
            }
            Err(unusable) => Self::Unusable(unusable),
            Ok(response) => match Verified::new(response, expected) {
                Ok(verified) => Self::Response(Box::new(verified)),
                Err(mismatch) => Self::Foreign(mismatch),
            },
        }
    }
}
