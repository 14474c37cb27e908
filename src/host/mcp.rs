//! MCP: the tools that askrelay has for agents, as values: what they take, and what they answer.
//!
//! `approve` is what Claude Code calls for each permission that it needs under `--permission-prompt-tool`; `ask` is for any agent
//! that wants to ask before it does something. How messages come and go is for whoever speaks the protocol.
//!
//! # Invariants
//!
//! * Arguments that cannot be read are never an allow: `approve` denies, `ask` says what is wrong with them.
//! * A denial is a normal result. An error could pass for something that is worth another try.
//! * What is allowed is what was asked about: the input goes back as it came, or not at all.

use serde_json::{Map, Value, json};

use crate::wire::{Evidence, tool_input_from_json};

/// The tool for `--permission-prompt-tool`.
pub const APPROVE: &str = "approve";
/// The tool for agents that ask by themselves.
pub const ASK: &str = "ask";

/// A line that came in, as the message that it is.
#[derive(Debug, Clone, PartialEq)]
pub enum Incoming {
    /// It is no message, and nobody waits for an answer to it.
    Nothing(String),
    /// It is none that can be used, and somebody may wait for an answer.
    Refused {
        /// The id of the request, null where it has none.
        id: Value,
        /// What is wrong with it.
        why: String,
    },
    /// A request.
    Request {
        /// Its id.
        id: Value,
        /// What is wanted.
        method: String,
        /// With what.
        params: Option<Value>,
    },
    /// A notification.
    Notification {
        /// What is told.
        method: String,
        /// With what.
        params: Option<Value>,
    },
    /// The answer to a request of ours.
    Response {
        /// Its id.
        id: Value,
        /// The answer.
        result: Value,
    },
    /// A request of ours that failed.
    Failure {
        /// Its id.
        id: Value,
        /// What is said of it.
        message: String,
    },
}

/// Reads a line. What two readers could see differently (a member that stands there twice, text that is no Unicode) is refused, for a
/// call could be shown as another than the one that is made.
pub fn read(line: &[u8]) -> Incoming {
    let line = line.trim_ascii();
    if line.is_empty() {
        return Incoming::Nothing("it is empty".to_owned());
    }
    let mut message = match tool_input_from_json(line) {
        Ok(Value::Object(message)) => message,
        Ok(_) => {
            return Incoming::Refused {
                id: Value::Null,
                why: "a message must be one JSON object".to_owned(),
            };
        }
        Err(unusable) => return unreadable(line, &unusable.to_string()),
    };
    let method = message.remove("method");
    let method = method.as_ref().and_then(Value::as_str).map(str::to_owned);
    let params = message.remove("params").filter(|params| !params.is_null());
    match (message.remove("id"), method) {
        (Some(id), Some(method)) => Incoming::Request { id, method, params },
        (None, Some(method)) => Incoming::Notification { method, params },
        (Some(id), None) => match (
            message.remove("result"),
            message.get("error").filter(|error| !error.is_null()),
        ) {
            // What says both says neither.
            (Some(_), Some(_)) => Incoming::Failure {
                id,
                message: "the reply is a result and an error".to_owned(),
            },
            (Some(result), None) => Incoming::Response { id, result },
            (None, Some(error)) => {
                let text = error.get("message").and_then(Value::as_str);
                let message = text.unwrap_or("it is not said why").to_owned();
                Incoming::Failure { id, message }
            }
            (None, None) => Incoming::Refused {
                id,
                why: "a message must have a method, a result or an error".to_owned(),
            },
        },
        (None, None) => Incoming::Refused {
            id: Value::Null,
            why: "a message must have a method or an id".to_owned(),
        },
    }
}

/// A line that is not read. Where it is JSON, whoever sent it may wait for an answer.
fn unreadable(line: &[u8], why: &str) -> Incoming {
    match serde_json::from_slice::<Value>(line) {
        Ok(value) => Incoming::Refused {
            id: value.get("id").cloned().unwrap_or_default(),
            why: format!("the message is unusable: {why}"),
        },
        Err(_) => Incoming::Nothing(why.to_owned()),
    }
}

/// A call of a tool that is asked about.
#[derive(Debug, Clone, PartialEq)]
pub struct Asked {
    /// Name of the tool, as its agent calls it.
    pub tool: String,
    /// Its input.
    pub input: Map<String, Value>,
    /// The directory that it would run in, where it is named.
    pub directory: Option<String>,
    /// What the asker adds.
    pub evidence: Vec<Evidence>,
}

