//! What passed by and helps to show an ask: the directory of each session, and what was said of a call before permission was asked.
//!
//! It is bounded: what is forgotten costs an ask some of its evidence, and nothing else.

use std::collections::VecDeque;

use memchr::memmem;
use serde_json::{Value, json};

use super::call::Call;
use super::message::Message;
use super::{Id, Side};

/// How many sessions, calls, and requests for a session are kept in mind.
const SESSIONS: usize = 1024;
const CALLS: usize = 64;
const OPENING: usize = 64;

/// Most bytes of an update that is kept in mind.
const MOST_OF_CALL: usize = 1 << 20;

/// The agent that shows a command, whole and as it is, in the title of a call and nowhere else, and beside it where it would run.
const TITLE_IS_COMMAND: &str = "gemini-cli";

#[derive(Debug, Default)]
pub(super) struct Seen {
    /// Sessions with their directories, the latest last.
    sessions: VecDeque<(String, String)>,
    /// Requests of the client that open a session, with the directory that it will have.
    opening: VecDeque<(String, String)>,
    /// The id of the request that the agent answers with its name.
    greeting: Option<String>,
    /// Whether the title of an execution is its command.
    title_is_command: bool,
    /// Calls by session and id, the latest last.
    calls: VecDeque<((String, String), Value)>,
}

impl Seen {
    /// Looks at a message that passes.
    pub(super) fn look(&mut self, from: Side, message: &Message<'_>) {
        match (from, message.method.as_deref()) {
            (Side::Client, Some("initialize")) => {
                self.greeting = message.id.as_ref().map(|id| id.key().to_owned());
            }
            (
                Side::Client,
                Some("session/new" | "session/load" | "session/resume" | "session/fork"),
            ) => self.opens(message),
            (Side::Agent, None) => {
                if let Some(id) = &message.id {
                    self.opened(id, message);
                }
            }
            (Side::Agent, Some("session/update")) => self.update(message),
            (_, _) => {}
        }
    }

    /// The directory of a session.
    pub(super) fn directory(&self, session: &str) -> Option<&str> {
        let mut sessions = self.sessions.iter().rev();
        let found = sessions.find(|(id, _)| id == session)?;
        Some(&found.1)
    }

    /// The call that permission is asked for: what the request says of it, and beneath that what was said before.
    pub(super) fn call(&self, session: &str, tool_call: &Value) -> Call {
        let before = tool_call
            .get("toolCallId")
            .and_then(Value::as_str)
            .and_then(|id| {
                let mut calls = self.calls.iter().rev();
                calls.find(|((of, call), _)| of == session && call == id)
            });
        let mut merged = before.map_or_else(|| json!({}), |(_, before)| before.clone());
        let earlier = Call::of(&merged).directory;
        lay_over(&mut merged, tool_call);
        if self.title_is_command {
            command_from_title(&mut merged);
        }
        let mut call = Call::of(&merged);
        call.directory = call.directory.or(earlier);
        call
    }

    fn opens(&mut self, message: &Message<'_>) {
        let Some(params) = parsed(message.params) else {
            return;
        };
        let text = |key: &str| Some(params.get(key)?.as_str()?.to_owned());
        let Some(directory) = text("cwd") else {
            return;
        };
        if let (Some(session), true) = (
            text("sessionId"),
            message.method.as_deref() != Some("session/fork"),
        ) {
            remember(&mut self.sessions, SESSIONS, (session, directory.clone()));
        }
        if let Some(id) = &message.id {
            remember(&mut self.opening, OPENING, (id.key().to_owned(), directory));
        }
    }

    fn opened(&mut self, id: &Id, message: &Message<'_>) {
        if self.greeting.as_deref() == Some(id.key()) {
            self.greeting = None;
            let name = parsed(message.result).and_then(|result| {
                Some(result.pointer("/agentInfo/name")?.as_str()? == TITLE_IS_COMMAND)
            });
            self.title_is_command = name == Some(true);
            return;
        }
        let Some(at) = self
            .opening
            .iter()
            .position(|(opening, _)| opening == id.key())
        else {
            return;
        };
        let Some((_, directory)) = self.opening.remove(at) else {
            return;
        };
        let session = parsed(message.result)
            .and_then(|result| Some(result.get("sessionId")?.as_str()?.to_owned()));
        if let Some(session) = session {
            remember(&mut self.sessions, SESSIONS, (session, directory));
        }
    }

