//! Who decided, with real processes: each way an ask can be decided is named as what it was, on every node and in every log.

use std::time::Duration;

use askrelay::audit::Ending;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::processes::{Ask, Serve, Server};
use crate::support::spool::{TestSpool, age, bytes, request, response, until};

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

// A log for each node.

/// The entries about one ask in the log of one node.
fn story(spool: &TestSpool, node: &str, id: &str) -> Vec<Value> {
    let mut log = spool.log_at(&format!("{node}.jsonl"));
    log.retain(|entry| entry["requestId"] == id);
    log
}

fn events_in<'s>(story: &'s [Value], event: &str) -> Vec<&'s Value> {
    let of_it = |entry: &&Value| entry["event"] == event;
    story.iter().filter(of_it).collect()
}

/// The one entry of this event.
#[track_caller]
fn one<'s>(story: &'s [Value], event: &str) -> &'s Value {
    let found = events_in(story, event);
    assert_eq!(found.len(), 1, "{event} in {story:#?}");
    found[0]
}

/// The entries that end an ask, on whichever side.
fn ends(story: &[Value]) -> Vec<&Value> {
    let closes = |event: &str| Ending::from_name(event).is_some_and(Ending::closes);
    let is_end = |entry: &&Value| closes(entry["event"].as_str().unwrap());
    story.iter().filter(is_end).collect()
}

trait OwnLog: Sized {
    /// With a log that no other node writes.
    fn own_log(self, spool: &TestSpool, node: &str) -> Self;
}

impl OwnLog for Serve {
    fn own_log(self, spool: &TestSpool, node: &str) -> Self {
        self.env("ASKRELAY_LOG", spool.below(&format!("{node}.jsonl")))
    }
}

impl OwnLog for Ask {
    fn own_log(self, spool: &TestSpool, node: &str) -> Self {
        self.env("ASKRELAY_LOG", spool.below(&format!("{node}.jsonl")))
    }
}

/// A decider within these frames, the outermost first.
fn within(frames: &[&str], decider: &Value) -> Value {
    let wrap = |inner: Value, session: &&str| json!({"kind": "forwarded", "responderSessionId": session, "decision": inner});
    frames.iter().rev().fold(decider.clone(), wrap)
}

/// Sessions that each pass on to the next one what no rule decides; the last one passes on to `P`.
fn relays(spool: &TestSpool, sessions: &[&str]) -> Vec<Server> {
    let parents = sessions.iter().skip(1).chain([&"P"]);
    let relay = |(session, parent): (&&str, &&str)| {
        spool
            .serve(session)
            .env("ASKRELAY_PARENT_SESSION", parent)
            .own_log(spool, session)
            .start()
    };
    sessions.iter().zip(parents).map(relay).collect()
}

#[test]
fn five_processes_in_a_chain_name_the_same_decider_within_the_right_frames() {
    let spool = TestSpool::new();
    let mut root = spool.serve("P").select().own_log(&spool, "P").start();
    let sessions = ["S3", "S2", "S1"];
    let _relays = relays(&spool, &sessions);
    let child = spool
        .ask("S3")
        .value("make all")
        .id("r1")
        .own_log(&spool, "leaf")
        .start();
    root.answer("make all", "Yes");
    let ended = child.end();
    ended.approved();

    let person = json!({"kind": "user", "via": "select"});
    assert_eq!(
        ended.json["decidedBy"],
        within(&["S3", "S2", "S1", "P"], &person)
    );
    assert_eq!(ended.json["resolution"], "user_approved");
    assert_eq!(ended.json["requestId"], "r1");
    let leaf = story(&spool, "leaf", "r1");
    assert_eq!(ends(&leaf).len(), 1);
    let received = one(&leaf, "forwarded_permission.response_received");
    assert_eq!(received["decidedBy"], ended.json["decidedBy"]);
    assert_eq!(received["responderSessionId"], "S3");
    for (at, session) in sessions.iter().enumerate() {
        let inner = within(&["S2", "S1", "P"][at..], &person);
        let log = story(&spool, session, "r1");
        // It has an end as the one who asked further up, and one as the one who answered.
        assert_eq!(ends(&log).len(), 2, "{log:#?}");
        for event in [
            "forwarded_permission.response_received",
            "permission_request.approved",
            "forwarded_permission.approved",
        ] {
            assert_eq!(one(&log, event)["decidedBy"], inner, "{session} {event}");
        }
        assert_eq!(
            one(&log, "permission_request.waiting")["decidedBy"],
            json!(null)
        );
    }
    let log = story(&spool, "P", "r1");
    assert_eq!(ends(&log).len(), 1);
    for event in [
        "permission_request.approved",
        "forwarded_permission.approved",
    ] {
        assert_eq!(one(&log, event)["decidedBy"], person, "{event}");
    }
}

