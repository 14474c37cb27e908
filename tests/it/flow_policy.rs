//! `askrelay policy`, as a process: what the rules would say on paper, and which rules the log suggests.
#![expect(clippy::disallowed_methods, reason = "a test looks at files itself")]

use std::fmt::Write as _;
use std::process::Command;

use serde_json::{Value, json};

use crate::support::fixtures;
use crate::support::processes::run;
use crate::support::spool::{TestSpool, request};

/// `askrelay policy` under the configuration of this text.
fn policy(spool: &TestSpool, config: &str, args: &[&str]) -> Command {
    let path = spool.work().join("config.json");
    spool.put(&path, config);
    let mut command = spool.relay();
    command.args(["policy"]).args(args);
    command.arg("--config").arg(path);
    command
}

fn judged(spool: &TestSpool, config: &Value, args: &[&str]) -> (i32, Value) {
    let args: Vec<&str> = ["test", "--json"].iter().chain(args).copied().collect();
    let (code, stdout, stderr) = run(&mut policy(spool, &config.to_string(), &args));
    assert_eq!(stderr, "");
    (code, serde_json::from_str(&stdout).unwrap())
}

fn rules() -> Value {
    json!({ "permission": {
        "bash": { "*": "ask", "ls *": "allow", "rm *": { "action": "deny", "reason": "by hand" } },
        "path": { "*": "ask", "*.env": "deny" },
        "path_read": { "*": "allow" },
        "mcp": { "exa:*": "allow" },
    } })
}

