//! Every document below `fixtures/wire` is read and must have the outcome that its sidecar names; `fixtures/wire/README.md`
//! explains the scheme. Tests that need a document belong there as a file; only what is too big for a file is made here.

use std::collections::BTreeMap;

use askrelay::wire::{
    DecisionSource, ForwardedPermissionRequest, ForwardedPermissionResponse, Generation,
    GrantRecord, GrantWidth, Heartbeat, MAX_HEARTBEAT_BYTES, MAX_REQUEST_BYTES, MAX_RESPONSE_BYTES,
    ProcessMark, PromptPayload, SchemaName, SessionId, Unusable, lifetime_value, scope_value,
};
use serde_json::{Map, Value, json};

use crate::support::{fixtures, schema};

const ROOT: &str = "fixtures/wire";

/// What a sidecar says.
struct Expectation {
    why: String,
    /// Text of the reason, where the document is unusable.
    unusable: Option<String>,
    /// Pointers into the projection and what stands there.
    expect: Map<String, Value>,
    /// Whether the document fits the schema of its kind; not given where no JSON parser takes it.
    schema: Option<bool>,
    /// For which generation the value that was read is written as these very bytes.
    writes: Option<Generation>,
}

impl Expectation {
    fn read(bytes: &[u8]) -> Result<Self, String> {
        let mut this = Self {
            why: String::new(),
            unusable: None,
            expect: Map::new(),
            schema: None,
            writes: None,
        };
        let sidecar: Map<String, Value> =
            serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        for (key, value) in sidecar {
            match (key.as_str(), value) {
                ("why", Value::String(why)) => this.why = why,
                ("unusable", Value::String(reason)) => this.unusable = Some(reason),
                ("expect", Value::Object(expect)) => this.expect = expect,
                ("schema", Value::Bool(fits)) => this.schema = Some(fits),
                ("writes", Value::String(name)) if name == "current" => {
                    this.writes = Some(Generation::Current);
                }
                ("writes", Value::String(name)) if name == "g1" => {
                    this.writes = Some(Generation::G1);
                }
                (key, value) => return Err(format!("sidecar: {key} may not be {value}")),
            }
        }
        if this.why.is_empty() {
            return Err("sidecar: it does not say why".to_owned());
        }
        if this.unusable.is_some() != this.expect.is_empty() {
            return Err("sidecar: it needs one of \"unusable\" and \"expect\"".to_owned());
        }
        Ok(this)
    }
}

/// A document that was read.
enum Document {
    Request(Box<ForwardedPermissionRequest>),
    Response(ForwardedPermissionResponse),
    Heartbeat(Heartbeat),
    Payload(PromptPayload),
    Grant(Box<GrantRecord>),
}

impl Document {
    fn read(kind: SchemaName, bytes: &[u8]) -> Result<Self, Unusable> {
        Ok(match kind {
            SchemaName::Request => {
                Self::Request(Box::new(ForwardedPermissionRequest::from_json(bytes)?))
            }
            SchemaName::Response => Self::Response(ForwardedPermissionResponse::from_json(bytes)?),
            SchemaName::Heartbeat => Self::Heartbeat(Heartbeat::from_json(bytes)?),
            SchemaName::Payload => Self::Payload(PromptPayload::from_json(bytes)?),
            SchemaName::Grant => Self::Grant(Box::new(GrantRecord::from_json(bytes)?)),
            SchemaName::Log => unreachable!("a line of the log is no document of the spool"),
        })
    }

    fn write(&self, generation: Generation) -> Vec<u8> {
        match self {
            Self::Request(request) => request.to_json(generation).unwrap(),
            Self::Response(response) => response.to_json().unwrap(),
            Self::Heartbeat(heartbeat) => heartbeat.to_json().unwrap(),
            Self::Payload(payload) => serde_json::to_vec(payload).unwrap(),
            Self::Grant(grant) => grant.to_json().unwrap(),
        }
    }

