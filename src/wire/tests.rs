//! What must hold of every value and of every sequence of bytes: round trips, and that nothing but a clear approval is one.

mod provenance;

use proptest::prelude::*;
use proptest::test_runner::Config;
use serde_json::Value;

use zeroize::Zeroizing;

use super::*;

#[path = "../../tests/it/support/schema.rs"]
mod validator;

/// Cases are few, so that the suite stays fast, and failures are printed instead of being written into the source tree.
fn config(cases: u32) -> Config {
    Config {
        cases,
        failure_persistence: None,
        ..Config::default()
    }
}

/// Text with everything that a writer has to escape or must leave alone.
fn text() -> impl Strategy<Value = String> {
    let special = prop::sample::select(vec![
        '"',
        '\\',
        '/',
        '\u{0}',
        '\u{8}',
        '\t',
        '\n',
        '\u{b}',
        '\u{c}',
        '\r',
        '\u{1b}',
        '\u{1f}',
        '\u{7f}',
        '\u{85}',
        '\u{202e}',
        '\u{2028}',
        '\u{2029}',
        '\u{d7ff}',
        '\u{e000}',
        '\u{feff}',
        '\u{fffd}',
        '\u{ffff}',
        '\u{1f680}',
        '\u{10ffff}',
        '[',
        '{',
    ]);
    prop::collection::vec(
        prop_oneof![3 => special, 2 => any::<char>(), 3 => prop::char::range(' ', '~')],
        0..12,
    )
    .prop_map(|chars| chars.into_iter().collect())
}

fn filled() -> impl Strategy<Value = String> {
    text().prop_map(|text| format!("x{text}"))
}

fn maybe<T: std::fmt::Debug>(of: impl Strategy<Value = T>) -> impl Strategy<Value = Option<T>> {
    prop::option::of(of)
}

fn some<T: std::fmt::Debug>(of: impl Strategy<Value = T>) -> impl Strategy<Value = Vec<T>> {
    prop::collection::vec(of, 0..4)
}

fn id() -> impl Strategy<Value = RequestId> {
    "[A-Za-z0-9._-]{1,200}".prop_filter_map("\".\" and \"..\" are no ids", |text| {
        RequestId::parse(&text)
    })
}

fn process() -> impl Strategy<Value = ProcessMark> {
    (maybe(text()), maybe(text()), maybe(text())).prop_map(|(pid_start, boot_id, pid_ns)| {
        ProcessMark {
            pid_start,
            boot_id,
            pid_ns,
        }
    })
}

fn pid() -> impl Strategy<Value = u32> {
    1..=i32::MAX.unsigned_abs()
}

fn payload() -> impl Strategy<Value = PromptPayload> {
    let kind = prop::sample::select(vec![
        PayloadKind::Bash,
        PayloadKind::Mcp,
        PayloadKind::Tool,
        PayloadKind::Path,
        PayloadKind::ExternalDirectory,
        PayloadKind::BashExternalDirectory,
        PayloadKind::Skill,
        PayloadKind::SkillRead,
        PayloadKind::Forwarded,
    ]);
    let context = prop::sample::select(vec![
        CommandContext::CommandSubstitution,
        CommandContext::ProcessSubstitution,
        CommandContext::Subshell,
    ]);
    let requester = (maybe(text()), any::<bool>(), maybe(text())).prop_map(
        |(agent_name, forwarded, session_id)| Requester {
            agent_name,
            forwarded,
            session_id,
        },
    );
    let facts = (
        (requester, text(), maybe(text()), maybe(text()), text()),
        (maybe(text()), maybe(context), maybe(text()), maybe(text())),
    )
        .prop_map(|(first, second)| {
            let (requester, surface, tool_name, invoked_tool_name, value) = first;
            let (matched_pattern, command_context, executed_unit, matched_spelling) = second;
            RequestFacts {
                requester,
                surface,
                tool_name,
                invoked_tool_name,
                value,
                matched_pattern,
                command_context,
                executed_unit,
                matched_spelling,
            }
        });
    let evidence = (text(), text(), maybe(text())).prop_map(|(label, text, detail)| Evidence {
        label,
        text,
        detail,
    });
    let annotation = (text(), text()).prop_map(|(source, text)| Annotation { source, text });
    (kind, facts, some(evidence), some(annotation)).prop_map(
        |(kind, request, evidence, annotations)| PromptPayload {
            kind,
            request,
            evidence,
            annotations,
        },
    )
}

