//! The hooks of Codex.
//!
//! They are spelled as Claude Code's are, with less in them. An answer with a member that Codex does not take is a hook that has failed,
//! and what a failed hook was asked about runs: so nothing is said but what it takes. `PermissionRequest` comes where a command is to
//! run outside of the sandbox and somebody would be asked; `codex exec` never does, and says so by its mode.

use serde_json::{Value, json};

use super::claude_code::ended;
use super::hook::{Asking, Fields, Gate, Input, Over, Reach, Unusable, Verdict};

/// Modes in which the host asks a person.
const ASKING_MODES: [&str; 3] = ["default", "acceptEdits", "plan"];

/// Tools that touch nothing but the host's own state.
const OWN: [&str; 6] = [
    "close_agent",
    "list_agents",
    "send_input",
    "spawn_agent",
    "update_plan",
    "wait_agent",
];

/// What a hook was started with.
pub(super) fn read(input: &Value) -> Result<Input, Unusable> {
    let event = Fields::event(input)?;
    let gate = match event {
        "PreToolUse" => Some(Gate::BeforeTool),
        "PermissionRequest" => Some(Gate::Permission),
        _ => None,
    };
    let fields = Fields::new(input, gate);
    let Some(gate) = gate else {
        return match event {
            "PostToolUse" => ended(&fields, event, Over::Call(Box::new(fields.call()?))),
            "Stop" | "SubagentStop" | "UserPromptSubmit" => {
                let agent = fields.subagent().map(|agent| agent.id);
                ended(&fields, event, Over::Turn(agent))
            }
            _ => fields.no_gate(event),
        };
    };
    let mut call = fields.call()?;
    if gate == Gate::Permission && !call.is_of_server() {
        let description = call.input.get("description").and_then(Value::as_str);
        let host = description.and_then(|text| text.strip_prefix("network-access "));
        let why = match host {
            Some(host) => format!("it wants the network, to {host}"),
            None => "the sandbox holds it back, or it asks to leave it".to_owned(),
        };
        call.leave_sandbox(&why);
    }
    Ok(Input::Ask(Box::new(Asking {
        gate,
        session: fields.session()?,
        agent_name: None,
        reach: reach(gate, fields.text("permission_mode"), &call.tool),
        call,
        suggestions: Vec::new(),
    })))
}

/// Who is asked. A mode that nobody knows is taken for one that asks nobody.
fn reach(gate: Gate, mode: Option<&str>, tool: &str) -> Reach {
    let asks = mode.is_some_and(|mode| ASKING_MODES.contains(&mode));
    match gate {
        Gate::BeforeTool if asks || OWN.contains(&tool) => Reach::Rules,
        Gate::BeforeTool | Gate::Permission => Reach::All,
    }
}

/// What is printed for the host. An allow before a call is no leave to leave the sandbox, so nothing is said there.
pub(super) fn answer(gate: Gate, verdict: &Verdict) -> Option<Value> {
    let specific = match (gate, verdict) {
        (_, Verdict::Leave) | (Gate::BeforeTool, Verdict::Allow { .. }) => return None,
        (Gate::BeforeTool, Verdict::Deny { reason, .. }) => json!({
            "hookEventName": "PreToolUse",
            "permissionDecision": "deny",
            "permissionDecisionReason": reason,
        }),
        (Gate::Permission, Verdict::Allow { .. }) => json!({
            "hookEventName": "PermissionRequest",
            "decision": {"behavior": "allow"},
        }),
        (Gate::Permission, Verdict::Deny { reason, .. }) => json!({
            "hookEventName": "PermissionRequest",
            "decision": {"behavior": "deny", "message": reason},
        }),
    };
    Some(json!({"hookSpecificOutput": specific}))
}
