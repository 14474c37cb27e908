//! The four wires: what of a request is a turn, and how moves are written.

use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::{Value, json};

use super::{Move, Told, Turn};

/// Said where no tool may be called. It is read as JSON where an agent asks which model to use.
pub(super) const SMALL_TALK: &str = r#"{"reasoning": "none", "model_choice": "flash", "complexity_reasoning": "none", "complexity_score": 1, "next_speaker": "user"}"#;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Wire {
    Messages,
    Responses,
    ChatCompletions,
    GeneratedContent,
}

/// The answer to what is no turn.
pub(super) fn aside(path: &str) -> Value {
    if path.contains("count") {
        return json!({ "input_tokens": 10, "totalTokens": 10 });
    }
    json!({ "object": "list", "data": [{ "id": "mock-model", "object": "model" }], "models": [] })
}

fn fresh(prefix: &str) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    format!("{prefix}_{:06}", NEXT.fetch_add(1, Ordering::Relaxed))
}

fn array(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// The text in a content, however it is wrapped.
fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            let texts: Vec<String> = parts.iter().map(text_of).collect();
            texts.join("\n")
        }
        Value::Object(part) => ["text", "content", "output"]
            .iter()
            .find_map(|name| part.get(*name))
            .map(text_of)
            .unwrap_or_default(),
        Value::Null | Value::Bool(_) | Value::Number(_) => String::new(),
    }
}

fn field(value: &Value, name: &str) -> String {
    value[name].as_str().unwrap_or_default().to_owned()
}

/// Names of the tools, those in a namespace under their own.
fn names(tools: &[Value]) -> Vec<String> {
    let mut names = Vec::new();
    for tool in tools {
        let function = tool.get("function").unwrap_or(tool);
        match array(&tool["tools"]) {
            [] => names.push(field(function, "name")),
            inner => names.extend(inner.iter().map(|tool| field(tool, "name"))),
        }
    }
    names
}

impl Wire {
    pub(super) fn of(path: &str) -> Option<Self> {
        let path = path.split('?').next()?;
        if path.ends_with("/v1/messages") {
            Some(Self::Messages)
        } else if path.ends_with("/responses") {
            Some(Self::Responses)
        } else if path.ends_with("/chat/completions") {
            Some(Self::ChatCompletions)
        } else if path.to_ascii_lowercase().ends_with("generatecontent") {
            Some(Self::GeneratedContent)
        } else {
            None
        }
    }

    pub(super) fn turn(self, body: &Value) -> Turn {
        match self {
            Self::Messages => messages_turn(body),
            Self::Responses => responses_turn(body),
            Self::ChatCompletions => chat_turn(body),
            Self::GeneratedContent => generated_turn(body),
        }
    }

    /// Kind of the content, and the content.
    pub(super) fn answer(self, path: &str, body: &Value, moves: &[Move]) -> (&'static str, String) {
        let streams = body["stream"] == true || path.contains("streamGenerateContent");
        let events = match self {
            Self::Messages => messages_answer(body, moves),
            Self::Responses => responses_answer(body, moves),
            Self::ChatCompletions => chat_answer(body, moves),
            Self::GeneratedContent => vec![generated_answer(moves)],
        };
        if !streams {
            let whole = events.last().map(|event| match self {
                Self::Messages => event["message"].clone(),
                Self::Responses => event["response"].clone(),
                Self::ChatCompletions | Self::GeneratedContent => event.clone(),
            });
            return ("application/json", whole.unwrap_or_default().to_string());
        }
        let written = events.iter().map(|event| match event["type"].as_str() {
            Some(name) => format!("event: {name}\ndata: {event}\n\n"),
            None => format!("data: {event}\n\n"),
        });
        let mut text: String = written.collect();
        if self == Self::ChatCompletions {
            text += "data: [DONE]\n\n";
        }
        ("text/event-stream", text)
    }
}

fn messages_turn(body: &Value) -> Turn {
    let mut turn = empty(names(array(&body["tools"])));
    let said = array(&body["messages"])
        .iter()
        .filter(|message| message["role"] == "user");
    for message in said {
        if let Some(text) = message["content"].as_str() {
            turn.say(text);
        }
        for block in array(&message["content"]) {
            if block["type"] == "tool_result" {
                turn.tell(field(block, "tool_use_id"), text_of(&block["content"]));
            } else {
                turn.say(&text_of(block));
            }
        }
    }
    turn
}

