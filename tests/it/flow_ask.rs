//! What one ask gives to whoever ran it: exit code, JSON, texts, and what it leaves behind.

use serde_json::json;

use crate::support::processes::run;
use crate::support::spool::{TestSpool, is_there, names, until};

/// The keys of the answer that programs may rely on.
const KEYS: [&str; 11] = [
    "requestId",
    "approved",
    "state",
    "denialReason",
    "confirmationUnavailable",
    "sessionGrantWidth",
    "resolution",
    "decidedBy",
    "responderSessionId",
    "sealed",
    "waitedMs",
];

#[test]
fn an_allow_rule_approves_and_the_answer_says_so_in_every_field() {
    let spool = TestSpool::new();
    let _server = spool.serve_headless("P", &json!({"bash": {"ls *": "allow"}}));
    let ended = spool.ask("P").value("ls -l").id("one").run();
    ended.approved();
    let answer = &ended.json;
    for key in KEYS {
        assert!(answer.get(key).is_some(), "{key} is missing in {answer}");
    }
    assert_eq!(answer["requestId"], "one");
    assert_eq!(answer["state"], "approved");
    assert_eq!(answer["denialReason"], json!(null));
    assert_eq!(answer["confirmationUnavailable"], false);
    assert_eq!(answer["sessionGrantWidth"], json!(null));
    assert_eq!(answer["resolution"], "policy_allow");
    assert_eq!(answer["responderSessionId"], "P");
    assert_eq!(answer["sealed"], false);
    assert!(answer["waitedMs"].is_u64());
    assert_eq!(
        answer["decidedBy"],
        json!({
            "kind": "forwarded",
            "responderSessionId": "P",
            "decision": {"kind": "rule", "surface": "bash", "pattern": "ls *", "origin": "global"},
        })
    );
    assert_eq!(ended.stderr, "");
}

#[test]
fn every_command_of_a_line_is_judged() {
    let spool = TestSpool::new();
    let rules =
        json!({"bash": {"git *": "allow", "head": "allow", "sudo *": "allow", "rm *": "deny"}});
    let _server = spool.serve_headless("P", &rules);
    spool.ask("P").value("git log | head").run().approved();
    spool
        .ask("P")
        .value("git log; (sudo rm -rf /)")
        .run()
        .denied();
    // Nobody is there to be asked.
    let hidden = spool.ask("P").value("git log | sh").run();
    assert_eq!(hidden.json["confirmationUnavailable"], true);
}

#[test]
fn a_deny_rule_denies_with_its_reason_and_is_no_persons_word() {
    let spool = TestSpool::new();
    let rules = json!({"bash": {"rm *": {"action": "deny", "reason": "move it to the trash"}}});
    let _server = spool.serve_headless("P", &rules);
    let ended = spool.ask("P").value("rm x").run();
    ended.denied();
    assert_eq!(ended.json["state"], "denied_with_reason");
    assert_eq!(ended.json["denialReason"], "move it to the trash");
    assert_eq!(ended.json["resolution"], "policy_deny");
    assert!(
        ended.stderr.contains("move it to the trash"),
        "{}",
        ended.stderr
    );
    assert!(
        !ended.stderr.to_lowercase().contains("user denied"),
        "{}",
        ended.stderr
    );
}