fn intent() -> impl Strategy<Value = ForwardedAccessIntent> {
    let unit = (text(), maybe(text())).prop_map(|(command, floor)| AskingUnit { command, floor });
    (
        (text(), some(text()), maybe(text()), text()),
        (text(), text(), maybe(text())),
        maybe(prop::collection::vec(unit, 1..4)),
    )
        .prop_map(|(first, second, asking_units)| {
            let (surface, match_values, boundary_value, requester_cwd) = first;
            let (session_id, agent_name, floor) = second;
            ForwardedAccessIntent {
                surface,
                match_values,
                boundary_value,
                requester_cwd,
                principal: Principal {
                    session_id,
                    agent_name,
                },
                floor,
                asking_units,
            }
        })
}

fn request_relay() -> impl Strategy<Value = RequestRelay> {
    let hop = (text(), text()).prop_map(|(session_id, agent_name)| Hop {
        session_id,
        agent_name,
    });
    (
        any::<bool>(),
        maybe(pid()),
        process(),
        maybe(any::<u64>()),
        maybe(text()),
        prop::collection::vec(hop, 0..=MAX_HOPS),
        any::<(bool, bool, bool)>(),
    )
        .prop_map(
            |(held, pid, process, timeout_ms, nonce, path, (rules_only, guard, verdict_only))| {
                RequestRelay {
                    held,
                    pid,
                    process,
                    timeout_ms,
                    nonce,
                    path,
                    rules_only,
                    guard,
                    verdict_only,
                }
            },
        )
}

/// A request without `message`, which only the oldest generation carries.
fn request() -> impl Strategy<Value = ForwardedPermissionRequest> {
    let source = prop::sample::select(vec![
        RequestSource::ToolCall,
        RequestSource::SkillInput,
        RequestSource::SkillRead,
    ]);
    let grant =
        (filled(), text()).prop_map(|(surface, pattern)| ApprovalGrant { surface, pattern });
    (
        (id(), any::<i64>(), text(), text(), text()),
        (
            maybe(payload()),
            maybe(source),
            maybe(text()),
            maybe(text()),
        ),
        (some(grant), maybe(intent()), maybe(request_relay())),
    )
        .prop_map(|(first, second, third)| {
            let (id, created_at_ms, requester_session_id, target_session_id, name) = first;
            let (payload, source, surface, value) = second;
            let (grants, access_intent, relay) = third;
            ForwardedPermissionRequest {
                id,
                created_at_ms,
                requester_session_id,
                target_session_id,
                requester_agent_name: name,
                payload,
                message: None,
                source,
                surface,
                value,
                grants,
                access_intent,
                relay,
                was_replaced: false,
            }
        })
}

fn decider() -> impl Strategy<Value = DecisionSource> {
    let via = prop::sample::select(vec![UserSurface::Dialog, UserSurface::Select]);
    let verdict = prop::sample::select(vec![AuthorizerVerdict::Allow, AuthorizerVerdict::Deny]);
    let leaf = prop_oneof![
        via.prop_map(|via| DecisionSource::User { via }),
        (text(), verdict, maybe(text())).prop_map(|(name, verdict, reason)| {
            DecisionSource::Authorizer {
                name,
                verdict,
                reason,
            }
        }),
        (text(), maybe(text()), maybe(text())).prop_map(|(surface, pattern, origin)| {
            DecisionSource::Rule {
                surface,
                pattern,
                origin,
            }
        }),
        (text(), maybe(text()))
            .prop_map(|(surface, pattern)| DecisionSource::SessionApproval { surface, pattern }),
        maybe(text()).prop_map(|pattern| DecisionSource::Yolo { pattern }),
        Just(DecisionSource::InfrastructureRead),
        text().prop_map(|reason| DecisionSource::Unavailable { reason }),
        text().prop_map(|reason| DecisionSource::GateError { reason }),
    ];
    let frames = prop::collection::vec((maybe(text()), any::<bool>()), 0..=FRAME_BUDGET);
    (maybe(leaf), frames).prop_map(|(leaf, frames)| {
        frames
            .into_iter()
            .fold(leaf, |inner, (responder, sealed)| {
                Some(match responder {
                    Some(responder) => DecisionSource::adopted_from(responder, inner, sealed),
                    None => DecisionSource::forwarded_from(None, inner),
                })
            })
            .unwrap_or(DecisionSource::InfrastructureRead)
    })
}

