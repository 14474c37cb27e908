//! `askrelay acp`: what passes between a client and an agent, and how the agent's requests for permission end.
//!
//! The agent is `cat` where nothing else is said: what the client writes comes back as the agent's own words, so a test says
//! both parts, and sees every answer that the agent was given.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::processes::{Running, Server, run};
use crate::support::spool::{TestSpool, eventually, pass, read_json, until};

impl TestSpool {
    fn acp(&self, args: &[&str], agent: &[&str]) -> Command {
        let mut command = self.relay();
        command.arg("acp").args(args).arg("--").args(agent);
        command
    }

    /// A proxy to session P before an agent that says what it is told.
    fn echo(&self, args: &[&str]) -> Running {
        let mut all = vec!["--session", "P", "--agent", "echo"];
        all.extend(args);
        Running::start(&mut self.acp(&all, &["cat"]))
    }

    fn pending(&self) -> usize {
        self.waiting("P").len()
    }
}

/// A request for permission to run `command`.
fn request(id: &Value, command: &str) -> String {
    request_of(id, "S", command).to_string()
}

fn request_of(id: &Value, session: &str, command: &str) -> Value {
    json!({
        "jsonrpc": "2.0", "id": id, "method": "session/request_permission",
        "params": {
            "sessionId": session,
            "toolCall": {"toolCallId": "c1", "kind": "execute", "title": command, "rawInput": {"command": command}},
            "options": [
                {"optionId": "yes", "name": "Allow", "kind": "allow_once"},
                {"optionId": "always", "name": "Always", "kind": "allow_always"},
                {"optionId": "no", "name": "Reject", "kind": "reject_once"},
            ],
        },
    })
}

/// The messages that the client has got.
fn messages(proxy: &Running) -> Vec<Value> {
    proxy.json_lines()
}

/// Waits for the answer to the request with this id, and gives it.
#[track_caller]
fn answer(proxy: &Running, id: &Value) -> Value {
    eventually("an answer", || {
        let mut messages = messages(proxy).into_iter();
        messages.find(|message| message["id"] == *id && message.get("method").is_none())
    })
}

/// What was selected, or the outcome where nothing was.
#[track_caller]
fn outcome(proxy: &Running, id: &Value) -> Value {
    let answer = answer(proxy, id);
    let outcome = &answer["result"]["outcome"];
    outcome
        .get("optionId")
        .unwrap_or(&outcome["outcome"])
        .clone()
}

#[test]
fn a_rule_answers_and_the_client_never_hears_of_it() {
    let spool = TestSpool::new();
    let rules = json!({"bash": {"ls *": "allow", "rm *": {"action": "deny", "reason": "move it to the trash"}}});
    let _server = spool.serve_headless("P", &rules);
    let mut proxy = spool.echo(&[]);
    proxy.write_line(&request(&json!(1), "ls -l"));
    assert_eq!(outcome(&proxy, &json!(1)), "yes");
    proxy.write_line(&request(&json!("two"), "rm x"));
    assert_eq!(outcome(&proxy, &json!("two")), "no");
    let why = answer(&proxy, &json!("two"))["result"]["_meta"]["askrelay"]["reason"].clone();
    assert!(
        why.as_str().unwrap().contains("move it to the trash"),
        "{why}"
    );
    until("the reason on stderr", || {
        proxy.stderr().contains("move it to the trash")
    });
    assert!(
        messages(&proxy)
            .iter()
            .all(|message| message.get("method").is_none())
    );
    proxy.close_stdin();
    assert_eq!(proxy.exit_code(), 0);
}

