//! `askrelay log stats`: how many decisions, and who made them.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use serde_json::{Map, Value, json};

use super::filters::Filters;
use super::{readable, stop};
use crate::audit::{Access, Found, LinkTally, Scan, Scanned, Stats, Tally};
use crate::cli::exit::Exit;
use crate::cli::output::{self, Out};
use crate::cli::place::Place;
use crate::presentation::text::visible;

/// Most rows of a table for a person; the rest is counted in one.
const MAX_ROWS: usize = 20;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    filters: Filters,
}

pub(super) fn run(place: &Place<'_>, args: &Args) -> anyhow::Result<Exit> {
    let path = place.log_file()?;
    let mut scan = Scan::new(&path, Access::Own, args.filters.query()?).decisions_only();
    let mut stats = Stats::default();
    let mut see = |found: Found<'_>| {
        match found {
            Found::Entry { raw, entry, .. } => stats.count(&entry, raw.len()),
            Found::Header {
                event,
                at_ms,
                bytes,
            } => stats.count_header(event, Some(at_ms), bytes),
            Found::Piece { .. } => stats.pieces += 1,
            Found::Cut => {}
        }
        ControlFlow::Continue(())
    };
    let scanned = readable(scan.read(&mut see))?;
    stop(scan.finish(&mut see));
    if scanned == Scanned::NoLog {
        return super::no_log(place, &path);
    }
    let mut out = Out::stdout();
    if args.json {
        out.json(&as_json(&stats))?;
    } else {
        for line in lines(&stats) {
            out.line(&line)?;
        }
    }
    out.flush()?;
    Ok(Exit::Ok)
}

fn time(at_ms: i64) -> String {
    jiff::Timestamp::from_millisecond(at_ms)
        .map_or_else(|_| "-".to_owned(), |at| format!("{at:.3}"))
}

fn lines(stats: &Stats) -> Vec<String> {
    let range = stats.range.map_or(String::new(), |(first, last)| {
        format!(", {} to {}", time(first), time(last))
    });
    let mut lines = vec![format!(
        "{} entries, {} bytes{range}",
        stats.entries, stats.bytes
    )];
    if stats.pieces > 0 {
        lines.push(format!("{} pieces that are no entry", stats.pieces));
    }
    lines.push(format!(
        "{} decisions about {} asks",
        stats.decisions.total(),
        stats.asks
    ));
    if stats.repeated > 0 {
        lines.push(format!(
            "{} recorded again, and not counted",
            stats.repeated
        ));
    }
    lines.push(match stats.human_share() {
        Some(share) => format!(
            "of those that anybody made, {:.1} % by a person",
            share * 100.0
        ),
        None => "none that anybody made".to_owned(),
    });
    if stats.approved_by_unknown() > 0 {
        lines.push(format!(
            "{} approved without a known decider: `askrelay log --outcome approved --decider unknown`",
            stats.approved_by_unknown()
        ));
    }
    let deciders = stats
        .by_decider
        .iter()
        .map(|(kind, tally)| (kind.name(), *tally))
        .collect();
    push_table(&mut lines, "DECIDER", deciders);
    for (head, tallies) in [
        ("AUTHORIZER", &stats.by_link),
        ("AGENT", &stats.by_agent),
        ("SESSION", &stats.by_session),
    ] {
        let rows = tallies
            .iter()
            .map(|(name, tally)| (name.as_str(), *tally))
            .collect();
        push_table(&mut lines, head, rows);
    }
    push_links(&mut lines, &stats.links);
    push_silent(&mut lines, stats);
    if !stats.events.is_empty() {
        let mut rows = vec![vec!["EVENT".to_owned(), "ENTRIES".to_owned()]];
        rows.extend(
            stats
                .events
                .iter()
                .map(|(event, count)| vec![visible(event).into_owned(), count.to_string()]),
        );
        lines.push(String::new());
        lines.extend(output::table(&rows));
    }
    lines
}

/// A table of tallies, the largest first.
fn push_table(lines: &mut Vec<String>, head: &str, mut tallies: Vec<(&str, Tally)>) {
    if tallies.is_empty() {
        return;
    }
    tallies.sort_by_key(|(_, tally)| std::cmp::Reverse(tally.total()));
    let heads = [head, "APPROVED", "DENIED", "NOBODY", "ALL", "PASSED ON"];
    let mut rows = vec![heads.map(str::to_owned).to_vec()];
    let more = tallies.len().saturating_sub(MAX_ROWS);
    rows.extend(tallies.into_iter().take(MAX_ROWS).map(|(name, tally)| {
        let counts = [
            tally.approved,
            tally.denied,
            tally.nobody,
            tally.total(),
            tally.passed_on,
        ];
        std::iter::once(visible(name).into_owned())
            .chain(counts.map(|count| count.to_string()))
            .collect()
    }));
    lines.push(String::new());
    lines.extend(output::table(&rows));
    if more > 0 {
        lines.push(format!("and {more} more, see --json"));
    }
}

