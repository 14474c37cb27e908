//! One entry of a log as it was read: its members, and what they mean.
//!
//! Entries of the peer mean the same. It takes no member for granted: what is missing or of another type is not known.

use serde_json::{Map, Value};

use super::decider::{Decider, DeciderKind};
use super::event::{Ending, Event};

/// Members that name a session.
pub(super) const SESSION_KEYS: [&str; 4] = [
    "targetSessionId",
    "requesterSessionId",
    "responderSessionId",
    "sessionId",
];

/// Members that name an agent.
const AGENT_KEYS: [&str; 2] = ["requesterAgentName", "agentName"];

/// How an ask ended, as far as one entry says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Outcome {
    /// It was approved.
    Approved,
    /// An authority denied it.
    Denied,
    /// Nobody with authority ruled.
    Nobody,
}

impl Outcome {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Approved => "approved",
            Self::Denied => "denied",
            Self::Nobody => "nobody",
        }
    }
}

/// Whether entries of this event are the serving side's last word on an ask.
pub(super) fn is_terminal(event: &str) -> bool {
    matches!(
        Ending::from_name(event),
        Some(Ending::Approved | Ending::Denied)
    )
}

/// Whether entries of this event tell that a child was started.
pub(super) fn is_launch(event: &str) -> bool {
    event == Event::ChildLaunched.name()
}

/// Whether entries of this event tell what a link of the chain of authorizers said.
pub(super) fn is_of_link(event: &str) -> bool {
    event == Event::AuthorizerLink.name()
}

/// An entry of a log.
#[derive(Debug, Clone, PartialEq)]
pub struct Logged(Map<String, Value>);

impl Logged {
    /// Reads a line. `None` where it is no JSON object.
    pub fn parse(line: &[u8]) -> Option<Self> {
        serde_json::from_slice(line).ok().map(Self)
    }

    /// All members.
    pub fn members(&self) -> &Map<String, Value> {
        &self.0
    }

    /// A member that is a text.
    pub fn text(&self, key: &str) -> Option<&str> {
        self.0.get(key)?.as_str()
    }

    /// A member that is a whole number.
    pub fn count(&self, key: &str) -> Option<u64> {
        self.0.get(key)?.as_u64()
    }

    /// A member that is a switch.
    pub fn flag(&self, key: &str) -> Option<bool> {
        self.0.get(key)?.as_bool()
    }

    /// Name of the event; empty where there is none.
    pub fn event(&self) -> &str {
        self.text("event").unwrap_or_default()
    }

    /// The ask that it is about.
    pub fn request_id(&self) -> Option<&str> {
        self.text("requestId")
    }

    /// When it happened, by the clock of whoever wrote it, in epoch milliseconds.
    pub fn at_ms(&self) -> Option<i64> {
        let at: jiff::Timestamp = self.text("timestamp")?.parse().ok()?;
        Some(at.as_millisecond())
    }

    /// The agent that asks.
    pub fn agent(&self) -> Option<&str> {
        AGENT_KEYS.iter().find_map(|key| self.text(key))
    }