/// Why arguments cannot be used. Its text is for the model that wrote them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unusable {
    /// There is no tool of this name here.
    #[error("there is no tool {0:?} here, only \"ask\" and \"approve\"")]
    NoSuchTool(String),
    /// An argument is missing, or is something else than it should be.
    #[error("the argument {name:?} must be {what}")]
    Argument {
        /// Its name.
        name: &'static str,
        /// What it must be.
        what: &'static str,
    },
    /// An argument that is not known: what it was meant to say would not be heard.
    #[error("there is no argument {0:?}; there are \"tool\", \"input\", \"why\" and \"cwd\"")]
    NoSuchArgument(String),
}

/// Reads the arguments of `approve`.
pub fn approval_of(arguments: &Map<String, Value>) -> Result<Asked, Unusable> {
    Ok(Asked {
        tool: text(arguments, "tool_name")?,
        input: object(arguments, "input")?,
        directory: None,
        evidence: Vec::new(),
    })
}

/// Reads the arguments of `ask`.
pub fn ask_of(arguments: &Map<String, Value>) -> Result<Asked, Unusable> {
    let known = ["tool", "input", "why", "cwd"];
    if let Some(other) = arguments.keys().find(|key| !known.contains(&key.as_str())) {
        return Err(Unusable::NoSuchArgument(other.clone()));
    }
    let why = optional(arguments, "why")?;
    Ok(Asked {
        tool: text(arguments, "tool")?,
        input: object(arguments, "input")?,
        directory: optional(arguments, "cwd")?,
        evidence: why
            .into_iter()
            .map(|text| Evidence {
                label: "asker's words".to_owned(),
                text,
                detail: None,
            })
            .collect(),
    })
}

fn text(arguments: &Map<String, Value>, name: &'static str) -> Result<String, Unusable> {
    let found = arguments.get(name).and_then(Value::as_str);
    let found = found.filter(|text| !text.trim().is_empty());
    found.map(str::to_owned).ok_or(Unusable::Argument {
        name,
        what: "a text that is not empty",
    })
}

fn optional(
    arguments: &Map<String, Value>,
    name: &'static str,
) -> Result<Option<String>, Unusable> {
    match arguments.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(_) => text(arguments, name).map(Some),
    }
}

fn object(
    arguments: &Map<String, Value>,
    name: &'static str,
) -> Result<Map<String, Value>, Unusable> {
    let found = arguments.get(name).and_then(Value::as_object);
    found.cloned().ok_or(Unusable::Argument {
        name,
        what: "an object",
    })
}

/// What `approve` answers where the call may be made. The input goes back as it came, as older clients want it; not where a number in
/// it may have been rounded on the way, for then it would not be what was asked about.
pub fn allow_text(input: &Map<String, Value>) -> String {
    let mut answer = Map::new();
    answer.insert("behavior".to_owned(), "allow".into());
    if input.values().all(is_exact) {
        answer.insert("updatedInput".to_owned(), Value::Object(input.clone()));
    }
    Value::Object(answer).to_string()
}

/// What `approve` answers where it may not, with what the model reads of it.
pub fn deny_text(message: &str) -> String {
    json!({"behavior": "deny", "message": message}).to_string()
}

/// Whether a value is the same after it was read and written.
fn is_exact(value: &Value) -> bool {
    match value {
        Value::Number(number) => !number.is_f64(),
        Value::Array(items) => items.iter().all(is_exact),
        Value::Object(members) => members.values().all(is_exact),
        Value::Null | Value::Bool(_) | Value::String(_) => true,
    }
}

/// The result of a call whose answer is a text alone.
pub fn text_result(text: &str) -> Value {
    json!({"content": [{"type": "text", "text": text}]})
}

/// The result of a call of `ask`: the text for the model, and the whole decision for programs. A denial is no error.
pub fn decision_result(text: &str, decision: &Value) -> Value {
    json!({"content": [{"type": "text", "text": text}], "structuredContent": decision, "isError": false})
}

/// The result of a call that could not be made as it was written.
pub fn unusable_result(unusable: &Unusable) -> Value {
    json!({"content": [{"type": "text", "text": unusable.to_string()}], "isError": true})
}