/// Which children were launched and never asked.
fn push_silent(lines: &mut Vec<String>, stats: &Stats) {
    let silent = stats.silent().count();
    if silent == 0 {
        return;
    }
    lines.push(String::new());
    lines.push(format!(
        "{silent} of {} children that were launched have asked for nothing; check that they are routed through the relay:",
        stats.launched.len()
    ));
    lines.extend(
        stats
            .silent()
            .take(MAX_ROWS)
            .map(|(child, agent)| format!("  {}  ({})", visible(child), visible(agent))),
    );
    if silent > MAX_ROWS {
        lines.push(format!("and {} more, see --json", silent - MAX_ROWS));
    }
}

/// What the links of the chain said, the one that was asked most first.
fn push_links(lines: &mut Vec<String>, tallies: &BTreeMap<String, LinkTally>) {
    if tallies.is_empty() {
        return;
    }
    let mut order: Vec<_> = tallies.iter().collect();
    order.sort_by_key(|(_, link)| std::cmp::Reverse(link.asked()));
    let heads = [
        "LINK",
        "ASKED",
        "ALLOWED",
        "DENIED",
        "DEFERRED",
        "CAPPED",
        "FAILED",
        "CANCELLED",
        "MEDIAN",
    ];
    let mut rows = vec![heads.map(str::to_owned).to_vec()];
    let more = order.len().saturating_sub(MAX_ROWS);
    rows.extend(order.into_iter().take(MAX_ROWS).map(|(name, link)| {
        let counts = [
            link.asked(),
            link.allowed,
            link.denied,
            link.deferred,
            link.capped,
            link.failed,
            link.cancelled,
        ];
        let median = link
            .median_ms()
            .map_or_else(|| "-".to_owned(), |ms| format!("{ms} ms"));
        std::iter::once(visible(name).into_owned())
            .chain(counts.map(|count| count.to_string()))
            .chain([median])
            .collect()
    }));
    lines.push(String::new());
    lines.extend(output::table(&rows));
    if more > 0 {
        lines.push(format!("and {more} more, see --json"));
    }
}

fn link_json(link: &LinkTally) -> Value {
    json!({
        "asked": link.asked(),
        "allowed": link.allowed,
        "denied": link.denied,
        "deferred": link.deferred,
        "capped": link.capped,
        "failed": link.failed,
        "cancelled": link.cancelled,
        "medianMs": link.median_ms(),
    })
}

fn tally_json(tally: &Tally) -> Value {
    json!({
        "approved": tally.approved,
        "denied": tally.denied,
        "nobody": tally.nobody,
        "total": tally.total(),
        "passedOn": tally.passed_on,
    })
}

fn tallies_json(tallies: &BTreeMap<String, Tally>) -> Map<String, Value> {
    tallies
        .iter()
        .map(|(name, tally)| (name.clone(), tally_json(tally)))
        .collect()
}

fn as_json(stats: &Stats) -> Value {
    let deciders: Map<String, Value> = stats
        .by_decider
        .iter()
        .map(|(kind, tally)| (kind.name().to_owned(), tally_json(tally)))
        .collect();
    let links: Map<String, Value> = stats
        .links
        .iter()
        .map(|(name, link)| (name.clone(), link_json(link)))
        .collect();
    let silent: Vec<Value> = stats
        .silent()
        .map(|(child, agent)| json!({"session": child, "agent": agent}))
        .collect();
    json!({
        "entries": stats.entries,
        "bytes": stats.bytes,
        "pieces": stats.pieces,
        "first": stats.range.map(|(first, _)| time(first)),
        "last": stats.range.map(|(_, last)| time(last)),
        "asks": stats.asks,
        "decisions": tally_json(&stats.decisions),
        "repeated": stats.repeated,
        "humanShare": stats.human_share(),
        "approvedByUnknown": stats.approved_by_unknown(),
        "deciders": deciders,
        "authorizers": tallies_json(&stats.by_link),
        "links": links,
        "agents": tallies_json(&stats.by_agent),
        "sessions": tallies_json(&stats.by_session),
        "launched": stats.launched.len(),
        "silent": silent,
        "events": stats.events,
    })
}
