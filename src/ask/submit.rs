//! Writing the request: its id, its content, and another try where somebody was in the way.

use std::io;
use std::time::Duration;

use super::abandonment::Abandonment;
use super::wait::Shared;
use super::{Ask, Settings};
use super::{describe, record};
use crate::clock;
use crate::presentation::dialog;
use crate::process;
use crate::spool::{Held, SpoolError, Submission, SubmitOutcome};
use crate::wire::{
    Digest, ForwardedPermissionRequest, Generation, RequestId, RequestRelay, WriteError,
};

/// Waits between tries of a write that failed for a passing reason.
const RETRY_AFTER: [Duration; 3] = [
    Duration::from_millis(10),
    Duration::from_millis(20),
    Duration::from_millis(30),
];
/// How long a lost race with clean-ups is taken up again, and how long apart.
const RACE_BUDGET: Duration = Duration::from_secs(2);
const RACE_PAUSE: Duration = Duration::from_millis(3);
/// How many ids are tried: a taken one is a new mint.
const ID_TRIES: usize = 16;
/// An id of the caller, if it may name a file, else a fresh one.
pub(super) fn adopt_or_mint(id: Option<&str>) -> RequestId {
    id.and_then(RequestId::parse)
        .unwrap_or_else(|| RequestId::mint(random()))
}

/// 128 random bits. Where the machine has none to give, time and pid still keep ids apart; nothing rests on them being
/// secret.
fn random() -> [u8; 16] {
    let mut bytes = [0; 16];
    if getrandom::fill(&mut bytes).is_err() {
        let seed = format!(
            "{:?} {} {}",
            clock::now(),
            clock::wall_ms(),
            process::own_pid()
        );
        for (to, from) in bytes
            .iter_mut()
            .zip(blake3::hash(seed.as_bytes()).as_bytes())
        {
            *to = *from;
        }
    }
    bytes
}

/// The request that an ask is.
pub(super) fn request_of(shared: &Shared, ask: &Ask, id: &RequestId) -> ForwardedPermissionRequest {
    let Settings {
        target,
        session_id,
        agent_name,
        generation,
        trust: _,
        where_nobody_serves: _,
    } = &shared.settings;
    ForwardedPermissionRequest {
        id: id.clone(),
        created_at_ms: clock::wall_ms(),
        requester_session_id: session_id.clone(),
        target_session_id: target.as_str().to_owned(),
        requester_agent_name: agent_name.clone(),
        message: (*generation == Generation::G1).then(|| dialog::plain_message(&ask.payload)),
        payload: Some(ask.payload.clone()),
        source: Some(ask.source),
        surface: ask.surface.clone(),
        value: ask.value.clone(),
        grants: ask.grants.clone(),
        access_intent: ask.access_intent.clone(),
        relay: Some(RequestRelay {
            held: false,
            pid: Some(process::own_pid()),
            process: process::own_mark().clone(),
            timeout_ms: Some(u64::try_from(ask.timeout.as_millis()).unwrap_or(u64::MAX)),
            nonce: Some(format!("{:032x}", u128::from_ne_bytes(random()))),
            path: ask.path.clone(),
            rules_only: ask.rules_only,
            guard: ask.guard,
            verdict_only: ask.verdict_only,
        }),
        was_replaced: false,
    }
}

/// Writes the request: under another id where its own is taken, again where the machine fails for a moment.
pub(super) async fn submit(
    shared: &Shared,
    request: &mut ForwardedPermissionRequest,
    id: &mut RequestId,
) -> Result<(Submission, Digest), Abandonment> {
    let target = &shared.settings.target;
    if let Err(error) = with_retries(|| shared.outbox().prepare()).await {
        return Err(Abandonment::NoDirectories {
            target: target.clone(),
            cause: describe(&error),
        });
    }
    for _ in 0..ID_TRIES {
        // Before it is written, so that the entry stands before those of whoever answers.
        if let Some(created) = record::created(shared, request) {
            shared.record(&created);
        }
        let mut digest = None;
        let submitted = with_retries(|| {
            shared.outbox().submit(id, |held| {
                if let Some(relay) = &mut request.relay {
                    relay.held = held == Held::Locked;
                }
                let bytes = request
                    .to_json(shared.settings.generation)
                    .map_err(|e: WriteError| io::Error::other(e))?;
                digest = Some(Digest::of(&bytes));
                Ok(bytes)
            })
        })
        .await;
        match (submitted, digest) {
            (Ok(SubmitOutcome::Written(submission)), Some(digest)) => {
                return Ok((submission, digest));
            }
            (Ok(SubmitOutcome::IdTaken | SubmitOutcome::Written(_)), _) => {
                *id = RequestId::mint(random());
                request.id = id.clone();
            }
            (Err(error), _) => {
                // Removes what was made for a request that never came.
                let _cleaned = shared.outbox().clean();
                return Err(Abandonment::NotWritten {
                    target: target.clone(),
                    cause: describe(&error),
                });
            }
        }
    }
    Err(Abandonment::NotWritten {
        target: target.clone(),
        cause: format!("{ID_TRIES} ids in a row were taken"),
    })
}

/// Tries again, a few times and not for long, what another process may be in the way of for a moment.
async fn with_retries<T>(
    mut attempt: impl FnMut() -> Result<T, SpoolError>,
) -> Result<T, SpoolError> {
    let started_at = clock::now();
    let mut pauses = RETRY_AFTER.into_iter();
    loop {
        let pause = match attempt() {
            Err(error) if error.is_passing() => pauses.next().ok_or(error),
            Err(error) if error.is_race() && clock::now().since(started_at) < RACE_BUDGET => {
                Ok(RACE_PAUSE)
            }
            other => return other,
        };
        tokio::time::sleep(pause?).await;
    }
}