#[test]
fn a_denial_by_a_rule_at_the_root_is_the_rules_on_every_node() {
    let spool = TestSpool::new();
    let rules = json!({"bash": {"make *": {"action": "deny", "reason": "use ninja"}}});
    let _root = spool
        .serve("P")
        .policy(&spool, "P", &rules)
        .own_log(&spool, "P")
        .start();
    let sessions = ["S3", "S2", "S1"];
    let _relays = relays(&spool, &sessions);
    let ended = spool.ask("S3").value("make all").id("r1").run();
    ended.denied();
    assert_eq!(ended.json["resolution"], "policy_deny");
    for (at, session) in sessions.iter().enumerate() {
        let log = story(&spool, session, "r1");
        let denied = one(&log, "forwarded_permission.denied");
        let rule = json!({
            "kind": "rule", "surface": "bash", "pattern": "make *", "origin": "global",
        });
        assert_eq!(
            denied["decidedBy"],
            within(&["S2", "S1", "P"][at..], &rule),
            "{session}"
        );
        assert_eq!(denied["denialReason"], "use ninja");
        assert_eq!(denied["resolution"], "denied_with_reason");
    }
    // What the agent reads names the rule, where it stands, and its reason.
    let text = &ended.stderr;
    assert!(
        text.contains("rule \"make *\" in session P") && text.contains("use ninja"),
        "{text}"
    );
}

#[test]
fn a_chain_that_is_too_long_keeps_who_answered_and_leaves_a_gap() {
    let spool = TestSpool::new();
    let mut root = spool.serve("P").select().own_log(&spool, "P").start();
    let _relays = relays(&spool, &["S4", "S3", "S2", "S1"]);
    let child = spool.ask("S4").value("make all").id("r1").start();
    root.answer("make all", "Yes");
    let ended = child.end();
    ended.approved();
    assert_eq!(
        ended.json["decidedBy"],
        json!({"kind": "forwarded", "responderSessionId": "S4", "decision": null})
    );
    let person = json!({"kind": "user", "via": "select"});
    let whole = within(&["S3", "S2", "S1", "P"], &person);
    let log = story(&spool, "S4", "r1");
    assert_eq!(
        one(&log, "forwarded_permission.approved")["decidedBy"],
        whole
    );
}

#[test]
fn prov_8_a_reason_of_any_length_comes_down_bounded_and_is_read_escaped() {
    let spool = TestSpool::new();
    let mut root = spool.serve("P").select().start();
    let _relays = relays(&spool, &["S2", "S1"]);
    let child = spool.ask("S2").value("make all").start();
    root.answer("make all", "No, provide reason");
    let _asked = root.question();
    root.running
        .write_line(&format!("use \x1b[31mninja\x1b[2J {}", "r".repeat(20_000)));
    let ended = child.end();
    ended.denied();
    let reason = ended.json["denialReason"].as_str().unwrap();
    assert!(reason.starts_with("use \u{1b}[31mninja"), "{reason}");
    assert_eq!(reason.chars().count(), 8_001);
    assert!(reason.ends_with("rrr…"));
    // What the agent reads of it.
    let text = ended.stderr.lines().next_back().unwrap();
    assert!(text.contains("Denied by the user in session P"), "{text}");
    assert!(
        text.contains("Reason: use <ESC>[31mninja<ESC>[2J rrr"),
        "{text}"
    );
    assert!(text.ends_with('…') && text.len() < 3_000, "{text}");
    assert!(!ended.stderr.contains('\u{1b}'));
}

