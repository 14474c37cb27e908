//! What persons approved again and again: values that a rule could stand for.
//!
//! An approval counts where a person gave it for this very ask, behind all frames; what a program, a rule or a grant decided, and
//! what nobody is known to have decided, counts for nothing. A denial by anybody with authority takes a value out. Each ask counts
//! once, through however many sessions it came.
//!
//! Only what the log has whole is looked at. A value that was cut or masked, or that does not stand under the member that its
//! surface is judged by, is counted and passed over: a rule made of it would be about something else.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use super::decider::DeciderKind;
use super::event::Ending;
use super::logged::{Logged, Outcome};
use crate::policy::{is_command_surface, is_path_surface};
use crate::presentation::secrets::REDACTED;

/// Most values that are told apart.
const MAX_VALUES: usize = 100_000;

/// What was approved, by surface and value.
#[derive(Debug, Default)]
pub struct Approvals {
    /// What stands in the log whole.
    values: BTreeMap<(String, String), Approved>,
    /// Approvals by a person of which the value is not known.
    pub unknown: Unknown,
    seen: HashSet<[u8; 16]>,
}

/// One value that was approved or denied.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Approved {
    /// How often a person approved it.
    pub times: u64,
    /// How often an authority denied it.
    pub denied: u64,
    /// In whose name it was asked.
    pub agents: BTreeSet<String>,
    /// When a person last approved it, in epoch milliseconds.
    pub last_ms: Option<i64>,
}

/// Approvals by a person that no rule can be made of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Unknown {
    /// The value was cut for its length.
    pub cut: u64,
    /// A secret in it was masked.
    pub masked: u64,
    /// The log does not say what the surface is judged by.
    pub not_told: u64,
    /// There were too many others.
    pub too_many: u64,
}

impl Approvals {
    /// Takes an entry in.
    pub fn count(&mut self, entry: &Logged) {
        // The one end of an ask that has its facts.
        let is_end = matches!(
            Ending::from_name(entry.event()),
            Some(Ending::RequestApproved | Ending::RequestDenied)
        );
        if !is_end {
            return;
        }
        let is_persons = entry.decider_kind() == Some(DeciderKind::User);
        let approved = match entry.outcome() {
            Some(Outcome::Approved) if is_persons => true,
            Some(Outcome::Denied) => false,
            Some(Outcome::Approved | Outcome::Nobody) | None => return,
        };
        let ask = entry.request_id().unwrap_or_default();
        if !self.seen.insert(digest(ask, approved)) {
            return;
        }
        match value_of(entry) {
            Value::Known(surface, value) => self.add(entry, surface, value, approved),
            _ if !approved => {}
            Value::Cut => self.unknown.cut += 1,
            Value::Masked => self.unknown.masked += 1,
            Value::NotTold => self.unknown.not_told += 1,
        }
    }

    fn add(&mut self, entry: &Logged, surface: &str, value: &str, approved: bool) {
        let key = (surface.to_owned(), value.to_owned());
        if self.values.len() == MAX_VALUES && !self.values.contains_key(&key) {
            self.unknown.too_many += u64::from(approved);
            return;
        }
        let of = self.values.entry(key).or_default();
        if !approved {
            of.denied += 1;
            return;
        }
        of.times += 1;
        of.agents.extend(entry.agent().map(str::to_owned));
        of.last_ms = of.last_ms.max(entry.at_ms());
    }

    /// Everything that was approved or denied, by surface and value.
    pub fn values(&self) -> impl Iterator<Item = (&str, &str, &Approved)> {
        self.values
            .iter()
            .map(|((surface, value), of)| (surface.as_str(), value.as_str(), of))
    }
}

fn digest(ask: &str, approved: bool) -> [u8; 16] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(ask.as_bytes());
    hasher.update(&[u8::from(approved)]);
    let mut short = [0; 16];
    hasher.finalize_xof().fill(&mut short);
    short
}

enum Value<'e> {
    Known(&'e str, &'e str),
    Cut,
    Masked,
    NotTold,
}

