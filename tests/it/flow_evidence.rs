//! What a person gets to see beside the core facts: evidence of a tool's own input at the asking side, and the annotations of
//! annotators at the serving side, with real programs.
#![expect(
    clippy::disallowed_methods,
    reason = "tests write the files that are asked about, and the programs"
)]

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::support::fixtures;
use crate::support::processes::{Question, Server, has_ended};
use crate::support::spool::{TestSpool, eventually, is_there, read_json, request, until};

impl TestSpool {
    fn place(&self, name: &str) -> PathBuf {
        self.work().join(name)
    }

    fn write(&self, name: &str, content: &str) -> PathBuf {
        let path = self.place(name);
        std::fs::write(&path, content).unwrap();
        path
    }

    /// An entry of the configuration for a shell script that runs in the test's own directory.
    fn program(&self, name: &str, body: &str) -> Value {
        let directory = self.work();
        let script = format!("cd '{}' || exit 9\n{body}\n", directory.display());
        let path = self.write(name, &script);
        json!({"command": ["/bin/sh", path], "timeoutMs": 60_000})
    }

    fn serve_with(&self, config: &Value) -> Server {
        let path = self.config("serving", config);
        self.serve("P").select().config(&path).start()
    }
}

fn place_of(question: &Question, text: &str) -> usize {
    let found = question.text.find(text);
    found.unwrap_or_else(|| panic!("there is no {text:?} in\n{}", question.text))
}

// The asking side.

#[test]
fn an_edit_is_shown_as_the_change_that_it_would_make() {
    let spool = TestSpool::new();
    spool.write("main.rs", "fn main() {\n    old();\n}\n");
    let mut server = spool.serve_select("P", &json!({}));
    let input = json!({"file_path": "main.rs", "old_string": "old();", "new_string": "new();"});
    let child = spool
        .ask("P")
        .args(["--tool", "edit", "--input", &input.to_string()])
        .args(["--evidence", "why=a test"])
        .start();
    let question = server.question();
    let facts = "path      : main.rs\n";
    assert!(question.text.contains(facts), "{}", question.text);
    let change = "             fn main() {\n            -    old();\n            +    new();\n             }\n";
    assert!(question.text.contains(change), "{}", question.text);
    assert!(place_of(&question, "diff ") < place_of(&question, "\"why\""));
    server.choose(&question, "Yes");
    child.end().approved();
}

#[test]
fn an_input_comes_as_an_argument_from_a_file_or_from_stdin() {
    let spool = TestSpool::new();
    let mut server = spool.serve_select("P", &json!({}));
    let text = json!({"command": "make all", "description": "Builds"}).to_string();
    let file = spool.write("input.json", &text);
    for argument in [text.clone(), format!("@{}", file.display()), "-".to_owned()] {
        let mut child = spool.ask("P").args(["--input", &argument]).start();
        if argument == "-" {
            child.running.write_line(&text);
        }
        child.running.close_stdin();
        let question = server.question();
        assert!(question.text.contains(": make all"), "{}", question.text);
        assert!(
            question.text.contains("asker's words : Builds"),
            "{}",
            question.text
        );
        server.choose(&question, "No");
        child.end().denied();
    }
}

#[test]
fn an_input_that_cannot_be_meant_is_wrong_usage() {
    let spool = TestSpool::new();
    let cases: [(&[&str], &str); 7] = [
        (&["--input", "{"], "not valid JSON"),
        (&["--input", "{\"a\": 1, \"a\": 2}"], "stands twice"),
        (&["--input", "@nowhere.json"], "there is no file"),
        (&["--input", "{\"comand\": \"ls\"}"], "states no command"),
        (&["--input", "{\"command\": [\"ls\"]}"], "states no command"),
        (&["--tool", "read", "--input", "{}"], "states no path"),
        (&["--input", "{}", "--payload", "x"], "cannot be used with"),
    ];
    for (args, message) in cases {
        let ended = spool.ask("P").args(args).run();
        assert_eq!(ended.code, 2, "{args:?}");
        assert!(ended.stderr.contains(message), "{args:?}: {}", ended.stderr);
        let is_ours = !message.starts_with("cannot be used");
        assert_eq!(ended.stderr.contains("hint: "), is_ours, "{args:?}");
    }
}

