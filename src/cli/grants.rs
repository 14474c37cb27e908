//! The grants of the sessions of a spool, for those who look and for those who take them back.

use serde_json::{Value, json};

use super::output::{self, Out};
use super::place::Place;
use crate::clock;
use crate::presentation::text::{self, visible};
use crate::spool::{GrantView, GrantsOf, LockState, Missing, Spool, SpoolError};
use crate::wire::{GrantRecord, Lifetime, SessionId, lifetime_value, scope_value};

/// Widest pattern in the list, in UTF-16 units; `--json` has it whole.
const PATTERN_WIDTH: usize = 60;

/// The grants of the spool, or of one session of it. None where there is no spool.
pub(super) fn of_spool(
    place: &Place<'_>,
    session: Option<&str>,
) -> anyhow::Result<(Option<Spool>, Vec<GrantsOf>)> {
    let spool = match Spool::open(&place.spool_path()?, Missing::Fail) {
        Ok(spool) => spool,
        Err(SpoolError::NoSpool { .. }) => return Ok((None, Vec::new())),
        Err(error) => return Err(error.into()),
    };
    let mut grants = spool.grants()?;
    if let Some(session) = session {
        let wanted = SessionId::parse(session).ok();
        grants.retain(|of| wanted.is_some() && of.session == wanted);
    }
    Ok((Some(spool), grants))
}

/// Prints them.
pub(super) fn list(place: &Place<'_>, session: Option<&str>, as_json: bool) -> anyhow::Result<()> {
    let mut out = Out::stdout();
    let (_, grants) = of_spool(place, session)?;
    let all = || {
        let each = |of| -> Vec<(&GrantsOf, &GrantView)> { with_session(of) };
        grants.iter().flat_map(each)
    };
    if as_json {
        for (of, view) in all() {
            out.json(&view_json(of, view))?;
        }
        out.flush()?;
        return Ok(());
    }
    let mut rows = vec![
        [
            "ID", "SESSION", "STATE", "SURFACE", "PATTERN", "FOR", "UNTIL", "GIVEN", "WITH",
        ]
        .map(str::to_owned)
        .to_vec(),
    ];
    rows.extend(all().map(|(of, view)| row(of, view)));
    if rows.len() == 1 {
        out.line("nothing is granted")?;
    } else {
        for line in output::table(&rows) {
            out.line(&line)?;
        }
    }
    out.flush()?;
    Ok(())
}

fn with_session(of: &GrantsOf) -> Vec<(&GrantsOf, &GrantView)> {
    of.grants.iter().map(|view| (of, view)).collect()
}

/// Whether grants of a session are in force, in a word. What no server holds is what a server left.
pub(super) fn state(of: &GrantsOf) -> &'static str {
    match of.lock {
        LockState::Held => "in force",
        LockState::Free | LockState::Absent => "stale",
        LockState::Unsupported => "unknown",
    }
}

/// How many grants of a session are in force.
pub(super) fn in_force(grants: &[GrantsOf], name: &str) -> usize {
    let of = grants.iter().find(|of| of.name == name);
    of.filter(|of| of.lock == LockState::Held).map_or(0, |of| {
        of.grants.iter().filter(|view| view.record.is_ok()).count()
    })
}

/// The session, as a person names it.
pub(super) fn session_of(of: &GrantsOf) -> String {
    (of.session.as_ref()).map_or_else(|| of.name.clone(), ToString::to_string)
}

fn row(of: &GrantsOf, view: &GrantView) -> Vec<String> {
    let cells = match &view.record {
        Err(reason) => [
            view.name.clone(),
            session_of(of),
            format!("bad: {reason}"),
            "-".into(),
            "-".into(),
            "-".into(),
            "-".into(),
            "-".into(),
            "-".into(),
        ],
        Ok(record) => [
            record.id.to_string(),
            session_of(of),
            state(of).to_owned(),
            record.surface.clone(),
            text::clip_utf16(&record.pattern, PATTERN_WIDTH).into_owned(),
            for_whom(record),
            until(record),
            format!("{} ago, {}", ago(record.given_at_ms), record.given_by),
            record.request_id.clone(),
        ],
    };
    cells.map(|cell| visible(&cell).into_owned()).to_vec()
}

fn ago(at_ms: i64) -> String {
    let ms = clock::wall_ms().saturating_sub(at_ms);
    output::span(u64::try_from(ms).unwrap_or(0) / 1_000)
}

/// For whom a grant holds, in words.
fn for_whom(record: &GrantRecord) -> String {
    match record.subagent.as_deref() {
        None => "the session".to_owned(),
        Some(chain) => format!("subagent {}", chain.join(" of ")),
    }
}

/// Until when it holds, in words.
fn until(record: &GrantRecord) -> String {
    match (record.lifetime, record.expires_at_ms) {
        (Lifetime::Uses(uses), _) => {
            format!("{} of {uses} uses left", record.uses_left().unwrap_or(0))
        }
        (_, Some(at)) => {
            let left = at.saturating_sub(clock::wall_ms());
            format!(
                "{} left",
                output::span(u64::try_from(left).unwrap_or(0) / 1_000)
            )
        }
        (Lifetime::SessionEnd | Lifetime::For(_), None) => "session end".to_owned(),
    }
}

/// A grant in one line.
pub(super) fn in_words(of: &GrantsOf, id: u64, view: &GrantView) -> String {
    let record = match &view.record {
        Ok(record) => record,
        Err(reason) => {
            let line = format!("{id}  of session {}; {reason}", session_of(of));
            return visible(&line).into_owned();
        }
    };
    let line = format!(
        "{}  {} {:?} for {} in session {}",
        record.id,
        record.surface,
        text::clip_utf16(&record.pattern, PATTERN_WIDTH),
        for_whom(record),
        session_of(of),
    );
    visible(&line).into_owned()
}

pub(super) fn view_json(of: &GrantsOf, view: &GrantView) -> Value {
    let mut object = json!({
        "session": session_of(of),
        "file": view.name,
        "inForce": match of.lock {
            LockState::Held => Some(view.record.is_ok()),
            LockState::Free | LockState::Absent => Some(false),
            LockState::Unsupported => None,
        },
    });
    let facts = match &view.record {
        Err(reason) => json!({"usable": false, "reason": reason}),
        Ok(record) => json!({
            "usable": true,
            "reason": null,
            "id": record.id,
            "surface": record.surface,
            "pattern": record.pattern,
            "exact": record.exact,
            "width": record.width,
            "scope": scope_value(record.subagent.as_deref()),
            "lifetime": lifetime_value(record.lifetime),
            "usesLeft": record.uses_left(),
            "givenAt": record.given_at_ms,
            "expiresAt": record.expires_at_ms,
            "givenBy": record.given_by,
            "requestId": record.request_id,
            "logLine": record.log_line,
        }),
    };
    if let (Value::Object(object), Value::Object(facts)) = (&mut object, facts) {
        object.extend(facts);
    }
    object
}
