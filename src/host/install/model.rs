//! A model of a few lines, in the four languages that the hosts speak to theirs: it asks for one command once, and is content with
//! whatever comes of it. It proves what a host does with an answer of its hook, without anybody's model and key.
//!
//! A request in, a reply out; who carries them is no matter of this file.

use std::fmt::Write as _;

use serde_json::{Value, json};

/// What is sent back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// Media type.
    pub content_type: &'static str,
    /// The whole body.
    pub body: String,
    /// What the host says that came of the command, where it does.
    pub told: Option<String>,
}

/// The tools of the hosts that run a command line, in all their versions.
const SHELLS: [&str; 7] = [
    "Bash",
    "bash",
    "exec_command",
    "shell_command",
    "shell",
    "local_shell",
    "run_shell_command",
];

/// What the model answers to a request, which asks for `command`.
pub fn reply(path: &str, body: &Value, command: &str) -> Reply {
    let (path, _query) = path.split_once('?').unwrap_or((path, ""));
    if path.ends_with("/messages") {
        anthropic(body, command)
    } else if path.ends_with("/responses") {
        openai(body, command)
    } else if path.ends_with("/chat/completions") {
        completions(body, command)
    } else if path.contains("enerateContent") {
        gemini(path, body, command)
    } else if path.ends_with("/models") {
        json_reply(&json!({"object": "list", "data": [], "models": []}))
    } else {
        // Tokens that are counted, and whatever else a host wants to know.
        json_reply(&json!({"input_tokens": 10, "totalTokens": 10}))
    }
}

fn json_reply(value: &Value) -> Reply {
    Reply {
        content_type: "application/json",
        body: value.to_string(),
        told: None,
    }
}

/// Events of a stream, each with its type in it.
fn stream(events: &[Value]) -> String {
    let mut body = String::new();
    for event in events {
        let name = event
            .get("type")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let _written = write!(body, "event: {name}\ndata: {event}\n\n");
    }
    body
}

/// Every text in a value, one behind the other.
fn texts(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(all) => all.iter().map(texts).collect::<Vec<_>>().join("\n"),
        // The kind of a piece is no text of it.
        Value::Object(members) => (members.iter().filter(|(key, _)| *key != "type"))
            .map(|(_, value)| texts(value))
            .collect::<Vec<_>>()
            .join("\n"),
        Value::Null | Value::Bool(_) | Value::Number(_) => String::new(),
    }
}

fn elements<'v>(value: &'v Value, key: &str) -> impl Iterator<Item = &'v Value> {
    value
        .get(key)
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
}

fn text_at<'v>(value: &'v Value, key: &str) -> Option<&'v str> {
    value.get(key).and_then(Value::as_str)
}

fn shell_of<'v>(mut names: impl Iterator<Item = &'v str>) -> Option<&'v str> {
    names.find(|name| SHELLS.contains(name))
}

fn anthropic(body: &Value, command: &str) -> Reply {
    let content = elements(body, "messages").flat_map(|message| elements(message, "content"));
    let results = content.filter(|block| text_at(block, "type") == Some("tool_result"));
    let told = results
        .last()
        .and_then(|result| result.get("content"))
        .map(texts);
    let shell = shell_of(elements(body, "tools").filter_map(|tool| text_at(tool, "name")));
    let block = match shell.filter(|_| told.is_none()) {
        Some(shell) => json!({
            "type": "tool_use",
            "id": "toolu_doctor",
            "name": shell,
            "input": {"command": command, "description": "askrelay doctor"},
        }),
        None => json!({"type": "text", "text": "done"}),
    };
    let stop = if block.get("input").is_some() {
        "tool_use"
    } else {
        "end_turn"
    };
    let usage = json!({"input_tokens": 10, "output_tokens": 5});
    let message = |content: Value, stop: Value| {
        json!({
            "id": "msg_doctor",
            "type": "message",
            "role": "assistant",
            "model": text_at(body, "model").unwrap_or("doctor"),
            "content": content,
            "stop_reason": stop,
            "stop_sequence": null,
            "usage": usage,
        })
    };
    if body.get("stream") != Some(&Value::Bool(true)) {
        return Reply {
            told,
            ..json_reply(&message(json!([block]), stop.into()))
        };
    }
    let (start, delta) = match block.get("input") {
        Some(input) => {
            let mut start = block.clone();
            if let Some(start) = start.as_object_mut() {
                let _whole = start.insert("input".to_owned(), json!({}));
            }
            (
                start,
                json!({"type": "input_json_delta", "partial_json": input.to_string()}),
            )
        }
        None => (
            json!({"type": "text", "text": ""}),
            json!({"type": "text_delta", "text": "done"}),
        ),
    };
    let events = [
        json!({"type": "message_start", "message": message(json!([]), Value::Null)}),
        json!({"type": "content_block_start", "index": 0, "content_block": start}),
        json!({"type": "content_block_delta", "index": 0, "delta": delta}),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": null}, "usage": {"output_tokens": 5}}),
        json!({"type": "message_stop"}),
    ];
    Reply {
        content_type: "text/event-stream",
        body: stream(&events),
        told,
    }
}

