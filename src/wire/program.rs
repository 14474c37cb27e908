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

/// What those get that annotate an ask, or judge it.
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
    /// Whether some text in here is not what stands on disk, because that was no Unicode.
    #[serde(skip_serializing_if = "is_exact")]
    pub text_replaced: bool,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "the serialiser calls it with a reference to the field"
)]
fn is_exact(replaced: &bool) -> bool {
    !replaced
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
            text_replaced: request.was_replaced,
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

/// What a link of the chain of authorizers says about an ask.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkVerdict {
    /// What it rules, if anything.
    pub ruling: Ruling,
    /// Why, as it was said; nothing is read out of it.
    pub reason: Option<String>,
}

/// The word of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Ruling {
    /// The ask may go ahead, this once.
    Allow,
    /// It does not rule: whoever comes next is asked.
    Defer,
    /// The ask is refused.
    Deny,
}

impl Ruling {
    /// The word on the pipe, and in the log.
    pub fn name(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Defer => "defer",
            Self::Deny => "deny",
        }
    }

    fn from_name(name: &str) -> Option<Self> {
        match name {
            "allow" => Some(Self::Allow),
            "defer" => Some(Self::Defer),
            "deny" => Some(Self::Deny),
            _ => None,
        }
    }
}

/// Reads what a link answers about the ask `expected`. Only the verdict decides, whatever stands beside it; but where it names an
/// ask, it must be this one, and a reason is a text or null.
pub fn verdict_from_json(bytes: &[u8], expected: &RequestId) -> Result<LinkVerdict, Unusable> {
    let document = Document::decode(bytes, MAX_PROGRAM_BYTES)?;
    let fields = document.object()?;
    let optional = |key: &'static str| {
        if fields.has(key) {
            fields.nullable_text(key).ok_or(Unusable::Field(key))
        } else {
            Ok(None)
        }
    };
    let word = fields.text("verdict");
    let verdict = LinkVerdict {
        ruling: word
            .and_then(|word| Ruling::from_name(&word))
            .ok_or(Unusable::Field("verdict"))?,
        reason: optional("reason")?,
    };
    if optional("requestId")?.is_some_and(|id| id != expected.as_str()) {
        return Err(Unusable::AnotherAsk);
    }
    unreplaced(&document, verdict)
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
    fn a_verdict_is_one_of_three_words_about_this_ask_or_does_not_count() {
        let id = RequestId::parse("r1").unwrap();
        let read = |text: &str| verdict_from_json(text.as_bytes(), &id);
        for (text, ruling, reason) in [
            (r#"{"verdict": "allow"}"#, Ruling::Allow, None),
            (
                r#"{"verdict": "deny", "reason": ""}"#,
                Ruling::Deny,
                Some(""),
            ),
            (
                r#"{"verdict": "defer", "reason": null, "requestId": null, "score": 1}"#,
                Ruling::Defer,
                None,
            ),
            (
                " {\"reason\": \"x\\ny\", \"requestId\": \"r1\", \"verdict\": \"deny\"}\n",
                Ruling::Deny,
                Some("x\ny"),
            ),
        ] {
            let reason = reason.map(str::to_owned);
            assert_eq!(read(text), Ok(LinkVerdict { ruling, reason }), "{text}");
        }
        for bad in [
            "",
            "allow",
            "{}",
            "[]",
            r#"{"verdict": "Allow"}"#,
            r#"{"verdict": "allow "}"#,
            r#"{"verdict": "approve"}"#,
            r#"{"verdict": true}"#,
            r#"{"verdict": null}"#,
            r#"{"verdict": "allow", "verdict": "deny"}"#,
            r#"{"verdict": "deny", "verdict": "allow"}"#,
            r#"{"verdict": "allow"} {"verdict": "allow"}"#,
            r#"{"verdict": "allow", "reason": 1}"#,
            r#"{"verdict": "allow", "reason": ["x"]}"#,
            r#"{"verdict": "allow", "requestId": 1}"#,
            r#"{"verdict": "allow", "reason": "\ud800"}"#,
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
        for other in ["r2", "", "R1", "r1 "] {
            let text = json!({"verdict": "allow", "requestId": other}).to_string();
            assert_eq!(read(&text), Err(Unusable::AnotherAsk), "{other:?}");
        }
        assert!(verdict_from_json(b"{\"verdict\": \"allow\", \"reason\": \"\xff\"}", &id).is_err());
    }

    #[test]
    fn it_is_said_that_text_was_replaced_and_not_that_it_was_not() {
        let whole = json!({
            "id": "r1", "createdAt": 1, "requesterSessionId": "C", "targetSessionId": "P", "requesterAgentName": "scout",
            "surface": "bash", "value": "@",
        });
        for (byte, said) in [(b'@', Value::Null), (0xff, json!(true))] {
            let mut bytes = whole.to_string().into_bytes();
            let at = bytes.iter().position(|other| *other == b'@').unwrap();
            bytes[at] = byte;
            let request = ForwardedPermissionRequest::from_json(&bytes).unwrap();
            let facts = AskFacts::of(&request).to_json().unwrap();
            let facts: Value = serde_json::from_slice(&facts).unwrap();
            assert_eq!(facts["textReplaced"], said);
        }
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