    /// Who decided, where the entry is about a decision that says so.
    pub fn decider(&self) -> Option<Decider<'_>> {
        self.0
            .get("decidedBy")
            .filter(|value| !value.is_null())
            .map(Decider::of)
    }

    /// What kind of thing decided, where the entry tells of a decision at all.
    pub fn decider_kind(&self) -> Option<DeciderKind> {
        match self.decider() {
            Some(decider) => Some(decider.kind),
            None => self.outcome().map(|_| DeciderKind::Unknown),
        }
    }

    /// Whether a session has a part in it: asks, is asked, serves, or passed the decision on.
    pub fn names_session(&self, session: &str) -> bool {
        SESSION_KEYS
            .iter()
            .any(|key| self.text(key) == Some(session))
            || self
                .decider()
                .is_some_and(|decider| decider.hops.iter().any(|hop| hop.session == Some(session)))
    }

    /// Whether this is the serving side's last word on an ask.
    pub fn is_terminal(&self) -> bool {
        is_terminal(self.event())
    }

    /// Whether this tells what a link of the chain of authorizers said.
    pub fn is_of_link(&self) -> bool {
        is_of_link(self.event())
    }

    /// How the ask ended, where the entry tells of an end.
    pub fn outcome(&self) -> Option<Outcome> {
        let event = self.event();
        let said = match Ending::from_name(event) {
            Some(Ending::Approved | Ending::AutoApproved | Ending::RequestApproved) => {
                Outcome::Approved
            }
            Some(Ending::Denied | Ending::AutoDenied | Ending::RequestDenied) => Outcome::Denied,
            Some(Ending::ResponseReceived) => match self.flag("approved") {
                Some(true) => Outcome::Approved,
                Some(false) => Outcome::Denied,
                // The answer could not be read.
                None => Outcome::Nobody,
            },
            Some(
                Ending::ResponseTimedOut
                | Ending::NoServingSession
                | Ending::RequestFailed
                | Ending::RequestWithdrawn
                | Ending::RequesterGone
                | Ending::RequestExpired
                | Ending::RequestChanged,
            ) => Outcome::Nobody,
            None => match event {
                "permission_request.auto_approved"
                | "permission_request.session_approved"
                | "permission_request.infrastructure_auto_allowed" => Outcome::Approved,
                "permission_request.blocked" => Outcome::Denied,
                _ => {
                    return self
                        .decider()
                        .is_some_and(|decider| decider.kind.is_nobody())
                        .then_some(Outcome::Nobody);
                }
            },
        };
        let nobody = said == Outcome::Denied
            && (self
                .decider()
                .is_some_and(|decider| decider.kind.is_nobody())
                || matches!(
                    self.text("resolution"),
                    Some("confirmation_unavailable" | "gate_error")
                ));
        Some(if nobody { Outcome::Nobody } else { said })
    }

    /// Why it came so, in the words of whoever decided, or what went wrong.
    pub fn reason(&self) -> Option<&str> {
        ["denialReason", "reason", "message", "error"]
            .iter()
            .find_map(|key| self.text(key))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn logged(value: &Value) -> Logged {
        Logged::parse(value.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn outcomes_come_of_the_event_and_of_who_decided() {
        let unavailable = json!({"kind": "unavailable", "reason": "x"});
        let user = json!({"kind": "user", "via": "dialog"});
        for (event, decided_by, expected) in [
            (
                "forwarded_permission.approved",
                json!(null),
                Some(Outcome::Approved),
            ),
            (
                "forwarded_permission.denied",
                user.clone(),
                Some(Outcome::Denied),
            ),
            (
                "forwarded_permission.denied",
                unavailable.clone(),
                Some(Outcome::Nobody),
            ),
            (
                "forwarded_permission.denied",
                json!({"kind": "forwarded", "responderSessionId": "a", "decision": {"kind": "gate_error", "reason": "x"}}),
                Some(Outcome::Nobody),
            ),
            (
                "permission_forwarding.error",
                unavailable,
                Some(Outcome::Nobody),
            ),
            ("forwarded_permission.prompted", user, None),
            (
                "forwarded_permission.no_serving_session",
                json!(null),
                Some(Outcome::Nobody),
            ),
        ] {
            let entry = logged(&json!({"event": event, "decidedBy": decided_by}));
            assert_eq!(entry.outcome(), expected, "{event}");
        }
        let received = |approved: Value| {
            logged(
                &json!({"event": "forwarded_permission.response_received", "approved": approved}),
            )
        };
        assert_eq!(received(json!(true)).outcome(), Some(Outcome::Approved));
        assert_eq!(received(json!(false)).outcome(), Some(Outcome::Denied));
        assert_eq!(received(json!(null)).outcome(), Some(Outcome::Nobody));
        assert_eq!(
            received(json!(true)).decider_kind(),
            Some(DeciderKind::Unknown)
        );
    }

    #[test]
    fn a_session_has_a_part_in_what_it_passed_on() {
        let entry = logged(&json!({
            "targetSessionId": "S1",
            "decidedBy": {"kind": "forwarded", "responderSessionId": "P", "decision": null},
        }));
        for (session, has_part) in [("S1", true), ("P", true), ("S2", false)] {
            assert_eq!(entry.names_session(session), has_part, "{session}");
        }
    }

    #[test]
    fn members_of_another_type_are_not_known() {
        let entry =
            logged(&json!({"event": 1, "timestamp": {}, "requestId": [], "decidedBy": "x"}));
        assert_eq!(entry.event(), "");
        assert_eq!(entry.at_ms(), None);
        assert_eq!(entry.request_id(), None);
        assert_eq!(entry.decider().unwrap().kind, DeciderKind::Unknown);
        assert_eq!(Logged::parse(b"[1]"), None);
    }
}
