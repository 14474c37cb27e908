//! What a serving session does with one request file, from its bytes to its answer. Most of the requests are written by hand,
//! as any other program would write them.

use std::sync::Arc;

use askrelay::audit::{Options, ReviewLog};
use askrelay::prompt::Prompter;
use askrelay::serve::{Mode, Server, Settings, Shown};
use askrelay::wire::{RequestId, SessionId};
use serde_json::{Value, json};

use crate::support::spool::{
    TestSpool, is_there, move_away, names, read_json, remove_tree, request, until,
};

/// What becomes of one request under one policy, without a person.
fn answer_to(rules: &Value, request: &Value) -> Value {
    let spool = TestSpool::new();
    let _server = spool.serve_headless("P", rules);
    let id = request["id"].as_str().unwrap();
    spool.put_request("P", request);
    let answer = spool.await_response("P", id);
    until("the request to go", || spool.waiting("P").is_empty());
    assert_eq!(answer["responderSessionId"], "P");
    answer
}

fn is_asked(answer: &Value) -> bool {
    answer["decidedBy"]["kind"] == "unavailable"
}

#[test]
fn a_rule_that_allows_is_named_in_the_answer_and_in_the_log() {
    let spool = TestSpool::new();
    let _server = spool.serve_headless("P", &json!({"bash": {"ls*": "allow"}}));
    spool.put_request("P", &request("r1", "P", "bash", "ls -l"));
    let answer = spool.await_response("P", "r1");
    assert_eq!(answer["approved"], true);
    assert_eq!(answer["state"], "approved");
    let rule = json!({"kind": "rule", "surface": "bash", "pattern": "ls*", "origin": "global"});
    assert_eq!(answer["decidedBy"], rule);
    for event in ["auto_approved", "approved"] {
        let entry = spool.await_event(&format!("forwarded_permission.{event}"), "r1");
        assert_eq!(entry["decidedBy"], rule, "{entry}");
        assert_eq!(entry["requesterSessionId"], "child");
        assert_eq!(entry["requesterAgentName"], "scout");
        assert_eq!(entry["targetSessionId"], "P");
    }
    until("the request to go", || spool.waiting("P").is_empty());
}

#[test]
fn a_rule_that_denies_gives_its_reason() {
    let rules = json!({"bash": {"rm*": {"action": "deny", "reason": "not here"}}});
    let answer = answer_to(&rules, &request("r1", "P", "bash", "rm x"));
    assert_eq!(answer["approved"], false);
    assert_eq!(answer["state"], "denied_with_reason");
    assert_eq!(answer["denialReason"], "not here");
    assert_eq!(answer["decidedBy"]["kind"], "rule");
}

#[test]
fn without_facts_nothing_is_allowed_whatever_is_displayed() {
    let mut bare = request("r1", "P", "bash", "ls");
    bare["accessIntent"] = json!(null);
    assert!(is_asked(&answer_to(&json!({"bash": "allow"}), &bare)));
}

#[test]
fn facts_that_are_malformed_are_no_facts() {
    let rules = json!({"bash": "allow"});
    let with = |key: &str, value: Option<Value>| {
        let mut request = request("r1", "P", "bash", "ls");
        let intent = request["accessIntent"].as_object_mut().unwrap();
        match value {
            Some(value) => drop(intent.insert(key.into(), value)),
            None => drop(intent.remove(key)),
        }
        request
    };
    assert!(!is_asked(&answer_to(
        &rules,
        &request("r1", "P", "bash", "ls")
    )));
    for (key, value) in [
        ("principal", None),
        ("matchValues", Some(json!(["a", 3]))),
        ("boundaryValue", None),
        ("floor", Some(json!(7))),
        ("askingUnits", Some(json!("ls"))),
    ] {
        assert!(is_asked(&answer_to(&rules, &with(key, value))), "{key}");
    }
}

#[test]
fn any_spelling_of_a_path_is_enough_for_a_deny() {
    let mut path = request("r1", "P", "path_read", "/w/a");
    path["accessIntent"]["matchValues"] = json!(["/w/a", "a", "/real/a"]);
    path["accessIntent"]["boundaryValue"] = json!("/real/a");
    let rules = json!({"path_read": {"*": "allow", "/real/*": "deny"}});
    let answer = answer_to(&rules, &path);
    assert_eq!(answer["decidedBy"]["pattern"], "/real/*");
    assert_eq!(answer["approved"], false);
}

