//! `askrelay mcp`: what a client of the protocol sends, and how its calls end.

use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::processes::{Running, run};
use crate::support::spool::{TestSpool, eventually, pass, until};

/// A client of a server that asks session P.
struct Client {
    running: Running,
}

impl Client {
    /// One that has said hello as `name`.
    fn hello(spool: &TestSpool, args: &[&str], env: &[(&str, &str)], name: &str) -> Self {
        let mut command = spool.relay();
        command
            .args(["mcp", "--session", "P"])
            .args(args)
            .envs(env.iter().copied());
        let mut client = Self {
            running: Running::start(&mut command),
        };
        let hello = json!({
            "protocolVersion": "2025-11-25", "capabilities": {"elicitation": {"form": {}, "url": {}}},
            "clientInfo": {"name": name, "version": "1.0"},
        });
        client.request(&json!("hello"), "initialize", &hello);
        let answer = client.answer(&json!("hello"));
        assert_eq!(answer["result"]["protocolVersion"], "2025-11-25");
        client.say(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        client
    }

    fn new(spool: &TestSpool) -> Self {
        Self::hello(spool, &[], &[], "claude-code")
    }

    fn say(&mut self, message: &Value) {
        self.running.write_line(&message.to_string());
    }

    fn request(&mut self, id: &Value, method: &str, params: &Value) {
        self.say(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
    }

    fn call(&mut self, id: &Value, tool: &str, arguments: &Value) {
        let params = json!({"name": tool, "arguments": arguments, "_meta": {"progressToken": id}});
        self.request(id, "tools/call", &params);
    }

    fn approve(&mut self, id: &Value, command: &str) {
        let input = json!({"command": command, "description": "what it does"});
        self.call(
            id,
            "approve",
            &json!({"tool_name": "Bash", "input": input, "tool_use_id": "toolu_1"}),
        );
    }

    fn messages(&self) -> Vec<Value> {
        // Nothing but messages of the protocol is ever written there.
        self.running.json_lines()
    }

    #[track_caller]
    fn answer(&self, id: &Value) -> Value {
        eventually("an answer", || {
            let mut messages = self.messages().into_iter();
            messages.find(|message| message["id"] == *id && message.get("method").is_none())
        })
    }

    /// The decision that Claude Code reads.
    #[track_caller]
    fn decision(&self, id: &Value) -> Value {
        let result = &self.answer(id)["result"];
        assert_ne!(result["isError"], true, "{result}");
        assert_eq!(result["content"].as_array().unwrap().len(), 1);
        serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap()
    }
}

#[test]
fn the_permission_prompt_allows_with_the_input_as_it_came_and_denies_with_the_reason() {
    let spool = TestSpool::new();
    let rules = json!({"bash": {"ls *": "allow", "rm *": {"action": "deny", "reason": "move it to the trash"}}});
    let _server = spool.serve_headless("P", &rules);
    let mut client = Client::new(&spool);
    client.approve(&json!(1), "ls -l");
    let input = json!({"command": "ls -l", "description": "what it does"});
    assert_eq!(
        client.decision(&json!(1)),
        json!({"behavior": "allow", "updatedInput": input})
    );
    client.approve(&json!(2), "rm x");
    let decision = client.decision(&json!(2));
    assert_eq!(decision["behavior"], "deny");
    assert!(
        decision["message"]
            .as_str()
            .unwrap()
            .contains("move it to the trash"),
        "{decision}"
    );
    // What cannot be read is a denial as well, and no error.
    client.call(
        &json!(3),
        "approve",
        &json!({"tool_name": "Bash", "input": "ls -l"}),
    );
    let decision = client.decision(&json!(3));
    assert_eq!(decision["behavior"], "deny");
    assert!(
        decision["message"]
            .as_str()
            .unwrap()
            .contains("\"input\" must be an object"),
        "{decision}"
    );
    client.running.close_stdin();
    assert_eq!(client.running.exit_code(), 0);
}

#[test]
fn a_person_is_asked_in_the_name_of_the_clients_session() {
    let spool = TestSpool::new();
    let mut server = spool.serve_select("P", &json!({}));
    let session = [(
        "CLAUDE_CODE_SESSION_ID",
        "11111111-2222-4333-8444-555555555555",
    )];
    let mut client = Client::hello(&spool, &[], &session, "claude-code");
    client.approve(&json!(1), "make");
    let question = server.question();
    assert!(question.text.contains("claude-code"), "{}", question.text);
    server.choose(&question, "No, provide reason");
    let _reason = server.question();
    server.running.write_line("use make clean");
    let decision = client.decision(&json!(1));
    assert_eq!(decision["behavior"], "deny");
    let message = decision["message"].as_str().unwrap();
    assert!(
        message.contains("Denied by the user") && message.contains("use make clean"),
        "{message}"
    );
    let log = spool.log();
    let created = log
        .iter()
        .find(|entry| entry["event"] == "forwarded_permission.request_created")
        .unwrap();
    assert_eq!(created["requesterSessionId"], session[0].1);
    assert_eq!(created["requesterAgentName"], "claude-code");
}

#[test]
fn a_client_within_a_launched_session_asks_through_it() {
    let spool = TestSpool::new();
    let mut server = spool.serve_select("P", &json!({}));
    let env = [
        ("CLAUDE_CODE_SESSION_ID", "inner"),
        ("ASKRELAY_SESSION", "worker-1"),
        ("ASKRELAY_AGENT", "builder"),
    ];
    let mut client = Client::hello(&spool, &[], &env, "claude-code");
    client.approve(&json!(1), "make");
    let question = server.question();
    assert!(question.text.contains("worker-1"), "{}", question.text);
    assert!(question.text.contains("inner"), "{}", question.text);
    server.choose(&question, "Yes");
    assert_eq!(client.decision(&json!(1))["behavior"], "allow");
}

#[test]
fn two_at_once_get_each_their_own_answer() {
    let spool = TestSpool::new();
    let mut server = spool.serve_select("P", &json!({"bash": {"ls": "allow"}}));
    let mut client = Client::new(&spool);
    client.approve(&json!(1), "make");
    let question = server.question();
    client.approve(&json!(2), "ls");
    assert_eq!(client.decision(&json!(2))["behavior"], "allow");
    client.approve(&json!("three"), "make install");
    until("two that wait", || spool.waiting("P").len() == 2);
    server.choose(&question, "Yes");
    assert_eq!(client.decision(&json!(1))["behavior"], "allow");
    server.answer("make install", "No");
    assert_eq!(client.decision(&json!("three"))["behavior"], "deny");
}

#[test]
fn where_nobody_serves_it_is_denied_and_said() {
    let spool = TestSpool::new();
    let mut client = Client::new(&spool);
    client.approve(&json!(1), "ls");
    let decision = client.decision(&json!(1));
    assert_eq!(decision["behavior"], "deny");
    assert!(
        decision["message"]
            .as_str()
            .unwrap()
            .contains("nobody serves session"),
        "{decision}"
    );
    until("the hint for the operator", || {
        client.running.stderr().contains("askrelay serve")
    });
}

#[test]
fn who_answers_too_late_denies() {
    let spool = TestSpool::new();
    let server = spool.serve_select("P", &json!({}));
    let config = spool.config("child", &json!({"forwardingTimeoutMs": 300}));
    let mut client = Client::hello(&spool, &["--config", config.to_str().unwrap()], &[], "x");
    client.approve(&json!(1), "make");
    let decision = client.decision(&json!(1));
    assert_eq!(decision["behavior"], "deny");
    assert!(
        decision["message"]
            .as_str()
            .unwrap()
            .contains("did not answer within"),
        "{decision}"
    );
    server.await_text("This ask is closed");
}

#[test]
fn a_call_that_is_cancelled_withdraws_its_ask_and_is_not_answered() {
    let spool = TestSpool::new();
    let mut server = spool.serve_select("P", &json!({"bash": {"ls": "allow"}}));
    let mut client = Client::new(&spool);
    client.approve(&json!(1), "make");
    let _open = server.question();
    client.say(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1, "reason": "Esc"}}));
    server.await_text("This ask is closed");
    until("nothing that waits", || spool.waiting("P").is_empty());
    client.approve(&json!(2), "ls");
    assert_eq!(client.decision(&json!(2))["behavior"], "allow");
    assert!(client.messages().iter().all(|message| message["id"] != 1));
}

