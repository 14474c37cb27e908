#![expect(
    clippy::disallowed_methods,
    reason = "the tests change logs as a tool would"
)]

use std::fs;
use std::path::PathBuf;

use serde_json::json;

use super::*;
use crate::audit::{Entry, Options, ReviewLog, Unwritten};
use crate::wire::{DecisionSource, UserSurface};

const AT: i64 = 1_798_700_000_000;

struct Log {
    dir: tempfile::TempDir,
    writer: ReviewLog,
}

fn user() -> DecisionSource {
    DecisionSource::User {
        via: UserSurface::Dialog,
    }
}

const REQUESTS: &str = "/spool/sessions/main/requests";

fn of(event: Event) -> Entry {
    Entry::new(event)
        .with("requestId", "r1")
        .with("targetSessionId", "main")
        .with("requestPath", format!("{REQUESTS}/r1.json"))
}

fn ending(ending: Ending, by: &DecisionSource) -> Entry {
    Entry::ending(ending, by)
        .with("requestId", "r1")
        .with("targetSessionId", "main")
        .with("requestPath", format!("{REQUESTS}/r1.json"))
}

fn recorded() -> Entry {
    of(Event::SessionRecorded)
        .with(
            "grants",
            json!([{"surface": "bash", "pattern": "a"}, {"surface": "bash", "pattern": "b *"}]),
        )
        .with("grantIds", json!([4, 5]))
        .with("scope", json!({"kind": "session"}))
        .with("lifetime", json!({"kind": "uses", "uses": 9}))
        .with("kept", true)
}

fn end(event: Event, session: &str, id: u64) -> Entry {
    Entry::new(event)
        .with("sessionId", session)
        .with("grantId", id)
}

fn used(id: u64) -> Entry {
    let by = DecisionSource::SessionApproval {
        surface: "bash".into(),
        pattern: None,
    };
    ending(Ending::AutoApproved, &by).with("grantIds", json!([id]))
}

impl Log {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let writer = ReviewLog::open(&dir.path().join("log.jsonl"), Options::default()).unwrap();
        Self { dir, writer }
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("log.jsonl")
    }

    /// Adds entries with one write; gives the hashes of their lines.
    fn add(&self, at: i64, entries: &[Entry]) -> Vec<String> {
        let added = self.writer.append_durably(at, entries, Unwritten::Refused);
        added.unwrap()
    }

    /// A grant as the server writes it. Gives the hash of its line.
    fn grant(&self) -> String {
        let entries = [
            ending(Ending::RequestApproved, &user()),
            recorded(),
            ending(Ending::Approved, &user()),
        ];
        self.add(AT, &[of(Event::Prompted)]);
        self.add(AT + 1, &entries)[1].clone()
    }

    fn claim(&self, id: u64, line: &str) -> GrantedLog {
        let claims = [Claim {
            id,
            line: line.to_owned(),
        }];
        let main = SessionId::parse("main").unwrap();
        granted(&self.path(), &main, REQUESTS, &claims).unwrap()
    }

    fn refusal(&self, id: u64, line: &str) -> NotBorne {
        self.claim(id, line)
            .claims
            .remove(&id)
            .unwrap()
            .unwrap_err()
    }

    fn rewrite(&self, change: impl Fn(String) -> String) {
        let text = fs::read_to_string(self.path()).unwrap();
        fs::write(self.path(), change(text)).unwrap();
    }
}

#[test]
fn a_grant_is_borne_out_with_what_its_line_says_and_what_came_since() {
    let log = Log::new();
    let line = log.grant();
    log.add(AT + 2, &[used(5), end(Event::GrantRevoked, "main", 4)]);
    log.add(
        AT + 3,
        &[used(5), used(6), end(Event::GrantRevoked, "other", 5)],
    );
    let said = log.claim(5, &line);
    assert_eq!((said.last, said.newest_ms), (5, Some(AT + 3)));
    let borne = said.claims[&5].clone().unwrap();
    assert_eq!(
        borne,
        Borne {
            at_ms: AT + 1,
            request_id: "r1".into(),
            via: "dialog".into(),
            surface: "bash".into(),
            pattern: "b *".into(),
            is_family: false,
            scope: json!({"kind": "session"}),
            lifetime: json!({"kind": "uses", "uses": 9}),
            uses: 2,
        }
    );
}

#[test]
fn an_end_behind_the_line_wins() {
    for event in [
        Event::GrantExpired,
        Event::GrantUsedUp,
        Event::GrantRevoked,
        // Its file could not be written: it counted for one ask only.
        Event::GrantRefused,
    ] {
        let log = Log::new();
        let line = log.grant();
        log.add(AT + 2, &[end(event, "main", 5)]);
        assert_eq!(log.refusal(5, &line), NotBorne::Ended);
        assert!(log.claim(4, &line).claims[&4].is_ok());
    }
    // One of a grant of the same number before it is another grant's.
    let log = Log::new();
    log.add(AT, &[end(Event::GrantRevoked, "main", 5)]);
    let line = log.grant();
    assert!(log.claim(5, &line).claims[&5].is_ok());
}

