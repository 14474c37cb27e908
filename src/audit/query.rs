//! Which entries of a log are wanted.

use super::decider::DeciderKind;
use super::logged::{Logged, Outcome};

/// By how much clocks may have been wrong when a whole file is passed over for its time, in milliseconds.
const CLOCK_MARGIN: i64 = 24 * 60 * 60 * 1000;

/// A decider that is looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeciderFilter {
    /// Its kind, behind all `forwarded` frames.
    pub kind: DeciderKind,
    /// Name of a link of the authorizer chain, where one is meant.
    pub name: Option<String>,
}

/// What an entry has to be about; what is not set does not matter.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Query {
    /// The ask.
    pub request: Option<String>,
    /// A beginning of the ask's id.
    pub request_begins: Option<String>,
    /// A session that has a part in it.
    pub session: Option<String>,
    /// The agent that asks.
    pub agent: Option<String>,
    /// The event, or a beginning of its name.
    pub event: Option<String>,
    /// How the ask ended.
    pub outcome: Option<Outcome>,
    /// Who decided.
    pub decider: Option<DeciderFilter>,
    /// Not before this, in epoch milliseconds.
    pub since_ms: Option<i64>,
    /// Before this, in epoch milliseconds.
    pub until_ms: Option<i64>,
}

impl Query {
    /// Whether every entry is wanted.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether this entry is wanted.
    pub fn wants(&self, entry: &Logged) -> bool {
        let same = |wanted: &Option<String>, is: Option<&str>| {
            wanted.as_deref().is_none_or(|wanted| is == Some(wanted))
        };
        let begins = |wanted: &Option<String>, is: &str| {
            wanted
                .as_deref()
                .is_none_or(|wanted| is.starts_with(wanted))
        };
        same(&self.request, entry.request_id())
            && begins(&self.request_begins, entry.request_id().unwrap_or_default())
            && begins(&self.event, entry.event())
            && same(&self.agent, entry.agent())
            && self
                .session
                .as_deref()
                .is_none_or(|session| entry.names_session(session))
            && self
                .outcome
                .is_none_or(|outcome| entry.outcome() == Some(outcome))
            && self
                .decider
                .as_ref()
                .is_none_or(|decider| decider.is_that_of(entry))
            && self.wants_time(|| entry.at_ms())
    }

    /// Whether an entry of this time is wanted. One that tells no time is, unless a time is asked for.
    pub(super) fn wants_time(&self, at_ms: impl FnOnce() -> Option<i64>) -> bool {
        if self.since_ms.is_none() && self.until_ms.is_none() {
            return true;
        }
        at_ms().is_some_and(|at| {
            self.since_ms.is_none_or(|since| at >= since)
                && self.until_ms.is_none_or(|until| at < until)
        })
    }

    /// Bytes that stand in every line that is wanted. Every writer writes such text as it is; whoever escapes it otherwise could
    /// as well leave it out.
    pub(super) fn needle(&self) -> Option<&[u8]> {
        let known = [
            &self.request,
            &self.request_begins,
            &self.session,
            &self.agent,
            &self.event,
        ];
        known
            .into_iter()
            .flatten()
            .find(|text| is_written_as_it_is(text))
            .map(String::as_bytes)
    }

    /// Whether a file that was rotated away cannot hold what is wanted: it was last written before the range, or its first entry is
    /// later.
    pub(super) fn rules_out(&self, written_ms: Option<i64>, first_ms: Option<i64>) -> bool {
        let before = self
            .since_ms
            .zip(written_ms)
            .is_some_and(|(since, written)| written.saturating_add(CLOCK_MARGIN) < since);
        let behind = self
            .until_ms
            .zip(first_ms)
            .is_some_and(|(until, first)| first > until.saturating_add(CLOCK_MARGIN));
        before || behind
    }
}

/// Whether JSON has a text as it is between its quotes.
fn is_written_as_it_is(text: &str) -> bool {
    !text.is_empty()
        && text
            .bytes()
            .all(|byte| (b' '..=b'~').contains(&byte) && !matches!(byte, b'"' | b'\\' | b'/'))
}

