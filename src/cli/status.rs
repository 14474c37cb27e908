//! `askrelay status`: the sessions of the spool, who serves them, and what this process is among them.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::env::Env;
use super::exit::Exit;
use super::output::{self, Out};
use super::pin::Pins;
use super::place::Place;
use super::role::Own;
use super::roles::{Roles, Served};
use super::{PlaceArgs, grants, role};
use crate::ask::{NoParent, Target, Trust};
use crate::clock;
use crate::presentation::text::visible;
use crate::process::Life;
use crate::spool::{Events, HeartbeatView, LockState, Missing, SessionView, Spool, SpoolError};
use crate::wire::{HeartbeatRelay, LinkHealth, SessionId};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Print one JSON object a line
    #[arg(long)]
    json: bool,
}

pub(super) fn run(env: &Env, place_args: &PlaceArgs, args: &Args) -> anyhow::Result<Exit> {
    let place = Place::new(env, place_args);
    let asking = place.user_config()?;
    let config = &asking.config;
    let default = Place::default_session(config);
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
    // What cannot be looked into is told by `ls --grants`.
    let granted =
        (spool.as_ref()).map_or_else(Vec::new, |spool| spool.grants().unwrap_or_default());
    let own = role::served(env, None, &default);
    let ancestors = role::lineage(env)?;
    let pins = Pins::new(env, None, &ancestors, config.require_seal.is_on())?;
    // A name without a program decides nothing.
    let named = config.authorizer_chain.iter();
    let links: Vec<String> = named
        .filter(|name| config.authorizers.contains_key(*name))
        .cloned()
        .collect();
    let nearest = |session: &SessionId| pins.nearest_known(session, &own.id);
    let seen = Seen {
        path: place.spool_path()?,
        spool: spool.as_ref(),
        quarantined,
        // As `ask` finds it, whose own session is another where nobody named it.
        asked: role::asked(env, None, &default, &role::requester(env, None).id),
        roles: Roles::of(
            env,
            &own,
            |session| served_now(&sessions, &nearest(session)),
            |session| pins.trust(&nearest(session)),
            &links,
        ),
        own: &own,
        pins: &pins,
        requires_seal: config.require_seal.is_on(),
        broken: asking.broken.as_deref(),
    };
    if args.json {
        for line in seen.json() {
            out.json(&line)?;
        }
        for view in &sessions {
            out.json(&session_json(view, grants::in_force(&granted, &view.name)))?;
        }
    } else {
        for row in seen.rows() {
            out.line(&visible(&row))?;
        }
        out.line("")?;
        table(&mut out, &sessions)?;
        for of in &granted {
            let count = grants::in_force(&granted, &of.name);
            if count > 0 {
                out.line(&format!(
                    "granted in {}: {count}, see `askrelay ls --grants`",
                    visible(&grants::session_of(of))
                ))?;
            }
        }
    }
    out.flush()?;
    Ok(Exit::Ok)
}

/// What is told of the place and of this process, before the sessions.
struct Seen<'a> {
    path: PathBuf,
    spool: Option<&'a Spool>,
    quarantined: usize,
    own: &'a Own,
    /// The session that `ask` addresses.
    asked: Result<Target, NoParent>,
    roles: Roles,
    pins: &'a Pins<'a>,
    requires_seal: bool,
    /// What is wrong with the configuration that this process would read.
    broken: Option<&'a str>,
}

impl Seen<'_> {
    fn json(&self) -> [Value; 2] {
        let place = json!({
            "type": "place",
            "spool": self.path.to_string_lossy(),
            "exists": self.spool.is_some(),
            "events": self.spool.map(|spool| spool.events() == Events::Local),
            "quarantined": self.quarantined,
            "configBroken": self.broken,
        });
        let asked = self.asked.as_ref();
        let key = asked.ok().and_then(|target| {
            let known = self.pins.nearest_known(&target.session, &self.own.id);
            key_text(&self.pins.trust(&known))
        });
        let mut role = json!({
            "type": "role",
            "session": self.own.id,
            "sessionFrom": self.own.reason,
            "parent": asked.ok().map(|target| target.session.as_str()),
            "servingKey": key,
            "requireSeal": self.requires_seal,
            "parentFrom": asked.map_or_else(ToString::to_string, |target| target.reason.clone()),
        });
        if let Some(role) = role.as_object_mut() {
            role.extend(self.roles.json());
        }
        [place, role]
    }

    fn rows(&self) -> Vec<String> {
        let network = match self.spool {
            None => "  (nothing there yet)",
            Some(spool) if spool.events() == Events::Remote => {
                "  (a network or user-space file system: polled)"
            }
            Some(_) => "",
        };
        let mut rows = vec![
            format!("spool    {}{network}", self.path.display()),
            format!("session  {}  (from {})", self.own.id, self.own.reason),
        ];
        match &self.asked {
            Ok(target) => {
                rows.push(format!(
                    "asks     {}  (from {})",
                    target.session, target.reason
                ));
                let known = self.pins.nearest_known(&target.session, &self.own.id);
                if known != target.session {
                    rows.push(format!(
                        "         in its place {known}, the nearest session above whose key is known"
                    ));
                }
                rows.push(format!("seals    {}", believed(&self.pins.trust(&known))));
            }
            Err(nobody) => rows.push(format!("asks     nobody: {}", nobody.tried.join("; "))),
        }
        rows.extend(self.roles.rows());
        rows.extend(
            self.broken
                .map(|text| format!("config   broken, see `askrelay config check`: {text}")),
        );
        if self.quarantined > 0 {
            rows.push(format!(
                "aside    {} unusable files in the quarantine",
                self.quarantined
            ));
        }
        rows
    }
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
            if let Some(failure) = config_failure(view) {
                out.line(&format!(
                    "the configuration of {} is not in force as it is: {}",
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
    relay(view)?.log_failure.as_deref()
}

/// Why the files of its configuration are not in force as they are, as its server says.
fn config_failure(view: &SessionView) -> Option<&str> {
    relay(view)?.config_failure.as_deref()
}

pub(super) fn relay(view: &SessionView) -> Option<&HeartbeatRelay> {
    match &view.heartbeat {
        HeartbeatView::Record(record, ..) => record.relay.as_ref(),
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
pub(super) fn served(view: &SessionView) -> &'static str {
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

/// Whether a session is served, as far as one look can tell.
fn served_now(sessions: &[SessionView], session: &SessionId) -> Served {
    let mut views = sessions.iter();
    let view = views.find(|view| view.session.as_ref() == Some(session));
    match view.map(served) {
        Some("yes") => Served::Yes,
        Some("stale") => Served::No("its heartbeat has stopped"),
        Some("bad") => Served::No("its heartbeat cannot be read"),
        Some(_) | None => Served::No("no process serves it"),
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

fn session_json(view: &SessionView, grants: usize) -> Value {
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
            "configFailure": config_failure(view),
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
        "grants": grants,
    })
}
