//! `askrelay show ID`: one waiting ask, whole. It changes nothing.

use serde_json::{Value, json};

use super::env::Env;
use super::exit::Exit;
use super::ls::{age_ms, each_request, life_name, session_of};
use super::output::{self, Out};
use super::place::Place;
use super::{Hinted, PlaceArgs};
use crate::presentation::{dialog, text::visible};
use crate::spool::RequestView;
use crate::wire::{Generation, RequestId};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Id of the ask, or a beginning of it that only one has
    id: String,
    /// Only asks to this session
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(super) fn run(env: &Env, place_args: &PlaceArgs, args: &Args) -> anyhow::Result<Exit> {
    let place = Place::new(env, place_args);
    let mut found: Vec<Found> = Vec::new();
    each_request(&place, args.session.as_deref(), |session, view| {
        let name = view
            .id
            .as_ref()
            .map_or(view.name.as_str(), RequestId::as_str);
        if name.starts_with(&args.id) {
            let exact = name == args.id;
            found.push(Found {
                name: name.to_owned(),
                exact,
                json: view_json(session, view),
                lines: lines(session, view),
            });
        }
    })?;
    if found.iter().any(|found| found.exact) {
        found.retain(|found| found.exact);
    }
    let mut found = found.into_iter();
    match (found.next(), found.next()) {
        (None, _) => {
            output::say(&format!("no ask {} is waiting", visible(&args.id)));
            output::say(
                "\nhint: `askrelay ls` lists those that are; the review log tells of those that were",
            );
            Ok(Exit::Denied)
        }
        (Some(one), Some(other)) => Err(Hinted::usage(
            format!(
                "more than one ask is meant by {:?}: {} and {}",
                args.id, one.name, other.name
            ),
            "write more of the id, or name the session with --session",
        )),
        (Some(one), None) => {
            let mut out = Out::stdout();
            if args.json {
                out.json(&one.json)?;
            } else {
                for line in one.lines {
                    out.line(&line)?;
                }
            }
            out.flush()?;
            Ok(Exit::Ok)
        }
    }
}

struct Found {
    name: String,
    exact: bool,
    json: Value,
    lines: Vec<String>,
}

fn lines(session: &str, view: &RequestView) -> Vec<String> {
    let age = age_ms(view).map_or_else(|| "unknown".to_owned(), |ms| output::span(ms / 1_000));
    let mut lines = vec![
        format!("file      {}", visible(&view.name)),
        format!("session   {}", visible(&session_of(session))),
        format!("age       {age}"),
        format!("requester {}", life_name(view.life)),
    ];
    match &view.content {
        Err(reason) => lines.push(format!("unusable  {}", visible(reason))),
        Ok((request, digest)) => {
            lines.push(format!("digest    {digest}"));
            lines.push(String::new());
            let path = request.relay.as_ref().map_or(&[][..], |relay| &relay.path);
            lines.extend(dialog::lines_with_path(&request.projection(), path));
            if let Some(intent) = &request.access_intent {
                lines.push(String::new());
                lines.push(format!(
                    "judged as {}: {}",
                    visible(&intent.surface),
                    visible(&intent.match_values.join(" | "))
                ));
                lines.push(format!("in        {}", visible(&intent.requester_cwd)));
            }
            for grant in &request.grants {
                lines.push(format!(
                    "may grant {} {}",
                    visible(&grant.surface),
                    visible(&grant.pattern)
                ));
            }
        }
    }
    lines
}

fn view_json(session: &str, view: &RequestView) -> Value {
    let (request, digest, reason) = match &view.content {
        Err(reason) => (Value::Null, None, Some(reason.as_str())),
        Ok((request, digest)) => {
            // What was read, in the form in which it is written: unknown keys of the file are not in it.
            let bytes = request.to_json(Generation::Current).unwrap_or_default();
            let mut value: Value = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
            if let (Value::Object(object), Some(message)) = (&mut value, &request.message) {
                // Text of the oldest generation, which the newest does not write.
                object.insert("message".to_owned(), Value::String(message.clone()));
            }
            (value, Some(digest.to_string()), None)
        }
    };
    json!({
        "requestId": view.id.as_ref().map(RequestId::as_str),
        "file": view.name,
        "session": session_of(session),
        "ageMs": age_ms(view),
        "requester": life_name(view.life),
        "usable": reason.is_none(),
        "reason": reason,
        "requestDigest": digest,
        "request": request,
    })
}
