//! Evidence of a patch in the form that Codex writes: sections of files, and changes found by the lines around them.
//!
//! Each section becomes a unified diff of its file where the file is known and the change fits, and otherwise one of the lines
//! that it names. What cannot be read as such a patch is laid out whole, and so is one that is too long to follow, which is said.

use std::borrow::Cow;
use std::collections::HashSet;
use std::iter::Peekable;
use std::str::Lines;

use serde_json::Value;

use super::diff::{self, Side};
use super::fields::{COMMANDS, Members};
use super::file::{Present, present};
use super::work::{MAX_SHOWN, TooMuch, Work};
use super::{Call, Current, about_file, entry, fields};
use crate::wire::Evidence;

const BEGIN: &str = "*** Begin Patch";
const END: &str = "*** End Patch";
const ADD: &str = "*** Add File: ";
const DELETE: &str = "*** Delete File: ";
const UPDATE: &str = "*** Update File: ";
const MOVE: &str = "*** Move to: ";
const END_OF_FILE: &str = "*** End of File";

/// How the lines begin that name a file, as the most lenient of those reads them who apply such patches.
const HEADERS: [&str; 4] = [
    "*** Add File:",
    "*** Delete File:",
    "*** Update File:",
    "*** Move to:",
];

/// How a patch may begin that is wrapped as the input of a shell's command.
const HEREDOCS: [&str; 3] = ["<<EOF", "<<'EOF'", "<<\"EOF\""];

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

/// Why a change of a file cannot be shown in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Misfit {
    NotFound,
    TooMuch,
}

impl From<TooMuch> for Misfit {
    fn from(TooMuch: TooMuch) -> Self {
        Self::TooMuch
    }
}

/// `None` where the input holds no patch that can be read.
pub(super) fn evidence(call: &Call<'_>) -> Option<Vec<Evidence>> {
    if let Value::String(text) = call.input {
        let sections = parse(text)?;
        return Some(of_sections(call, &sections).unwrap_or_else(|TooMuch| whole(call, &sections)));
    }
    let mut input = Members::of(call.input)?;
    let text = input.text(&PATCHES).or_else(|| input.text(&COMMANDS))?;
    let sections = parse(text)?;
    Some(match of_sections(call, &sections) {
        Ok(mut entries) => {
            entries.extend(input.rest());
            entries
        }
        Err(TooMuch) => whole(call, &sections),
    })
}

/// A patch as it was written.
fn whole(call: &Call<'_>, sections: &[Section<'_>]) -> Vec<Evidence> {
    let mut entries = vec![Evidence {
        detail: Some("not worked out".to_owned()),
        ..entry("edit", format!("of {} files", sections.len()))
    }];
    entries.extend(fields::whole(call.input));
    entries
}

/// The files that a patch names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Patched<'a> {
    /// Each path once, in the order of the patch. Where it is not clear which ones count, all that could.
    pub paths: Vec<Cow<'a, str>>,
    /// Whether whoever applies it can read it in this one way only.
    pub is_clear: bool,
}

/// The files that a patch names; `None` where the input holds none.
///
/// A path counts as it is read by who applies the patch, and not all of them read alike: blanks around a line that names a file, or before a
/// path, are part of it for some. So all of them are looked for, and where they are not those of the one plain reading, that is said.
pub fn patched(input: &Value) -> Option<Patched<'_>> {
    let texts: Vec<&str> = match input.as_object() {
        Some(members) => PATCHES
            .iter()
            .chain(&COMMANDS)
            .filter_map(|name| members.get(*name)?.as_str())
            .collect(),
        None => input.as_str().into_iter().collect(),
    };
    let (mut paths, mut known) = (Vec::new(), HashSet::new());
    // Of two texts it is not known which one is the patch.
    let mut is_clear = texts.len() == 1;
    for text in texts {
        let sections = parse(text);
        is_clear &= sections.is_some();
        for section in sections.into_iter().flatten() {
            let (path, other) = match section {
                Section::Add { path, .. } | Section::Delete { path } => (path, None),
                Section::Update { path, moved_to, .. } => (path, moved_to),
            };
            for path in [Some(path), other].into_iter().flatten() {
                if known.insert(Cow::Borrowed(path)) {
                    paths.push(Cow::Borrowed(path));
                }
            }
        }
        for path in text.split('\n').flat_map(possible_paths) {
            if known.insert(path.clone()) {
                paths.push(path);
                is_clear = false;
            }
        }
    }
    (!paths.is_empty()).then_some(Patched { paths, is_clear })
}

/// What a line could be taken to name, if it could be taken to name a file.
fn possible_paths(line: &str) -> Vec<Cow<'_, str>> {
    let is_blank = |c: char| c.is_whitespace() || c.is_control() || c == '\u{feff}';
    let Some(rest) = HEADERS
        .iter()
        .find_map(|header| line.trim_start_matches(is_blank).strip_prefix(header))
    else {
        return Vec::new();
    };
    let one = rest.strip_prefix(' ').unwrap_or(rest);
    let mut paths = vec![
        Cow::Borrowed(one.trim_end_matches(is_blank)),
        Cow::Borrowed(rest.trim_matches(is_blank)),
    ];
    // The end of the line may be part of where a file is moved to.
    let to_the_end = one.strip_suffix('\r').unwrap_or(one);
    if line.contains("*** Move to:") {
        paths.push(Cow::Borrowed(to_the_end));
    }
    // Codex drops these from a path.
    let is_dropped = |c: char| matches!(c, '\t' | '\r');
    let as_trimmed = one.trim();
    if as_trimmed.contains(is_dropped) {
        let kept = as_trimmed.chars().filter(|c| !is_dropped(*c));
        paths.push(Cow::Owned(kept.collect()));
    }
    paths.retain(|path| !path.is_empty());
    paths
}

