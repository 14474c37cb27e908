//! `askrelay policy`, as a process: what the rules would say on paper, and which rules the log suggests.

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