#[test]
fn what_was_granted_with_an_answer_that_reached_nobody_is_not_borne_out() {
    for event in [Event::AnswerUnclaimed, Event::DecisionRecalled] {
        let log = Log::new();
        let line = log.grant();
        log.add(AT + 2, &[of(event).with("requestId", "r2")]);
        assert!(log.claim(5, &line).claims[&5].is_ok());
        log.add(AT + 3, &[of(event)]);
        assert_eq!(log.refusal(5, &line), NotBorne::NotAnswered);
    }
}

#[test]
fn what_a_session_of_the_same_name_granted_in_another_spool_is_not_borne_out() {
    let log = Log::new();
    let elsewhere = recorded().with("requestPath", "/other/sessions/main/requests/r1.json");
    let entries = [
        ending(Ending::RequestApproved, &user()),
        elsewhere,
        ending(Ending::Approved, &user()),
    ];
    let line = log.add(AT, &entries)[1].clone();
    assert_eq!(log.refusal(5, &line), NotBorne::OtherLine);
}

#[test]
fn a_log_that_was_changed_behind_the_line_bears_nothing_out() {
    let with_end = || {
        let log = Log::new();
        let line = log.grant();
        log.add(AT + 2, &[end(Event::GrantRevoked, "main", 5)]);
        log.add(AT + 3, &[of(Event::Prompted)]);
        (log, line)
    };
    let (log, line) = with_end();
    log.rewrite(|text| text.replace("grant.revoked", "grant.refused"));
    assert_eq!(log.refusal(5, &line), NotBorne::Broken);
    let (log, line) = with_end();
    log.rewrite(|text| {
        let kept = text.lines().filter(|line| !line.contains("grant.revoked"));
        kept.flat_map(|line| [line, "\n"]).collect()
    });
    assert_eq!(log.refusal(5, &line), NotBorne::Broken);
    // The line itself has another hash then.
    let (log, line) = with_end();
    log.rewrite(|text| text.replace("b *", "* *"));
    assert_eq!(log.refusal(5, &line), NotBorne::NoLine);
    // Nor does the approval before it bear anything out when it was written into the log.
    let log = Log::new();
    let line = log.grant();
    log.rewrite(|text| text.replacen("\"via\":\"dialog\"", "\"via\":\"select\"", 1));
    assert_eq!(log.refusal(5, &line), NotBorne::NoPerson);
}

#[test]
fn a_line_that_grants_something_else_or_without_a_person_bears_nothing_out() {
    let log = Log::new();
    let line = log.grant();
    assert_eq!(log.refusal(6, &line), NotBorne::OtherLine);
    assert_eq!(log.refusal(5, &"0".repeat(64)), NotBorne::NoLine);
    let program = DecisionSource::Authorizer {
        name: "x".into(),
        verdict: crate::wire::AuthorizerVerdict::Allow,
        reason: None,
    };
    let not_kept = of(Event::SessionRecorded)
        .with_facts(recorded().details().clone())
        .with("kept", false);
    for (entries, why) in [
        (vec![recorded()], NotBorne::OtherLine),
        (
            vec![recorded(), ending(Ending::Approved, &user())],
            NotBorne::NoPerson,
        ),
        (
            vec![
                ending(Ending::RequestApproved, &program),
                recorded(),
                ending(Ending::Approved, &user()),
            ],
            NotBorne::NoPerson,
        ),
        (
            vec![
                ending(Ending::RequestApproved, &user()),
                recorded(),
                ending(Ending::Denied, &user()),
            ],
            NotBorne::NoPerson,
        ),
        (
            vec![
                ending(Ending::RequestApproved, &user()),
                not_kept,
                ending(Ending::Approved, &user()),
            ],
            NotBorne::NotForKeeping,
        ),
        (
            vec![
                ending(Ending::RequestApproved, &user()),
                recorded().with("targetSessionId", "other"),
                ending(Ending::Approved, &user()),
            ],
            NotBorne::OtherLine,
        ),
    ] {
        let log = Log::new();
        let place = entries
            .iter()
            .position(|entry| entry.event().ends_with("recorded"));
        let line = log.add(AT, &entries)[place.unwrap()].clone();
        assert_eq!(log.refusal(5, &line), why, "{entries:?}");
    }
}

#[test]
fn a_grant_is_found_in_a_file_that_was_rotated_away() {
    let log = Log::new();
    let line = log.grant();
    let rotating = Options {
        max_bytes: Some(1),
        ..Options::default()
    };
    let writer = ReviewLog::open(&log.path(), rotating).unwrap();
    writer.append(AT + 2, &of(Event::Prompted)).unwrap();
    assert!(fs::read_dir(log.dir.path()).unwrap().count() > 1);
    assert!(log.claim(5, &line).claims[&5].is_ok());
}

#[test]
fn the_highest_number_is_told_where_nothing_is_claimed() {
    let log = Log::new();
    log.grant();
    let last = |session, requests| {
        let session = SessionId::parse(session).unwrap();
        let said = granted(&log.path(), &session, requests, &[]).unwrap();
        assert!(said.claims.is_empty());
        said.last
    };
    assert_eq!(last("main", REQUESTS), 5);
    assert_eq!(last("other", REQUESTS), 0);
    assert_eq!(last("main", "/spool/sessions/main/req"), 0);
    // Whoever writes a line of its own leaves the server some numbers.
    log.add(AT, &[recorded().with("grantIds", json!([u64::MAX, 7]))]);
    assert_eq!(last("main", REQUESTS), 7);
}