#[test]
fn a_person_answers_and_sees_the_session_of_the_agent_as_the_one_that_asks() {
    let spool = TestSpool::new();
    let mut server = spool.serve_select("P", &json!({}));
    let mut proxy = spool.echo(&[]);
    let opened = json!({"id": 9, "method": "session/new", "params": {"cwd": spool.below("home"), "mcpServers": []}});
    proxy.write_line(&opened.to_string());
    proxy.write_line(&json!({"id": 9, "result": {"sessionId": "S"}}).to_string());
    proxy.write_line(&request(&json!(0), "make"));
    let question = server.question();
    assert!(question.text.contains("make"), "{}", question.text);
    assert!(question.text.contains("echo"), "{}", question.text);
    let directory = spool.below("home").to_string_lossy().into_owned();
    assert!(
        question
            .text
            .replace("\n            ", "")
            .contains(&directory),
        "{}",
        question.text
    );
    server.choose(&question, "No, provide reason");
    let _reason = server.question();
    server.running.write_line("use make clean");
    assert_eq!(outcome(&proxy, &json!(0)), "no");
    assert!(
        proxy.stderr().contains("use make clean"),
        "{}",
        proxy.stderr()
    );
    let log = spool.log();
    let created = log
        .iter()
        .find(|entry| entry["event"] == "forwarded_permission.request_created")
        .unwrap();
    assert_eq!(created["requesterSessionId"], "S");
    assert_eq!(created["requesterAgentName"], "echo");
}

#[test]
fn a_rule_that_denies_one_of_several_files_denies_the_call() {
    let spool = TestSpool::new();
    let rules =
        json!({"*": "allow", "path": {"/etc/*": {"action": "deny", "reason": "not there"}}});
    let _server = spool.serve_headless("P", &rules);
    let mut proxy = spool.echo(&[]);
    let edit = |id: u64, paths: [&str; 2]| {
        let mut edit = request_of(&json!(id), "S", "");
        let diff =
            |path: &str| json!({"type": "diff", "path": path, "oldText": "a", "newText": "b"});
        edit["params"]["toolCall"] =
            json!({"toolCallId": "c", "kind": "edit", "title": "Edit", "content": paths.map(diff)});
        edit.to_string()
    };
    let work = spool.work().join("a").to_string_lossy().into_owned();
    proxy.write_line(&edit(1, [&work, "/etc/passwd"]));
    assert_eq!(outcome(&proxy, &json!(1)), "no");
    until("the reason", || proxy.stderr().contains("not there"));
    proxy.write_line(&edit(2, [&work, &format!("{work}b")]));
    assert_eq!(outcome(&proxy, &json!(2)), "yes");
}

#[test]
fn two_at_once_get_each_their_own_answer() {
    let spool = TestSpool::new();
    let mut server = spool.serve_select("P", &json!({"bash": {"ls": "allow"}}));
    let mut proxy = spool.echo(&[]);
    proxy.write_line(&request(&json!(1), "make"));
    let question = server.question();
    // A rule answers behind a question that is open.
    proxy.write_line(&request(&json!(2), "ls"));
    assert_eq!(outcome(&proxy, &json!(2)), "yes");
    proxy.write_line(&request_of(&json!(3), "T", "make install").to_string());
    until("two that wait", || spool.pending() == 2);
    server.choose(&question, "Yes");
    assert_eq!(outcome(&proxy, &json!(1)), "yes");
    server.answer("make install", "No");
    assert_eq!(outcome(&proxy, &json!(3)), "no");
}

#[test]
fn where_nobody_serves_it_is_rejected_and_said() {
    let spool = TestSpool::new();
    let mut proxy = spool.echo(&[]);
    proxy.write_line(&request(&json!(1), "ls"));
    assert_eq!(outcome(&proxy, &json!(1)), "no");
    until("the reason", || {
        proxy.stderr().contains("nobody serves session")
    });
    assert!(
        proxy.stderr().contains("askrelay serve"),
        "{}",
        proxy.stderr()
    );
    let mut bare = request_of(&json!(2), "S", "ls");
    bare["params"]["options"] = json!([{"optionId": "yes", "name": "Allow", "kind": "allow_once"}]);
    proxy.write_line(&bare.to_string());
    assert_eq!(outcome(&proxy, &json!(2)), "cancelled");
}

