//! The hooks of Claude Code.
//!
//! `PreToolUse` comes before every call, `PermissionRequest` where the host would ask a person; in its modes that ask nobody only the
//! first does. A `PermissionRequest` has no id of the call; what becomes of the call is told by `PostToolUse` and
//! `PostToolUseFailure`, and that its turn is over by `Stop` and the like.

use serde_json::{Map, Value, json};

use super::hook::{Asking, Ended, Fields, Gate, Input, Over, Reach, Unusable, Verdict};
use super::suggestion::grants_of;

/// Modes in which the host asks a person, or lets its own rules or a model of its own answer in their place.
const ASKING_MODES: [&str; 4] = ["default", "acceptEdits", "plan", "auto"];

/// Tools that only look at files.
const LOOKING: [&str; 5] = ["Read", "NotebookRead", "Glob", "Grep", "LS"];

/// Tools that the host lets run unasked in any mode: they touch nothing but its own state.
const OWN: [&str; 15] = [
    "Agent",
    "AskUserQuestion",
    "BashOutput",
    "EnterPlanMode",
    "KillBash",
    "KillShell",
    "Task",
    "TaskCreate",
    "TaskGet",
    "TaskList",
    "TaskOutput",
    "TaskStop",
    "TaskUpdate",
    "TodoWrite",
    "ToolSearch",
];

/// Questions to the person at the host. Who is not there cannot answer them, and a yes would be an answer that nobody gave.
const QUESTIONS: [&str; 1] = ["AskUserQuestion"];

/// What a hook was started with.
pub(super) fn read(input: &Value) -> Result<Input, Unusable> {
    let event = Fields::event(input)?;
    let gate = match event {
        "PreToolUse" => Some(Gate::BeforeTool),
        "PermissionRequest" => Some(Gate::Permission),
        _ => None,
    };
    let fields = Fields::new(input, gate);
    match (event, gate) {
        (_, Some(gate)) => ask(&fields, input, gate),
        ("PostToolUse" | "PostToolUseFailure" | "PermissionDenied", None) => {
            ended(&fields, event, Over::Call(Box::new(fields.call()?)))
        }
        ("Stop" | "StopFailure" | "SubagentStop" | "UserPromptSubmit", None) => {
            let agent = fields.subagent().map(|agent| agent.id);
            ended(&fields, event, Over::Turn(agent))
        }
        ("SessionEnd", None) => ended(&fields, event, Over::Session),
        (_, None) => fields.no_gate(event),
    }
}

pub(super) fn ended(fields: &Fields<'_>, event: &str, what: Over) -> Result<Input, Unusable> {
    Ok(Input::Ended(Ended {
        session: fields.session()?,
        what,
        event: event.to_owned(),
    }))
}

fn ask(fields: &Fields<'_>, input: &Value, gate: Gate) -> Result<Input, Unusable> {
    let mut call = fields.call()?;
    if gate == Gate::Permission && QUESTIONS.contains(&call.tool.as_str()) {
        return Ok(Input::Nothing);
    }
    let server = input
        .get("mcp_server")
        .and_then(|server| server.get("name"));
    call.mcp_server = server.and_then(Value::as_str).map(str::to_owned);
    let suggestions = input
        .get("permission_suggestions")
        .and_then(Value::as_array);
    let suggestions = suggestions.cloned().unwrap_or_default();
    call.grants = grants_of(&suggestions, &call);
    // The host suggests the tool of a server by the name as it spells it there; asked is by the server's own.
    if let Some((asked, others)) = call.mcp_targets().split_first() {
        for grant in &mut call.grants {
            if grant.surface == "mcp" && others.contains(&grant.pattern) {
                grant.pattern.clone_from(asked);
            }
        }
    }
    Ok(Input::Ask(Box::new(Asking {
        gate,
        session: fields.session()?,
        agent_name: match call.agent {
            Some(_) => None,
            None => fields.text("agent_type").map(str::to_owned),
        },
        reach: reach(gate, fields.text("permission_mode"), &call.tool),
        call,
        suggestions,
    })))
}

/// Who is asked. A mode that nobody knows is taken for one that asks nobody.
fn reach(gate: Gate, mode: Option<&str>, tool: &str) -> Reach {
    if gate == Gate::Permission {
        return Reach::All;
    }
    let asks = mode.is_some_and(|mode| ASKING_MODES.contains(&mode));
    if asks || OWN.contains(&tool) {
        Reach::Rules
    } else if LOOKING.contains(&tool) {
        Reach::RulesWithin
    } else {
        Reach::All
    }
}

/// What is printed for the host.
pub(super) fn answer(gate: Gate, verdict: &Verdict) -> Option<Value> {
    let mut answer = Map::new();
    let specific = match (gate, verdict) {
        (_, Verdict::Leave) => return None,
        (Gate::BeforeTool, Verdict::Allow { because, .. }) => json!({
            "hookEventName": "PreToolUse",
            "permissionDecision": "allow",
            "permissionDecisionReason": because,
        }),
        (Gate::BeforeTool, Verdict::Deny { reason, stops }) => {
            if *stops {
                answer.insert("continue".to_owned(), false.into());
                answer.insert("stopReason".to_owned(), reason.as_str().into());
            }
            json!({
                "hookEventName": "PreToolUse",
                "permissionDecision": "deny",
                "permissionDecisionReason": reason,
            })
        }
        (Gate::Permission, verdict) => json!({
            "hookEventName": "PermissionRequest",
            "decision": decision(verdict)?,
        }),
    };
    answer.insert("hookSpecificOutput".to_owned(), specific);
    Some(Value::Object(answer))
}

/// The answer to a permission request.
fn decision(verdict: &Verdict) -> Option<Value> {
    Some(match verdict {
        Verdict::Allow { remember, .. } if remember.is_empty() => json!({"behavior": "allow"}),
        Verdict::Allow { remember, .. } => {
            json!({"behavior": "allow", "updatedPermissions": remember})
        }
        Verdict::Deny {
            reason,
            stops: false,
        } => json!({"behavior": "deny", "message": reason}),
        Verdict::Deny {
            reason,
            stops: true,
        } => json!({"behavior": "deny", "message": reason, "interrupt": true}),
        Verdict::Leave => return None,
    })
}
