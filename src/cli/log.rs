//! `askrelay log`: reads the review log back. It changes nothing and makes no log.

mod filters;
mod stats;
mod story;
mod verify;

use std::collections::VecDeque;
use std::io::IsTerminal as _;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::Value;
use tokio::signal::unix::{SignalKind, signal};

use super::env::Env;
use super::exit::Exit;
use super::output::{self, Out};
use super::place::Place;
use super::{Hinted, PlaceArgs};
use crate::audit::{Access, AuditError, Found, Logged, Refusal, Scan, Scanned};
use crate::presentation::{json, text};
use filters::Filters;

/// How often a log that is followed is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// How many lines more than are wanted are read from the end of a log: some may be no entries.
const MORE: u64 = 64;

#[derive(Debug, clap::Args)]
#[command(subcommand_negates_reqs = true)]
pub(super) struct Args {
    #[command(subcommand)]
    command: Option<Sub>,
    /// Go on as the log grows, until interrupted
    #[arg(long, short)]
    follow: bool,
    /// End after the first N that match
    #[arg(long, value_name = "N", conflicts_with = "last")]
    limit: Option<u64>,
    /// Print only the last N that match
    #[arg(long, value_name = "N")]
    last: Option<usize>,
    /// Print the lines as they stand in the log
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    filters: Filters,
}

#[derive(Debug, clap::Subcommand)]
enum Sub {
    /// Tell what every session wrote about one ask, and who decided it
    Story(story::Args),
    /// Count decisions by who made them
    Stats(stats::Args),
    /// Check that nothing in the log was changed, removed or reordered
    Verify(verify::Args),
}

impl Args {
    fn has_own(&self) -> bool {
        !self.filters.is_empty()
            || self.follow
            || self.limit.is_some()
            || self.last.is_some()
            || self.json
    }
}

pub(super) fn run(env: &Env, place_args: &PlaceArgs, args: &Args) -> anyhow::Result<Exit> {
    let place = Place::new(env, place_args);
    if args.command.is_some() && args.has_own() {
        return Err(Hinted::usage(
            "there are flags before the name of the subcommand",
            "write them behind it: askrelay log verify --json",
        ));
    }
    match &args.command {
        None => list(&place, args),
        Some(Sub::Story(args)) => story::run(&place, args),
        Some(Sub::Stats(args)) => stats::run(&place, args),
        Some(Sub::Verify(args)) => verify::run(&place, args),
    }
}

/// What was read, or why it was not and what to do about it.
pub(super) fn readable<T>(read: Result<T, AuditError>) -> anyhow::Result<T> {
    read.map_err(|error| {
        let hint = match &error {
            AuditError::Refused {
                reason: Refusal::ForeignOwner(_),
                ..
            } => "read it as the user it belongs to, or a copy: askrelay log verify FILE",
            AuditError::Refused { .. }
            | AuditError::Directory { .. }
            | AuditError::Open { .. }
            | AuditError::Read { .. }
            | AuditError::Write { .. }
            | AuditError::Sync { .. }
            | AuditError::Busy { .. }
            | AuditError::Restless { .. } => {
                "the log is a file of your own: check --log and ASKRELAY_LOG"
            }
        };
        Hinted::nobody("the review log cannot be read", hint, Some(error.into()))
    })
}

/// The time that `--since` names, in epoch milliseconds.
pub(super) fn since_ms(text: &str) -> anyhow::Result<i64> {
    filters::since_ms(text)
}

/// Says that there is no log. Where one was named, that is a mistake; by default, nothing has been recorded yet.
pub(super) fn no_log(place: &Place<'_>, path: &std::path::Path) -> anyhow::Result<Exit> {
    let message = format!("there is no review log at {}", path.display());
    if place.names_log() {
        return Err(Hinted::usage(message, "check --log and ASKRELAY_LOG"));
    }
    output::say(&text::visible(&message));
    Ok(Exit::Ok)
}

/// Warns of what is found in a log and is no entry.
fn warn_of(found: &Found<'_>) {
    match found {
        Found::Piece {
            at: (file, start),
            bytes,
        } => output::warn(&format!(
            "{} at byte {start}: {bytes} bytes that are no entry",
            file.display()
        )),
        Found::Cut => output::warn("the log was emptied; it is read from its start"),
        Found::Entry { .. } | Found::Header { .. } => {}
    }
}

/// Lets go of whether there is more to see: nothing follows.
pub(super) fn stop(_went: ControlFlow<()>) {}

/// Prints entries.
struct Printer {
    out: Out,
    json: bool,
    /// Whether what is printed reaches a terminal, and its width.
    terminal: bool,
    columns: Option<usize>,
    /// Of those that are kept back, how many.
    last: Option<usize>,
    kept: VecDeque<Vec<u8>>,
    left: Option<u64>,
    failed: Option<anyhow::Error>,
}

