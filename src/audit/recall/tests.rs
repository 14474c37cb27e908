#![expect(
    clippy::disallowed_methods,
    reason = "the tests lay out logs as a crash leaves them"
)]

use std::fs;
use std::io::Write as _;

use serde_json::{Value, json};

use super::*;
use crate::audit::{Entry, Options, ReviewLog};
use crate::wire::UserSurface;

const HOUR_MS: i64 = 3_600_000;
/// When the requests of these tests were written.
const AT: i64 = 1_798_700_000_000;

fn id(name: &str) -> RequestId {
    RequestId::parse(name).unwrap()
}

fn user() -> DecisionSource {
    DecisionSource::User {
        via: UserSurface::Select,
    }
}

fn digest(name: &str) -> Digest {
    Digest::of(name.as_bytes())
}

/// The entry of an answer about `name`.
fn answer(name: &str, state: DecisionState, decided_by: &DecisionSource) -> Entry {
    let ending = if state.is_approved() {
        Ending::Approved
    } else {
        Ending::Denied
    };
    Entry::ending(ending, decided_by)
        .with("requestId", name)
        .with("targetSessionId", "main")
        .with("resolution", state.name())
        .with("denialReason", Value::Null)
        .with("requestDigest", digest(name).to_string())
}

fn event(event: Event, name: &str) -> Entry {
    Entry::new(event)
        .with("requestId", name)
        .with("targetSessionId", "main")
}

/// A log of these entries, a second apart from `AT` on.
struct Log {
    dir: tempfile::TempDir,
    at: i64,
    writer: ReviewLog,
}

impl Log {
    fn new(options: Options) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let writer = ReviewLog::open(&dir.path().join("review.jsonl"), options).unwrap();
        Self {
            dir,
            at: AT,
            writer,
        }
    }

    fn of(entries: &[Entry]) -> Self {
        let mut log = Self::new(Options::default());
        log.add(entries);
        log
    }

    fn add(&mut self, entries: &[Entry]) {
        for entry in entries {
            self.at += 1000;
            self.writer.append(self.at, entry).unwrap();
        }
    }

    fn path(&self) -> std::path::PathBuf {
        self.dir.path().join("review.jsonl")
    }

    fn recall(&self, names: &[&str]) -> HashMap<RequestId, Recalled> {
        let ids: Vec<RequestId> = names.iter().map(|name| id(name)).collect();
        let found = recall(
            &self.path(),
            &SessionId::parse("main").unwrap(),
            &ids,
            Some(AT),
        );
        assert!(found.trouble.is_none(), "{:?}", found.trouble);
        found.decisions
    }

    fn found(&self, names: &[&str]) -> Vec<String> {
        let mut found: Vec<String> = self.recall(names).keys().map(ToString::to_string).collect();
        found.sort();
        found
    }
}

#[test]
fn a_persons_decision_is_found_whole() {
    let mut wide = Decision::approved(user());
    wide.state = DecisionState::ApprovedForSession;
    wide.width = GrantWidth::Family;
    let log = Log::of(&[
        event(Event::Prompted, "a"),
        answer("a", DecisionState::Approved, &user()),
        answer("b", DecisionState::DeniedWithReason, &user()).with("denialReason", "use make"),
        answer("c", DecisionState::ApprovedForSession, &user()).with("sessionGrantWidth", "family"),
        answer("d", DecisionState::Denied, &user()),
        Entry::new(Event::ServingStarted).with("sessionId", "main"),
    ]);
    let found = log.recall(&["a", "b", "c", "d", "e"]);
    assert_eq!(found.len(), 4);
    assert_eq!(found[&id("a")].decision, Decision::approved(user()));
    assert_eq!(found[&id("a")].digest, digest("a"));
    assert_eq!(found[&id("a")].recorded_at, "2026-12-31T06:53:22.000Z");
    assert_eq!(
        found[&id("b")].decision,
        Decision::denied(Some("use make".to_owned()), user())
    );
    assert_eq!(found[&id("c")].decision, wide);
    assert_eq!(found[&id("d")].decision, Decision::denied(None, user()));
}

