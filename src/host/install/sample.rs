//! Calls as the hosts state them to a hook, for trying one: the shape that each was seen to write, with a harmless command.

use serde_json::{Map, Value, json};

use super::Host;

/// The one event of a host whose shim is ours.
pub const SHIM_EVENT: &str = "tool";

/// What the host writes to its hook for `event`, about this command in this directory; `None` where it has no such event.
pub fn sample(host: Host, event: &str, command: &str, cwd: &str) -> Option<String> {
    if matches!(host, Host::Opencode | Host::Pi) {
        let call = json!({
            "sessionId": "askrelay-doctor",
            "tool": "bash",
            "input": {"command": command},
            "cwd": cwd,
            "callId": "doctor",
            "gate": "calls",
        });
        return Some(call.to_string());
    }
    let mut call = json!({
        "session_id": "askrelay-doctor",
        "transcript_path": format!("{cwd}/transcript.jsonl"),
        "cwd": cwd,
        "hook_event_name": event,
    });
    let call_of = call.as_object_mut()?;
    let mut input = json!({"command": command});
    let (tool, more) = match (host, event) {
        (Host::ClaudeCode, "PreToolUse" | "PermissionRequest") => {
            describe(&mut input);
            let mut more = json!({"prompt_id": "doctor", "permission_mode": "default"});
            add(&mut more, event, "toolu_doctor");
            ("Bash", more)
        }
        (Host::Codex, "PreToolUse" | "PermissionRequest") => {
            if event == "PermissionRequest" {
                describe(&mut input);
            }
            let mut more =
                json!({"turn_id": "doctor", "model": "doctor", "permission_mode": "default"});
            add(&mut more, event, "call_doctor");
            ("Bash", more)
        }
        (Host::Gemini, "BeforeTool") => {
            describe(&mut input);
            (
                "run_shell_command",
                json!({"timestamp": "2026-01-01T00:00:00.000Z"}),
            )
        }
        _ => return None,
    };
    call_of.extend(more.as_object().cloned().unwrap_or_else(Map::new));
    let _none = call_of.insert("tool_name".to_owned(), tool.into());
    let _none = call_of.insert("tool_input".to_owned(), input);
    Some(call.to_string())
}

fn describe(input: &mut Value) {
    if let Some(input) = input.as_object_mut() {
        let _none = input.insert("description".to_owned(), "askrelay doctor".into());
    }
}

/// A call that may still be asked about has no id yet.
fn add(more: &mut Value, event: &str, id: &str) {
    if let (Some(more), "PreToolUse") = (more.as_object_mut(), event) {
        let _none = more.insert("tool_use_id".to_owned(), id.into());
    }
}