#[test]
fn a_verdict_is_the_exit_code_and_names_the_rule_and_its_place() {
    let spool = TestSpool::new();
    let (code, said) = judged(&spool, &rules(), &["ls -l"]);
    assert_eq!((code, &said["verdict"]), (0, &json!("allow")));
    let (code, said) = judged(&spool, &rules(), &["ls; sudo rm x"]);
    assert_eq!((code, &said["verdict"]), (1, &json!("deny")));
    assert_eq!(said["reason"], "by hand");
    assert_eq!(said["rule"]["pattern"], "rm *");
    assert_eq!(said["rule"]["place"]["line"], 1);
    let column = rules().to_string().find("\"rm *\"").unwrap() + 1;
    assert_eq!(said["rule"]["place"]["column"], column);
    let (code, said) = judged(&spool, &rules(), &["--command", "make"]);
    assert_eq!((code, &said["verdict"]), (3, &json!("ask")));
    let (code, stdout, stderr) = run(&mut policy(&spool, "{}", &["test"]));
    assert_eq!((code, stdout.as_str()), (2, ""));
    assert!(stderr.contains("--command"), "{stderr}");
    let (code, _, stderr) = run(&mut policy(&spool, r#"{"permision": {}}"#, &["test", "ls"]));
    assert_eq!(code, 2, "{stderr}");
}

#[test]
fn every_command_of_a_line_has_its_own_verdict() {
    let spool = TestSpool::new();
    let (_, said) = judged(&spool, &rules(), &["ls -l && rm x > log; eval $x"]);
    let units: Vec<Value> = said["units"]
        .as_array()
        .unwrap()
        .iter()
        .map(|unit| json!([unit["command"], unit["verdict"], unit["floor"]]))
        .collect();
    assert_eq!(
        units,
        [
            json!(["ls -l", "allow", null]),
            json!(["rm x", "deny", "<redirection>"]),
            json!(["eval $x", "ask", "<opaque-bash-wrapper>"]),
            json!(["$x", "ask", "<indirection-bash-wrapper>"]),
        ]
    );
    assert!(
        said["steps"]
            .as_array()
            .unwrap()
            .iter()
            .any(|step| step["step"] == "floor" && step["floorText"].is_string())
    );
    assert!(said["notKnown"][0].as_str().unwrap().contains("grants"));
}

#[test]
fn a_path_is_judged_in_its_spellings_and_directions() {
    let spool = TestSpool::new();
    let (code, said) = judged(
        &spool,
        &rules(),
        &["--path", "a/.env", "--direction", "write"],
    );
    assert_eq!(code, 1);
    assert_eq!(said["asked"]["surface"], "path_write");
    assert_eq!(said["asked"]["matchValues"].as_array().unwrap().len(), 2);
    assert_eq!(
        judged(&spool, &rules(), &["--path", "a", "--direction", "read"]).0,
        0
    );
    // Both directions, where none is said.
    assert_eq!(judged(&spool, &rules(), &["--path", "a"]).0, 3);
    assert_eq!(
        judged(
            &spool,
            &rules(),
            &["--surface", "mcp", "--value", "exa:search"]
        )
        .0,
        0
    );
    let (code, said) = judged(
        &spool,
        &rules(),
        &["--surface", "mcp", "--value", "mcp_status"],
    );
    assert_eq!(
        (code, &said["decidedBy"]["origin"]),
        (0, &json!("baseline"))
    );
}

#[test]
fn a_recorded_request_is_judged_as_the_server_judges_it() {
    let spool = TestSpool::new();
    let mut recorded = request("r1", "P", "bash", "rm x");
    recorded["accessIntent"]["principal"]["agentName"] = json!("scout");
    spool.put_request("P", &recorded);
    let file = spool.request_path("P", "r1");
    let (code, said) = judged(&spool, &rules(), &["--request", file.to_str().unwrap()]);
    assert_eq!(
        (code, &said["asked"]["principal"]["agentName"]),
        (1, &json!("scout"))
    );
    assert_eq!(judged(&spool, &rules(), &["--request", "r1"]).1, said);
    let (code, _, stderr) = run(&mut policy(&spool, "{}", &["test", "--request", "r2"]));
    assert_eq!(code, 2);
    assert!(stderr.contains("askrelay ls"), "{stderr}");
    // Without facts nothing can be judged.
    recorded.as_object_mut().unwrap().remove("accessIntent");
    let bare = spool.work().join("bare.json");
    spool.put(&bare, recorded.to_string());
    let (code, said) = judged(&spool, &rules(), &["--request", bare.to_str().unwrap()]);
    assert_eq!((code, &said["steps"][0]["step"]), (3, &json!("noFacts")));
}

#[test]
fn the_rules_of_an_agent_and_the_switch_are_told() {
    let spool = TestSpool::new();
    spool.put(
        &spool.work().join("agents/scout.md"),
        "---\npermission:\n  bash:\n    \"make *\": allow\n---\n",
    );
    let (code, said) = judged(&spool, &rules(), &["make x", "--agent", "scout"]);
    assert_eq!((code, &said["rule"]["origin"]), (0, &json!("agent")));
    assert!(
        said["rule"]["place"]["file"]
            .as_str()
            .unwrap()
            .ends_with("agents/scout.md")
    );
    assert_eq!(said["rule"]["place"]["line"], 4);
    assert_eq!(
        said["steps"][0],
        json!({"step": "agent", "depth": 0, "agent": "scout", "hasOwnRules": true, "isClamped": false})
    );
    let mut switched = rules();
    switched["yoloMode"] = json!(true);
    let (code, said) = judged(&spool, &switched, &["make x"]);
    assert_eq!((code, &said["decidedBy"]["kind"]), (0, &json!("yolo")));
    assert!(
        said["steps"]
            .as_array()
            .unwrap()
            .iter()
            .any(|step| step["step"] == "yolo")
    );
    let (code, said) = judged(&spool, &switched, &["eval $x"]);
    assert_eq!(
        (code, &said["askedBecause"]),
        (3, &json!("<opaque-bash-wrapper>"))
    );
}

#[test]
fn nothing_of_a_request_reaches_the_terminal_unescaped() {
    let spool = TestSpool::new();
    let (_, stdout, _) = run(&mut policy(
        &spool,
        &rules().to_string(),
        &["test", "ls \u{1b}[2J\u{202e}x"],
    ));
    assert!(!stdout.contains(['\u{1b}', '\u{202e}']), "{stdout}");
    assert!(stdout.contains("202E"), "{stdout}");
}

/// One end of an ask as the log has it.
fn ended(n: usize, event: &str, decider: &Value, surface: &str, value: &str) -> Value {
    let member = match surface {
        "bash" => "command",
        "path_read" => "path",
        _ => "target",
    };
    let mut entry = json!({
        "timestamp": format!("2026-11-30T13:{:02}:{:02}.000Z", n / 60 % 60, n % 60), "extension": "askrelay", "stream": "review",
        "event": format!("permission_request.{event}"), "decidedBy": decider, "requestId": format!("r{n}"), "agentName": "scout",
        "surface": surface,
    });
    entry[member] = json!(value);
    entry
}

/// A log in which the value was approved so many times by a person.
fn log_of(entries: &[(&str, &str, usize)]) -> String {
    let person = json!({"kind": "user", "via": "dialog"});
    let mut text = String::new();
    let mut n = 0;
    for (surface, value, times) in entries {
        for _ in 0..*times {
            writeln!(text, "{}", ended(n, "approved", &person, surface, value)).unwrap();
            n += 1;
        }
    }
    text
}

fn suggested(spool: &TestSpool, config: &str, log: &str, args: &[&str]) -> (i32, String, String) {
    let path = spool.work().join("log.jsonl");
    spool.put(&path, log);
    let args: Vec<&str> = ["suggest"].iter().chain(args).copied().collect();
    run(policy(spool, config, &args).arg("--log").arg(path))
}

/// What `patch` makes of the configuration.
fn patched(spool: &TestSpool, config: &str, diff: &str) -> String {
    let (file, patch) = (
        spool.work().join("config.json"),
        spool.work().join("rules.diff"),
    );
    spool.put(&file, config);
    spool.put(&patch, diff);
    let mut command = Command::new("patch");
    command.arg("--silent").arg(&file).arg("-i").arg(&patch);
    let (code, stdout, stderr) = run(&mut command);
    assert_eq!(code, 0, "{stdout}{stderr}");
    String::from_utf8(std::fs::read(&file).unwrap()).unwrap()
}

const WRITTEN: &str = r#"{
  // Mine.
  "permission": {
    "bash": {
      "*": "ask", // careful
      "ls *": "allow",
      "rm *": "deny" // never
    },
    "path_read": "ask",
    "mcp": {"exa:*": "ask"}
  }
}
"#;

#[test]
fn what_a_person_approved_often_enough_is_suggested_applied_read_and_allowed() {
    let spool = TestSpool::new();
    let log = log_of(&[
        ("bash", "make deploy", 3),
        ("bash", "git fetch origin", 4),
        ("bash", "git fetch \"up stream\"", 3),
        ("bash", "make once", 2),
        ("path_read", "/srv/a b", 3),
        ("web_fetch", "docs.rs", 5),
    ]);
    let (code, diff, said) = suggested(&spool, WRITTEN, &log, &[]);
    assert_eq!(code, 0, "{said}");
    assert!(
        said.contains("5 rules are suggested") && said.contains("1 approved less often"),
        "{said}"
    );
    // Nothing was changed.
    assert_eq!(
        std::fs::read(spool.work().join("config.json")).unwrap(),
        WRITTEN.as_bytes()
    );
    let after = patched(&spool, WRITTEN, &diff);
    for kept in [
        "// Mine.",
        "\"*\": \"ask\", // careful",
        "\"rm *\": \"deny\", // never",
        "\"mcp\": {\"exa:*\": \"ask\"}",
    ] {
        assert!(after.contains(kept), "{after}");
    }
    assert!(after.contains("// approved 3 times by a person, last on 2026-11-30, for scout\n      \"make deploy\": \"allow\""), "{after}");
    assert!(
        after.contains("// wider, for these and more like them: \"git fetch *\": \"allow\""),
        "{after}"
    );
    let allows = |args: &[&str]| {
        let args: Vec<&str> = ["test"].iter().chain(args).copied().collect();
        run(&mut policy(&spool, &after, &args)).0 == 0
    };
    assert!(
        allows(&["make deploy"])
            && allows(&["git fetch origin"])
            && allows(&["git fetch \"up stream\""])
    );
    assert!(
        allows(&["--surface", "path_read", "--value", "/srv/a b"])
            && allows(&["--surface", "web_fetch", "--value", "docs.rs"])
    );
    assert!(
        !allows(&["make"])
            && !allows(&["make deploy x"])
            && !allows(&["git fetch"])
            && !allows(&["make once"])
    );
    assert!(!allows(&["--surface", "path_read", "--value", "/srv/a"]) && !allows(&["rm x"]));
    // What a rule decides already is not suggested again.
    let (_, diff, said) = suggested(&spool, &after, &log, &[]);
    assert_eq!(diff, "");
    assert!(
        said.contains("nothing is suggested") && said.contains("5 allowed already"),
        "{said}"
    );
}

#[test]
fn nothing_is_suggested_that_a_person_did_not_decide_whole() {
    let spool = TestSpool::new();
    let person = json!({"kind": "user", "via": "dialog"});
    let program =
        json!({"kind": "authorizer", "name": "judge", "verdict": "allow", "reason": null});
    let mut log = log_of(&[
        ("bash", "make a; make b", 3),
        ("bash", "eval x", 3),
        ("bash", "make > out", 3),
        ("bash", "ls *.rs", 3),
        ("bash", "rm x", 3),
        ("bash", "curl -H 'X: [redacted]'", 3),
        ("path_read", "src/a", 3),
        ("path_read", "~/a", 3),
        ("bash", "make denied", 3),
        ("bash", "ls x", 3),
    ]);
    for n in 100..110 {
        writeln!(
            log,
            "{}",
            ended(n, "approved", &program, "bash", "make judged")
        )
        .unwrap();
    }
    writeln!(
        log,
        "{}",
        ended(200, "denied", &person, "bash", "make denied")
    )
    .unwrap();
    let (code, stdout, stderr) = suggested(&spool, WRITTEN, &log, &["--json"]);
    assert_eq!((code, stderr.as_str()), (0, ""));
    let said: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(said["rules"], json!([]));
    assert_eq!(said["diff"], "");
    assert_eq!(
        said["skipped"],
        json!({
            "allowed already": 1,
            "commands that no rule may allow for what they hide or write": 2,
            "denied at another time": 1,
            "denied by a rule": 1,
            "lines of several commands, which are judged one by one": 1,
            "paths that mean another file in another directory": 1,
            "with a * or ? or ~, for which a rule would cover more or something else": 2,
            "approvals of values with a secret that the log masks": 3,
        })
    );
}

#[test]
fn where_there_is_no_configuration_one_is_suggested() {
    let spool = TestSpool::new();
    let log = log_of(&[("bash", "make", 1)]);
    let path = spool.work().join("log.jsonl");
    spool.put(&path, &log);
    let mut command = spool.relay();
    command
        .args(["policy", "suggest", "--min", "1", "--log"])
        .arg(path);
    command.env("XDG_CONFIG_HOME", spool.work().join("none"));
    let (code, diff, said) = run(&mut command);
    assert_eq!(code, 0, "{said}");
    assert!(
        diff.starts_with("--- /dev/null\n") && diff.contains("+      \"make\": \"allow\""),
        "{diff}"
    );
}

#[test]
fn a_log_that_acts_on_a_file_or_a_terminal_is_held() {
    let spool = TestSpool::new();
    let mut hostile = ended(
        0,
        "approved",
        &json!({"kind": "user", "via": "dialog"}),
        "bash",
        "make\u{1b}[2J\n\"x",
    );
    hostile["agentName"] = json!("scout\n\"*\": \"allow\"\u{202e}");
    let (code, diff, said) = suggested(&spool, WRITTEN, &format!("{hostile}\n"), &["--min", "1"]);
    assert_eq!(code, 0, "{said}");
    assert!(
        !diff.contains(['\u{1b}', '\u{202e}']) && !said.contains(['\u{1b}', '\u{202e}']),
        "{diff}{said}"
    );
    if !diff.is_empty() {
        let after = patched(&spool, WRITTEN, &diff);
        assert!(
            run(&mut policy(&spool, &after, &["test", "make other"])).0 != 0,
            "{after}"
        );
    }
}

#[test]
fn a_suggestion_hides_nothing_and_fits_whatever_ends_the_lines() {
    let spool = TestSpool::new();
    let person = json!({"kind": "user", "via": "dialog"});
    let hidden = "make \u{202e}\u{9b}31m\u{200b}\u{7f}x";
    let log = ended(0, "approved", &person, "bash", hidden);
    let log = format!("{log}\n");
    for written in [
        WRITTEN.to_owned(),
        WRITTEN.replace('\n', "\r\n"),
        WRITTEN.trim_end().to_owned(),
        "{\r\"permission\": {\r\"bash\": \"ask\"\n}\r\r\n}\r".to_owned(),
    ] {
        let (code, diff, said) = suggested(&spool, &written, &log, &["--min", "1"]);
        assert_eq!(code, 0, "{said}");
        assert!(
            !diff.contains(['\u{202e}', '\u{9b}', '\u{200b}', '\u{7f}']),
            "{diff}"
        );
        let after = patched(&spool, &written, &diff);
        let (code, _, _) = run(&mut policy(&spool, &after, &["test", hidden]));
        assert_eq!(code, 0, "{after}");
    }
}

/// What a real server wrote is read, with what a person decided in it.
#[test]
fn the_log_of_a_server_is_read() {
    let spool = TestSpool::new();
    let mut server = spool.serve_select("P", &json!({}));
    for _ in 0..2 {
        let child = spool.ask("P").value("make deploy").start();
        server.answer("make deploy", "Yes");
        child.end().approved();
    }
    server.stop();
    let (code, stdout, stderr) = run(spool
        .relay()
        .args(["policy", "suggest", "--min", "2", "--json"]));
    assert_eq!(code, 0, "{stderr}");
    let said: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(said["rules"][0]["pattern"], "make deploy");
    assert_eq!(said["rules"][0]["agents"], json!(["scout"]));
}

fn verdict(spool: &TestSpool, permission: &Value, args: &[&str]) -> String {
    let (_, said) = judged(spool, &json!({ "permission": permission }), args);
    said["verdict"].as_str().unwrap().to_owned()
}

#[test]
fn policy_1_a_star_that_crosses_line_ends_lets_no_script_through() {
    let spool = TestSpool::new();
    let rules = json!({ "bash": { "*": "allow", "python *": "allow", "rm *": "deny" } });
    assert_eq!(verdict(&spool, &rules, &["python -\nrm -rf x"]), "deny");
    assert_eq!(
        verdict(&spool, &rules, &["python - <<E\nrm -rf x\nE"]),
        "ask"
    );
    assert_eq!(
        verdict(&spool, &rules, &["cat <<'E'\nrm -rf x\nE"]),
        "allow"
    );
    assert_eq!(
        verdict(&spool, &rules, &["cat <<'E'\nx\nE\nrm -rf x"]),
        "deny"
    );
    assert_eq!(verdict(&spool, &rules, &["python '"]), "ask");
}

#[test]
fn policy_6_a_deny_anywhere_is_said_before_anybody_is_asked() {
    let spool = TestSpool::new();
    let rules = json!({ "external_directory": "ask", "bash": { "*": "ask", "rm *": "deny" } });
    let mut server = spool.serve_select("P", &rules);
    let mut recorded = request("r1", "P", "external_directory", "/srv/x");
    recorded["accessIntent"]["askingUnits"] =
        json!([{ "command": "ls /srv/x" }, { "command": "rm -rf /srv/x" }]);
    spool.put_request("P", &recorded);
    assert_eq!(spool.await_response("P", "r1")["state"], "denied");
    assert!(!server.running.stdout().contains("Permission Required"));
    server.stop();
}

#[test]
fn policy_8_the_name_of_an_agent_makes_no_rule_milder() {
    let spool = TestSpool::new();
    spool.put(
        &spool.work().join("agents/broken.md"),
        "---\npermission:\n  bash: [allow]\n---\n",
    );
    let rules = json!({ "bash": { "*": "ask", "ls *": "allow", "rm *": "deny" } });
    let config = json!({ "permission": rules }).to_string();
    let said = |line: &str, agent: &str| {
        run(&mut policy(
            &spool,
            &config,
            &["test", line, "--agent", agent],
        ))
        .0
    };
    // Nobody has written rules for it: those for everybody hold.
    assert_eq!(
        [
            said("ls -l", "unknown"),
            said("rm x", "unknown"),
            said("make", "unknown")
        ],
        [0, 1, 3]
    );
    // Its own could not be read: no rule allows it anything, and what is denied stays denied.
    assert_eq!(
        [
            said("ls -l", "broken"),
            said("rm x", "broken"),
            said("make", "broken")
        ],
        [3, 1, 3]
    );
}

#[test]
fn policy_10_a_path_is_never_completed_where_it_is_judged() {
    let spool = TestSpool::new();
    let allowed = format!("{}/src/*", spool.work().display());
    let rules = json!({ "permission": { "path": { "*": "ask", allowed: "allow" } } });
    let mut recorded = request("r1", "P", "path_write", "src/a");
    recorded["accessIntent"]["matchValues"] = json!(["/wt/42/src/a", "src/a"]);
    recorded["accessIntent"]["requesterCwd"] = json!("/wt/42");
    let file = spool.work().join("recorded.json");
    let asked = |recorded: &Value| {
        spool.put(&file, recorded.to_string());
        judged(&spool, &rules, &["--request", file.to_str().unwrap()]).0
    };
    // The judge works in the directory that the rule names; the child did not.
    assert_eq!(asked(&recorded), 3);
    recorded["accessIntent"]["matchValues"] = json!([spool.work().join("src/a"), "src/a"]);
    assert_eq!(asked(&recorded), 0);
    // Facts that are not whole are none.
    recorded["accessIntent"]["matchValues"] = json!("src/a");
    assert_eq!(asked(&recorded), 3);
}

/// The transcript in the documentation is what really comes.
#[test]
fn the_documented_transcript_is_a_real_one() {
    let page = fixtures::text("docs/configuration.md");
    let section = page.split("\n## Try the rules\n").nth(1).unwrap();
    let mut blocks = section.split("```");
    let config = blocks.nth(1).unwrap().strip_prefix("json\n").unwrap();
    let transcript = blocks.nth(1).unwrap().strip_prefix("console\n").unwrap();
    let (command, wanted) = transcript.split_once('\n').unwrap();
    let line = command
        .strip_prefix("$ askrelay policy test '")
        .and_then(|rest| rest.strip_suffix('\''))
        .unwrap();
    let spool = TestSpool::new();
    let (_, stdout, _) = run(&mut policy(&spool, config, &["test", line]));
    let shown = stdout.replace(spool.work().to_str().unwrap(), "~/.config/askrelay");
    assert_eq!(shown.trim_end(), wanted.trim_end());
}
