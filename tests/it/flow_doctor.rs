//! Whether everything is in place, as `askrelay doctor` tells it: what is healthy, and that nothing that fails to gate passes for
//! it.
#![expect(
    clippy::disallowed_methods,
    reason = "tests play the agents, whose configurations and hooks are files"
)]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};

use crate::support::processes::run;
use crate::support::spool::{TestSpool, eventually, until};

/// A home directory in which an agent has hooks.
struct Home {
    spool: TestSpool,
}

impl Home {
    fn new() -> Self {
        Self {
            spool: TestSpool::new(),
        }
    }

    fn at(&self, relative: &str) -> PathBuf {
        self.spool.below("home").join(relative)
    }

    fn write(&self, relative: &str, text: &str) -> PathBuf {
        let path = self.at(relative);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    /// A program of this name that is this shell script.
    fn script(&self, relative: &str, script: &str) -> PathBuf {
        let path = self.write(relative, &format!("#!/bin/sh\n{script}\n"));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    fn relay(&self) -> Command {
        let mut relay = self.spool.relay();
        // Its home is no place for what is tried.
        relay.env("TMPDIR", self.spool.below("tmp"));
        relay
    }

    #[track_caller]
    fn install(&self, host: &str, program: &PathBuf) {
        let mut install = self.relay();
        install.args(["install", host, "--yes", "--program"]);
        let (code, _, stderr) = run(install.arg(program));
        assert_eq!(code, 0, "{stderr}");
    }

    /// What the doctor says: whether it is healthy, and its lines.
    #[track_caller]
    fn doctor(&self, arguments: &[&str]) -> (bool, Vec<Value>) {
        let mut doctor = self.relay();
        let (code, stdout, stderr) = run(doctor.args(["doctor", "--json"]).args(arguments));
        assert!(matches!(code, 0 | 1), "{code} {stdout}{stderr}");
        let lines = stdout
            .lines()
            .map(|line| serde_json::from_str(line).unwrap());
        (code == 0, lines.collect())
    }
}

/// The lines of one check, as `level: what`.
fn of(lines: &[Value], check: &str) -> Vec<String> {
    let of = lines.iter().filter(|line| line["check"] == check);
    of.map(|line| {
        let failed = line["level"] != "ok";
        assert_eq!(line["hint"].is_string(), failed, "what to do about {line}");
        format!(
            "{}: {}",
            line["level"].as_str().unwrap(),
            line["what"].as_str().unwrap()
        )
    })
    .collect()
}

#[track_caller]
fn one(lines: &[Value], check: &str) -> String {
    let mut found = of(lines, check);
    assert_eq!(found.len(), 1, "{check}: {lines:#?}");
    found.remove(0)
}

#[test]
fn a_machine_without_agents_is_healthy_and_what_is_missing_is_said_with_what_to_do() {
    let home = Home::new();
    let (healthy, lines) = home.doctor(&[]);
    assert!(healthy, "{lines:#?}");
    assert!(one(&lines, "spool").starts_with("warn: there is no spool at "));
    let mut hosts = of(&lines, "host");
    hosts.sort();
    assert_eq!(
        hosts,
        [
            "ok: Claude Code is not here",
            "ok: Codex is not here",
            "ok: Gemini CLI is not here",
            "ok: opencode is not here",
            "ok: pi is not here"
        ]
    );
    // It has changed nothing.
    assert!(!home.spool.root().exists());
}

#[test]
fn who_serves_and_what_stands_in_the_way_is_said() {
    let home = Home::new();
    let mut served = home.spool.serve_headless("main", &json!({"*": "deny"}));
    let (healthy, lines) = home.doctor(&[]);
    assert!(healthy, "{lines:#?}");
    assert!(
        one(&lines, "served").contains("session main is served by pid "),
        "{lines:#?}"
    );
    assert!(
        one(&lines, "served").contains(" and seals with ed25519:"),
        "{lines:#?}"
    );
    assert_eq!(served.stop(), 0);
    let (_, lines) = home.doctor(&[]);
    assert_eq!(one(&lines, "served"), "warn: nobody serves session main");
    fs::set_permissions(home.spool.root(), fs::Permissions::from_mode(0o777)).unwrap();
    let (healthy, lines) = home.doctor(&[]);
    assert!(!healthy);
    assert!(
        one(&lines, "spool").contains("is writable by others"),
        "{lines:#?}"
    );
    let config = home.spool.below("config/askrelay/config.json");
    fs::create_dir_all(config.parent().unwrap()).unwrap();
    fs::write(&config, "{").unwrap();
    let (healthy, lines) = home.doctor(&[]);
    assert!(!healthy);
    assert!(
        one(&lines, "config").starts_with("fail: the configuration is broken: "),
        "{lines:#?}"
    );
}

#[test]
fn a_hook_that_gates_nothing_is_found_out() {
    // What each of them does, and what the doctor says of it under a rule that denies.
    for (script, wanted) in [
        ("cat > /dev/null", "nothing said, which lets it go on"),
        ("exit 1", "failed, for it ended with code 1"),
        ("kill -9 $$", "failed, for it was ended by a signal"),
        (
            "echo fine",
            "failed, for it wrote something that is no JSON",
        ),
        (
            "echo '{\"hookSpecificOutput\": {\"permissionDecision\": \"allow\", \"decision\": {\"behavior\": \"allow\"}}}'",
            "allowed",
        ),
        (
            "echo '{\"hookSpecificOutput\": {\"permissionDecision\": \"ask\"}}'",
            "left to the person at the host",
        ),
    ] {
        let home = Home::new();
        let program = home.script("bin/askrelay", script);
        home.install("claude-code", &program);
        let (healthy, lines) = home.doctor(&["claude-code"]);
        assert!(!healthy);
        let denied = of(&lines, "hook.deny");
        assert_eq!(
            denied[0],
            format!("fail: PreToolUse under a rule that denies: {wanted}")
        );
        for check in ["hook.deny", "hook.unserved"] {
            assert!(
                of(&lines, check)
                    .iter()
                    .all(|line| line.starts_with("fail: ")),
                "{lines:#?}"
            );
        }
    }
}

#[test]
fn a_program_that_is_not_there_denies_where_a_shell_starts_it_and_is_a_failure_all_the_same() {
    for host in ["codex", "gemini"] {
        let home = Home::new();
        let program = home.script("bin/askrelay", "exit 0");
        home.install(host, &program);
        fs::remove_file(&program).unwrap();
        let (healthy, lines) = home.doctor(&[host]);
        assert!(!healthy);
        let unserved = of(&lines, "hook.unserved");
        assert!(unserved[0].contains("denied: "), "{unserved:?}");
        assert!(unserved[0].starts_with("ok: "), "{unserved:?}");
        assert!(
            of(&lines, "hook.program")[0].contains("which is not there"),
            "{lines:#?}"
        );
        assert!(
            of(&lines, "hook.allow")[0].starts_with("fail: "),
            "{lines:#?}"
        );
    }
}

#[test]
fn an_agent_without_our_hook_is_a_failure() {
    let home = Home::new();
    home.write(".claude/settings.json", "{\"hooks\": {}}\n");
    let (healthy, lines) = home.doctor(&["claude-code"]);
    assert!(!healthy);
    assert!(
        one(&lines, "hook.present").starts_with("fail: no hook of askrelay stands in "),
        "{lines:#?}"
    );
    home.write(".claude/settings.json", "{\"hooks\": // mine\n {}}\n");
    let (_, lines) = home.doctor(&["claude-code"]);
    assert!(
        one(&lines, "host.file").contains("settings.json:1:11: a comment stands here"),
        "{lines:#?}"
    );
}

#[test]
fn what_keeps_a_hook_from_running_is_a_failure_with_its_file() {
    let home = Home::new();
    let program = home.script("bin/askrelay", "exit 2");
    home.install("codex", &program);
    let (_, lines) = home.doctor(&["codex"]);
    let trust = of(&lines, "hook.trust");
    assert_eq!(trust.len(), 2, "{lines:#?}");
    assert!(
        trust[0].starts_with("fail: Codex does not trust ")
            && trust[0].ends_with(":pre_tool_use:0:0, and does not run it")
    );
    home.write(".codex/config.toml", "[features]\nhooks = false\n");
    let (_, lines) = home.doctor(&["codex"]);
    assert!(one(&lines, "hook.switch").contains("config.toml says [features] hooks = false"));
    // Trusted, and then changed: what is trusted is the definition.
    let mut trusting = home.relay();
    trusting.args(["install", "codex", "--yes", "--trust", "--program"]);
    assert_eq!(run(trusting.arg(&program)).0, 0);
    let (_, lines) = home.doctor(&["codex"]);
    assert!(
        of(&lines, "hook.trust")
            .iter()
            .all(|line| line.starts_with("ok: ")),
        "{lines:#?}"
    );
    let hooks = home.at(".codex/hooks.json");
    let text = fs::read_to_string(&hooks).unwrap();
    fs::write(&hooks, text.replace("86400,", "300,")).unwrap();
    let (_, lines) = home.doctor(&["codex"]);
    assert!(
        of(&lines, "hook.trust")[0].contains("Codex trusts another hook at "),
        "{lines:#?}"
    );
    assert!(
        of(&lines, "hook.holds")[0].contains("what comes later lets the tool run"),
        "{lines:#?}"
    );
}

#[test]
fn a_version_that_cannot_block_and_a_second_one_on_the_path_are_named() {
    let home = Home::new();
    let program = home.script("bin/askrelay", "exit 2");
    home.install("claude-code", &program);
    home.script("old/claude", "echo '2.1.197 (Claude Code)'");
    home.script(
        "new/claude",
        "echo '2.1.332 (Claude Code)'; exit 0; # another file",
    );
    let path = [
        home.at("new"),
        home.at("old"),
        "/usr/bin".into(),
        "/bin".into(),
    ];
    let path = std::env::join_paths(path).unwrap();
    let mut doctor = home.relay();
    let (code, stdout, _) = run(doctor.args(["doctor", "claude-code"]).env("PATH", path));
    assert_eq!(code, 1);
    assert!(
        stdout.contains("/new/claude (2.1.332 (Claude Code))"),
        "{stdout}"
    );
    assert!(
        stdout.contains("/old/claude (2.1.197 (Claude Code)) lets a tool run where its hook fails"),
        "{stdout}"
    );
}

#[test]
fn chain_3_a_link_that_is_not_there_is_listed_with_those_that_are() {
    let home = Home::new();
    let config = home.spool.below("config/askrelay/config.json");
    fs::create_dir_all(config.parent().unwrap()).unwrap();
    let chain = json!({"authorizerChain": ["judge", "gone"], "authorizers": {"judge": {"command": ["/bin/true"]}}});
    fs::write(&config, chain.to_string()).unwrap();
    let (_, lines) = home.doctor(&[]);
    assert_eq!(
        of(&lines, "chain"),
        [
            "ok: the authorizer judge has a program",
            "warn: the authorizer gone is skipped: there is no program for it",
        ]
    );
}

#[test]
fn a_plugin_of_ours_is_looked_at_and_its_program_is_tried() {
    for (host, file) in [
        ("opencode", "config/opencode/plugins/askrelay.js"),
        ("pi", "home/.pi/agent/extensions/askrelay.ts"),
    ] {
        let home = Home::new();
        let (healthy, lines) = home.doctor(&[host]);
        assert!(!healthy);
        assert!(one(&lines, "hook.present").starts_with("fail: no hook of askrelay stands in "));
        let program = home.script("bin/askrelay", "echo '{\"decision\": \"allow\"}'");
        home.install(host, &program);
        let (healthy, lines) = home.doctor(&[host]);
        assert!(!healthy, "{lines:#?}");
        assert!(
            one(&lines, "hook.present").ends_with("is as it would be put there now"),
            "{lines:#?}"
        );
        assert!(one(&lines, "hook.allow").starts_with("ok: "), "{lines:#?}");
        assert!(one(&lines, "hook.deny").starts_with("fail: "), "{lines:#?}");
        let file = home.spool.below(file);
        let text = fs::read_to_string(&file).unwrap();
        fs::write(&file, format!("{text}// edited\n")).unwrap();
        let (_, lines) = home.doctor(&[host]);
        assert!(
            one(&lines, "hook.present").starts_with("fail: "),
            "{lines:#?}"
        );
    }
}

#[test]
fn the_hook_of_each_agent_is_healthy_as_it_is_installed() {
    for host in ["claude-code", "codex", "gemini"] {
        let home = Home::new();
        let program = PathBuf::from(env!("CARGO_BIN_EXE_askrelay"));
        let mut install = home.relay();
        install.args(["install", host, "--yes"]);
        if host == "codex" {
            install.arg("--trust");
        }
        let (code, _, stderr) = run(install.arg("--program").arg(&program));
        assert_eq!(code, 0, "{stderr}");
        let (healthy, lines) = home.doctor(&[host]);
        assert!(healthy, "{lines:#?}");
        for check in ["hook.allow", "hook.deny", "hook.unserved"] {
            let tried = of(&lines, check);
            let gates = if host == "gemini" { 1 } else { 2 };
            assert_eq!(tried.len(), gates, "{lines:#?}");
        }
        // The user's spool and log are not touched by what is tried.
        assert!(!home.spool.root().exists());
    }
}

#[test]
fn what_a_repository_says_is_not_run_though_it_calls_itself_ours() {
    let ran = |home: &Home| home.at("ran").exists();
    let touch = |home: &Home| format!("touch '{}'", home.at("ran").display());
    // A line with more behind it.
    for (host, file, event) in [
        ("codex", ".codex/hooks.json", "PreToolUse"),
        ("gemini", ".gemini/settings.json", "BeforeTool"),
        ("claude-code", ".claude/settings.json", "PreToolUse"),
    ] {
        let home = Home::new();
        home.write("here", "");
        for line in [
            format!("/nonexistent/askrelay hook {host} || {}", touch(&home)),
            format!("\"/nonexistent/askrelay\" hook {host}; {}", touch(&home)),
        ] {
            let hook = json!({"type": "command", "command": line});
            let hooks = json!({"hooks": {event: [{"matcher": "*", "hooks": [hook]}]}});
            home.spool
                .put(&home.spool.work().join(file), hooks.to_string());
            let (healthy, lines) = home.doctor(&[host]);
            assert!(!healthy, "{lines:#?}");
            assert!(!ran(&home), "{line}");
            assert!(
                of(&lines, "hook.present")[0]
                    .contains("is no hook of ours, though it names askrelay"),
                "{lines:#?}"
            );
        }
    }
    // A program of its own, by any name, also where somebody takes the project for theirs.
    for name in ["askrelay", "askrelay-x"] {
        let home = Home::new();
        home.write("here", "");
        let program = home.spool.work().join(name);
        home.spool
            .put(&program, format!("#!/bin/sh\n{}\n", touch(&home)));
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let hook = json!({"type": "command", "command": program, "args": ["hook", "claude-code"]});
        let hooks = json!({"hooks": {"PreToolUse": [{"matcher": "*", "hooks": [hook]}]}});
        home.spool.put(
            &home.spool.work().join(".claude/settings.json"),
            hooks.to_string(),
        );
        let work = home.spool.work();
        for more in [&[][..], &["--project", work.to_str().unwrap()]] {
            let (healthy, lines) = home.doctor(&[&["claude-code"], more].concat());
            assert!(!healthy, "{lines:#?}");
            assert!(!ran(&home), "{name}");
        }
    }
}

#[test]
fn a_hook_of_a_project_is_tried_only_where_somebody_names_the_project() {
    let home = Home::new();
    let work = home.spool.work();
    let work = work.to_str().unwrap();
    let mut install = home.relay();
    install.args(["install", "claude-code", "--yes", "--project", work]);
    assert_eq!(run(&mut install).0, 0);
    let (healthy, lines) = home.doctor(&["claude-code"]);
    assert!(!healthy);
    assert!(
        of(&lines, "hook.program")[0]
            .ends_with("is not tried, for it stands in a file of the project"),
        "{lines:#?}"
    );
    assert!(of(&lines, "hook.allow").is_empty());
    let (healthy, lines) = home.doctor(&["claude-code", "--project", work]);
    assert!(healthy, "{lines:#?}");
    assert_eq!(of(&lines, "hook.allow").len(), 2);
}

#[test]
fn a_program_that_others_may_put_there_is_not_run() {
    let home = Home::new();
    let mark = home.write("mark", "");
    let program = home.script("open/askrelay", &format!("rm '{}'", mark.display()));
    fs::set_permissions(program.parent().unwrap(), fs::Permissions::from_mode(0o777)).unwrap();
    home.install("gemini", &program);
    let (healthy, lines) = home.doctor(&["gemini"]);
    assert!(!healthy);
    assert!(mark.exists());
    let said = of(&lines, "hook.program");
    assert!(
        said.iter().any(|said| said.starts_with("fail: ")
            && said.contains("is not tried, for others may write ")),
        "{lines:#?}"
    );
}

#[test]
fn what_stands_beside_the_command_and_keeps_it_from_gating_is_a_failure() {
    for (host, was, now) in [
        ("claude-code", "\"onFailure\": \"block\"", "\"async\": true"),
        ("claude-code", "\"onFailure\": \"block\",", ""),
        ("claude-code", "\"matcher\": \"*\"", "\"matcher\": \"Bash\""),
        ("codex", "\"timeout\": 86400", "\"timeout\": 5"),
        ("gemini", "\"matcher\": \"*\"", "\"matcher\": \"read_file\""),
    ] {
        let home = Home::new();
        let program = PathBuf::from(env!("CARGO_BIN_EXE_askrelay"));
        home.install(host, &program);
        let file = home.at(match host {
            "claude-code" => ".claude/settings.json",
            "codex" => ".codex/hooks.json",
            _ => ".gemini/settings.json",
        });
        let text = fs::read_to_string(&file).unwrap();
        assert!(text.contains(was), "{text}");
        fs::write(&file, text.replacen(was, now, 1)).unwrap();
        let (healthy, lines) = home.doctor(&[host]);
        assert!(!healthy);
        assert!(
            of(&lines, "hook.holds")[0].starts_with("fail: "),
            "{lines:#?}"
        );
    }
}

#[test]
fn a_value_of_somebody_else_for_which_the_agent_skips_the_file_is_a_failure() {
    for (host, file, text) in [
        (
            "codex",
            ".codex/hooks.json",
            "{\"hooks\":{\"Stop\":{\"a\":1}}}",
        ),
        (
            "claude-code",
            ".claude/settings.json",
            "{\"permissions\":{\"allow\":\"Bash\"}}",
        ),
    ] {
        let home = Home::new();
        home.write(file, text);
        let mut install = home.relay();
        assert_eq!(run(install.args(["install", host, "--yes"])).0, 2);
        let (healthy, lines) = home.doctor(&[host]);
        assert!(!healthy);
        assert!(
            of(&lines, "host.file")[0].contains(" takes no notice of "),
            "{lines:#?}"
        );
    }
}

#[test]
fn a_switch_of_a_trusted_project_and_the_older_name_of_one_are_seen() {
    let home = Home::new();
    let program = PathBuf::from(env!("CARGO_BIN_EXE_askrelay"));
    home.install("codex", &program);
    let config = home.write(".codex/config.toml", "features.codex_hooks = false\n");
    let (_, lines) = home.doctor(&["codex"]);
    assert!(one(&lines, "hook.switch").contains("codex_hooks = false"));
    let work = home.spool.work();
    home.spool.put(
        &work.join(".codex/config.toml"),
        "[features]\nhooks = false\n",
    );
    fs::write(&config, "").unwrap();
    let (_, lines) = home.doctor(&["codex"]);
    assert!(of(&lines, "hook.switch").is_empty(), "it is not read there");
    let trusted = format!(
        "[projects.{:?}]\ntrust_level = \"trusted\"\n",
        work.to_str().unwrap()
    );
    fs::write(&config, trusted).unwrap();
    let (_, lines) = home.doctor(&["codex"]);
    assert!(
        one(&lines, "hook.switch").contains("/.codex/config.toml says [features] hooks = false")
    );
}

#[test]
fn who_stops_the_doctor_finds_nothing_left_of_it() {
    let home = Home::new();
    let pid = home.at("pid");
    let script = format!(
        "echo $$ > '{}.new'; mv '{0}.new' '{0}'; exec sleep 600",
        pid.display()
    );
    home.write("here", "");
    let program = home.script("bin/askrelay", &script);
    home.install("gemini", &program);
    fs::create_dir_all(home.spool.below("tmp")).unwrap();
    let mut doctor = home.relay();
    doctor
        .args(["doctor", "gemini"])
        .stdout(std::process::Stdio::null());
    let mut doctor = doctor.spawn().unwrap();
    let hook = eventually("the hook runs", || fs::read_to_string(&pid).ok());
    let told = Command::new("kill")
        .args(["-INT", &doctor.id().to_string()])
        .status();
    assert!(told.unwrap().success());
    assert_eq!(doctor.wait().unwrap().code(), Some(130));
    until("the hook has ended", || {
        let stat = fs::read_to_string(format!("/proc/{}/stat", hook.trim()));
        stat.map_or(true, |stat| stat.contains(") Z "))
    });
    let left = fs::read_dir(home.spool.below("tmp")).unwrap().count();
    assert_eq!(left, 0);
}

#[test]
fn the_version_of_an_agent_is_asked_for_in_a_home_of_its_own() {
    let home = Home::new();
    home.script(
        "agents/codex",
        "touch \"$HOME/written\"; echo 'codex-cli 0.171.0'",
    );
    let mut doctor = home.relay();
    let path = std::env::join_paths([home.at("agents"), "/usr/bin".into(), "/bin".into()]).unwrap();
    let (_, stdout, _) = run(doctor.args(["doctor", "codex"]).env("PATH", path));
    assert!(stdout.contains("(codex-cli 0.171.0)"), "{stdout}");
    assert!(!home.at("written").exists());
}

#[test]
fn a_relative_home_of_codex_and_a_program_by_its_bare_name_are_right() {
    let home = Home::new();
    let program = PathBuf::from(env!("CARGO_BIN_EXE_askrelay"));
    home.write("here", "");
    let mut install = home.relay();
    install.args(["install", "codex", "--yes", "--trust", "--program"]);
    assert_eq!(run(install.arg(&program).env("CODEX_HOME", "a b")).0, 0);
    let mut doctor = home.relay();
    let (code, stdout, _) = run(doctor.args(["doctor", "codex"]).env("CODEX_HOME", "a b"));
    assert_eq!(code, 0, "{stdout}");
    let home = Home::new();
    home.install("claude-code", &program);
    let file = home.at(".claude/settings.json");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replace(program.to_str().unwrap(), "askrelay")).unwrap();
    let path = [
        program.parent().unwrap().to_owned(),
        "/usr/bin".into(),
        "/bin".into(),
    ];
    let path = std::env::join_paths(path).unwrap();
    let mut doctor = home.relay();
    let (code, stdout, _) = run(doctor.args(["doctor", "claude-code"]).env("PATH", path));
    assert_eq!(code, 0, "{stdout}");
}

/// The program of the tests, installed into an agent.
#[track_caller]
fn installed(host: &str, trust: bool) -> Home {
    let home = Home::new();
    home.write("here", "");
    let mut install = home.relay();
    install.args(["install", host, "--yes"]);
    if trust {
        install.arg("--trust");
    }
    let (code, _, stderr) = run(&mut install);
    assert_eq!(code, 0, "{stderr}");
    home
}

#[test]
fn a_directory_of_the_user_that_others_may_write_is_a_failure_with_what_to_type() {
    for (host, directory) in [
        ("claude-code", ".claude"),
        ("codex", ".codex"),
        ("gemini", ".gemini"),
    ] {
        let home = installed(host, host == "codex");
        let directory = home.at(directory);
        fs::set_permissions(&directory, fs::Permissions::from_mode(0o777)).unwrap();
        let (healthy, lines) = home.doctor(&[host]);
        assert!(!healthy);
        let said = of(&lines, "host.file");
        assert!(
            said.iter().any(|said| said.starts_with("fail: ")
                && said.contains(" can be replaced by others, for ")),
            "{lines:#?}"
        );
        let hints = lines.iter().filter_map(|line| line["hint"].as_str());
        let chmod = format!("run `chmod go-w {}`", directory.display());
        assert!(
            hints.into_iter().any(|hint| hint.starts_with(&chmod)),
            "{lines:#?}"
        );
    }
}

#[test]
fn what_the_root_of_a_work_tree_switches_off_is_seen_below_it() {
    let home = installed("claude-code", false);
    let root = home.spool.below("tree");
    let below = root.join("a/b");
    fs::create_dir_all(root.join(".git")).unwrap();
    fs::create_dir_all(&below).unwrap();
    let off = "{\"disableAllHooks\": true}";
    let doctor = |file: &str| {
        home.spool.put(&root.join(file), off);
        let (_, lines) = home.doctor(&["claude-code", "--project", below.to_str().unwrap()]);
        fs::remove_file(root.join(file)).unwrap();
        of(&lines, "hook.switch")
    };
    // Of the root, Claude Code reads this one alone.
    assert_eq!(doctor(".claude/settings.local.json").len(), 1);
    assert_eq!(doctor(".claude/settings.json").len(), 0);
    assert_eq!(doctor("a/b/.claude/settings.json").len(), 1);
}

#[test]
fn hooks_of_codex_at_the_root_of_a_trusted_work_tree_are_found_below_it() {
    let home = Home::new();
    home.write("here", "");
    let root = home.spool.below("tree");
    let below = root.join("a");
    fs::create_dir_all(root.join(".git")).unwrap();
    fs::create_dir_all(&below).unwrap();
    let root = root.canonicalize().unwrap();
    let mut install = home.relay();
    install.args(["install", "codex", "--yes", "--trust", "--project"]);
    assert_eq!(run(install.arg(&root)).0, 0);
    let config = home.at(".codex/config.toml");
    let trust = |of: &std::path::Path| {
        let text = fs::read_to_string(&config).unwrap();
        let text = text.split("[projects").next().unwrap();
        let trusted = format!(
            "{text}[projects.{:?}]\ntrust_level = \"trusted\"\n",
            of.to_str().unwrap()
        );
        fs::write(&config, trusted).unwrap();
    };
    trust(&root);
    let (healthy, lines) = home.doctor(&["codex", "--project", below.to_str().unwrap()]);
    assert!(healthy, "{lines:#?}");
    // The directory below does not trust for the one above.
    trust(&below);
    let (healthy, lines) = home.doctor(&["codex", "--project", below.to_str().unwrap()]);
    assert!(!healthy);
    assert!(
        of(&lines, "hook.trust")[0].contains("and reads no hook there"),
        "{lines:#?}"
    );
}

#[test]
fn a_project_that_its_agent_does_not_trust_is_told_of() {
    let home = Home::new();
    home.write("here", "");
    let work = home.spool.work();
    let work = work.to_str().unwrap();
    for host in ["gemini", "claude-code"] {
        let mut install = home.relay();
        let args = ["install", host, "--yes", "--project", work];
        assert_eq!(run(install.args(args)).0, 0);
    }
    let (healthy, lines) = home.doctor(&["gemini", "--project", work]);
    assert!(!healthy);
    assert!(
        one(&lines, "hook.trust").starts_with("fail: Gemini CLI does not trust "),
        "{lines:#?}"
    );
    let real = home.spool.work().canonicalize().unwrap();
    let rules = json!({real.to_str().unwrap(): "TRUST_FOLDER"});
    home.write(".gemini/trustedFolders.json", &rules.to_string());
    let (healthy, lines) = home.doctor(&["gemini", "--project", work]);
    assert!(healthy, "{lines:#?}");
    let (healthy, lines) = home.doctor(&["claude-code", "--project", work]);
    assert!(healthy, "{lines:#?}");
    assert!(
        one(&lines, "hook.trust").starts_with("warn: nobody has told Claude Code "),
        "{lines:#?}"
    );
    let state = json!({"projects": {real.to_str().unwrap(): {"hasTrustDialogAccepted": true}}});
    home.write(".claude.json", &state.to_string());
    let (_, lines) = home.doctor(&["claude-code", "--project", work]);
    assert!(of(&lines, "hook.trust").is_empty(), "{lines:#?}");
}

#[test]
fn a_key_that_stands_twice_and_a_word_in_doubt_are_told_as_what_they_are() {
    let home = installed("claude-code", false);
    let file = home.at(".claude/settings.json");
    let text = fs::read_to_string(&file).unwrap();
    let with = |more: &str| fs::write(&file, text.replacen('{', &format!("{{{more}"), 1)).unwrap();
    with("\"model\": \"a\", \"model\": \"b\",");
    let (healthy, lines) = home.doctor(&["claude-code"]);
    assert!(!healthy);
    assert!(
        one(&lines, "host.file").ends_with("so it is not known what Claude Code takes of it"),
        "{lines:#?}"
    );
    with("\"tui\": \"zzz\",");
    let (_, lines) = home.doctor(&["claude-code"]);
    assert!(
        of(&lines, "host.file")[0].contains("\"tui\" is \"zzz\", and not one of "),
        "{lines:#?}"
    );
}

#[test]
fn an_agent_that_does_not_say_its_version_is_not_taken_for_a_new_one() {
    let home = installed("claude-code", false);
    for (script, level) in [
        ("echo 'Claude Code'", "warn"),
        ("exit 1", "warn"),
        ("echo '2.1.295 (Claude Code)'", "ok"),
        ("echo '2.1.294 (Claude Code)'", "fail"),
    ] {
        home.script("agents/claude", script);
        let path = [home.at("agents"), "/usr/bin".into(), "/bin".into()];
        let mut doctor = home.relay();
        doctor.args(["doctor", "claude-code", "--json"]);
        let path = std::env::join_paths(path).unwrap();
        let (_, stdout, _) = run(doctor.env("PATH", path));
        let lines: Vec<Value> = stdout
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let check = if level == "ok" {
            "host.program"
        } else {
            "host.version"
        };
        assert!(one(&lines, check).starts_with(level), "{script} {lines:#?}");
    }
}

#[test]
fn a_timeout_in_one_word_is_held_to_what_the_host_waits() {
    let home = installed("claude-code", false);
    let file = home.at(".claude/settings.json");
    let text = fs::read_to_string(&file).unwrap();
    let now = text
        .replace("\"--host-timeout\", \"86400\"", "\"--host-timeout=86400\"")
        .replacen("\"timeout\": 86400", "\"timeout\": 5", 1);
    fs::write(&file, now).unwrap();
    let (healthy, lines) = home.doctor(&["claude-code"]);
    assert!(!healthy);
    assert!(
        of(&lines, "hook.holds")[0].contains("what comes later lets the tool run"),
        "{lines:#?}"
    );
}

#[test]
fn without_an_agent_a_hook_that_cannot_run_is_no_hook_that_is_there() {
    let home = installed("claude-code", false);
    let file = home.at(".claude/settings.json");
    let text = fs::read_to_string(&file).unwrap();
    for (more, wanted) in [
        (
            "\"disableAllHooks\": true,",
            "fail: Claude Code: the hook is there and does not run: ",
        ),
        ("\"model\": null,", "warn: Claude Code ignores "),
    ] {
        fs::write(&file, text.replacen('{', &format!("{{{more}"), 1)).unwrap();
        let (_, lines) = home.doctor(&[]);
        let said = of(&lines, "host");
        assert!(said[0].starts_with(wanted), "{said:?}");
    }
}

#[test]
fn the_last_line_says_whether_askrelay_is_in_charge() {
    let home = installed("gemini", false);
    let mut doctor = home.relay();
    let (code, stdout, _) = run(doctor.args(["doctor", "gemini"]));
    assert_eq!(code, 0, "{stdout}");
    let last = stdout.lines().next_back().unwrap();
    assert!(
        last.contains(": askrelay is in charge of Gemini CLI; `askrelay doctor gemini --live` "),
        "{last}"
    );
    fs::write(home.at(".gemini/settings.json"), "{}").unwrap();
    let mut doctor = home.relay();
    let (code, stdout, _) = run(doctor.args(["doctor", "gemini"]));
    assert_eq!(code, 1);
    let last = stdout.lines().next_back().unwrap();
    assert!(
        last.ends_with(": do not rely on askrelay being in charge of Gemini CLI"),
        "{last}"
    );
}