    /// Everything that a reader knows, under names that the sidecars point to.
    fn projection(&self) -> Value {
        match self {
            Self::Request(request) => project_request(request),
            Self::Response(response) => json!({
                "approved": response.state.is_approved(),
                "state": response.state.name(),
                "denialReason": response.denial_reason,
                "responderSessionId": response.responder_session_id,
                "respondedAt": response.responded_at_ms,
                "decidedBy": response.decided_by,
                "effective": response.decided_by.as_ref().map(DecisionSource::effective),
                "width": match response.width {
                    GrantWidth::Proven => "proven",
                    GrantWidth::Family => "family",
                },
                "relay": response.relay.as_ref().map(|relay| json!({
                    "requestDigest": relay.request_digest.map(|digest| digest.to_string()),
                    "operator": relay.operator,
                })),
            }),
            Self::Heartbeat(heartbeat) => json!({
                "sessionId": heartbeat.session_id,
                "pid": heartbeat.pid,
                "updatedAt": heartbeat.updated_at_ms,
                "relay": heartbeat.relay.as_ref().map(|relay| {
                    let mut members = json!({
                        "held": relay.held,
                        "publicKey": relay.public_key,
                        "queued": relay.queued,
                        "mode": relay.mode,
                        "agent": relay.agent,
                    });
                    project_process(&relay.process, &mut members);
                    if let Some(failure) = &relay.log_failure {
                        members["logFailure"] = json!(failure);
                    }
                    if let Some(failure) = &relay.config_failure {
                        members["configFailure"] = json!(failure);
                    }
                    if !relay.authorizers.is_empty() {
                        let links = relay.authorizers.iter().map(|link| {
                            json!({
                                "name": link.name, "asked": link.asked, "failed": link.failed,
                                "missing": link.missing,
                            })
                        });
                        members["authorizers"] = links.collect();
                    }
                    members
                }),
            }),
            Self::Payload(payload) => json!(payload),
            Self::Grant(grant) => json!({
                "id": grant.id,
                "sessionId": grant.session_id,
                "surface": grant.surface,
                "pattern": grant.pattern,
                "exact": grant.exact,
                "width": grant.width,
                "scope": scope_value(grant.subagent.as_deref()),
                "lifetime": lifetime_value(grant.lifetime),
                "usesLeft": grant.uses_left(),
                "givenAt": grant.given_at_ms,
                "expiresAt": grant.expires_at_ms,
                "givenBy": grant.given_by,
                "requestId": grant.request_id,
                "logLine": grant.log_line,
            }),
        }
    }
}

fn project_request(request: &ForwardedPermissionRequest) -> Value {
    json!({
        "id": request.id.as_str(),
        "createdAt": request.created_at_ms,
        "requesterSessionId": request.requester_session_id,
        "targetSessionId": request.target_session_id,
        "addressed": SessionId::parse(&request.target_session_id).ok().map(|id| id.to_string()),
        "requesterAgentName": request.requester_agent_name,
        "agentName": request.agent_name(),
        "message": request.message,
        "payload": request.payload,
        "source": request.source,
        "surface": request.surface,
        "value": request.value,
        "grants": request.grants,
        "accessIntent": request.access_intent,
        "relay": request.relay.as_ref().map(|relay| {
            let mut members = json!({
                "held": relay.held,
                "pid": relay.pid,
                "timeoutMs": relay.timeout_ms,
                "nonce": relay.nonce,
                "path": relay.path,
            });
            project_process(&relay.process, &mut members);
            members
        }),
        "wasReplaced": request.was_replaced,
        "shown": request.projection(),
    })
}

fn project_process(process: &ProcessMark, members: &mut Value) {
    members["pidStart"] = json!(process.pid_start);
    members["bootId"] = json!(process.boot_id);
    members["pidNs"] = json!(process.pid_ns);
}

