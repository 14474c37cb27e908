//! What the extension of pi says, and what it is told.
//!
//! The extension is ours (`shims/pi.ts`), so it says what is wanted here in one JSON object: `sessionId`, `tool`, `input`, `cwd`, and
//! `parentCallId` where another tool makes the call. pi asks nobody, so somebody is asked here about whatever does more than look.

use serde_json::Value;

use super::hook::{Asking, Gate, Input, Reach, Unusable};
use super::opencode::Shim;
use crate::wire::Evidence;

pub(super) use super::opencode::answer;

/// Tools that only look at files.
const LOOKING: [&str; 4] = ["find", "grep", "ls", "read"];

/// Tools that touch nothing but the host's own state.
const OWN: [&str; 1] = ["tool_search"];

/// What the extension asks.
pub(super) fn read(input: &Value) -> Result<Input, Unusable> {
    let gate = Gate::BeforeTool;
    let fields = Shim { input, gate };
    let mut call = fields.call()?;
    call.path_members = match call.tool.as_str() {
        "edit" | "find" | "grep" | "ls" | "read" | "write" => &["path"],
        _ => &[],
    };
    if let Some(outer) = fields.text("parentCallId") {
        call.evidence.push(Evidence {
            label: "called by".to_owned(),
            text: format!("another tool, in its call {outer}"),
            detail: None,
        });
    }
    let tool = call.tool.as_str();
    Ok(Input::Ask(Box::new(Asking {
        gate,
        session: fields.required("sessionId")?.to_owned(),
        agent_name: None,
        reach: if OWN.contains(&tool) {
            Reach::Rules
        } else if LOOKING.contains(&tool) {
            Reach::RulesWithin
        } else {
            Reach::All
        },
        call,
        suggestions: Vec::new(),
    })))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn whatever_does_more_than_look_is_put_before_somebody() {
        for (tool, reach) in [
            ("bash", Reach::All),
            ("write", Reach::All),
            ("mcp__tickets__close", Reach::All),
            ("codemode", Reach::All),
            ("read", Reach::RulesWithin),
            ("tool_search", Reach::Rules),
        ] {
            let input = json!({"sessionId": "S", "tool": tool, "input": {"command": "x"}, "cwd": "/w", "callId": "c"});
            let Input::Ask(asking) = read(&input).unwrap() else {
                panic!("{tool}");
            };
            assert_eq!(
                (asking.reach, asking.session.as_str()),
                (reach, "S"),
                "{tool}"
            );
            assert_eq!(asking.call.tool, tool);
        }
    }

    #[test]
    fn a_call_of_another_tool_says_so() {
        let input = json!({"sessionId": "S", "tool": "bash", "input": {"command": "x"}, "parentCallId": "c"});
        let Input::Ask(asking) = read(&input).unwrap() else {
            panic!();
        };
        assert_eq!(asking.call.evidence[0].label, "called by");
    }

    #[test]
    fn what_is_no_call_is_unusable_and_never_nothing() {
        for input in [
            json!(null),
            json!({}),
            json!({"sessionId": "S"}),
            json!({"tool": "bash"}),
            json!("bash"),
        ] {
            assert!(read(&input).is_err(), "{input}");
        }
    }
}
