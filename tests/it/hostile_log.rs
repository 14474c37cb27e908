//! A review log that several processes write at once, that is rotated meanwhile, and whose writers end at any step; and one that
//! is kept locked, or cannot be opened.
#![expect(
    clippy::disallowed_methods,
    reason = "tests lay out odd files and look at what was written"
)]

use std::fs::{self, File};
use std::io::Read as _;
use std::path::Path;
use std::process::Command;

use askrelay::audit::{Entry, Event, Options, ReviewLog};
use serde_json::{Value, json};

use crate::support::chain;
use crate::support::hostile::{Field, RULES, Run};
use crate::support::spool::{eventually, until};

const WRITERS: usize = 8;
const RECORDS: usize = 500;

/// Run as a process of its own by the tests below. What it does comes on stdin.
#[test]
#[ignore = "a process of other tests"]
fn a_process_that_writes() {
    let mut input = String::new();
    std::io::stdin().read_to_string(&mut input).unwrap();
    let Ok(task) = serde_json::from_str::<Value>(&input) else {
        return;
    };
    #[cfg(debug_assertions)]
    if let Some(step) = task["fault"].as_str() {
        askrelay::spool::fault::arm(step.to_owned());
    }
    let options = Options {
        field_max_width: 10_000,
        max_bytes: task["maxBytes"].as_u64(),
        ..Options::default()
    };
    let log = ReviewLog::open(Path::new(task["path"].as_str().unwrap()), options).unwrap();
    let writer = task["writer"].as_u64().unwrap();
    for record in 0..task["records"].as_u64().unwrap() {
        let length = 3000 + (writer * 7919 + record * 104_729) % 6000;
        let entry = Entry::new(Event::Warning)
            .with("writer", writer)
            .with("record", record)
            .with("text", "x".repeat(usize::try_from(length).unwrap()));
        // Where the machine is so busy that the lock cannot be had in time, the record follows with the next.
        let _later = log.append_or_hold(askrelay::clock::wall_ms(), &[entry]);
    }
}

/// The records of the log, by two readers that both find its chain whole.
#[track_caller]
fn verified(field: &Field) -> Vec<Value> {
    let path = field.at("review.jsonl");
    let records = chain::records(&path);
    let mut verify = Run::start(field, field.relay().args(["log", "verify"]));
    let status = verify.await_end();
    assert!(status.success(), "{}{}", verify.stdout(), verify.stderr());
    records
}

/// Starts a process that writes so many records.
fn writing(
    field: &Field,
    writer: usize,
    records: usize,
    fault: Option<&str>,
    max_bytes: u64,
) -> Run {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([
        "--exact",
        "hostile_log::a_process_that_writes",
        "--ignored",
        "--nocapture",
    ]);
    let mut run = Run::start(field, &mut command);
    let task = json!({
        "path": field.at("review.jsonl"),
        "writer": writer,
        "records": records,
        "maxBytes": max_bytes,
        "fault": fault,
    });
    run.type_line(&task.to_string());
    run.end_input();
    run
}

/// The numbers of the records of one writer, in the order in which they stand.
fn numbers_of(records: &[Value], writer: usize) -> Vec<u64> {
    records
        .iter()
        .filter(|record| record["writer"] == writer)
        .map(|record| record["record"].as_u64().unwrap())
        .collect()
}

#[test]
fn audit_2_processes_that_write_at_once_lose_nothing_while_the_log_is_rotated() {
    const MAX_BYTES: u64 = 1 << 20;
    let field = Field::new();
    let mut writers: Vec<Run> = (0..WRITERS)
        .map(|writer| writing(&field, writer, RECORDS, None, MAX_BYTES))
        .collect();
    for writer in &mut writers {
        assert!(writer.await_end().success(), "{}", writer.stderr());
    }
    let path = field.at("review.jsonl");
    let records = verified(&field);
    let all: Vec<u64> = (0..RECORDS as u64).collect();
    for writer in 0..WRITERS {
        assert_eq!(numbers_of(&records, writer), all, "{writer}");
    }
    let files = chain::files(&path);
    assert!((20..40).contains(&files.len()), "{}", files.len());
    for file in &files {
        assert!(fs::metadata(file).unwrap().len() <= MAX_BYTES + 64_000);
    }
    for odd in [
        "review_log.changed",
        "review_log.torn_tail",
        "review_log.lost",
    ] {
        assert_eq!(chain::of_event(&records, odd).len(), 0, "{odd}");
    }
}

