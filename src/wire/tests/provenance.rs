//! Who decided: names, frames, bounds, and what other readers make of it.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::{decider, seal_key};
use crate::wire::{
    AuthorizerVerdict, Decision, DecisionSource, DecisionState, Digest, FRAME_BUDGET,
    ForwardedPermissionResponse, GrantWidth, MAX_REASON_UNITS, MAX_RESPONSE_BYTES, ResponseRelay,
    UserSurface,
};

fn user() -> DecisionSource {
    DecisionSource::User {
        via: UserSurface::Dialog,
    }
}

fn in_frames(decider: DecisionSource, count: usize) -> DecisionSource {
    (0..count).fold(decider, |inner, n| {
        DecisionSource::adopted_from(format!("s{n}"), Some(inner), n % 2 == 0)
    })
}

fn decision(state: DecisionState, decided_by: DecisionSource) -> Decision {
    Decision {
        state,
        denial_reason: None,
        decided_by,
        width: GrantWidth::Proven,
    }
}

#[test]
fn every_decider_has_its_resolution_through_every_number_of_frames() {
    use DecisionState::{
        Approved, ApprovedForServingSession, ApprovedForSession, Denied, DeniedWithReason,
    };
    let rule = || DecisionSource::Rule {
        surface: "bash".to_owned(),
        pattern: None,
        origin: None,
    };
    let link = |verdict| DecisionSource::Authorizer {
        name: "judge".to_owned(),
        verdict,
        reason: None,
    };
    let grant = DecisionSource::SessionApproval {
        surface: "bash".to_owned(),
        pattern: None,
    };
    let nobody = DecisionSource::Unavailable {
        reason: "x".to_owned(),
    };
    let failed = DecisionSource::GateError {
        reason: "x".to_owned(),
    };
    let unsaid = DecisionSource::forwarded_from(Some("P".to_owned()), None);
    for (decided_by, state, resolution) in [
        (rule(), Approved, "policy_allow"),
        (rule(), Denied, "policy_deny"),
        (rule(), DeniedWithReason, "policy_deny"),
        (grant, Approved, "session_approved"),
        (
            DecisionSource::InfrastructureRead,
            Approved,
            "infrastructure_auto_allowed",
        ),
        (
            DecisionSource::Yolo { pattern: None },
            Approved,
            "auto_approved",
        ),
        (
            link(AuthorizerVerdict::Allow),
            Approved,
            "authorizer_allowed",
        ),
        (link(AuthorizerVerdict::Deny), Denied, "authorizer_denied"),
        (nobody, Denied, "confirmation_unavailable"),
        (failed, DeniedWithReason, "gate_error"),
        (user(), Approved, "user_approved"),
        (user(), ApprovedForSession, "user_approved_for_session"),
        (
            user(),
            ApprovedForServingSession,
            "user_approved_for_session",
        ),
        (user(), Denied, "user_denied"),
        (user(), DeniedWithReason, "user_denied"),
        (unsaid.clone(), Approved, "user_approved"),
        (
            unsaid.clone(),
            ApprovedForSession,
            "user_approved_for_session",
        ),
        (unsaid, Denied, "user_denied"),
    ] {
        for frames in 0..=3 {
            let decision = decision(state, in_frames(decided_by.clone(), frames));
            assert_eq!(
                decision.resolution(),
                resolution,
                "{decided_by:?} in {frames}"
            );
            assert_eq!(decision.decided_by.effective(), &decided_by);
        }
    }
}

#[test]
fn four_frames_are_written_and_a_fifth_leaves_a_gap_within_itself() {
    let four = in_frames(user(), FRAME_BUDGET);
    assert_eq!(four.effective(), &user());
    let fifth = DecisionSource::adopted_from("top".to_owned(), Some(four), true);
    assert_eq!(
        fifth,
        DecisionSource::adopted_from("top".to_owned(), None, true)
    );
    assert_eq!(fifth.effective(), &fifth);
    assert_eq!(fifth.responder(), Some("top"));
}

fn response(
    denial_reason: Option<String>,
    decided_by: DecisionSource,
) -> ForwardedPermissionResponse {
    ForwardedPermissionResponse {
        state: DecisionState::DeniedWithReason,
        denial_reason,
        responder_session_id: "P".to_owned(),
        responded_at_ms: Some(1),
        decided_by: Some(decided_by),
        width: GrantWidth::Family,
        relay: Some(ResponseRelay {
            request_digest: Some(Digest::of(b"request")),
            operator: None,
            seal: None,
        }),
    }
}