    fn update(&mut self, message: &Message<'_>) {
        // Most updates are pieces of text, and there are many.
        let Some(raw) = message.params.filter(|raw| {
            raw.get().len() <= MOST_OF_CALL
                && memmem::find(raw.get().as_bytes(), b"tool_call").is_some()
        }) else {
            return;
        };
        let Some(params) = parsed(Some(raw)) else {
            return;
        };
        let (session, update) = (params.get("sessionId"), params.get("update"));
        let (Some(session), Some(update)) = (session.and_then(Value::as_str), update) else {
            return;
        };
        let text = |key: &str| update.get(key).and_then(Value::as_str);
        let Some("tool_call" | "tool_call_update") = text("sessionUpdate") else {
            return;
        };
        let Some(id) = text("toolCallId") else {
            return;
        };
        let key = (session.to_owned(), id.to_owned());
        let at = self.calls.iter().position(|(known, _)| *known == key);
        let known = at.and_then(|at| self.calls.remove(at));
        if matches!(text("status"), Some("completed" | "failed")) {
            return;
        }
        // One that is announced anew is another one by the same id, and nothing of the earlier one is true of it.
        let known = known.filter(|_| text("sessionUpdate") == Some("tool_call_update"));
        let mut call = known.map_or_else(|| json!({}), |(_, call)| call);
        lay_over(&mut call, update);
        remember(&mut self.calls, CALLS, (key, call));
    }
}

/// Lays what is said now over what was said before. A null says nothing.
fn lay_over(before: &mut Value, now: &Value) {
    let (Some(before), Some(now)) = (before.as_object_mut(), now.as_object()) else {
        return;
    };
    for (key, value) in now.iter().filter(|(_, value)| !value.is_null()) {
        before.insert(key.clone(), value.clone());
    }
}

/// The command of an execution and its directory, from where this agent shows them. Where it cannot be told in which directory it would
/// run, the command is left unseen: rules would be held against other files than it works on.
fn command_from_title(tool_call: &mut Value) {
    let text = |key: &str| Some(tool_call.get(key)?.as_str()?.to_owned());
    let raw = tool_call.get("rawInput").is_some_and(|raw| !raw.is_null());
    let (Some("execute"), Some(command), false) = (text("kind").as_deref(), text("title"), raw)
    else {
        return;
    };
    let input = match explained(tool_call) {
        Some(Place::OfSession) => json!({"command": command}),
        Some(Place::In(directory)) => json!({"command": command, "cwd": directory}),
        None => return,
    };
    lay_over(tool_call, &json!({"rawInput": input}));
}

/// Where a command runs, as this agent explains it.
enum Place<'a> {
    OfSession,
    In(&'a str),
}

/// Reads `[current working directory …]` or `[in DIRECTORY]`, with a description behind, in words of the model. Both may hold any
/// character, so a second bracket leaves open where the directory ends. An older version explains nothing and decorates the title.
fn explained(tool_call: &Value) -> Option<Place<'_>> {
    let text = tool_call.pointer("/content/0/content/text")?.as_str()?;
    if text.starts_with("[current working directory ") {
        return Some(Place::OfSession);
    }
    let (directory, rest) = text.strip_prefix("[in ")?.split_once(']')?;
    let is_clear = !directory.is_empty() && !rest.contains(']');
    is_clear.then_some(Place::In(directory))
}

pub(super) fn parsed(raw: Option<&serde_json::value::RawValue>) -> Option<Value> {
    serde_json::from_str(raw?.get()).ok()
}

pub(super) fn remember<T>(list: &mut VecDeque<T>, most: usize, item: T) {
    while list.len() >= most {
        list.pop_front();
    }
    list.push_back(item);
}
