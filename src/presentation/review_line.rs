//! The facts of a payload that the review log keeps.
//!
//! The log keeps what identifies an ask and what decided about it. Evidence and annotations never get there, whatever their
//! size. Values go in as they are; the log's writer caps, redacts and escapes.

use serde_json::{Map, Value};

use crate::wire::{CommandContext, PromptPayload};

/// The payload's facts, in the log's order: what is not known is left out.
pub fn payload_facts(payload: &PromptPayload) -> Map<String, Value> {
    let request = &payload.request;
    let mut facts = Map::new();
    facts.insert("surface".to_owned(), request.surface.as_str().into());
    let context = request.command_context.map(|context| match context {
        CommandContext::CommandSubstitution => "command_substitution",
        CommandContext::ProcessSubstitution => "process_substitution",
        CommandContext::Subshell => "subshell",
    });
    for (key, value) in [
        ("matchedPattern", request.matched_pattern.as_deref()),
        ("matchedSpelling", request.matched_spelling.as_deref()),
        ("executedUnit", request.executed_unit.as_deref()),
        ("commandContext", context),
        ("invokedToolName", request.invoked_tool_name.as_deref()),
    ] {
        if let Some(value) = value {
            facts.insert(key.to_owned(), value.into());
        }
    }
    if request.requester.forwarded {
        facts.insert("forwarded".to_owned(), true.into());
        facts.insert(
            "requesterSessionId".to_owned(),
            request.requester.session_id.as_deref().into(),
        );
    }
    facts
}

/// What the call is, in the fields of the `permission_request.*` events: null where a field does not apply. The id of the tool
/// call and its input do not travel with an ask.
pub fn call_facts(payload: &PromptPayload) -> Map<String, Value> {
    let tool = payload.request.tool_name.as_deref();
    let value = Some(payload.request.value.as_str()).filter(|value| !value.is_empty());
    let label = super::dialog::value_label(payload);
    let only = |wanted: &str| value.filter(|_| label == wanted);
    // An ask without a usable payload has its one value here, and so has a tool that is not asked for by its name alone.
    let target = only("target")
        .or(only("value"))
        .or(only("tool").filter(|value| Some(*value) != tool));
    let mut facts = Map::new();
    for (key, fact) in [
        ("toolCallId", None),
        ("toolName", tool),
        ("skillName", only("skill")),
        ("path", only("path")),
        ("command", only("command")),
        ("target", target),
        ("toolInputPreview", None),
    ] {
        facts.insert(key.to_owned(), fact.into());
    }
    facts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Annotation, Evidence, PayloadKind, Requester};

    fn json(facts: Map<String, Value>) -> String {
        Value::Object(facts).to_string()
    }

    #[test]
    fn facts_stand_in_the_logs_order_and_evidence_never() {
        let requester = Requester {
            agent_name: None,
            forwarded: false,
            session_id: None,
        };
        let mut ask = PromptPayload::degraded(
            requester,
            Some("bash".to_owned()),
            Some("rm x".to_owned()),
            Some("MESSAGE".to_owned()),
        );
        ask.annotations = vec![Annotation {
            source: "judge".to_owned(),
            text: "NOTE".to_owned(),
        }];
        ask.evidence.push(Evidence {
            label: "input".to_owned(),
            text: "EVIDENCE".to_owned(),
            detail: None,
        });
        assert_eq!(json(payload_facts(&ask)), r#"{"surface":"bash"}"#);
        ask.request.matched_pattern = Some("rm *".to_owned());
        ask.request.matched_spelling = Some("s".to_owned());
        ask.request.executed_unit = Some("rm x".to_owned());
        ask.request.command_context = Some(CommandContext::ProcessSubstitution);
        ask.request.invoked_tool_name = Some("zsh".to_owned());
        let ask = ask.projected(Some("scout".to_owned()), Some("c-1".to_owned()));
        assert_eq!(
            json(payload_facts(&ask)),
            r#"{"surface":"bash","matchedPattern":"rm *","matchedSpelling":"s","executedUnit":"rm x","commandContext":"process_substitution","invokedToolName":"zsh","forwarded":true,"requesterSessionId":"c-1"}"#
        );
        assert_eq!(
            json(call_facts(&ask)),
            r#"{"toolCallId":null,"toolName":null,"skillName":null,"path":null,"command":"rm x","target":null,"toolInputPreview":null}"#
        );
    }

    #[test]
    fn the_value_goes_under_the_name_of_its_kind() {
        let requester = Requester {
            agent_name: None,
            forwarded: true,
            session_id: None,
        };
        let mut ask = PromptPayload::degraded(
            requester,
            Some("path".to_owned()),
            Some("/x".to_owned()),
            None,
        );
        for (kind, key) in [
            (PayloadKind::Path, "path"),
            (PayloadKind::ExternalDirectory, "path"),
            (PayloadKind::SkillRead, "skillName"),
            (PayloadKind::Mcp, "target"),
            (PayloadKind::Bash, "command"),
            (PayloadKind::Forwarded, "target"),
            (PayloadKind::Tool, "target"),
        ] {
            ask.kind = kind;
            let facts = call_facts(&ask);
            let set: Vec<_> = facts.iter().filter(|(_, value)| !value.is_null()).collect();
            assert_eq!(set, [(&key.to_owned(), &Value::from("/x"))]);
        }
        ask.request.tool_name = Some("/x".to_owned());
        assert_eq!(call_facts(&ask)["target"], Value::Null);
    }
}
