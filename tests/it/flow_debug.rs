//! What the operator's programs write to stderr: kept in the debug log where that is switched on, bounded, masked, and in nobody's way.
#![expect(
    clippy::disallowed_methods,
    reason = "tests look at the files of a log, and write programs"
)]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};

use crate::support::judges::{Chain, allows};
use crate::support::spool::{TestSpool, eventually, is_there};

const DEBUG: &str = "state/askrelay/debug.jsonl";

/// The entries of the debug log about one program, once there are so many.
fn said(spool: &TestSpool, program: &str, count: usize) -> Vec<Value> {
    eventually("lines of a program", || {
        let mut log = spool.log_at(DEBUG);
        log.retain(|entry| entry["program"] == program);
        (log.len() >= count).then_some(log)
    })
}

#[test]
fn what_programs_write_to_stderr_is_in_the_debug_log_line_by_line() {
    let spool = TestSpool::new();
    let judge = format!(
        "echo starting >&2; printf 'curl -u me:hunter2 \\033[2J' >&2; {}",
        allows()
    );
    let chain = Chain::default()
        .link(&spool, "judge", &judge)
        .with("debugLog", json!(true));
    let server = chain.serve(&spool, "P").start();
    let formatter = spool.work().join("formatter");
    fs::write(&formatter, "echo oops >&2; exit 3\n").unwrap();
    let asking = spool.config(
        "asking",
        &json!({"debugLog": true, "evidenceFormatters": {"deploy": {"command": ["/bin/sh", formatter]}}}),
    );
    let ended = spool
        .ask("P")
        .args(["--config", asking.to_str().unwrap(), "--id", "r1"])
        .args(["--tool", "deploy", "--input", "{\"to\": \"prod\"}"])
        .run();
    ended.approved();
    let lines = said(&spool, "authorizer judge", 2);
    assert_eq!(lines.len(), 2);
    for line in &lines {
        assert_eq!(line["stream"], "debug");
        assert_eq!(line["event"], "program.stderr");
        assert_eq!(line["requestId"], "r1");
    }
    assert_eq!(lines[0]["line"], "starting");
    let masked = lines[1]["line"].as_str().unwrap();
    assert!(!masked.contains("hunter2"), "{masked}");
    assert_eq!(
        said(&spool, "evidence formatter deploy", 1)[0]["line"],
        "oops"
    );
    let path = spool.below(DEBUG);
    assert!(!fs::read_to_string(&path).unwrap().contains('\u{1b}'));
    let mode = fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    // The review log has nothing of it.
    assert!(spool.events("program.stderr").is_empty());
    let warned = server.running.stderr();
    assert!(!warned.contains("not in force"), "{warned}");
}

#[test]
fn without_the_switch_there_is_no_debug_log() {
    let spool = TestSpool::new();
    let judge = format!("echo starting >&2; {}", allows());
    let chain = Chain::default().link(&spool, "judge", &judge);
    let _server = chain.serve(&spool, "P").start();
    spool.ask("P").value("make").run().approved();
    assert!(!is_there(&spool.below(DEBUG)));
}

#[test]
fn a_program_that_floods_stderr_is_cut_short_there_and_heard_all_the_same() {
    let spool = TestSpool::new();
    let flood = format!("yes 0123456789 | head -c 20000000 >&2; {}", allows());
    let long = format!("head -c 5000 /dev/zero | tr '\\0' x >&2; {}", allows());
    let hangs = "echo before >&2; exec sleep 1000";
    let chain = Chain::default()
        .link_within(&spool, "hangs", hangs, 1_000)
        .link(&spool, "flood", &flood)
        .with("debugLog", json!(true));
    let _server = chain.serve(&spool, "P").start();
    spool.ask("P").value("make").run().approved();
    assert_eq!(said(&spool, "authorizer hangs", 1)[0]["line"], "before");
    let lines = said(&spool, "authorizer flood", 201);
    assert_eq!(lines.len(), 201);
    let left_out = lines[200]["bytesLeftOut"].as_u64().unwrap();
    assert_eq!(left_out, 20_000_000 - 200 * 11);
    let size = fs::metadata(spool.below(DEBUG)).unwrap().len();
    assert!(size < 100_000, "{size}");
    // One that has left its group may go on for ever.
    let stays = format!("setsid yes >&2 & {}", allows());
    let second = Chain::default()
        .link_within(&spool, "stays", &stays, 20_000)
        .with("debugLog", json!(true));
    let _server = second.serve(&spool, "R").start();
    spool.ask("R").value("make").run().approved();
    let third = Chain::default()
        .link(&spool, "long", &long)
        .with("debugLog", json!(true));
    let _server = third.serve(&spool, "Q").start();
    spool.ask("Q").value("make").run().approved();
    let line = &said(&spool, "authorizer long", 1)[0];
    assert_eq!(line["line"].as_str().unwrap().chars().count(), 1_001);
    assert_eq!(line["line_cut"]["units"], 5_000);
}
