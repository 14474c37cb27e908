//! `askrelay log story ID`: what every session wrote about one ask, in order, and who decided it.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::{readable, stop};
use crate::audit::{
    Access, Decider, DeciderKind, Found, Node, Outcome, Part, Query, Role, Scan, Scanned, Story,
    Telling,
};
use crate::cli::Hinted;
use crate::cli::exit::Exit;
use crate::cli::output::{self, Out};
use crate::cli::place::Place;
use crate::presentation::text::visible;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Id of the ask, or a beginning of it that only one has
    id: String,
    /// Further logs: of other nodes, of other machines, of the peer
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(super) fn run(place: &Place<'_>, args: &Args) -> anyhow::Result<Exit> {
    let mut gathered = Gathered::new(&args.id);
    let own = place.log_file()?;
    let read = gathered.read(&own, Access::Own)?;
    if read == Scanned::NoLog && place.names_log() {
        return super::no_log(place, &own);
    }
    for file in &args.files {
        let path = place.absolute(file);
        if path != own && gathered.read(&path, Access::Named)? == Scanned::NoLog {
            return Err(Hinted::usage(
                format!("there is no log at {}", path.display()),
                "each FILE is a review log, of this or of another machine",
            ));
        }
    }
    let Some((id, logs)) = gathered.chosen()? else {
        output::say(&format!(
            "nothing about {} is in the log",
            visible(&args.id)
        ));
        output::say("\nhint: `askrelay log` lists the entries; name further logs behind the id");
        return Ok(Exit::Denied);
    };
    let story = Story::of(logs);
    let mut out = Out::stdout();
    if args.json {
        out.json(&as_json(&id, &story))?;
    } else {
        for line in lines(&id, &story) {
            out.line(&visible(&line))?;
        }
    }
    out.flush()?;
    Ok(Exit::Ok)
}

/// The entries of one ask, log by log; those of an ask whose id only begins so, as long as there is one such.
struct Gathered<'a> {
    id: &'a str,
    exact: Vec<Vec<Telling>>,
    /// The ids that only begin so; two are enough to know that more is needed.
    others: Vec<String>,
    other: Vec<Vec<Telling>>,
    /// Lines that were read: of two copies of a log, one counts.
    seen: HashSet<blake3::Hash>,
}

impl<'a> Gathered<'a> {
    fn new(id: &'a str) -> Self {
        Self {
            id,
            exact: Vec::new(),
            others: Vec::new(),
            other: Vec::new(),
            seen: HashSet::new(),
        }
    }

    fn read(&mut self, path: &Path, access: Access) -> anyhow::Result<Scanned> {
        let query = Query {
            request_begins: Some(self.id.to_owned()),
            ..Query::default()
        };
        let (mut exact, mut other) = (Vec::new(), Vec::new());
        let mut hashes = Vec::new();
        let mut see = |found: Found<'_>| {
            match found {
                Found::Entry { at, raw, entry } => {
                    let hash = blake3::hash(raw);
                    let id = entry.request_id().unwrap_or_default().to_owned();
                    let telling = Telling {
                        at: (at.0.to_string_lossy().into_owned(), at.1),
                        entry,
                    };
                    if self.seen.contains(&hash) {
                    } else if id == self.id {
                        hashes.push(hash);
                        exact.push(telling);
                    } else if self.others.contains(&id) || self.others.len() < 2 {
                        if !self.others.contains(&id) {
                            self.others.push(id);
                        }
                        // Of several, none is told.
                        if self.others.len() == 1 {
                            hashes.push(hash);
                            other.push(telling);
                        }
                    }
                }
                Found::Piece { .. } | Found::Cut | Found::Header { .. } => super::warn_of(&found),
            }
            ControlFlow::Continue(())
        };
        let mut scan = Scan::new(path, access, query);
        let scanned = readable(scan.read(&mut see))?;
        stop(scan.finish(&mut see));
        self.seen.extend(hashes);
        self.exact.push(exact);
        self.other.push(other);
        Ok(scanned)
    }

    /// The id that is meant, and its entries.
    fn chosen(self) -> anyhow::Result<Option<(String, Vec<Vec<Telling>>)>> {
        if self.exact.iter().any(|log| !log.is_empty()) {
            return Ok(Some((self.id.to_owned(), self.exact)));
        }
        let mut others = self.others.into_iter();
        match (others.next(), others.next()) {
            (None, _) => Ok(None),
            (Some(one), None) => Ok(Some((one, self.other))),
            (Some(one), Some(other)) => Err(Hinted::usage(
                format!(
                    "more than one ask is meant by {:?}: {one} and {other}",
                    self.id
                ),
                "write more of the id",
            )),
        }
    }
}

