//! Whom an ask reaches: which session is asked, what it passes through, and who is credited at the end.

use serde_json::{Value, json};

use crate::support::processes::{Child, Ended, Running, Server, run};
use crate::support::spool::{TestSpool, is_there, names, until};

/// The frames around a decision, from the outside in, and what decided.
fn frames(decided_by: &Value) -> (Vec<String>, Value) {
    let mut sessions = Vec::new();
    let mut at = decided_by;
    while at["kind"] == "forwarded" {
        sessions.push(at["responderSessionId"].as_str().unwrap().to_owned());
        at = &at["decision"];
    }
    (sessions, at.clone())
}

fn status(spool: &TestSpool, variables: &[(&str, &str)]) -> Vec<Value> {
    let mut command = spool.relay();
    command.args(["status", "--json"]);
    command.envs(variables.iter().copied());
    let (code, stdout, stderr) = run(&mut command);
    assert_eq!(code, 0, "{stderr}");
    stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn role(spool: &TestSpool, variables: &[(&str, &str)]) -> Value {
    status(spool, variables)
        .into_iter()
        .find(|line| line["type"] == "role")
        .unwrap()
}

#[test]
fn a_parent_variable_that_names_the_own_session_makes_nobody_a_child() {
    let spool = TestSpool::new();
    let mut server = spool
        .serve("P")
        .select()
        .env("ASKRELAY_PARENT_SESSION", "P")
        .env("PI_SUBAGENT_PARENT_SESSION", "P")
        .start();
    assert!(!server.running.stderr().contains("its parent is"));
    let child = spool.ask("P").value("make").start();
    server.answer("make", "Yes");
    child.end().approved();

    let role = role(
        &spool,
        &[("ASKRELAY_SESSION", "P"), ("ASKRELAY_PARENT_SESSION", "P")],
    );
    assert_eq!(role["session"], "P");
    assert_eq!(role["sessionFrom"], "ASKRELAY_SESSION");
    assert_eq!(role["parent"], json!(null));
    let why = role["parentFrom"].as_str().unwrap();
    assert!(
        why.contains("ASKRELAY_PARENT_SESSION names this session itself"),
        "{why}"
    );
}

#[test]
fn what_a_process_is_among_the_sessions_is_told_with_the_reason() {
    let spool = TestSpool::new();
    let told = |env: &[(&str, &str)], key: &str| role(&spool, env)[key].clone();
    let root = [
        ("ASKRELAY_SESSION", "P"),
        ("PI_SUBAGENT_PARENT_SESSION", "P"),
    ];
    assert_eq!(told(&root, "child"), false);
    assert_eq!(told(&root, "decides"), "nobody");
    assert_eq!(told(&root, "mode"), "headless");
    // Marked as a child, without a parent that could be asked.
    let marked = [("ASKRELAY_SESSION", "C"), ("PI_SUBAGENT_DEPTH", "1")];
    assert_eq!(told(&marked, "childFrom"), "PI_SUBAGENT_DEPTH is set");
    assert_eq!(told(&marked, "above"), json!(null));
    let named = [
        ("ASKRELAY_SESSION", "C"),
        ("PI_SUBAGENT_PARENT_SESSION", " P "),
    ];
    assert_eq!(
        told(&named, "childFrom"),
        "PI_SUBAGENT_PARENT_SESSION names session \"P\""
    );
    assert_eq!(told(&named, "aboveServed"), false);
    assert_eq!(told(&named, "decides"), "parent");
    let mut server = spool.serve("P").start();
    assert_eq!(told(&named, "aboveServed"), true);
    server.stop();
    // The text says the same, one answer a row.
    let mut command = spool.relay();
    let (_, stdout, _) = run(command.envs(named).arg("status"));
    for row in [
        "child    yes: PI_SUBAGENT_PARENT_SESSION names session \"P\"",
        "above    P  (from PI_SUBAGENT_PARENT_SESSION), which is not served: no process serves it",
        "serves   headless: stdin is no terminal",
        "decides  session \"P\" above, for nobody can be asked here",
    ] {
        assert!(stdout.contains(row), "{row}\n{stdout}");
    }
}

#[test]
fn an_ask_of_a_session_whose_only_parent_is_itself_is_unavailable_at_once() {
    let spool = TestSpool::new();
    let ended = spool
        .ask("")
        .value("ls")
        .from("P")
        .env("PI_SUBAGENT_PARENT_SESSION", "P")
        .run();
    ended.unruled();
    assert_eq!(ended.json["abandoned"], "no_parent");
    assert!(!is_there(&spool.root().join("sessions")));
}

#[test]
fn a_child_without_a_resolvable_parent_hears_every_variable_that_was_tried() {
    let spool = TestSpool::new();
    let ended = spool
        .ask("")
        .value("ls")
        .id("r1")
        .env("PI_IS_SUBAGENT", "1")
        .env("PI_SUBAGENT_PARENT_SESSION", "unknown")
        .run();
    ended.unruled();
    assert_eq!(ended.json["abandoned"], "no_parent");
    let reason = ended.json["denialReason"].as_str().unwrap();
    for name in [
        "ASKRELAY_PARENT_SESSION",
        "PI_AGENT_ROUTER_PARENT_SESSION_ID",
        "PI_SUBAGENT_PARENT_SESSION",
        "PI_IS_SUBAGENT",
    ] {
        assert!(reason.contains(name), "{name}: {reason}");
    }
    let ends = spool.events_of("forwarded_permission.request_failed", "r1");
    assert_eq!(ends.len(), 1);
    assert_eq!(ends[0]["decidedBy"]["kind"], "unavailable");
    assert!(!is_there(&spool.root().join("sessions")));
}

#[test]
fn the_first_parent_variable_that_names_somebody_wins() {
    let spool = TestSpool::new();
    let _p = spool.serve_headless("P", &json!({"bash": "allow"}));
    let _q = spool.serve_headless("Q", &json!({"bash": "allow"}));
    let both = |first: &str, second: &str| {
        let ended = spool
            .ask("")
            .value("ls")
            .env("PI_AGENT_ROUTER_PARENT_SESSION_ID", first)
            .env("PI_SUBAGENT_PARENT_SESSION", second)
            .run();
        ended.approved();
        ended.json["responderSessionId"].clone()
    };
    assert_eq!(both("Q", "P"), "Q");
    assert_eq!(both("UNKNOWN", "P"), "P");
    assert_eq!(both(" Q ", "P"), "Q");
    let ended = spool
        .ask("")
        .value("ls")
        .env("PI_AGENT_ROUTER_PARENT_SESSION_ID", "Q")
        .env("ASKRELAY_PARENT_SESSION", "P")
        .run();
    assert_eq!(ended.json["responderSessionId"], "P");
    // A flag is the last word.
    let ended = spool
        .ask("Q")
        .value("ls")
        .env("ASKRELAY_PARENT_SESSION", "P")
        .run();
    assert_eq!(ended.json["responderSessionId"], "Q");
}

#[test]
fn a_session_id_is_encoded_on_disk_and_plain_everywhere_else() {
    let spool = TestSpool::new();
    let mut server = spool.serve("a b/c").select().start();
    assert!(is_there(&spool.heartbeat_path("a%20b%2Fc")));
    let child = spool.ask("a b/c").value("make").id("r1").start();
    let question = server.question();
    assert_eq!(spool.waiting("a%20b%2Fc"), ["r1"]);
    assert_eq!(
        spool.await_request("a%20b%2Fc", "r1")["targetSessionId"],
        "a b/c"
    );
    server.choose(&question, "Yes");
    let ended = child.end();
    ended.approved();
    assert_eq!(ended.json["responderSessionId"], "a b/c");
}

// Launching.

/// `askrelay launch` from within each of `ids` in turn, and in the innermost the ask.
fn launched(spool: &TestSpool, from: &str, ids: &[&str], value: &str) -> Child {
    let program = env!("CARGO_BIN_EXE_askrelay");
    let mut command = spool.relay();
    command.env("ASKRELAY_SESSION", from);
    let mut first = true;
    for id in ids {
        if !first {
            command.arg(program);
        }
        first = false;
        command.args([
            "launch",
            "--as",
            id,
            "--agent",
            &format!("agent-{id}"),
            "--",
        ]);
    }
    command.args([program, "ask", "--json", "--value", value]);
    Child {
        running: Running::start(&mut command),
    }
}

#[test]
fn the_ask_of_a_great_grandchild_reaches_the_nearest_ancestor_that_is_served() {
    let spool = TestSpool::new();
    let mut server = spool.serve_select("P", &json!({}));
    let child = launched(&spool, "P", &["C1", "G1", "GG1"], "make all");
    let question = server.question();
    for shown in ["make all", "agent-GG1", "P > C1 > G1 > GG1"] {
        assert!(question.text.contains(shown), "{shown}: {}", question.text);
    }
    server.choose(&question, "Yes");
    let ended = child.end();
    ended.approved();
    assert_eq!(ended.json["responderSessionId"], "P");
    // Nobody in between was bothered, and nothing of them was made.
    assert_eq!(names(&spool.root().join("serving")), ["P.json", "P.lock"]);
}

#[test]
fn a_parent_in_between_that_serves_is_asked_before_those_above_it() {
    let spool = TestSpool::new();
    let _c = spool.serve_headless("C1", &json!({"bash": {"make *": "allow"}}));
    let ended = launched(&spool, "P", &["C1", "G1"], "make all").end();
    ended.approved();
    assert_eq!(ended.json["responderSessionId"], "C1");
    assert_eq!(ended.json["sealed"], true);
}

/// Whoever was told the key of one session above believes no other one that turns up in between.
#[test]
fn a_parent_in_between_whose_key_was_not_told_is_not_asked() {
    let spool = TestSpool::new();
    let _p = spool.serve_headless("P", &json!({"bash": "deny"}));
    let _c = spool.serve_headless("C1", &json!({"bash": {"make *": "allow"}}));
    let ended = launched(&spool, "P", &["C1", "G1"], "make all").end();
    ended.denied();
    assert_eq!(ended.json["responderSessionId"], "P");
    assert_eq!(ended.json["sealed"], true);
    assert!(ended.stderr.contains("--serving-key"), "{}", ended.stderr);
}

#[test]
fn a_launched_child_whose_whole_family_is_silent_is_told_so_soon() {
    let spool = TestSpool::new();
    let ended = launched(&spool, "P", &["C1", "G1"], "make all").end();
    ended.unruled();
    assert_eq!(ended.json["abandoned"], "not_serving");
    let reason = ended.json["denialReason"].as_str().unwrap();
    assert!(reason.contains("\"C1\""), "{reason}");
}

#[test]
fn a_launched_command_keeps_its_exit_code_and_finds_its_place() {
    let spool = TestSpool::new();
    let mut command = spool.relay();
    command.args(["launch", "--session", "P", "--as", "C", "--", "sh", "-c"]);
    command.arg(
        "echo $ASKRELAY_PARENT_SESSION $ASKRELAY_SESSION $PI_SUBAGENT_PARENT_SESSION $PI_IS_SUBAGENT; exit 41",
    );
    let (code, stdout, _) = run(&mut command);
    assert_eq!((code, stdout.as_str()), (41, "P C P 1\n"));

    let mut command = spool.relay();
    command.args(["launch", "--session", "P", "--as", "P", "--", "true"]);
    assert_eq!(run(&mut command).0, 2);
    let mut command = spool.relay();
    command.args(["launch", "--", "no-such-program-anywhere"]);
    assert_eq!(run(&mut command).0, 127);
}

// Relaying.

/// A session that passes on to `parent` what its policy leaves open.
fn relaying(spool: &TestSpool, session: &str, parent: &str) -> Server {
    spool
        .serve(session)
        .args(["--agent", &format!("agent-{session}")])
        .env("ASKRELAY_PARENT_SESSION", parent)
        .start()
}

/// P is asked last; S1 asks P, S2 asks S1, S3 asks S2.
fn chain(spool: &TestSpool) -> Vec<Server> {
    [("S1", "P"), ("S2", "S1"), ("S3", "S2")]
        .into_iter()
        .map(|(session, parent)| relaying(spool, session, parent))
        .collect()
}

fn through_the_chain(spool: &TestSpool, server: &mut Server, label: &str) -> Ended {
    let child = spool.ask("S3").value("make all").id("r1").start();
    let question = server.question();
    for shown in ["make all", "scout", "agent-S3", "agent-S2", "S1"] {
        assert!(question.text.contains(shown), "{shown}: {}", question.text);
    }
    // One id on all four hops.
    for session in ["S3", "S2", "S1", "P"] {
        assert_eq!(spool.waiting(session), ["r1"], "{session}");
    }
    let last = spool.await_request("P", "r1");
    assert_eq!(last["requesterSessionId"], "S1");
    let path: Vec<&str> = last["relay"]["path"]
        .as_array()
        .unwrap()
        .iter()
        .map(|hop| hop["sessionId"].as_str().unwrap())
        .collect();
    assert_eq!(path, ["child", "S3", "S2"]);
    assert_eq!(last["accessIntent"]["principal"]["sessionId"], "child");
    server.choose(&question, label);
    child.end()
}

#[test]
fn an_approval_comes_back_through_four_hops_with_each_of_them_named() {
    let spool = TestSpool::new();
    let mut server = spool.serve_select("P", &json!({}));
    let _chain = chain(&spool);
    let ended = through_the_chain(&spool, &mut server, "Yes");
    ended.approved();
    assert_eq!(ended.json["requestId"], "r1");
    assert_eq!(ended.json["resolution"], "user_approved");
    let (sessions, decider) = frames(&ended.json["decidedBy"]);
    assert_eq!(sessions, ["S3", "S2", "S1", "P"]);
    assert_eq!(decider, json!({"kind": "user", "via": "select"}));
    for session in ["S3", "S2", "S1", "P"] {
        until("no request left", || spool.waiting(session).is_empty());
        let responses = spool.session_dir(session).join("responses");
        until("no response left", || names(&responses).is_empty());
    }
}

#[test]
fn a_denial_with_its_reason_comes_back_through_four_hops() {
    let spool = TestSpool::new();
    let reason = "use make test";
    let rules = json!({"bash": {"make *": {"action": "deny", "reason": reason}}});
    let _server = spool.serve_headless("P", &rules);
    let _chain = chain(&spool);
    let ended = spool.ask("S3").value("make all").run();
    ended.denied();
    assert_eq!(ended.json["denialReason"], reason);
    assert_eq!(ended.json["resolution"], "policy_deny");
    let (sessions, decider) = frames(&ended.json["decidedBy"]);
    assert_eq!(sessions, ["S3", "S2", "S1", "P"]);
    assert_eq!(decider["pattern"], "make *");
}

#[test]
fn the_policy_of_a_hop_decides_without_asking_further() {
    let spool = TestSpool::new();
    let _top = spool.serve_headless("P", &json!({"bash": "allow"}));
    let _middle = spool
        .serve("M")
        .policy(&spool, "M", &json!({"bash": {"rm *": "deny"}}))
        .env("ASKRELAY_PARENT_SESSION", "P")
        .start();
    let ended = spool.ask("M").value("rm x").run();
    ended.denied();
    assert_eq!(frames(&ended.json["decidedBy"]).0, ["M"]);
    let ended = spool.ask("M").value("ls x").run();
    ended.approved();
    assert_eq!(frames(&ended.json["decidedBy"]).0, ["M", "P"]);
}

#[test]
fn two_sessions_that_are_each_others_parents_refuse_to_pass_an_ask_around() {
    let spool = TestSpool::new();
    let _a = relaying(&spool, "A", "B");
    let _b = relaying(&spool, "B", "A");
    let ended = spool.ask("A").value("make").run();
    ended.unruled();
    assert_eq!(ended.json["resolution"], "gate_error");
    let reason = ended.json["denialReason"].as_str().unwrap();
    assert!(reason.contains("before"), "{reason}");
    assert!(spool.waiting("A").is_empty() && spool.waiting("B").is_empty());
}

#[test]
fn a_circle_of_three_relays_is_refused_where_it_would_close() {
    let spool = TestSpool::new();
    let _servers: Vec<Server> = [("A", "B"), ("B", "C"), ("C", "A")]
        .into_iter()
        .map(|(session, parent)| relaying(&spool, session, parent))
        .collect();
    let ended = spool.ask("A").value("make").run();
    ended.unruled();
    assert_eq!(ended.json["resolution"], "gate_error");
    let (sessions, decider) = frames(&ended.json["decidedBy"]);
    assert_eq!(sessions, ["A", "B", "C"]);
    assert_eq!(decider["kind"], "gate_error");
}

#[test]
fn a_relay_whose_parent_serves_nobody_says_who_was_not_there() {
    let spool = TestSpool::new();
    let _middle = relaying(&spool, "M", "P");
    let ended = spool.ask("M").value("make").run();
    ended.unruled();
    assert_eq!(ended.json["responderSessionId"], "M");
    let reason = ended.json["denialReason"].as_str().unwrap();
    assert!(reason.contains("nobody serves session \"P\""), "{reason}");
    assert!(spool.waiting("P").is_empty());
}

#[test]
fn a_person_in_between_is_asked_only_while_the_parent_serves_nobody() {
    let spool = TestSpool::new();
    let mut middle = spool
        .serve("M")
        .select()
        .env("ASKRELAY_PARENT_SESSION", "P")
        .start();
    let child = spool.ask("M").value("make one").start();
    middle.answer("make one", "Yes");
    assert_eq!(frames(&child.end().approved().json["decidedBy"]).0, ["M"]);

    let mut top = spool.serve_select("P", &json!({}));
    until("the relay to begin", || {
        !spool
            .events("forwarded_permission.relay_started")
            .is_empty()
    });
    for value in ["make two", "make three"] {
        let child = spool.ask("M").value(value).start();
        top.answer(value, "Yes");
        assert_eq!(
            frames(&child.end().approved().json["decidedBy"]).0,
            ["M", "P"]
        );
    }
    assert!(!middle.running.stdout().contains("make two"));

    assert_eq!(top.stop(), 0);
    until("the relay to end", || {
        !spool
            .events("forwarded_permission.relay_stopped")
            .is_empty()
    });
    let child = spool.ask("M").value("make four").start();
    middle.answer("make four", "Yes");
    assert_eq!(frames(&child.end().approved().json["decidedBy"]).0, ["M"]);
    // A change of who is asked is told once, not with each ask.
    for event in ["relay_started", "relay_stopped"] {
        let events = spool.events(&format!("forwarded_permission.{event}"));
        assert_eq!(events.len(), 1, "{event}");
        assert_eq!(events[0]["targetSessionId"], "P");
    }
}

#[test]
fn a_relayed_ask_is_given_less_time_than_its_child_has() {
    let spool = TestSpool::new();
    let mut top = spool.serve_select("P", &json!({}));
    let _middle = relaying(&spool, "M", "P");
    let child = spool
        .ask("M")
        .value("make")
        .id("r1")
        .args(["--timeout", "6s"])
        .start();
    let _question = top.question();
    let limit = |session: &str| {
        spool.await_request(session, "r1")["relay"]["timeoutMs"]
            .as_u64()
            .unwrap()
    };
    assert_eq!(limit("M"), 6_000);
    assert!(limit("P") <= 5_000, "{}", limit("P"));
    // The relay gives up first, so the child hears from it instead of running out of time itself.
    let ended = child.end();
    ended.unruled();
    assert_eq!(ended.json["abandoned"], json!(null), "{}", ended.json);
    assert_eq!(ended.json["responderSessionId"], "M");
    let reason = ended.json["denialReason"].as_str().unwrap();
    assert!(
        reason.contains("session \"P\" did not answer within"),
        "{reason}"
    );
    top.await_text("This ask is closed");
}

#[test]
fn a_relay_that_ends_takes_its_question_back_and_settles_its_child() {
    let spool = TestSpool::new();
    let mut top = spool.serve_select("P", &json!({}));
    let mut middle = relaying(&spool, "M", "P");
    let child = spool.ask("M").value("make").id("r1").start();
    let _question = top.question();
    assert_eq!(middle.stop(), 0);
    child.end().unruled();
    top.await_text("This ask is closed");
    until("the upper request to go", || spool.waiting("P").is_empty());
}

#[test]
fn a_child_that_takes_its_ask_back_takes_it_back_from_the_top_as_well() {
    let spool = TestSpool::new();
    let mut top = spool.serve_select("P", &json!({}));
    let _middle = relaying(&spool, "M", "P");
    let child = spool.ask("M").value("make").id("r1").start();
    let _question = top.question();
    child.running.signal(rustix::process::Signal::TERM);
    assert_eq!(child.end().code, 130);
    top.await_text("This ask is closed");
    until("the upper request to go", || spool.waiting("P").is_empty());
}

#[test]
fn an_ask_that_came_through_too_many_sessions_is_not_passed_on() {
    let spool = TestSpool::new();
    let _middle = relaying(&spool, "M", "P");
    let mut request = crate::support::spool::request("r1", "M", "bash", "make");
    let path: Vec<Value> = (0..7)
        .map(|n| json!({"sessionId": format!("s{n}"), "agentName": "a"}))
        .collect();
    request["relay"] = json!({"v": 1, "path": path});
    spool.put_request("M", &request);
    let response = spool.await_response("M", "r1");
    assert_eq!(response["approved"], false);
    assert_eq!(response["decidedBy"]["kind"], "gate_error");
}