#[test]
fn a_formatter_of_the_configuration_adds_to_what_is_known_or_adds_nothing() {
    let spool = TestSpool::new();
    let mut server = spool.serve_select("P", &json!({}));
    let good =
        r#"cat >got.json; echo '{"evidence":[{"label":"stage","text":"prod","detail":null}]}'"#;
    let config = spool.config(
        "asking",
        &json!({"evidenceFormatters": {
            "deploy": spool.program("good", good),
            "undeploy": spool.program("bad", "echo '{\"evidence\":[{\"label\":\"stage\"}]}'"),
        }}),
    );
    let ask = |tool: &str| {
        spool
            .ask("P")
            .args(["--config", config.to_str().unwrap()])
            .args(["--tool", tool, "--input", "{\"to\": \"prod\"}"])
            .args(["--evidence", "why=a test"])
    };
    let child = ask("deploy").start();
    let question = server.question();
    assert!(place_of(&question, "to : prod") < place_of(&question, "\"stage\""));
    assert!(place_of(&question, "\"stage\"") < place_of(&question, "\"why\""));
    server.choose(&question, "No");
    child.end().denied();
    assert_eq!(
        read_json(&spool.place("got.json")).unwrap(),
        json!({"v": 1, "tool": "deploy", "input": {"to": "prod"}})
    );
    let child = ask("undeploy").start();
    let question = server.question();
    assert!(!question.text.contains("stage"), "{}", question.text);
    server.choose(&question, "No");
    let ended = child.end();
    let said = "the evidence formatter of tool \"undeploy\" adds nothing: its answer is unusable";
    assert!(ended.stderr.contains(said), "{}", ended.stderr);
    let logged = spool.events("permission_forwarding.warning");
    assert!(
        logged
            .iter()
            .any(|entry| entry["message"].as_str().unwrap().starts_with(said)),
        "{logged:?}"
    );
}

#[test]
fn a_signal_while_a_formatter_runs_ends_both_and_asks_nothing() {
    let spool = TestSpool::new();
    let config = spool.config(
        "asking",
        &json!({"evidenceFormatters": {"deploy": spool.program("slow", "echo $$ >pid; exec sleep 1000")}}),
    );
    let mut child = spool
        .ask("P")
        .args(["--config", config.to_str().unwrap()])
        .args(["--tool", "deploy", "--input", "{}"])
        .start();
    let pid = pid(&spool);
    child.running.signal(rustix::process::Signal::TERM);
    assert_eq!(child.running.exit_code(), 130);
    until("the end of the formatter", || has_ended(pid));
    assert!(!is_there(&spool.session_dir("P")));
}

// The serving side.

#[test]
fn annotations_stand_in_the_configured_order_and_are_marked() {
    let spool = TestSpool::new();
    let note = |text: &str| {
        format!("cat >/dev/null; echo '{{\"text\":\"{text}\",\"verdict\":\"allow\"}}'")
    };
    let mut slow = spool.program("slow", "exec sleep 1000");
    slow["timeoutMs"] = json!(1);
    let mut server = spool.serve_with(&json!({
        "annotatorChain": ["second", "broken", "gone", "slow", "first"],
        "annotators": {
            "first": spool.program("first", &note("removes a tree")),
            "second": spool.program("second", &note("looks\\\\nharmless")),
            "broken": spool.program("broken", "echo '{\"text\":\"half\"}'; exit 1"),
            "slow": slow,
        },
    }));
    let mut ask = request("r1", "P", "bash", "rm -rf build");
    ask["payload"]["annotations"] = json!([{"source": "first", "text": "fine, says the child"}]);
    spool.put_request("P", &ask);
    let question = server.question();
    let notes = "by second: looks\n             harmless\nmodel note : by first: removes a tree\nmodel note : by \"first, sent by the requester\": fine, says the child\n";
    assert!(question.text.contains(notes), "{}", question.text);
    assert!(!question.text.contains("half"), "{}", question.text);
    server.choose(&question, "No");
    let answer = spool.await_response("P", "r1");
    assert_eq!(answer["approved"], false);
    assert_eq!(answer["decidedBy"]["kind"], "user");
    assert!(!answer.to_string().contains("harmless"), "{answer}");
    let failures = spool.events_of("annotator_failed", "r1");
    let of = |name: &str| {
        let found = failures.iter().find(|entry| entry["name"] == name);
        found.unwrap()["reason"].as_str().unwrap().to_owned()
    };
    assert_eq!(failures.len(), 2, "{failures:?}");
    assert!(of("broken").starts_with("it ended with"), "{failures:?}");
    assert_eq!(of("slow"), "it took longer than 1 ms");
    let skipped = spool.events("annotator_chain_unregistered_link");
    assert_eq!(skipped.len(), 1);
    assert_eq!(skipped[0]["name"], "gone");
    let warned = server.running.stderr();
    assert_eq!(warned.matches("\"gone\"").count(), 1, "{warned}");
    assert!(!warned.contains("not in force"), "{warned}");
}

