//! Hooks: what a host hands to a program before it calls a tool, and what it takes for an answer.
//!
//! A host starts the hook with one JSON object on its standard input and reads one from its output. [`read`] says what the first is,
//! [`answer`] makes the second. Hosts take silence, a crash and an answer that they do not understand for "go on", so whoever runs a hook
//! has an [`Verdict`] on every path.
//!
//! # Two kinds of gates
//!
//! One event comes before every call, another only where the host itself would ask a person. The first is where rules are held against
//! a call ([`Reach::Rules`]), the second where somebody is asked ([`Reach::All`]). Where a host asks nobody, by its mode or because it
//! has no such event, the first has to do both.

use std::path::PathBuf;

use serde_json::Value;

use super::{Subagent, ToolCall, claude_code, codex, gemini, opencode, pi};

pub use super::install::Host;

impl Host {
    /// How long it waits for a hook where nobody has said otherwise, in seconds.
    pub fn usual_timeout(self) -> u64 {
        match self {
            Self::ClaudeCode | Self::Codex => 600,
            Self::Gemini => 60,
            // Our shims wait as long as it takes.
            Self::Opencode | Self::Pi => 7 * 86_400,
        }
    }
}

/// An event that waits for an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gate {
    /// Before every call of a tool.
    BeforeTool,
    /// Where the host itself would ask a person.
    Permission,
}

/// Who is asked about a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// Whoever decides: rules, and where they leave it open somebody.
    All,
    /// Rules only, and whoever they say is to be asked.
    Rules,
    /// Rules only as long as the path of the call lies in the directory that the agent works in.
    RulesWithin,
}

/// What a hook was started with.
#[derive(Debug, Clone, PartialEq)]
#[must_use]
pub enum Input {
    /// A call that is to be answered.
    Ask(Box<Asking>),
    /// Something has come to its end, and what was asked about it is nobody's question any more.
    Ended(Ended),
    /// Nothing that is answered.
    Nothing,
}

/// A call that is to be answered.
#[derive(Debug, Clone, PartialEq)]
pub struct Asking {
    /// What waits for the answer.
    pub gate: Gate,
    /// The host's session.
    pub session: String,
    /// What its main thread is called, where it has a name.
    pub agent_name: Option<String>,
    /// The call.
    pub call: ToolCall,
    /// Who is asked.
    pub reach: Reach,
    /// What the host suggests to remember, in its own words.
    pub suggestions: Vec<Value>,
}

/// Something has come to its end.
#[derive(Debug, Clone, PartialEq)]
pub struct Ended {
    /// The host's session.
    pub session: String,
    /// What has ended in it.
    pub what: Over,
    /// The event that says so.
    pub event: String,
}

/// What has come to its end.
#[derive(Debug, Clone, PartialEq)]
pub enum Over {
    /// One call.
    Call(Box<ToolCall>),
    /// A turn of this agent, or of the main thread.
    Turn(Option<String>),
    /// The whole session.
    Session,
}

/// What the host is told.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// Let it run.
    Allow {
        /// Why, for the person.
        because: String,
        /// What the host is to remember, in its own words.
        remember: Vec<Value>,
    },
    /// Do not let it run.
    Deny {
        /// Why, for the model.
        reason: String,
        /// Whether the agent is to stop as well.
        stops: bool,
    },
    /// Do as if there were no hook: no rule is about it, and the host asks by itself where it must.
    Leave,
}

/// A hook that cannot be answered as it should be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Unusable {
    /// What is wrong.
    pub reason: String,
    /// What waits for an answer, where that is known.
    pub gate: Option<Gate>,
}

impl Unusable {
    pub(super) fn new(gate: Option<Gate>, reason: impl Into<String>) -> Self {
        Self {
            reason: reason.into(),
            gate,
        }
    }
}

/// What a hook of this host was started with.
pub fn read(host: Host, input: &Value) -> Result<Input, Unusable> {
    match host {
        Host::ClaudeCode => claude_code::read(input),
        Host::Codex => codex::read(input),
        Host::Gemini => gemini::read(input),
        Host::Opencode => opencode::read(input),
        Host::Pi => pi::read(input),
    }
}

