//! What a requester writes to the review log. It explains and decides nothing, so it holds up no answer and no wait.

use super::abandonment::{Abandonment, Outcome};
use super::wait::Shared;
use crate::audit::{Ending, Entry, Event};
use crate::wire::{Decision, DecisionSource, ForwardedPermissionRequest, RequestId};

/// Most sessions that are named as served where the one that was asked is not.
const SERVED_NAMED: usize = 32;

/// Where a document of this kind lies, for the log.
fn path(shared: &Shared, id: &RequestId, kind: &str) -> String {
    let path = shared.session_path.join(kind).join(id.file_name());
    path.to_string_lossy().into_owned()
}

/// The request is written; `None` where there is no log.
pub(super) fn created(shared: &Shared, request: &ForwardedPermissionRequest) -> Option<Entry> {
    // What may come to nothing is recorded once it came to something.
    if !shared.log.is_enabled() || request.is_rules_only() {
        return None;
    }
    Some(
        Entry::new(Event::RequestCreated)
            .with("requestId", request.id.as_str())
            .with("requesterAgentName", request.requester_agent_name.as_str())
            .with("requesterSessionId", request.requester_session_id.as_str())
            .with("targetSessionId", request.target_session_id.as_str())
            .with("requestPath", path(shared, &request.id, "requests"))
            .with("responsePath", path(shared, &request.id, "responses")),
    )
}

/// The ask has ended; `None` where it came to nothing, as whoever asked rules only had to expect.
pub(super) fn ended(shared: &Shared, id: &RequestId, outcome: &Outcome) -> Option<Entry> {
    match outcome {
        Outcome::Decided(decision) if decision.is_left() => None,
        Outcome::Decided(decision) => {
            Some(received(shared, id, Some(decision), &decision.decided_by))
        }
        Outcome::Abandoned(abandonment) => Some(abandoned(shared, id, abandonment)),
    }
}

/// A response came; without a decision it could not be used.
fn received(
    shared: &Shared,
    id: &RequestId,
    decision: Option<&Decision>,
    decided_by: &DecisionSource,
) -> Entry {
    Entry::ending(Ending::ResponseReceived, decided_by)
        .with("requestId", id.as_str())
        .with_opt("approved", decision.map(Decision::is_approved))
        .with_opt("state", decision.map(|decision| decision.state.name()))
        .with_opt(
            "denialReason",
            decision.and_then(|decision| decision.denial_reason.clone()),
        )
        .with_opt(
            "responderSessionId",
            decided_by.responder().map(str::to_owned),
        )
        .with("targetSessionId", shared.settings.target.as_str())
        .with("responsePath", path(shared, id, "responses"))
}

fn abandoned(shared: &Shared, id: &RequestId, abandonment: &Abandonment) -> Entry {
    let decided_by = abandonment.decision().decided_by;
    let about = |ending| {
        Entry::ending(ending, &decided_by)
            .with("requestId", id.as_str())
            .with("requesterAgentName", shared.settings.agent_name.as_str())
            .with("requesterSessionId", shared.settings.session_id.as_str())
            .with("targetSessionId", shared.settings.target.as_str())
    };
    let entry = match abandonment {
        Abandonment::NotServing { liveness, .. } => about(Ending::NoServingSession)
            .with("servingChannel", "heartbeat")
            .with("servingState", liveness.name())
            .with("servingSessionIds", shared.served(SERVED_NAMED)),
        Abandonment::TimedOut { .. } => {
            about(Ending::ResponseTimedOut).with("responsePath", path(shared, id, "responses"))
        }
        Abandonment::Unreadable { .. } | Abandonment::Refused { .. } => {
            received(shared, id, None, &decided_by)
        }
        Abandonment::Withdrawn => about(Ending::RequestWithdrawn),
        Abandonment::NoParent { .. }
        | Abandonment::NoDirectories { .. }
        | Abandonment::NotWritten { .. }
        | Abandonment::NoKey { .. }
        | Abandonment::TooManyHops { .. } => about(Ending::RequestFailed),
    };
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
        .with("requesterSessionId", shared.settings.session_id.as_str())
        .with("targetSessionId", shared.settings.target.as_str())
        .with("reason", reason)
}

/// Something went wrong that does not end the ask.
pub(super) fn warning(message: &str) -> Entry {
    Entry::new(Event::Warning).with("message", message)
}