fn parse(text: &str) -> Option<Vec<Section<'_>>> {
    let text = text.trim();
    let mut lines = unwrapped(text).unwrap_or(text).lines().peekable();
    if lines.next()?.trim() != BEGIN {
        return None;
    }
    let mut sections = Vec::new();
    loop {
        // Blanks around such a line are not part of what it says.
        let line = lines.next()?.trim();
        if line == END {
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
                .and_then(|line| line.strip_prefix(MOVE))
                .map(str::trim_end);
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

/// What stands in a patch that is wrapped as the input of a shell's command.
fn unwrapped(text: &str) -> Option<&str> {
    let (first, rest) = text.split_once('\n')?;
    let first = first.strip_suffix('\r').unwrap_or(first);
    let (inner, last) = rest.rsplit_once('\n')?;
    (HEREDOCS.contains(&first) && last.ends_with("EOF")).then_some(inner)
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

fn of_sections(call: &Call<'_>, sections: &[Section<'_>]) -> Result<Vec<Evidence>, TooMuch> {
    // Each of them is a file that is read.
    if sections.len() > MAX_SHOWN {
        return Err(TooMuch);
    }
    let (mut entries, work) = (Vec::new(), Work::default());
    for section in sections {
        match section {
            Section::Add { path, content } => add(call, path, content, &mut entries),
            Section::Delete { path } => delete(call, path, &mut entries),
            Section::Update {
                path,
                moved_to,
                hunks,
            } => {
                let old = call.files.current(path);
                update(path, old, *moved_to, hunks, &mut entries, &work)?;
            }
        }
    }
    Ok(entries)
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
    path: &str,
    old: Current,
    moved_to: Option<&str>,
    hunks: &[Hunk<'_>],
    entries: &mut Vec<Evidence>,
    work: &Work,
) -> Result<(), TooMuch> {
    if let Some(moved_to) = moved_to {
        entries.push(about_file(path, format!("moved to {moved_to}")));
    }
    let new_side = Side::New(moved_to.unwrap_or(path));
    match present(old) {
        Present::Text(old) => match apply(&old, hunks, work) {
            Ok(new) if new == old => {
                if moved_to.is_none() {
                    entries.push(about_file(path, "unchanged"));
                }
                return Ok(());
            }
            Ok(new) => {
                entries.push(diff::entry(Side::Old(path), &old, new_side, &new));
                return Ok(());
            }
            Err(Misfit::NotFound) => entries.push(about_file(path, "old lines not found")),
            Err(Misfit::TooMuch) => return Err(TooMuch),
        },
        Present::NoText(fact) => entries.push(about_file(path, fact)),
        Present::Missing => entries.push(about_file(path, "missing")),
        Present::Unknown => {}
    }
    if !hunks.is_empty() {
        entries.push(entry("line numbers", "of the texts, not of the file"));
    }
    for hunk in hunks {
        work.show()?;
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
    Ok(())
}

/// What the hunks, each found behind the one before it, make of a text.
fn apply(text: &str, hunks: &[Hunk<'_>], work: &Work) -> Result<String, Misfit> {
    work.spend(text.len())?;
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
            from = find(&lines, from, &[*anchor], work)? + 1;
        }
        if hunk.old.is_empty() {
            found.push((end, hunk));
            continue;
        }
        let start = if hunk.at_end {
            let start = lines.len().checked_sub(hunk.old.len());
            let start = start.ok_or(Misfit::NotFound)?;
            find(&lines, start.max(from), &hunk.old, work)?
        } else {
            find(&lines, from, &hunk.old, work)?
        };
        found.push((start, hunk));
        from = start + hunk.old.len();
    }
    found.sort_by_key(|(start, _)| *start);
    let mut out: Vec<&str> = Vec::with_capacity(lines.len());
    let mut at = 0;
    for (start, hunk) in found {
        out.extend(lines.get(at..start).ok_or(Misfit::NotFound)?);
        out.extend(&hunk.new);
        at = start + hunk.old.len();
    }
    out.extend(lines.get(at..).ok_or(Misfit::NotFound)?);
    Ok(out.iter().flat_map(|line| [*line, "\n"]).collect())
}

/// Where `wanted` stands in `lines`, at `from` or behind it. A carriage return at the end of a line is not looked at: whoever
/// applies such a patch does the same, and writes the line without it.
fn find(lines: &[&str], from: usize, wanted: &[&str], work: &Work) -> Result<usize, Misfit> {
    let rest = lines.get(from..).ok_or(Misfit::NotFound)?;
    for (offset, window) in rest.windows(wanted.len()).enumerate() {
        let mut pairs = window.iter().zip(wanted);
        let other = pairs.find_map(|(line, wanted)| {
            let looked_at = work.spend_steps(1, line.len());
            match looked_at {
                Ok(()) if line.trim_end_matches('\r') == *wanted => None,
                other => Some(other),
            }
        });
        match other {
            None => return Ok(from + offset),
            Some(other) => other?,
        }
    }
    Err(Misfit::NotFound)
}