fn response() -> impl Strategy<Value = ForwardedPermissionResponse> {
    let state = prop::sample::select(vec![
        DecisionState::Approved,
        DecisionState::ApprovedForSession,
        DecisionState::ApprovedForServingSession,
        DecisionState::Denied,
        DecisionState::DeniedWithReason,
    ]);
    let width = prop::sample::select(vec![GrantWidth::Proven, GrantWidth::Family]);
    let digest = any::<Vec<u8>>().prop_map(|bytes| Digest::of(&bytes));
    let relay =
        (maybe(digest), maybe(text())).prop_map(|(request_digest, operator)| ResponseRelay {
            request_digest,
            operator,
            seal: None,
        });
    (
        state,
        maybe(text()),
        text(),
        maybe(any::<i64>()),
        maybe(decider()),
        width,
        maybe(relay),
    )
        .prop_map(
            |(state, denial_reason, responder, responded_at_ms, decided_by, width, relay)| {
                ForwardedPermissionResponse {
                    state,
                    denial_reason,
                    responder_session_id: responder,
                    responded_at_ms,
                    decided_by,
                    width,
                    relay,
                }
            },
        )
}

fn seal_key(seed: u8) -> SealKey {
    SealKey::from_seed(&Zeroizing::new([seed; SEAL_SEED_BYTES]))
}

fn link_health() -> impl Strategy<Value = LinkHealth> {
    ("\\PC{0,8}", any::<u32>(), any::<u32>(), any::<bool>()).prop_map(
        |(name, asked, failed, missing)| LinkHealth {
            name,
            asked: asked.into(),
            failed: failed.into(),
            missing,
        },
    )
}

fn heartbeat() -> impl Strategy<Value = Heartbeat> {
    let relay = (
        any::<bool>(),
        maybe(text()),
        process(),
        maybe(any::<u64>()),
        maybe(text()),
        maybe(text()),
        maybe(text()),
        maybe(text()),
        prop::collection::vec(link_health(), 0..3),
    )
        .prop_map(
            |(
                held,
                public_key,
                process,
                queued,
                mode,
                agent,
                log_failure,
                config_failure,
                authorizers,
            )| {
                HeartbeatRelay {
                    held,
                    public_key,
                    process,
                    queued,
                    mode,
                    agent,
                    log_failure,
                    config_failure,
                    authorizers,
                }
            },
        );
    (filled(), pid(), any::<i64>(), maybe(relay)).prop_map(
        |(session_id, pid, updated_at_ms, relay)| Heartbeat {
            session_id,
            pid,
            updated_at_ms,
            relay,
        },
    )
}

/// Bytes that look like a document: pieces of one in any order, some of them damaged.
fn pieces() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        8 => prop::sample::select(vec![
            "{", "}", "[", "]", ",", ":", "\"", "\\", "\\u", "\\ud800", "null", "true", "false", "1", "-", "1e400", " ",
            "\"approved\":true", "\"approved\":false", "\"approved\":1", "\"state\":\"approved\"", "\"state\":\"denied\"",
            "\"state\":\"approved_for_session\"", "\"responderSessionId\":\"p\"", "{\"approved\":true,", "\"x\":{",
            "\"decidedBy\":{\"kind\":\"user\",\"via\":\"dialog\"}", "\"id\":\"a\"", "\"createdAt\":1", "\"payload\":{",
            "\"requesterSessionId\":\"c\"", "\"targetSessionId\":\"p\"", "\"requesterAgentName\":\"\"",
            "\"sessionId\":\"p\"", "\"pid\":1", "\"updatedAt\":1", "\"relay\":{\"path\":[",
        ]).prop_map(|piece| piece.as_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..4),
    ];
    prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

/// One change to a document.
#[derive(Debug, Clone)]
enum Change {
    Set(usize, u8),
    Remove(usize, usize),
    Repeat(usize, usize),
    Cut(usize),
}

fn change() -> impl Strategy<Value = Change> {
    let byte = prop_oneof![any::<u8>(), prop::sample::select(b"{}[],:\"\\0u".to_vec()),];
    prop_oneof![
        (any::<usize>(), byte).prop_map(|(at, byte)| Change::Set(at, byte)),
        (any::<usize>(), 1..20usize).prop_map(|(at, length)| Change::Remove(at, length)),
        (any::<usize>(), 1..80usize).prop_map(|(at, length)| Change::Repeat(at, length)),
        any::<usize>().prop_map(Change::Cut),
    ]
}