impl DeciderFilter {
    fn is_that_of(&self, entry: &Logged) -> bool {
        if entry.decider_kind() != Some(self.kind) {
            return false;
        }
        self.name.is_none()
            || entry.decider().and_then(|decider| decider.text("name")) == self.name.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn entry() -> Logged {
        let line = json!({
            "timestamp": "2026-11-30T13:00:00.500Z", "event": "forwarded_permission.approved", "requestId": "r1",
            "requesterAgentName": "scout", "requesterSessionId": "child", "targetSessionId": "S1",
            "decidedBy": {"kind": "forwarded", "responderSessionId": "P",
                "decision": {"kind": "authorizer", "name": "guard", "verdict": "allow", "reason": null}},
        });
        Logged::parse(line.to_string().as_bytes()).unwrap()
    }

    fn query(set: impl FnOnce(&mut Query)) -> Query {
        let mut query = Query::default();
        set(&mut query);
        query
    }

    fn decided_by(kind: DeciderKind, name: Option<&str>) -> Query {
        let name = name.map(str::to_owned);
        query(|query| query.decider = Some(DeciderFilter { kind, name }))
    }

    #[test]
    fn every_filter_must_hold() {
        let at = 1_796_043_600_500;
        assert_eq!(entry().at_ms(), Some(at));
        let event = |name: &str| query(|query| query.event = Some(name.into()));
        for (query, wanted) in [
            (Query::default(), true),
            (query(|query| query.request = Some("r1".into())), true),
            (query(|query| query.request = Some("r".into())), false),
            (query(|query| query.session = Some("P".into())), true),
            (query(|query| query.session = Some("X".into())), false),
            (query(|query| query.agent = Some("scout".into())), true),
            (event("forwarded_permission."), true),
            (event("permission_request."), false),
            (query(|query| query.outcome = Some(Outcome::Approved)), true),
            (query(|query| query.outcome = Some(Outcome::Nobody)), false),
            (decided_by(DeciderKind::Authorizer, None), true),
            (decided_by(DeciderKind::Authorizer, Some("guard")), true),
            (decided_by(DeciderKind::Authorizer, Some("other")), false),
            (decided_by(DeciderKind::User, None), false),
            (
                query(|query| (query.since_ms, query.until_ms) = (Some(at), Some(at + 1))),
                true,
            ),
            (query(|query| query.until_ms = Some(at)), false),
            (query(|query| query.since_ms = Some(at + 1)), false),
        ] {
            assert_eq!(query.wants(&entry()), wanted, "{query:?}");
        }
        let timeless = Logged::parse(b"{}").unwrap();
        assert!(Query::default().wants(&timeless));
        assert!(!query(|query| query.since_ms = Some(0)).wants(&timeless));
    }

    #[test]
    fn a_needle_is_only_what_json_writes_as_it_is() {
        let needle = |id: &str| {
            query(|query| (query.request, query.agent) = (Some(id.into()), Some("scout".into())))
                .needle()
                .map(<[u8]>::to_vec)
        };
        assert_eq!(needle("r1").unwrap(), b"r1");
        for id in ["", "a\"b", "a\\b", "a/b", "ä", "a\tb"] {
            assert_eq!(needle(id).unwrap(), b"scout", "{id}");
        }
        assert_eq!(Query::default().needle(), None);
    }

    #[test]
    fn a_file_is_passed_over_only_with_a_day_to_spare() {
        let query = Query {
            since_ms: Some(10 * CLOCK_MARGIN),
            until_ms: Some(11 * CLOCK_MARGIN),
            ..Query::default()
        };
        assert!(query.rules_out(Some(9 * CLOCK_MARGIN - 1), None));
        assert!(!query.rules_out(Some(9 * CLOCK_MARGIN), None));
        assert!(query.rules_out(None, Some(12 * CLOCK_MARGIN + 1)));
        assert!(!query.rules_out(None, Some(12 * CLOCK_MARGIN)));
        assert!(!query.rules_out(None, None));
        assert!(!Query::default().rules_out(Some(0), Some(i64::MAX)));
    }
}
