//! What a seal costs: to make one, to check one, and the same answer without any.

use std::hint::black_box;
use std::time::Instant;

use askrelay::wire::{
    DecisionSource, DecisionState, Digest, ForwardedPermissionResponse, GrantWidth, ResponseRelay,
    SEAL_SEED_BYTES, SealKey,
};
use zeroize::Zeroizing;

use super::figures::{Goal, Line, Unit};
use super::{in_turn, place::Place};

/// How often each is done in a measurement.
const TIMES: u32 = 2_000;

type Work<'a> = &'a dyn Fn();

fn response() -> ForwardedPermissionResponse {
    ForwardedPermissionResponse {
        state: DecisionState::Approved,
        denial_reason: None,
        responder_session_id: "main".to_owned(),
        responded_at_ms: Some(1_790_000_000_000),
        decided_by: Some(DecisionSource::Rule {
            surface: "bash".to_owned(),
            pattern: Some("ls *".to_owned()),
            origin: Some("global".to_owned()),
        }),
        width: GrantWidth::Proven,
        relay: Some(ResponseRelay {
            request_digest: Some(Digest::of(b"a request")),
            ..ResponseRelay::default()
        }),
    }
}

fn each(work: impl Fn()) -> f64 {
    let started = Instant::now();
    for _ in 0..TIMES {
        work();
    }
    started.elapsed().as_secs_f64() / f64::from(TIMES)
}

pub(crate) fn seal(_place: &Place) {
    let key = SealKey::from_seed(&Zeroizing::new([7; SEAL_SEED_BYTES]));
    let public = key.public();
    let response = response();
    let plain = response.to_json().unwrap();
    let sealed = response.to_sealed_json(&key).unwrap();
    let read = |bytes: &[u8]| ForwardedPermissionResponse::from_json(black_box(bytes)).unwrap();
    let rows: [(&'static str, Work<'_>, Work<'_>); 2] = [
        (
            "an answer sealed and written, against one that is written",
            &|| drop(black_box(response.to_json().unwrap())),
            &|| drop(black_box(response.to_sealed_json(&key).unwrap())),
        ),
        (
            "a seal read and checked, against an answer that is read",
            &|| drop(black_box(read(&plain))),
            &|| drop(black_box(read(&sealed).open_seal(&public).unwrap())),
        ),
    ];
    for (what, without, with) in rows {
        let (floor, product) = in_turn(|| each(without), || each(with));
        Line {
            what,
            unit: Unit::Seconds,
            floor,
            product,
            goal: Goal::None,
        }
        .print();
    }
    println!(
        "{:<62} {:>12} {:>12}",
        "bytes of that answer, without and with a seal",
        plain.len(),
        sealed.len()
    );
}
