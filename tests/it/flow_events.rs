//! What `serve --events` tells, and that nobody who listens holds anything up.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::support::processes::{Server, run};
use crate::support::spool::{TestSpool, until};

#[expect(clippy::disallowed_methods, reason = "the events are a file")]
fn told(spool: &TestSpool) -> Vec<Value> {
    let text = std::fs::read_to_string(spool.below("events")).unwrap_or_default();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn prompts_and_their_ends_are_lines_with_the_facts_and_no_more() {
    let spool = TestSpool::new();
    let mut server = spool
        .serve("main")
        .select()
        .policy(&spool, "main", &json!({"bash": {"ls": "allow"}}))
        .args(["--events".as_ref(), spool.below("events").as_os_str()])
        .start();
    let child = spool
        .ask("main")
        .value("make")
        .args(["--evidence", "input=SECRET"])
        .start();
    server.answer("make", "No");
    child.end().denied();
    spool.ask("main").value("ls").run().approved();
    assert_eq!(server.stop(), 0);
    let told = told(&spool);
    let channels: Vec<_> = told
        .iter()
        .map(|line| line["channel"].as_str().unwrap())
        .collect();
    assert_eq!(
        channels,
        [
            "permissions:ready",
            "permissions:ui_prompt",
            "permissions:decision"
        ]
    );
    assert_eq!(told[1]["data"]["request"]["value"], "make");
    assert_eq!(told[1]["data"]["requestId"], told[2]["data"]["requestId"]);
    assert_eq!(told[2]["data"]["resolution"], "user_denied");
    let all = Value::from(told).to_string();
    assert!(
        !all.contains("SECRET") && !all.contains("decidedBy"),
        "{all}"
    );
}

#[test]
fn a_pipe_that_nobody_reads_holds_nothing_up() {
    let spool = TestSpool::new();
    let pipe = spool.below("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, 0o600.into()).unwrap();
    let mut server = spool
        .serve("main")
        .policy(&spool, "main", &json!({"bash": {"ls": "allow"}}))
        .args(["--events".as_ref(), pipe.as_os_str()])
        .start();
    spool.ask("main").value("ls").run().approved();
    spool.ask("main").value("make").run().unruled();
    assert_eq!(server.stop(), 0);
}

/// A named pipe, a session that tells what it decides into it, and a value that makes many lines fill it.
fn telling_into_a_pipe(spool: &TestSpool) -> (PathBuf, Server, String) {
    let pipe = spool.below("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, 0o600.into()).unwrap();
    let server = spool
        .serve("main")
        .args(["--events".as_ref(), pipe.as_os_str()])
        .start();
    (pipe, server, "x".repeat(4_000))
}

#[test]
fn a_full_pipe_holds_nothing_up() {
    let spool = TestSpool::new();
    let (pipe, mut server, long) = telling_into_a_pipe(&spool);
    // Somebody has it open, and reads nothing: 64 KiB go in, and there is more to tell.
    let reader = open_to_read(&pipe);
    for _ in 0..30 {
        spool.ask("main").value(&long).run().unruled();
    }
    assert_eq!(server.stop(), 0);
    drop(reader);
}

#[test]
fn a_listener_that_goes_away_takes_nothing_with_it() {
    let spool = TestSpool::new();
    let (pipe, mut server, long) = telling_into_a_pipe(&spool);
    let mut reader = open_to_read(&pipe);
    let mut first = [0; 1];
    // It has begun to listen, and then it is gone.
    std::io::Read::read_exact(&mut reader, &mut first).unwrap();
    drop(reader);
    for _ in 0..3 {
        spool.ask("main").value(&long).run().unruled();
    }
    assert_eq!(server.stop(), 0);
}

#[expect(clippy::disallowed_methods, reason = "the pipe is a file")]
fn open_to_read(pipe: &Path) -> std::fs::File {
    std::fs::File::open(pipe).unwrap()
}

#[test]
fn a_fault_is_told_as_what_it_is_and_nobody_is_named() {
    let spool = TestSpool::new();
    let mut server = spool
        .serve("main")
        .args(["--events".as_ref(), spool.below("events").as_os_str()])
        .env("ASKRELAY_TEST_FAULT", "judged:r1")
        .start();
    spool.ask("main").value("make").id("r1").run().unruled();
    spool.ask("main").value("make").id("r2").run().unruled();
    assert_eq!(server.stop(), 0);
    let mut told = told(&spool);
    told.retain(|line| line["channel"] == "permissions:decision");
    let decision = |id: &str, resolution: &str| {
        json!({
            "channel": "permissions:decision",
            "data": {
                "requestId": id, "surface": "bash", "value": "make", "result": "deny", "resolution": resolution,
                "origin": null, "agentName": "scout", "matchedPattern": null,
                "forwarding": {"requesterAgentName": "scout", "requesterSessionId": "child"},
            },
        })
    };
    assert_eq!(
        told,
        [
            decision("r1", "gate_error"),
            decision("r2", "confirmation_unavailable")
        ]
    );
}

#[test]
fn stdout_is_for_the_person_where_one_is_asked() {
    let spool = TestSpool::new();
    let (code, _, stderr) = run(spool
        .relay()
        .args(["serve", "--mode", "select", "--events", "-"]));
    assert_eq!(code, 2, "{stderr}");
    assert!(stderr.contains("hint:"), "{stderr}");
    let server = spool
        .serve("main")
        .args(["--mode", "headless", "--events", "-"])
        .start();
    until("the first word", || {
        server.running.stdout().contains("permissions:ready")
    });
}