#[test]
fn a_person_approves_denies_and_gives_a_reason() {
    let spool = TestSpool::new();
    let mut server = spool.serve_select("P", &json!({}));

    let child = spool.ask("P").value("make").id("yes").start();
    server.answer("make", "Yes");
    let ended = child.end();
    ended.approved();
    assert_eq!(ended.json["resolution"], "user_approved");
    assert_eq!(
        ended.json["decidedBy"]["decision"],
        json!({"kind": "user", "via": "select"})
    );

    let child = spool.ask("P").value("make").id("no").start();
    server.answer("make", "No");
    let ended = child.end();
    ended.denied();
    assert_eq!(ended.json["state"], "denied");
    assert_eq!(ended.json["resolution"], "user_denied");

    let child = spool.ask("P").value("make").id("why").start();
    server.answer("make", "No, provide reason");
    assert!(server.question().text.contains("Reason"));
    server.running.write_line("not on a Friday");
    let ended = child.end();
    ended.denied();
    assert_eq!(ended.json["state"], "denied_with_reason");
    assert_eq!(ended.json["denialReason"], "not on a Friday");
    assert!(ended.stderr.contains("not on a Friday"), "{}", ended.stderr);

    // The server's log tells the same, in the order of the way.
    for (id, word) in [("yes", "approved"), ("no", "denied"), ("why", "denied")] {
        let log = spool.log();
        let place = |event: &str| {
            log.iter()
                .position(|entry| entry["event"] == event && entry["requestId"] == id)
                .unwrap_or_else(|| panic!("no {event} of {id}"))
        };
        let way = [
            place("forwarded_permission.request_created"),
            place("forwarded_permission.prompted"),
            place("permission_request.waiting"),
            place(&format!("permission_request.{word}")),
            place(&format!("forwarded_permission.{word}")),
            place("forwarded_permission.response_received"),
        ];
        assert!(way.is_sorted(), "{id}: {way:?}");
        assert_eq!(spool.ends_of(id).len(), 1, "{id}");
    }
}

#[test]
fn what_nobody_decides_in_a_headless_session_without_a_parent_is_unavailable() {
    let spool = TestSpool::new();
    let _server = spool.serve_headless("P", &json!({"bash": {"ls *": "allow"}}));
    let ended = spool.ask("P").value("make").run();
    ended.unruled();
    assert_eq!(ended.json["resolution"], "confirmation_unavailable");
    assert_eq!(ended.json["decidedBy"]["decision"]["kind"], "unavailable");
    assert_eq!(ended.json["responderSessionId"], "P");
}

#[test]
fn an_ask_leaves_nothing_behind() {
    let spool = TestSpool::new();
    let mut server = spool.serve_headless("P", &json!({"bash": {"ls *": "allow"}}));
    spool.ask("P").value("ls a").run().approved();
    spool.ask("P").value("rm a").run().unruled();
    assert_eq!(spool.waiting("P"), [""; 0]);
    assert_eq!(names(&spool.session_dir("P").join("responses")), [""; 0]);
    assert_eq!(server.stop(), 0);
    assert_eq!(names(&spool.root().join("sessions")), [""; 0]);
    assert_eq!(names(&spool.root().join("serving")), ["P.lock"]);
    assert_eq!(spool.quarantined(), [""; 0]);
}

#[test]
fn wrong_usage_is_told_before_anything_is_asked() {
    let spool = TestSpool::new();
    for args in [
        &["ask"][..],
        &["ask", "--value", "x", "--timeout", "soon"],
        &["ask", "--value", "x", "--kind", "teleport"],
        &["ask", "--value", "x", "--grant", "bash"],
        &["ask", "--value", "x", "--evidence", "nothing"],
        &["ask", "--value", "x", "--payload", "y"],
        &["ask", "--payload", "/no/such/file"],
        &["ask", "--value", "x", "--peer", "g9"],
        &["serve", "--mode", "loud"],
        &["serve", "--session", ".."],
        &["serve", "--config", "/no/such/file"],
        &["launch"],
        &["fly"],
    ] {
        let (code, stdout, stderr) = run(spool.relay().args(args));
        assert_eq!(code, 2, "{args:?}: {stderr}");
        assert_eq!(stdout, "", "{args:?}");
        assert!(!stderr.is_empty(), "{args:?}");
    }
    assert!(!is_there(&spool.root().join("sessions")));
}

#[test]
fn without_json_one_line_says_how_it_ended() {
    let spool = TestSpool::new();
    let _server = spool.serve_headless("P", &json!({"bash": {"ls *": "allow"}}));
    let mut command = spool.relay();
    command.args(["ask", "--session", "P", "--value", "ls x", "--id", "r1"]);
    let (code, stdout, _) = run(&mut command);
    assert_eq!(code, 0);
    assert_eq!(stdout.lines().count(), 1, "{stdout}");
    assert!(
        stdout.starts_with("approved  r1  (policy_allow"),
        "{stdout}"
    );
}