fn messages_answer(body: &Value, moves: &[Move]) -> Vec<Value> {
    let usage = json!({
        "input_tokens": 10, "output_tokens": 5, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0
    });
    let calls = moves.iter().any(|one| matches!(one, Move::Call(..)));
    let stop = if calls { "tool_use" } else { "end_turn" };
    let mut message = json!({
        "id": fresh("msg"), "type": "message", "role": "assistant", "model": body["model"], "content": [],
        "stop_reason": null, "stop_sequence": null, "usage": usage
    });
    let mut events = vec![json!({ "type": "message_start", "message": message })];
    let mut content = Vec::new();
    for (index, one) in moves.iter().enumerate() {
        let (block, start, delta) = match one {
            Move::Say(text) => (
                json!({ "type": "text", "text": text }),
                json!({ "type": "text", "text": "" }),
                json!({ "type": "text_delta", "text": text }),
            ),
            Move::Call(tool, input) => {
                let id = fresh("toolu");
                (
                    json!({ "type": "tool_use", "id": id, "name": tool, "input": input }),
                    json!({ "type": "tool_use", "id": id, "name": tool, "input": {} }),
                    json!({ "type": "input_json_delta", "partial_json": input.to_string() }),
                )
            }
        };
        content.push(block);
        events.extend([
            json!({ "type": "content_block_start", "index": index, "content_block": start }),
            json!({ "type": "content_block_delta", "index": index, "delta": delta }),
            json!({ "type": "content_block_stop", "index": index }),
        ]);
    }
    message["content"] = content.into();
    message["stop_reason"] = stop.into();
    events.push(json!({
        "type": "message_delta", "delta": { "stop_reason": stop, "stop_sequence": null }, "usage": { "output_tokens": 5 }
    }));
    if body["stream"] == true {
        events.push(json!({ "type": "message_stop" }));
    } else {
        events.push(json!({ "message": message }));
    }
    events
}

fn responses_turn(body: &Value) -> Turn {
    let mut turn = empty(names(array(&body["tools"])));
    if let Some(text) = body["input"].as_str() {
        turn.say(text);
    }
    for item in array(&body["input"]) {
        if item["role"] == "user" {
            turn.say(&text_of(&item["content"]));
        } else if field(item, "type").ends_with("_call_output") {
            turn.tell(field(item, "call_id"), text_of(&item["output"]));
        }
    }
    turn
}

/// The namespace that a tool is in, where it is in one.
fn namespace<'a>(body: &'a Value, tool: &str) -> Option<&'a Value> {
    let holds = |space: &&Value| {
        array(&space["tools"])
            .iter()
            .any(|inner| inner["name"] == tool)
    };
    Some(&array(&body["tools"]).iter().find(holds)?["name"])
}

fn responses_answer(body: &Value, moves: &[Move]) -> Vec<Value> {
    let id = fresh("resp");
    let mut events = vec![json!({
        "type": "response.created", "response": { "id": id, "object": "response", "status": "in_progress" }
    })];
    let mut items = Vec::new();
    for (index, one) in moves.iter().enumerate() {
        let (item, added) = match one {
            Move::Say(text) => {
                let item = json!({
                    "type": "message", "id": fresh("msg"), "role": "assistant", "status": "completed",
                    "content": [{ "type": "output_text", "text": text, "annotations": [] }]
                });
                let delta = json!({
                    "type": "response.output_text.delta", "item_id": item["id"], "output_index": index,
                    "content_index": 0, "delta": text
                });
                (item, delta)
            }
            Move::Call(tool, input) => {
                let arguments = input.to_string();
                let mut item = json!({
                    "type": "function_call", "id": fresh("fc"), "call_id": fresh("call"), "name": tool,
                    "arguments": arguments, "status": "completed"
                });
                if let Some(name) = namespace(body, tool) {
                    item["namespace"] = name.clone();
                }
                let delta = json!({
                    "type": "response.function_call_arguments.delta", "item_id": item["id"], "output_index": index,
                    "delta": arguments
                });
                (item, delta)
            }
        };
        events.extend([
            json!({ "type": "response.output_item.added", "output_index": index, "item": item }),
            added,
            json!({ "type": "response.output_item.done", "output_index": index, "item": item }),
        ]);
        items.push(item);
    }
    events.push(json!({
        "type": "response.completed",
        "response": {
            "id": id, "object": "response", "status": "completed", "output": items,
            "usage": {
                "input_tokens": 10, "input_tokens_details": { "cached_tokens": 0 },
                "output_tokens": 5, "output_tokens_details": { "reasoning_tokens": 0 }, "total_tokens": 15
            }
        }
    }));
    events
}

