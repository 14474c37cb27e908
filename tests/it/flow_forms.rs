//! `askrelay mcp --serve`: a session whose asks are forms in a client of the protocol, which is scripted here.

#![expect(
    clippy::disallowed_methods,
    reason = "the settings of the client are files of its own"
)]

use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::processes::{Child, Running};
use crate::support::spool::{TestSpool, eventually, is_there, pass, until};

/// An agent that has started the server of session P, and whose client shows forms.
struct Agent {
    running: Running,
    /// How many forms were looked at.
    seen: usize,
}

impl Agent {
    /// One that has said hello with these capabilities.
    fn with(spool: &TestSpool, args: &[&str], env: &[(&str, &str)], capabilities: &Value) -> Self {
        Self::called("claude-code", spool, args, env, capabilities)
    }

    /// As [`Self::with`], in a client of this name.
    fn called(
        name: &str,
        spool: &TestSpool,
        args: &[&str],
        env: &[(&str, &str)],
        capabilities: &Value,
    ) -> Self {
        Self::started(name, spool.relay(), args, env, capabilities)
    }

    fn started(
        name: &str,
        mut command: Command,
        args: &[&str],
        env: &[(&str, &str)],
        capabilities: &Value,
    ) -> Self {
        command
            .args(["mcp", "--serve"])
            .args(args)
            .envs(env.iter().copied());
        let mut agent = Self {
            running: Running::start(&mut command),
            seen: 0,
        };
        agent.say(
            &json!({"jsonrpc": "2.0", "id": "hello", "method": "initialize", "params": {
                "protocolVersion": "2025-11-25", "capabilities": capabilities,
                "clientInfo": {"name": name, "version": "1.0"},
            }}),
        );
        let said_hello = |message: &Value| message["id"] == "hello";
        eventually("an answer to hello", || {
            agent.messages().into_iter().find(said_hello)
        });
        agent.say(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        agent
    }

    /// One that serves P for an agent that was started in this directory.
    fn in_directory(spool: &TestSpool, directory: &std::path::Path) -> Self {
        let forms = json!({"elicitation": {"form": {}}});
        let mut command = spool.relay();
        command.current_dir(directory);
        let agent = Self::started("claude-code", command, &["--session", "P"], &[], &forms);
        until("a session that is served", || is_served(spool, "P"));
        agent
    }

    /// One that serves P.
    fn serving(spool: &TestSpool, args: &[&str]) -> Self {
        let mut all = vec!["--session", "P"];
        all.extend(args);
        let forms = json!({"elicitation": {"form": {}, "url": {}}});
        let agent = Self::with(spool, &all, &[], &forms);
        until("a session that is served", || is_served(spool, "P"));
        agent
    }

    fn say(&mut self, message: &Value) {
        self.running.write_line(&message.to_string());
    }

    fn messages(&self) -> Vec<Value> {
        self.running.json_lines()
    }

    /// The next form that is shown.
    #[track_caller]
    fn form(&mut self) -> Value {
        let seen = self.seen;
        let form = eventually("a form", || {
            let forms = self.messages().into_iter();
            let mut forms = forms.filter(|message| message["method"] == "elicitation/create");
            forms.nth(seen)
        });
        self.seen += 1;
        form
    }

    /// All pages of a form from this one on, and the last of them: how many there are depends on the window.
    #[track_caller]
    fn pages(&mut self, mut form: Value) -> (String, Value) {
        let mut read = String::new();
        loop {
            read.push_str(text(&form));
            read.push('\n');
            let on = options(&form);
            let on = on.iter().find(|label| label.starts_with("Read on"));
            let Some(on) = on.map(|on| (*on).to_owned()) else {
                return (read, form);
            };
            assert!(!options(&form).contains(&"Yes"), "{form}");
            self.accept(&form, &json!({"answer": on}));
            form = self.form();
        }
    }

    fn reply(&mut self, form: &Value, result: &Value) {
        let id = form["id"].clone();
        self.say(&json!({"jsonrpc": "2.0", "id": id, "result": result}));
    }

    fn accept(&mut self, form: &Value, content: &Value) {
        self.reply(form, &json!({"action": "accept", "content": content}));
    }

    fn said(&self, text: &str) {
        until(text, || self.running.stderr().contains(text));
    }
}

fn text(form: &Value) -> &str {
    form["params"]["message"].as_str().unwrap()
}

fn options(form: &Value) -> Vec<&str> {
    let options = form["params"]["requestedSchema"]["properties"]["answer"]["enum"].as_array();
    options
        .unwrap()
        .iter()
        .map(|option| option.as_str().unwrap())
        .collect()
}

fn ask(spool: &TestSpool, value: &str) -> Child {
    spool.ask_as("scout", "P").value(value).start()
}

fn is_served(spool: &TestSpool, session: &str) -> bool {
    is_there(&spool.heartbeat_path(session))
}

/// Longer than it takes until an answer can be a person's.
fn read_it() {
    pass(Duration::from_millis(450));
}

#[test]
fn what_no_rule_decides_is_a_form_and_its_answer_is_credited_to_the_client() {
    let spool = TestSpool::new();
    let config = spool.config("P", &json!({"permission": {"bash": {"ls": "allow"}}}));
    let mut agent = Agent::serving(&spool, &["--config", config.to_str().unwrap()]);
    ask(&spool, "ls").end().approved();
    let child = ask(&spool, "rm -rf build");
    let form = agent.form();
    assert!(
        text(&form).starts_with("command : rm -rf build\n"),
        "{form}"
    );
    let (read, form) = agent.pages(form);
    assert!(read.contains("scout"), "{read}");
    assert_eq!(options(&form), ["No", "Yes"]);
    agent.accept(&form, &json!({"answer": "Yes"}));
    let ended = child.end();
    let decision = &ended.approved().json["decidedBy"]["decision"];
    assert_eq!(
        (&decision["kind"], &decision["name"], &decision["verdict"]),
        (
            &json!("authorizer"),
            &json!("form:claude-code"),
            &json!("allow")
        )
    );
    let child = ask(&spool, "rm -rf src");
    let form = agent.form();
    agent.accept(
        &form,
        &json!({"answer": "No", "reason": "move it to the trash"}),
    );
    let ended = child.end();
    assert_eq!(ended.denied().json["denialReason"], "move it to the trash");
    assert_eq!(ended.json["resolution"], "authorizer_denied");
    let child = ask(&spool, "rm -rf docs");
    let form = agent.form();
    agent.reply(&form, &json!({"action": "decline"}));
    assert_eq!(child.end().denied().json["resolution"], "authorizer_denied");
    // The log says the same.
    let approved = &spool.events("forwarded_permission.approved")[1];
    assert_eq!(approved["decidedBy"]["name"], "form:claude-code");
    let started = &spool.events("forwarded_permission.serving_started")[0];
    assert_eq!(started["mode"], "form");
    agent.running.close_stdin();
    assert_eq!(agent.running.exit_code(), 0);
    until("no heartbeat", || !is_served(&spool, "P"));
}

#[test]
fn a_client_whose_forms_take_what_is_typed_for_something_else_gets_none() {
    let spool = TestSpool::new();
    let forms = json!({"elicitation": {"form": {}}});
    let agent = Agent::called("codex-mcp-client", &spool, &["--session", "P"], &[], &forms);
    agent.said(
        "session P is not served here: it is not known that what is typed in codex-mcp-client",
    );
    assert!(!is_served(&spool, "P"));
    assert_eq!(agent.messages().len(), 1);
}

#[test]
fn a_form_that_is_put_away_or_answered_with_nothing_is_nobodys_decision() {
    let spool = TestSpool::new();
    let mut agent = Agent::serving(&spool, &[]);
    let child = ask(&spool, "make");
    let form = agent.form();
    read_it();
    agent.reply(&form, &json!({"action": "cancel"}));
    let ended = child.end();
    assert_eq!(
        ended.unruled().json["denialReason"],
        "the form was dismissed in claude-code"
    );
    assert_eq!(ended.json["decidedBy"]["decision"]["kind"], "unavailable");
    let child = ask(&spool, "make");
    let form = agent.form();
    let id = form["id"].clone();
    agent.say(
        &json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "no forms"}}),
    );
    let ended = child.end();
    let reason = ended.unruled().json["denialReason"].as_str().unwrap();
    assert!(
        reason.contains("did not show the form: no forms"),
        "{reason}"
    );
    let child = ask(&spool, "make");
    for content in [json!({}), json!({"answer": "yes"}), json!({"answer": true})] {
        let form = agent.form();
        agent.accept(&form, &content);
    }
    let ended = child.end();
    let reason = ended.unruled().json["denialReason"].as_str().unwrap();
    assert!(reason.contains("none of its options"), "{reason}");
}

