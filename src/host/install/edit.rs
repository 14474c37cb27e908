//! Edits of a JSON text at one place: a child is added, removed or replaced, and every other byte stays as it is.
//!
//! Each edit takes a text with the nodes that were read from it, and gives a new text. The layout of what is new follows what
//! stands around it: its indentation, its line breaks, one line where everything is on one line.
//!
//! # Invariants
//!
//! * Adding a child to a container that has some, and removing it again, gives the same bytes.
//! * A comment is never moved to another value, and never swallows one.

use std::ops::Range;

use serde_json::Value as Json;

use crate::policy::json::{Node, Value};

/// How deep a step of the layout is where there is nothing to copy it from.
const STEP: &str = "  ";

/// What a container holds, each with its key where it has one.
fn children(of: &Node) -> Vec<Range<usize>> {
    match &of.value {
        Value::Object(members) => {
            let range = |member: &crate::policy::json::Member| member.offset..member.node.end;
            members.iter().map(range).collect()
        }
        Value::Array(elements) => elements.iter().map(|node| node.offset..node.end).collect(),
        Value::Null | Value::True | Value::False | Value::Number(_) | Value::Text(_) => Vec::new(),
    }
}

/// Adds a child behind the last one of an object (with a key) or an array (without one).
pub(super) fn add(text: &str, root: &Node, to: &Node, key: Option<&str>, value: &Json) -> String {
    let style = Style::of(text, root);
    let there = children(to);
    let closing = to.end.saturating_sub(1);
    let behind = there.last().map_or(to.offset + 1, |last| last.end);
    let between = text.get(behind..closing).unwrap_or_default();
    // What stands there, up to the blanks before the bracket, stays: it may be comments.
    let kept = behind + between.trim_end().len();
    let tail = text.get(kept..closing).unwrap_or_default();
    let label = key.map_or_else(String::new, |key| {
        let colon = if style.compact { ":" } else { ": " };
        format!("{}{colon}", Json::from(key))
    });
    let newline = style.newline;
    let mut edits = Vec::new();
    if !there.is_empty() {
        edits.push((behind..behind, ",".to_owned()));
    }
    if tail.contains('\n') || (there.is_empty() && !style.compact) {
        let outer = indent_at(text, closing);
        let own_line = there
            .last()
            .and_then(|last| own_indent(text, last.start))
            .map(str::to_owned);
        let inner = own_line.unwrap_or_else(|| format!("{outer}{}", style.step));
        let mut block = format!("{newline}{inner}{label}{}", style.shown(value, &inner));
        let until = if tail.contains('\n') {
            kept
        } else {
            block.push_str(newline);
            block.push_str(outer);
            closing
        };
        edits.push((kept..until, block));
    } else {
        let indent = indent_at(text, kept).to_owned();
        let gap = if there.is_empty() || style.compact && !text.contains(", ") {
            ""
        } else {
            " "
        };
        edits.push((
            kept..kept,
            format!("{gap}{label}{}", style.shown(value, &indent)),
        ));
    }
    applied(text, edits)
}

/// Removes the child of this number, and the comma that it needed.
pub(super) fn remove(text: &str, from: &Node, number: usize) -> String {
    let there = children(from);
    let Some(child) = there.get(number).cloned() else {
        return text.to_owned();
    };
    let inside = from.offset + 1..from.end.saturating_sub(1);
    if there.len() == 1 {
        let blank = |range: Range<usize>| text.get(range).unwrap_or_default().trim().is_empty();
        if blank(inside.start..child.start) && blank(child.end..inside.end) {
            return applied(text, vec![(inside, String::new())]);
        }
    }
    let previous = number.checked_sub(1).and_then(|before| there.get(before));
    let next = there.get(number + 1);
    let comma = match (previous, next) {
        (_, Some(next)) => comma(text, child.end..next.start),
        (Some(previous), None) => comma(text, previous.end..child.start),
        (None, None) => None,
    };
    let before = previous.map_or(inside.start, |previous| previous.end);
    let gap = text.get(before..child.start).unwrap_or_default();
    let rest = match comma {
        Some(at) if at >= child.end => at + 1,
        _ => child.end,
    };
    let line_ends = text.get(rest..).unwrap_or_default();
    let line_ends = line_ends.trim_start_matches([' ', '\t', '\r']);
    let words = gap.trim_end();
    // Behind a comment of a line, what follows must stay on a line of its own.
    let start = if ends_in_a_comment(words) && !line_ends.starts_with('\n') {
        child.start
    } else {
        before + words.len()
    };
    // The comma may stand in the blanks that go.
    let mut edits = vec![(start..child.end, String::new())];
    if let Some(at) = comma.filter(|at| !(start..child.end).contains(at)) {
        edits.push((at..at + 1, String::new()));
    }
    applied(text, edits)
}

