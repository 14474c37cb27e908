//! `askrelay log verify`: whether the log is as it was written.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::{named_or_own, readable, spot_json};
use crate::audit::{Break, Checked, Fault, Note, NoteKind, Spot, verify};
use crate::cli::Hinted;
use crate::cli::exit::Exit;
use crate::cli::output::{self, Out};
use crate::cli::place::Place;
use crate::presentation::text::visible;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Log to check, with the files that were rotated away beside it [default: the review log]
    file: Option<PathBuf>,
    /// A head that was noted earlier, which must stand in the log; may be given several times
    #[arg(long, value_name = "HASH")]
    head: Vec<String>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(super) fn run(place: &Place<'_>, args: &Args) -> anyhow::Result<Exit> {
    let heads = args
        .head
        .iter()
        .map(|text| head(text))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let (path, access) = named_or_own(place, args.file.as_ref())?;
    let checked = readable(verify(&path, access, &heads))?
        // A log that is not there cannot be said to be whole.
        .ok_or_else(|| {
            Hinted::nobody(
                format!("there is no review log at {}", path.display()),
                "check --log and ASKRELAY_LOG, or name a log: askrelay log verify FILE",
                None,
            )
        })?;
    let mut out = Out::stdout();
    if args.json {
        out.json(&as_json(&checked))?;
    } else {
        for line in lines(&checked) {
            out.line(&visible(&line))?;
        }
    }
    out.flush()?;
    if checked.holds() {
        return Ok(Exit::Ok);
    }
    if !args.json {
        let is_missing = checked
            .broken
            .as_ref()
            .is_some_and(|found| matches!(found.fault, Fault::FileMissing(_) | Fault::Headless));
        output::say(if is_missing {
            "\nhint: for a file that was put away on purpose, give the hash of its last line: --head HASH"
        } else {
            "\nhint: compare with a copy or a backup; what stands before the break is still as it was written"
        });
    }
    Ok(Exit::Denied)
}

fn head(text: &str) -> anyhow::Result<blake3::Hash> {
    let hex = text.strip_prefix("blake3:").unwrap_or(text);
    blake3::Hash::from_hex(hex).map_err(|_| {
        Hinted::usage(
            format!("--head {text:?} is no hash"),
            "64 hexadecimal digits, as `askrelay log verify` prints them behind \"head\"",
        )
    })
}

fn place_of(spot: &Spot) -> String {
    format!(
        "{} line {} (byte {})",
        spot.file.display(),
        spot.line,
        spot.at
    )
}

/// A line that is in the same file as `near` only by its number.
fn near(spot: &Spot, near: &Spot) -> String {
    if spot.file == near.file {
        format!("line {}", spot.line)
    } else {
        format!("line {} of {}", spot.line, spot.file.display())
    }
}

fn counted(count: u64, one: &str, more: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { more })
}

fn lines(checked: &Checked) -> Vec<String> {
    let mut lines = Vec::new();
    let scope = format!(
        "{} in {}",
        counted(checked.lines, "line", "lines"),
        counted(checked.files as u64, "file", "files")
    );
    match &checked.broken {
        Some(found) => {
            lines.push(format!("broken at {}", place_of(&found.spot)));
            lines.push(format!("  {}", what_is_wrong(found)));
            lines.push(format!("looked at {scope} up to there"));
        }
        None => lines.push(format!("the chain holds: {scope}")),
    }
    if checked.unchained > 0 {
        lines.push(format!(
            "{} of an older version before the chain: a change of them does not show",
            counted(checked.unchained, "line", "lines")
        ));
    }
    for note in &checked.notes {
        lines.push(match note.kind {
            NoteKind::Repaired => format!(
                "repaired at {}: a line that was cut off ({} bytes)",
                place_of(&note.spot),
                note.entry.members().get("bytes").unwrap_or(&Value::Null)
            ),
            NoteKind::Warning => format!("warning at {}: {}", place_of(&note.spot), said(note)),
        });
    }
    if checked.more_notes > 0 {
        lines.push(format!("and {} more such entries", checked.more_notes));
    }
    if let Some(bytes) = checked.unfinished {
        lines.push(format!(
            "the last line has no end yet ({bytes} bytes): it is being written, or was cut off"
        ));
    }
    for head in &checked.resumed {
        lines.push(format!(
            "goes on behind the head {head}, whose file is not here"
        ));
    }
    for (head, spot) in &checked.heads {
        if checked.resumed.contains(head) {
            continue;
        }
        lines.push(match spot {
            Some(spot) => format!("found {head} at {}", place_of(spot)),
            None if checked.broken.is_some() => format!("not found before the break: {head}"),
            None => format!("not found: {head}: the log was changed since that was its head, or it is another log's"),
        });
    }
    if let Some(head) = &checked.head {
        lines.push(format!("head {head}"));
    }
    lines
}

