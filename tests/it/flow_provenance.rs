//! Who decided, with real processes: each way an ask can be decided is named as what it was, on every node and in every log.

use serde_json::{Value, json};

use crate::support::spool::TestSpool;

/// What a fault of the program costs the ask that it comes with: a refusal by the gate that says so.
#[track_caller]
fn is_gate_error(decision: &Value, about: &str) {
    assert_eq!(decision["state"], "denied_with_reason", "{decision}");
    let decider = &decision["decidedBy"]["decision"];
    assert_eq!(decider["kind"], "gate_error", "{decision}");
    assert_eq!(decider["reason"], decision["denialReason"], "{decision}");
    let reason = decision["denialReason"].as_str().unwrap();
    assert!(reason.contains(about), "{reason}");
}

#[test]
fn a_fault_while_an_ask_is_judged_costs_that_ask_and_no_other() {
    let spool = TestSpool::new();
    let mut server = spool
        .serve("P")
        .policy(&spool, "P", &json!({"bash": {"ls": "allow"}}))
        .env("ASKRELAY_TEST_FAULT", "judged:r1")
        .start();
    let struck = spool.ask("P").value("ls").id("r1").run();
    struck.unruled();
    is_gate_error(&struck.json, "judging it failed: struck while it is judged");
    spool.ask("P").value("ls").id("r2").run().approved();
    assert!(spool.waiting("P").is_empty());
    let ends = spool.ends_of("r1");
    assert_eq!(ends.len(), 1);
    assert_eq!(ends[0]["decidedBy"]["kind"], "gate_error");
    assert_eq!(server.stop(), 0);
}

#[test]
fn a_fault_while_a_question_is_written_costs_that_ask_and_no_other() {
    let spool = TestSpool::new();
    let mut server = spool
        .serve("P")
        .select()
        .env("ASKRELAY_TEST_FAULT", "shown:r1")
        .start();
    let struck = spool.ask("P").value("make one").id("r1").run();
    struck.unruled();
    is_gate_error(&struck.json, "showing it failed");
    let child = spool.ask("P").value("make two").id("r2").start();
    server.answer("make two", "Yes");
    child.end().approved();
    assert_eq!(server.stop(), 0);
}

#[test]
fn a_fault_while_a_question_is_drawn_costs_that_ask_and_leaves_the_screen() {
    for mode in ["dialog", "inbox"] {
        let spool = TestSpool::new();
        let is_inbox = mode == "inbox";
        let mut screen = spool
            .serve("main")
            .config(&spool.config("main", &json!({})))
            .args(["--mode", mode])
            .env("ASKRELAY_TEST_FAULT", "drawn:r1")
            .on_screen(80, 24);
        screen.await_text("nothing");
        let child = spool.ask("main").value("make one").id("r1").start();
        if is_inbox {
            screen.await_question("Enter reviews");
            screen.press("\r");
        }
        let struck = child.end();
        struck.unruled();
        is_gate_error(&struck.json, "showing it failed: struck while it is drawn");
        let child = spool.ask("main").value("make two").id("r2").start();
        if is_inbox {
            screen.await_question("Enter reviews");
            screen.press("\r");
            screen.await_text("make two");
            screen.await_question("Esc denies");
            screen.press("\x01");
        } else {
            screen.await_question("make two");
            screen.press("y");
            screen.await_text("press y again");
            screen.press("y");
        }
        child.end().approved();
        assert!(!screen.written().contains("panicked"), "{mode}");
    }
}