#[test]
fn an_ask_that_nobody_answers_in_time_is_rejected() {
    let spool = TestSpool::new();
    let server = spool.serve_select("P", &json!({}));
    let config = spool.config("child", &json!({"forwardingTimeoutMs": 300}));
    let mut command = spool.acp(
        &["--session", "P", "--config", config.to_str().unwrap()],
        &["cat"],
    );
    let mut proxy = Running::start(&mut command);
    proxy.write_line(&request(&json!(1), "make"));
    assert_eq!(outcome(&proxy, &json!(1)), "no");
    let why = answer(&proxy, &json!(1))["result"]["_meta"]["askrelay"]["reason"].clone();
    assert!(
        why.as_str().unwrap().contains("did not answer within"),
        "{why}"
    );
    server.await_text("This ask is closed");
}

#[test]
fn a_turn_that_is_cancelled_takes_its_asks_away() {
    let spool = TestSpool::new();
    let mut server = spool.serve_select("P", &json!({}));
    let mut proxy = spool.echo(&[]);
    proxy.write_line(&request(&json!(1), "make"));
    let _open = server.question();
    let cancel =
        json!({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": "S"}});
    proxy.write_line(&cancel.to_string());
    assert_eq!(outcome(&proxy, &json!(1)), "cancelled");
    // The agent has read of the end of its turn before it reads of the end of its request.
    assert_eq!(messages(&proxy)[0], cancel);
    server.await_text("This ask is closed");
    until("nothing that waits", || spool.pending() == 0);
}

#[test]
fn a_request_that_the_agent_takes_back_is_withdrawn() {
    let spool = TestSpool::new();
    let mut server = spool.serve_select("P", &json!({}));
    let mut proxy = spool.echo(&[]);
    proxy.write_line(&request(&json!("a"), "make"));
    let _open = server.question();
    let back =
        json!({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": "a"}});
    proxy.write_line(&back.to_string());
    assert_eq!(answer(&proxy, &json!("a"))["error"]["code"], -32800);
    server.await_text("This ask is closed");
}

#[test]
fn a_client_that_goes_takes_its_asks_with_it() {
    let spool = TestSpool::new();
    let mut server = spool.serve_select("P", &json!({}));
    let mut proxy = spool.echo(&[]);
    proxy.write_line(&request(&json!(1), "make"));
    let _open = server.question();
    proxy.close_stdin();
    assert_eq!(proxy.exit_code(), 0);
    assert_eq!(outcome(&proxy, &json!(1)), "cancelled");
    server.await_text("This ask is closed");
    until("nothing that waits", || spool.pending() == 0);
}

#[test]
fn a_proxy_that_is_killed_leaves_no_ask_behind() {
    let spool = TestSpool::new();
    let mut server = spool.serve_select("P", &json!({}));
    let mut proxy = spool.echo(&[]);
    proxy.write_line(&request(&json!(1), "make"));
    let _open = server.question();
    proxy.kill();
    server.await_text("This ask is closed");
    until("nothing that waits", || spool.pending() == 0);
}

#[test]
fn an_agent_that_ends_takes_its_asks_with_it_and_its_code_is_ours() {
    let spool = TestSpool::new();
    let mut server = spool.serve_select("P", &json!({}));
    let script = format!(
        "printf '%s\\n' '{}'; read go; exit 7",
        request(&json!(1), "make")
    );
    let mut command = spool.acp(&["--session", "P"], &["sh", "-c", &script]);
    let mut proxy = Running::start(&mut command);
    let _open = server.question();
    proxy.write_line("go");
    assert_eq!(proxy.exit_code(), 7);
    server.await_text("This ask is closed");
}

#[test]
fn codes_and_signals_are_handed_on() {
    let spool = TestSpool::new();
    let code = |agent: &[&str]| run(&mut spool.acp(&["--session", "P"], agent)).0;
    assert_eq!(code(&["true"]), 0);
    assert_eq!(code(&["sh", "-c", "exit 42"]), 42);
    assert_eq!(code(&["sh", "-c", "kill -KILL $$"]), 137);
    assert_eq!(code(&["/no/such/agent"]), 127);
    for (signal, name) in [
        (Signal::TERM, "TERM"),
        (Signal::HUP, "HUP"),
        (Signal::INT, "INT"),
    ] {
        let script = format!(
            "trap 'echo told; exit 9' {name}; echo ready; while :; do read line || exit 1; done"
        );
        let mut proxy = Running::start(&mut spool.acp(&["--session", "P"], &["sh", "-c", &script]));
        until("an agent that listens", || proxy.stdout().contains("ready"));
        proxy.signal(signal);
        assert_eq!(proxy.exit_code(), 9, "{name}");
        assert!(
            proxy.stdout().contains("told"),
            "what it wrote last is passed on"
        );
    }
}

#[test]
fn usage_is_told_before_the_agent_is_started() {
    let spool = TestSpool::new();
    let marker = spool.below("started");
    let touch = format!("touch {}", marker.display());
    let args = ["--session", "P", "--serving-key", "nonsense"];
    let (code, stdout, stderr) = run(&mut spool.acp(&args, &["sh", "-c", &touch]));
    assert_eq!((code, stdout.as_str()), (2, ""));
    assert!(stderr.contains("hint:"), "{stderr}");
    assert!(!crate::support::spool::is_there(&marker));
}

/// Everything that comes out where this goes in.
fn through(spool: &TestSpool, input: &[u8], args: &[&str]) -> Vec<u8> {
    let mut process = spool
        .acp(args, &["cat"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = process.stdin.take().unwrap();
    let input = input.to_vec();
    let writer = std::thread::spawn(move || stdin.write_all(&input).unwrap());
    let mut output = Vec::new();
    process
        .stdout
        .take()
        .unwrap()
        .read_to_end(&mut output)
        .unwrap();
    writer.join().unwrap();
    assert!(process.wait().unwrap().success());
    output
}

#[test]
fn whatever_is_no_request_for_permission_comes_out_byte_for_byte() {
    let spool = TestSpool::new();
    let mut input = Vec::new();
    for line in [
        &b"{\"jsonrpc\": \"2.0\",  \"id\":1.0, \"method\":\"session/prompt\", \"params\":{\"z\":1,\"a\":[ ]}}\r\n"[..],
        b"\n\r\n\x00\xff\xfe not json\n{\"half\": \n[]\n{\"id\":1,\"id\":2,\"result\":{}}\n",
        b"{\"method\":\"session/request_permission\"}\n{\"method\":\"$/cancel_request\",\"params\":{\"requestId\":77}}\n",
        b"{\"method\":\"x/unknown\",\"params\":{\"n\":12345678901234567890123,\"s\":\"\\u00e4\\/\"}}\n",
    ] {
        input.extend(line);
    }
    // Long lines, and more than any pipe holds.
    for length in [100_000, 3_000_000] {
        input.extend(
            json!({"id": length, "result": "x".repeat(length)})
                .to_string()
                .bytes(),
        );
        input.push(b'\n');
    }
    for number in 0..20_000 {
        input.extend(
            format!("{{\"method\":\"session/update\",\"params\":{{\"n\":{number}}}}}\n").bytes(),
        );
    }
    // A last line without an end.
    input.extend(b"{\"half\":");
    for args in [&["--session", "P"][..], &["--session", "P", "--client-too"]] {
        assert!(through(&spool, &input, args) == input, "not byte for byte");
    }
}

#[test]
fn what_an_agent_wrote_last_is_passed_on_however_late_it_is_read() {
    let spool = TestSpool::new();
    let script = "head -c 3000000 /dev/zero | tr '\\0' x; exit 3";
    let mut process = spool
        .acp(&["--session", "P"], &["sh", "-c", script])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // Time is what this is about: the agent has long ended.
    pass(Duration::from_secs(1));
    let mut output = Vec::new();
    process
        .stdout
        .take()
        .unwrap()
        .read_to_end(&mut output)
        .unwrap();
    assert_eq!(output.len(), 3_000_000);
    assert_eq!(process.wait().unwrap().code(), Some(3));
}

#[test]
fn a_line_that_is_longer_than_is_looked_at_passes_as_well() {
    let spool = TestSpool::new();
    let mut input = vec![b'x'; askrelay::host::acp::LONGEST_LOOKED_AT + 100_000];
    input.extend(b"\n{\"method\":\"x\"}\n");
    assert!(
        through(&spool, &input, &["--session", "P"]) == input,
        "not byte for byte"
    );
}

#[test]
fn a_request_that_is_too_long_to_be_looked_at_reaches_nobody() {
    let spool = TestSpool::new();
    let _server = spool.serve_headless("P", &json!({"*": "allow"}));
    let mut proxy = spool.echo(&[]);
    let length = askrelay::host::acp::LONGEST_LOOKED_AT;
    proxy.write_line(&request(&json!(1), &"x".repeat(length)));
    proxy.write_line("{\"method\":\"x\"}");
    assert_eq!(outcome(&proxy, &json!(1)), "cancelled");
    until("what comes behind it", || messages(&proxy).len() == 2);
    assert!(proxy.stdout().len() < 10_000);
}

/// The agent says more than is held for anybody, and would say still more.
#[test]
fn a_client_that_does_not_read_keeps_no_decision_from_the_agent() {
    let spool = TestSpool::new();
    let mut server = spool.serve_select("P", &json!({}));
    let [said, answer] = ["said", "answer"].map(|name| spool.below(name));
    let script = format!(
        "printf '%s\\n' '{}'
         (said=0; while printf '%065536d\\n' 0; do said=$((said + 1)); echo $said > '{}'; done) &
         read answer; echo \"$answer\" > '{}'; read more",
        request(&json!(1), "make"),
        said.display(),
        answer.display(),
    );
    let mut process = spool
        .acp(&["--session", "P"], &["sh", "-c", &script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let question = server.question();
    until("all that is held is full", || {
        read_json(&said).is_some_and(|said| said.as_u64() >= Some(16))
    });
    server.choose(&question, "Yes");
    until("the answer", || {
        read_json(&answer).is_some_and(|told| told["result"]["outcome"]["optionId"] == "yes")
    });
    drop(process.stdin.take());
    drop(process.stdout.take());
    process.wait().unwrap();
}

#[test]
fn whoever_does_not_read_what_is_said_beside_it_keeps_no_answer_from_the_agent() {
    let spool = TestSpool::new();
    let reason = "a long reason ".repeat(35);
    let deny = json!({"action": "deny", "reason": reason});
    let _server = spool.serve_headless("P", &json!({"bash": {"make": deny}}));
    let mut process = spool
        .acp(&["--session", "P"], &["cat"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = process.stdin.take().unwrap();
    let mut answers = BufReader::new(process.stdout.take().unwrap()).lines();
    // Together more than a pipe holds.
    for id in 0..200 {
        writeln!(stdin, "{}", request(&json!(id), "make")).unwrap();
        let answer: Value = serde_json::from_str(&answers.next().unwrap().unwrap()).unwrap();
        assert_eq!(answer["result"]["outcome"]["optionId"], "no");
    }
    drop(stdin);
    assert!(process.wait().unwrap().success());
}

#[test]
fn a_session_of_any_name_asks_and_reaches_nothing_beside_the_spool() {
    let spool = TestSpool::new();
    let _server = spool.serve_headless("P", &json!({"bash": {"ls": "allow"}}));
    let mut proxy = spool.echo(&[]);
    let long = "s".repeat(10_000);
    for (id, session) in [
        "../../evil",
        "/etc/passwd",
        "",
        "a\u{0}b",
        "\u{1b}[2J",
        &long,
    ]
    .iter()
    .enumerate()
    {
        let id = json!(id);
        proxy.write_line(&request_of(&id, session, "ls").to_string());
        let outcome = outcome(&proxy, &id);
        assert!(
            outcome == "yes" || outcome == "no",
            "{session:?}: {outcome}"
        );
    }
    assert!(!crate::support::spool::is_there(&spool.below("evil")));
    assert!(!proxy.stderr().contains('\u{1b}'), "{}", proxy.stderr());
}

#[test]
fn with_the_client_too_whoever_answers_first_decides_and_the_other_is_told() {
    let spool = TestSpool::new();
    let mut server = spool.serve_select("P", &json!({"bash": {"ls": "allow"}}));
    let mut proxy = spool.echo(&["--client-too"]);
    let is_asked = |proxy: &Running, id: u64| {
        let of = |message: &Value| {
            message["id"] == id && message["method"] == "session/request_permission"
        };
        messages(proxy).iter().any(of)
    };
    // The client.
    proxy.write_line(&request(&json!(1), "make"));
    let _open = server.question();
    until("the client is asked", || is_asked(&proxy, 1));
    proxy.write_line(
        &json!({"id": 1, "result": {"outcome": {"outcome": "selected", "optionId": "always"}}})
            .to_string(),
    );
    assert_eq!(outcome(&proxy, &json!(1)), "always");
    server.await_text("This ask is closed");
    // The line that is being read belongs to the question that is closed.
    server.running.write_line("");
    server.await_text("the line was not used");
    // The session.
    proxy.write_line(&request(&json!(2), "make install"));
    let question = server.question();
    until("the client is asked", || is_asked(&proxy, 2));
    server.choose(&question, "No");
    assert_eq!(outcome(&proxy, &json!(2)), "no");
    until("the client is told", || {
        messages(&proxy).iter().any(|message| {
            message["method"] == "$/cancel_request" && message["params"]["requestId"] == 2
        })
    });
    // What the client says to it afterwards is heard by nobody.
    let late = json!({"id": 2, "result": {"outcome": {"outcome": "selected", "optionId": "yes"}}});
    proxy.write_line(&late.to_string());
    proxy.write_line(&request(&json!(3), "ls"));
    assert_eq!(outcome(&proxy, &json!(3)), "yes");
    assert!(
        !is_asked(&proxy, 3),
        "a rule answers before the client is asked"
    );
    let answers = messages(&proxy)
        .iter()
        .filter(|message| message["id"] == 2 && message.get("result").is_some())
        .count();
    assert_eq!(answers, 1);
}

#[test]
fn with_the_client_too_nobody_who_serves_leaves_it_to_the_client() {
    let spool = TestSpool::new();
    let mut proxy = spool.echo(&["--client-too"]);
    proxy.write_line(&request(&json!(1), "make"));
    until("the client is asked", || {
        messages(&proxy)
            .iter()
            .any(|message| message["method"] == "session/request_permission")
    });
    until("it is said", || {
        proxy.stderr().contains("the client is asked alone")
    });
    proxy.write_line(&json!({"id": 1, "error": {"code": -32601, "message": "what?"}}).to_string());
    assert_eq!(outcome(&proxy, &json!(1)), "no");
}

#[test]
fn a_yes_for_longer_is_the_agents_own_always_only_where_that_is_wanted() {
    for (args, expected) in [(&[][..], "yes"), (&["--always"], "always")] {
        let spool = TestSpool::new();
        let mut server = spool.serve_select("P", &json!({}));
        let mut proxy = spool.echo(args);
        proxy.write_line(&request(&json!(1), "make"));
        let question = server.question();
        server.choose(&question, "Yes, for this session");
        let scope = server.question();
        let label = scope
            .text
            .lines()
            .find(|line| line.contains("This subagent only"))
            .unwrap();
        let (number, _) = label.trim_start().split_once(')').unwrap();
        server.running.write_line(number);
        assert_eq!(outcome(&proxy, &json!(1)), expected);
    }
}

#[test]
fn who_was_told_a_key_takes_no_answer_without_its_seal() {
    let spool = TestSpool::new();
    let server = spool.serve_headless("P", &json!({"bash": {"ls": "allow"}}));
    let other = spool.serve_headless("Q", &json!({}));
    let key_of = |server: &Server| {
        let text = server.running.stderr();
        let mut words = text.split_whitespace();
        words
            .find(|word| word.starts_with("ed25519:"))
            .unwrap()
            .to_owned()
    };
    let mut proxy = spool.echo(&["--serving-key", &key_of(&server)]);
    proxy.write_line(&request(&json!(1), "ls"));
    assert_eq!(outcome(&proxy, &json!(1)), "yes");
    let mut proxy = spool.echo(&["--serving-key", &key_of(&other)]);
    proxy.write_line(&request(&json!(1), "ls"));
    assert_eq!(outcome(&proxy, &json!(1)), "no");
}
