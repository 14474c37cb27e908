//! The members of an input: looked up by the names that agents give them, and laid out where nobody knows better.

use std::collections::HashSet;
use std::fmt::Write as _;

use serde_json::{Map, Value};

use super::entry;
use crate::wire::{Evidence, PayloadKind};

/// Names under which agents give the path of a file.
pub(super) const PATHS: [&str; 5] = [
    "path",
    "file_path",
    "filePath",
    "absolute_path",
    "notebook_path",
];

/// Names under which agents give a command line.
pub(super) const COMMANDS: [&str; 2] = ["command", "cmd"];

/// Widest column of keys. A longer key is shown whole and does not push the other values aside.
const MAX_KEY_CHARS: usize = 24;

const SEPARATOR: &str = " : ";

/// The members of an object, of which each is to be used once.
pub(super) struct Members<'a> {
    map: &'a Map<String, Value>,
    used: HashSet<&'a str>,
}

impl<'a> Members<'a> {
    /// The members of `input`; `None` where it is no object.
    pub(super) fn of(input: &'a Value) -> Option<Self> {
        Some(Self {
            map: input.as_object()?,
            used: HashSet::new(),
        })
    }

    /// The first member under one of `names` that `read` can read.
    pub(super) fn first<T>(
        &mut self,
        names: &[&str],
        read: impl Fn(&'a Value) -> Option<T>,
    ) -> Option<T> {
        names.iter().find_map(|name| {
            let (key, value) = self.map.get_key_value(*name)?;
            let found = read(value)?;
            self.used.insert(key);
            Some(found)
        })
    }

    /// The first text under one of `names`.
    pub(super) fn text(&mut self, names: &[&str]) -> Option<&'a str> {
        self.first(names, Value::as_str)
    }

    /// The members that were not used, as an entry; none where there are none.
    pub(super) fn rest(self) -> Option<Evidence> {
        let rest = self
            .map
            .iter()
            .filter(|(key, _)| !self.used.contains(key.as_str()));
        let text = aligned(rest);
        (!text.is_empty()).then(|| entry("other input", text))
    }
}

/// A whole input as an entry; none where it says nothing.
pub(super) fn whole(input: &Value) -> Option<Evidence> {
    let text = match input {
        Value::Null => return None,
        Value::Object(map) => aligned(map),
        Value::String(text) => text.clone(),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) => pretty(input),
    };
    (!text.is_empty()).then(|| entry("input", text))
}

/// One `key : value` line for each member, values in one column; further lines of a text are indented, and a nested value
/// stands below its key as JSON.
fn aligned<'a>(members: impl IntoIterator<Item = (&'a String, &'a Value)>) -> String {
    let members: Vec<(String, &Value)> = members
        .into_iter()
        .map(|(key, value)| (shown_key(key), value))
        .collect();
    let width = members
        .iter()
        .map(|(key, _)| key.chars().count())
        .filter(|width| *width <= MAX_KEY_CHARS)
        .max()
        .unwrap_or(0);
    let mut out = String::new();
    for (key, value) in members {
        if !out.is_empty() {
            out.push('\n');
        }
        let (text, indent) = match value {
            Value::String(text) => (shown_text(text), width + SEPARATOR.len()),
            Value::Array(items) if items.is_empty() => ("[]".to_owned(), 0),
            Value::Object(members) if members.is_empty() => ("{}".to_owned(), 0),
            Value::Array(_) | Value::Object(_) => (format!("\n{}", pretty(value)), 2),
            Value::Null | Value::Bool(_) | Value::Number(_) => (value.to_string(), 0),
        };
        let mut lines = text.split('\n');
        let first = lines.next().unwrap_or_default();
        // Writing to a text cannot fail.
        let _written = if first.is_empty() {
            write!(out, "{key:width$}{}", SEPARATOR.trim_end())
        } else {
            write!(out, "{key:width$}{SEPARATOR}{first}")
        };
        for line in lines {
            let indent = if line.is_empty() { 0 } else { indent };
            let _written = write!(out, "\n{:indent$}{line}", "");
        }
    }
    out
}

/// A key as it is, or in quotes where it could pass for more than a key.
fn shown_key(key: &str) -> String {
    let simple = |c: char| c.is_alphanumeric() || "_-.$/@".contains(c);
    if !key.is_empty() && key.chars().all(simple) {
        key.to_owned()
    } else {
        quoted(key)
    }
}

/// A text as it is, or in quotes where it would read as something else: a number, a nested value, nothing at all.
fn shown_text(text: &str) -> String {
    let looks_otherwise = text.trim() != text
        || text.is_empty()
        || text.starts_with(['{', '[', '"'])
        || matches!(text, "true" | "false" | "null")
        || text.parse::<f64>().is_ok();
    if looks_otherwise && !text.contains('\n') {
        quoted(text)
    } else {
        text.to_owned()
    }
}

fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

fn pretty(value: &Value) -> String {
    // Nothing in a value can fail to be written.
    serde_json::to_string_pretty(value).unwrap_or_else(|_| value.to_string())
}

/// The path that an input names, under any of the names that agents give it.
pub fn pointed_at(input: &Value) -> Option<&str> {
    Members::of(input)?.text(&PATHS)
}

/// The value of an ask of this kind that an input states: its command, its path, its target. `None` where it states none.
pub fn value_of(kind: PayloadKind, input: &Value) -> Option<&str> {
    let mut members = Members::of(input)?;
    match kind {
        PayloadKind::Bash | PayloadKind::BashExternalDirectory => members.text(&COMMANDS),
        PayloadKind::Path | PayloadKind::ExternalDirectory | PayloadKind::SkillRead => {
            members.text(&PATHS)
        }
        PayloadKind::Mcp => members.text(&["target"]),
        PayloadKind::Skill => members.text(&["skill", "name"]),
        PayloadKind::Tool | PayloadKind::Forwarded => None,
    }
}