#[test]
fn where_hooks_of_the_client_answer_its_forms_no_answer_counts() {
    let spool = TestSpool::new();
    let project = spool.below("project");
    let settings = project.join(".claude/settings.local.json");
    std::fs::create_dir_all(settings.parent().unwrap()).unwrap();
    let mut agent = Agent::in_directory(&spool, &project);
    let child = ask(&spool, "make");
    let (_, form) = {
        let form = agent.form();
        agent.pages(form)
    };
    // A file that comes has it put again, and one that has such a hook leaves nobody who could answer.
    std::fs::write(&settings, "{}").unwrap();
    agent.accept(&form, &json!({"answer": "Yes"}));
    let form = agent.form();
    assert_eq!(options(&form), ["No", "Yes"]);
    let hook = json!({"hooks": {"ElicitationResult": [{"hooks": []}]}});
    std::fs::write(&settings, hook.to_string()).unwrap();
    agent.accept(&form, &json!({"answer": "Yes"}));
    for child in [child, ask(&spool, "make more")] {
        let ended = child.end();
        let reason = ended.unruled().json["denialReason"].as_str().unwrap();
        assert!(
            reason.contains("settings.local.json has a hook for ElicitationResult"),
            "{reason}"
        );
    }
    assert_eq!(ask_is_refused(&spool, &settings, "{"), "cannot be read");
    std::fs::remove_file(&settings).unwrap();
    let child = ask(&spool, "make again");
    let form = agent.form();
    let (_, form) = agent.pages(form);
    agent.accept(&form, &json!({"answer": "Yes"}));
    child.end().approved();
}