/// What stands at `pointer`. A last member that is not there counts as null, the first one must be there.
fn at<'a>(projection: &'a Value, pointer: &str) -> Result<&'a Value, String> {
    if let Some(first) = pointer.split('/').nth(1)
        && projection.get(first).is_none()
    {
        return Err(format!("{pointer} points nowhere"));
    }
    Ok(projection.pointer(pointer).unwrap_or(&Value::Null))
}

/// Reads one document and compares it with what its sidecar says.
fn check(path: &str, bytes: &[u8], sidecar: &[u8]) -> Result<(), String> {
    let parts: Vec<&str> = path.split('/').collect();
    let [_, _, generation, outcome, kind, _] = parts[..] else {
        return Err("it does not lie in GENERATION/OUTCOME/KIND".to_owned());
    };
    if !["g1", "g1b", "g2", "g3", "g4", "ours"].contains(&generation) {
        return Err(format!("no such generation: {generation}"));
    }
    let kind = SchemaName::from_name(kind).ok_or(format!("no such kind: {kind}"))?;
    let expected = Expectation::read(sidecar)?;
    let known: Value = serde_json::from_str(kind.text()).map_err(|error| error.to_string())?;
    let parsed: Option<Value> = serde_json::from_slice(bytes).ok();
    let fits = parsed.map(|value| schema::faults(&known, &value));

    let document = match (outcome, Document::read(kind, bytes), &expected.unusable) {
        ("valid" | "degraded", Ok(document), None) => document,
        ("unusable", Err(reason), Some(text)) => {
            if reason.to_string() != *text {
                return Err(format!("unusable: {reason}"));
            }
            let by_schema = matches!(
                reason,
                Unusable::Field(_)
                    | Unusable::UnsafeId
                    | Unusable::Disagreement { .. }
                    | Unusable::NotThisKind { .. }
            );
            return match fits {
                Some(faults) if by_schema && faults.is_empty() => {
                    Err("the schema takes what no reader can use".to_owned())
                }
                _ => Ok(()),
            };
        }
        (_, Ok(_), _) => return Err("it is usable".to_owned()),
        (_, Err(reason), _) => return Err(format!("unusable: {reason}")),
    };
    let projection = document.projection();
    for (pointer, value) in &expected.expect {
        let found = at(&projection, pointer)?;
        if found != value {
            return Err(format!("{pointer:?} is {found}, not {value}"));
        }
    }
    match (expected.schema, fits) {
        (None, None) => {}
        (Some(true), Some(faults)) if faults.is_empty() => {}
        (Some(false), Some(faults)) if !faults.is_empty() => {}
        (said, found) => return Err(format!("schema: said {said:?}, found {found:?}")),
    }
    if outcome == "valid" && expected.schema != Some(true) {
        return Err("a valid document must fit the schema".to_owned());
    }
    if let Some(generation) = expected.writes {
        let written = document.write(generation);
        if written != bytes {
            return Err(format!("written as {}", String::from_utf8_lossy(&written)));
        }
    }
    for generation in [Generation::Current, Generation::G1] {
        if let (Document::Request(request), Generation::G1) = (&document, generation)
            && request.message.is_none()
        {
            continue;
        }
        let written: Value = serde_json::from_slice(&document.write(generation))
            .map_err(|error| error.to_string())?;
        let faults = schema::faults(&known, &written);
        if !faults.is_empty() {
            return Err(format!("what is written back: {faults:?}"));
        }
    }
    Ok(())
}

#[test]
fn every_document_has_the_outcome_that_its_sidecar_names() {
    let mut pairs: BTreeMap<String, (bool, bool)> = BTreeMap::new();
    for path in fixtures::files_below(ROOT) {
        if let Some(name) = path.strip_suffix(".expect.json") {
            pairs.entry(name.to_owned()).or_default().1 = true;
        } else if let Some(name) = path.strip_suffix(".json") {
            pairs.entry(name.to_owned()).or_default().0 = true;
        } else {
            assert_eq!(path, format!("{ROOT}/README.md"), "a file of another kind");
        }
    }
    let mut failures = Vec::new();
    for (name, pair) in &pairs {
        let outcome = match pair {
            (true, true) => check(
                name,
                &fixtures::bytes(&format!("{name}.json")),
                &fixtures::bytes(&format!("{name}.expect.json")),
            ),
            (true, false) => Err("it has no sidecar".to_owned()),
            (false, _) => Err("a sidecar without a document".to_owned()),
        };
        failures.extend(outcome.err().map(|why| format!("{name}.json: {why}")));
    }
    assert!(
        failures.is_empty(),
        "{} of {} documents:\n{}",
        failures.len(),
        pairs.len(),
        failures.join("\n")
    );
    assert!(
        pairs.len() >= 400,
        "only {} documents were found",
        pairs.len()
    );
}

