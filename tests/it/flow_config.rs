//! The configuration in its layers: what of it holds, what a project may bring into force, and what a change does to a session
//! that runs.

use serde_json::Value;

use crate::support::config::{Configured, make_directory, overwrite, put, remove};
use crate::support::processes::run;
use crate::support::spool::{is_there, until};

const MAKE_IS_ASKED: &str = r#"{"permission": {"bash": {"ls": "allow", "rm *": "deny"}}}"#;
const MAKE_IS_ALLOWED: &str = r#"{"permission": {"bash": {"ls": "allow", "make *": "allow", "cook *": "deny", "rm *": "deny"}}}"#;

#[test]
fn rules_that_change_hold_for_the_next_ask_without_a_restart() {
    let place = Configured::new(MAKE_IS_ASKED);
    let _server = place.headless();
    place.ask("scout", "make all").unruled();
    place.write(MAKE_IS_ALLOWED);
    let reloaded = place.await_events("config.reloaded", 1);
    assert!(
        reloaded["files"][0]["digest"]
            .as_str()
            .unwrap()
            .starts_with("blake3:")
    );
    place.ask("scout", "make all").approved();
    place.ask("scout", "cook rice").denied();
    // In place as well, as a careless editor writes.
    overwrite(&place.path(), MAKE_IS_ASKED);
    place.await_events("config.reloaded", 2);
    place.ask("scout", "make all").unruled();
    assert_eq!(place.failure(), None);
}

#[test]
fn conc_3_rules_that_are_read_again_settle_what_waits_and_what_is_on_screen() {
    let place = Configured::new(MAKE_IS_ASKED);
    let mut server = place.select();
    let start = |id: &str, value: &str| {
        let child = place.spool.ask("P").value(value).id(id).from(id).start();
        place.spool.await_event("forwarded_permission.prompted", id);
        child
    };
    let on_screen = start("r1", "make one");
    assert!(server.question().text.contains("make one"));
    let queued = start("r2", "make two");
    let denied = start("r3", "cook rice");
    let stays = start("r4", "brew tea");
    place.write(MAKE_IS_ALLOWED);
    server.await_text("the rules were read again, and allow it");
    let first = on_screen.end();
    first.approved();
    assert_eq!(first.json["decidedBy"]["decision"]["kind"], "rule");
    queued.end().approved();
    denied.end().denied();
    // What is still to be asked is asked, and was asked once. A line that was begun for the other question is not for this one.
    let question = server.question();
    assert!(question.text.contains("brew tea"), "{}", question.text);
    server.choose(&question, "Yes");
    server.await_text("the line was not used");
    server.choose(&question, "Yes");
    stays.end().approved();
    for id in ["r1", "r2", "r3", "r4"] {
        assert_eq!(place.spool.ends_of(id).len(), 1, "{id}");
        assert_eq!(
            place
                .spool
                .events_of("forwarded_permission.prompted", id)
                .len(),
            1
        );
    }
}

#[test]
fn a_question_that_is_still_one_stays_on_screen_and_takes_its_answer() {
    let place = Configured::new(MAKE_IS_ASKED);
    let mut server = place.select();
    let child = place.spool.ask("P").value("brew tea").start();
    let question = server.question();
    place.write(MAKE_IS_ALLOWED);
    server.await_text("the configuration was read again");
    assert!(!server.running.stdout()[..].contains("read again, and"));
    server.choose(&question, "Yes");
    let ended = child.end();
    ended.approved();
    assert_eq!(ended.json["decidedBy"]["decision"]["kind"], "user");
}

#[test]
fn a_broken_file_keeps_the_denies_allows_nothing_and_says_so_until_it_is_mended() {
    let place = Configured::new(MAKE_IS_ALLOWED);
    let mut server = place.select();
    place.ask("scout", "make all").approved();
    place.write("{\n  \"permision\": {}\n}");
    let failure = place.await_failure("permision");
    assert!(failure.contains("config.json:2:3"), "{failure}");
    server.await_text("whatever it allowed is asked until it can");
    let broken = place.await_events("config.broken", 1);
    assert!(broken["reason"].as_str().unwrap().contains("did you mean"));
    let child = place.spool.ask("P").value("make all").id("r1").start();
    assert!(server.question().text.contains("make all"));
    place.ask("scout", "rm x").denied();
    place.write(MAKE_IS_ALLOWED);
    server.await_text("the configuration can be used again");
    child.end().approved();
    place.await_no_failure();
    place.ask("scout", "make all").approved();
}