#[test]
fn only_a_persons_word_about_a_request_of_this_session_counts() {
    let forwarded = |decision| DecisionSource::forwarded_from(Some("top".to_owned()), decision);
    let rule = DecisionSource::Rule {
        surface: "bash".to_owned(),
        pattern: Some("ls *".to_owned()),
        origin: None,
    };
    let approved = DecisionState::Approved;
    let log = Log::of(&[
        answer("rule", approved, &rule),
        answer(
            "nobody",
            DecisionState::Denied,
            &Decision::unavailable("x").decided_by,
        ),
        answer("gap", approved, &forwarded(None)),
        answer("far-rule", approved, &forwarded(Some(rule.clone()))),
        // What the person of a parent said is a person's word too.
        answer("far-user", approved, &forwarded(Some(user()))),
        answer("elsewhere", approved, &user()).with("targetSessionId", "other"),
        answer("no-digest", approved, &user()).with("requestDigest", Value::Null),
        answer("bad-digest", approved, &user()).with("requestDigest", "blake3:12"),
        answer("no-state", approved, &user()).with("resolution", "maybe"),
        answer("two-states", approved, &user()).with("resolution", "denied"),
        answer("whole-session", approved, &user()).with(
            "resolution",
            DecisionState::ApprovedForServingSession.name(),
        ),
        answer("other", approved, &user()).with("note", "\"requestId\":\"quoted\""),
    ]);
    let names = [
        "rule",
        "nobody",
        "gap",
        "far-rule",
        "far-user",
        "elsewhere",
        "no-digest",
        "bad-digest",
        "no-state",
        "two-states",
        "whole-session",
        "quoted",
    ];
    assert_eq!(log.found(&names), ["far-user"]);
}

#[test]
fn the_newest_word_counts() {
    let ask = || event(Event::Prompted, "a");
    let yes = || answer("a", DecisionState::Approved, &user());
    let no = || answer("a", DecisionState::Denied, &user());
    let ending = |ending| {
        Entry::ending(ending, &Decision::unavailable("x").decided_by)
            .with("requestId", "a")
            .with("targetSessionId", "main")
    };
    let state = |entries: &[Entry]| {
        let found = Log::of(entries).recall(&["a"]);
        found.get(&id("a")).map(|found| found.decision.state)
    };
    for (entries, wanted) in [
        (vec![ask(), no(), yes()], Some(DecisionState::Approved)),
        (vec![ask(), yes(), no()], Some(DecisionState::Denied)),
        // It was asked again since: the log could not be read then, or something else was asked.
        (vec![yes(), ask()], None),
        (vec![yes(), event(Event::RequestCreated, "a")], None),
        // It is over.
        (vec![yes(), event(Event::AnswerUnclaimed, "a")], None),
        (vec![yes(), ending(Ending::RequestWithdrawn)], None),
        (vec![yes(), ending(Ending::RequesterGone)], None),
        (vec![yes(), ending(Ending::ResponseReceived)], None),
        // What only tells of the way there is passed over, and so is what was said of other sessions.
        (
            vec![
                yes(),
                event(Event::Error, "a"),
                event(Event::DecisionRecalled, "a"),
            ],
            Some(DecisionState::Approved),
        ),
        (
            vec![yes(), ask().with("targetSessionId", "other")],
            Some(DecisionState::Approved),
        ),
        // The answer's entry did not get written any more.
        (vec![ask(), ending(Ending::RequestApproved)], None),
    ] {
        assert_eq!(state(&entries), wanted, "{entries:#?}");
    }
}

#[test]
fn the_piece_of_a_line_that_a_crash_left_is_no_decision() {
    let log = Log::of(&[
        event(Event::Prompted, "a"),
        answer("a", DecisionState::Approved, &user()),
    ]);
    let whole = fs::read(log.path()).unwrap();
    let begun = whole[..whole.len() - 1]
        .iter()
        .rposition(|byte| *byte == b'\n')
        .unwrap()
        + 1;
    for end in [
        begun,
        begun + 1,
        begun + 40,
        whole.len() - 2,
        whole.len() - 1,
    ] {
        fs::write(log.path(), &whole[..end]).unwrap();
        assert_eq!(log.found(&["a"]), [""; 0], "{end}");
    }
    fs::write(log.path(), &whole).unwrap();
    assert_eq!(log.found(&["a"]), ["a"]);
}