fn lines(id: &str, story: &Story) -> Vec<String> {
    let mut lines = vec![heading(id, story)];
    let mut group: Option<&Option<String>> = None;
    for part in &story.parts {
        let node = part.writer.as_deref().and_then(|writer| story.node(writer));
        let indent = "  ".repeat(node.map_or(0, |node| node.depth) + 1);
        if group != Some(&part.writer) {
            let name = part.writer.as_deref().unwrap_or("some session");
            let role = node.map_or(String::new(), |node| format!(" ({})", node.role.name()));
            let peer = match part.entry.text("extension") {
                Some("askrelay") | None => String::new(),
                Some(other) => format!(", {other}"),
            };
            lines.push(format!("{indent}{name}{role}{peer}"));
            group = Some(&part.writer);
        }
        lines.push(format!("{indent}  {}", line_of(part)));
    }
    lines.push(String::new());
    lines.push(sentence(story));
    lines.extend(seals(story));
    lines.extend(missing(story));
    lines
}

/// What is asked, as far as the log keeps it.
fn heading(id: &str, story: &Story) -> String {
    let first = |keys: &[&str]| {
        story
            .parts
            .iter()
            .find_map(|part| keys.iter().find_map(|key| part.entry.text(key)))
    };
    let agent = story
        .parts
        .iter()
        .filter(|part| {
            part.entry.text("requesterSessionId")
                == story.nodes.first().map(|node| node.session.as_str())
        })
        .find_map(|part| part.entry.agent());
    let agent = agent.map_or(String::new(), |agent| format!(" of agent {agent}"));
    let surface = first(&["surface"]).map_or(String::new(), |surface| format!(": {surface}"));
    let what = first(&["command", "path", "skillName", "target"])
        .map_or(String::new(), |what| format!(" `{what}`"));
    format!("ask {id}{agent}{surface}{what}")
}

fn line_of(part: &Part) -> String {
    let entry = &part.entry;
    let mut parts = vec![
        entry.text("timestamp").unwrap_or("-").to_owned(),
        entry.event().to_owned(),
    ];
    if entry.event() == "forwarded_permission.request_created"
        && let Some(target) = entry.text("targetSessionId")
    {
        parts.push(format!("-> {target}"));
    }
    parts.extend(super::how(entry));
    parts.join("  ")
}

/// How the ask ended and who decided it, in one sentence.
fn sentence(story: &Story) -> String {
    let Some(part) = story.end.and_then(|end| story.parts.get(end)) else {
        return "No end is recorded: the ask is still open, or what was written of its end is lost."
            .to_owned();
    };
    let hops = story.hops();
    let (inside, through) = match hops.split_last() {
        Some(((last, _), through)) => (format!(" of session {last}"), through),
        None => (String::new(), &[][..]),
    };
    let nothing = Value::Null;
    let decider = part
        .entry
        .decider()
        .unwrap_or_else(|| Decider::of(&nothing));
    let by = by_whom(&decider, &inside);
    let through: Vec<&str> = through
        .iter()
        .rev()
        .map(|(session, _)| session.as_str())
        .collect();
    let through = match through.as_slice() {
        [] => String::new(),
        sessions => format!(", through {}", listed(sessions)),
    };
    match story.outcome() {
        Some(Outcome::Approved) => format!("Approved {by}{through}."),
        Some(Outcome::Denied) => {
            let reason = part.entry.text("denialReason");
            let reason = reason.map_or(String::new(), |reason| format!(" Reason: {reason}"));
            format!("Denied {by}{through}.{reason}")
        }
        Some(Outcome::Nobody) | None => {
            let why = decider.text("reason").or_else(|| part.entry.reason());
            let why = why.map_or(String::new(), |why| format!(": {why}"));
            format!("Not approved, and decided by nobody{through}{why}.")
        }
    }
}