#[test]
fn a_payload_of_the_callers_own_is_asked_as_it_is() {
    let spool = TestSpool::new();
    let mut server = spool.serve_select("P", &json!({}));
    let payload = json!({
        "kind": "mcp",
        "request": {
            "requester": {"agentName": "admin", "forwarded": false, "sessionId": "root"},
            "surface": "mcp", "toolName": "deploy", "invokedToolName": null, "value": "production",
            "matchedPattern": null, "commandContext": null, "executedUnit": null, "matchedSpelling": null,
        },
        "evidence": [{"label": "input", "text": "region: all", "detail": null}],
        "annotations": [],
    });
    let file = spool.work().join("payload.json");
    spool.put(&file, payload.to_string());
    let child = spool
        .ask("P")
        .args(["--payload", "payload.json", "--surface", "mcp"])
        .start();
    let question = server.question();
    for shown in ["production", "deploy", "region: all", "scout", "child"] {
        assert!(question.text.contains(shown), "{shown}: {}", question.text);
    }
    // Who asks is told by the envelope, never by the payload.
    for claimed in ["admin", "root"] {
        assert!(
            !question.text.contains(claimed),
            "{claimed}: {}",
            question.text
        );
    }
    server.choose(&question, "No");
    child.end().denied();
}

#[test]
fn an_unsafe_or_taken_id_is_replaced_and_a_safe_one_is_used() {
    let spool = TestSpool::new();
    let mut server = spool.serve_select("P", &json!({"bash": {"ls *": "allow"}}));
    let ended = spool.ask("P").value("ls").id("bad id/1").run();
    ended.approved();
    let id = ended.json["requestId"].as_str().unwrap();
    assert!(id.starts_with("perm-"), "{id}");

    let first = spool.ask("P").value("make").id("same").start();
    let question = server.question();
    spool.await_request("P", "same");
    let second = spool.ask("P").value("ls two").id("same").run();
    second.approved();
    assert_ne!(second.json["requestId"], "same");
    server.choose(&question, "Yes");
    let first = first.end();
    first.approved();
    assert_eq!(first.json["requestId"], "same");
}

#[test]
fn a_spool_that_cannot_be_used_is_a_denial_that_names_the_cause() {
    let spool = TestSpool::new();
    spool.put(&spool.root().join("sessions"), "a file");
    let ended = spool.ask("P").value("ls").run();
    ended.unruled();
    assert_eq!(ended.json["abandoned"], "no_directories");
    assert!(ended.stderr.contains("hint:"), "{}", ended.stderr);

    let elsewhere = spool.work().join("file");
    spool.put(&elsewhere, "");
    let mut command = spool.relay();
    command.args(["ask", "--value", "ls", "--json", "--spool"]);
    let (code, _, stderr) = run(command.arg(&elsewhere));
    assert_eq!(code, 3, "{stderr}");
    assert!(stderr.contains("not a directory"), "{stderr}");
}

#[test]
fn the_log_follows_one_id_from_the_child_to_the_answer() {
    let spool = TestSpool::new();
    let _server = spool.serve_headless("P", &json!({"bash": {"ls *": "allow"}}));
    spool.ask("P").value("ls").id("r7").run().approved();
    until("the whole way in the log", || {
        !spool
            .events_of("forwarded_permission.response_received", "r7")
            .is_empty()
    });
    let events: Vec<String> = spool
        .log()
        .iter()
        .filter(|entry| entry["requestId"] == "r7")
        .map(|entry| entry["event"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(
        events,
        [
            "forwarded_permission.request_created",
            "forwarded_permission.auto_approved",
            "forwarded_permission.approved",
            "forwarded_permission.response_received",
        ]
    );
}