impl Printer {
    fn new(args: &Args) -> Self {
        let terminal = std::io::stdout().is_terminal();
        Self {
            out: Out::stdout(),
            json: args.json,
            terminal,
            columns: terminal.then(columns).flatten(),
            last: args.last,
            kept: VecDeque::new(),
            left: args.limit,
            failed: None,
        }
    }

    fn see(&mut self, found: &Found<'_>) -> ControlFlow<()> {
        match found {
            Found::Piece { .. } | Found::Cut | Found::Header { .. } => {
                warn_of(found);
                ControlFlow::Continue(())
            }
            Found::Entry { raw, entry, .. } => self.entry(raw, entry),
        }
    }

    fn entry(&mut self, raw: &[u8], entry: &Logged) -> ControlFlow<()> {
        if self.left == Some(0) {
            return ControlFlow::Break(());
        }
        let line = self.line(raw, entry);
        if let Some(last) = self.last {
            if self.kept.len() >= last {
                self.kept.pop_front();
            }
            if last > 0 {
                self.kept.push_back(line);
            }
            return ControlFlow::Continue(());
        }
        self.print(&line)?;
        if let Some(left) = &mut self.left {
            *left -= 1;
            if *left == 0 {
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    }

    /// The line for an entry. What goes to a program stays as it is; a terminal gets nothing that it would act on, which JSON can
    /// say in another way.
    fn line(&self, raw: &[u8], entry: &Logged) -> Vec<u8> {
        if !self.json {
            let line = human(entry);
            let line = match self.columns {
                Some(columns) => text::clip_columns(&line, columns).into_owned(),
                None => line,
            };
            return line.into_bytes();
        }
        let shown = self
            .terminal
            .then(|| std::str::from_utf8(raw).ok())
            .flatten();
        if let Some(shown) = shown
            && shown.contains(text::is_hidden)
            && let Ok(escaped) = json::line(entry.members())
        {
            return escaped.into_bytes();
        }
        raw.to_vec()
    }

    fn print(&mut self, line: &[u8]) -> ControlFlow<()> {
        let printed = self.out.raw(line);
        if let Err(error) = printed {
            self.failed = Some(error);
        }
        if self.failed.is_some() || self.out.is_closed() {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }

    /// Prints what was kept back; from now on nothing is.
    fn release(&mut self) -> ControlFlow<()> {
        self.last = None;
        for line in std::mem::take(&mut self.kept) {
            self.print(&line)?;
        }
        ControlFlow::Continue(())
    }

    fn flush(&mut self) -> anyhow::Result<()> {
        match self.failed.take() {
            Some(error) => Err(error),
            None => self.out.flush(),
        }
    }
}

fn list(place: &Place<'_>, args: &Args) -> anyhow::Result<Exit> {
    let path = place.log_file()?;
    let query = args.filters.query()?;
    let mut printer = Printer::new(args);
    if args.limit == Some(0) {
        return Ok(Exit::Ok);
    }
    let mut scan = Scan::new(&path, Access::Own, query.clone());
    if let (Some(last), true) = (args.last, query.is_empty()) {
        scan = scan.only_last(last as u64 + MORE);
    }
    let mut scanned = readable(scan.read(&mut |found| printer.see(&found)))?;
    if scan.left_out() && args.last.is_some_and(|last| printer.kept.len() < last) {
        // Too much of it was no entry.
        printer.kept.clear();
        scan = Scan::new(&path, Access::Own, query);
        scanned = readable(scan.read(&mut |found| printer.see(&found)))?;
    }
    if args.follow && scanned != Scanned::Ended {
        if printer.release().is_continue() {
            printer.flush()?;
            super::runtime()?.block_on(follow(&mut scan, &mut printer))?;
        }
        printer.flush()?;
        return Ok(Exit::Ok);
    }
    match scanned {
        Scanned::NoLog => return no_log(place, &path),
        Scanned::Ended => {}
        Scanned::Read => {
            let _all = scan.finish(&mut |found| printer.see(&found));
        }
    }
    let _all = printer.release();
    printer.flush()?;
    Ok(Exit::Ok)
}

/// Prints what comes, until a signal or the end of whoever reads it.
async fn follow(scan: &mut Scan, printer: &mut Printer) -> anyhow::Result<()> {
    let mut interrupted = signal(SignalKind::interrupt())?;
    let mut terminated = signal(SignalKind::terminate())?;
    let mut looks = tokio::time::interval(LOOK_EVERY);
    looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = interrupted.recv() => return Ok(()),
            _ = terminated.recv() => return Ok(()),
            _ = looks.tick() => {}
        }
        let scanned = readable(scan.poll(&mut |found| printer.see(&found)))?;
        printer.flush()?;
        if scanned == Scanned::Ended || printer.out.is_closed() || reader_is_gone() {
            return Ok(());
        }
    }
}

/// Whether nobody reads what is printed any more, where that can be told without printing.
fn reader_is_gone() -> bool {
    let stdout = std::io::stdout();
    let mut polled = [PollFd::new(&stdout, PollFlags::empty())];
    let at_once = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    poll(&mut polled, Some(&at_once)).is_ok_and(|ready| ready > 0)
        && polled
            .iter()
            .any(|fd| fd.revents().intersects(PollFlags::ERR | PollFlags::HUP))
}

fn columns() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok()?;
    Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
}