/// The fields that name what was asked, in the entries about a question.
#[test]
fn what_was_asked_stands_in_the_log_from_the_question_to_the_end() {
    let spool = TestSpool::new();
    let mut server = spool.serve("P").select().own_log(&spool, "P").start();
    let child = spool
        .ask("P")
        .value("make all")
        .id("r1")
        .args(["--evidence", "input=EVIDENCE"])
        .start();
    let _question = server.question();
    let path = spool.request_path("P", "r1");
    let digest = askrelay::wire::Digest::of(&bytes(&path)).to_string();
    server.running.write_line("1");
    child.end().approved();
    let log = story(&spool, "P", "r1");
    let keys = |entry: &Value| {
        let keys = entry.as_object().unwrap().keys();
        let own = keys.filter(|key| {
            !["timestamp", "extension", "stream", "event", "chain"].contains(&key.as_str())
        });
        own.cloned().collect::<Vec<_>>()
    };
    let about = [
        "requestId",
        "source",
        "agentName",
        "surface",
        "forwarded",
        "requesterSessionId",
        "toolCallId",
        "toolName",
        "skillName",
        "path",
        "command",
        "target",
        "toolInputPreview",
        "resolution",
        "denialReason",
    ];
    let waiting = one(&log, "permission_request.waiting");
    assert_eq!(keys(waiting), about);
    assert_eq!(waiting["command"], "make all");
    assert_eq!(waiting["resolution"], json!(null));
    let approved = one(&log, "permission_request.approved");
    assert_eq!(keys(approved), [&["decidedBy"], &about[..]].concat());
    assert_eq!(approved["resolution"], "approved");
    let end = one(&log, "forwarded_permission.approved");
    assert_eq!(
        keys(end),
        [
            "decidedBy",
            "requestId",
            "source",
            "requesterAgentName",
            "requesterSessionId",
            "targetSessionId",
            "responsePath",
            "resolution",
            "denialReason",
            "requestDigest",
        ]
    );
    assert_eq!(end["requestDigest"], digest);
    assert!(!Value::from(log).to_string().contains("EVIDENCE"));
}

// Every way in which an ask ends.

/// How the serving session recorded the end of an ask: the event and the kind of its decider. There must be exactly one.
#[track_caller]
fn served_end(spool: &TestSpool, id: &str) -> (String, String) {
    until(&format!("the end of {id}"), || {
        !ends(&story(spool, "P", id)).is_empty()
    });
    let log = story(spool, "P", id);
    let ends = ends(&log);
    assert_eq!(ends.len(), 1, "{id}: {log:#?}");
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let (event, kind) = (text(&ends[0]["event"]), text(&ends[0]["decidedBy"]["kind"]));
    (event.rsplit('.').next().unwrap().to_owned(), kind)
}

/// How the child recorded the end of its ask.
#[track_caller]
fn asked_end(spool: &TestSpool, id: &str) -> String {
    let log = story(spool, "leaf", id);
    let ends = ends(&log);
    assert_eq!(ends.len(), 1, "{id}: {log:#?}");
    assert!(ends[0]["decidedBy"]["kind"].is_string(), "{log:#?}");
    let event = ends[0]["event"].as_str().unwrap();
    event.rsplit('.').next().unwrap().to_owned()
}

fn end_is(event: &str, kind: &str) -> (String, String) {
    (event.to_owned(), kind.to_owned())
}