/// What is printed for the host; `None` for nothing.
pub fn answer(host: Host, gate: Gate, verdict: &Verdict) -> Option<Value> {
    match host {
        Host::ClaudeCode => claude_code::answer(gate, verdict),
        Host::Codex => codex::answer(gate, verdict),
        Host::Gemini => gemini::answer(verdict),
        Host::Opencode => Some(opencode::answer(verdict)),
        Host::Pi => Some(pi::answer(verdict)),
    }
}

/// What a host suggests to allow, for as long as its session lasts, whatever it says about where it would keep that. Anything else that
/// it suggests, such as another mode, allows more than was asked.
pub fn for_the_session(suggestions: &[Value]) -> Vec<Value> {
    let is = |said: &Value, key: &str, value: &str| said.get(key).is_some_and(|it| it == value);
    let mut rules: Vec<Value> = suggestions
        .iter()
        .filter(|said| is(said, "type", "addRules") && is(said, "behavior", "allow"))
        .cloned()
        .collect();
    for rule in &mut rules {
        if let Some(members) = rule.as_object_mut() {
            members.insert("destination".to_owned(), "session".into());
        }
    }
    rules
}

/// The members of an input that all hosts spell alike.
pub(super) struct Fields<'a> {
    input: &'a Value,
    gate: Option<Gate>,
}

impl<'a> Fields<'a> {
    pub(super) fn new(input: &'a Value, gate: Option<Gate>) -> Self {
        Self { input, gate }
    }

    /// The name of the event.
    pub(super) fn event(input: &'a Value) -> Result<&'a str, Unusable> {
        let event = input.get("hook_event_name").and_then(Value::as_str);
        event.ok_or_else(|| {
            Unusable::new(
                None,
                "the input has no \"hook_event_name\": this is not how the host starts a hook",
            )
        })
    }

    /// A text that may be missing; a blank one is.
    pub(super) fn text(&self, name: &str) -> Option<&'a str> {
        let text = self.input.get(name)?.as_str()?;
        Some(text).filter(|text| !text.trim().is_empty())
    }

    fn required(&self, name: &str) -> Result<&'a str, Unusable> {
        self.text(name).ok_or_else(|| {
            Unusable::new(self.gate, format!("the input has no text under \"{name}\""))
        })
    }

    /// The host's session.
    pub(super) fn session(&self) -> Result<String, Unusable> {
        Ok(self.required("session_id")?.to_owned())
    }

    /// The subagent that calls.
    pub(super) fn subagent(&self) -> Option<Subagent> {
        let id = self.text("agent_id")?.to_owned();
        let kind = self.text("agent_type").unwrap_or("subagent").to_owned();
        Some(Subagent { id, kind })
    }

    /// The call of a tool. A directory that is missing is that of the hook, which is an empty path here.
    pub(super) fn call(&self) -> Result<ToolCall, Unusable> {
        let tool = self.required("tool_name")?;
        let input = self.input.get("tool_input").cloned().unwrap_or(Value::Null);
        let cwd = self.text("cwd").map(PathBuf::from).unwrap_or_default();
        let mut call = ToolCall::new(tool, input, cwd);
        call.agent = self.subagent();
        call.use_id = self.text("tool_use_id").map(str::to_owned);
        Ok(call)
    }

    /// What an event that waits for no answer is. One that nobody knows, about a call, might wait for one.
    pub(super) fn no_gate(&self, event: &str) -> Result<Input, Unusable> {
        if self.text("tool_name").is_some() {
            return Err(Unusable::new(
                None,
                format!("the event {event:?} is about a call, and askrelay does not know it"),
            ));
        }
        Ok(Input::Nothing)
    }
}

/// How a request of a hook is known among those of other hooks: by session, agent and call.
///
/// The event that tells of the end of a call has no id of the ask about it, so the ask is named after what both know.
pub fn ask_mark(session: &str, call: &ToolCall) -> String {
    let agent = call.agent.as_ref().map(|agent| agent.id.as_str());
    let called = format!("{}\n{}", call.tool, sorted(&call.input));
    format!("{}{}-", turn_mark(session, agent), short(&called))
}

/// How the requests about one call begin that its host gave this id, where it did. A host that asks for leave gives none: what it asks
/// begins as [`permission_mark`] says.
pub fn use_mark(session: &str, call: &ToolCall) -> Option<String> {
    let id = call.use_id.as_deref()?;
    Some(format!("{}use-{}-", ask_mark(session, call), short(id)))
}

