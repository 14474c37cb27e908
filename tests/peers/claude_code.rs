//! Claude Code with the hook.

use serde_json::json;

use crate::agents::{Agent, words};
use crate::matrix::{Scene, Way, ask};
use crate::model::{Move, Turn};
use crate::support::{Choice, until};

mod headless {
    crate::matrix::held_to_all!(crate::matrix::Way::ClaudeHeadless);
}

mod on_a_terminal {
    crate::matrix::held_to_all!(crate::matrix::Way::ClaudeOnTerminal);
}

/// What the subagent is told to do, and nobody else.
const TASK: &str = "leave a file behind";

fn with_a_subagent(turn: &Turn) -> Vec<Move> {
    if turn.prompt.contains(TASK) {
        return turn.after([vec![Agent::ClaudeCode.shell("touch ran")]]);
    }
    let start = json!({
        "description": "a part of it", "prompt": TASK, "subagent_type": "general-purpose", "run_in_background": false
    });
    turn.after([vec![Move::Call("Agent", start)]])
}

/// The rules let it run in the sandbox. Whether it may leave it, somebody is asked, and told that.
#[test]
fn what_a_rule_allows_is_asked_before_it_leaves_the_sandbox() {
    for (choice, runs) in [(Choice::Approve, true), (Choice::Deny, false)] {
        let scene = Scene::new(Way::ClaudeHeadless, |turn| {
            let input = json!({
                "command": "touch ran", "description": "leave a file", "dangerouslyDisableSandbox": true
            });
            turn.after([vec![Move::Call("Bash", input)]])
        });
        let within = json!({ "permission": { "*": "allow", "bash": "allow" } });
        let mut server = scene.serve("select", &within);
        let seen = scene.run(|| {
            let request = scene.question(&mut server);
            let surface = &request["accessIntent"]["surface"];
            assert_eq!(surface, "outside_sandbox", "{request}");
            server.choose(choice);
        });
        assert_eq!(seen.ran, runs, "{seen:?}");
    }
}

#[test]
fn a_subagent_asks_under_its_own_name_and_below_its_session() {
    let scene = Scene::new(Way::ClaudeHeadless, with_a_subagent);
    let mut server = scene.serve("select", &ask());
    let seen = scene.run(|| {
        let request = scene.question(&mut server);
        let session = request["requesterSessionId"].as_str().unwrap();
        let subagent = &request["relay"]["path"][0];
        assert_eq!(subagent["agentName"], "general-purpose", "{request}");
        let id = subagent["sessionId"].as_str().unwrap();
        assert!(id.starts_with(&format!("{session}.")), "{request}");
        server.choose(Choice::Approve);
    });
    assert!(seen.ran, "{seen:?}");
}

/// The inner one is a process of its own, with a session of its own, started by a tool of the outer one.
#[test]
fn an_agent_that_an_agent_starts_asks_the_same_session_with_the_way_to_it() {
    let [claude] = words("claude-code").try_into().unwrap();
    let inner = format!(
        "'{}' --strict-mcp-config -p '{TASK}' < /dev/null",
        claude.display()
    );
    let scene = Scene::new(Way::ClaudeHeadless, move |turn| {
        let line = if turn.prompt.contains(TASK) {
            "touch ran"
        } else {
            &inner
        };
        turn.after([vec![Agent::ClaudeCode.shell(line)]])
    });
    let mut server = scene.serve("select", &ask());
    let seen = scene.run_launched(|| {
        let request = scene.question(&mut server);
        assert_eq!(request["requesterSessionId"], "outer", "{request}");
        assert_eq!(
            request["relay"]["path"].as_array().unwrap().len(),
            2,
            "{request}"
        );
        server.choose(Choice::Approve);
    });
    assert!(seen.ran, "{seen:?}");
}

/// No rule is about it, so the agent goes on to ask its own person, and the hook asks at the same time.
fn nothing_said() -> serde_json::Value {
    json!({})
}

#[test]
fn an_answer_of_the_session_closes_the_dialog_of_the_agent() {
    let scene = Scene::of_one_call(Way::ClaudeOnTerminal);
    let mut server = scene.serve("select", &nothing_said());
    scene.configure();
    let seen = scene.run_on_screen(|screen| {
        screen.await_text("Esc to cancel");
        server.choose(Choice::Approve);
        screen.await_text("done: ");
        assert!(!screen.text().contains("Esc to cancel"));
    });
    assert!(seen.ran, "{seen:?}");
}

#[test]
fn an_answer_in_the_dialog_of_the_agent_takes_the_ask_back() {
    let scene = Scene::of_one_call(Way::ClaudeOnTerminal);
    let mut server = scene.serve("select", &nothing_said());
    scene.configure();
    let seen = scene.run_on_screen(|screen| {
        scene.question(&mut server);
        screen.await_text("Esc to cancel");
        screen.press("\r");
        screen.await_text("done: ");
        until("the ask is taken back", || {
            scene.spool.waiting("main").is_empty()
        });
    });
    assert!(seen.ran, "{seen:?}");
    server.line("the session says that it was taken back", |line| {
        line.contains("taken it back")
    });
}