#[test]
fn audit_6_each_ask_has_one_end_on_each_side_however_it_ends() {
    let spool = TestSpool::new();
    let config = spool.config(
        "P",
        &json!({
            "permission": {"bash": {"ls *": "allow", "rm *": "deny"}},
            "requestMaxAgeMs": 60_000,
        }),
    );
    let mut server = spool
        .serve("P")
        .select()
        .config(&config)
        .own_log(&spool, "P")
        .start();
    let ask = |id: &str, value: &str| spool.ask("P").id(id).value(value).own_log(&spool, "leaf");

    ask("rule-allows", "ls x").run().approved();
    assert_eq!(
        served_end(&spool, "rule-allows"),
        end_is("approved", "rule")
    );
    ask("rule-denies", "rm x").run().denied();
    assert_eq!(served_end(&spool, "rule-denies"), end_is("denied", "rule"));

    let child = ask("person-denies", "make a").start();
    server.answer("make a", "No");
    child.end().denied();
    assert_eq!(
        served_end(&spool, "person-denies"),
        end_is("denied", "user")
    );

    spool.put_request("P", &request("changed", "P", "bash", "make e"));
    let question = server.question();
    spool.put_request("P", &request("changed", "P", "bash", "rm e"));
    server.choose(&question, "Yes");
    assert_eq!(spool.await_response("P", "changed")["approved"], false);
    let log = story(&spool, "P", "changed");
    let both: Vec<_> = ends(&log).iter().map(|end| end["event"].clone()).collect();
    // Two asks under one id, and one end for each.
    assert_eq!(
        both,
        [
            "forwarded_permission.request_changed",
            "forwarded_permission.denied"
        ]
    );

    let child = ask("taken-back", "make b").start();
    let _question = server.question();
    child.running.signal(Signal::TERM);
    assert_eq!(child.end().code, 130);
    server.await_text("This ask is closed");
    assert_eq!(
        served_end(&spool, "taken-back"),
        end_is("request_withdrawn", "unavailable")
    );
    assert_eq!(asked_end(&spool, "taken-back"), "request_withdrawn");

    let mut child = ask("killed", "make c").start();
    let _question = server.question();
    child.running.kill();
    server.await_text("This ask is closed");
    assert_eq!(
        served_end(&spool, "killed"),
        end_is("requester_gone", "unavailable")
    );

    spool.put(&spool.request_path("P", "unusable"), "[]");
    assert_eq!(spool.await_response("P", "unusable")["approved"], false);
    assert_eq!(
        served_end(&spool, "unusable"),
        end_is("denied", "gate_error")
    );

    let path = spool.below("old.json");
    spool.put(&path, request("expired", "P", "bash", "make d").to_string());
    age(&path, Duration::from_hours(1));
    spool.rename(&path, &spool.request_path("P", "expired"));
    assert_eq!(
        served_end(&spool, "expired"),
        end_is("request_expired", "unavailable")
    );

    let child = ask("open-at-the-end", "make f").start();
    let _question = server.question();
    assert_eq!(server.stop(), 0);
    child.end().unruled();
    assert_eq!(
        served_end(&spool, "open-at-the-end"),
        end_is("denied", "unavailable")
    );

    ask("nobody-serves", "make g").run().unruled();
    assert_eq!(asked_end(&spool, "nobody-serves"), "no_serving_session");
    for answered in [
        "rule-allows",
        "rule-denies",
        "person-denies",
        "open-at-the-end",
    ] {
        assert_eq!(asked_end(&spool, answered), "response_received");
    }
}