/// Whatever a killed process had begun, the others go on, and what stands there is whole.
#[test]
fn audit_1_processes_that_are_killed_while_they_write_leave_whole_lines() {
    let field = Field::new();
    let path = field.at("review.jsonl");
    for round in 0..5 {
        let doomed: Vec<Run> = (0..3)
            .map(|writer| writing(&field, round * 10 + writer, 100_000, None, 1 << 20))
            .collect();
        until("some records of each", || {
            fs::read_to_string(&path).is_ok_and(|text| {
                (0..3).all(|writer| text.contains(&format!("\"writer\":{},", round * 10 + writer)))
            })
        });
        // Killed as it is dropped.
        drop(doomed);
    }
    let mut last = writing(&field, 99, 3, None, 1 << 20);
    assert!(last.await_end().success());
    let records = verified(&field);
    assert_eq!(numbers_of(&records, 99), [0, 1, 2]);
    for round in 0..5 {
        for writer in 0..3 {
            let numbers = numbers_of(&records, round * 10 + writer);
            assert_eq!(numbers, (0..numbers.len() as u64).collect::<Vec<_>>());
        }
    }
}

#[test]
fn a_writer_that_ends_at_any_step_of_a_rotation_leaves_a_log_that_goes_on() {
    use std::os::unix::process::ExitStatusExt as _;
    for step in ["log/renamed", "log/created", "log/begun"] {
        let field = Field::new();
        let path = field.at("review.jsonl");
        let mut first = writing(&field, 1, 50, None, 1 << 20);
        assert!(first.await_end().success());
        let mut doomed = writing(&field, 2, 500, Some(step), 1 << 20);
        assert_eq!(doomed.await_end().signal(), Some(6), "{step}");
        match step {
            "log/renamed" => assert!(!path.exists(), "{step}"),
            "log/created" => assert_eq!(fs::metadata(&path).unwrap().len(), 0, "{step}"),
            _ => assert!(fs::metadata(&path).unwrap().len() > 0, "{step}"),
        }
        let mut last = writing(&field, 3, 500, None, 1 << 20);
        assert!(last.await_end().success());
        let records = verified(&field);
        assert_eq!(numbers_of(&records, 1).len(), 50, "{step}");
        assert_eq!(numbers_of(&records, 3).len(), 500, "{step}");
        let before = numbers_of(&records, 2).len();
        assert!((100..500).contains(&before), "{step}: {before}");
        let rotated = chain::of_event(&records, "review_log.rotated").len();
        assert_eq!(rotated, chain::files(&path).len() - 1, "{step}");
    }
}

