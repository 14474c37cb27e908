//! How much of what policy leaves open a session takes in: what is beyond a limit is denied as unavailable, with the limit named.

use serde_json::{Value, json};

use crate::support::processes::Server;
use crate::support::spool::{TestSpool, request};

fn serve(spool: &TestSpool, limits: &Value) -> Server {
    let config = json!({"permission": {"bash": {"ls *": "allow"}}, "limits": limits});
    let path = spool.config("P", &config);
    spool.serve("P").select().config(&path).start()
}

fn put(spool: &TestSpool, id: &str, requester: &str, value: &str) {
    let mut request = request(id, "P", "bash", value);
    request["requesterSessionId"] = json!(requester);
    request["accessIntent"] = json!({
        "surface": "bash", "matchValues": [value], "boundaryValue": null, "requesterCwd": "/w",
        "principal": {"sessionId": requester, "agentName": "scout"},
    });
    spool.put_request("P", &request);
}

/// Waits until an ask is denied, and gives why.
fn denied(spool: &TestSpool, id: &str) -> String {
    let response = spool.await_response("P", id);
    assert_eq!(response["approved"], false, "{response}");
    assert_eq!(response["decidedBy"]["kind"], "unavailable", "{response}");
    let ends = spool.ends_of(id);
    assert_eq!(ends.len(), 1, "{ends:?}");
    response["decidedBy"]["reason"].as_str().unwrap().to_owned()
}

#[test]
fn conc_8_no_single_child_fills_the_queue_and_a_rule_answers_all_the_same() {
    let spool = TestSpool::new();
    let mut server = serve(&spool, &json!({"perRequesterPending": 2}));
    for id in ["a1", "a2", "a3"] {
        put(&spool, id, "flood", &format!("make {id}"));
        spool.await_event("forwarded_permission.prompted", id);
    }
    let why = denied(&spool, "a3");
    assert!(why.contains("limits.perRequesterPending is 2"), "{why}");
    // What policy decides needs no room, and another child has its own.
    put(&spool, "a4", "flood", "ls -l");
    assert_eq!(spool.await_response("P", "a4")["approved"], true);
    let other = spool.ask("P").value("make other").id("b1").start();
    spool.await_event("forwarded_permission.prompted", "b1");
    server.answer("make a1", "No");
    server.answer("make other", "Yes");
    other.end().approved();
    server.answer("make a2", "No");
    // What is settled has made room.
    spool.await_response("P", "a2");
    put(&spool, "a5", "flood", "make a5");
    server.answer("make a5", "Yes");
    assert_eq!(spool.await_response("P", "a5")["approved"], true);
}

#[test]
fn a_session_takes_in_so_many_of_all_its_children() {
    let spool = TestSpool::new();
    let mut server = serve(&spool, &json!({"perSessionPending": 3}));
    for n in 0..4 {
        let id = format!("a{n}");
        put(&spool, &id, &format!("child-{n}"), &format!("make {id}"));
        spool.await_event("forwarded_permission.prompted", &id);
    }
    let why = denied(&spool, "a3");
    assert!(why.contains("limits.perSessionPending is 3"), "{why}");
    for n in 0..3 {
        server.answer(&format!("make a{n}"), "Yes");
        assert_eq!(
            spool.await_response("P", &format!("a{n}"))["approved"],
            true
        );
    }
}

#[test]
fn a_child_that_asks_again_and_again_is_held_by_the_rate() {
    let spool = TestSpool::new();
    let mut server = serve(&spool, &json!({"perRequesterPerMinute": 2}));
    for id in ["a1", "a2"] {
        put(&spool, id, "again", &format!("make {id}"));
        server.answer(&format!("make {id}"), "No");
        spool.await_response("P", id);
    }
    put(&spool, "a3", "again", "make a3");
    let why = denied(&spool, "a3");
    assert!(why.contains("limits.perRequesterPerMinute is 2"), "{why}");
    assert!(
        spool
            .events_of("permission_request.waiting", "a3")
            .is_empty()
    );
}

#[test]
fn a_session_that_passes_asks_on_has_the_same_limits() {
    let spool = TestSpool::new();
    let mut root = spool.serve_select("root", &json!({}));
    let config = spool.config("P", &json!({"limits": {"perRequesterPending": 1}}));
    let _middle = spool
        .serve("P")
        .env("ASKRELAY_PARENT_SESSION", "root")
        .config(&config)
        .start();
    put(&spool, "a1", "child", "make a1");
    let question = root.question();
    put(&spool, "a2", "child", "make a2");
    let why = denied(&spool, "a2");
    assert!(
        why.contains("session \"P\"") && why.contains("perRequesterPending is 1"),
        "{why}"
    );
    root.choose(&question, "Yes");
    assert_eq!(spool.await_response("P", "a1")["approved"], true);
}
