//! The doctor starts each agent itself, as its vendor ships it, on the model that askrelay carries: what it finds healthy, is.

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};

use crate::agents::words;
use crate::support::{TempSpool, hermetic};

/// An agent with a home of its own, by the name that people start it by.
struct Agent {
    spool: TempSpool,
    host: &'static str,
    path: OsString,
}

impl Agent {
    fn new(host: &'static str, program: &str) -> Self {
        let spool = TempSpool::new();
        let words: Vec<String> = words(host)
            .iter()
            .map(|word| format!("'{}'", word.display()))
            .collect();
        let script = format!("#!/bin/sh\nexec {} \"$@\"\n", words.join(" "));
        let script = spool.write(&format!("bin/{program}"), &script);
        std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
        let mut path = vec![script.parent().unwrap().to_owned()];
        path.extend(["/usr/bin".into(), "/bin".into()]);
        let path = std::env::join_paths(path).unwrap();
        Self { spool, host, path }
    }

    /// Whether askrelay succeeded with this, and what it wrote.
    fn askrelay(&self, arguments: &[&str]) -> (bool, String) {
        let mut run = hermetic(env!("CARGO_BIN_EXE_askrelay"), self.spool.home());
        run.args(arguments)
            .env("PATH", &self.path)
            .current_dir(self.spool.work());
        let ended = run.output().unwrap();
        (
            ended.status.success(),
            String::from_utf8(ended.stdout).unwrap(),
        )
    }

    #[track_caller]
    fn install(&self) {
        let trust = (self.host == "codex").then_some("--trust");
        let install: Vec<&str> = ["install", self.host, "--yes"]
            .into_iter()
            .chain(trust)
            .collect();
        let (done, said) = self.askrelay(&install);
        assert!(done, "{said}");
    }

    /// Whether the doctor finds it healthy, and the level of each check of the agent itself.
    fn doctor(&self) -> (bool, Vec<(String, String)>) {
        let (healthy, lines) = self.askrelay(&["doctor", self.host, "--live", "--json"]);
        let lines = lines.lines().map(|line| {
            let line: Value = serde_json::from_str(line).unwrap();
            let said = |key: &str| line[key].as_str().unwrap().to_owned();
            (said("check"), said("level"))
        });
        let live = lines.filter(|(check, _)| check.starts_with("live"));
        (healthy, live.collect())
    }
}

/// Installs askrelay into an agent with an empty home, and has the doctor start it.
#[track_caller]
fn is_healthy(host: &'static str, program: &str) {
    let agent = Agent::new(host, program);
    agent.install();
    let (healthy, live) = agent.doctor();
    assert!(healthy, "{live:?}");
    let all = ["live.allow", "live.deny", "live.unserved"];
    let all = all.map(|check| (check.to_owned(), "ok".to_owned()));
    assert_eq!(live, all);
}

#[test]
fn the_doctor_sees_that_claude_code_refuses_what_the_user_wrote() {
    let agent = Agent::new("claude-code", "claude");
    let settings = agent.spool.home().join(".claude/settings.json");
    std::fs::create_dir_all(settings.parent().unwrap()).unwrap();
    // It takes true, false or an object there, and no notice of the file otherwise.
    std::fs::write(&settings, "{\"attribution\": 5}").unwrap();
    agent.install();
    let (healthy, live) = agent.doctor();
    assert!(!healthy);
    assert!(live.iter().all(|(_, level)| level == "fail"), "{live:?}");
    // What else is the user's does not disturb the trial: neither rules nor a hook of somebody else.
    let config = json!({
        "permissions": {"deny": ["Bash"], "defaultMode": "plan"},
        "env": {"ANTHROPIC_BASE_URL": "http://127.0.0.1:1"},
        "apiKeyHelper": "/nowhere",
        "hooks": {"PreToolUse": [{"hooks": [{"type": "command", "command": "exit 2"}]}]},
    });
    std::fs::write(&settings, config.to_string()).unwrap();
    agent.install();
    let (healthy, live) = agent.doctor();
    assert!(healthy, "{live:?}");
}

#[test]
fn the_doctor_sees_that_codex_does_not_trust_the_hook() {
    let agent = Agent::new("codex", "codex");
    let (done, said) = agent.askrelay(&["install", "codex", "--yes"]);
    assert!(done, "{said}");
    let (healthy, live) = agent.doctor();
    assert!(!healthy);
    let levels: Vec<&str> = live.iter().map(|(_, level)| &**level).collect();
    assert_eq!(levels, ["ok", "fail", "fail"]);
}

#[test]
fn the_doctor_sees_claude_code_honour_its_hook() {
    is_healthy("claude-code", "claude");
}

#[test]
fn the_doctor_sees_codex_honour_its_hook() {
    is_healthy("codex", "codex");
}

#[test]
#[ignore = "run by tests/peers/run --all"]
fn the_doctor_sees_gemini_honour_its_hook() {
    is_healthy("gemini", "gemini");
}

#[test]
#[ignore = "run by tests/peers/run --all"]
fn the_doctor_sees_opencode_honour_its_hook() {
    is_healthy("opencode", "opencode");
}

#[test]
#[ignore = "run by tests/peers/run --all"]
fn the_doctor_sees_pi_honour_its_hook() {
    is_healthy("pi", "pi");
}
