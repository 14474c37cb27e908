//! What a requester writes to the review log. It explains and decides nothing, so it holds up no answer and no wait.

use super::state::{Abandonment, Outcome};
use super::wait::Shared;
use crate::audit::{Ending, Entry, Event};
use crate::wire::{ForwardedPermissionRequest, RequestId};

/// The request is written; `None` where there is no log.
pub(super) fn created(shared: &Shared, request: &ForwardedPermissionRequest) -> Option<Entry> {
    if !shared.log.is_enabled() {
        return None;
    }
    let file = request.id.file_name();
    let path = |kind: &str| {
        shared
            .session_path
            .join(kind)
            .join(&file)
            .to_string_lossy()
            .into_owned()
    };
    Some(
        Entry::new(Event::RequestCreated)
            .with("requestId", request.id.as_str())
            .with("requesterAgentName", request.requester_agent_name.as_str())
            .with("requesterSessionId", request.requester_session_id.as_str())
            .with("targetSessionId", request.target_session_id.as_str())
            .with("requestPath", path("requests"))
            .with("responsePath", path("responses")),
    )
}

/// The ask has ended.
pub(super) fn ended(shared: &Shared, id: &RequestId, outcome: &Outcome) -> Entry {
    match outcome {
        Outcome::Decided(decision) => Entry::ending(Ending::ResponseReceived, &decision.decided_by)
            .with("requestId", id.as_str())
            .with("approved", decision.is_approved())
            .with("state", decision.state.name())
            .with_opt("denialReason", decision.denial_reason.clone())
            .with_opt(
                "responderSessionId",
                decision.decided_by.responder().map(str::to_owned),
            )
            .with("targetSessionId", shared.settings.target.as_str()),
        Outcome::Abandoned(abandonment) => abandoned(shared, id, abandonment),
    }
}

fn abandoned(shared: &Shared, id: &RequestId, abandonment: &Abandonment) -> Entry {
    let ending = match abandonment {
        Abandonment::NotServing { .. } => Ending::NoServingSession,
        Abandonment::TimedOut { .. } => Ending::ResponseTimedOut,
        Abandonment::Unreadable { .. } => Ending::ResponseReceived,
        Abandonment::Withdrawn => Ending::RequestWithdrawn,
        Abandonment::NoParent { .. }
        | Abandonment::NoDirectories { .. }
        | Abandonment::NotWritten { .. }
        | Abandonment::NoKey { .. }
        | Abandonment::Refused { .. }
        | Abandonment::TooManyHops { .. } => Ending::RequestFailed,
    };
    let mut entry = Entry::ending(ending, &abandonment.decision().decided_by)
        .with("requestId", id.as_str())
        .with("requesterAgentName", shared.settings.agent_name.as_str())
        .with("requesterSessionId", shared.settings.session_id.as_str())
        .with("targetSessionId", shared.settings.target.as_str());
    match abandonment {
        Abandonment::NotServing { liveness, .. } => {
            entry = entry
                .with("servingChannel", "heartbeat")
                .with("servingState", liveness.name());
        }
        Abandonment::Unreadable { .. } => {
            let unknown = serde_json::Value::Null;
            entry = entry
                .with("approved", unknown.clone())
                .with("state", unknown);
        }
        Abandonment::TimedOut { .. }
        | Abandonment::NoParent { .. }
        | Abandonment::NoDirectories { .. }
        | Abandonment::NotWritten { .. }
        | Abandonment::NoKey { .. }
        | Abandonment::Refused { .. }
        | Abandonment::Withdrawn
        | Abandonment::TooManyHops { .. } => {}
    }
    entry.with("reason", abandonment.reason())
}

/// The requester took the request back.
pub(super) fn withdrawn(shared: &Shared, id: &RequestId) -> Entry {
    abandoned(shared, id, &Abandonment::Withdrawn)
}

/// A response was not used, and the wait goes on.
pub(super) fn refused(shared: &Shared, id: &RequestId, reason: &str) -> Entry {
    Entry::new(Event::ResponseRefused)
        .with("requestId", id.as_str())
        .with("targetSessionId", shared.settings.target.as_str())
        .with("reason", reason)
}

/// Something went wrong that does not end the ask.
pub(super) fn warning(message: &str) -> Entry {
    Entry::new(Event::Warning).with("message", message)
}

/// An error with its causes, in one line.
pub(crate) fn describe(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}
