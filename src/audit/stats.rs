//! Counting decisions: by who decided, by agent, by session.
//!
//! A decision is the last word of a serving session on an ask, counted once for each session and ask, however often it stands in the
//! log. A session that passes an ask on has a last word of its own, and the decider is the one behind all frames: such a decision is
//! counted at each session that gave it, and as passed on where another one made it.

use std::collections::{BTreeMap, HashSet};

use super::decider::DeciderKind;
use super::logged::{Logged, Outcome, is_launch};

/// Most names of one kind that are told apart; further ones are counted together.
const MAX_NAMES: usize = 10_000;

/// Under which name further ones are counted.
const OTHERS: &str = "…";

/// How many decisions had which outcome.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Approvals.
    pub approved: u64,
    /// Denials by an authority.
    pub denied: u64,
    /// Denials for which nobody with authority was there.
    pub nobody: u64,
    /// How many of all were made by another session.
    pub passed_on: u64,
}

impl Tally {
    /// All of them.
    pub const fn total(self) -> u64 {
        self.approved + self.denied + self.nobody
    }

    fn count(&mut self, outcome: Outcome, passed_on: bool) {
        match outcome {
            Outcome::Approved => self.approved += 1,
            Outcome::Denied => self.denied += 1,
            Outcome::Nobody => self.nobody += 1,
        }
        self.passed_on += u64::from(passed_on);
    }
}

/// How often a link of the authorizer chain was asked, and what came of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LinkTally {
    /// Verdicts that allowed.
    pub allowed: u64,
    /// Verdicts that denied.
    pub denied: u64,
    /// Verdicts that left it open.
    pub deferred: u64,
    /// Allows that did not count.
    pub capped: u64,
    /// Times that it gave no verdict.
    pub failed: u64,
    /// Times that it was stopped, for its verdict was not needed any more.
    pub cancelled: u64,
    /// How many took so many milliseconds, to two digits; those that were stopped are not among them.
    latencies: BTreeMap<u64, u64>,
}

impl LinkTally {
    /// How often it was asked.
    pub const fn asked(&self) -> u64 {
        self.allowed + self.denied + self.deferred + self.capped + self.failed + self.cancelled
    }

    /// What the middle one of its verdicts and failures took, in milliseconds, to two digits.
    pub fn median_ms(&self) -> Option<u64> {
        let all: u64 = self.latencies.values().sum();
        let mut before = 0;
        let middle = self.latencies.iter().find(|(_, count)| {
            before += **count;
            before * 2 >= all
        });
        middle.map(|(latency, _)| *latency)
    }

    fn count(&mut self, outcome: &str, latency_ms: Option<u64>) {
        let of = match outcome {
            "allow" => &mut self.allowed,
            "deny" => &mut self.denied,
            "defer" => &mut self.deferred,
            "capped" => &mut self.capped,
            "failed" => &mut self.failed,
            "cancelled" => &mut self.cancelled,
            // Nobody has written that yet.
            _ => return,
        };
        *of += 1;
        if let Some(latency) = latency_ms.filter(|_| outcome != "cancelled") {
            *self.latencies.entry(two_digits(latency)).or_default() += 1;
        }
    }
}

/// A number with all but its first two digits made zero, so that there are few of them.
fn two_digits(number: u64) -> u64 {
    let mut unit = 1;
    while number / unit >= 100 {
        unit *= 10;
    }
    number / unit * unit
}

/// What a log holds, in numbers.
#[derive(Debug, Default)]
pub struct Stats {
    /// Entries that were counted.
    pub entries: u64,
    /// Their bytes.
    pub bytes: u64,
    /// What is no entry.
    pub pieces: u64,
    /// The earliest and the latest time that an entry tells, in epoch milliseconds.
    pub range: Option<(i64, i64)>,
    /// Entries of each event.
    pub events: BTreeMap<String, u64>,
    /// All decisions.
    pub decisions: Tally,
    /// Last words that stood there before: the same ask at the same session.
    pub repeated: u64,
    /// Asks that were decided.
    pub asks: u64,
    /// Decisions by what decided.
    pub by_decider: BTreeMap<DeciderKind, Tally>,
    /// Decisions by link of the authorizer chain.
    pub by_link: BTreeMap<String, Tally>,
    /// How often each link of the authorizer chain was asked, and what it said.
    pub links: BTreeMap<String, LinkTally>,
    /// The agent of each child that was launched, by the child's session.
    pub launched: BTreeMap<String, String>,
    /// Decisions by the agent that asked.
    pub by_agent: BTreeMap<String, Tally>,
    /// Decisions by the session that answered.
    pub by_session: BTreeMap<String, Tally>,
    /// Digests of the asks, and of asks with their sessions: an id may be as long as it likes.
    seen_asks: HashSet<[u8; 16]>,
    seen: HashSet<[u8; 16]>,
    /// Digests of the sessions that asked.
    asked: HashSet<[u8; 16]>,
}

