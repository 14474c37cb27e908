//! Evidence of a patch in the form that Codex writes: sections of files, and changes found by the lines around them.
//!
//! Each section becomes a unified diff of its file where the file is known and the change fits, and otherwise one of the lines
//! that it names. What cannot be read as such a patch is laid out whole.

use std::iter::Peekable;
use std::str::Lines;

use serde_json::Value;

use super::diff::{self, Side};
use super::fields::{COMMANDS, Members};
use super::file::{Present, present};
use super::{Call, about_file, entry};
use crate::wire::Evidence;

const BEGIN: &str = "*** Begin Patch";
const END: &str = "*** End Patch";
const ADD: &str = "*** Add File: ";
const DELETE: &str = "*** Delete File: ";
const UPDATE: &str = "*** Update File: ";
const MOVE: &str = "*** Move to: ";
const END_OF_FILE: &str = "*** End of File";

/// Names under which agents give the text of a patch.
const PATCHES: [&str; 3] = ["input", "patch", "patchText"];

/// What a patch does to one file.
#[derive(Debug)]
enum Section<'a> {
    Add {
        path: &'a str,
        content: String,
    },
    Delete {
        path: &'a str,
    },
    Update {
        path: &'a str,
        moved_to: Option<&'a str>,
        hunks: Vec<Hunk<'a>>,
    },
}

/// Lines that are replaced by others.
#[derive(Debug, Default)]
struct Hunk<'a> {
    /// Lines that stand somewhere above, outermost first.
    anchors: Vec<&'a str>,
    old: Vec<&'a str>,
    new: Vec<&'a str>,
    at_end: bool,
}

/// `None` where the input holds no patch that can be read.
pub(super) fn evidence(call: &Call<'_>) -> Option<Vec<Evidence>> {
    if let Value::String(text) = call.input {
        return Some(of_sections(call, &parse(text)?));
    }
    let mut input = Members::of(call.input)?;
    let text = input.text(&PATCHES).or_else(|| input.text(&COMMANDS))?;
    let mut entries = of_sections(call, &parse(text)?);
    entries.extend(input.rest());
    Some(entries)
}

/// The files that a patch names, each once; `None` where the input holds no patch that can be read.
pub fn patched(input: &Value) -> Option<Vec<&str>> {
    let text = match Members::of(input) {
        Some(mut input) => input.text(&PATCHES).or_else(|| input.text(&COMMANDS)),
        None => input.as_str(),
    }?;
    let mut paths = Vec::new();
    for section in parse(text)? {
        let (path, other) = match section {
            Section::Add { path, .. } | Section::Delete { path } => (path, None),
            Section::Update { path, moved_to, .. } => (path, moved_to),
        };
        for path in [Some(path), other].into_iter().flatten() {
            if !paths.contains(&path) {
                paths.push(path);
            }
        }
    }
    Some(paths)
}

fn parse(text: &str) -> Option<Vec<Section<'_>>> {
    let mut lines = text.trim().lines().peekable();
    if lines.next()?.trim_end() != BEGIN {
        return None;
    }
    let mut sections = Vec::new();
    loop {
        let line = lines.next()?;
        if line.trim_end() == END {
            break;
        }
        sections.push(if let Some(path) = line.strip_prefix(ADD) {
            let mut content = String::new();
            while let Some(line) = lines.next_if(|line| line.starts_with('+')) {
                content.push_str(line.get(1..)?);
                content.push('\n');
            }
            Section::Add { path, content }
        } else if let Some(path) = line.strip_prefix(DELETE) {
            Section::Delete { path }
        } else {
            let path = line.strip_prefix(UPDATE)?;
            let moved_to = lines
                .next_if(|line| line.starts_with(MOVE))
                .and_then(|line| line.strip_prefix(MOVE));
            let hunks = hunks(&mut lines)?;
            Section::Update {
                path,
                moved_to,
                hunks,
            }
        });
    }
    // What stands behind the end would not be shown.
    (lines.next().is_none() && !sections.is_empty()).then_some(sections)
}

fn hunks<'a>(lines: &mut Peekable<Lines<'a>>) -> Option<Vec<Hunk<'a>>> {
    let mut hunks: Vec<Hunk<'a>> = Vec::new();
    let (mut hunk, mut in_head) = (Hunk::default(), true);
    while let Some(line) =
        lines.next_if(|line| !line.starts_with("*** ") || line.trim_end() == END_OF_FILE)
    {
        if let Some(anchor) = line.strip_prefix("@@") {
            if !in_head {
                hunks.push(std::mem::take(&mut hunk));
            }
            in_head = true;
            match anchor.strip_prefix(' ') {
                Some(anchor) => hunk.anchors.push(anchor),
                None if anchor.is_empty() => {}
                None => return None,
            }
            continue;
        }
        in_head = false;
        if line.starts_with("*** ") {
            hunk.at_end = true;
            continue;
        }
        match line.as_bytes().first() {
            Some(b'+') => hunk.new.push(line.get(1..)?),
            Some(b'-') => hunk.old.push(line.get(1..)?),
            Some(b' ') => {
                hunk.old.push(line.get(1..)?);
                hunk.new.push(line.get(1..)?);
            }
            None => {
                hunk.old.push("");
                hunk.new.push("");
            }
            Some(_) => return None,
        }
    }
    if !in_head {
        hunks.push(hunk);
    } else if !hunk.anchors.is_empty() {
        return None;
    }
    Some(hunks)
}