#[test]
fn a_file_that_says_the_same_again_is_no_news() {
    let place = Configured::new(MAKE_IS_ASKED);
    let _server = place.headless();
    for _ in 0..3 {
        overwrite(&place.path(), MAKE_IS_ASKED);
    }
    place.write(MAKE_IS_ALLOWED);
    place.await_events("config.reloaded", 1);
    assert_eq!(place.spool.events("config.broken").len(), 0);
}

#[test]
fn agents_come_and_change_while_a_session_runs_and_break_for_themselves_alone() {
    let place = Configured::new(MAKE_IS_ASKED);
    let _server = place.headless();
    put(
        &place.agent("builder"),
        "---\npermission:\n  bash:\n    \"make *\": allow\n    \"make clean\": deny\n---\n",
    );
    place.await_events("config.reloaded", 1);
    place.ask("builder", "make all").approved();
    place.ask("scout", "make all").unruled();
    put(
        &place.agent("builder"),
        "---\npermission:\n  bash: alow\n---\n",
    );
    let failure = place.await_failure("agent builder is allowed nothing");
    assert!(failure.contains("builder.md:3:9"), "{failure}");
    place.ask("builder", "make all").unruled();
    place.ask("builder", "make clean").denied();
    place.ask("builder", "ls").unruled();
    place.ask("scout", "ls").approved();
    // Its denies do not go with its file.
    remove(&place.agent("builder"));
    place.await_failure("builder.md is gone");
    place.ask("builder", "make clean").denied();
    put(&place.agent("builder"), "---\nname: builder\n---\n");
    place.await_no_failure();
    place.ask("builder", "ls").approved();
}