fn changed(mut bytes: Vec<u8>, changes: &[Change]) -> Vec<u8> {
    for change in changes {
        if bytes.is_empty() {
            break;
        }
        let length = bytes.len();
        match *change {
            Change::Set(at, byte) => bytes[at % length] = byte,
            Change::Remove(at, count) => {
                let at = at % length;
                bytes.drain(at..(at + count).min(length));
            }
            Change::Repeat(at, count) => {
                let at = at % length;
                let part = bytes[at..(at + count).min(length)].to_vec();
                bytes.splice(at..at, part);
            }
            Change::Cut(at) => bytes.truncate(at % length),
        }
    }
    bytes
}

/// Faults of a document by the schema of its kind; `None` where no strict parser takes it.
fn schema_faults(kind: SchemaName, bytes: &[u8]) -> Option<Vec<String>> {
    let schema: Value = serde_json::from_str(kind.text()).unwrap();
    let value: Value = serde_json::from_slice(bytes).ok()?;
    Some(validator::faults(&schema, &value))
}

/// Why `bytes` are no document of `kind`.
fn unusable(kind: SchemaName, bytes: &[u8]) -> Option<Unusable> {
    match kind {
        SchemaName::Request => ForwardedPermissionRequest::from_json(bytes).err(),
        SchemaName::Response => ForwardedPermissionResponse::from_json(bytes).err(),
        SchemaName::Heartbeat => Heartbeat::from_json(bytes).err(),
        SchemaName::Payload => PromptPayload::from_json(bytes).err(),
        SchemaName::Grant => GrantRecord::from_json(bytes).err(),
        SchemaName::Log => unreachable!("a line of the log is no document of the spool"),
    }
}

/// A change to one node of a document, which stays JSON.
#[derive(Debug, Clone)]
enum Graft {
    Remove,
    Put(Value),
}

fn graft() -> impl Strategy<Value = Graft> {
    let values = [
        "null",
        "true",
        "false",
        "0",
        "-1",
        "1.5",
        "4294967295",
        "\"\"",
        "\"x\"",
        "[]",
        "{}",
        "[\"x\"]",
        "[null]",
        "[{}]",
    ];
    prop_oneof![
        1 => Just(Graft::Remove),
        3 => prop::sample::select(values.to_vec())
            .prop_map(|text| Graft::Put(serde_json::from_str(text).unwrap())),
    ]
}

