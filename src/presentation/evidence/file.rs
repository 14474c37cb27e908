//! Evidence of reading a file and of writing one whole.

use serde_json::Value;

use super::diff::{self, Side};
use super::fields::{Members, PATHS};
use super::{Call, Current, about_file, entry};
use crate::wire::Evidence;

/// The tool whose `offset` counts lines from zero; all others count from one.
const COUNTS_FROM_ZERO: &str = "read_file";

/// `None` where the input names no file.
pub(super) fn read(call: &Call<'_>) -> Option<Vec<Evidence>> {
    let mut input = Members::of(call.input)?;
    let path = input.text(&PATHS)?;
    let mut entries: Vec<Evidence> = path_entry(call, path).into_iter().collect();
    entries.extend(lines(call.tool, &mut input).map(|lines| entry("lines", lines)));
    entries.extend(input.rest());
    Some(entries)
}

fn lines(tool: &str, input: &mut Members<'_>) -> Option<String> {
    let first = input.first(&["start_line"], Value::as_u64);
    let last = input.first(&["end_line"], Value::as_u64);
    let offset = input.first(&["offset"], Value::as_u64);
    let limit = input.first(&["limit"], |limit| {
        limit.as_u64().filter(|limit| *limit > 0)
    });
    let offset = offset.map(|offset| {
        if tool == COUNTS_FROM_ZERO {
            offset.saturating_add(1)
        } else {
            offset.max(1)
        }
    });
    let from = first.or(offset);
    let to = last.or_else(|| Some(from.unwrap_or(1).saturating_add(limit? - 1)));
    match (from, to) {
        (None, None) => None,
        (from, Some(to)) => Some(format!("{}-{to}", from.unwrap_or(1))),
        (Some(from), None) => Some(format!("{from}-end")),
    }
}

/// `None` where the input names no file or holds no content.
pub(super) fn write(call: &Call<'_>) -> Option<Vec<Evidence>> {
    let mut input = Members::of(call.input)?;
    let path = input.text(&PATHS)?;
    let content = input.text(&["content", "contents"])?;
    let mut entries: Vec<Evidence> = path_entry(call, path).into_iter().collect();
    match present(call.files.current(path)) {
        Present::Text(old) if old == content => entries.push(about_file(path, "unchanged")),
        Present::Text(old) => {
            entries.push(diff::entry(Side::Old(path), &old, Side::New(path), content));
        }
        Present::Missing if content.is_empty() => entries.push(about_file(path, "new, empty")),
        Present::Missing => {
            entries.push(diff::entry(Side::Nothing, "", Side::New(path), content));
        }
        Present::NoText(fact) => {
            entries.push(about_file(path, fact));
            entries.push(whole(content));
        }
        Present::Unknown => entries.push(whole(content)),
    }
    entries.extend(input.rest());
    Some(entries)
}

fn whole(content: &str) -> Evidence {
    Evidence {
        detail: content.is_empty().then(|| "0 bytes".to_owned()),
        ..entry("content", content)
    }
}

/// The path, where it is not the value of the ask.
pub(super) fn path_entry(call: &Call<'_>, path: &str) -> Option<Evidence> {
    (path != call.value).then(|| entry("path", path))
}

/// The present content of a file, as far as it is text.
pub(super) enum Present {
    Text(String),
    Missing,
    /// It is no text, or cannot be had: why.
    NoText(String),
    Unknown,
}

pub(super) fn present(current: Current) -> Present {
    match current {
        Current::Content(bytes) => {
            let size = bytes.len();
            match String::from_utf8(bytes) {
                Ok(text) if !text.contains('\0') => Present::Text(text),
                Ok(_) | Err(_) => Present::NoText(format!("binary, {size} bytes")),
            }
        }
        Current::Missing => Present::Missing,
        Current::Unreadable(why) => Present::NoText(format!("not readable: {why}")),
        Current::Unknown => Present::Unknown,
    }
}