impl Stats {
    /// Counts an entry whose line has so many bytes.
    pub fn count(&mut self, entry: &Logged, bytes: usize) {
        self.count_header(entry.event(), entry.at_ms(), bytes);
        if entry.is_terminal() {
            if let Some(requester) = entry.text("requesterSessionId") {
                self.asked.insert(digest(&[requester]));
            }
            self.decision(entry);
        } else if is_launch(entry.event()) {
            let child = entry.text("childSessionId").unwrap_or("-");
            let agent = entry.text("agentName").unwrap_or("-");
            agent.clone_into(named(&mut self.launched, child));
        } else if entry.is_of_link() {
            let link = named(&mut self.links, entry.text("name").unwrap_or("-"));
            link.count(
                entry.text("outcome").unwrap_or_default(),
                entry.count("latencyMs"),
            );
        }
    }

    /// Counts an entry that is no decision, of which nothing else is known.
    pub fn count_header(&mut self, event: &str, at_ms: Option<i64>, bytes: usize) {
        self.entries += 1;
        self.bytes += bytes as u64 + 1;
        if let Some(at) = at_ms {
            self.range = Some(
                self.range
                    .map_or((at, at), |(first, last)| (first.min(at), last.max(at))),
            );
        }
        *named(&mut self.events, event) += 1;
    }

    /// The children that were launched and of which no ask was decided, with their agents. One that never asks may have had no reason
    /// to, or may not be routed through the relay at all.
    pub fn silent(&self) -> impl Iterator<Item = (&str, &str)> {
        self.launched
            .iter()
            .filter(|(child, _)| !self.asked.contains(&digest(&[child])))
            .map(|(child, agent)| (child.as_str(), agent.as_str()))
    }

    /// Share of the decisions that a person made, of those that anybody with authority made.
    pub fn human_share(&self) -> Option<f64> {
        let of = |kind| self.by_decider.get(&kind).copied().unwrap_or_default();
        let human = of(DeciderKind::User).total();
        let ruled = self.decisions.approved + self.decisions.denied;
        #[expect(clippy::cast_precision_loss, reason = "a share")]
        let share = (ruled > 0).then(|| human as f64 / ruled as f64);
        share
    }

    /// Approvals of which no decider is known.
    pub fn approved_by_unknown(&self) -> u64 {
        self.by_decider
            .get(&DeciderKind::Unknown)
            .map_or(0, |tally| tally.approved)
    }

    fn decision(&mut self, entry: &Logged) {
        let id = entry.request_id().unwrap_or_default();
        let session = entry.text("targetSessionId").unwrap_or_default();
        // What has no id is nobody's repetition.
        if !id.is_empty() {
            if self.seen_asks.insert(digest(&[id])) {
                self.asks += 1;
            }
            if !self.seen.insert(digest(&[id, session])) {
                self.repeated += 1;
                return;
            }
        }
        let Some(outcome) = entry.outcome() else {
            return;
        };
        let decider = entry.decider();
        let kind = entry.decider_kind().unwrap_or(DeciderKind::Unknown);
        let passed_on = decider
            .as_ref()
            .is_some_and(|decider| !decider.hops.is_empty());
        let count = |tally: &mut Tally| tally.count(outcome, passed_on);
        count(&mut self.decisions);
        count(self.by_decider.entry(kind).or_default());
        if let Some(decider) = decider.filter(|decider| decider.kind == DeciderKind::Authorizer) {
            count(named(
                &mut self.by_link,
                decider.text("name").unwrap_or("-"),
            ));
        }
        count(named(&mut self.by_agent, entry.agent().unwrap_or("-")));
        count(named(
            &mut self.by_session,
            if session.is_empty() { "-" } else { session },
        ));
    }
}

/// What is counted under a name.
fn named<'a, T: Default>(counts: &'a mut BTreeMap<String, T>, name: &str) -> &'a mut T {
    let name = if counts.contains_key(name) || counts.len() < MAX_NAMES {
        name
    } else {
        OTHERS
    };
    counts.entry(name.to_owned()).or_default()
}

