//! `askrelay ls`: the asks that are waiting, or the grants. It prints and ends; it never answers and changes nothing.

use serde_json::{Value, json};

use super::env::Env;
use super::exit::Exit;
use super::output::{self, Out};
use super::place::Place;
use super::{PlaceArgs, grants};
use crate::clock;
use crate::presentation::text::{self, visible};
use crate::spool::{Missing, RequestView, RequesterLife, Spool, SpoolError};
use crate::wire::SessionId;

/// Widest value in the list, in UTF-16 units; `show` has it whole.
const VALUE_WIDTH: usize = 60;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Only the asks to this session
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// What is granted for the sessions, in place of the asks
    #[arg(long)]
    grants: bool,
    /// Print one JSON object a line
    #[arg(long)]
    json: bool,
}

pub(super) fn run(env: &Env, place_args: &PlaceArgs, args: &Args) -> anyhow::Result<Exit> {
    let place = Place::new(env, place_args);
    if args.grants {
        grants::list(&place, args.session.as_deref(), args.json)?;
        return Ok(Exit::Ok);
    }
    let mut out = Out::stdout();
    let mut rows = vec![
        ["ID", "SESSION", "FROM", "AGE", "SURFACE", "VALUE"]
            .map(str::to_owned)
            .to_vec(),
    ];
    let mut failed = None;
    each_request(&place, args.session.as_deref(), |session, view| {
        if args.json {
            if failed.is_none() && !out.is_closed() {
                failed = out.json(&view_json(session, view)).err();
            }
        } else {
            rows.push(row(session, view));
        }
    })?;
    if let Some(error) = failed {
        return Err(error);
    }
    if !args.json {
        if rows.len() == 1 {
            out.line("nothing is waiting")?;
        } else {
            for line in output::table(&rows) {
                out.line(&line)?;
            }
        }
    }
    out.flush()?;
    Ok(Exit::Ok)
}

/// Hands every waiting ask of the spool, or of one session, to `see`, with the name of its session on disk.
pub(super) fn each_request(
    place: &Place<'_>,
    session: Option<&str>,
    mut see: impl FnMut(&str, &RequestView),
) -> anyhow::Result<()> {
    let spool = match Spool::open(&place.spool_path()?, Missing::Fail) {
        Ok(spool) => spool,
        Err(SpoolError::NoSpool { .. }) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    let wanted = session
        .and_then(|id| SessionId::parse(id).ok())
        .map(|id| id.encoded());
    if session.is_some() && wanted.is_none() {
        return Ok(());
    }
    for name in spool.inboxes()? {
        if wanted.as_ref().is_none_or(|wanted| *wanted == name) {
            spool.each_request(&name, |view| see(&name, &view))?;
        }
    }
    Ok(())
}

/// How old the file of a request is, in milliseconds, by this machine's clock.
pub(super) fn age_ms(view: &RequestView) -> Option<u64> {
    let age = i128::from(clock::wall_ms()) - view.stamp?.mtime_ns / 1_000_000;
    Some(u64::try_from(age).unwrap_or(0))
}

/// The session of a directory name, for a person.
pub(super) fn session_of(name: &str) -> String {
    SessionId::from_encoded(name)
        .map_or_else(|| name.to_owned(), |session| session.as_str().to_owned())
}

/// A requester's state in one word.
pub(super) fn life_name(life: RequesterLife) -> &'static str {
    match life {
        RequesterLife::Waiting => "waiting",
        RequesterLife::Gone => "gone",
        RequesterLife::RequestGone => "withdrawn",
        RequesterLife::Unknown => "unknown",
    }
}

fn row(session: &str, view: &RequestView) -> Vec<String> {
    let id = view
        .id
        .as_ref()
        .map_or(view.name.as_str(), crate::wire::RequestId::as_str);
    let age = age_ms(view).map_or_else(|| "-".to_owned(), |ms| output::span(ms / 1_000));
    let cells = match &view.content {
        Err(reason) => [
            id.to_owned(),
            session_of(session),
            "-".into(),
            age,
            "-".into(),
            format!("bad: {reason}"),
        ],
        Ok((request, _)) => {
            let gone = if view.life == RequesterLife::Gone {
                " (gone)"
            } else {
                ""
            };
            let value = request
                .payload
                .as_ref()
                .map(|payload| payload.request.value.clone());
            let value = value.or_else(|| request.value.clone()).unwrap_or_default();
            let surface = request
                .payload
                .as_ref()
                .map(|payload| payload.request.surface.clone());
            [
                id.to_owned(),
                session_of(session),
                format!(
                    "{} · {}{gone}",
                    request.agent_name().unwrap_or("unknown"),
                    request.requester_session_id
                ),
                age,
                surface
                    .or_else(|| request.surface.clone())
                    .unwrap_or_default(),
                text::clip_utf16(&value, VALUE_WIDTH).into_owned(),
            ]
        }
    };
    cells.map(|cell| visible(&cell).into_owned()).to_vec()
}

fn view_json(session: &str, view: &RequestView) -> Value {
    let mut object = json!({
        "requestId": view.id.as_ref().map(crate::wire::RequestId::as_str),
        "file": view.name,
        "session": session_of(session),
        "ageMs": age_ms(view),
        "requester": life_name(view.life),
    });
    let facts = match &view.content {
        Err(reason) => json!({"usable": false, "reason": reason}),
        Ok((request, digest)) => {
            let shown = request.projection();
            json!({
                "usable": true,
                "reason": null,
                "requestDigest": digest.to_string(),
                "requesterSessionId": request.requester_session_id,
                "requesterAgentName": request.agent_name(),
                "kind": shown.kind,
                "surface": shown.request.surface,
                "value": shown.request.value,
                "createdAt": request.created_at_ms,
                "timeoutMs": request.relay.as_ref().and_then(|relay| relay.timeout_ms),
                "path": request.relay.as_ref().map(|relay| relay.path.clone()).unwrap_or_default(),
            })
        }
    };
    if let (Value::Object(object), Value::Object(facts)) = (&mut object, facts) {
        object.extend(facts);
    }
    object
}
