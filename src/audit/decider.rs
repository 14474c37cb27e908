//! Who decided, as a log says it: the nested frames of `decidedBy`, unwrapped.
//!
//! A log is read more leniently than an answer: what is wrong within a frame makes the decider unknown and nothing else.

use serde_json::Value;

use crate::wire::FRAME_BUDGET;

/// What kind of thing decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DeciderKind {
    /// A person, for this very ask.
    User,
    /// A link of the authorizer chain.
    Authorizer,
    /// A recorded rule.
    Rule,
    /// A grant given earlier in the session.
    SessionApproval,
    /// The operator's switch that allows everything.
    Yolo,
    /// A read of the host's own files.
    InfrastructureRead,
    /// Nobody could be asked, or nobody answered.
    Unavailable,
    /// The deciding code failed.
    GateError,
    /// The log does not say.
    Unknown,
}

impl DeciderKind {
    /// Every kind, in the order in which they are listed.
    pub const ALL: [Self; 9] = [
        Self::User,
        Self::Authorizer,
        Self::Rule,
        Self::SessionApproval,
        Self::Yolo,
        Self::InfrastructureRead,
        Self::Unavailable,
        Self::GateError,
        Self::Unknown,
    ];

    /// Its name, as under `kind`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Authorizer => "authorizer",
            Self::Rule => "rule",
            Self::SessionApproval => "session_approval",
            Self::Yolo => "yolo",
            Self::InfrastructureRead => "infrastructure_read",
            Self::Unavailable => "unavailable",
            Self::GateError => "gate_error",
            Self::Unknown => "unknown",
        }
    }

    /// The kind of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Whether nobody with authority ruled.
    pub const fn is_nobody(self) -> bool {
        matches!(self, Self::Unavailable | Self::GateError)
    }
}

/// A session that passed the decision on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hop<'a> {
    /// The session that answered, where it is known.
    pub session: Option<&'a str>,
    /// Whether its answer was sealed, where that was recorded.
    pub sealed: Option<bool>,
}

/// Who decided, and through which sessions the decision came; the nearest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decider<'a> {
    /// The sessions that answered; the last of them is the one in which it was decided.
    pub hops: Vec<Hop<'a>>,
    /// What decided.
    pub kind: DeciderKind,
    /// The members of what decided; null where it is unknown.
    pub source: &'a Value,
}

impl<'a> Decider<'a> {
    /// Unwraps the value under `decidedBy`.
    pub fn of(value: &'a Value) -> Self {
        let mut hops = Vec::new();
        let mut source = value;
        while source["kind"] == "forwarded" && hops.len() <= FRAME_BUDGET {
            hops.push(Hop {
                session: source["responderSessionId"].as_str(),
                sealed: source.pointer("/relay/sealed").and_then(Value::as_bool),
            });
            source = &source["decision"];
        }
        let kind = source["kind"]
            .as_str()
            .and_then(DeciderKind::from_name)
            .unwrap_or(DeciderKind::Unknown);
        if hops.len() > FRAME_BUDGET || kind == DeciderKind::Unknown {
            hops.truncate(FRAME_BUDGET);
            return Self {
                hops,
                kind: DeciderKind::Unknown,
                source: &Value::Null,
            };
        }
        Self { hops, kind, source }
    }

    /// A member of what decided.
    pub fn text(&self, key: &str) -> Option<&'a str> {
        self.source[key].as_str()
    }

    /// The kind, and the name of the link or of the surface on which a person answered.
    pub fn label(&self) -> String {
        let detail = match self.kind {
            DeciderKind::User => self.text("via"),
            DeciderKind::Authorizer => self.text("name"),
            DeciderKind::Rule | DeciderKind::SessionApproval | DeciderKind::Yolo => {
                self.text("pattern")
            }
            DeciderKind::InfrastructureRead
            | DeciderKind::Unavailable
            | DeciderKind::GateError
            | DeciderKind::Unknown => None,
        };
        match detail {
            Some(detail) => format!("{}:{detail}", self.kind.name()),
            None => self.kind.name().to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn wrapped(inner: Value, sessions: &[&str]) -> Value {
        sessions.iter().rev().fold(inner, |decision, session| {
            json!({"kind": "forwarded", "responderSessionId": session, "decision": decision})
        })
    }

    #[test]
    fn four_frames_are_unwrapped_and_a_fifth_hides_the_decider() {
        let user = json!({"kind": "user", "via": "dialog"});
        let four = wrapped(user.clone(), &["a", "b", "c", "d"]);
        let decider = Decider::of(&four);
        assert_eq!(decider.kind, DeciderKind::User);
        assert_eq!(decider.label(), "user:dialog");
        let sessions: Vec<_> = decider.hops.iter().filter_map(|hop| hop.session).collect();
        assert_eq!(sessions, ["a", "b", "c", "d"]);
        let five = wrapped(user, &["a", "b", "c", "d", "e"]);
        assert_eq!(Decider::of(&five).kind, DeciderKind::Unknown);
    }

    #[test]
    fn what_does_not_say_is_unknown() {
        for value in [
            json!(null),
            json!("user"),
            json!(["user"]),
            json!({"kind": "admin"}),
            json!({"kind": "unknown"}),
            wrapped(json!(null), &["a"]),
        ] {
            let decider = Decider::of(&value);
            assert_eq!(decider.kind, DeciderKind::Unknown, "{value}");
            assert_eq!(decider.source, &Value::Null);
        }
    }

    #[test]
    fn seals_are_told_for_each_hop_that_recorded_them() {
        let mut value = wrapped(
            json!({"kind": "authorizer", "name": "guard", "verdict": "allow", "reason": null}),
            &["a", "b"],
        );
        value["decision"]["relay"] = json!({"sealed": true});
        let decider = Decider::of(&value);
        let seals: Vec<_> = decider.hops.iter().map(|hop| hop.sealed).collect();
        assert_eq!(seals, [None, Some(true)]);
        assert_eq!(decider.label(), "authorizer:guard");
    }
}