/// The same for the program: its log is small, and it ends while it rotates it.
#[test]
fn a_server_that_ends_while_it_rotates_its_log_is_followed_by_one_that_goes_on() {
    for step in ["log/renamed", "log/created", "log/begun"] {
        let field = Field::new();
        let config = field.at("config.json");
        let rules: Value = serde_json::from_str(RULES).unwrap();
        let small =
            json!({"permission": rules["permission"], "reviewLogRotation": {"maxBytes": 4096}});
        fs::write(&config, small.to_string()).unwrap();
        let first = field.serve("headless");
        field.a_good_ask_is_answered();
        first.stop();
        let mut doomed = field.serve_with_fault("headless", Some(step));
        let mut ended = None;
        for _ in 0..20 {
            let mut ask = field.start_ask("ls -la", &["--timeout", "100s"]);
            until("an answer, or an end of the server", || {
                ask.has_ended() || doomed.has_ended()
            });
            if doomed.has_ended() {
                let second = field.serve("headless");
                // It may have seen nobody serving for longer than its patience.
                let answer = ask.answer();
                assert!(matches!(answer.code, Some(0 | 3)), "{step}: {answer:?}");
                field.a_good_ask_is_answered();
                second.stop();
                ended = Some(doomed.await_end());
                break;
            }
            assert_eq!(ask.answer().code, Some(0), "{step}");
        }
        assert!(ended.is_some(), "{step}: the server never rotated");
        let records = verified(&field);
        assert!(
            chain::of_event(&records, "review_log.changed").is_empty(),
            "{step}"
        );
        assert!(
            chain::of_event(&records, "review_log.rotated").len() > 1,
            "{step}"
        );
    }
}

/// A lock on a file that somebody else holds.
fn hold(path: &Path) -> File {
    let file = File::open(path).unwrap();
    eventually("a lock", || fs2::FileExt::try_lock_exclusive(&file).ok());
    file
}

fn log_failure(field: &Field) -> Option<String> {
    let mut status = Run::start(field, field.relay().args(["status", "--json"]));
    assert!(status.await_end().success());
    let stdout = status.stdout();
    let session = stdout
        .lines()
        .find(|line| line.contains("\"type\":\"session\""));
    let session: Value = serde_json::from_str(session?).unwrap();
    session["heartbeat"]["logFailure"]
        .as_str()
        .map(str::to_owned)
}

#[test]
fn a_tool_that_keeps_the_log_locked_stops_no_decision() {
    let field = Field::new();
    let path = field.at("review.jsonl");
    let mut server = field.serve("headless");
    until("a log", || {
        !field
            .logged("forwarded_permission.serving_started")
            .is_empty()
    });
    let lock = hold(&path);
    for id in ["r1", "r2", "r3"] {
        let mut ask = field.start_ask("ls -la", &["--id", id]);
        assert_eq!(ask.await_end().code(), Some(0), "{}", ask.stderr());
        assert_eq!(
            ask.stderr().matches("review log cannot be written").count(),
            1,
            "{}",
            ask.stderr()
        );
    }
    // Said once, and as long as it lasts.
    let said = server.stderr();
    assert_eq!(said.matches("cannot be written").count(), 1, "{said}");
    assert!(
        said.contains("locked by another process") && said.contains("fuser"),
        "{said}"
    );
    let failure = eventually("a failure in the status", || log_failure(&field));
    assert!(failure.contains("locked by another process"), "{failure}");
    let mut status = Run::start(&field, field.relay().arg("status"));
    assert!(status.await_end().success());
    assert!(
        status
            .stdout()
            .contains("the review log of main cannot be written")
    );
    drop(lock);
    // Nothing else happens, and what was held is written.
    until("the end of the failure", || log_failure(&field).is_none());
    assert!(server.stderr().contains("the review log is written again"));
    server.signal(rustix::process::Signal::TERM);
    assert!(server.await_end().success());
    let records = verified(&field);
    for id in ["r1", "r2", "r3"] {
        let mut ends = chain::of_event(&records, "forwarded_permission.approved");
        ends.retain(|end| end["requestId"] == id);
        assert_eq!(ends.len(), 1, "{id}");
    }
    let recovered = chain::of_event(&records, "review_log.recovered");
    assert_eq!(recovered.len(), 1, "{recovered:#?}");
}

