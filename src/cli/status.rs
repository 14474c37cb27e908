//! `askrelay status`: the sessions of the spool, who serves them, and what this process is among them.

use serde_json::{Value, json};

use super::env::Env;
use super::exit::Exit;
use super::output::{self, Out};
use super::pin::Pins;
use super::place::Place;
use super::{PlaceArgs, role};
use crate::ask::Trust;
use crate::clock;
use crate::presentation::text::visible;
use crate::process::Life;
use crate::spool::{Events, HeartbeatView, LockState, Missing, SessionView, Spool, SpoolError};
use crate::wire::LinkHealth;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Print one JSON object a line
    #[arg(long)]
    json: bool,
}

pub(super) fn run(env: &Env, place_args: &PlaceArgs, args: &Args) -> anyhow::Result<Exit> {
    let place = Place::new(env, place_args);
    let config = place.config()?.config;
    let default = Place::default_session(&config);
    let mut out = Out::stdout();
    let spool = match Spool::open(&place.spool_path()?, Missing::Fail) {
        Ok(spool) => Some(spool),
        Err(SpoolError::NoSpool { .. }) => None,
        Err(error) => return Err(error.into()),
    };
    let sessions = spool
        .as_ref()
        .map(Spool::sessions)
        .transpose()?
        .unwrap_or_default();
    let quarantined = spool
        .as_ref()
        .map(Spool::quarantined)
        .transpose()?
        .unwrap_or_default();
    let own = role::served(env, None, &default);
    let parent = role::asked(env, None, &default, &own.id);
    let ancestors = role::lineage(env)?;
    let pins = Pins::new(env, None, &ancestors, config.require_seal.is_on())?;
    if args.json {
        out.json(&json!({
            "type": "place",
            "spool": place.spool_path()?.to_string_lossy(),
            "exists": spool.is_some(),
            "events": spool.as_ref().map(|spool| spool.events() == Events::Local),
            "quarantined": quarantined,
        }))?;
        out.json(&json!({
            "type": "role",
            "session": own.id,
            "sessionFrom": own.reason,
            "parent": parent.as_ref().ok().map(|target| target.session.as_str()),
            "servingKey": parent.as_ref().ok().and_then(|target| key_text(&pins.trust(&pins.nearest_known(&target.session, &own.id)))),
            "requireSeal": config.require_seal.is_on(),
            "parentFrom": parent.as_ref().map_or_else(ToString::to_string, |target| target.reason.clone()),
        }))?;
        for view in &sessions {
            out.json(&session_json(view))?;
        }
        out.flush()?;
        return Ok(Exit::Ok);
    }
    let network = match &spool {
        None => "  (nothing there yet)",
        Some(spool) if spool.events() == Events::Remote => {
            "  (a network or user-space file system: polled)"
        }
        Some(_) => "",
    };
    out.line(&format!(
        "spool    {}{network}",
        place.spool_path()?.display()
    ))?;
    out.line(&format!(
        "session  {}  (from {})",
        visible(&own.id),
        own.reason
    ))?;
    match &parent {
        Ok(target) => {
            out.line(&format!(
                "asks     {}  (from {})",
                visible(target.session.as_str()),
                target.reason
            ))?;
            let known = pins.nearest_known(&target.session, &own.id);
            if known != target.session {
                out.line(&format!(
                    "         in its place {}, the nearest session above whose key is known",
                    visible(known.as_str())
                ))?;
            }
            out.line(&format!("seals    {}", believed(&pins.trust(&known))))?;
        }
        Err(nobody) => out.line(&format!(
            "asks     nobody: {}",
            visible(&nobody.tried.join("; "))
        ))?,
    }
    if quarantined > 0 {
        out.line(&format!(
            "aside    {quarantined} unusable files in the quarantine"
        ))?;
    }
    out.line("")?;
    table(&mut out, &sessions)?;
    out.flush()?;
    Ok(Exit::Ok)
}

/// The sessions, one a line.
fn table(out: &mut Out, sessions: &[SessionView]) -> anyhow::Result<()> {
    if sessions.is_empty() {
        out.line("no sessions")?;
    } else {
        let mut rows = vec![
            [
                "SESSION", "SERVED", "BY", "BEAT", "MODE", "WAITING", "ANSWERS", "KEY",
            ]
            .map(str::to_owned)
            .to_vec(),
        ];
        rows.extend(sessions.iter().map(row));
        for line in output::table(&rows) {
            out.line(&line)?;
        }
        for view in sessions {
            for link in links(view) {
                if let Some(trouble) = trouble(link) {
                    out.line(&format!(
                        "the authorizer {} of {} {trouble}",
                        visible(&link.name),
                        visible(&view.name)
                    ))?;
                }
            }
            if let Some(failure) = log_failure(view) {
                out.line(&format!(
                    "the review log of {} cannot be written: {}",
                    visible(&view.name),
                    visible(failure)
                ))?;
            }
        }
    }
    Ok(())
}

/// Why the log of a session cannot be written, as its server says.
fn log_failure(view: &SessionView) -> Option<&str> {
    match &view.heartbeat {
        HeartbeatView::Record(record, ..) => record.relay.as_ref()?.log_failure.as_deref(),
        HeartbeatView::Absent | HeartbeatView::Bad(_) => None,
    }
}