#[test]
fn what_counts_from_the_next_start_is_named_and_a_deprecated_key_once() {
    let place = Configured::new(r#"{"toolTextSummaryMaxLength": 3, "session": "P"}"#);
    let server = place.headless();
    let says = |text: &str| until(text, || server.running.stderr().contains(text));
    place.write(r#"{"toolTextSummaryMaxLength": 4, "session": "other", "requireSeal": true}"#);
    says("heeded when the session is started again: session, requireSeal");
    place.write(r#"{"toolTextSummaryMaxLength": 5, "toolInputPreviewMaxLength": 5}"#);
    says("toolInputPreviewMaxLength");
    place.await_events("config.reloaded", 2);
    let stderr = server.running.stderr();
    assert_eq!(
        stderr
            .matches("\"toolTextSummaryMaxLength\" is deprecated")
            .count(),
        1,
        "{stderr}"
    );
}

#[test]
fn settings_that_a_running_session_can_take_over_count_at_once() {
    let place = Configured::new("{}");
    let _server = place.headless();
    place.ask("scout", "make").unruled();
    place.write(r#"{"yoloMode": true}"#);
    place.await_events("config.reloaded", 1);
    place.ask("scout", "make").approved();
}

#[test]
fn policy_6_a_project_counts_when_somebody_has_trusted_it_and_not_before() {
    let place = Configured::new(MAKE_IS_ASKED);
    put(
        &place.of_project(".askrelay/config.json"),
        r#"{"permission": {"bash": {"make *": "allow"}}, "yoloMode": true}"#,
    );
    put(
        &place.of_project(".askrelay/agents/builder.md"),
        "---\npermission:\n  bash:\n    \"cook *\": allow\n---\n",
    );
    let server = place.headless();
    assert!(server.running.stderr().contains("nobody has trusted"));
    place.ask("builder", "make all").unruled();
    place.ask("builder", "cook rice").unruled();
    // It is trusted while the session runs.
    let (code, shown, _) = run(place
        .relay()
        .args(["config", "trust", "--yes"])
        .arg(place.of_project("")));
    assert_eq!(code, 0);
    for text in [
        "bash: make *",
        "bash: cook *  (agent builder)",
        "does not count: yoloMode = true",
    ] {
        assert!(shown.contains(text), "{shown}");
    }
    place.await_events("config.reloaded", 1);
    place.ask("builder", "make all").approved();
    place.ask("builder", "cook rice").approved();
    place.ask("scout", "brew tea").unruled();
    // And is not any more.
    run(place
        .relay()
        .args(["config", "trust", "--remove"])
        .arg(place.of_project("")));
    place.await_events("config.reloaded", 2);
    place.ask("builder", "make all").unruled();
}

#[test]
fn policy_8_a_tool_that_edits_the_projects_rules_gains_no_allow_and_costs_no_deny() {
    let place = Configured::new(r#"{"permission": {"bash": {"ls": "allow"}}}"#);
    let config = place.of_project(".askrelay/config.json");
    put(
        &config,
        r#"{"permission": {"bash": {"make *": "allow", "rm *": "deny"}}}"#,
    );
    place.trust();
    let mut server = place.select();
    place.ask("scout", "make all").approved();
    place.ask("scout", "rm x").denied();
    overwrite(&config, r#"{"permission": {"*": "allow"}}"#);
    let failure = place.await_failure("is not as it was trusted");
    assert!(
        failure.contains(".askrelay/config.json has changed"),
        "{failure}"
    );
    assert!(failure.contains("askrelay config trust"), "{failure}");
    server.await_text("is not as it was trusted");
    place.await_events("config.untrusted", 1);
    place.ask("scout", "rm x").denied();
    place.ask("scout", "make all").approved();
    place.ask("scout", "ls").approved();
    let asked = place.spool.ask("P").value("brew tea").start();
    assert!(server.question().text.contains("brew tea"));
    // A session that starts now uses nothing of it.
    server.stop();
    drop(asked);
    let server = place.headless();
    assert!(
        server.running.stderr().contains("nothing of it counts"),
        "{}",
        server.running.stderr()
    );
    place.await_failure("nothing of it counts");
    place.ask("scout", "make all").unruled();
    let untrusted = place.await_events("config.untrusted", 2);
    let reason = untrusted["reason"].as_str().unwrap();
    assert!(reason.contains("nothing of it counts"), "{reason}");
    // Somebody looks, and accepts it.
    place.trust();
    place.await_no_failure();
    place.ask("scout", "brew tea").approved();
}

#[test]
fn a_program_of_a_project_that_was_edited_does_not_run() {
    let place = Configured::new("{}");
    put(
        &place.of_project("hint.sh"),
        "echo '{\"text\": \"from the project\"}'",
    );
    put(
        &place.of_project(".askrelay/config.json"),
        r#"{"annotatorChain": ["hint"], "annotators": {"hint": {"command": ["/bin/sh", "hint.sh"]}}}"#,
    );
    place.trust();
    let server = {
        let mut serve = place.serve().select();
        // It is run where the session runs.
        serve = serve.directory(&place.of_project(""));
        serve.start()
    };
    let mut server = server;
    let child = place.spool.ask("P").value("make").start();
    let question = server.question();
    assert!(
        question.text.contains("from the project"),
        "{}",
        question.text
    );
    server.choose(&question, "No");
    child.end().denied();
    overwrite(
        &place.of_project("hint.sh"),
        "touch ran; echo '{\"text\": \"from the tool\"}'",
    );
    place.await_failure("hint.sh has changed");
    let child = place.spool.ask("P").value("make").start();
    let question = server.question();
    assert!(!question.text.contains("from the"), "{}", question.text);
    server.choose(&question, "No");
    child.end().denied();
    assert!(!is_there(&place.of_project("ran")));
}

#[test]
fn a_program_of_a_project_is_the_file_that_was_trusted_from_wherever_and_however_it_is_named() {
    let place = Configured::new("{}");
    let here = place.spool.work();
    std::os::unix::fs::symlink(place.of_project(""), here.join("link")).unwrap();
    let says = |what: &str| {
        format!(
            "echo '{{\"evidence\": [{{\"label\": \"says\", \"text\": \"{what}\", \"detail\": null}}]}}'"
        )
    };
    let names = ["plain", "linked", "behind"];
    for directory in [place.of_project("tools"), here.join("tools")] {
        make_directory(&directory);
        for name in names {
            put(&directory.join(name), &says("of-somebody-else"));
        }
    }
    for name in names {
        put(
            &place.of_project("tools").join(name),
            &says("of-the-project"),
        );
    }
    let config = serde_json::json!({"evidenceFormatters": {
        "plain": {"command": ["/bin/sh", "tools/plain"]},
        "linked": {"command": ["/bin/sh", here.join("link/tools/linked")]},
        "behind": {"command": ["/usr/bin/env", "X=tools/behind", "/bin/sh", "-c", ". \"./$X\""]},
    }});
    put(
        &place.of_project(".askrelay/config.json"),
        &config.to_string(),
    );
    place.trust();
    let mut server = place.select();
    let mut shown = |tool: &str| {
        let ask = place
            .spool
            .ask("P")
            .args(["--config", place.path().to_str().unwrap()]);
        let ask = ask.args(["--project", place.of_project("").to_str().unwrap()]);
        let child = ask
            .args(["--tool", tool, "--input", "{\"to\": \"prod\"}"])
            .start();
        let question = server.question();
        server.choose(&question, "No");
        child.end().denied();
        question.text
    };
    for name in names {
        let text = shown(name);
        assert!(text.contains("of-the-project"), "{text}");
        // Whoever edits it ends the trust.
        let file = place.of_project("tools").join(name);
        overwrite(&file, &says("of-a-tool"));
        place.await_failure(&format!("tools/{name} has changed"));
        let text = shown(name);
        assert!(!text.contains("of-"), "{text}");
        overwrite(&file, &says("of-the-project"));
        place.await_no_failure();
    }
}

#[test]
fn a_peers_project_file_is_used_where_there_is_none_of_ours() {
    let place = Configured::new("{}");
    let peers = place.of_project(".pi/extensions/pi-permission-system/config.json");
    make_directory(peers.parent().unwrap());
    put(&peers, r#"{"permission": {"bash": {"make *": "allow"}}}"#);
    place.trust();
    let _server = place.headless();
    place.ask("scout", "make all").approved();
    let nothing = run(place.relay().args(["config", "show", "--json"]));
    let shown: Value = serde_json::from_str(&nothing.1).unwrap();
    assert_eq!(shown["rules"][0]["origin"], "project");
}

#[test]
fn without_a_project_nothing_of_one_counts() {
    let place = Configured::new("{}");
    put(
        &place.of_project(".askrelay/config.json"),
        r#"{"permission": {"bash": {"make *": "allow"}}}"#,
    );
    place.trust();
    let server = place
        .spool
        .serve("P")
        .config(&place.path())
        .args(["--no-project"])
        .directory(&place.of_project(""));
    let _server = server.start();
    place.ask("scout", "make all").unruled();
    let (code, _, stderr) = run(place.spool.relay().args(["serve", "--project", "nowhere"]));
    assert_eq!(code, 2, "{stderr}");
    assert!(stderr.contains("--no-project"), "{stderr}");
}

#[test]
fn everything_that_is_wrong_is_said_with_its_place_and_what_was_meant() {
    let place = Configured::new(
        "{\n \"yoloMdoe\": true,\n \"permission\": {\"bash\": {\"a\": \"alow\", \"b\": \"ask\"}},\n \"promptMaxRows\": 0\n}",
    );
    put(
        &place.agent("builder"),
        "---\npermission:\n  bash: [\n---\n",
    );
    put(&place.of_project(".askrelay/config.json"), "{\"x\": 1}");
    let (code, stdout, _) = run(place.relay().args(["config", "check"]));
    assert_eq!(code, 2);
    for text in [
        "conf/config.json:2:2: unknown key \"yoloMdoe\" (did you mean \"yoloMode\"?)",
        "conf/config.json:3:31: \"a\" must be",
        "conf/config.json:4:",
        "conf/agents/builder.md:3:",
        "project/.askrelay/config.json:1:2: unknown key \"x\"",
    ] {
        assert!(stdout.contains(text), "{text}\n{stdout}");
    }
    let (code, stdout, _) = run(place.relay().args(["config", "check", "--json"]));
    assert_eq!(code, 2);
    let told: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(told["ok"], false);
    assert_eq!(told["files"].as_array().unwrap().len(), 3);
    let first = &told["files"][0]["errors"][0];
    assert_eq!((&first["line"], &first["column"]), (&2.into(), &2.into()));
    assert_eq!(
        (&first["key"], &first["nearest"]),
        (&"yoloMdoe".into(), &"yoloMode".into())
    );
    // A session does not start on it.
    let (code, _, stderr) = run(place.relay().args(["serve", "--session", "P"]));
    assert_eq!(code, 2);
    assert!(stderr.contains("config check"), "{stderr}");
    // One file alone, mended.
    place.write("{}");
    let (code, stdout, _) = run(place.relay().args(["config", "check"]).arg(place.path()));
    assert_eq!(code, 0, "{stdout}");
    assert!(stdout.contains("config.json: ok"), "{stdout}");
}

#[test]
fn what_holds_is_shown_with_its_origin_rules_in_their_order() {
    let place = Configured::new(
        "{\n \"promptMaxRows\": 7, \"session\": \"lead\",\n \"permission\": {\"bash\": {\"*\": \"ask\"}}\n}",
    );
    put(
        &place.of_project(".askrelay/config.json"),
        "{\"permission\": {\"bash\": {\"make *\": \"allow\"}}, \"permissionReviewLog\": false}",
    );
    put(
        &place.agent("builder"),
        "---\npermission:\n  bash:\n    \"rm *\": deny\n---\n",
    );
    place.trust();
    let show = |more: &[&str]| {
        let mut command = place.relay();
        command.args(["config", "show", "--json"]).args(more);
        let (code, stdout, stderr) = run(&mut command);
        assert_eq!(code, 0, "{stderr}");
        serde_json::from_str::<Value>(&stdout).unwrap()
    };
    let shown = show(&["--agent", "builder"]);
    let settings = &shown["settings"];
    assert_eq!(settings["promptMaxRows"]["value"], 7);
    let origin = settings["promptMaxRows"]["origins"][0].as_str().unwrap();
    assert!(origin.ends_with("conf/config.json:2:2"), "{origin}");
    assert_eq!(settings["promptFieldMaxWidth"]["origins"][0], "default");
    assert_eq!(settings["session"]["value"], "lead");
    assert_eq!(settings["permissionReviewLog"]["value"], true);
    let rules: Vec<String> = shown["rules"]
        .as_array()
        .unwrap()
        .iter()
        .map(|rule| format!("{} {} {}", rule["pattern"], rule["verdict"], rule["origin"]))
        .collect();
    assert_eq!(
        rules,
        [
            r#""*" "ask" "global""#,
            r#""make *" "allow" "project""#,
            r#""rm *" "deny" "agent""#
        ]
    );
    let withheld = shown["notInForce"][0].as_str().unwrap();
    assert!(withheld.contains("permissionReviewLog"), "{withheld}");
    assert_eq!(show(&[])["rules"].as_array().unwrap().len(), 2);
    let (_, text, _) = run(place
        .relay()
        .args(["config", "show"])
        .env("ASKRELAY_SESSION", "other"));
    assert!(text.contains("\"other\""), "{text}");
    assert!(text.contains("ASKRELAY_SESSION"), "{text}");
}

#[test]
fn trust_is_shown_listed_and_taken_back_and_never_given_to_what_is_broken() {
    let place = Configured::new("{}");
    let config = place.of_project(".askrelay/config.json");
    let trust = |more: &[&str]| {
        let mut command = place.relay();
        command.args(["config", "trust"]).args(more);
        run(&mut command)
    };
    let project = place.of_project("");
    let project = project.to_str().unwrap().trim_end_matches('/');
    // There is nothing in it.
    remove(&place.of_project(".askrelay/agents"));
    let (code, _, stderr) = trust(&["--yes", project]);
    assert_eq!(code, 2, "{stderr}");
    put(
        &config,
        "{\"permission\": {\"bash\": {\"a\\u001b[31m\": \"allow\"}}}",
    );
    // Nobody says that it is meant.
    let (code, stdout, stderr) = trust(&[project]);
    assert_eq!(code, 2, "{stderr}");
    assert!(stderr.contains("--yes"), "{stderr}");
    assert!(!stdout.contains('\u{1b}'), "{stdout}");
    assert_eq!(trust(&["--list"]).1, "no project is trusted\n");
    let (code, stdout, _) = trust(&["--yes", "--json", project]);
    assert_eq!(code, 0);
    let told: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(told["files"][0]["path"], ".askrelay/config.json");
    assert!(trust(&["--list"]).1.contains("as it was trusted"));
    overwrite(&config, "{");
    assert!(trust(&["--list"]).1.contains("config.json has changed"));
    let (code, _, stderr) = trust(&["--yes", project]);
    assert_eq!(code, 2);
    assert!(stderr.contains("cannot be trusted"), "{stderr}");
    let (code, stdout, _) = trust(&["--remove", project]);
    assert_eq!((code, stdout.contains("not trusted any more")), (0, true));
    assert!(trust(&["--remove", project]).1.contains("was not trusted"));
    let (code, _, _) = trust(&["--list", "--remove"]);
    assert_eq!(code, 2);
}

#[test]
fn what_a_project_takes_out_of_force_is_shown_before_it_is_trusted() {
    let place = Configured::new(
        r#"{"permission": {"*": "deny", "bash": {"rm *": "deny", "dd *": "deny"}, "read": {"*.key": "deny"}, "web": "deny"}}"#,
    );
    put(
        &place.agent("scout"),
        "---\npermission:\n  bash:\n    \"cook *\": deny\n---\n",
    );
    put(
        &place.of_project(".askrelay/config.json"),
        r#"{"permission": {"*": "ask", "bash": {"rm *": "ask", "ls": "allow"}, "read": "ask"}}"#,
    );
    put(
        &place.of_project(".askrelay/agents/scout.md"),
        "---\npermission:\n  bash: ask\n---\n",
    );
    let mut relay = place.relay();
    let project = place.of_project("");
    relay.args(["config", "trust", "--yes", project.to_str().unwrap()]);
    let (code, stdout, stderr) = run(&mut relay);
    assert_eq!(code, 0, "{stderr}");
    let (_, lost) = stdout
        .split_once("denies of yours that it takes out of force:\n")
        .unwrap();
    let lost: Vec<&str> = lost
        .lines()
        .take_while(|line| line.starts_with("  "))
        .collect();
    assert_eq!(
        lost,
        [
            "  bash: rm *",
            "  read: *.key",
            "  whatever no rule names",
            "  bash: dd *  (agent scout)",
            "  bash: cook *  (agent scout)",
        ]
    );
}

#[test]
fn a_tool_that_runs_commands_under_another_name_is_judged_as_a_command() {
    let place = Configured::new(
        r#"{
            "permission": {"bash": {"ls *": "allow", "rm *": "deny"}, "exec_command": "allow"},
            "shellTools": {"exec_command": {"commandArgument": "cmd", "workdirArgument": "workdir"}}
        }"#,
    );
    let mut server = place.select();
    let exec = |input: &str| {
        let ask = place
            .spool
            .ask("P")
            .args(["--tool", "exec_command", "--input", input]);
        let config = place.path();
        ask.args([std::ffi::OsStr::new("--config"), config.as_os_str()])
    };
    exec(r#"{"cmd": "ls -l"}"#).run().approved();
    exec(r#"{"cmd": "ls -l; rm x"}"#).run().denied();
    let child = exec(r#"{"cmd": "make", "workdir": "below"}"#)
        .id("r1")
        .start();
    let question = server.question();
    // As `workdir` names it, seen from where the child runs.
    let below = place.spool.work().join("below");
    let below = below.to_str().unwrap();
    for text in ["exec_command", "make", below] {
        assert!(question.text.contains(text), "{}", question.text);
    }
    let request = place.spool.await_request("P", "r1");
    assert_eq!(
        request["payload"]["request"]["invokedToolName"],
        "exec_command"
    );
    assert_eq!(request["payload"]["request"]["toolName"], "bash");
    server.choose(&question, "Yes");
    child.end().approved();
    let ended = exec(r#"{"command": "ls -l"}"#).run();
    assert_eq!(ended.code, 2);
    assert!(ended.stderr.contains("\"cmd\""), "{}", ended.stderr);
}

#[test]
fn a_broken_configuration_stops_no_ask_and_is_shown_in_the_status() {
    let place = Configured::new(MAKE_IS_ASKED);
    let _server = place.headless();
    let text = r#"{"permission": {"bash": {"make *": "alow"}}, "session": "P"}"#;
    place.write(text);
    place.await_failure("alow");
    // A child that reads the same file asks all the same, and the denies are in force.
    let (code, _, stderr) = run(place.relay().args(["ask", "--value", "rm x"]));
    assert_eq!(code, 1, "{stderr}");
    assert!(stderr.contains("the configuration is broken"), "{stderr}");
    let (code, stdout, _) = run(place.relay().arg("status"));
    assert_eq!(code, 0);
    for text in [
        "config   broken",
        "did you mean \"allow\"?",
        "the configuration of P",
    ] {
        assert!(stdout.contains(text), "{text}\n{stdout}");
    }
    // Where it cannot even be told which session is meant, nobody else is asked in its place.
    place.write("{");
    place.await_failure("config.json:1:2");
    let (code, _, stderr) = run(place.relay().args(["ask", "--value", "rm x"]));
    assert_eq!(code, 2, "{stderr}");
    // Nor whether answers must be sealed: then they must.
    let named = ["ask", "--session", "P", "--value", "rm x"];
    let (code, _, stderr) = run(place.relay().args(named));
    assert_eq!(code, 3, "{stderr}");
    let key = place.spool.heartbeat_path("P");
    let record = crate::support::spool::read_json(&key).unwrap();
    let key = record["relay"]["publicKey"].as_str().unwrap();
    let mut pinned = place.relay();
    let (code, _, stderr) = run(pinned.args(named).env("ASKRELAY_SERVING_KEY", key));
    assert_eq!(code, 1, "{stderr}");
}

#[test]
fn the_screen_says_that_a_file_is_broken_that_it_is_mended_and_why_a_question_went() {
    for mode in ["dialog", "inbox"] {
        let place = Configured::new(MAKE_IS_ASKED);
        let mut screen = place.serve().args(["--mode", mode]).on_screen(120, 30);
        let child = place.spool.ask("P").value("make one").id("r1").start();
        place.spool.await_event("permission_request.waiting", "r1");
        if mode == "inbox" {
            screen.await_question("Enter reviews");
            screen.press("\r");
        }
        screen.await_text("make one");
        place.write("{");
        screen.await_text("the configuration cannot be used");
        place.write(MAKE_IS_ALLOWED);
        screen.await_text("allow it");
        child.end().approved();
        screen.signal(rustix::process::Signal::TERM);
        assert_eq!(screen.exit_code(), 0);
    }
}

#[test]
fn a_failure_of_any_length_leaves_the_heartbeat_one_that_is_read() {
    let place = Configured::new(MAKE_IS_ASKED);
    for name in ["a", "b", "c", "d", "e"] {
        let name = name.repeat(200);
        put(
            &place.agent(&name),
            "---\npermission:\n  bash: \"\u{1}\"\n---\n",
        );
    }
    let server = place.headless();
    let failure = place.await_failure("is allowed nothing");
    assert!(failure.chars().count() < 1_010, "{failure}");
    assert!(server.running.stderr().contains("and 2 more"));
    place.ask("scout", "ls").approved();
}
