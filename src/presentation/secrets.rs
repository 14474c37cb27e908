//! Secrets in a command line, masked for the review log: only the value becomes `[redacted]`, the line stays readable.
//!
//! A secret is found by what stands before it, never by what it looks like: a telling name in front of `=`, a header that
//! authenticates, an option for a password, the user's part of an address. The line is taken apart as the shell takes it, so
//! quotes, wrappers, substitutions and shells within shells hide nothing. A line that cannot be taken apart is gone through token by
//! token, and more of it is masked.
//!
//! What no name announces stays as it is: a password that is a bare argument, the content of a file, what a substitution prints.
//! Nothing here is for prompts, answers or files of the spool: whoever decides must see the whole.
//!
//! Invariants: a line without secrets is given back borrowed and unchanged; masking twice is masking once; nothing panics, and the
//! time is bounded as that of the reader of command lines is.

mod names;
mod rules;
mod scan;
mod texts;
mod tools;

use std::borrow::Cow;
use std::ops::Range;

pub use names::is_telling;

use crate::shell::{self, Phrase, Piece};
use rules::Spots;

/// What stands for a value that is not shown.
pub const REDACTED: &str = "[redacted]";

/// How often a line is gone over. What stands in the place of a value is text of its own, and within several layers of quotes the
/// line may come apart otherwise with it.
const MAX_PASSES: usize = 4;

/// `line` with the values of its secrets masked.
pub fn masked(line: &str) -> Cow<'_, str> {
    let mut masked = masked_once(line);
    for _ in 1..MAX_PASSES {
        let Cow::Owned(text) = &masked else { break };
        match masked_once(text) {
            Cow::Borrowed(_) => break,
            Cow::Owned(again) => masked = Cow::Owned(again),
        }
    }
    masked
}

fn masked_once(line: &str) -> Cow<'_, str> {
    if !scan::may_hold_any(line) {
        return Cow::Borrowed(line);
    }
    let spots = exact_spots(line).unwrap_or_else(|| scan::spots(line));
    replaced(line, spots)
}

/// The parts of a line that are secrets; `None` where it cannot be taken apart.
fn exact_spots(line: &str) -> Option<Vec<Range<usize>>> {
    let said = shell::phrases(line);
    if !said.is_certain {
        return None;
    }
    let mut spots = Spots::exact();
    spots.addresses_in_line(&verbatim(line));
    for phrase in &said.phrases {
        match phrase {
            Phrase::Command(words) => spots.command(words),
            Phrase::Assignment { name, values } => spots.assignment(name, values),
        }
    }
    Some(spots.into_ranges())
}

/// A line as a piece of text that stands in itself.
fn verbatim(line: &str) -> Piece {
    let mut piece = Piece::new();
    let mut rest = line;
    while let Some(first) = rest.chars().next() {
        let at = line.len() - rest.len();
        let length = variable(rest).unwrap_or(first.len_utf8());
        let (text, behind) = rest.split_at_checked(length).unwrap_or((rest, ""));
        if length > first.len_utf8() {
            piece.push_expansion(text, at);
        } else {
            piece.push(text, &(at..at + length));
        }
        rest = behind;
    }
    piece
}

/// The length of `$NAME` or `${NAME}` at the start of a text.
fn variable(text: &str) -> Option<usize> {
    let is_of_it = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let behind = text.strip_prefix('$')?;
    let name = behind.strip_prefix('{').unwrap_or(behind);
    let end = name.find(|c| !is_of_it(c)).unwrap_or(name.len());
    let closes = name.get(end..)?.starts_with('}');
    let braces = behind.len() - name.len();
    (end > 0 && (braces == 0 || closes)).then_some(1 + end + 2 * braces)
}

/// `line` with each of these parts replaced; they may touch and overlap.
fn replaced(line: &str, mut parts: Vec<Range<usize>>) -> Cow<'_, str> {
    parts.sort_by_key(|part| part.start);
    let mut masked = String::with_capacity(line.len());
    let mut shown = 0;
    let mut parts = parts.into_iter().peekable();
    while let Some(mut part) = parts.next() {
        while let Some(next) = parts.next_if(|next| next.start <= part.end) {
            part.end = part.end.max(next.end);
        }
        masked.push_str(line.get(shown..part.start).unwrap_or_default());
        masked.push_str(REDACTED);
        shown = part.end;
    }
    masked.push_str(line.get(shown..).unwrap_or_default());
    if masked == line {
        Cow::Borrowed(line)
    } else {
        Cow::Owned(masked)
    }
}

#[cfg(test)]
mod tests;