/// The links of the chain of a session, as its server says.
fn links(view: &SessionView) -> &[LinkHealth] {
    match &view.heartbeat {
        HeartbeatView::Record(record, ..) => record
            .relay
            .as_ref()
            .map_or(&[], |relay| relay.authorizers.as_slice()),
        HeartbeatView::Absent | HeartbeatView::Bad(_) => &[],
    }
}

/// What is wrong with a link, if anything.
fn trouble(link: &LinkHealth) -> Option<String> {
    if link.missing {
        return Some("is skipped: there is no program for it".to_owned());
    }
    (link.failed > 0).then(|| {
        format!(
            "has failed {} of {} times: `askrelay log --event authorizer_link` says why",
            link.failed, link.asked
        )
    })
}

/// The pinned key, as text.
fn key_text(trust: &Trust) -> Option<String> {
    match trust {
        Trust::Pinned(key) => Some(key.to_string()),
        Trust::Anybody | Trust::NoKey => None,
    }
}

/// Whose answers are believed, in words.
fn believed(trust: &Trust) -> String {
    match trust {
        Trust::Pinned(key) => format!("only answers sealed by {key} count"),
        Trust::NoKey => {
            "answers must be sealed, and no key is known: nothing can be asked".to_owned()
        }
        Trust::Anybody => {
            "answers count without a seal: no key is pinned (`askrelay launch` pins one)".to_owned()
        }
    }
}

/// Whether somebody serves the session, in one word, as far as one look can tell.
fn served(view: &SessionView) -> &'static str {
    match (&view.heartbeat, view.lock) {
        (HeartbeatView::Bad(_), _) => "bad",
        (_, LockState::Held) => "yes",
        (HeartbeatView::Record(record, ..), _)
            if record.relay.as_ref().is_some_and(|relay| relay.held) =>
        {
            "no"
        }
        (HeartbeatView::Record(_, mtime_ns, life), _) => match (life, age_seconds(*mtime_ns)) {
            (Life::Dead, _) => "no",
            (_, 0..5) => "yes",
            _ => "stale",
        },
        (HeartbeatView::Absent, _) => "no",
    }
}

fn age_seconds(mtime_ns: i128) -> u64 {
    let age_ns = i128::from(clock::wall_ms()) * 1_000_000 - mtime_ns;
    u64::try_from(age_ns / 1_000_000_000).unwrap_or(0)
}

fn row(view: &SessionView) -> Vec<String> {
    let name = view.session.as_ref().map_or_else(
        || format!("{} (no session has this name)", view.name),
        ToString::to_string,
    );
    let (by, beat, mode, key) = match &view.heartbeat {
        HeartbeatView::Absent => (
            "-".to_owned(),
            "-".to_owned(),
            "-".to_owned(),
            "-".to_owned(),
        ),
        HeartbeatView::Bad(reason) => (
            "-".to_owned(),
            format!("bad: {reason}"),
            "-".to_owned(),
            "-".to_owned(),
        ),
        HeartbeatView::Record(record, mtime_ns, _) => (
            format!("pid {}", record.pid),
            format!("{} ago", output::span(age_seconds(*mtime_ns))),
            record
                .relay
                .as_ref()
                .and_then(|relay| relay.mode.clone())
                .unwrap_or_else(|| "peer".to_owned()),
            record
                .relay
                .as_ref()
                .and_then(|relay| relay.public_key.clone())
                .unwrap_or_else(|| "-".to_owned()),
        ),
    };
    let count =
        |count: Option<usize>| count.map_or_else(|| "-".to_owned(), |count| count.to_string());
    [
        name,
        served(view).to_owned(),
        by,
        beat,
        mode,
        count(view.requests),
        count(view.responses),
        key,
    ]
    .map(|cell| visible(&cell).into_owned())
    .to_vec()
}

fn session_json(view: &SessionView) -> Value {
    let heartbeat = match &view.heartbeat {
        HeartbeatView::Absent => Value::Null,
        HeartbeatView::Bad(reason) => json!({"bad": reason}),
        HeartbeatView::Record(record, mtime_ns, life) => json!({
            "pid": record.pid,
            "updatedAt": record.updated_at_ms,
            "ageMs": u64::try_from(i128::from(clock::wall_ms()) - mtime_ns / 1_000_000).unwrap_or(0),
            "process": match life {
                Life::Alive => "alive",
                Life::Dead => "dead",
                Life::Unknown => "unknown",
            },
            "held": record.relay.as_ref().map(|relay| relay.held),
            "mode": record.relay.as_ref().and_then(|relay| relay.mode.as_deref()),
            "agent": record.relay.as_ref().and_then(|relay| relay.agent.as_deref()),
            "publicKey": record.relay.as_ref().and_then(|relay| relay.public_key.as_deref()),
            "queued": record.relay.as_ref().and_then(|relay| relay.queued),
            "logFailure": log_failure(view),
            "authorizers": links(view).iter().map(|link| json!({
                "name": link.name,
                "asked": link.asked,
                "failed": link.failed,
                "missing": link.missing,
            })).collect::<Vec<_>>(),
        }),
    };
    json!({
        "type": "session",
        "session": view.session.as_ref().map(crate::wire::SessionId::as_str),
        "name": view.name,
        "served": served(view),
        "lock": match view.lock {
            LockState::Held => "held",
            LockState::Free => "free",
            LockState::Absent => "absent",
            LockState::Unsupported => "unsupported",
        },
        "lockPid": view.owner.pid,
        "heartbeat": heartbeat,
        "requests": view.requests,
        "responses": view.responses,
    })
}