#[test]
fn prov_8_the_longest_reasons_in_the_most_frames_stay_far_below_what_readers_take() {
    let key = seal_key(1);
    for (text, kept) in [
        ("r".repeat(20_000), MAX_REASON_UNITS),
        ("\u{1b}[2J".repeat(5_000), MAX_REASON_UNITS),
        ("\u{1b}".repeat(200_000), MAX_REASON_UNITS / 2),
        ("語".repeat(20_000), MAX_REASON_UNITS),
        ("\"".repeat(20_000), MAX_REASON_UNITS),
    ] {
        let decider = DecisionSource::Rule {
            surface: text.clone(),
            pattern: Some(text.clone()),
            origin: Some(text.clone()),
        };
        for decider in [
            decider,
            DecisionSource::GateError {
                reason: text.clone(),
            },
        ] {
            let answer = response(Some(text.clone()), in_frames(decider, FRAME_BUDGET - 1));
            let sealed = answer.to_sealed_json(&key).unwrap();
            assert!(
                sealed.len() < MAX_RESPONSE_BYTES * 3 / 4,
                "{}",
                sealed.len()
            );
            let read = ForwardedPermissionResponse::from_json(&sealed).unwrap();
            let read = read.open_seal(&key.public()).unwrap();
            let reason = read.denial_reason.clone().unwrap();
            assert_eq!(reason.chars().count(), kept + 1);
            assert!(reason.ends_with('…') && text.starts_with(reason.trim_end_matches('…')));
            // Where the gate failed, the decider gives the same reason.
            if let Some(DecisionSource::GateError { reason: given }) =
                read.decided_by.as_ref().map(DecisionSource::effective)
            {
                assert_eq!(*given, reason);
            }
            // The next hop cuts nothing that this one did not.
            let again = ForwardedPermissionResponse::from_json(&read.to_json().unwrap()).unwrap();
            assert_eq!(again.decided_by, read.decided_by);
            assert_eq!(again.denial_reason, read.denial_reason);
        }
    }
}

/// Reads a decider as a strict reader does that builds its values from the keys it knows: nothing it does not know survives, and
/// one fault at any depth drops all of it.
fn as_an_allow_list_reads(value: &Value, budget: usize) -> Option<Value> {
    let text = |key: &str| value.get(key)?.as_str().map(Value::from);
    let nullable = |key: &str| {
        let found = value.get(key)?;
        (found.is_null() || found.is_string()).then(|| found.clone())
    };
    let one_of = |key: &str, known: &[&str]| {
        let found = value.get(key)?.as_str()?;
        known.contains(&found).then(|| Value::from(found))
    };
    let kind = value.get("kind")?.as_str()?;
    let mut read = Map::new();
    read.insert("kind".to_owned(), kind.into());
    let mut keep = |key: &str, found: Option<Value>| {
        read.insert(key.to_owned(), found?);
        Some(())
    };
    match kind {
        "user" => keep("via", one_of("via", &["dialog", "select"]))?,
        "authorizer" => {
            keep("name", text("name"))?;
            keep("verdict", one_of("verdict", &["allow", "deny"]))?;
            keep("reason", nullable("reason"))?;
        }
        "rule" => {
            keep("surface", text("surface"))?;
            keep("pattern", nullable("pattern"))?;
            keep("origin", nullable("origin"))?;
        }
        "session_approval" => {
            keep("surface", text("surface"))?;
            keep("pattern", nullable("pattern"))?;
        }
        "yolo" => keep("pattern", nullable("pattern"))?,
        "infrastructure_read" => {}
        "unavailable" | "gate_error" => keep("reason", text("reason"))?,
        "forwarded" => {
            let budget = budget.checked_sub(1)?;
            keep("responderSessionId", nullable("responderSessionId"))?;
            let inner = value.get("decision")?;
            let read = if inner.is_null() {
                Value::Null
            } else {
                as_an_allow_list_reads(inner, budget)?
            };
            keep("decision", Some(read))?;
        }
        _ => return None,
    }
    Some(Value::Object(read))
}

/// A decider without what only our own readers know.
fn plain(value: &Value) -> Value {
    let Some(members) = value.as_object() else {
        return value.clone();
    };
    let known = members.iter().filter(|(key, _)| *key != "relay");
    known
        .map(|(key, value)| (key.clone(), plain(value)))
        .collect()
}

proptest! {
    /// An older child reads an answer of ours: a seal, and frames that say whether they were sealed, cost it nothing.
    #[test]
    fn a_reader_that_knows_no_seal_reads_the_same_decider(decider in decider()) {
        let sealed = response(Some("no".to_owned()), decider.clone())
            .to_sealed_json(&seal_key(2))
            .unwrap();
        let document: Value = serde_json::from_slice(&sealed).unwrap();
        prop_assert!(document["relay"]["seal"].is_object());
        let read = as_an_allow_list_reads(&document["decidedBy"], FRAME_BUDGET);
        prop_assert_eq!(read, Some(plain(&json!(decider))));
    }
}

#[test]
fn an_older_answer_says_who_answered_and_not_what_decided() {
    // What an older session writes, and one of a kind that is not known yet, at any depth.
    for decided_by in [
        json!(null),
        json!({"kind": "oracle", "name": "x"}),
        json!({"kind": "forwarded", "responderSessionId": "Q", "decision": {"kind": "oracle"}}),
        json!({"kind": "user", "via": "telepathy"}),
    ] {
        let mut document = json!({
            "approved": true, "state": "approved", "responderSessionId": "P", "respondedAt": 1,
            "decidedBy": decided_by, "decidedWith": {"of": ["a", "later", "version"]},
        });
        if decided_by.is_null() {
            document.as_object_mut().unwrap().remove("decidedBy");
        }
        let read = ForwardedPermissionResponse::from_json(document.to_string().as_bytes()).unwrap();
        assert_eq!(read.state, DecisionState::Approved);
        assert_eq!(read.decided_by, None, "{document}");
        let adopted =
            DecisionSource::adopted_from(read.responder_session_id, read.decided_by, false);
        assert_eq!(
            json!(adopted),
            json!({"kind": "forwarded", "responderSessionId": "P", "decision": null})
        );
    }
}
