//! Our child asks, the peer's server answers.

use serde_json::{Value, json};

use crate::support::TempSpool;

const LS: [&str; 4] = ["--peer", "g1", "--value", "ls -l"];

fn answered(answer: &str, more: &[&str]) -> (Option<i32>, Value) {
    let spool = TempSpool::new();
    let mut server = spool.their_server("P", &["--answer", answer]);
    let args: Vec<&str> = LS.iter().chain(more).copied().collect();
    let (code, decision) = spool.ask("P", &args);
    let question = server.event("question");
    assert!(
        question["title"].as_str().unwrap().contains("ls -l"),
        "{question}"
    );
    assert_eq!(spool.waiting("P"), Vec::<String>::new());
    (code, decision)
}

#[test]
fn approved() {
    let (code, decision) = answered("approve", &[]);
    assert_eq!(code, Some(0));
    assert_eq!(
        (&decision["approved"], &decision["state"]),
        (&json!(true), &json!("approved"))
    );
    assert_eq!(decision["responderSessionId"], "P");
    assert_eq!(decision["sealed"], false);
}

#[test]
fn denied() {
    let (code, decision) = answered("deny", &[]);
    assert_eq!(code, Some(1));
    assert_eq!(
        (&decision["approved"], &decision["state"]),
        (&json!(false), &json!("denied"))
    );
}

#[test]
fn denied_with_a_reason() {
    let (code, decision) = answered("deny=not before the tests pass", &[]);
    assert_eq!(code, Some(1));
    assert_eq!(decision["state"], "denied_with_reason");
    assert_eq!(decision["denialReason"], "not before the tests pass");
}

/// The old shape of a suggestion reaches its server: the second step is only offered with one.
#[test]
fn approved_for_the_session() {
    let spool = TempSpool::new();
    let mut server = spool.their_server("P", &["--answer", "session"]);
    let (code, decision) = spool.ask(
        "P",
        &["--peer", "g1", "--value", "ls -l", "--grant", "bash=ls *"],
    );
    let scope = server.event("scope");
    assert!(
        scope["options"][1].as_str().unwrap().contains("ls *"),
        "{scope}"
    );
    assert_eq!(code, Some(0));
    assert_eq!(decision["state"], "approved_for_session");
}

/// Granted to the whole session, its server answers the next equal ask by itself.
#[test]
fn approved_for_the_whole_session() {
    let spool = TempSpool::new();
    let mut server = spool.their_server("P", &["--answer", "whole", "--answer", "hold"]);
    for event in [
        "forwarded_permission.session_recorded",
        "forwarded_permission.auto_approved",
    ] {
        let (code, decision) = spool.ask(
            "P",
            &["--peer", "g1", "--value", "ls -l", "--grant", "bash=ls *"],
        );
        assert_eq!((code, &decision["state"]), (Some(0), &json!("approved")));
        server.event(event);
    }
}

/// It decides by the surface and the value made for display, so those have to be there and right.
#[test]
fn its_rules_answer() {
    let spool = TempSpool::new();
    spool.their_rules(
        "P",
        &json!({ "bash": { "*": "ask", "echo *": "allow", "rm *": "deny" } }),
    );
    let mut server = spool.their_server("P", &["--answer", "hold"]);
    let (code, decision) = spool.ask("P", &["--peer", "g1", "--value", "echo hello"]);
    assert_eq!((code, &decision["state"]), (Some(0), &json!("approved")));
    server.event("forwarded_permission.auto_approved");
    let (code, decision) = spool.ask("P", &["--peer", "g1", "--value", "rm -rf x"]);
    assert_eq!((code, &decision["state"]), (Some(1), &json!("denied")));
    server.event("forwarded_permission.auto_denied");
}

/// Its server dies while the person thinks. Silence is no answer: nobody ruled.
#[test]
fn its_server_dies() {
    let spool = TempSpool::new();
    let mut server = spool.their_server("P", &["--answer", "hold"]);
    let child = spool.start_ask(
        "P",
        &["--peer", "g1", "--value", "ls -l", "--timeout", "3s"],
    );
    server.event("question");
    server.kill();
    let (code, decision) = child.finish_ask();
    assert_eq!(code, Some(3));
    assert_eq!(
        (&decision["approved"], &decision["confirmationUnavailable"]),
        (&json!(false), &json!(true))
    );
    assert_eq!(spool.waiting("P"), Vec::<String>::new());
}

/// Interrupted while it waits, our child takes its request back.
#[test]
fn interrupted_while_it_waits() {
    let spool = TempSpool::new();
    let mut server = spool.their_server("P", &["--answer", "hold"]);
    let mut child = spool.start_ask("P", &LS);
    server.event("question");
    let pid = rustix::process::Pid::from_raw(child.id().try_into().unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    assert_eq!(child.wait().code(), Some(130));
    assert_eq!(spool.waiting("P"), Vec::<String>::new());
}

/// Not told that the server is old, our child finds nobody serving, and says so instead of waiting.
#[test]
fn without_the_switch_an_old_server_does_not_count() {
    let spool = TempSpool::new();
    let _server = spool.their_server("P", &["--policy", "allow"]);
    let (code, decision) = spool.ask("P", &["--value", "ls -l"]);
    assert_eq!(code, Some(3));
    assert_eq!(
        (&decision["approved"], &decision["confirmationUnavailable"]),
        (&json!(false), &json!(true))
    );
}

/// The peer seals nothing, so a child that was told a key believes none of its answers. It does not wait for another one: the
/// peer has removed the request.
#[test]
fn an_answer_without_a_seal_is_refused_where_a_key_is_known() {
    let (code, decision) = answered(
        "approve",
        &[
            "--serving-key",
            "ed25519:6kpsY+KcUgq+9VB7Ey7F+ZVHdq6+vnuSQh7qaRRG0iw=",
        ],
    );
    assert_eq!(code, Some(3));
    assert_eq!(decision["approved"], false);
    assert_eq!(decision["abandoned"], "refused_response");
    assert!(
        decision["denialReason"]
            .as_str()
            .unwrap()
            .contains("it carries no seal"),
        "{decision}"
    );
}