#[test]
fn a_session_that_must_record_denies_while_its_log_is_locked_and_never_claims_more() {
    let field = Field::new();
    let rules: Value = serde_json::from_str(RULES).unwrap();
    let config = json!({"permission": rules["permission"], "requireAudit": true});
    fs::write(field.at("config.json"), config.to_string()).unwrap();
    let path = field.at("review.jsonl");
    let server = field.serve("headless");
    field.a_good_ask_is_answered();
    let lock = hold(&path);
    let answer = field.ask("ls -la", &["--id", "r1"]);
    assert_eq!(answer.code, Some(3), "{answer:?}");
    assert_eq!(answer.json["approved"], false);
    let reason = answer.json["denialReason"].as_str().unwrap();
    assert!(reason.contains("decides nothing unrecorded"), "{reason}");
    drop(lock);
    until("the end of the failure", || log_failure(&field).is_none());
    field.a_good_ask_is_answered();
    server.stop();
    let records = verified(&field);
    for event in [
        "forwarded_permission.auto_approved",
        "forwarded_permission.approved",
    ] {
        let mut claims = chain::of_event(&records, event);
        claims.retain(|claim| claim["requestId"] == "r1");
        assert!(claims.is_empty(), "{claims:#?}");
    }
    assert_eq!(chain::of_event(&records, "review_log.recovered").len(), 1);
}

/// Whoever listens hears what became of the ask, not what would have.
#[test]
fn a_persons_approval_that_cannot_be_recorded_is_told_as_the_denial_that_it_became() {
    let field = Field::new();
    let rules: Value = serde_json::from_str(RULES).unwrap();
    let config = json!({"permission": rules["permission"], "requireAudit": true});
    fs::write(field.at("config.json"), config.to_string()).unwrap();
    let path = field.at("review.jsonl");
    let events = field.at("events.jsonl");
    let mut command = field.relay();
    command.args(["serve", "--session", "main", "--mode", "select", "--events"]);
    let mut server = Run::start(&field, command.arg(&events));
    server.await_serving();
    let ask = field.start_ask("make", &["--id", "r1"]);
    until("a question", || server.stdout().contains("4) No"));
    let lock = hold(&path);
    server.type_line("1");
    let answer = ask.answer();
    assert_eq!(answer.code, Some(3), "{answer:?}");
    drop(lock);
    until("the end of the failure", || log_failure(&field).is_none());
    server.stop();
    let told = fs::read_to_string(&events).unwrap();
    let decisions: Vec<Value> = told
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .filter(|line| line["channel"] == "permissions:decision")
        .collect();
    assert_eq!(decisions.len(), 1, "{told}");
    assert_eq!(decisions[0]["data"]["result"], "deny", "{told}");
    assert_eq!(
        decisions[0]["data"]["resolution"], "confirmation_unavailable",
        "{told}"
    );
}

#[test]
fn a_session_that_must_record_does_not_start_without_a_log() {
    let field = Field::new();
    let config = json!({"requireAudit": true, "permissionReviewLog": false});
    fs::write(field.at("config.json"), config.to_string()).unwrap();
    let mut server = field.serve_with_fault("headless", None);
    assert_eq!(server.await_end().code(), Some(2), "{}", server.stderr());
    assert!(
        server.stderr().contains("permissionReviewLog"),
        "{}",
        server.stderr()
    );
}

#[test]
fn a_log_that_cannot_be_opened_at_the_start_is_written_as_soon_as_it_can() {
    let field = Field::new();
    let path = field.at("review.jsonl");
    fs::create_dir(&path).unwrap();
    let server = field.serve("headless");
    let failure = eventually("a failure in the status", || log_failure(&field));
    assert!(failure.contains("not a regular file"), "{failure}");
    field.a_good_ask_is_answered();
    assert_eq!(
        server.stderr().matches("review log is not written").count(),
        1,
        "{}",
        server.stderr()
    );
    fs::remove_dir(&path).unwrap();
    until("the end of the failure", || log_failure(&field).is_none());
    server.stop();
    let records = verified(&field);
    assert_eq!(records[0]["event"], "forwarded_permission.serving_started");
    assert_eq!(
        chain::of_event(&records, "forwarded_permission.approved").len(),
        1
    );
    assert_eq!(chain::of_event(&records, "review_log.recovered").len(), 1);
}