#[test]
fn a_child_that_cannot_ask_or_gets_nothing_usable_records_how_that_ended() {
    let spool = TestSpool::new();
    let _server = spool.serve("P").own_log(&spool, "P").start();

    let ended = spool
        .ask("")
        .id("no-parent")
        .value("make")
        .env("PI_IS_SUBAGENT", "1")
        .own_log(&spool, "leaf")
        .run();
    ended.unruled();
    assert_eq!(asked_end(&spool, "no-parent"), "request_failed");

    let _nobody = spool
        .ask("Q")
        .id("late")
        .value("make")
        .args(["--peer", "g1", "--timeout", "300ms"])
        .own_log(&spool, "leaf")
        .run();
    assert_eq!(asked_end(&spool, "late"), "response_timed_out");

    let child = spool
        .ask("Q")
        .id("garbled")
        .value("make")
        .args(["--peer", "g1"])
        .own_log(&spool, "leaf")
        .start();
    spool.await_request("Q", "garbled");
    let mut unusable = response("Q", "approved");
    unusable["state"] = json!("perhaps");
    spool.put(&spool.response_path("Q", "garbled"), unusable.to_string());
    child.end().unruled();
    assert_eq!(asked_end(&spool, "garbled"), "response_received");
    let log = story(&spool, "leaf", "garbled");
    let received = one(&log, "forwarded_permission.response_received");
    assert_eq!(received["approved"], json!(null));
    assert_eq!(received["decidedBy"]["kind"], "unavailable");

    let ended = spool
        .ask("R")
        .id("unserved")
        .value("make")
        .own_log(&spool, "leaf")
        .run();
    ended.unruled();
    let log = story(&spool, "leaf", "unserved");
    let end = one(&log, "forwarded_permission.no_serving_session");
    assert_eq!(end["servingSessionIds"], json!(["P"]));
    assert_eq!(end["servingState"], "absent");
}

// The sites.

#[test]
fn each_of_the_ways_to_decide_at_once_is_credited_as_what_it_is() {
    let spool = TestSpool::new();
    let library = spool.below("library");
    let config = |name: &str, yolo: bool| {
        spool.config(
            name,
            &json!({
                "yoloMode": yolo,
                "piInfrastructureReadPaths": [library],
                "permission": {
                    "bash": {"ls *": "allow", "rm *": {"action": "deny", "reason": "keep it"}, "make *": "ask"},
                },
            }),
        )
    };
    let mut server = spool
        .serve("P")
        .select()
        .config(&config("P", false))
        .start();
    let decided = |ended: &crate::support::processes::Ended| {
        (
            ended.json["decidedBy"]["decision"].clone(),
            ended.json["resolution"].as_str().unwrap().to_owned(),
        )
    };
    let ask = |value: &str| spool.ask("P").value(value);
    let rule = |pattern: &str| json!({"kind": "rule", "surface": "bash", "pattern": pattern, "origin": "global"});

    assert_eq!(
        decided(&ask("ls x").run()),
        (rule("ls *"), "policy_allow".into())
    );
    assert_eq!(
        decided(&ask("rm x").run()),
        (rule("rm *"), "policy_deny".into())
    );

    let read = spool
        .ask("P")
        .args([
            "--tool",
            "read",
            "--surface",
            "external_directory_read",
            "--value",
        ])
        .args([library.join("a.js")])
        .run();
    read.approved();
    assert_eq!(
        decided(&read),
        (
            json!({"kind": "infrastructure_read"}),
            "infrastructure_auto_allowed".into()
        )
    );

    let child = ask("make a").grant("bash=make *").start();
    let question = server.question();
    server.choose(&question, "Yes, for this session");
    let scope = server.question();
    server.choose(&scope, "The whole session, parent and all subagents");
    let granted = child.end();
    granted.approved();
    assert_eq!(
        decided(&granted),
        (
            json!({"kind": "user", "via": "select"}),
            "user_approved".into()
        )
    );
    let covered = ask("make b").run();
    assert_eq!(
        decided(&covered),
        (
            json!({"kind": "session_approval", "surface": "bash", "pattern": "make *"}),
            "session_approved".into()
        )
    );
    assert_eq!(server.stop(), 0);

    let mut lifting = spool.serve("P").config(&config("Y", true)).start();
    let lifted = ask("make c").run();
    assert_eq!(
        decided(&lifted),
        (
            json!({"kind": "yolo", "pattern": "make *"}),
            "auto_approved".into()
        )
    );
    assert_eq!(
        decided(&ask("rm x").run()),
        (rule("rm *"), "policy_deny".into())
    );
    assert_eq!(lifting.stop(), 0);

    let _alone = spool.serve("P").config(&config("P", false)).start();
    let nobody = ask("make d").run();
    nobody.unruled();
    let (by, resolution) = decided(&nobody);
    assert_eq!(resolution, "confirmation_unavailable");
    assert_eq!(by["reason"], nobody.json["denialReason"]);
}
