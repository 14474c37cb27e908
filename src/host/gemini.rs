//! The hook of Gemini CLI.
//!
//! There is one event that can hold a call back, `BeforeTool`, and it does not say whether the host will ask a person as well. So
//! somebody is asked here about every call that does more than look: an answer that nobody heard would be worse than a second question.

use serde_json::{Value, json};

use super::hook::{Asking, Fields, Gate, Input, Reach, Unusable, Verdict};

/// Tools that only look at files.
const LOOKING: [&str; 7] = [
    "glob",
    "grep_search",
    "list_directory",
    "read_file",
    "read_many_files",
    "search_file_content",
    "view_file",
];

/// Tools that touch nothing but the host's own state.
const OWN: [&str; 6] = [
    "ask_user",
    "complete_task",
    "enter_plan_mode",
    "get_internal_docs",
    "invoke_agent",
    "write_todos",
];

/// What a hook was started with.
pub(super) fn read(input: &Value) -> Result<Input, Unusable> {
    let event = Fields::event(input)?;
    let gate = (event == "BeforeTool").then_some(Gate::BeforeTool);
    let fields = Fields::new(input, gate);
    let Some(gate) = gate else {
        return match event {
            "AfterTool" => Ok(Input::Nothing),
            _ => fields.no_gate(event),
        };
    };
    let mut call = fields.call()?;
    if let Some(context) = input.get("mcp_context") {
        let text = |name: &str| context.get(name).and_then(Value::as_str).map(str::to_owned);
        call.mcp_server = text("server_name");
        if let Some(tool) = text("tool_name").filter(|_| call.mcp_server.is_some()) {
            let spelled = std::mem::replace(&mut call.tool, tool);
            call.spelled = Some(spelled).filter(|spelled| *spelled != call.tool);
        }
    }
    if call.mcp_server.is_none() && call.tool == "read_many_files" {
        let lists = ["include", "paths"].iter();
        let lists = lists.filter_map(|name| call.input.get(*name)?.as_array());
        let files = lists.flatten().filter_map(Value::as_str);
        call.files = files.map(str::to_owned).collect();
    }
    let tool = call.tool.as_str();
    Ok(Input::Ask(Box::new(Asking {
        gate,
        session: fields.session()?,
        agent_name: None,
        reach: match call.mcp_server {
            None if OWN.contains(&tool) => Reach::Rules,
            None if LOOKING.contains(&tool) => Reach::RulesWithin,
            None | Some(_) => Reach::All,
        },
        call,
        suggestions: Vec::new(),
    })))
}

/// What is printed for the host.
pub(super) fn answer(verdict: &Verdict) -> Option<Value> {
    match verdict {
        Verdict::Leave => None,
        Verdict::Allow { .. } => Some(json!({"decision": "allow"})),
        Verdict::Deny {
            reason,
            stops: false,
        } => Some(json!({"decision": "deny", "reason": reason})),
        Verdict::Deny {
            reason,
            stops: true,
        } => Some(json!({
            "decision": "deny",
            "reason": reason,
            "continue": false,
            "stopReason": reason,
        })),
    }
}
