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

use crate::wire::Evidence;

/// The tool for `--permission-prompt-tool`.
pub const APPROVE: &str = "approve";
/// The tool for agents that ask by themselves.
pub const ASK: &str = "ask";

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

/// A tool as it is listed.
#[derive(Debug, Clone, PartialEq)]
pub struct Listed {
    /// Its name.
    pub name: &'static str,
    /// What people read.
    pub title: &'static str,
    /// What a model reads.
    pub description: &'static str,
    /// Schema of its arguments.
    pub input: Map<String, Value>,
    /// Schema of its structured result.
    pub output: Option<Map<String, Value>>,
}

/// The tools.
pub fn tools() -> [Listed; 2] {
    [
        Listed {
            name: APPROVE,
            title: "Approve a tool call",
            description: "For the client's own use as its permission prompt (--permission-prompt-tool). Forwards the permission request \
                          for one tool call to the session in charge, waits, and returns its decision. Do not call it yourself.",
            input: members(json!({
                "type": "object",
                "properties": {
                    "tool_name": {"type": "string", "description": "Name of the tool that wants to run"},
                    "input": {"type": "object", "description": "Its input"},
                    "tool_use_id": {"type": "string", "description": "Id of the call"},
                },
                "required": ["tool_name", "input"],
            })),
            output: None,
        },
        Listed {
            name: ASK,
            title: "Ask for permission",
            description: "Ask the session in charge whether one tool call may be made, before you make it. Waits until a rule or a \
                          person there has decided; that can take minutes. If the answer says approved, make exactly this call, once. \
                          If it says anything else, do not make the call, and do not ask again for the same: the reason says what to do \
                          instead.",
            input: members(json!({
                "type": "object",
                "properties": {
                    "tool": {
                        "type": "string",
                        "description": "What would be called: bash for a command, read, write or edit for a file, mcp__SERVER__TOOL for a \
                                        tool of an MCP server, or the name of any other tool",
                    },
                    "input": {
                        "type": "object",
                        "description": "The input of that call, complete: {\"command\": …} for bash, {\"path\": …} for read, \
                                        {\"path\": …, \"content\": …} for write, {\"path\": …, \"oldText\": …, \"newText\": …} for edit",
                    },
                    "why": {"type": "string", "description": "Why it is needed, in a sentence, for whoever decides"},
                    "cwd": {"type": "string", "description": "Directory that it would run in, if not this server's own"},
                },
                "required": ["tool", "input"],
                "additionalProperties": false,
            })),
            output: Some(members(json!({
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
            }))),
        },
    ]
}

fn members(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(members) => members,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            Map::new()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(value: Value) -> Map<String, Value> {
        members(value)
    }

    #[test]
    fn what_claude_code_sends_is_the_call_that_it_would_make() {
        let asked = approval_of(&arguments(json!({
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
            assert!(approval_of(&arguments(wrong.clone())).is_err(), "{wrong}");
        }
        let said = |value| ask_of(&arguments(value)).unwrap_err().to_string();
        assert!(said(json!({"tool": "bash"})).contains("\"input\" must be an object"));
        assert!(said(json!({"input": {}})).contains("\"tool\" must be a text"));
        assert!(
            said(json!({"tool": "bash", "input": {}, "command": "ls"}))
                .contains("no argument \"command\"")
        );
        assert!(said(json!({"tool": "bash", "input": {}, "why": 7})).contains("\"why\""));
        assert!(
            ask_of(&arguments(
                json!({"tool": "bash", "input": {}, "why": null})
            ))
            .is_ok()
        );
    }

    #[test]
    fn what_the_asker_says_is_marked_as_the_askers_words() {
        let asked = ask_of(&arguments(
            json!({"tool": "bash", "input": {"command": "ls"}, "why": "to see", "cwd": "/w"}),
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
        let input = arguments(json!({"z": 1, "a": ["x", {"n": null}], "big": u64::MAX}));
        let answer: Value = serde_json::from_str(&allow_text(&input)).unwrap();
        assert_eq!(
            answer,
            json!({"behavior": "allow", "updatedInput": {"z": 1, "a": ["x", {"n": null}], "big": u64::MAX}})
        );
        assert!(allow_text(&input).contains(r#"{"z":1,"a""#));
        // Read as a number, this one has lost its last digits.
        let rounded: Value =
            serde_json::from_str(r#"{"a": [{"n": 123456789012345678901234567890}]}"#).unwrap();
        assert_eq!(allow_text(&arguments(rounded)), r#"{"behavior":"allow"}"#);
    }

    #[test]
    fn every_required_member_of_a_schema_is_one_of_its_members() {
        for tool in tools() {
            for schema in [Some(tool.input), tool.output].into_iter().flatten() {
                let members = schema["properties"].as_object().unwrap();
                for required in schema["required"].as_array().unwrap() {
                    assert!(
                        members.contains_key(required.as_str().unwrap()),
                        "{}",
                        tool.name
                    );
                }
            }
        }
    }
}