/// Asks beside these settings, and gives the part of the reason that is looked for.
fn ask_is_refused(spool: &TestSpool, settings: &std::path::Path, text: &str) -> &'static str {
    std::fs::write(settings, text).unwrap();
    let ended = ask(spool, "make nothing").end();
    let reason = ended.unruled().json["denialReason"].as_str().unwrap();
    assert!(reason.contains("cannot be read"), "{reason}");
    "cannot be read"
}

#[test]
fn an_ask_that_goes_takes_its_form_along_and_the_next_one_is_shown() {
    let spool = TestSpool::new();
    let mut agent = Agent::serving(&spool, &[]);
    let gone = ask(&spool, "make one");
    let stale = agent.form();
    gone.running.signal(Signal::INT);
    gone.end();
    until("word that the form is taken back", || {
        agent.messages().iter().any(|message| {
            message["method"] == "notifications/cancelled"
                && message["params"]["requestId"] == stale["id"]
        })
    });
    let child = ask(&spool, "make two");
    let form = agent.form();
    assert!(text(&form).contains("make two"), "{form}");
    // What was left on the screen is answered into the void.
    agent.accept(&stale, &json!({"answer": "Yes"}));
    agent.accept(&form, &json!({"answer": "No"}));
    child.end().denied();
}

#[test]
fn a_client_that_ends_leaves_nobody_who_could_answer() {
    for end in ["close", "terminate"] {
        let spool = TestSpool::new();
        let mut agent = Agent::serving(&spool, &[]);
        let child = ask(&spool, "make");
        let _form = agent.form();
        if end == "close" {
            agent.running.close_stdin();
            assert_eq!(agent.running.exit_code(), 0);
        } else {
            agent.running.signal(Signal::TERM);
            assert_eq!(agent.running.exit_code(), 130);
        }
        child.end().unruled();
        assert!(!is_served(&spool, "P"));
    }
}

