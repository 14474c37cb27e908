//! Claude Code with `askrelay mcp` as its permission prompt, and no hook.

use serde_json::{Value, json};

use crate::agents::Agent;
use crate::matrix::{Scene, Way, ask, rules};
use crate::support::{Choice, Process};

/// Lets Claude Code do its work while something else happens.
fn run(scene: &Scene, meanwhile: impl FnOnce()) {
    let (spool, program) = (&scene.spool, env!("CARGO_BIN_EXE_askrelay"));
    let server =
        json!({"command": program, "args": ["mcp", "--session", "main", "--spool", spool.root()]});
    let config = spool.write_json("mcp.json", &json!({"mcpServers": {"askrelay": server}}));
    let mut command = Agent::ClaudeCode.headless(spool, &scene.model);
    command
        .args(["--permission-prompt-tool", "mcp__askrelay__approve"])
        .arg("--mcp-config")
        .arg(config);
    let mut process = Process::start_unattended("Claude Code", command);
    meanwhile();
    while process.next_line().is_some() {}
    assert!(process.wait().success());
}

fn scene() -> Scene {
    Scene::of_one_call(Way::ClaudeHeadless)
}

#[test]
fn what_a_rule_allows_runs() {
    let scene = scene();
    let _server = scene.serve("headless", &rules(&"allow".into()));
    run(&scene, || {});
    assert!(scene.has("ran"), "{:?}", scene.model.was_told());
}

#[test]
fn what_a_rule_denies_does_not_run_and_the_model_reads_why() {
    let scene = scene();
    let deny = json!({"action": "deny", "reason": "write to the build directory"});
    let _server = scene.serve("headless", &rules(&deny));
    run(&scene, || {});
    let told = scene.model.was_told();
    assert!(
        !scene.has("ran") && told[0].contains("write to the build directory"),
        "{told:?}"
    );
}

#[test]
fn a_person_is_asked_in_the_name_of_its_session_and_what_they_approve_runs() {
    let scene = scene();
    let mut server = scene.serve("select", &ask());
    run(&scene, || {
        let request: Value = scene.question(&mut server);
        assert_eq!(request["requesterAgentName"], "claude-code", "{request}");
        assert_eq!(request["value"], "touch ran", "{request}");
        server.choose(Choice::Approve);
    });
    assert!(scene.has("ran"), "{:?}", scene.model.was_told());
}

#[test]
fn where_nobody_serves_nothing_runs() {
    let scene = scene();
    run(&scene, || {});
    let told = scene.model.was_told();
    assert!(
        !scene.has("ran") && told[0].contains("nobody serves session"),
        "{told:?}"
    );
}