fn chat_turn(body: &Value) -> Turn {
    let mut turn = empty(names(array(&body["tools"])));
    for message in array(&body["messages"]) {
        let text = text_of(&message["content"]);
        match message["role"].as_str() {
            Some("user") => turn.say(&text),
            Some("tool") => turn.tell(field(message, "tool_call_id"), text),
            _ => {}
        }
    }
    turn
}

fn chat_answer(body: &Value, moves: &[Move]) -> Vec<Value> {
    let (mut said, mut calls) = (String::new(), Vec::new());
    for one in moves {
        match one {
            Move::Say(text) => said += text,
            Move::Call(tool, input) => calls.push(json!({
                "index": calls.len(), "id": fresh("call"), "type": "function",
                "function": { "name": tool, "arguments": input.to_string() }
            })),
        }
    }
    let finish = if calls.is_empty() {
        "stop"
    } else {
        "tool_calls"
    };
    let mut message = json!({ "role": "assistant", "content": said });
    if !calls.is_empty() {
        message["tool_calls"] = calls.into();
    }
    let usage = json!({ "prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15 });
    let base = |object: &str, choice: Value| {
        json!({
            "id": "chat_1", "object": object, "created": 1, "model": body["model"], "choices": [choice], "usage": usage
        })
    };
    if body["stream"] == true {
        return vec![
            base(
                "chat.completion.chunk",
                json!({ "index": 0, "delta": message, "finish_reason": null }),
            ),
            base(
                "chat.completion.chunk",
                json!({ "index": 0, "delta": {}, "finish_reason": finish }),
            ),
        ];
    }
    vec![base(
        "chat.completion",
        json!({ "index": 0, "message": message, "finish_reason": finish }),
    )]
}

fn generated_turn(body: &Value) -> Turn {
    let tools = array(&body["tools"])
        .iter()
        .flat_map(|tool| names(array(&tool["functionDeclarations"])));
    let mut turn = empty(tools.collect());
    for content in array(&body["contents"]) {
        for part in array(&content["parts"]) {
            if let Some(response) = part.get("functionResponse") {
                // There is no id on this wire that is always there.
                let call = format!("{}: {}", turn.results.len(), response["response"]);
                let result = &response["response"];
                let text = ["error", "output"]
                    .iter()
                    .find_map(|name| result[*name].as_str());
                turn.tell(call, text.map_or_else(|| result.to_string(), str::to_owned));
            } else if content["role"] == "user" {
                turn.say(&text_of(part));
            }
        }
    }
    turn
}

fn generated_answer(moves: &[Move]) -> Value {
    let part = |one: &Move| match one {
        Move::Say(text) => json!({ "text": text }),
        Move::Call(tool, input) => json!({ "functionCall": { "name": tool, "args": input } }),
    };
    let parts: Vec<Value> = moves.iter().map(part).collect();
    json!({
        "candidates": [{ "content": { "role": "model", "parts": parts }, "finishReason": "STOP", "index": 0 }],
        "usageMetadata": { "promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15 },
        "modelVersion": "mock-model"
    })
}

fn empty(tools: Vec<String>) -> Turn {
    Turn {
        prompt: String::new(),
        results: Vec::new(),
        tools,
    }
}

impl Turn {
    fn say(&mut self, text: &str) {
        self.prompt += text;
        self.prompt.push('\n');
    }

    fn tell(&mut self, call: String, text: String) {
        self.results.push(Told { call, text });
    }
}