#[test]
fn odd_lines_hide_nothing_that_is_older() {
    let mut log = Log::of(&[answer("a", DecisionState::Approved, &user())]);
    let mut file = fs::OpenOptions::new()
        .append(true)
        .open(log.path())
        .unwrap();
    file.write_all(b"\n\n{}\n[1]\nnot json\n{\"requestId\":\"a\"\n{\"requestId\":\"a\"}\n")
        .unwrap();
    // Longer than what is read at once, and longer than any line that is looked at.
    for length in [
        CHUNK - 1,
        CHUNK,
        CHUNK + 1,
        3 * CHUNK + 7,
        MAX_LINE + CHUNK + 1,
    ] {
        writeln!(
            file,
            "{{\"requestId\":\"a\",\"x\":\"{}\"}}",
            "y".repeat(length)
        )
        .unwrap();
    }
    file.write_all(b"\xff\xfe\n").unwrap();
    log.add(&[event(Event::Prompted, "b")]);
    assert_eq!(log.found(&["a", "b"]), ["a"]);
}

#[test]
fn every_line_of_a_file_is_shown_last_first() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("lines");
    for (count, width) in [
        (0, 0),
        (1, 10),
        (5, 0),
        (40, CHUNK / 7),
        (9, CHUNK),
        (3, CHUNK * 2 + 1),
    ] {
        let lines: Vec<String> = (0..count)
            .map(|n| format!("{n}{}", "x".repeat(width)))
            .collect();
        for (head, tail) in [("", ""), ("\n", ""), ("", "torn"), ("\n\n", "torn")] {
            let mut all = lines.join("\n");
            if count > 0 {
                all.push('\n');
            }
            fs::write(&path, format!("{head}{all}{tail}")).unwrap();
            let mut seen = Vec::new();
            let mut left = MOST_BYTES;
            let on = backwards(&File::open(&path).unwrap(), &mut left, |line| {
                seen.push(String::from_utf8(line.to_vec()).unwrap());
                ControlFlow::Continue(())
            });
            assert!(on.unwrap().is_continue());
            seen.reverse();
            let wanted: Vec<String> = head
                .chars()
                .map(|_| String::new())
                .chain(lines.clone())
                .collect();
            assert!(seen == wanted, "{count} {width} {head:?} {tail:?}");
        }
    }
}

#[test]
fn files_that_were_rotated_away_are_read_too() {
    let mut log = Log::new(Options {
        max_bytes: Some(2000),
        ..Options::default()
    });
    log.add(&[answer("old", DecisionState::Approved, &user())]);
    for n in 0..40 {
        log.add(&[event(Event::Prompted, &format!("other-{n}"))]);
    }
    log.add(&[answer("new", DecisionState::Denied, &user())]);
    assert!(family::list(&log.path()).unwrap().len() > 3);
    assert_eq!(log.found(&["old", "new", "none"]), ["new", "old"]);
    // The moment in which there is no current file.
    fs::remove_file(log.path()).unwrap();
    assert_eq!(log.found(&["old"]), ["old"]);
}

#[test]
fn it_ends_where_nothing_newer_is_to_be_expected() {
    let mut log = Log::new(Options::default());
    log.at = AT - 48 * HOUR_MS;
    log.add(&[answer("a", DecisionState::Approved, &user())]);
    let filler = event(Event::Prompted, "other").with("message", "x".repeat(900));
    let fill = |log: &mut Log, bytes: usize| log.add(&vec![filler.clone(); bytes / 1000 + 1]);
    fill(&mut log, MOST_OLD_BYTES / 2);
    // As where the clock was set back in between: some old lines are passed over.
    assert_eq!(log.found(&["a"]), ["a"]);
    fill(&mut log, MOST_OLD_BYTES);
    assert_eq!(log.found(&["a"]), [""; 0]);
    log.at = AT;
    log.add(&[answer("a", DecisionState::Denied, &user())]);
    fill(&mut log, MOST_OLD_BYTES);
    assert_eq!(log.found(&["a"]), ["a"]);
}