#[test]
fn a_client_without_forms_is_told_of_and_serves_nothing() {
    let spool = TestSpool::new();
    for capabilities in [json!({}), json!({"elicitation": {"url": {}}})] {
        let mut agent = Agent::with(&spool, &["--session", "P"], &[], &capabilities);
        agent.said("session P is not served here: claude-code shows no forms");
        assert!(!is_served(&spool, "P"));
        // The tools go on, and say what is so.
        call(&mut agent, "make");
        let answer = result(&agent);
        assert!(answer.contains("nobody serves session"), "{answer}");
    }
}

#[test]
fn a_session_that_somebody_else_serves_is_left_to_them() {
    let spool = TestSpool::new();
    let mut server = spool.serve_select("P", &json!({}));
    let forms = json!({"elicitation": {"form": {}}});
    let mut agent = Agent::with(&spool, &["--session", "P"], &[], &forms);
    agent.said(&format!(
        "served already, by process {}",
        server.running.pid()
    ));
    call(&mut agent, "make");
    server.answer("make", "Yes");
    assert!(result(&agent).contains("\"behavior\":\"allow\""));
    assert_eq!(agent.seen, 0);
}

#[test]
fn an_agent_within_an_agent_does_not_take_the_session_over() {
    let spool = TestSpool::new();
    let forms = json!({"elicitation": {"form": {}}});
    let above = [("CLAUDE_PID", "1")];
    let agent = Agent::with(&spool, &[], &above, &forms);
    agent.said(
        "session main is not served here: this agent was started within another one (CLAUDE_PID 1)",
    );
    assert!(!is_served(&spool, "main"));
    // Who starts it may say otherwise, and whoever started this one is no other agent.
    let own = std::process::id().to_string();
    let _agent = Agent::with(&spool, &[], &[("CLAUDE_PID", &own)], &forms);
    until("main is served", || is_served(&spool, "main"));
    let _agent = Agent::with(&spool, &["--session", "Q"], &above, &forms);
    until("Q is served", || is_served(&spool, "Q"));
}

#[test]
fn the_agents_own_tool_asks_the_session_that_it_serves() {
    let spool = TestSpool::new();
    let env = [
        ("ASKRELAY_SESSION", "P"),
        ("CLAUDE_CODE_SESSION_ID", "inner"),
    ];
    let forms = json!({"elicitation": {"form": {}}});
    let mut agent = Agent::with(&spool, &[], &env, &forms);
    until("P is served", || is_served(&spool, "P"));
    call(&mut agent, "make");
    let form = agent.form();
    let (read, form) = agent.pages(form);
    assert!(read.contains("inner"), "{read}");
    agent.accept(&form, &json!({"answer": "Yes"}));
    assert!(result(&agent).contains("\"behavior\":\"allow\""));
    // Where a parent is named, that is who is asked, about what is asked here as well.
    let mut parent = spool.serve_select("G", &json!({}));
    let env = [("ASKRELAY_SESSION", "W"), ("ASKRELAY_PARENT_SESSION", "G")];
    let mut agent = Agent::with(&spool, &[], &env, &forms);
    until("W is served", || is_served(&spool, "W"));
    call(&mut agent, "make own");
    parent.answer("make own", "Yes");
    assert!(result(&agent).contains("\"behavior\":\"allow\""));
    let child = spool.ask_as("scout", "W").value("make of a child").start();
    parent.answer("make of a child", "No");
    child.end().denied();
    assert_eq!(agent.seen, 0);
}

/// The agent wants to run something, and asks with its own tool.
fn call(agent: &mut Agent, command: &str) {
    let arguments = json!({"tool_name": "Bash", "input": {"command": command}});
    agent.say(
        &json!({"jsonrpc": "2.0", "id": "call", "method": "tools/call", "params": {
            "name": "approve", "arguments": arguments,
        }}),
    );
}

/// What it is told.
#[track_caller]
fn result(agent: &Agent) -> String {
    let answer = eventually("the result of the call", || {
        let mut messages = agent.messages().into_iter();
        messages.find(|message| message["id"] == "call")
    });
    answer["result"]["content"][0]["text"]
        .as_str()
        .unwrap()
        .to_owned()
}