/// Puts `graft` in the place of the node below `value` that `countdown` comes to.
fn grafted(value: &mut Value, graft: &Graft, countdown: &mut usize) -> bool {
    fn here(countdown: &mut usize) -> bool {
        let here = *countdown == 0;
        *countdown = countdown.saturating_sub(1);
        here
    }
    match value {
        Value::Object(members) => {
            for key in members.keys().cloned().collect::<Vec<_>>() {
                if here(countdown) {
                    match graft {
                        Graft::Remove => drop(members.remove(&key)),
                        Graft::Put(new) => drop(members.insert(key, new.clone())),
                    }
                    return true;
                }
                if grafted(&mut members[&key], graft, countdown) {
                    return true;
                }
            }
            false
        }
        Value::Array(elements) => {
            for at in 0..elements.len() {
                if here(countdown) {
                    match graft {
                        Graft::Remove => drop(elements.remove(at)),
                        Graft::Put(new) => elements[at] = new.clone(),
                    }
                    return true;
                }
                if grafted(&mut elements[at], graft, countdown) {
                    return true;
                }
            }
            false
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// Every kind, written from a value that has been built.
fn document() -> impl Strategy<Value = (SchemaName, Vec<u8>)> {
    // Boxed, for without optimisation they do not all find room on the stack of a test.
    prop_oneof![
        3 => request().prop_map(|value| (SchemaName::Request, value.to_json(Generation::Current).unwrap())).boxed(),
        2 => response().prop_map(|value| (SchemaName::Response, value.to_json().unwrap())).boxed(),
        1 => heartbeat().prop_map(|value| (SchemaName::Heartbeat, value.to_json().unwrap())).boxed(),
        1 => payload().prop_map(|value| (SchemaName::Payload, serde_json::to_vec(&value).unwrap())).boxed(),
    ]
}

/// Reads `bytes` as everything they could be, and holds an approval against a second reader.
fn read_as_anything(bytes: &[u8]) -> Result<(), TestCaseError> {
    if let Ok(request) = ForwardedPermissionRequest::from_json(bytes) {
        request.projection();
        prop_assert!(request.to_json(Generation::Current).is_ok());
    }
    if let Ok(heartbeat) = Heartbeat::from_json(bytes) {
        prop_assert!(heartbeat.pid > 0 && i32::try_from(heartbeat.pid).is_ok());
    }
    if let Ok(payload) = PromptPayload::from_json(bytes) {
        prop_assert!(serde_json::to_vec(&payload).is_ok());
    }
    if let Ok(response) = ForwardedPermissionResponse::from_json(bytes)
        && response.state.is_approved()
    {
        prop_assert!(bytes.windows(4).any(|four| four == b"true"));
        // The second reader is stricter in some points; where it reads, it must see the same.
        if let Ok(value) = serde_json::from_slice::<Value>(bytes) {
            prop_assert_eq!(&value["approved"], &Value::Bool(true));
            prop_assert_eq!(&value["state"], response.state.name());
            prop_assert!(value["responderSessionId"].is_string());
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(config(192))]

    #[test]
    fn a_request_reads_back(request in request()) {
        let bytes = request.to_json(Generation::Current).unwrap();
        prop_assert_eq!(ForwardedPermissionRequest::from_json(&bytes).unwrap(), request);
    }

    #[test]
    fn a_request_for_the_oldest_generation_reads_back(mut request in request(), message in text(), surface in filled()) {
        request.message = Some(message);
        for grant in &mut request.grants {
            grant.surface.clone_from(&surface);
        }
        let bytes = request.to_json(Generation::G1).unwrap();
        prop_assert_eq!(ForwardedPermissionRequest::from_json(&bytes).unwrap(), request);
    }

    #[test]
    fn a_response_reads_back(response in response()) {
        let bytes = response.to_json().unwrap();
        prop_assert_eq!(ForwardedPermissionResponse::from_json(&bytes).unwrap(), response);
    }

    #[test]
    fn a_sealed_response_is_what_was_sealed(mut response in response(), digest in any::<Vec<u8>>(), seed in any::<u8>()) {
        response.relay.get_or_insert_default().request_digest = Some(Digest::of(&digest));
        let bytes = response.to_sealed_json(&seal_key(seed)).unwrap();
        prop_assert_eq!(schema_faults(SchemaName::Response, &bytes), Some(Vec::new()));
        let sealed = ForwardedPermissionResponse::from_json(&bytes).unwrap();
        prop_assert_eq!(sealed.clone().open_seal(&seal_key(seed).public()), Ok(response));
        prop_assert_eq!(
            sealed.open_seal(&seal_key(seed.wrapping_add(1)).public()),
            Err(SealFault::NotSigned)
        );
    }

    #[test]
    fn a_damaged_seal_holds_the_same_or_nothing(
        mut response in response(),
        changes in prop::collection::vec(change(), 1..6),
    ) {
        response.relay.get_or_insert_default().request_digest = Some(Digest::of(b""));
        let bytes = changed(response.to_sealed_json(&seal_key(1)).unwrap(), &changes);
        if let Ok(damaged) = ForwardedPermissionResponse::from_json(&bytes)
            && let Ok(opened) = damaged.open_seal(&seal_key(1).public())
        {
            prop_assert_eq!(opened, response);
        }
    }

    #[test]
    fn a_heartbeat_reads_back(heartbeat in heartbeat()) {
        let bytes = heartbeat.to_json().unwrap();
        prop_assert_eq!(Heartbeat::from_json(&bytes).unwrap(), heartbeat);
    }

    #[test]
    fn a_payload_reads_back(payload in payload()) {
        let bytes = serde_json::to_vec(&payload).unwrap();
        prop_assert_eq!(PromptPayload::from_json(&bytes).unwrap(), payload);
    }

    #[test]
    fn what_is_written_fits_its_schema((kind, bytes) in document()) {
        prop_assert_eq!(schema_faults(kind, &bytes), Some(Vec::new()));
    }

    #[test]
    fn a_session_id_survives_its_directory_name(text in text()) {
        if let Ok(id) = SessionId::parse(&text) {
            let name = id.encoded();
            prop_assert!(!name.contains(['/', '\0']) && !matches!(name.as_str(), "" | "." | ".."));
            prop_assert_eq!(SessionId::from_encoded(&name), Some(id));
        }
    }
}

proptest! {
    #![proptest_config(config(256))]

    #[test]
    fn no_bytes_panic_or_approve_by_accident(bytes in prop_oneof![pieces(), any::<Vec<u8>>()]) {
        read_as_anything(&bytes)?;
    }

    #[test]
    fn a_damaged_request_never_panics(request in request(), changes in prop::collection::vec(change(), 1..6)) {
        read_as_anything(&changed(request.to_json(Generation::Current).unwrap(), &changes))?;
    }

    #[test]
    fn a_damaged_response_approves_only_what_it_says(response in response(), changes in prop::collection::vec(change(), 1..6)) {
        read_as_anything(&changed(response.to_json().unwrap(), &changes))?;
    }

    #[test]
    fn what_fits_its_schema_is_usable(
        (kind, bytes) in document(),
        changes in prop::collection::vec((0..60usize, graft()), 1..4),
    ) {
        let mut value: Value = serde_json::from_slice(&bytes).unwrap();
        for (at, graft) in &changes {
            grafted(&mut value, graft, &mut at.clone());
        }
        let bytes = serde_json::to_vec(&value).unwrap();
        read_as_anything(&bytes)?;
        if let Some(reason) = unusable(kind, &bytes) {
            prop_assert_ne!(schema_faults(kind, &bytes), Some(Vec::new()), "{}", reason);
        }
    }

    #[test]
    fn a_cut_document_is_unusable(response in response(), at in any::<prop::sample::Index>()) {
        let bytes = response.to_json().unwrap();
        let cut = &bytes[..at.index(bytes.len())];
        prop_assert!(ForwardedPermissionResponse::from_json(cut).is_err());
    }
}

/// Every member of a request, with text that needs every kind of escape.
fn whole_request() -> ForwardedPermissionRequest {
    let text = |text: &str| Some(text.to_owned());
    ForwardedPermissionRequest {
        id: RequestId::parse("perm-1").unwrap(),
        created_at_ms: 1_795_000_000_000,
        requester_session_id: "C\u{1f}\u{8}\u{c}".to_owned(),
        target_session_id: "P/\\\"".to_owned(),
        requester_agent_name: "\u{2028}\u{2029}\u{7f}\u{85}\u{1f680}".to_owned(),
        payload: Some(PromptPayload {
            kind: PayloadKind::BashExternalDirectory,
            request: RequestFacts {
                requester: Requester {
                    agent_name: None,
                    forwarded: false,
                    session_id: None,
                },
                surface: "bash".to_owned(),
                tool_name: text("bash"),
                invoked_tool_name: text("sh"),
                value: "a\nb\tc\r".to_owned(),
                matched_pattern: text("<x>"),
                command_context: Some(CommandContext::Subshell),
                executed_unit: text("é"),
                matched_spelling: text("s"),
            },
            evidence: vec![Evidence {
                label: "l".to_owned(),
                text: "t".to_owned(),
                detail: None,
            }],
            annotations: vec![Annotation {
                source: "m".to_owned(),
                text: "n".to_owned(),
            }],
        }),
        message: text("\u{0}m"),
        source: Some(RequestSource::SkillRead),
        surface: text("bash"),
        value: None,
        grants: ["a*", ""]
            .map(|pattern| ApprovalGrant {
                surface: "bash".to_owned(),
                pattern: pattern.to_owned(),
            })
            .to_vec(),
        access_intent: Some(ForwardedAccessIntent {
            surface: "bash".to_owned(),
            match_values: vec!["v".to_owned()],
            boundary_value: None,
            requester_cwd: "/w".to_owned(),
            principal: Principal {
                session_id: "C".to_owned(),
                agent_name: "a".to_owned(),
            },
            floor: text("<f>"),
            asking_units: Some(vec![
                AskingUnit {
                    command: "u".to_owned(),
                    floor: text("<g>"),
                },
                AskingUnit {
                    command: "w".to_owned(),
                    floor: None,
                },
            ]),
        }),
        relay: Some(RequestRelay {
            held: true,
            pid: Some(7),
            process: ProcessMark {
                pid_start: text("1"),
                boot_id: text("2"),
                pid_ns: text("3"),
            },
            timeout_ms: Some(4),
            nonce: text("5"),
            path: vec![Hop {
                session_id: "D".to_owned(),
                agent_name: "d".to_owned(),
            }],
            rules_only: true,
            guard: true,
            verdict_only: true,
        }),
        was_replaced: false,
    }
}

const HEAD: &str = concat!(
    r#"{"id":"perm-1","createdAt":1795000000000,"requesterSessionId":"C\u001f\b\f","targetSessionId":"P/\\\"","#,
    "\"requesterAgentName\":\"\u{2028}\u{2029}\u{7f}\u{85}\u{1f680}\","
);
const FACTS: &str = concat!(
    r#""payload":{"kind":"bash_external_directory","request":{"requester":{"agentName":null,"forwarded":false,"#,
    r#""sessionId":null},"surface":"bash","toolName":"bash","invokedToolName":"sh","value":"a\nb\tc\r","#,
    r#""matchedPattern":"<x>","commandContext":"subshell","executedUnit":"é","matchedSpelling":"s"},"#,
    r#""evidence":[{"label":"l","text":"t","detail":null}],"annotations":[{"source":"m","text":"n"}]},"#,
    r#""source":"skill_read","surface":"bash","value":null,"#
);
const TAIL: &str = concat!(
    r#""accessIntent":{"surface":"bash","matchValues":["v"],"boundaryValue":null,"requesterCwd":"/w","#,
    r#""principal":{"sessionId":"C","agentName":"a"},"floor":"<f>","#,
    r#""askingUnits":[{"command":"u","floor":"<g>"},{"command":"w"}]},"#,
    r#""relay":{"v":1,"held":true,"pid":7,"pidStart":"1","bootId":"2","pidNs":"3","timeoutMs":4,"nonce":"5","#,
    r#""path":[{"sessionId":"D","agentName":"d"}],"rulesOnly":true,"guard":true,"verdictOnly":true}}"#
);

#[test]
fn a_whole_request_is_written_in_the_order_and_with_the_escapes_of_the_peer() {
    let written = whole_request().to_json(Generation::Current).unwrap();
    let grants = r#""sessionApproval":{"grants":[{"surface":"bash","pattern":"a*"},{"surface":"bash","pattern":""}]},"#;
    assert_eq!(
        String::from_utf8(written).unwrap(),
        [HEAD, FACTS, grants, TAIL].concat()
    );
}

#[test]
fn a_request_for_the_oldest_generation_carries_the_text_and_the_older_suggestion() {
    let mut request = whole_request();
    let written = request.to_json(Generation::G1).unwrap();
    let message = r#""message":"\u0000m","#;
    let patterns = r#""sessionApproval":{"surface":"bash","patterns":["a*",""]},"#;
    assert_eq!(
        String::from_utf8(written).unwrap(),
        [HEAD, message, FACTS, patterns, TAIL].concat()
    );
    // Grants on two surfaces have no older form, so none is suggested.
    request.grants[1].surface = "path".to_owned();
    let written = request.to_json(Generation::G1).unwrap();
    assert_eq!(
        String::from_utf8(written).unwrap(),
        [HEAD, message, FACTS, TAIL].concat()
    );
    request.message = None;
    assert!(matches!(
        request.to_json(Generation::G1),
        Err(WriteError::NoMessage)
    ));
}

#[test]
fn a_request_writes_no_key_for_what_it_does_not_have() {
    let mut request = whole_request();
    request.payload = None;
    request.source = None;
    request.surface = None;
    request.grants.clear();
    request.access_intent = None;
    request.relay = None;
    let written = request.to_json(Generation::Current).unwrap();
    assert_eq!(
        String::from_utf8(written).unwrap(),
        [HEAD, r#""surface":null,"value":null}"#].concat()
    );
    request.relay = Some(RequestRelay::default());
    let written = request.to_json(Generation::Current).unwrap();
    assert_eq!(
        String::from_utf8(written).unwrap(),
        [
            HEAD,
            r#""surface":null,"value":null,"relay":{"v":1,"held":false}}"#
        ]
        .concat()
    );
}

#[test]
fn a_path_that_no_reader_takes_is_not_written() {
    let mut request = whole_request();
    let hop = Hop {
        session_id: "D".to_owned(),
        agent_name: "d".to_owned(),
    };
    request.relay.as_mut().unwrap().path = vec![hop; MAX_HOPS + 1];
    assert!(matches!(
        request.to_json(Generation::Current),
        Err(WriteError::TooManyHops)
    ));
}

#[test]
fn a_response_and_a_heartbeat_are_written_in_order() {
    let response = ForwardedPermissionResponse {
        state: DecisionState::ApprovedForSession,
        denial_reason: Some("\u{7f}\"\u{b}".to_owned()),
        responder_session_id: "P".to_owned(),
        responded_at_ms: Some(-1),
        decided_by: Some(DecisionSource::forwarded_from(
            None,
            Some(DecisionSource::SessionApproval {
                surface: "bash".to_owned(),
                pattern: None,
            }),
        )),
        width: GrantWidth::Family,
        relay: Some(ResponseRelay {
            request_digest: Some(Digest::of(b"")),
            operator: Some("ada".to_owned()),
            seal: None,
        }),
    };
    let expected = concat!(
        "{\"approved\":true,\"state\":\"approved_for_session\",\"denialReason\":\"\u{7f}\\\"\\u000b\",",
        r#""responderSessionId":"P","respondedAt":-1,"#,
        r#""decidedBy":{"kind":"forwarded","responderSessionId":null,"decision":{"kind":"session_approval","surface":"bash","pattern":null}},"#,
        r#""sessionGrantWidth":"family","#,
        r#""relay":{"v":1,"requestDigest":"blake3:af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262","operator":"ada"}}"#
    );
    assert_eq!(
        String::from_utf8(response.to_json().unwrap()).unwrap(),
        expected
    );

    let heartbeat = Heartbeat {
        session_id: "P".to_owned(),
        pid: 7,
        updated_at_ms: 8,
        relay: Some(HeartbeatRelay {
            held: true,
            public_key: Some("k".to_owned()),
            process: ProcessMark {
                pid_start: Some("1".to_owned()),
                boot_id: Some("2".to_owned()),
                pid_ns: Some("3".to_owned()),
            },
            queued: Some(0),
            mode: Some("tui".to_owned()),
            agent: Some("a".to_owned()),
            log_failure: Some("full".to_owned()),
            config_failure: Some("torn".to_owned()),
            authorizers: vec![
                LinkHealth {
                    name: "judge".to_owned(),
                    asked: 3,
                    failed: 1,
                    missing: false,
                },
                LinkHealth {
                    name: "x".repeat(100),
                    missing: true,
                    ..LinkHealth::default()
                },
            ],
        }),
    };
    assert_eq!(
        String::from_utf8(heartbeat.to_json().unwrap()).unwrap(),
        concat!(
            r#"{"sessionId":"P","pid":7,"updatedAt":8,"relay":{"v":1,"held":true,"publicKey":"k","pidStart":"1","#,
            r#""bootId":"2","pidNs":"3","queued":0,"mode":"tui","agent":"a","logFailure":"full","configFailure":"torn","#,
            r#""authorizers":[{"name":"judge","asked":3,"failed":1},"#,
            r#"{"name":"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…","asked":0,"failed":0,"missing":true}]}}"#
        )
    );
}

#[test]
fn a_heartbeat_can_be_read_whatever_its_server_has_to_tell() {
    for text in ["\u{1}", "\"", "é", "😀", "x"] {
        let long = text.repeat(100_000);
        let heartbeat = Heartbeat {
            session_id: "P".repeat(200),
            pid: 4_194_304,
            updated_at_ms: 1_795_000_004_000,
            relay: Some(HeartbeatRelay {
                held: true,
                public_key: Some("k".repeat(100)),
                process: ProcessMark::default(),
                queued: Some(u64::MAX),
                mode: Some("headless".to_owned()),
                agent: Some(long.clone()),
                log_failure: Some(long.clone()),
                config_failure: Some(long.clone()),
                authorizers: vec![
                    LinkHealth {
                        name: long,
                        asked: u64::MAX,
                        failed: u64::MAX,
                        missing: true,
                    };
                    1_000
                ],
            }),
        };
        let bytes = heartbeat.to_json().unwrap();
        assert!(Heartbeat::from_json(&bytes).is_ok(), "{}", bytes.len());
    }
}

#[test]
fn every_id_that_would_leave_its_directory_is_refused() {
    for text in ["../../x", "/etc/x", "a/b", ".", "..", "", "a\0", "é", "a b"] {
        assert_eq!(RequestId::parse(text), None, "{text:?}");
    }
    assert_eq!(RequestId::parse(&"a".repeat(201)), None);
    for name in [
        "a", ".json", "..json", "...json", "a.json/", "a/b.json", "a.JSON",
    ] {
        assert_eq!(RequestId::from_file_name(name), None, "{name:?}");
    }
    let minted = RequestId::mint([0xff; 16]);
    assert_eq!(minted.as_str(), "perm-ffffffff-ffff-4fff-bfff-ffffffffffff");
    assert_eq!(RequestId::from_file_name(&minted.file_name()), Some(minted));
}
