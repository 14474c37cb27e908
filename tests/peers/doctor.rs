//! The doctor starts each agent itself, as its vendor ships it, on the model that askrelay carries: what it finds healthy, is.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::Value;

use crate::agents::words;
use crate::support::{TempSpool, hermetic};

/// Installs askrelay into an agent with an empty home, and has the doctor start it.
#[track_caller]
fn is_healthy(host: &'static str, program: &str) {
    let spool = TempSpool::new();
    // The agent by the name that people start it by.
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
    let askrelay = |arguments: &[&str]| {
        let mut run = hermetic(env!("CARGO_BIN_EXE_askrelay"), spool.home());
        run.args(arguments)
            .env("PATH", &path)
            .current_dir(spool.work());
        let ended = run.output().unwrap();
        let stderr = String::from_utf8_lossy(&ended.stderr).into_owned();
        let stdout = String::from_utf8(ended.stdout).unwrap();
        assert!(ended.status.success(), "{stdout}{stderr}");
        stdout
    };
    let trust = (host == "codex").then_some("--trust");
    let install: Vec<&str> = ["install", host, "--yes"]
        .into_iter()
        .chain(trust)
        .collect();
    askrelay(&install);
    let lines = askrelay(&["doctor", host, "--live", "--json"]);
    let lines: Vec<Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    for check in ["live.allow", "live.deny", "live.unserved"] {
        let mut found = lines.iter().filter(|line| line["check"] == check);
        let level = found.next().map(|line| line["level"].clone());
        assert_eq!(level, Some("ok".into()), "{check}: {lines:#?}");
    }
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