#[test]
fn a_relative_path_is_never_resolved_in_the_servers_own_directory() {
    let spool = TestSpool::new();
    let here = spool.work().join("src/*");
    let rules = json!({"path_read": {here.to_str().unwrap(): "allow"}});
    let _server = spool.serve_headless("P", &rules);
    let mut relative = request("r1", "P", "path_read", "src/a");
    relative["accessIntent"]["matchValues"] = json!(["src/a"]);
    spool.put_request("P", &relative);
    assert!(is_asked(&spool.await_response("P", "r1")));
    let mut absolute = request("r2", "P", "path_read", "src/a");
    let path = spool.work().join("src/a");
    absolute["accessIntent"]["matchValues"] = json!(["src/a", path.to_str().unwrap()]);
    absolute["accessIntent"]["boundaryValue"] = json!(path.to_str().unwrap());
    spool.put_request("P", &absolute);
    assert_eq!(spool.await_response("P", "r2")["approved"], true);
}

#[test]
fn the_rules_of_an_agent_are_stricter_for_that_agent_alone() {
    let spool = TestSpool::new();
    let agents = spool.work().parent().unwrap().join("agents");
    let front_matter = "---\npermission:\n  bash:\n    \"make *\": deny\n---\n";
    spool.put(&agents.join("scout.md"), front_matter);
    let _server = spool.serve_headless("P", &json!({"bash": {"make *": "allow"}}));
    spool.put_request("P", &request("scout", "P", "bash", "make x"));
    let mut other = request("other", "P", "bash", "make x");
    other["requesterAgentName"] = json!("builder");
    other["accessIntent"]["principal"]["agentName"] = json!("builder");
    spool.put_request("P", &other);
    assert_eq!(spool.await_response("P", "scout")["approved"], false);
    assert_eq!(spool.await_response("P", "other")["approved"], true);
}

#[test]
fn a_floor_lifts_an_allow_to_an_ask_and_a_unit_is_judged_by_itself() {
    let rules = json!({"bash": {"ls *": "allow", "sh *": "allow", "rm *": "deny"}});
    let judged = |value: &str, key: &str, fact: Value| {
        let mut request = request("r1", "P", "bash", value);
        request["accessIntent"][key] = fact;
        answer_to(&rules, &request)
    };
    assert!(is_asked(&judged(
        "sh x",
        "floor",
        json!("<opaque-bash-wrapper>")
    )));
    let units = |second: &str| json!([{"command": "ls a"}, {"command": second}]);
    let answer = judged("ls a", "askingUnits", units("ls b"));
    assert_eq!(answer["approved"], true, "{answer}");
    assert!(is_asked(&judged("ls a", "askingUnits", units("make b"))));
    let answer = judged("ls a", "askingUnits", units("rm -rf /t"));
    assert_eq!(answer["decidedBy"]["pattern"], "rm *", "{answer}");
}

#[test]
fn text_that_had_to_be_replaced_is_never_allowed_by_a_rule() {
    let spool = TestSpool::new();
    let _server = spool.serve_headless("P", &json!({"bash": "allow"}));
    let whole = request("r1", "P", "bash", "ls XX").to_string();
    let bytes: Vec<u8> = whole
        .into_bytes()
        .into_iter()
        .map(|byte| if byte == b'X' { 0xff } else { byte })
        .collect();
    spool.put(&spool.request_path("P", "r1"), bytes);
    assert!(is_asked(&spool.await_response("P", "r1")));
}

#[test]
fn who_asks_is_told_by_the_envelope_and_not_by_the_payload() {
    let spool = TestSpool::new();
    let mut server = spool.serve_select("P", &json!({}));
    let mut request = request("r1", "P", "bash", "make");
    request["payload"]["request"]["requester"] =
        json!({"agentName": "admin", "forwarded": false, "sessionId": "root"});
    spool.put_request("P", &request);
    let question = server.question();
    assert!(question.text.contains("Subagent") && question.text.contains("scout"));
    assert!(!question.text.contains("admin"), "{}", question.text);
    server.choose(&question, "No");
    spool.await_response("P", "r1");
}

#[test]
fn a_nameless_agent_is_served_as_unknown() {
    let spool = TestSpool::new();
    let mut server = spool.serve_select("P", &json!({}));
    let mut request = request("r1", "P", "bash", "make");
    request["requesterAgentName"] = json!("");
    spool.put_request("P", &request);
    let question = server.question();
    assert!(question.text.contains("unknown"), "{}", question.text);
    server.choose(&question, "Yes");
    assert_eq!(spool.await_response("P", "r1")["approved"], true);
}