/// One line about an entry: when, what, which ask, between whom, how it ended, who decided, and why.
fn human(entry: &Logged) -> String {
    let mut parts = vec![
        entry.text("timestamp").unwrap_or("-").to_owned(),
        entry.event().to_owned(),
    ];
    parts.extend(entry.request_id().map(str::to_owned));
    parts.extend(who(entry));
    parts.extend(how(entry));
    let line: Vec<_> = parts.iter().map(|part| text::visible(part)).collect();
    line.join("  ")
}

/// How it ended, who decided, what it is about, and why.
fn how(entry: &Logged) -> Vec<String> {
    let mut parts = Vec::new();
    if let Some(outcome) = entry.outcome() {
        parts.push(outcome.name().to_owned());
        let decider = entry.decider();
        let label = decider.map_or_else(|| "unknown".to_owned(), |decider| decider.label());
        parts.push(format!("by {label}"));
    }
    // A program of the operator, and what a link of the chain said.
    parts.extend(entry.text("name").map(|name| {
        let said = entry.text("outcome").filter(|_| entry.is_of_link());
        said.map_or_else(|| name.to_owned(), |said| format!("{name}: {said}"))
    }));
    parts.extend(
        ["command", "path", "skillName", "target"]
            .iter()
            .find_map(|key| entry.text(key))
            .map(|what| format!("`{what}`")),
    );
    parts.extend(entry.reason().map(|reason| format!("({reason})")));
    parts
}

/// Who asks whom.
fn who(entry: &Logged) -> Option<String> {
    let session = |key| entry.text(key).filter(|id| !id.is_empty());
    let asker = match (entry.agent(), session("requesterSessionId")) {
        (Some(agent), Some(session)) => format!("{agent}@{session}"),
        (Some(one), None) | (None, Some(one)) => one.to_owned(),
        (None, None) => String::new(),
    };
    match session("targetSessionId").or_else(|| session("sessionId")) {
        Some(target) if asker.is_empty() => Some(format!("-> {target}")),
        Some(target) => Some(format!("{asker} -> {target}")),
        None if asker.is_empty() => None,
        None => Some(asker),
    }
}

/// A log that is named as an argument, or the one that everything is written to.
fn named_or_own(place: &Place<'_>, file: Option<&PathBuf>) -> anyhow::Result<(PathBuf, Access)> {
    Ok(match file {
        Some(file) => (place.absolute(file), Access::Named),
        None => (place.log_file()?, Access::Own),
    })
}

/// A file and a line, as JSON.
fn spot_json(spot: &crate::audit::Spot) -> Value {
    serde_json::json!({
        "file": spot.file.to_string_lossy(),
        "line": spot.line,
        "atByte": spot.at,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn line_of(value: &Value) -> String {
        human(&Logged::parse(value.to_string().as_bytes()).unwrap())
    }

    #[test]
    fn a_line_says_when_what_who_and_why() {
        assert_eq!(
            line_of(&json!({
                "timestamp": "2026-11-30T13:00:00.000Z", "event": "forwarded_permission.denied", "requestId": "r1",
                "requesterAgentName": "scout", "requesterSessionId": "child", "targetSessionId": "main",
                "denialReason": "no rm",
                "decidedBy": {"kind": "rule", "surface": "bash", "pattern": "rm *", "origin": "global"},
            })),
            "2026-11-30T13:00:00.000Z  forwarded_permission.denied  r1  scout@child -> main  denied  by rule:rm *  (no rm)"
        );
        assert_eq!(
            line_of(
                &json!({"timestamp": "t", "event": "forwarded_permission.serving_started", "sessionId": "main"})
            ),
            "t  forwarded_permission.serving_started  -> main"
        );
        assert_eq!(
            line_of(&json!({
                "timestamp": "t", "event": "authorizer_link", "requestId": "r1", "name": "judge", "outcome": "capped",
                "latencyMs": 7, "reason": "looks fine",
            })),
            "t  authorizer_link  r1  judge: capped  (looks fine)"
        );
        assert_eq!(
            line_of(
                &json!({"timestamp": "t", "event": "annotator_failed", "name": "hints", "reason": "it broke"})
            ),
            "t  annotator_failed  hints  (it broke)"
        );
        assert_eq!(line_of(&json!({})), "-  ");
    }

    #[test]
    fn nothing_of_an_entry_reaches_a_line_unescaped() {
        let line = line_of(&json!({
            "timestamp": "\u{1b}[2J", "event": "a\nb", "requestId": "\u{202e}r", "agentName": "x\u{9b}", "command": "\r",
            "reason": "\u{0}",
        }));
        assert_eq!(
            line,
            "<ESC>[2J  a<LF>b  <U+202E>r  x<U+009B>  `<CR>`  (<U+0000>)"
        );
    }
}