/// The harness itself must fail where a document and its sidecar differ.
#[test]
fn a_document_that_differs_from_its_sidecar_is_reported() {
    let path = "fixtures/wire/g4/valid/heartbeat/made-up";
    let good = br#"{"sessionId":"a","pid":1,"updatedAt":2}"#;
    let cases: [(&[u8], &str, &str); 6] = [
        (good, r#"{"why":"x","schema":true,"expect":{"/pid":1}}"#, ""),
        (
            good,
            r#"{"why":"x","schema":true,"expect":{"/pid":2}}"#,
            "\"/pid\" is 1, not 2",
        ),
        (
            good,
            r#"{"why":"x","schema":true,"expect":{"/pidd":null}}"#,
            "/pidd points nowhere",
        ),
        (good, r#"{"why":"x","unusable":"y"}"#, "it is usable"),
        (
            b"{}",
            r#"{"why":"x","schema":true,"expect":{"/pid":1}}"#,
            "unusable: field \"sessionId\" is missing or malformed",
        ),
        (
            good,
            r#"{"schema":true,"expect":{"/pid":1}}"#,
            "sidecar: it does not say why",
        ),
    ];
    for (bytes, sidecar, expected) in cases {
        let found = check(path, bytes, sidecar.as_bytes())
            .err()
            .unwrap_or_default();
        assert_eq!(found, expected, "{sidecar}");
    }
}

/// Documents that are too big to lie here as files.
#[test]
fn a_document_over_its_limit_or_too_deep_is_refused_whole() {
    let padded = |document: &str, length: usize| {
        let mut text = document.trim_end_matches('}').to_owned();
        text.push_str(",\"x\":\"");
        text.push_str(&"y".repeat(length - text.len() - 2));
        text.push_str("\"}");
        assert_eq!(text.len(), length);
        text.into_bytes()
    };
    let request = r#"{"id":"a","createdAt":1,"requesterSessionId":"c","targetSessionId":"p","requesterAgentName":""}"#;
    let response = r#"{"approved":true,"state":"approved","responderSessionId":"p"}"#;
    let heartbeat = r#"{"sessionId":"p","pid":1,"updatedAt":1}"#;
    for (kind, document, limit) in [
        (SchemaName::Request, request, MAX_REQUEST_BYTES),
        (SchemaName::Response, response, MAX_RESPONSE_BYTES),
        (SchemaName::Heartbeat, heartbeat, MAX_HEARTBEAT_BYTES),
    ] {
        let reason = |bytes: &[u8]| {
            Document::read(kind, bytes)
                .err()
                .map(|reason| reason.to_string())
        };
        assert_eq!(reason(&padded(document, limit)), None);
        assert_eq!(
            reason(&padded(document, limit + 1)),
            Some(format!("larger than {limit} bytes"))
        );
        if limit > 1_000_000 {
            for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
                for depth in [5_000, 200_000] {
                    for closed in [true, false] {
                        let mut text = document.replace('}', ",\"payload\":");
                        text.push_str(&open.repeat(depth));
                        if closed {
                            text.push('1');
                            text.push_str(&close.repeat(depth));
                            text.push('}');
                        }
                        assert_eq!(
                            reason(text.as_bytes()).as_deref(),
                            Some("nested deeper than 64 levels")
                        );
                    }
                }
            }
        }
    }
}