#[test]
fn a_client_that_goes_takes_its_asks_with_it() {
    for end in ["close", "kill", "terminate"] {
        let spool = TestSpool::new();
        let mut server = spool.serve_select("P", &json!({}));
        let mut client = Client::new(&spool);
        client.approve(&json!(1), "make");
        let _open = server.question();
        match end {
            "close" => {
                client.running.close_stdin();
                assert_eq!(client.running.exit_code(), 0);
                // Given up by us, rather than left to the SDK until it waits no longer.
                let said = client.answer(&json!(1));
                assert_eq!(said["error"]["message"], "the call was cancelled");
            }
            "kill" => client.running.kill(),
            _ => {
                client.running.signal(Signal::TERM);
                assert_eq!(client.running.exit_code(), 130);
            }
        }
        server.await_text("This ask is closed");
        until("nothing that waits", || spool.waiting("P").is_empty());
    }
}

#[test]
fn whoever_waits_hears_that_it_does() {
    let spool = TestSpool::new();
    let mut server = spool.serve_select("P", &json!({}));
    let mut client = Client::new(&spool);
    client.approve(&json!("slow"), "make");
    let question = server.question();
    let news = |client: &Client| -> Vec<Value> {
        let messages = client.messages().into_iter();
        messages
            .filter(|message| message["method"] == "notifications/progress")
            .collect()
    };
    // Time is what this is about.
    pass(Duration::from_secs(11));
    until("news", || !news(&client).is_empty());
    assert_eq!(news(&client)[0]["params"]["progressToken"], "slow");
    server.choose(&question, "Yes");
    assert_eq!(client.decision(&json!("slow"))["behavior"], "allow");
}