/// The entry by which a log warns, without the parts that every line has.
fn said(note: &Note) -> String {
    let details: serde_json::Map<String, Value> = note
        .entry
        .members()
        .iter()
        .filter(|(key, _)| {
            !matches!(
                key.as_str(),
                "timestamp" | "extension" | "stream" | "event" | "chain"
            )
        })
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    format!("{} {}", note.entry.event(), Value::Object(details))
}

fn what_is_wrong(found: &Break) -> String {
    let before = found.before.as_ref().map_or_else(
        || "the line before".to_owned(),
        |before| near(before, &found.spot),
    );
    match &found.fault {
        Fault::Unlinked => {
            format!(
                "it does not follow {before}: that one was changed, or lines between the two were removed"
            )
        }
        Fault::Inserted(spot) => format!(
            "it follows {}: what stands between the two was put in",
            near(spot, &found.spot)
        ),
        Fault::Reordered(spot) => format!(
            "it follows {}, which stands behind it: lines were put into another order",
            near(spot, &found.spot)
        ),
        Fault::Headless => {
            "it follows a line, and there is none before it: the beginning of the log was removed"
                .to_owned()
        }
        Fault::FileMissing(name) => format!("it follows the file {name}, which is missing"),
        Fault::NewStart => {
            format!("it says that it is the first line of a log, and stands behind {before}")
        }
        Fault::NoChain => {
            "it has no chain: it was changed, or another program has written it".to_owned()
        }
        Fault::NotAnEntry => {
            "it is no entry, and not recorded as a piece that a crash left".to_owned()
        }
        Fault::OtherPiece => {
            "it is no entry, and not the piece that the record behind it speaks of".to_owned()
        }
    }
}

fn fault_name(fault: &Fault) -> &'static str {
    match fault {
        Fault::Unlinked => "unlinked",
        Fault::Inserted(_) => "inserted",
        Fault::Reordered(_) => "reordered",
        Fault::Headless => "headless",
        Fault::FileMissing(_) => "file_missing",
        Fault::NewStart => "new_start",
        Fault::NoChain => "no_chain",
        Fault::NotAnEntry => "not_an_entry",
        Fault::OtherPiece => "other_piece",
    }
}

fn as_json(checked: &Checked) -> Value {
    let notes = |kind| -> Vec<Value> {
        checked
            .notes
            .iter()
            .filter(|note| note.kind == kind)
            .map(|note| json!({"at": spot_json(&note.spot), "entry": note.entry.members()}))
            .collect()
    };
    let heads: Vec<Value> = checked
        .heads
        .iter()
        .map(|(head, spot)| {
            json!({"head": head.to_hex().as_str(), "at": spot.as_ref().map(spot_json)})
        })
        .collect();
    let resumed: Vec<String> = checked
        .resumed
        .iter()
        .map(|head| head.to_hex().to_string())
        .collect();
    let broken = checked.broken.as_ref().map(|found| {
        json!({
            "at": spot_json(&found.spot),
            "before": found.before.as_ref().map(spot_json),
            "fault": fault_name(&found.fault),
            "says": what_is_wrong(found),
        })
    });
    json!({
        "holds": checked.holds(),
        "files": checked.files,
        "lines": checked.lines,
        "bytes": checked.bytes,
        "unchained": checked.unchained,
        "repaired": notes(NoteKind::Repaired),
        "warnings": notes(NoteKind::Warning),
        "moreNotes": checked.more_notes,
        "unfinishedBytes": checked.unfinished,
        "heads": heads,
        "resumed": resumed,
        "broken": broken,
        "head": checked.head.map(|head| head.to_hex().to_string()),
    })
}