fn digest(texts: &[&str]) -> [u8; 16] {
    let mut hasher = blake3::Hasher::new();
    for text in texts {
        hasher.update(&(text.len() as u64).to_le_bytes());
        hasher.update(text.as_bytes());
    }
    let mut digest = [0; 16];
    hasher.finalize_xof().fill(&mut digest);
    digest
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn stats(entries: &[Value]) -> Stats {
        let mut stats = Stats::default();
        for entry in entries {
            let line = entry.to_string();
            stats.count(&Logged::parse(line.as_bytes()).unwrap(), line.len());
        }
        stats
    }

    fn decision(event: &str, id: &str, session: &str, decider: &Value) -> Value {
        json!({"timestamp": "2026-11-30T13:00:00Z", "event": format!("forwarded_permission.{event}"), "requestId": id,
            "targetSessionId": session, "requesterAgentName": "scout", "decidedBy": decider})
    }

    #[test]
    fn each_ask_counts_once_for_each_session_that_answered_it() {
        let user = json!({"kind": "user", "via": "dialog"});
        let through = json!({"kind": "forwarded", "responderSessionId": "P", "decision": user});
        let rule = json!({"kind": "rule", "surface": "bash", "pattern": null, "origin": null});
        let nobody = json!({"kind": "unavailable", "reason": "x"});
        let stats = stats(&[
            decision("prompted", "r1", "P", &Value::Null),
            decision("approved", "r1", "P", &user),
            decision("approved", "r1", "S1", &through),
            decision("approved", "r1", "P", &user),
            decision("denied", "r2", "P", &rule),
            decision("denied", "r3", "P", &nobody),
            decision("approved", "r4", "P", &Value::Null),
        ]);
        assert_eq!((stats.entries, stats.asks, stats.repeated), (7, 4, 1));
        assert_eq!(
            stats.decisions,
            Tally {
                approved: 3,
                denied: 1,
                nobody: 1,
                passed_on: 1
            }
        );
        let user = stats.by_decider[&DeciderKind::User];
        assert_eq!((user.approved, user.passed_on), (2, 1));
        assert_eq!(stats.by_session["P"].total(), 4);
        assert_eq!(stats.by_agent["scout"].total(), 5);
        assert_eq!(stats.approved_by_unknown(), 1);
        assert_eq!(stats.human_share(), Some(0.5));
        assert_eq!(stats.events["forwarded_permission.approved"], 4);
        assert_eq!(Stats::default().human_share(), None);
    }

    #[test]
    fn a_child_that_was_launched_and_never_asked_is_named() {
        let mut stats = Stats::default();
        let mut count = |entry: Value| {
            let entry = Logged::parse(entry.to_string().as_bytes()).unwrap();
            stats.count(&entry, 1);
        };
        for child in ["w1", "w2"] {
            count(
                json!({"event": "child.launched", "childSessionId": child, "agentName": "builder"}),
            );
        }
        count(
            json!({"event": "forwarded_permission.approved", "requestId": "r1", "requesterSessionId": "w2"}),
        );
        assert_eq!(stats.launched.len(), 2);
        assert_eq!(stats.silent().collect::<Vec<_>>(), [("w1", "builder")]);
    }

    #[test]
    fn what_each_link_said_is_counted_with_the_middle_of_its_times() {
        let said = |outcome: &str, latency: Value| json!({"event": "authorizer_link", "name": "judge", "outcome": outcome, "latencyMs": latency});
        let stats = stats(&[
            said("allow", json!(1)),
            said("deny", json!(1_234)),
            said("defer", json!(1_299)),
            said("failed", json!(30_007)),
            said("capped", json!("soon")),
            said("cancelled", json!(1)),
            said("odd", json!(1)),
        ]);
        let link = &stats.links["judge"];
        assert_eq!(link.asked(), 6);
        let counts = [
            link.allowed,
            link.denied,
            link.deferred,
            link.capped,
            link.failed,
        ];
        assert_eq!(counts, [1; 5]);
        assert_eq!(link.median_ms(), Some(1_200));
        assert_eq!(LinkTally::default().median_ms(), None);
        assert_eq!(two_digits(u64::MAX), 18_000_000_000_000_000_000);
        assert_eq!(stats.decisions.total(), 0);
    }

    #[test]
    fn names_beyond_number_are_counted_together() {
        let entries: Vec<_> = (0..=MAX_NAMES + 1)
            .map(|n| json!({"event": format!("e{n}")}))
            .collect();
        let stats = stats(&entries);
        assert_eq!(stats.events.len(), MAX_NAMES + 1);
        assert_eq!(stats.events[OTHERS], 2);
    }
}