#[test]
fn any_agent_can_ask_and_gets_the_whole_decision() {
    let spool = TestSpool::new();
    let mut server = spool.serve_select(
        "P",
        &json!({"bash": {"rm *": {"action": "deny", "reason": "move it to the trash"}}}),
    );
    let mut client = Client::hello(&spool, &["--agent", "scout"], &[], "some-agent");
    let ask = |command: &str| json!({"tool": "bash", "input": {"command": command}, "why": "the build is stale"});
    client.call(&json!(1), "ask", &ask("make clean"));
    let question = server.question();
    assert!(question.text.contains("scout"), "{}", question.text);
    assert!(
        question.text.contains("the build is stale"),
        "{}",
        question.text
    );
    server.choose(&question, "Yes");
    let result = client.answer(&json!(1))["result"].clone();
    assert_eq!(result["isError"], false);
    assert!(
        result["content"][0]["text"]
            .as_str()
            .unwrap()
            .starts_with("Approved"),
        "{result}"
    );
    let decision = &result["structuredContent"];
    assert_eq!(
        (&decision["approved"], &decision["state"]),
        (&json!(true), &json!("approved"))
    );
    assert_eq!(decision["decidedBy"]["decision"]["kind"], "user");
    // A denial is a result like any other.
    client.call(&json!(2), "ask", &ask("rm x"));
    let result = client.answer(&json!(2))["result"].clone();
    assert_eq!(result["isError"], false);
    assert!(
        result["content"][0]["text"]
            .as_str()
            .unwrap()
            .contains("move it to the trash"),
        "{result}"
    );
    assert_eq!(result["structuredContent"]["approved"], false);
    // Only what cannot be asked at all is an error, and says what is wrong.
    client.call(&json!(3), "ask", &json!({"tool": "bash", "command": "ls"}));
    let result = client.answer(&json!(3))["result"].clone();
    assert_eq!(result["isError"], true);
    assert!(
        result["content"][0]["text"]
            .as_str()
            .unwrap()
            .contains("no argument \"command\""),
        "{result}"
    );
    // What is answered is what the tool says that it answers.
    client.request(&json!(4), "tools/list", &json!({}));
    let tools = client.answer(&json!(4))["result"]["tools"].clone();
    let tools = tools.as_array().unwrap();
    let names: Vec<&str> = tools
        .iter()
        .map(|tool| tool["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["approve", "ask"]);
    for required in tools[1]["outputSchema"]["required"].as_array().unwrap() {
        assert!(
            decision.get(required.as_str().unwrap()).is_some(),
            "{required}"
        );
    }
}

#[test]
fn what_is_no_call_is_answered_as_such_and_stops_nothing() {
    let spool = TestSpool::new();
    let _server = spool.serve_headless("P", &json!({"bash": {"ls": "allow"}}));
    let mut client = Client::new(&spool);
    for line in [
        "",
        "not json",
        "{\"half\":",
        "[]",
        "{}",
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/unknown\"}",
    ] {
        client.running.write_line(line);
    }
    client.request(&json!(1), "resources/list", &json!({}));
    assert_eq!(client.answer(&json!(1))["error"]["code"], -32601);
    client.request(&json!(2), "ping", &json!(null));
    assert_eq!(client.answer(&json!(2))["result"], json!({}));
    client.call(&json!(3), "delete", &json!({}));
    assert_eq!(client.answer(&json!(3))["result"]["isError"], true);
    // An input that two readers could see differently is not shown as either.
    client.running.write_line(
        r#"{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"approve","arguments":{"tool_name":"Bash","input":{"command":"ls","command":"rm -rf ~"}}}}"#,
    );
    assert_eq!(client.answer(&json!(4))["error"]["code"], -32600);
    client.running.write_line(&"x".repeat(9 << 20));
    client.approve(&json!(5), "ls");
    assert_eq!(client.decision(&json!(5))["behavior"], "allow");
    let refused = client
        .messages()
        .into_iter()
        .filter(|message| message["id"] == json!(null) && message["error"]["code"] == -32600);
    assert_eq!(refused.count(), 3);
}

#[test]
fn usage_is_told_on_stderr_and_the_output_stays_clean() {
    let spool = TestSpool::new();
    let (code, stdout, stderr) = run(spool.relay().args(["mcp", "--serving-key", "nonsense"]));
    assert_eq!((code, stdout.as_str()), (2, ""));
    assert!(stderr.contains("hint:"), "{stderr}");
    // A client that leaves without a word.
    let (code, stdout, _) = run(spool.relay().arg("mcp"));
    assert_eq!((code, stdout.as_str()), (0, ""));
}

#[test]
fn older_revisions_of_the_protocol_are_spoken_and_newer_ones_are_offered_an_older_one() {
    for (wanted, spoken) in [
        ("2024-11-05", "2024-11-05"),
        ("2025-06-18", "2025-06-18"),
        ("2026-07-28", "2025-11-25"),
        ("2099-01-01", "2025-11-25"),
    ] {
        let spool = TestSpool::new();
        let mut client = Client {
            running: Running::start(spool.relay().arg("mcp")),
        };
        let hello = json!({"protocolVersion": wanted, "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}});
        client.request(&json!(1), "initialize", &hello);
        let result = client.answer(&json!(1))["result"].clone();
        assert_eq!(result["protocolVersion"], spoken, "{wanted}");
        assert_eq!(result["serverInfo"]["name"], "askrelay");
        assert!(result["capabilities"]["tools"].is_object(), "{result}");
    }
}