fn openai(body: &Value, command: &str) -> Reply {
    let is_result =
        |item: &&Value| text_at(item, "type").is_some_and(|kind| kind.ends_with("_call_output"));
    let result = elements(body, "input").filter(is_result).last();
    let told = result.and_then(|result| result.get("output")).map(texts);
    let name_of = |tool: &Value| {
        let name = text_at(tool, "name").or_else(|| text_at(tool, "type"));
        name.map(str::to_owned)
    };
    let names: Vec<String> = elements(body, "tools").filter_map(name_of).collect();
    let item = match shell_of(names.iter().map(String::as_str)).filter(|_| told.is_none()) {
        Some(shell) => {
            let arguments = match shell {
                "exec_command" => json!({"cmd": command}),
                "shell" | "local_shell" => json!({"command": ["sh", "-c", command]}),
                _ => json!({"command": command}),
            };
            json!({
                "type": "function_call",
                "id": "fc_doctor",
                "call_id": "call_doctor",
                "name": shell,
                "arguments": arguments.to_string(),
                "status": "completed",
            })
        }
        None => json!({
            "type": "message",
            "id": "msg_doctor",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": "done", "annotations": []}],
        }),
    };
    let usage = json!({
        "input_tokens": 10,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": 5,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 15,
    });
    let events = [
        json!({"type": "response.created", "response": {"id": "resp_doctor", "object": "response", "status": "in_progress"}}),
        json!({"type": "response.output_item.added", "output_index": 0, "item": item}),
        json!({"type": "response.output_item.done", "output_index": 0, "item": item}),
        json!({"type": "response.completed", "response": {
            "id": "resp_doctor", "object": "response", "status": "completed", "output": [item], "usage": usage,
        }}),
    ];
    Reply {
        content_type: "text/event-stream",
        body: stream(&events),
        told,
    }
}

fn completions(body: &Value, command: &str) -> Reply {
    let results =
        elements(body, "messages").filter(|message| text_at(message, "role") == Some("tool"));
    let told = results
        .last()
        .and_then(|result| result.get("content"))
        .map(texts);
    let tools = elements(body, "tools").filter_map(|tool| text_at(tool.get("function")?, "name"));
    let (mut message, finish) = match shell_of(tools).filter(|_| told.is_none()) {
        Some(shell) => {
            let arguments = json!({"command": command, "description": "askrelay doctor"});
            let call = json!({
                "index": 0,
                "id": "call_doctor",
                "type": "function",
                "function": {"name": shell, "arguments": arguments.to_string()},
            });
            (json!({"content": null, "tool_calls": [call]}), "tool_calls")
        }
        None => (json!({"content": "done"}), "stop"),
    };
    if let Some(message) = message.as_object_mut() {
        let _none = message.insert("role".to_owned(), "assistant".into());
    }
    let usage = json!({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15});
    let model = text_at(body, "model").unwrap_or("doctor");
    let whole = |object: &str, choice: Value| {
        json!({
            "id": "chatcmpl_doctor",
            "object": object,
            "created": 1,
            "model": model,
            "choices": [choice],
            "usage": usage,
        })
    };
    if body.get("stream") != Some(&Value::Bool(true)) {
        let choice = json!({"index": 0, "message": message, "finish_reason": finish});
        return Reply {
            told,
            ..json_reply(&whole("chat.completion", choice))
        };
    }
    let object = "chat.completion.chunk";
    let first = whole(
        object,
        json!({"index": 0, "delta": message, "finish_reason": null}),
    );
    let last = whole(
        object,
        json!({"index": 0, "delta": {}, "finish_reason": finish}),
    );
    Reply {
        content_type: "text/event-stream",
        body: format!("data: {first}\n\ndata: {last}\n\ndata: [DONE]\n\n"),
        told,
    }
}