/// Puts a value in the place of another.
pub(super) fn replace(text: &str, root: &Node, node: &Node, value: &Json) -> String {
    let indent = indent_at(text, node.offset);
    let new = Style::of(text, root).shown(value, indent);
    applied(text, vec![(node.offset..node.end, new)])
}

/// Whether what stands between two values ends within the comment of a line.
fn ends_in_a_comment(between: &str) -> bool {
    let mut rest = between;
    while let Some(at) = rest.find('/') {
        rest = rest.get(at..).unwrap_or_default();
        let end = if rest.starts_with("//") {
            match rest.find('\n') {
                Some(end) => end,
                None => return true,
            }
        } else {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        };
        rest = rest.get(end..).unwrap_or_default();
    }
    false
}

/// Where the first comma of a range stands that is in no comment.
fn comma(text: &str, range: Range<usize>) -> Option<usize> {
    let mut at = range.start;
    while at < range.end {
        let rest = text.get(at..range.end)?;
        at += if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else if rest.starts_with(',') {
            return Some(at);
        } else {
            rest.chars().next().map_or(1, char::len_utf8)
        };
    }
    None
}

/// What a text lays its values out with.
struct Style {
    newline: &'static str,
    step: String,
    /// Everything is on one line.
    compact: bool,
}

impl Style {
    fn of(text: &str, root: &Node) -> Self {
        let body = text.trim();
        let first = children(root).first().map(|child| child.start);
        let lies_below = |first: &usize| {
            let between = text.get(root.offset..*first).unwrap_or_default();
            between.contains('\n')
        };
        let step = first.filter(lies_below).map(|first| indent_at(text, first));
        let step = step.and_then(|step| step.strip_prefix(indent_at(text, root.offset)));
        Self {
            newline: if text.contains("\r\n") { "\r\n" } else { "\n" },
            step: step
                .filter(|step| !step.is_empty())
                .unwrap_or(STEP)
                .to_owned(),
            compact: body.len() > 2 && !body.contains('\n'),
        }
    }

    /// A value as it stands in this text, its later lines behind `indent`.
    fn shown(&self, value: &Json, indent: &str) -> String {
        if self.compact {
            return value.to_string();
        }
        let mut out = String::new();
        self.push(&mut out, value, indent);
        out
    }

    fn push(&self, out: &mut String, value: &Json, indent: &str) {
        let inner = format!("{indent}{}", self.step);
        match value {
            Json::Object(members) if !members.is_empty() => {
                out.push('{');
                for (at, (key, value)) in members.iter().enumerate() {
                    self.begin(out, at, &inner);
                    out.push_str(&Json::from(key.as_str()).to_string());
                    out.push_str(": ");
                    self.push(out, value, &inner);
                }
                self.end(out, indent, '}');
            }
            // Words of a command line are read on one line.
            Json::Array(elements) if !elements.is_empty() && !elements.iter().all(is_plain) => {
                out.push('[');
                for (at, value) in elements.iter().enumerate() {
                    self.begin(out, at, &inner);
                    self.push(out, value, &inner);
                }
                self.end(out, indent, ']');
            }
            Json::Array(elements) => {
                let all: Vec<String> = elements.iter().map(Json::to_string).collect();
                out.push('[');
                out.push_str(&all.join(", "));
                out.push(']');
            }
            Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::Object(_) => {
                out.push_str(&value.to_string());
            }
        }
    }

    fn begin(&self, out: &mut String, at: usize, inner: &str) {
        if at > 0 {
            out.push(',');
        }
        out.push_str(self.newline);
        out.push_str(inner);
    }

