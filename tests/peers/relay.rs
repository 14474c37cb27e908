//! Our servers in the middle, the peer's child below them, the peer's server above; and parts of the peer between ours.

use serde_json::{Value, json};

use crate::support::{Choice, Process, TempSpool};

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

/// A session of ours that has nobody, asks `parent`, and has a log of its own.
fn passes_on(spool: &TempSpool, session: &str, parent: &str, generation: &str) -> Process {
    let config = json!({ "peerGeneration": generation, "permission": { "*": "ask" } });
    let log = spool.our_log_path(session);
    let env = [
        ("ASKRELAY_PARENT_SESSION", parent),
        ("ASKRELAY_LOG", log.to_str().unwrap()),
    ];
    spool.serve(session, "headless", &config, &env)
}

/// A decider within these frames, the outermost first.
fn within(frames: &[&str], decider: &Value) -> Value {
    let wrap = |inner: Value, session: &&str| json!({"kind": "forwarded", "responderSessionId": session, "decision": inner});
    frames.iter().rev().fold(decider.clone(), wrap)
}

/// Five processes: its child, three of ours, its server. The version that is published says nothing about who decided, so the
/// innermost frame stays empty, and every hop stays a fact.
#[test]
fn through_three_of_ours_from_its_child_to_its_server() {
    let spool = TempSpool::new();
    let mut above = spool.their_server("P", &["--answer", "deny=use make test"]);
    let _first = passes_on(&spool, "S1", "P", "g1");
    let _second = passes_on(&spool, "S2", "S1", "current");
    let _third = passes_on(&spool, "S3", "S2", "current");
    let mut below = spool.their_child("S3", "C", &["--command", "make deploy", "--agent", "scout"]);
    let decision = below.json();
    assert_eq!(decision["state"], "denied_with_reason");
    assert_eq!(decision["denialReason"], "use make test");
    let id = spool.their_log("C", "forwarded_permission.request_created")[0]["requestId"].clone();
    assert_eq!(
        above.event("forwarded_permission.prompted")["requestId"],
        id
    );
    for (session, frames) in [
        ("S1", &["P"][..]),
        ("S2", &["S1", "P"]),
        ("S3", &["S2", "S1", "P"]),
    ] {
        let decided_by = within(frames, &Value::Null);
        for event in [
            "forwarded_permission.response_received",
            "permission_request.denied",
            "forwarded_permission.denied",
        ] {
            let entries = spool.our_log(session, event);
            assert_eq!(entries.len(), 1, "{session} {event}");
            assert_eq!(entries[0]["requestId"], id, "{session} {event}");
            assert_eq!(entries[0]["decidedBy"], decided_by, "{session} {event}");
            assert_eq!(entries[0]["denialReason"], "use make test");
        }
    }
}

/// Its parts between ours: what decided above it does not come through, for it knows no deciders. Its own frame does, and the
/// seals and frames of the answer from above it do not confuse it.
#[test]
fn through_the_peer_between_two_of_ours() {
    let spool = TempSpool::new();
    let config = json!({ "permission": { "*": "ask" } });
    let log = spool.our_log_path("P");
    let mut above = spool.serve(
        "P",
        "select",
        &config,
        &[("ASKRELAY_LOG", log.to_str().unwrap())],
    );
    let _second = passes_on(&spool, "S1", "P", "current");
    let _hop = spool.their_hop("M", "S1");
    let _first = passes_on(&spool, "S3", "M", "g1");
    let child = spool.start_ask("S3", &["--value", "make deploy", "--id", "r1"]);
    above.choose(Choice::Approve);
    let (code, decision) = child.finish_ask();
    assert_eq!(code, Some(0), "{decision}");
    assert_eq!(decision["requestId"], "r1");
    assert_eq!(decision["decidedBy"], within(&["S3", "M"], &Value::Null));
    let person = json!({"kind": "user", "via": "select"});
    let ends = |session: &str| {
        let mut ends = spool.our_log(session, "forwarded_permission.approved");
        assert_eq!(ends.len(), 1, "{session}");
        ends.remove(0)
    };
    assert_eq!(ends("S3")["decidedBy"], within(&["M"], &Value::Null));
    assert_eq!(ends("S1")["decidedBy"], within(&["P"], &person));
    assert_eq!(ends("P")["decidedBy"], person);
    // It gives what it passes on an id of its own, which is one from there to the top.
    assert_eq!(ends("S3")["requestId"], "r1");
    assert_eq!(ends("S1")["requestId"], ends("P")["requestId"]);
    assert_ne!(ends("P")["requestId"], "r1");
}
