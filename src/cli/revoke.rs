//! `askrelay revoke`: takes grants back. When it has returned, no later answer rests on them.

use std::time::Duration;

use super::env::Env;
use super::exit::Exit;
use super::output::{self, Out};
use super::place::Place;
use super::{Hinted, PlaceArgs, grants};
use crate::audit::{Entry, Event, ReviewLog};
use crate::clock;
use crate::presentation::text::visible;
use crate::spool::{GrantView, GrantsOf, LockState, Spool, SpoolError, TakenBack};

/// How long a server is waited for that is just publishing an answer. That takes it milliseconds.
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Numbers of grants, as `askrelay ls --grants` shows them
    #[arg(
        value_name = "ID",
        required_unless_present = "all",
        conflicts_with = "all"
    )]
    ids: Vec<u64>,
    /// The session whose grants are meant; needed where several have a grant of that number
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// All grants, of every session or of the one that is named
    #[arg(long)]
    all: bool,
    /// Print one JSON object a line
    #[arg(long)]
    json: bool,
}

pub(super) fn run(env: &Env, place_args: &PlaceArgs, args: &Args) -> anyhow::Result<Exit> {
    let place = Place::new(env, place_args);
    let (spool, grants) = grants::of_spool(&place, args.session.as_deref())?;
    let ids = if args.all {
        None
    } else {
        Some(args.ids.as_slice())
    };
    let mut out = Out::stdout();
    let mut missing = match ids {
        Some(ids) => unknown(&grants, ids)?,
        None => Vec::new(),
    };
    let (mut kept, mut errors) = (Vec::new(), Vec::new());
    if let Some(spool) = spool {
        // A configuration that cannot be used must not keep anybody from taking something back.
        let config = place.config().map(|loaded| loaded.config);
        let log = place.log(&config.unwrap_or_default());
        for of in &grants {
            let meant = meant(of, ids);
            if meant.is_empty() {
                continue;
            }
            // What goes wrong in one session keeps nothing of another.
            let left = take_back(&spool, &log, of, &meant, args.json, &mut out)?;
            missing.extend(left.gone);
            kept.extend(left.kept);
            errors.extend(left.errors);
        }
    }
    missing.sort_unstable();
    missing.dedup();
    if args.json {
        for id in missing.iter().chain(&kept) {
            out.json(&serde_json::json!({"id": id, "revoked": false}))?;
        }
    }
    out.flush()?;
    for error in &errors {
        let text = crate::ask::describe(error);
        output::error(&anyhow::anyhow!("not revoked: {text}"), Some(&error.hint()));
    }
    if !missing.is_empty() {
        let numbers: Vec<String> = missing.iter().map(u64::to_string).collect();
        output::error(
            &anyhow::anyhow!("there is no grant {}", numbers.join(", ")),
            Some("`askrelay ls --grants` lists what is granted"),
        );
    }
    if missing.is_empty() && errors.is_empty() {
        Ok(Exit::Ok)
    } else {
        Ok(Exit::Denied)
    }
}

/// What is not taken back.
#[derive(Default)]
struct Left {
    /// Numbers of grants that were gone already.
    gone: Vec<u64>,
    /// Numbers of those whose files could not be removed.
    kept: Vec<u64>,
    /// Why.
    errors: Vec<SpoolError>,
}

/// Which of these numbers no session has. One that several sessions have means none of them.
fn unknown(grants: &[GrantsOf], ids: &[u64]) -> anyhow::Result<Vec<u64>> {
    let mut unknown = Vec::new();
    for id in ids {
        let having: Vec<String> = (grants.iter())
            .filter(|of| !meant(of, Some(&[*id])).is_empty())
            .map(|of| visible(&grants::session_of(of)).into_owned())
            .collect();
        match having.as_slice() {
            [] => unknown.push(*id),
            [_] => {}
            [first, ..] => {
                return Err(Hinted::usage(
                    format!("several sessions have a grant {id}: {}", having.join(", ")),
                    format!("name the session that is meant, as with --session {first}"),
                ));
            }
        }
    }
    Ok(unknown)
}

/// The grants of a session that are meant: those of these numbers, or all. What cannot be read can be taken back as well.
fn meant<'a>(of: &'a GrantsOf, ids: Option<&[u64]>) -> Vec<(u64, &'a GrantView)> {
    let views = of.grants.iter();
    views
        .filter_map(|view| Some((view.id?, view)))
        .filter(|(id, _)| ids.is_none_or(|ids| ids.contains(id)))
        .collect()
}

/// Takes grants of a session back, records it, and says so.
fn take_back(
    spool: &Spool,
    log: &ReviewLog,
    of: &GrantsOf,
    meant: &[(u64, &GrantView)],
    as_json: bool,
    out: &mut Out,
) -> anyhow::Result<Left> {
    let ids: Vec<u64> = meant.iter().map(|(id, _)| *id).collect();
    let mut left = Left::default();
    let Some(session) = &of.session else {
        left.gone = ids;
        return Ok(left);
    };
    let back = match spool.take_back(session, &ids, PATIENCE) {
        Ok(back) => back,
        Err(error) => {
            left.kept = ids;
            left.errors = vec![error];
            return Ok(left);
        }
    };
    let TakenBack {
        taken,
        unknown,
        failed,
        unlocked,
    } = back;
    let was_in_force = of.lock == LockState::Held;
    for (id, view) in meant.iter().filter(|(id, _)| taken.contains(id)) {
        let record = view.record.as_deref();
        // After this line no answer rests on it.
        let entry = Entry::new(Event::GrantRevoked)
            .with("sessionId", session.as_str())
            .with("grantId", *id)
            .with_known("surface", record.ok().map(|record| record.surface.as_str()))
            .with_known("pattern", record.ok().map(|record| record.pattern.as_str()))
            .with_known(
                "givenWith",
                record.ok().map(|record| record.request_id.as_str()),
            )
            .with("by", "command")
            .with("reason", "it was taken back");
        if let Err(error) = log.append_or_hold(clock::wall_ms(), &[entry]) {
            output::warn(&format!(
                "it is revoked, and that is not in the review log: {} ({})",
                crate::ask::describe(&error),
                error.hint()
            ));
        }
        if as_json {
            out.json(&serde_json::json!({
                "id": id,
                "revoked": true,
                "session": session.as_str(),
                "surface": record.ok().map(|record| record.surface.as_str()),
                "pattern": record.ok().map(|record| record.pattern.as_str()),
                "wasInForce": was_in_force,
            }))?;
        } else {
            let was = if was_in_force {
                ""
            } else {
                "  (no server held it in force)"
            };
            out.line(&format!("revoked {}{was}", grants::in_words(of, *id, view)))?;
        }
    }
    if unlocked && was_in_force {
        output::warn(
            "the server could not be kept from publishing meanwhile: an answer that was on its way may still rest on this",
        );
    }
    left.gone = unknown;
    (left.kept, left.errors) = failed.into_iter().unzip();
    Ok(left)
}
