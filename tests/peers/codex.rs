//! Codex with the hook.

use serde_json::json;

use crate::agents::{Agent, words};
use crate::matrix::{Scene, Way, ask};
use crate::model::{Move, Turn};
use crate::support::Choice;

mod exec {
    crate::matrix::held_to_all!(crate::matrix::Way::CodexExec);
}

mod attended {
    crate::matrix::held_to_all!(crate::matrix::Way::CodexAttended);
}

/// What the subagent is told to do, and nobody else.
const TASK: &str = "leave a file behind";

fn with_a_subagent(turn: &Turn) -> Vec<Move> {
    if turn.prompt.contains(TASK) {
        return turn.after([vec![Agent::Codex.shell("touch ran")]]);
    }
    // The answer to its start says how the subagent is called.
    let started: serde_json::Value = serde_json::from_str(turn.last()).unwrap_or_default();
    let wait = json!({ "targets": [started["agent_id"]], "timeout_ms": 60_000 });
    turn.after([
        vec![Move::Call("spawn_agent", json!({ "message": TASK }))],
        vec![Move::Call("wait_agent", wait)],
    ])
}

/// The rules let it run in the sandbox. Whether it may leave it, somebody is asked, and told that.
#[test]
fn what_a_rule_allows_is_asked_before_it_leaves_the_sandbox() {
    for (choice, runs) in [(Choice::Approve, true), (Choice::Deny, false)] {
        let scene = Scene::of_one_call(Way::CodexAttended);
        let within = json!({ "permission": { "*": "allow", "bash": "allow" } });
        let mut server = scene.serve("select", &within);
        let seen = scene.run(|| {
            let request = scene.question(&mut server);
            let surface = &request["accessIntent"]["surface"];
            assert_eq!(surface, "outside_sandbox", "{request}");
            server.choose(choice);
        });
        assert_eq!((seen.ran, seen.asked_here), (runs, false), "{seen:?}");
    }
}

#[test]
fn a_subagent_asks_under_its_own_name_and_below_its_session() {
    let scene = Scene::new(Way::CodexExec, with_a_subagent);
    let mut server = scene.serve("select", &ask());
    let seen = scene.run(|| {
        let request = scene.question(&mut server);
        let session = request["requesterSessionId"].as_str().unwrap();
        let subagent = request["relay"]["path"][0]["sessionId"].as_str().unwrap();
        assert!(subagent.starts_with(&format!("{session}.")), "{request}");
        server.choose(Choice::Approve);
    });
    assert!(seen.ran, "{seen:?}");
}

/// The inner one is a process of its own, with a session of its own, started by a tool of the outer one.
#[test]
fn an_agent_that_an_agent_starts_asks_the_same_session() {
    let [codex] = words("codex").try_into().unwrap();
    let inner = format!(
        "'{}' exec --skip-git-repo-check -s danger-full-access '{TASK}' < /dev/null",
        codex.display()
    );
    let scene = Scene::new(Way::CodexExec, move |turn| {
        let line = if turn.prompt.contains(TASK) {
            "touch ran"
        } else {
            &inner
        };
        turn.after([vec![Agent::Codex.shell(line)]])
    });
    let mut server = scene.serve("select", &ask());
    let seen = scene.run_launched(|| {
        let request = scene.question(&mut server);
        assert_eq!(request["requesterSessionId"], "outer", "{request}");
        server.choose(Choice::Approve);
    });
    assert!(seen.ran, "{seen:?}");
}
