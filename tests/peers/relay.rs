//! Our server in the middle: the peer's child below it, the peer's server above it.

use serde_json::{Value, json};

use crate::support::{Process, TempSpool};

/// `C` (theirs) asks `M` (ours), which has nobody and relays to `P` (theirs).
fn relayed(answer: &str) -> (TempSpool, Process, Value) {
    let spool = TempSpool::new();
    let above = spool.their_server("P", &["--answer", answer]);
    let config = json!({ "peerGeneration": "g1", "permission": { "*": "ask" } });
    let _relay = spool.serve(
        "M",
        "headless",
        &config,
        &[("ASKRELAY_PARENT_SESSION", "P")],
    );
    let mut below = spool.their_child("M", "C", &["--command", "make deploy", "--agent", "scout"]);
    let decision = below.json();
    (spool, above, decision)
}

#[test]
fn an_approval_comes_down() {
    let (_spool, mut above, decision) = relayed("approve");
    assert_eq!(decision["state"], "approved");
    let question = above.event("question")["title"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(
        question.contains("make deploy") && question.contains("scout"),
        "{question}"
    );
}

#[test]
fn a_reason_comes_down() {
    let (_spool, _above, decision) = relayed("deny=not before the tests pass");
    assert_eq!(decision["state"], "denied_with_reason");
    assert_eq!(decision["denialReason"], "not before the tests pass");
}

/// One id through both hops, so that the logs of all three can be read together.
#[test]
fn the_id_stays_the_same() {
    let (spool, mut above, decision) = relayed("approve");
    assert_eq!(decision["state"], "approved");
    let created = spool.their_log("C", "forwarded_permission.request_created");
    assert_eq!(
        above.event("forwarded_permission.prompted")["requestId"],
        created[0]["requestId"]
    );
}

/// Both inboxes are empty afterwards.
#[test]
fn nothing_is_left() {
    let (spool, _above, _) = relayed("deny");
    assert_eq!(
        (spool.waiting("M"), spool.waiting("P")),
        (Vec::new(), Vec::new())
    );
}