#[test]
fn an_annotator_gets_the_facts_of_the_ask_but_not_where_and_for_whom() {
    let spool = TestSpool::new();
    let mut server = spool.serve_with(&json!({
        "annotatorChain": ["one"],
        "annotators": {"one": spool.program("one", "cat >got.json; echo '{\"text\":\"\"}'")},
    }));
    spool.put_request("P", &request("r1", "P", "bash", "make"));
    let question = server.question();
    assert!(!question.text.contains("model note"), "{}", question.text);
    let got = read_json(&spool.place("got.json")).unwrap();
    let keys: Vec<&String> = got.as_object().unwrap().keys().collect();
    assert_eq!(
        keys,
        [
            "v",
            "requestId",
            "request",
            "evidence",
            "accessIntent",
            "forwarding"
        ]
    );
    assert_eq!(got["request"]["value"], "make");
    assert_eq!(
        got["forwarding"],
        json!({"requesterAgentName": "scout", "requesterSessionId": "child"})
    );
    assert_eq!(
        got["accessIntent"],
        json!({"surface": "bash", "matchValues": ["make"], "boundaryValue": null})
    );
    assert!(!got.to_string().contains("/srv/tree"), "{got}");
}

#[test]
fn nobody_waits_for_an_annotator_but_the_question_that_it_is_about() {
    let spool = TestSpool::new();
    let body = "echo $$ >pid; while ! [ -e go ]; do sleep 0.05; done; echo '{\"text\":\"done\"}'";
    let mut server = spool.serve_with(&json!({
        "permission": {"bash": {"ls": "allow"}},
        "annotatorChain": ["one"],
        "annotators": {"one": spool.program("one", body)},
    }));
    spool.put_request("P", &request("r1", "P", "bash", "make"));
    let first = pid(&spool);
    // Policy answers meanwhile.
    spool.put_request("P", &request("r2", "P", "bash", "ls"));
    assert_eq!(spool.await_response("P", "r2")["approved"], true);
    assert!(!server.has_written_more());
    // What is taken back takes its annotator along, and makes room for the next.
    std::fs::remove_file(spool.request_path("P", "r1")).unwrap();
    spool.await_event("forwarded_permission.request_withdrawn", "r1");
    until("the end of the annotator", || has_ended(first));
    spool.put_request("P", &request("r3", "P", "bash", "cook"));
    spool.write("go", "");
    let question = server.question();
    assert!(question.text.contains("cook"), "{}", question.text);
    assert!(question.text.contains("by one: done"), "{}", question.text);
}

#[test]
fn an_end_of_the_session_does_not_wait_for_an_annotator() {
    let spool = TestSpool::new();
    let mut server = spool.serve_with(&json!({
        "annotatorChain": ["one"],
        "annotators": {"one": spool.program("one", "trap '' TERM; echo $$ >pid; while :; do sleep 1; done")},
    }));
    spool.put_request("P", &request("r1", "P", "bash", "make"));
    let pid = pid(&spool);
    assert_eq!(server.stop(), 0);
    assert_eq!(spool.await_response("P", "r1")["approved"], false);
    until("the end of the annotator", || has_ended(pid));
}

/// The process id that a program of this test wrote.
fn pid(spool: &TestSpool) -> u32 {
    eventually("a process id", || {
        let text = std::fs::read_to_string(spool.place("pid")).ok()?;
        text.strip_suffix('\n')?.parse().ok()
    })
}

/// The programs of docs/configuration.md, as a reader would copy them.
#[test]
fn the_programs_of_the_documentation_work() {
    let spool = TestSpool::new();
    let text = fixtures::text("docs/configuration.md");
    let programs: Vec<Value> = text
        .split("```python\n")
        .skip(1)
        .enumerate()
        .map(|(number, rest)| {
            let body = rest.split("```").next().unwrap();
            let path = spool.write(&format!("program-{number}"), body);
            json!({"command": ["/usr/bin/env", "python3", path], "timeoutMs": 60_000})
        })
        .collect();
    // The link of the chain, which stands last, is tried where chains are.
    let [formatter, annotator, _link] = programs.as_slice() else {
        panic!("{} programs", programs.len())
    };
    let mut git = std::process::Command::new("git");
    git.arg("init").arg("-q").current_dir(spool.work());
    assert!(git.status().unwrap().success());
    spool.write("main.rs", "old");
    let mut server = spool.serve_with(&json!({
        "annotatorChain": ["hints"],
        "annotators": {"hints": annotator},
    }));
    let config = spool.config(
        "asking",
        &json!({"evidenceFormatters": {"edit": formatter}}),
    );
    let child = spool
        .ask("P")
        .args(["--config", config.to_str().unwrap(), "--tool", "edit"])
        .args([
            "--input",
            r#"{"path": "main.rs", "oldText": "old", "newText": "new"}"#,
        ])
        .start();
    let question = server.question();
    assert!(
        question.text.contains("\"git\"     : not in git"),
        "{}",
        question.text
    );
    assert!(!question.text.contains("model note"), "{}", question.text);
    server.choose(&question, "No");
    child.end().denied();
    let child = spool.ask("P").value("git push --force").start();
    let question = server.question();
    let note = "model note : by hints: overwrites what others may have pushed";
    assert!(question.text.contains(note), "{}", question.text);
    server.choose(&question, "No");
    child.end().denied();
}
