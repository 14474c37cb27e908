//! What is told to whoever listens: the facts of an ask, and how it ended.
//!
//! It is the narrowest render. The operator has named nobody who listens, so no evidence and no annotation is told, no working
//! directory, and not who decided; for that there is the review log. Texts go in as they are, for programs read them: whoever puts
//! one on a screen has to make it visible.
//!
//! It decides nothing and sends nothing.

use serde::Serialize;
use serde_json::{Value, json};

use crate::wire::{Decision, ForwardedPermissionRequest, PromptPayload, RequestFacts};

/// One broadcast.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[must_use]
pub struct Broadcast {
    /// The channel, under the peer's name.
    pub channel: &'static str,
    /// The fields, exactly those of the peer.
    pub data: Value,
}

impl Broadcast {
    /// The session is served.
    pub fn ready() -> Self {
        Self {
            channel: "permissions:ready",
            data: json!({}),
        }
    }

    /// An ask is before a person.
    pub fn ui_prompt(request: &ForwardedPermissionRequest, payload: &PromptPayload) -> Self {
        Self {
            channel: "permissions:ui_prompt",
            data: json!({
                "requestId": request.id.as_str(),
                "source": request.source.unwrap_or_default().name(),
                "surface": request.surface,
                "value": request.value,
                "agentName": request.agent_name(),
                "request": facts(&payload.request),
                "forwarding": forwarding(request),
            }),
        }
    }

    /// An ask that was put before somebody has ended. The scope of a grant is the one that was chosen.
    pub fn decision(request: &ForwardedPermissionRequest, decision: &Decision) -> Self {
        // The display fields where there are some, or else the gate's own.
        let facts = request.payload.as_ref().map(|payload| &payload.request);
        let surface = facts.map_or("", |facts| facts.surface.as_str());
        let value = facts.map_or("", |facts| facts.value.as_str());
        let result = if decision.is_approved() {
            "allow"
        } else {
            "deny"
        };
        Self {
            channel: "permissions:decision",
            data: json!({
                "requestId": request.id.as_str(),
                "surface": request.surface.as_deref().unwrap_or(surface),
                "value": request.value.as_deref().unwrap_or(value),
                "result": result,
                "resolution": decision.resolution(),
                "origin": null,
                "agentName": request.agent_name(),
                "matchedPattern": null,
                "forwarding": forwarding(request),
            }),
        }
    }

    /// The same end of an ask, where the decision came to nothing and its requester is told that nobody decided.
    pub fn undecided(mut self) -> Self {
        for (key, value) in [
            ("result", "deny"),
            ("resolution", "confirmation_unavailable"),
        ] {
            if let Some(member) = self.data.get_mut(key) {
                *member = value.into();
            }
        }
        self
    }
}

/// The core facts, and nothing else of the payload.
fn facts(request: &RequestFacts) -> Value {
    // Nothing in them can fail to become a value.
    serde_json::to_value(request).unwrap_or(Value::Null)
}

fn forwarding(request: &ForwardedPermissionRequest) -> Value {
    json!({
        "requesterAgentName": request.agent_name(),
        "requesterSessionId": request.requester_session_id,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{DecisionSource, DecisionState, UserSurface};

    fn request() -> ForwardedPermissionRequest {
        let bytes = json!({
            "id": "perm-1", "createdAt": 1, "requesterSessionId": "c-1", "targetSessionId": "main",
            "requesterAgentName": "scout",
            "payload": {
                "kind": "bash",
                "request": {
                    "requester": {"agentName": "admin", "forwarded": false, "sessionId": null},
                    "surface": "bash", "toolName": "bash", "invokedToolName": null, "value": "make",
                    "matchedPattern": "make *", "commandContext": null, "executedUnit": null,
                },
                "evidence": [{"label": "input", "text": "SECRET", "detail": null}],
                "annotations": [{"source": "risk", "text": "SECRET"}],
            },
            "surface": "bash", "value": "make",
            "accessIntent": {
                "surface": "bash", "matchValues": ["make"], "boundaryValue": null, "requesterCwd": "/SECRET",
                "principal": {"sessionId": "c-1", "agentName": "scout"},
            },
        });
        ForwardedPermissionRequest::from_json(bytes.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn a_prompt_is_told_with_its_facts_alone() {
        let request = request();
        let told = Broadcast::ui_prompt(&request, &request.projection());
        assert_eq!(
            told.data,
            json!({
                "requestId": "perm-1", "source": "tool_call", "surface": "bash", "value": "make",
                "agentName": "scout",
                "request": {
                    "requester": {"agentName": "scout", "forwarded": true, "sessionId": "c-1"},
                    "surface": "bash", "toolName": "bash", "invokedToolName": null, "value": "make",
                    "matchedPattern": "make *", "commandContext": null, "executedUnit": null,
                },
                "forwarding": {"requesterAgentName": "scout", "requesterSessionId": "c-1"},
            })
        );
        assert!(!serde_json::to_string(&told).unwrap().contains("SECRET"));
    }

    #[test]
    fn a_decision_is_told_without_its_decider() {
        let source = DecisionSource::User {
            via: UserSurface::Dialog,
        };
        let mut decision = Decision::approved(source);
        decision.state = DecisionState::ApprovedForServingSession;
        let told = Broadcast::decision(&request(), &decision);
        assert_eq!(
            told.data,
            json!({
                "requestId": "perm-1", "surface": "bash", "value": "make", "result": "allow",
                "resolution": "user_approved_for_session", "origin": null, "agentName": "scout",
                "matchedPattern": null,
                "forwarding": {"requesterAgentName": "scout", "requesterSessionId": "c-1"},
            })
        );
        let mut bare = request();
        (bare.surface, bare.value) = (None, None);
        let told = Broadcast::decision(&bare, &Decision::gate_error("x"));
        assert_eq!(
            (&told.data["value"], &told.data["resolution"]),
            (&json!("make"), &json!("gate_error"))
        );
    }
}