fn of_sections(call: &Call<'_>, sections: &[Section<'_>]) -> Vec<Evidence> {
    let mut entries = Vec::new();
    for section in sections {
        match section {
            Section::Add { path, content } => add(call, path, content, &mut entries),
            Section::Delete { path } => delete(call, path, &mut entries),
            Section::Update {
                path,
                moved_to,
                hunks,
            } => update(call, path, *moved_to, hunks, &mut entries),
        }
    }
    entries
}

fn add(call: &Call<'_>, path: &str, content: &str, entries: &mut Vec<Evidence>) {
    let (side, old) = match present(call.files.current(path)) {
        Present::Text(old) => {
            entries.push(about_file(path, "overwritten"));
            (Side::Old(path), old)
        }
        Present::NoText(fact) => {
            entries.push(about_file(path, fact));
            (Side::Nothing, String::new())
        }
        Present::Missing | Present::Unknown => (Side::Nothing, String::new()),
    };
    if old == content {
        let fact = if content.is_empty() {
            "new, empty"
        } else {
            "unchanged"
        };
        entries.push(about_file(path, fact));
    } else {
        entries.push(diff::entry(side, &old, Side::New(path), content));
    }
}

fn delete(call: &Call<'_>, path: &str, entries: &mut Vec<Evidence>) {
    entries.push(about_file(path, "deleted"));
    match present(call.files.current(path)) {
        Present::Text(old) if !old.is_empty() => {
            entries.push(diff::entry(Side::Old(path), &old, Side::Nothing, ""));
        }
        Present::NoText(fact) => entries.push(about_file(path, fact)),
        Present::Missing => entries.push(about_file(path, "missing")),
        Present::Text(_) | Present::Unknown => {}
    }
}

fn update(
    call: &Call<'_>,
    path: &str,
    moved_to: Option<&str>,
    hunks: &[Hunk<'_>],
    entries: &mut Vec<Evidence>,
) {
    if let Some(moved_to) = moved_to {
        entries.push(about_file(path, format!("moved to {moved_to}")));
    }
    let new_side = Side::New(moved_to.unwrap_or(path));
    match present(call.files.current(path)) {
        Present::Text(old) => match apply(&old, hunks) {
            Some(new) if new == old => {
                if moved_to.is_none() {
                    entries.push(about_file(path, "unchanged"));
                }
                return;
            }
            Some(new) => return entries.push(diff::entry(Side::Old(path), &old, new_side, &new)),
            None => entries.push(about_file(path, "old lines not found")),
        },
        Present::NoText(fact) => entries.push(about_file(path, fact)),
        Present::Missing => entries.push(about_file(path, "missing")),
        Present::Unknown => {}
    }
    if !hunks.is_empty() {
        entries.push(entry("line numbers", "of the texts, not of the file"));
    }
    for hunk in hunks {
        if !hunk.anchors.is_empty() {
            entries.push(entry("below", hunk.anchors.join("\n")));
        }
        let text = |lines: &[&str]| lines.iter().flat_map(|line| [*line, "\n"]).collect();
        let (old, new): (String, String) = (text(&hunk.old), text(&hunk.new));
        if old == new {
            entries.push(entry("no change", old));
        } else {
            entries.push(diff::entry(Side::Old(path), &old, new_side, &new));
        }
    }
}

/// What the hunks, each found behind the one before it, make of a text; `None` where one is not found.
fn apply(text: &str, hunks: &[Hunk<'_>]) -> Option<String> {
    let lines: Vec<&str> = text.split_terminator('\n').collect();
    // Lines that replace none come last, before an empty line at the end, wherever their anchor stands.
    let end = match lines.split_last() {
        Some((&"", above)) => above.len(),
        Some(_) | None => lines.len(),
    };
    let mut found = Vec::with_capacity(hunks.len());
    let mut from = 0;
    for hunk in hunks {
        for anchor in &hunk.anchors {
            from = find(&lines, from, &[*anchor])? + 1;
        }
        if hunk.old.is_empty() {
            found.push((end, hunk));
            continue;
        }
        let start = if hunk.at_end {
            let start = lines.len().checked_sub(hunk.old.len())?;
            find(&lines, start.max(from), &hunk.old)?
        } else {
            find(&lines, from, &hunk.old)?
        };
        found.push((start, hunk));
        from = start + hunk.old.len();
    }
    found.sort_by_key(|(start, _)| *start);
    let mut out: Vec<&str> = Vec::with_capacity(lines.len());
    let mut at = 0;
    for (start, hunk) in found {
        out.extend(lines.get(at..start)?);
        out.extend(&hunk.new);
        at = start + hunk.old.len();
    }
    out.extend(lines.get(at..)?);
    Some(out.iter().flat_map(|line| [*line, "\n"]).collect())
}

/// Where `wanted` stands in `lines`, at `from` or behind it. A carriage return at the end of a line is not looked at: whoever
/// applies such a patch does the same, and writes the line without it.
fn find(lines: &[&str], from: usize, wanted: &[&str]) -> Option<usize> {
    let rest = lines.get(from..)?;
    rest.windows(wanted.len())
        .position(|window| {
            let pairs = window.iter().zip(wanted);
            pairs
                .into_iter()
                .all(|(line, wanted)| line.trim_end_matches('\r') == *wanted)
        })
        .map(|offset| from + offset)
}