fn by_whom(decider: &Decider<'_>, inside: &str) -> String {
    let pattern = decider
        .text("pattern")
        .map_or(String::new(), |pattern| format!(" \"{pattern}\""));
    match decider.kind {
        DeciderKind::User => match decider.text("via") {
            Some("select") => format!("by a person at the numbered questions{inside}"),
            _ => format!("by a person at the dialog{inside}"),
        },
        DeciderKind::Authorizer => format!(
            "by the authorizer \"{}\"{inside}",
            decider.text("name").unwrap_or("?")
        ),
        DeciderKind::Rule => format!("by the rule{pattern}{inside}"),
        DeciderKind::SessionApproval => {
            format!("by a grant{pattern} given earlier{inside}")
        }
        DeciderKind::Yolo => format!("by the switch that allows everything{inside}"),
        DeciderKind::InfrastructureRead => {
            format!("as a read of the host's own files{inside}")
        }
        DeciderKind::Unavailable | DeciderKind::GateError => format!("by nobody{inside}"),
        DeciderKind::Unknown => format!("without a known decider{inside}"),
    }
}

fn listed(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [before @ .., last] => format!("{} and {last}", before.join(", ")),
    }
}

/// Which of the answers were sealed, as far as it was recorded.
fn seals(story: &Story) -> Option<String> {
    let hops = story.hops();
    if hops.is_empty() {
        return None;
    }
    let sealed: Vec<&str> = hops
        .iter()
        .filter(|(_, sealed)| *sealed == Some(true))
        .map(|(session, _)| session.as_str())
        .collect();
    let open: Vec<&str> = hops
        .iter()
        .filter(|(_, sealed)| *sealed != Some(true))
        .map(|(session, _)| session.as_str())
        .collect();
    Some(match (sealed.as_slice(), open.as_slice()) {
        (sealed, []) => format!("Sealed answers: of {}.", listed(sealed)),
        ([], _) => "No answer on the way is recorded as sealed.".to_owned(),
        (sealed, open) => format!(
            "Sealed answers: of {}. Not recorded as sealed: of {}.",
            listed(sealed),
            listed(open)
        ),
    })
}

/// What is not told, and should be.
fn missing(story: &Story) -> Vec<String> {
    let mut lines: Vec<String> = story
        .silent()
        .iter()
        .map(|session| {
            format!(
                "Missing: nothing that session {session} wrote is in these logs; name its log behind the id."
            )
        })
        .collect();
    for node in &story.nodes {
        if !node.wrote || node.end.is_some() {
            continue;
        }
        lines.push(match (node.role, story.end.is_some()) {
            (Role::Child, true) => format!(
                "Missing: session {} did not record that it has the answer.",
                node.session
            ),
            (Role::Child, false) => continue,
            (Role::Relay | Role::Root, _) => format!(
                "Missing: session {} recorded no end: it is open there, or that entry is lost.",
                node.session
            ),
        });
    }
    lines
}

fn as_json(id: &str, story: &Story) -> Value {
    let part = story.end.and_then(|end| story.parts.get(end));
    let decider = part.and_then(|part| part.entry.decider());
    let hops: Vec<Value> = story
        .hops()
        .into_iter()
        .map(|(session, sealed)| json!({"session": session, "sealed": sealed}))
        .collect();
    let nodes: Vec<Value> = story.nodes.iter().map(node_json).collect();
    let entries: Vec<Value> = story
        .parts
        .iter()
        .map(|part| {
            json!({
                "file": part.at.0,
                "atByte": part.at.1,
                "session": part.writer,
                "entry": part.entry.members(),
            })
        })
        .collect();
    json!({
        "requestId": id,
        "outcome": story.outcome().map(Outcome::name),
        "decider": part.and_then(|part| part.entry.decider_kind()).map(DeciderKind::name),
        "source": decider.map(|decider| decider.source.clone()),
        "hops": hops,
        "says": sentence(story),
        "missing": missing(story),
        "sessions": nodes,
        "entries": entries,
    })
}

fn node_json(node: &Node) -> Value {
    json!({
        "session": node.session,
        "role": node.role.name(),
        "depth": node.depth,
        "wrote": node.wrote,
        "ended": node.end.is_some(),
    })
}
