//! What stands on the pipes of an operator's programs: one JSON object in, one out.
//!
//! A program gets facts of an ask and no more: neither the directory of the asker nor the principal leaves this process. What
//! comes back is read as strictly as a payload: all of it is well-formed, or none of it counts. Members that nobody knows are
//! dropped.

use serde::Serialize;
use serde_json::Value;

use super::json::Document;
use super::payload::{Evidence, RequestFacts};
use super::request::{ForwardedPermissionRequest, RequestId};
use super::{AskingUnit, ForwardedAccessIntent, MAX_REQUEST_BYTES, Unusable};

/// Version of what programs get.
const VERSION: u32 = 1;

/// Most bytes that a program may answer with.
pub const MAX_PROGRAM_BYTES: usize = 64 << 10;

/// What a program that adds evidence gets.
#[derive(Debug, Serialize)]
struct ToolCall<'a> {
    v: u32,
    tool: &'a str,
    input: &'a Value,
}

/// The JSON that a program gets which adds evidence to a call of `tool`.
pub fn tool_call_json(tool: &str, input: &Value) -> serde_json::Result<Vec<u8>> {
    serde_json::to_vec(&ToolCall {
        v: VERSION,
        tool,
        input,
    })
}

/// What those get that annotate an ask.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AskFacts {
    v: u32,
    /// Id of the ask.
    pub request_id: RequestId,
    /// The core facts, as the person sees them.
    pub request: RequestFacts,
    /// The evidence, complete.
    pub evidence: Vec<Evidence>,
    /// What policy judges, where the requester stated it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub access_intent: Option<JudgedFacts>,
    /// Where the ask came from.
    pub forwarding: Forwarding,
}

/// What policy judges of an ask, without what says where and for whom.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct JudgedFacts {
    /// Gate surface.
    pub surface: String,
    /// Values that rules are matched with.
    pub match_values: Vec<String>,
    /// Canonical path; `None` for surfaces that are no paths.
    pub boundary_value: Option<String>,
    /// Sentinel that lifts an allow to an ask.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub floor: Option<String>,
    /// Every unit of a command line that still asks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asking_units: Option<Vec<AskingUnit>>,
}

/// Where a forwarded ask came from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Forwarding {
    /// Agent name of the requester, where it has one.
    pub requester_agent_name: Option<String>,
    /// Session of the requester.
    pub requester_session_id: Option<String>,
}

impl AskFacts {
    /// The facts of a forwarded ask.
    pub fn of(request: &ForwardedPermissionRequest) -> Self {
        let payload = request.projection();
        Self {
            v: VERSION,
            request_id: request.id.clone(),
            forwarding: Forwarding {
                requester_agent_name: payload.request.requester.agent_name.clone(),
                requester_session_id: payload.request.requester.session_id.clone(),
            },
            request: payload.request,
            evidence: payload.evidence,
            access_intent: request.access_intent.as_ref().map(JudgedFacts::of),
        }
    }

    /// The JSON that a program gets.
    pub fn to_json(&self) -> serde_json::Result<Vec<u8>> {
        serde_json::to_vec(self)
    }
}

impl JudgedFacts {
    /// Taken apart field by field, so that a new one is held back until somebody decides about it.
    fn of(intent: &ForwardedAccessIntent) -> Self {
        let ForwardedAccessIntent {
            surface,
            match_values,
            boundary_value,
            requester_cwd: _,
            principal: _,
            floor,
            asking_units,
        } = intent;
        Self {
            surface: surface.clone(),
            match_values: match_values.clone(),
            boundary_value: boundary_value.clone(),
            floor: floor.clone(),
            asking_units: asking_units.clone(),
        }
    }
}

/// Reads what a program answers that adds evidence.
pub fn evidence_from_json(bytes: &[u8]) -> Result<Vec<Evidence>, Unusable> {
    let document = Document::decode(bytes, MAX_PROGRAM_BYTES)?;
    let evidence = document.object()?.each("evidence", |entry| {
        Some(Evidence {
            label: entry.text("label").filter(|label| !label.is_empty())?,
            text: entry.text("text")?,
            detail: entry.nullable_text("detail")?,
        })
    });
    unreplaced(&document, evidence.ok_or(Unusable::Field("evidence"))?)
}

/// Reads what an annotator answers: a text, and nothing else that could be heeded.
pub fn annotation_from_json(bytes: &[u8]) -> Result<String, Unusable> {
    let document = Document::decode(bytes, MAX_PROGRAM_BYTES)?;
    let text = document.object()?.text("text");
    unreplaced(&document, text.ok_or(Unusable::Field("text"))?)
}