/// TIME-1: the times in the log order nothing, and an hour or a few lines do not matter.
#[test]
fn a_clock_that_was_set_back_or_ahead_hides_no_decision() {
    for set_to in [AT - 24 * HOUR_MS, AT + 24 * HOUR_MS, 0] {
        let mut log = Log::of(&[answer("a", DecisionState::Approved, &user())]);
        log.at = set_to;
        for n in 0..200 {
            log.add(&[event(Event::Prompted, &format!("other-{n}"))]);
        }
        log.add(&[answer("b", DecisionState::Denied, &user())]);
        assert_eq!(log.found(&["a", "b", "none"]), ["a", "b"], "{set_to}");
    }
    // The files' clock is ahead of the one that the log goes by.
    let mut log = Log::new(Options::default());
    log.at = AT - HOUR_MS / 2;
    log.add(&[answer("a", DecisionState::Approved, &user())]);
    for n in 0..2_000 {
        log.add(&[event(Event::Prompted, &format!("other-{n}"))]);
    }
    assert_eq!(log.found(&["a"]), ["a"]);
}

#[test]
fn it_reads_no_more_than_it_may() {
    let log = Log::of(&[answer("a", DecisionState::Approved, &user())]);
    let mut file = fs::OpenOptions::new()
        .append(true)
        .open(log.path())
        .unwrap();
    let line = format!("{{\"x\":\"{}\"}}\n", "y".repeat(100_000));
    let lines = usize::try_from(MOST_BYTES).unwrap() / line.len() + 1;
    for _ in 0..lines {
        file.write_all(line.as_bytes()).unwrap();
    }
    assert_eq!(log.found(&["a"]), [""; 0]);
}

#[test]
fn a_log_that_cannot_be_read_says_so_and_an_empty_inbox_asks_for_none() {
    let dir = tempfile::tempdir().unwrap();
    let session = SessionId::parse("main").unwrap();
    let nowhere = dir.path().join("missing/review.jsonl");
    assert!(
        recall(&nowhere, &session, &[id("a")], None)
            .trouble
            .is_some()
    );
    assert!(recall(&nowhere, &session, &[], None).trouble.is_none());
    let linked = dir.path().join("review.jsonl");
    std::os::unix::fs::symlink("/etc/passwd", &linked).unwrap();
    let refused = recall(&linked, &session, &[id("a")], None);
    assert!(matches!(refused.trouble, Some(AuditError::Refused { .. })));
    assert!(refused.decisions.is_empty());
}

/// Requests may lie there by the thousand: each is looked up in the same reading.
#[test]
fn ten_thousand_requests_are_looked_up_in_one_reading() {
    let log = Log::new(Options::default());
    let ids: Vec<RequestId> = (0..10_000).map(|n| id(&format!("perm-{n}"))).collect();
    let entries: Vec<Entry> = ids
        .iter()
        .map(|id| answer(id.as_str(), DecisionState::Approved, &user()))
        .collect();
    log.writer.append_all(AT, &entries).unwrap();
    let found = recall(&log.path(), &SessionId::parse("main").unwrap(), &ids, None);
    assert_eq!(found.decisions.len(), ids.len());
}

/// Whatever the bytes.
#[test]
fn lines_that_somebody_made_up_cost_no_panic() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("review.jsonl");
    let made_up = json!({
        "timestamp": 1, "event": "forwarded_permission.approved", "requestId": "a", "targetSessionId": "main",
        "decidedBy": [[]], "resolution": {}, "requestDigest": 1,
    });
    fs::write(&path, format!("{made_up}\n")).unwrap();
    let found = recall(
        &path,
        &SessionId::parse("main").unwrap(),
        &[id("a")],
        Some(i64::MIN),
    );
    assert!(found.decisions.is_empty() && found.trouble.is_none());
}
