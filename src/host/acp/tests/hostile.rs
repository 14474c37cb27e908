//! What an agent, or a model that has an honest agent write it, could do to be answered by somebody else, or for something else.

use super::*;

const OFFERED: &str =
    r#"[{"optionId":"once","kind":"allow_once"},{"optionId":"no","kind":"reject_once"}]"#;

/// Neither asked about nor passed on, and rejected by the option for it where that can be read.
#[track_caller]
fn assert_rejected(line: &[u8], expected: &str) {
    let mut proxy = racing();
    let step = proxy.line(Side::Agent, line);
    assert!(
        !step.passes && asks(&step).is_empty(),
        "{}",
        line.escape_ascii()
    );
    assert_eq!(outcome(&step.effects), expected, "{}", line.escape_ascii());
    assert_eq!(proxy.waiting(), 0);
}

/// A request whose command is written in these bytes.
fn asking_for(command: &[u8]) -> Vec<u8> {
    let mut line = br#"{"id":1,"method":"session/request_permission","params":{"sessionId":"S","toolCall":{"kind":"execute","rawInput":{"command":""#.to_vec();
    line.extend(command);
    line.extend(format!(r#""}}}},"options":{OFFERED}}}}}"#).as_bytes());
    line
}

#[test]
fn what_is_no_text_is_rejected_and_not_left_to_the_client() {
    assert_rejected(&asking_for(b"ls \xff"), "no");
    // A half of a character that only other readers let stand.
    assert_rejected(&asking_for(br"ls \ud800"), "no");
    let mut proxy = proxy();
    let other = b"{\"method\":\"session/update\",\"params\":{\"text\":\"\xff\"}}\n";
    assert_eq!(proxy.line(Side::Agent, other), Step::passing());
}

#[test]
fn a_method_that_is_said_twice_does_not_hide_a_request() {
    for method in [
        r#""method":"session/request_permission","method":"session/update""#,
        r#""method":"session\/request_permission","method":null"#,
    ] {
        let line = format!(
            r#"{{"id":1,{method},"params":{{"sessionId":"S","toolCall":{{}},"options":{OFFERED}}}}}"#
        );
        assert_rejected(line.as_bytes(), "no");
    }
}

#[test]
fn several_messages_on_one_line_do_not_hide_a_request() {
    let asking = String::from_utf8(asking_for(b"ls")).unwrap();
    let batch = format!(
        r#"[{asking},{{"method":"session/update"}},{{"id":"x","method":"fs/read_text_file"}},{{"id":7,"result":{{}}}}]"#
    );
    let step = proxy().line(Side::Agent, batch.as_bytes());
    assert!(!step.passes && asks(&step).is_empty());
    let answers: Vec<Value> = to_agent(&step.effects)
        .iter()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(answers.len(), 2);
    assert_eq!(answers[0]["result"]["outcome"]["optionId"], "no");
    assert_eq!(
        (&answers[1]["id"], &answers[1]["error"]["code"]),
        (&json!("x"), &json!(-32600))
    );
    // From the client, or where nothing in it asks, it is none of ours.
    assert_eq!(
        proxy().line(Side::Client, batch.as_bytes()),
        Step::passing()
    );
    let other = br#"[{"method":"session/update"},{"id":7,"result":{}}]"#;
    assert_eq!(proxy().line(Side::Agent, other), Step::passing());
}

#[test]
fn a_line_that_is_too_long_passes_only_where_its_beginning_asks_for_nothing() {
    for (beginning, passes, answer) in [
        (r#"{"method":"session/update","params":{"x"#, true, None),
        (r#"{"id":4,"result":{"content":"x"#, true, None),
        ("x", true, None),
        (
            r#"{"id":4,"method":"session/request_permission","params":{"x"#,
            false,
            Some("cancelled"),
        ),
        // Nobody knows yet what it is about, and so it cannot be answered either.
        (r#"{"id":4,"params":{"x"#, false, None),
        (r#"[{"id":4,"#, false, None),
    ] {
        let step = proxy().long_line(Side::Agent, beginning.as_bytes());
        assert_eq!(step.passes, passes, "{beginning}");
        assert_eq!(to_agent(&step.effects).len(), usize::from(answer.is_some()));
        if let Some(answer) = answer {
            assert_eq!(outcome(&step.effects), answer);
        }
        let of_client = proxy().long_line(Side::Client, beginning.as_bytes());
        assert_eq!(of_client, Step::passing());
    }
}

#[test]
fn one_id_for_two_answers_is_never_chosen() {
    for ruling in [&ONCE, &LONGER, &Ruling::Denied] {
        let line = json!({"id": 1, "method": "session/request_permission", "params": {
            "sessionId": "S", "toolCall": {}, "options": [
                {"optionId": "x", "kind": "reject_once"},
                {"optionId": "x", "kind": "allow_always"},
                {"optionId": "y", "kind": "reject_always"},
            ],
        }});
        let mut proxy = Proxy::new(Manners {
            always: true,
            ..Manners::default()
        });
        let _asked = proxy.line(Side::Agent, line.to_string().as_bytes());
        assert_eq!(outcome(&proxy.answered(1, ruling, "")), "y");
    }
}

#[test]
fn no_more_requests_wait_than_anybody_could_answer() {
    let mut proxy = proxy();
    for id in 0..MOST_WAITING {
        let _asked = proxy.line(Side::Agent, &request(&id.to_string()));
    }
    let step = proxy.line(Side::Agent, &request("\"more\""));
    assert_eq!(outcome(&step.effects), "no");
    let _answered = proxy.answered(1, &ONCE, "");
    assert_eq!(
        asks(&proxy.line(Side::Agent, &request("\"more\""))).len(),
        1
    );
}

#[test]
fn an_agent_cannot_answer_itself() {
    let mut proxy = racing();
    let _asked = proxy.line(Side::Agent, &request("1"));
    let _shown = proxy.client_may_be_asked(1);
    let forged = br#"{"id":1,"result":{"outcome":{"outcome":"selected","optionId":"once"}}}"#;
    assert_eq!(proxy.line(Side::Agent, forged), Step::passing());
    assert_eq!(proxy.waiting(), 1);
}

#[test]
fn sessions_are_told_apart_and_one_that_nobody_opened_asks_in_no_directory() {
    let mut proxy = proxy();
    for (id, directory) in [("\"a\"", "/one"), ("\"b\"", "/two")] {
        let open =
            format!(r#"{{"id":{id},"method":"session/new","params":{{"cwd":"{directory}"}}}}"#);
        let _opens = proxy.line(Side::Client, open.as_bytes());
    }
    // Answered in the other order.
    for (id, session) in [("\"b\"", "T"), ("\"a\"", "S")] {
        let opened = format!(r#"{{"id":{id},"result":{{"sessionId":"{session}"}}}}"#);
        let _opened = proxy.line(Side::Agent, opened.as_bytes());
    }
    for (session, directory) in [("S", Some("/one")), ("T", Some("/two")), ("U", None)] {
        let step = proxy.line(
            Side::Agent,
            &request_with(&format!("\"{session}\""), session, &["allow_once"]),
        );
        let asked = asks(&step)[0].clone();
        assert_eq!(asked.directory.as_deref(), directory, "{session}");
    }
}

fn update(kind: &str, session: &str, call: &Value) -> Vec<u8> {
    let mut update = call.clone();
    update["sessionUpdate"] = json!(kind);
    json!({"method": "session/update", "params": {"sessionId": session, "update": update}})
        .to_string()
        .into_bytes()
}

/// What is asked for by a request that says this of its call, after what was said before.
fn asked_after(before: &[Vec<u8>], call: &Value) -> Call {
    let mut proxy = proxy();
    for line in before {
        let _passed = proxy.line(Side::Agent, line);
    }
    let line = json!({"id": 1, "method": "session/request_permission", "params": {
        "sessionId": "S", "toolCall": call, "options": options(&["allow_once"]),
    }});
    let step = proxy.line(Side::Agent, line.to_string().as_bytes());
    asks(&step)[0].call.clone()
}

#[test]
fn what_the_request_says_of_its_call_counts_and_not_what_was_announced() {
    let harmless =
        json!({"toolCallId": "c", "kind": "execute", "title": "ls", "rawInput": {"command": "ls"}});
    let before = [update("tool_call", "S", &harmless)];
    let call = json!({"toolCallId": "c", "kind": "execute", "title": "ls", "rawInput": {"command": "rm x"}});
    let asked = asked_after(&before, &call);
    assert_eq!(
        (asked.tool.as_str(), &asked.input),
        ("bash", &json!({"command": "rm x"}))
    );
    // The title that lies is shown, and no rule reads it.
    assert_eq!(asked.evidence[0].text, "ls");
}

#[test]
fn what_was_said_of_one_call_is_not_true_of_another_by_the_same_id() {
    let harmless = json!({"toolCallId": "c", "kind": "execute", "rawInput": {"command": "ls"}});
    let bare = json!({"toolCallId": "c", "kind": "execute", "title": "Terminal"});
    let announced = update("tool_call", "S", &harmless);
    let again = update("tool_call", "S", &bare);
    let ended = update(
        "tool_call_update",
        "S",
        &json!({"toolCallId": "c", "status": "completed"}),
    );
    let elsewhere = update("tool_call", "T", &harmless);
    for before in [
        vec![announced.clone(), again],
        vec![announced, ended],
        vec![elsewhere],
    ] {
        let asked = asked_after(&before, &bare);
        assert_eq!(asked.tool, "execute");
        assert_eq!(asked.input, json!({"title": "Terminal"}));
    }
}

#[test]
fn an_execution_that_asks_for_more_than_its_command_is_no_command() {
    for beyond in [
        json!({"command": "make", "url": "https://example.org"}),
        json!({"command": "make", "additionalPermissions": {"network": {"enabled": true}}}),
    ] {
        let call = json!({"kind": "execute", "title": "more", "rawInput": beyond});
        let asked = asked_after(&[], &call);
        assert_eq!(asked.tool, "execute");
        assert_eq!(asked.input["title"], "more");
        assert_eq!(asked.input["command"], "make", "it is shown all the same");
    }
    let plain = json!({"kind": "execute", "rawInput": {"command": "make", "url": null}});
    assert_eq!(asked_after(&[], &plain).tool, "bash");
}

#[test]
fn a_call_of_no_kind_goes_by_the_name_that_its_agent_gives_it() {
    for (call, tool) in [
        (
            json!({"kind": "other", "name": "request_permissions"}),
            "request_permissions",
        ),
        (json!({"name": "x"}), "x"),
        (json!({"kind": "other", "name": ""}), "other"),
        (json!({"kind": "fetch", "name": "x"}), "fetch"),
        (json!({"kind": "execute", "name": "ls"}), "execute"),
    ] {
        assert_eq!(asked_after(&[], &call).tool, tool, "{call}");
    }
}

/// The agent that shows its commands in titles, asked to run one, with this beside it.
fn titled(text: &str) -> Call {
    let greeting = br#"{"id":0,"method":"initialize","params":{}}"#;
    let name = br#"{"id":0,"result":{"agentInfo":{"name":"gemini-cli"}}}"#;
    let mut proxy = proxy();
    let _greeted = proxy.line(Side::Client, greeting);
    let _named = proxy.line(Side::Agent, name);
    let content = json!([{"type": "content", "content": {"type": "text", "text": text}}]);
    let line = json!({"id": 1, "method": "session/request_permission", "params": {
        "sessionId": "S", "options": options(&["allow_once"]),
        "toolCall": {"toolCallId": "c", "kind": "execute", "title": "rm -r x", "content": content},
    }});
    let step = proxy.line(Side::Agent, line.to_string().as_bytes());
    asks(&step)[0].call.clone()
}

#[test]
fn a_command_in_a_title_runs_where_the_words_beside_it_say() {
    for (text, input) in [
        (
            "[current working directory /w] (tidy [up])",
            json!({"command": "rm -r x"}),
        ),
        (
            "[in sub] (tidy)",
            json!({"command": "rm -r x", "cwd": "sub"}),
        ),
        ("[in /etc]", json!({"command": "rm -r x", "cwd": "/etc"})),
    ] {
        let asked = titled(text);
        assert_eq!(
            (asked.tool.as_str(), &asked.input),
            ("bash", &input),
            "{text}"
        );
    }
    // A directory, or a description, that could be read as where the directory ends; or nothing that says it.
    for text in [
        "[in sub] (/../../etc]",
        "[in sub] (tidy [up])",
        "[in sub] [background]",
        "[in ]",
        "tidy",
        "",
    ] {
        let asked = titled(text);
        assert_eq!(
            (asked.tool.as_str(), &asked.input),
            ("execute", &json!({"title": "rm -r x"})),
            "{text}"
        );
    }
}

#[test]
fn an_answer_is_one_line_for_every_reader() {
    let mut proxy = proxy();
    let _asked = proxy.line(Side::Agent, &request("\"a\u{2028}b\""));
    let effects = proxy.answered(1, &Ruling::Denied, "no\u{2028}{\"id\":2}\u{2029}\n");
    let lines = to_agent(&effects);
    assert!(!lines[0].contains(['\u{2028}', '\u{2029}']), "{}", lines[0]);
    assert_eq!(lines[0].matches('\n').count(), 1);
    assert_eq!(answer(&effects)["id"], "a\u{2028}b");
}

mod turns {
    use super::*;

    const PROMPT: &[u8] =
        br#"{"id":5,"method":"session/prompt","params":{"sessionId":"S","prompt":[]}}"#;
    const ENDED: &[u8] = br#"{"id":5,"result":{"stopReason":"cancelled"}}"#;

    fn cancel(method: &str) -> Vec<u8> {
        format!(r#"{{"id":6,"method":"{method}","params":{{"sessionId":"S","requestId":5}}}}"#)
            .into_bytes()
    }

    #[test]
    fn a_request_that_crosses_the_end_of_its_turn_is_cancelled_and_nobody_is_asked() {
        for method in [
            "session/cancel",
            "session/close",
            "session/delete",
            "$/cancel_request",
        ] {
            let mut proxy = proxy();
            assert_eq!(proxy.line(Side::Client, PROMPT), Step::passing());
            let _asked = proxy.line(Side::Agent, &request("1"));
            let step = proxy.line(Side::Client, &cancel(method));
            assert!(step.passes);
            assert_eq!(outcome(&step.effects), "cancelled", "{method}");
            let late = proxy.line(Side::Agent, &request("2"));
            assert!(!late.passes && asks(&late).is_empty());
            assert_eq!(outcome(&late.effects), "cancelled", "{method}");
            let elsewhere = proxy.line(Side::Agent, &request_with("3", "T", &["allow_once"]));
            assert_eq!(asks(&elsewhere).len(), 1);
            // The turn has ended: what comes now is of another one.
            assert_eq!(proxy.line(Side::Agent, ENDED), Step::passing());
            assert_eq!(asks(&proxy.line(Side::Agent, &request("4"))).len(), 1);
        }
    }

    #[test]
    fn a_turn_that_begins_is_not_the_one_that_was_cancelled() {
        let mut proxy = proxy();
        let _begun = proxy.line(Side::Client, PROMPT);
        let _cancelled = proxy.line(Side::Client, &cancel("session/cancel"));
        let next = br#"{"id":7,"method":"session/prompt","params":{"sessionId":"S","prompt":[]}}"#;
        let _begun = proxy.line(Side::Client, next);
        assert_eq!(asks(&proxy.line(Side::Agent, &request("1"))).len(), 1);
        // Where no turn is under way, nothing is.
        let mut proxy = super::proxy();
        let _cancelled = proxy.line(Side::Client, &cancel("session/cancel"));
        assert_eq!(asks(&proxy.line(Side::Agent, &request("1"))).len(), 1);
    }
}