fn unreplaced<T>(document: &Document<'_>, value: T) -> Result<T, Unusable> {
    if document.was_replaced() {
        return Err(Unusable::NotUnicode);
    }
    Ok(value)
}

/// Reads a tool's own input: any one JSON value, with no key twice, and exactly as it stands there.
pub fn tool_input_from_json(bytes: &[u8]) -> Result<Value, Unusable> {
    let document = Document::decode(bytes, MAX_REQUEST_BYTES)?;
    let value = document.value()?;
    unreplaced(&document, value)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_program_gets_the_facts_of_an_ask_but_not_where_and_for_whom() {
        let request = json!({
            "id": "perm-1", "createdAt": 1, "requesterSessionId": "C", "targetSessionId": "P", "requesterAgentName": "scout",
            "surface": "bash", "value": "make",
            "accessIntent": {
                "surface": "bash", "matchValues": ["make"], "boundaryValue": null, "requesterCwd": "/home/me/secret",
                "principal": {"sessionId": "C", "agentName": "hidden"}, "floor": "<floor>",
                "askingUnits": [{"command": "make", "floor": "<unit>"}, {"command": "ls"}],
            },
        });
        let request =
            ForwardedPermissionRequest::from_json(request.to_string().as_bytes()).unwrap();
        let facts = AskFacts::of(&request).to_json().unwrap();
        assert_eq!(
            serde_json::from_slice::<Value>(&facts).unwrap(),
            json!({
                "v": 1, "requestId": "perm-1",
                "request": {
                    "requester": {"agentName": "scout", "forwarded": true, "sessionId": "C"},
                    "surface": "bash", "toolName": null, "invokedToolName": null, "value": "make", "matchedPattern": null,
                    "commandContext": null, "executedUnit": null,
                },
                "evidence": [],
                "accessIntent": {
                    "surface": "bash", "matchValues": ["make"], "boundaryValue": null, "floor": "<floor>",
                    "askingUnits": [{"command": "make", "floor": "<unit>"}, {"command": "ls"}],
                },
                "forwarding": {"requesterAgentName": "scout", "requesterSessionId": "C"},
            })
        );
    }

    #[test]
    fn an_answer_is_well_formed_or_does_not_count() {
        let good = br#" {"evidence": [{"label": "a", "text": "", "detail": null, "more": 1}], "verdict": "allow"}
"#;
        let evidence = evidence_from_json(good).unwrap();
        assert_eq!(evidence.len(), 1);
        assert_eq!(annotation_from_json(br#"{"text": "x"}"#).unwrap(), "x");
        for bad in [
            &br#"{"evidence": [{"label": "a", "text": "b"}]}"#[..],
            br#"{"evidence": [{"label": "", "text": "b", "detail": null}]}"#,
            br#"{"evidence": [{"label": "a", "text": 1, "detail": null}]}"#,
            br#"{"evidence": {}}"#,
            br#"{"evidence": [], "evidence": []}"#,
            br#"{"evidence": []} {}"#,
            b"[]",
            b"",
            b"{}",
            b"{\"evidence\": [{\"label\": \"\xff\", \"text\": \"\", \"detail\": null}]}",
        ] {
            assert!(evidence_from_json(bad).is_err(), "{}", bad.escape_ascii());
        }
        assert!(annotation_from_json(br#"{"text": null}"#).is_err());
        assert!(annotation_from_json(b"{\"text\": \"\xff\"}").is_err());
        let long = format!(r#"{{"text": "{}"}}"#, "x".repeat(MAX_PROGRAM_BYTES));
        assert!(annotation_from_json(long.as_bytes()).is_err());
    }

    #[test]
    fn an_input_is_any_value_that_reads_in_one_way_only() {
        for good in ["{}", "[1]", "\"text\"", "null", r#"{"a": {"b": 1}}"#] {
            assert!(tool_input_from_json(good.as_bytes()).is_ok(), "{good}");
        }
        for bad in [
            &b""[..],
            b"{",
            b"{} {}",
            br#"{"a": 1, "a": 2}"#,
            br#"[{"a": {"b": 1, "b": 2}}]"#,
            b"\"\xff\"",
        ] {
            assert!(tool_input_from_json(bad).is_err(), "{}", bad.escape_ascii());
        }
    }
}