    fn end(&self, out: &mut String, indent: &str, bracket: char) {
        out.push_str(self.newline);
        out.push_str(indent);
        out.push(bracket);
    }
}

fn is_plain(value: &Json) -> bool {
    !value.is_object() && !value.is_array()
}

/// What the line of this byte is indented with.
fn indent_at(text: &str, offset: usize) -> &str {
    let before = text.get(..offset).unwrap_or_default();
    let start = before.rfind('\n').map_or(0, |at| at + 1);
    let line = text.get(start..).unwrap_or_default();
    let length = line.len() - line.trim_start_matches([' ', '\t']).len();
    line.get(..length).unwrap_or_default()
}

/// The indentation of what is the first of its line.
fn own_indent(text: &str, offset: usize) -> Option<&str> {
    let before = text.get(..offset)?;
    let indent = before.get(before.rfind('\n')? + 1..)?;
    indent
        .chars()
        .all(|c| matches!(c, ' ' | '\t'))
        .then_some(indent)
}

/// The text with some ranges replaced. They do not overlap.
fn applied(text: &str, mut edits: Vec<(Range<usize>, String)>) -> String {
    edits.sort_by_key(|(range, _)| (range.start, range.end));
    let mut out = String::with_capacity(text.len() + 1024);
    let mut at = 0;
    for (range, new) in edits {
        out.push_str(text.get(at..range.start).unwrap_or_default());
        out.push_str(&new);
        at = range.end;
    }
    out.push_str(text.get(at..).unwrap_or_default());
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::policy::json::parse;

    fn added(text: &str) -> String {
        let root = parse(text).unwrap();
        add(text, &root, &root, Some("k"), &json!({"a": [1, 2]}))
    }

    #[test]
    fn a_member_takes_the_layout_of_its_neighbours() {
        for (text, wanted) in [
            ("{}\n", "{\n  \"k\": {\n    \"a\": [1, 2]\n  }\n}\n"),
            ("{\n}", "{\n  \"k\": {\n    \"a\": [1, 2]\n  }\n}"),
            ("{\"x\":1}", "{\"x\":1,\"k\":{\"a\":[1,2]}}"),
            (
                "{\"x\": 1, \"y\": 2}",
                "{\"x\": 1, \"y\": 2, \"k\":{\"a\":[1,2]}}",
            ),
            (
                "{\r\n\t\"x\": 1 // one\r\n\t/* end */\r\n}\r\n",
                "{\r\n\t\"x\": 1, // one\r\n\t/* end */\r\n\t\"k\": {\r\n\t\t\"a\": [1, 2]\r\n\t}\r\n}\r\n",
            ),
            (
                "{ // all\n    \"x\": [{\n        \"y\": 1\n    }]}",
                "{ // all\n    \"x\": [{\n        \"y\": 1\n    }], \"k\": {\n        \"a\": [1, 2]\n    }}",
            ),
        ] {
            assert_eq!(added(text), wanted, "{text}");
        }
    }

    #[test]
    fn what_was_added_behind_others_is_removed_to_the_byte() {
        for text in [
            "{\"x\":1}",
            "{ \"x\" : 1 }",
            "{\n \"x\": 1 // one\n\n /* two */ }",
            "{\n \"x\": 1\n , \"y\": 2 // , no comma\n}\n",
        ] {
            let more = added(text);
            let root = parse(&more).unwrap();
            let last = children(&root).len() - 1;
            assert_eq!(remove(&more, &root, last), text);
        }
    }

    #[test]
    fn what_is_removed_takes_its_own_comma_and_no_comment() {
        for (text, number, wanted) in [
            ("[1, 2, 3]", 0, "[ 2, 3]"),
            ("[1, 2, 3]", 1, "[1, 3]"),
            ("[1, 2, 3]", 2, "[1, 2]"),
            ("[ 1 ]", 0, "[]"),
            ("[ /* c */ 1 ]", 0, "[ /* c */ ]"),
            ("[\n// c\n1, 2]", 0, "[\n// c\n 2]"),
            (
                "[1 /* , */ , // x\n 2 // y\n]",
                1,
                "[1 /* , */  // x\n  // y\n]",
            ),
        ] {
            assert_eq!(
                remove(text, &parse(text).unwrap(), number),
                wanted,
                "{text}"
            );
        }
    }
}