#[test]
fn a_request_for_another_session_is_set_aside_and_its_child_is_told() {
    let spool = TestSpool::new();
    let _server = spool.serve_headless("P", &json!({"bash": "allow"}));
    spool.put(
        &spool.request_path("P", "r1"),
        request("r1", "Q", "bash", "ls").to_string(),
    );
    let answer = spool.await_response("P", "r1");
    assert_eq!(answer["approved"], false);
    assert_eq!(answer["decidedBy"]["kind"], "gate_error");
    let reason = answer["denialReason"].as_str().unwrap();
    assert!(reason.contains('Q') && reason.contains('P'), "{reason}");
    until("it to be moved aside", || spool.quarantined().len() == 1);
}

#[test]
fn blanks_around_the_target_do_not_matter() {
    let answer = answer_to(
        &json!({"bash": "allow"}),
        &request("r1", "\t P ", "bash", "ls"),
    );
    assert_eq!(answer["approved"], true);
}

#[test]
fn a_session_does_not_answer_itself() {
    let mut own = request("r1", "P", "bash", "ls");
    own["requesterSessionId"] = json!(" P");
    let answer = answer_to(&json!({"bash": "allow"}), &own);
    assert_eq!(answer["approved"], false);
    assert_eq!(answer["decidedBy"]["kind"], "gate_error");
}

#[test]
fn an_id_that_is_not_the_file_name_names_no_file() {
    let spool = TestSpool::new();
    let _server = spool.serve_headless("P", &json!({"bash": "allow"}));
    for (file, id) in [("zzz", "aaa"), ("yyy", "../../x"), ("xxx", "/etc/x")] {
        spool.put(
            &spool.request_path("P", file),
            request(id, "P", "bash", "ls").to_string(),
        );
        let answer = spool.await_response("P", file);
        assert_eq!(answer["approved"], false, "{id}");
        assert_eq!(answer["decidedBy"]["kind"], "gate_error", "{id}");
    }
    until("them to be moved aside", || spool.quarantined().len() == 3);
    assert_eq!(
        names(&spool.session_dir("P").join("responses")),
        ["xxx.json", "yyy.json", "zzz.json"]
    );
    assert_eq!(names(&spool.session_dir("P")), ["requests", "responses"]);
    assert_eq!(names(&spool.root()), ["quarantine", "serving", "sessions"]);
}

#[test]
fn what_is_no_request_does_not_hold_up_what_is() {
    let spool = TestSpool::new();
    let _server = spool.serve_headless("P", &json!({"bash": "allow"}));
    let whole = |id: &str| request(id, "P", "bash", "ls").to_string();
    let mut no_number = request("a5", "P", "bash", "ls");
    no_number["createdAt"] = json!("1");
    for (id, bytes) in [
        ("a1", "null".to_owned()),
        ("a2", "[]".to_owned()),
        ("a3", "{".to_owned()),
        ("a4", format!("\u{feff}{}", whole("a4"))),
        ("a5", no_number.to_string()),
    ] {
        spool.put(&spool.request_path("P", id), bytes);
    }
    spool.put_request("P", &request("b1", "P", "bash", "ls"));
    assert_eq!(spool.await_response("P", "b1")["approved"], true);
    for id in ["a1", "a2", "a3", "a4", "a5"] {
        let answer = spool.await_response("P", id);
        assert_eq!(answer["approved"], false, "{id}");
        assert_eq!(answer["decidedBy"]["kind"], "gate_error", "{id}");
    }
    until("them to be moved aside", || spool.quarantined().len() == 5);
}

#[test]
fn names_are_taken_in_order_and_a_temporary_one_is_nobodys() {
    let spool = TestSpool::new();
    for id in ["9", "10", "b", "a"] {
        spool.put_request("P", &request(id, "P", "bash", &format!("make {id}")));
    }
    let unfinished = spool.session_dir("P").join("requests/a.json.1.2.tmp");
    spool.put(&unfinished, "{");
    let mut server = spool.serve_select("P", &json!({}));
    for id in ["10", "9", "a", "b"] {
        server.answer(&format!("make {id}"), "Yes");
        assert_eq!(spool.await_response("P", id)["approved"], true);
    }
    assert!(is_there(&unfinished));
    assert_eq!(spool.quarantined(), [""; 0]);
}