fn gemini(path: &str, body: &Value, command: &str) -> Reply {
    let parts = elements(body, "contents").flat_map(|content| elements(content, "parts"));
    let results = parts.filter_map(|part| part.get("functionResponse"));
    let told = results
        .last()
        .and_then(|result| result.get("response"))
        .map(texts);
    let mut tools = elements(body, "tools")
        .flat_map(|tool| elements(tool, "functionDeclarations"))
        .peekable();
    let part = if tools.peek().is_none() {
        // It asks which model is to be asked, and who speaks next.
        let text = json!({
            "reasoning": "doctor",
            "model_choice": "flash",
            "complexity_reasoning": "doctor",
            "complexity_score": 1,
            "next_speaker": "user",
        });
        json!({"text": text.to_string()})
    } else {
        let shell = shell_of(tools.filter_map(|tool| text_at(tool, "name")));
        match shell.filter(|_| told.is_none()) {
            Some(shell) => json!({"functionCall": {
                "name": shell,
                "args": {"command": command, "description": "askrelay doctor"},
            }}),
            None => json!({"text": "done"}),
        }
    };
    let answer = json!({
        "candidates": [{"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}],
        "usageMetadata": {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15},
        "modelVersion": "doctor",
    });
    if path.contains(":streamGenerateContent") {
        Reply {
            content_type: "text/event-stream",
            body: format!("data: {answer}\r\n\r\n"),
            told,
        }
    } else {
        Reply {
            told,
            ..json_reply(&answer)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_language_is_asked_for_the_command_once_and_says_what_came_of_it() {
        let requests = [
            (
                "/v1/messages?beta=true",
                json!({"stream": true, "tools": [{"name": "Read"}, {"name": "Bash"}], "messages": [{"role": "user", "content": "go"}]}),
                json!({"stream": true, "tools": [{"name": "Bash"}], "messages": [{"role": "user", "content": [{"type": "tool_result", "content": [{"type": "text", "text": "came"}]}]}]}),
            ),
            (
                "/v1/responses",
                json!({"tools": [{"type": "function", "name": "exec_command"}], "input": [{"role": "user", "content": "go"}]}),
                json!({"tools": [{"type": "function", "name": "exec_command"}], "input": [{"type": "function_call_output", "output": "came"}]}),
            ),
            (
                "/v1/chat/completions",
                json!({"stream": true, "tools": [{"type": "function", "function": {"name": "bash"}}], "messages": [{"role": "user", "content": "go"}]}),
                json!({"tools": [{"type": "function", "function": {"name": "bash"}}], "messages": [{"role": "tool", "content": "came"}]}),
            ),
            (
                "/v1beta/models/m:streamGenerateContent?alt=sse",
                json!({"tools": [{"functionDeclarations": [{"name": "run_shell_command"}]}], "contents": []}),
                json!({"tools": [{"functionDeclarations": [{"name": "run_shell_command"}]}], "contents": [{"parts": [{"functionResponse": {"response": {"output": "came"}}}]}]}),
            ),
        ];
        for (path, first, second) in requests {
            let asked = reply(path, &first, "echo \"x\"");
            assert!(
                asked.body.contains("echo") && asked.told.is_none(),
                "{asked:?}"
            );
            let content = reply(path, &second, "echo \"x\"");
            assert!(!content.body.contains("echo"), "{content:?}");
            assert_eq!(content.told.as_deref(), Some("came"));
            // Without a shell there is nothing to ask for.
            let bare = reply(
                path,
                &json!({"stream": true, "tools": [{"name": "Read"}]}),
                "echo",
            );
            assert!(!bare.body.contains("echo"), "{bare:?}");
        }
    }
}