/// The news of a call that waits: that it does, and for how long by now.
pub fn progress(token: &Value, seconds: u64, message: &str) -> Value {
    json!({"progressToken": token, "progress": seconds, "message": message})
}

/// The token under which whoever calls wants to hear of progress.
pub fn progress_token(params: &Value) -> Option<&Value> {
    let token = params.pointer("/_meta/progressToken")?;
    (token.is_string() || token.is_number()).then_some(token)
}

/// A call of a tool as the protocol has it: its name and its arguments.
pub fn call_of(params: &Value) -> (&str, Map<String, Value>) {
    let name = params
        .get("name")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let arguments = params.get("arguments").and_then(Value::as_object);
    (name, arguments.cloned().unwrap_or_default())
}

/// The tools, as they are listed.
pub fn tools() -> Value {
    json!({"tools": [
        {
            "name": APPROVE,
            "title": "Approve a tool call",
            "description": "For the client's own use as its permission prompt (--permission-prompt-tool). Forwards the permission \
                            request for one tool call to the session in charge, waits, and returns its decision. Do not call it \
                            yourself.",
            "inputSchema": {
                "type": "object",
                "properties": {
                    "tool_name": {"type": "string", "description": "Name of the tool that wants to run"},
                    "input": {"type": "object", "description": "Its input"},
                    "tool_use_id": {"type": "string", "description": "Id of the call"},
                },
                "required": ["tool_name", "input"],
            },
        },
        {
            "name": ASK,
            "title": "Ask for permission",
            "description": "Ask the session in charge whether one tool call may be made, before you make it. Waits until a rule or a \
                            person there has decided; that can take minutes. If the answer says approved, make exactly this call, \
                            once. If it says anything else, do not make the call, and do not ask again for the same: the reason \
                            says what to do instead.",
            "inputSchema": {
                "type": "object",
                "properties": {
                    "tool": {
                        "type": "string",
                        "description": "What would be called: bash for a command, read, write or edit for a file, \
                                        mcp__SERVER__TOOL for a tool of an MCP server, or the name of any other tool",
                    },
                    "input": {
                        "type": "object",
                        "description": "The input of that call, complete: {\"command\": …} for bash, {\"path\": …} for read, \
                                        {\"path\": …, \"content\": …} for write, {\"path\": …, \"oldText\": …, \"newText\": …} \
                                        for edit",
                    },
                    "why": {"type": "string", "description": "Why it is needed, in a sentence, for whoever decides"},
                    "cwd": {"type": "string", "description": "Directory that it would run in, if not this server's own"},
                },
                "required": ["tool", "input"],
                "additionalProperties": false,
            },
            "outputSchema": {
                "type": "object",
                "properties": {
                    "requestId": {"type": "string"},
                    "approved": {"type": "boolean", "description": "Whether the call may be made"},
                    "state": {"type": "string"},
                    "denialReason": {"type": ["string", "null"]},
                    "confirmationUnavailable": {"type": "boolean", "description": "Whether nobody ruled at all"},
                    "resolution": {"type": "string", "description": "Who or what decided"},
                    "decidedBy": {"type": "object"},
                },
                "required": ["requestId", "approved", "state", "resolution", "decidedBy"],
            },
        },
    ]})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(value: &Value) -> Map<String, Value> {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn a_line_is_the_message_that_it_is() {
        let id = || json!(7);
        for (line, expected) in [
            (
                r#"{"jsonrpc":"2.0","id":7,"method":"ping"}"#,
                Incoming::Request {
                    id: id(),
                    method: "ping".into(),
                    params: None,
                },
            ),
            (
                r#" {"method":"x","params":{"a":1}} "#,
                Incoming::Notification {
                    method: "x".into(),
                    params: Some(json!({"a": 1})),
                },
            ),
            (
                r#"{"id":7,"result":null}"#,
                Incoming::Response {
                    id: id(),
                    result: Value::Null,
                },
            ),
            (
                r#"{"id":7,"error":{"code":1,"message":"no"}}"#,
                Incoming::Failure {
                    id: id(),
                    message: "no".into(),
                },
            ),
        ] {
            assert_eq!(read(line.as_bytes()), expected, "{line}");
        }
        let both =
            read(br#"{"id":7,"result":{"action":"accept"},"error":{"code":1,"message":"no"}}"#);
        assert!(matches!(both, Incoming::Failure { .. }), "{both:?}");
        for line in [
            r#"{"id":7,"id":7,"method":"a"}"#,
            r#"{"id":7,"method":"a","params":{"x":{"y":1,"y":2}}}"#,
            r#"{"id":7}"#,
        ] {
            assert!(
                matches!(read(line.as_bytes()), Incoming::Refused { id, .. } if id == 7),
                "{line}"
            );
        }
        for line in ["[]", "7", "{}", r#"[{"id":1,"method":"ping"}]"#] {
            assert!(
                matches!(
                    read(line.as_bytes()),
                    Incoming::Refused {
                        id: Value::Null,
                        ..
                    }
                ),
                "{line}"
            );
        }
        for line in [
            &b""[..],
            b"\n",
            b"Starting up",
            b"{",
            b"{\"id\":1,\"method\":\"\xff\"}",
        ] {
            assert!(
                matches!(read(line), Incoming::Nothing(_)),
                "{}",
                line.escape_ascii()
            );
        }
    }

    #[test]
    fn what_claude_code_sends_is_the_call_that_it_would_make() {
        let asked = approval_of(&arguments(&json!({
            "tool_name": "Bash", "input": {"command": "make", "description": "build"}, "tool_use_id": "toolu_1",
        })));
        let asked = asked.unwrap();
        assert_eq!(asked.tool, "Bash");
        assert_eq!(
            Value::Object(asked.input),
            json!({"command": "make", "description": "build"})
        );
    }

    #[test]
    fn arguments_that_cannot_be_read_say_which() {
        for wrong in [
            json!({}),
            json!({"tool_name": "", "input": {}}),
            json!({"tool_name": 7, "input": {}}),
            json!({"tool_name": "Bash"}),
            json!({"tool_name": "Bash", "input": "make"}),
        ] {
            assert!(approval_of(&arguments(&wrong)).is_err(), "{wrong}");
        }
        let said = |value: Value| ask_of(&arguments(&value)).unwrap_err().to_string();
        assert!(said(json!({"tool": "bash"})).contains("\"input\" must be an object"));
        assert!(said(json!({"input": {}})).contains("\"tool\" must be a text"));
        assert!(
            said(json!({"tool": "bash", "input": {}, "command": "ls"}))
                .contains("no argument \"command\"")
        );
        assert!(said(json!({"tool": "bash", "input": {}, "why": 7})).contains("\"why\""));
        assert!(
            ask_of(&arguments(
                &json!({"tool": "bash", "input": {}, "why": null})
            ))
            .is_ok()
        );
    }

    #[test]
    fn what_the_asker_says_is_marked_as_the_askers_words() {
        let asked = ask_of(&arguments(
            &json!({"tool": "bash", "input": {"command": "ls"}, "why": "to see", "cwd": "/w"}),
        ));
        let asked = asked.unwrap();
        assert_eq!(asked.directory.as_deref(), Some("/w"));
        assert_eq!(
            (
                asked.evidence[0].label.as_str(),
                asked.evidence[0].text.as_str()
            ),
            ("asker's words", "to see")
        );
    }

    #[test]
    fn an_input_goes_back_as_it_came_or_not_at_all() {
        let input = arguments(&json!({"z": 1, "a": ["x", {"n": null}], "big": u64::MAX}));
        let answer: Value = serde_json::from_str(&allow_text(&input)).unwrap();
        assert_eq!(
            answer,
            json!({"behavior": "allow", "updatedInput": {"z": 1, "a": ["x", {"n": null}], "big": u64::MAX}})
        );
        assert!(allow_text(&input).contains(r#"{"z":1,"a""#));
        // Read as a number, this one has lost its last digits.
        let rounded: Value =
            serde_json::from_str(r#"{"a": [{"n": 123456789012345678901234567890}]}"#).unwrap();
        assert_eq!(allow_text(&arguments(&rounded)), r#"{"behavior":"allow"}"#);
    }

    #[test]
    fn every_required_member_of_a_schema_is_one_of_its_members() {
        let tools = tools();
        for tool in tools["tools"].as_array().unwrap() {
            for schema in ["inputSchema", "outputSchema"]
                .iter()
                .filter_map(|name| tool.get(name))
            {
                for required in schema["required"].as_array().unwrap() {
                    assert!(
                        schema["properties"]
                            .get(required.as_str().unwrap())
                            .is_some(),
                        "{tool}"
                    );
                }
            }
        }
    }
}