/// How the requests about calls begin that are like this one, and have no id.
pub fn permission_mark(session: &str, call: &ToolCall) -> String {
    format!("{}ask-", ask_mark(session, call))
}

/// How the requests of one agent's hooks begin.
pub fn turn_mark(session: &str, agent: Option<&str>) -> String {
    format!(
        "{}{}-",
        session_mark(session),
        short(agent.unwrap_or_default())
    )
}

/// How the requests of the hooks of one session begin.
pub fn session_mark(session: &str) -> String {
    format!("hook-{}-", short(session))
}

fn short(text: &str) -> String {
    blake3::hash(text.as_bytes())
        .to_hex()
        .chars()
        .take(16)
        .collect()
}

/// A value as text in which the order of members says nothing.
fn sorted(value: &Value) -> String {
    match value {
        Value::Object(members) => {
            let mut members: Vec<(&String, &Value)> = members.iter().collect();
            members.sort_by_key(|(key, _)| *key);
            let members = members
                .into_iter()
                .map(|(key, value)| format!("{}:{}", Value::from(key.as_str()), sorted(value)));
            format!("{{{}}}", members.collect::<Vec<_>>().join(","))
        }
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(sorted).collect();
            format!("[{}]", items.join(","))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn call(agent: Option<&str>, input: Value) -> ToolCall {
        let mut call = ToolCall::new("Bash", input, "/w");
        call.agent = agent.map(|id| Subagent {
            id: id.to_owned(),
            kind: "x".to_owned(),
        });
        call
    }

    #[test]
    fn an_ask_is_known_by_its_session_its_agent_and_its_call() {
        let input = json!({"command": "ls", "timeout": {"a": 1, "b": [2]}});
        let turned = json!({"timeout": {"b": [2], "a": 1}, "command": "ls"});
        let mark = ask_mark("S", &call(Some("a1"), input.clone()));
        assert_eq!(mark, ask_mark("S", &call(Some("a1"), turned)));
        assert!(mark.starts_with(&turn_mark("S", Some("a1"))));
        assert!(mark.starts_with(&session_mark("S")));
        for other in [
            ask_mark("T", &call(Some("a1"), input.clone())),
            ask_mark("S", &call(None, input)),
            ask_mark("S", &call(Some("a1"), json!({"command": "ls -l"}))),
        ] {
            assert!(!other.starts_with(&mark));
        }
        assert!(crate::wire::RequestId::parse(&mark).is_some());
        let mut used = call(None, json!({}));
        assert_eq!(use_mark("S", &used), None);
        used.use_id = Some("toolu_1".to_owned());
        let one = use_mark("S", &used).unwrap();
        assert!(one.starts_with(&ask_mark("S", &used)));
        assert!(!one.starts_with(&permission_mark("S", &used)));
        used.use_id = Some("toolu_2".to_owned());
        assert_ne!(use_mark("S", &used).unwrap(), one);
    }

    #[test]
    fn a_host_remembers_rules_for_its_session_and_nothing_wider() {
        let rule = |behavior: &str, destination: &str| {
            json!({"type": "addRules", "behavior": behavior, "destination": destination,
                   "rules": [{"toolName": "Bash", "ruleContent": "ls:*"}]})
        };
        let suggestions = [
            rule("allow", "userSettings"),
            rule("deny", "session"),
            json!({"type": "setMode", "mode": "bypassPermissions", "destination": "session"}),
            json!(7),
        ];
        assert_eq!(for_the_session(&suggestions), [rule("allow", "session")]);
    }

    #[test]
    fn whatever_is_no_event_is_unusable_and_never_nothing() {
        for host in [Host::ClaudeCode, Host::Codex, Host::Gemini] {
            for input in [
                json!(null),
                json!([]),
                json!("PreToolUse"),
                json!({}),
                json!({"hook_event_name": 7}),
                json!({"hook_event_name": "PreToolUze", "tool_name": "Bash"}),
            ] {
                assert!(read(host, &input).is_err(), "{host:?} {input}");
            }
            let other = json!({"hook_event_name": "SessionStart", "session_id": "S"});
            assert_eq!(read(host, &other), Ok(Input::Nothing));
        }
    }
}
