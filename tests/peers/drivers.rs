//! The two drivers with each other: what fails here is not our doing.

use serde_json::json;

use crate::support::{TempSpool, until};

#[test]
fn the_peer_answers_itself() {
    let spool = TempSpool::new();
    spool.their_rules(
        "P",
        &json!({ "bash": { "*": "ask", "echo *": "allow", "rm *": "deny" } }),
    );
    let mut server = spool.their_server("P", &["--answer", "deny=not now"]);
    let states = ["echo hello", "rm -rf x", "make deploy"].map(|command| {
        let mut child = spool.their_child("P", "C", &["--command", command]);
        let decision = child.json();
        assert!(child.wait().success());
        decision["state"].as_str().unwrap().to_owned()
    });
    assert_eq!(states, ["approved", "denied", "denied_with_reason"]);
    let question = server.event("question");
    assert!(
        question["title"].as_str().unwrap().contains("make deploy"),
        "{question}"
    );
    until("it has tidied up", || !spool.session("P").exists());
}