#[test]
fn a_request_without_a_usable_payload_is_asked_with_what_is_known() {
    let spool = TestSpool::new();
    let mut server = spool.serve_select("P", &json!({}));
    let mut old = request("r1", "P", "bash", "make things");
    old["payload"] = json!({"kind": "teleport"});
    old["message"] = json!("scout wants to run make things");
    spool.put_request("P", &old);
    let question = server.question();
    for shown in ["make things", "scout wants to run"] {
        assert!(question.text.contains(shown), "{}", question.text);
    }
    server.choose(&question, "No");
    assert_eq!(spool.await_response("P", "r1")["approved"], false);
}

#[test]
fn an_answer_is_bound_to_the_bytes_that_were_asked() {
    let spool = TestSpool::new();
    let _server = spool.serve_headless("P", &json!({"bash": "allow"}));
    let request = request("r1", "P", "bash", "ls");
    spool.put_request("P", &request);
    let digest = askrelay::wire::Digest::of(request.to_string().as_bytes());
    assert_eq!(
        spool.await_response("P", "r1")["relay"]["requestDigest"],
        digest.to_string()
    );
}

#[test]
fn a_start_and_an_end_are_in_the_log_with_the_mode() {
    let spool = TestSpool::new();
    let mut server = spool.serve("P").select().start();
    let started = spool.events("forwarded_permission.serving_started");
    assert_eq!(started[0]["sessionId"], "P");
    assert_eq!(started[0]["mode"], "select");
    let record = read_json(&spool.heartbeat_path("P")).unwrap();
    assert_eq!(record["sessionId"], "P");
    assert_eq!(record["pid"], server.running.pid());
    assert_eq!(record["relay"]["held"], true);
    assert_eq!(record["relay"]["mode"], "select");
    server.running.signal(rustix::process::Signal::INT);
    assert_eq!(server.running.exit_code(), 0);
    assert_eq!(
        spool.events("forwarded_permission.serving_stopped")[0]["sessionId"],
        "P"
    );
    assert_eq!(names(&spool.root().join("serving")), ["P.lock"]);
}

#[test]
fn a_session_that_must_record_decides_nothing_unrecorded() {
    let spool = TestSpool::new();
    let log = spool.work().join("log");
    spool.put(&log.join("is-a-directory"), "");
    let config = json!({"permission": {"bash": "allow"}, "requireAudit": true});
    let path = spool.config("P", &config);
    let mut server = spool
        .serve("P")
        .config(&path)
        .env("ASKRELAY_LOG", &log)
        .spawn();
    assert_ne!(server.exit_code(), 0);
    assert!(
        server.stderr().contains("unrecorded"),
        "{}",
        server.stderr()
    );
}

/// Shows nothing, and is gone before it could say anything.
struct Mute;

impl Prompter for Mute {
    fn show(&mut self, _shown: Shown) {}

    fn withdraw(&mut self, _id: &RequestId, _why: &str) {}

    fn notice(&mut self, _text: &str) {}
}

#[test]
fn a_prompter_that_ends_without_a_word_leaves_nobody_waiting() {
    let spool = TestSpool::new();
    let log = ReviewLog::open(&spool.below("mute.jsonl"), Options::default()).unwrap();
    let settings = Settings {
        mode: Mode::Dialog,
        ..Settings::new(SessionId::parse("main").unwrap())
    };
    let place = spool.open();
    let (events, person) = tokio::sync::mpsc::unbounded_channel();
    drop(events);
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let serving = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let prompter: Option<Box<dyn Prompter>> = Some(Box::new(Mute));
            let log = Arc::new(log);
            let server = Server::start(&place, settings, None, log, prompter, person).unwrap();
            server.run(async { drop(stopped.await) }).await.unwrap();
        });
    });
    spool.ask("main").value("make").run().unruled();
    drop(stop);
    serving.join().unwrap();
}

#[test]
fn a_session_whose_whole_spool_is_removed_or_moved_ends_and_says_so_once() {
    for moved in [false, true] {
        let spool = TestSpool::new();
        let mut server = spool.serve("P").select().start();
        if moved {
            move_away(&spool.root(), &spool.below("elsewhere"));
        } else {
            remove_tree(&spool.root());
        }
        assert_eq!(server.running.exit_code(), 3);
        let stderr = server.running.stderr();
        assert!(
            stderr.contains("was removed, so nobody can be served in it any more")
                && stderr.contains("hint: "),
            "{stderr}"
        );
        // Each trouble on the way is told once.
        assert!(spool.log().len() < 12, "{} lines", spool.log().len());
    }
}