/// What a rule would be matched with: the first value that is judged. Members of other gates on the same surface are none.
fn value_of(entry: &Logged) -> Value<'_> {
    let Some(surface) = entry.text("surface").filter(|surface| !surface.is_empty()) else {
        return Value::NotTold;
    };
    let key = match surface {
        surface if is_command_surface(surface) => "command",
        "skill" => "skillName",
        surface if is_path_surface(surface) => "path",
        _ if entry.text("target").is_some() => "target",
        _ => "toolName",
    };
    let Some(value) = entry.text(key) else {
        return Value::NotTold;
    };
    if entry.members().contains_key(&format!("{key}_cut")) || value.ends_with('…') {
        Value::Cut
    } else if value.contains(REDACTED) {
        Value::Masked
    } else if value.is_empty() || entry.members().contains_key("surface_cut") {
        Value::NotTold
    } else {
        Value::Known(surface, value)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn entry(id: &str, event: &str, decided_by: &serde_json::Value, command: &str) -> Logged {
        let line = json!({
            "timestamp": "2026-11-30T13:00:00.000Z", "event": event, "decidedBy": decided_by, "requestId": id,
            "agentName": "scout", "surface": "bash", "toolName": "bash", "command": command,
        });
        Logged::parse(line.to_string().as_bytes()).unwrap()
    }

    fn counted(entries: &[Logged]) -> (Vec<(String, u64, u64)>, Unknown) {
        let mut approvals = Approvals::default();
        for entry in entries {
            approvals.count(entry);
        }
        let values = approvals
            .values()
            .map(|(_, value, of)| (value.to_owned(), of.times, of.denied))
            .collect();
        (values, approvals.unknown)
    }

    const APPROVED: &str = "permission_request.approved";
    const DENIED: &str = "permission_request.denied";

    #[test]
    fn only_what_a_person_approved_counts() {
        let person = json!({"kind": "user", "via": "dialog"});
        let further_up =
            json!({"kind": "forwarded", "responderSessionId": "R", "decision": person});
        let nobody_knows =
            json!({"kind": "forwarded", "responderSessionId": "R", "decision": null});
        let program =
            json!({"kind": "authorizer", "name": "judge", "verdict": "allow", "reason": null});
        let grant = json!({"kind": "session_approval", "surface": "bash", "pattern": "b"});
        let (values, unknown) = counted(&[
            entry("1", APPROVED, &person, "a"),
            // The same ask, at the session that passed it on.
            entry("1", APPROVED, &further_up, "a"),
            entry("2", APPROVED, &further_up, "a"),
            entry("3", APPROVED, &nobody_knows, "b"),
            entry("4", APPROVED, &program, "b"),
            entry("5", APPROVED, &grant, "b"),
            entry("6", "forwarded_permission.approved", &person, "b"),
            entry("7", DENIED, &person, "c"),
            entry("8", DENIED, &program, "c"),
            entry(
                "9",
                DENIED,
                &json!({"kind": "unavailable", "reason": "x"}),
                "d",
            ),
        ]);
        assert_eq!(values, [("a".to_owned(), 2, 0), ("c".to_owned(), 0, 2)]);
        assert_eq!(unknown, Unknown::default());
    }

    #[test]
    fn what_is_not_whole_is_counted_and_passed_over() {
        let person = json!({"kind": "user", "via": "dialog"});
        let mut cut = entry("1", APPROVED, &person, "aaa").members().clone();
        cut.insert("command_cut".to_owned(), json!({"units": 2000}));
        let mut path = entry("4", APPROVED, &person, "a").members().clone();
        path.insert("surface".to_owned(), json!("path_read"));
        let again = |members| {
            Logged::parse(serde_json::Value::Object(members).to_string().as_bytes()).unwrap()
        };
        let (values, unknown) = counted(&[
            again(cut),
            entry("2", APPROVED, &person, "peer cuts lik…"),
            entry("3", APPROVED, &person, "curl -H 'X-Key: [redacted]'"),
            again(path),
        ]);
        assert_eq!(values, []);
        assert_eq!(
            unknown,
            Unknown {
                cut: 2,
                masked: 1,
                not_told: 1,
                too_many: 0
            }
        );
    }
}
