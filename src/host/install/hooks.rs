//! Our hooks in the configuration of a host: put in, taken out, found. Text in, text out.
//!
//! # Invariants
//!
//! * Hooks of others, other keys, their order and every comment stay as they are: what comes out is read as what went in, but for
//!   our entries. That is checked before it is given out.
//! * Putting in what is there already changes nothing.

use std::ops::Range;

use serde_json::{Map, Value as Json};

use super::entries::{self, Hook, is_ours};
use super::shape::Doubt;
use super::{Host, edit};
use crate::policy::json::{At, Node, Places, Value, decode, parse};
use crate::policy::{JsonProblem, Position};

/// Largest configuration of a host that is edited.
pub const MAX_HOST_CONFIG_BYTES: usize = 4 << 20;

/// The mark that some editors begin a file with.
const BYTE_ORDER_MARK: &str = "\u{feff}";

/// A configuration of a host cannot be edited.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EditError {
    /// It is no JSON.
    #[error("{position}: {problem}")]
    Json {
        /// Where.
        position: Position,
        /// What is wrong.
        problem: JsonProblem,
    },
    /// It is JSON with comments, which this host does not read.
    #[error("{position}: a comment stands here, and {} reads no file with comments: it ignores all of it", host.title())]
    Comment {
        /// Where.
        position: Position,
        /// The host.
        host: Host,
    },
    /// A value is of another kind than the host takes.
    #[error("{position}: {key} is {found}, and must be {wanted}")]
    Shape {
        /// Where.
        position: Position,
        /// Which value.
        key: String,
        /// What it is.
        found: &'static str,
        /// What it has to be.
        wanted: &'static str,
    },
    /// The edit would have changed something else.
    #[error("the file cannot be edited without changing something else in it")]
    NotSafe,
}

/// One entry of ours in a configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// Event that it stands under.
    pub event: String,
    /// Number of its group.
    pub group: usize,
    /// Number in its group.
    pub number: usize,
    /// Matcher of its group.
    pub matcher: Option<String>,
    /// The handler.
    pub handler: Json,
    /// Where it stands.
    pub position: Position,
}

impl Found {
    /// Whether it is what would be put in now.
    pub fn is(&self, hook: &Hook) -> bool {
        self.event == hook.event
            && self.matcher.as_deref() == hook.matcher
            && self.handler == hook.handler
    }
}

/// A configuration of a host, read: its text behind a byte-order mark, where that is no error, and its root.
pub(super) struct Read<'t> {
    mark: &'static str,
    text: &'t str,
    pub(super) root: Node,
}

pub(super) fn read(host: Host, text: &str) -> Result<Read<'_>, EditError> {
    let failed = |(position, problem)| EditError::Json { position, problem };
    let (mark, text) = match text.strip_prefix(BYTE_ORDER_MARK) {
        Some(text) if host.reads_byte_order_mark() => (BYTE_ORDER_MARK, text),
        _ => ("", text),
    };
    decode(text.as_bytes(), MAX_HOST_CONFIG_BYTES).map_err(failed)?;
    let root = parse(text)
        .map_err(|At { offset, problem }| failed((Position::of(text, offset), problem)))?;
    if !host.reads_comments()
        && let Some(offset) = first_comment(text)
    {
        let position = Position::of(text, offset);
        return Err(EditError::Comment { position, host });
    }
    let read = Read { mark, text, root };
    read.shape("the file", &read.root, Kind::Object)?;
    Ok(read)
}

/// The first comment of a text that is JSON.
fn first_comment(text: &str) -> Option<usize> {
    let mut in_string = false;
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = in_string,
            '"' => in_string = !in_string,
            '/' if !in_string => return Some(at),
            _ => {}
        }
    }
    None
}

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Kind {
    Object,
    Array,
    Text,
    Flag,
    /// A number without a fraction, zero or more.
    Count,
    /// The same, but not zero.
    Positive,
    Number,
}

impl Kind {
    const fn name(self) -> &'static str {
        match self {
            Self::Object => "an object",
            Self::Array => "an array",
            Self::Text => "a text",
            Self::Flag => "true or false",
            Self::Count => "a whole number",
            Self::Positive => "a whole number above zero",
            Self::Number => "a number",
        }
    }

    fn is(self, value: &Value) -> bool {
        match (self, value) {
            (Self::Object, Value::Object(_))
            | (Self::Array, Value::Array(_))
            | (Self::Text, Value::Text(_))
            | (Self::Flag, Value::True | Value::False)
            | (Self::Number, Value::Number(_)) => true,
            (Self::Count, Value::Number(number)) => number.parse::<u64>().is_ok(),
            (Self::Positive, Value::Number(number)) => {
                number.parse().is_ok_and(|count: u64| count > 0)
            }
            _ => false,
        }
    }
}

impl Read<'_> {
    pub(super) fn shape(&self, key: &str, node: &Node, wanted: Kind) -> Result<(), EditError> {
        if wanted.is(&node.value) {
            return Ok(());
        }
        Err(self.misshapen(key, node, wanted.name()))
    }

    pub(super) fn position(&self, node: &Node) -> Position {
        Position::of(self.text, node.offset)
    }

    pub(super) fn misshapen(&self, key: &str, node: &Node, wanted: &'static str) -> EditError {
        EditError::Shape {
            position: self.position(node),
            key: key.to_owned(),
            found: node.value.kind(),
            wanted,
        }
    }

    pub(super) fn hooks(&self) -> Result<Option<&Node>, EditError> {
        let hooks = member(&self.root, "hooks");
        if let Some(hooks) = hooks {
            self.shape("\"hooks\"", hooks, Kind::Object)?;
        }
        Ok(hooks)
    }

    pub(super) fn event(&self, event: &str) -> Result<Option<&Node>, EditError> {
        let Some(hooks) = self.hooks()? else {
            return Ok(None);
        };
        let groups = member(hooks, event);
        if let Some(groups) = groups {
            self.shape(&format!("\"hooks\".{event:?}"), groups, Kind::Array)?;
        }
        Ok(groups)
    }

    /// Our entries, in the order of the file.
    fn found(&self, host: Host) -> Result<Vec<Found>, EditError> {
        let mut all = Vec::new();
        let mut places = Places::new(self.text);
        let Some(Node {
            value: Value::Object(events),
            ..
        }) = self.hooks()?
        else {
            return Ok(all);
        };
        for event in events {
            for (group, node) in elements(&event.node).iter().enumerate() {
                let handlers = member(node, "hooks").map_or(&[][..], elements);
                for (number, handler) in handlers.iter().enumerate() {
                    let json = json_of(handler);
                    if is_ours(host, &json) {
                        all.push(Found {
                            event: event.key.clone(),
                            group,
                            number,
                            matcher: member(node, "matcher").and_then(text_of),
                            handler: json,
                            position: places.of(handler.offset),
                        });
                    }
                }
            }
        }
        Ok(all)
    }

    /// The text without one entry, and without what only that entry was in. A comment that stands there keeps what it stands in.
    fn without(&self, entry: &Found) -> Result<String, EditError> {
        let gone = || EditError::NotSafe;
        let hooks = self.hooks()?.ok_or_else(gone)?;
        let groups = self.event(&entry.event)?.ok_or_else(gone)?;
        let group = elements(groups).get(entry.group).ok_or_else(gone)?;
        let handlers = member(group, "hooks").ok_or_else(gone)?;
        let handler = elements(handlers).get(entry.number).ok_or_else(gone)?;
        let of_event = number_of(hooks, &entry.event).ok_or_else(gone)?;
        let of_hooks = number_of(&self.root, "hooks").ok_or_else(gone)?;
        // Each lies in the one behind it, and goes with it where it is alone there.
        let steps = [
            (handlers, entry.number, handler.offset..handler.end),
            (groups, entry.group, group.offset..group.end),
            (hooks, of_event, member_range(hooks, of_event)),
            (&self.root, of_hooks, member_range(&self.root, of_hooks)),
        ];
        let [first, rest @ ..] = &steps;
        let mut goes = first;
        for step in rest {
            let (inner, _, range) = goes;
            let said = [step.2.start..range.start, range.end..step.2.end];
            let is_said = said.into_iter().any(|range| {
                let text = self.text.get(range).unwrap_or_default();
                first_comment(text).is_some()
            });
            if children_of(inner) > 1 || is_said {
                break;
            }
            goes = step;
        }
        let (from, number, _) = goes;
        Ok(edit::remove(self.text, from, *number))
    }

    /// The text with one hook more, behind those that are there.
    fn with(&self, hook: &Hook) -> Result<String, EditError> {
        let mut group = Map::new();
        if let Some(matcher) = hook.matcher {
            let _none = group.insert("matcher".to_owned(), matcher.into());
        }
        let _none = group.insert("hooks".to_owned(), vec![hook.handler.clone()].into());
        let group = Json::from(group);
        if let Some(groups) = self.event(hook.event)? {
            return Ok(edit::add(self.text, &self.root, groups, None, &group));
        }
        let groups = Json::from(vec![group]);
        if let Some(hooks) = self.hooks()? {
            return Ok(edit::add(
                self.text,
                &self.root,
                hooks,
                Some(hook.event),
                &groups,
            ));
        }
        let mut hooks = Map::new();
        let _none = hooks.insert(hook.event.to_owned(), groups);
        Ok(edit::add(
            self.text,
            &self.root,
            &self.root,
            Some("hooks"),
            &hooks.into(),
        ))
    }

    fn handler(&self, entry: &Found) -> Option<&Node> {
        let groups = member(member(&self.root, "hooks")?, &entry.event)?;
        let group = elements(groups).get(entry.group)?;
        elements(member(group, "hooks")?).get(entry.number)
    }
}

/// Handlers that speak of us and are not ours: where they stand, and what they run.
pub fn strangers(host: Host, text: &str) -> Result<Vec<(Position, String)>, EditError> {
    let mut all = Vec::new();
    if text.trim().is_empty() {
        return Ok(all);
    }
    let read = read(host, text)?;
    let Some(Node {
        value: Value::Object(events),
        ..
    }) = read.hooks()?
    else {
        return Ok(all);
    };
    let mut places = Places::new(read.text);
    let groups = events.iter().flat_map(|event| elements(&event.node));
    let handlers = groups.filter_map(|group| member(group, "hooks"));
    for handler in handlers.flat_map(elements) {
        if let Some(line) = entries::stranger_of(host, &json_of(handler)) {
            all.push((places.of(handler.offset), line));
        }
    }
    Ok(all)
}

/// What makes a host take no notice of the whole file, though it can be read: it skips all hooks in it without a word then.
pub fn check_shape(host: Host, text: &str) -> Result<(), EditError> {
    if text.trim().is_empty() {
        return Ok(());
    }
    read(host, text)?.all_shapes(host)
}

/// What may make a host take no notice of the whole file: words that it was not seen to take. Nothing where the file cannot be read.
pub fn doubts(host: Host, text: &str) -> Vec<Doubt> {
    read(host, text).map_or_else(|_| Vec::new(), |read| read.all_doubts(host))
}

/// Our entries in a configuration; none in an empty one.
pub fn find(host: Host, text: &str) -> Result<Vec<Found>, EditError> {
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    read(host, text)?.found(host)
}

/// The configuration with our hooks for the program at this path: those that are there already as they are, older ones brought up
/// to date in their place, each once.
pub fn install(host: Host, text: &str, program: &str) -> Result<String, EditError> {
    let before = if text.trim().is_empty() { "{}\n" } else { text };
    check_shape(host, before)?;
    let wanted = entries::hooks(host, program);
    let mut now = before.to_owned();
    // What does not belong there, or not twice.
    while let Some(next) = without_one(host, &now, |entry, earlier| {
        let hook = wanted.iter().find(|hook| hook.event == entry.event);
        hook.is_none_or(|hook| {
            hook.matcher != entry.matcher.as_deref()
                || earlier.iter().any(|earlier| earlier.event == entry.event)
        })
    })? {
        now = next;
    }
    for hook in &wanted {
        let read = read(host, &now)?;
        let found = read.found(host)?;
        let entry = found.iter().find(|entry| entry.event == hook.event);
        let edited = match entry {
            Some(entry) if entry.is(hook) => None,
            Some(entry) => read
                .handler(entry)
                .map(|node| edit::replace(read.text, &read.root, node, &hook.handler)),
            None => Some(read.with(hook)?),
        };
        if let Some(edited) = edited {
            now = format!("{}{edited}", read.mark);
        }
    }
    checked(host, before, now, |found| {
        found.len() == wanted.len() && wanted.iter().all(|hook| found.iter().any(|f| f.is(hook)))
    })
}

/// The configuration without any entry of ours.
pub fn uninstall(host: Host, text: &str) -> Result<String, EditError> {
    if text.trim().is_empty() {
        return Ok(text.to_owned());
    }
    let mut now = text.to_owned();
    while let Some(next) = without_one(host, &now, |_, _| true)? {
        now = next;
    }
    checked(host, text, now, <[Found]>::is_empty)
}

/// The text without the last entry of which this holds; `None` where there is none.
fn without_one(
    host: Host,
    text: &str,
    goes: impl Fn(&Found, &[Found]) -> bool,
) -> Result<Option<String>, EditError> {
    let read = read(host, text)?;
    let found = read.found(host)?;
    // From behind: what was added last goes first, and the comma in front of it with it.
    for (at, entry) in found.iter().enumerate().rev() {
        if goes(entry, found.get(..at).unwrap_or_default()) {
            return Ok(Some(format!("{}{}", read.mark, read.without(entry)?)));
        }
    }
    Ok(None)
}

/// Gives out what is as it was but for our entries, which are as `is_meant` says.
fn checked(
    host: Host,
    before: &str,
    after: String,
    is_meant: impl Fn(&[Found]) -> bool,
) -> Result<String, EditError> {
    let others = |text| Ok(others(host, json_of(&read(host, text)?.root)));
    if others(before)? == others(&after)? && is_meant(&read(host, &after)?.found(host)?) {
        Ok(after)
    } else {
        Err(EditError::NotSafe)
    }
}

/// What a configuration says without our entries, and without what is empty for that.
fn others(host: Host, mut root: Json) -> Json {
    let Some(Json::Object(events)) = root.get_mut("hooks") else {
        return root;
    };
    for groups in events.values_mut() {
        let Json::Array(groups) = groups else {
            continue;
        };
        for group in groups.iter_mut() {
            if let Some(Json::Array(handlers)) = group.get_mut("hooks") {
                handlers.retain(|handler| !is_ours(host, handler));
            }
        }
        groups.retain(|group| group.get("hooks") != Some(&Json::Array(Vec::new())));
    }
    events.retain(|_, groups| groups != &Json::Array(Vec::new()));
    let none = events.is_empty();
    if let (true, Json::Object(root)) = (none, &mut root) {
        let _empty = root.shift_remove("hooks");
    }
    root
}

pub(super) fn member<'n>(node: &'n Node, key: &str) -> Option<&'n Node> {
    let Value::Object(members) = &node.value else {
        return None;
    };
    let found = members.iter().find(|member| member.key == key);
    found.map(|member| &member.node)
}

fn number_of(node: &Node, key: &str) -> Option<usize> {
    let Value::Object(members) = &node.value else {
        return None;
    };
    members.iter().position(|member| member.key == key)
}

/// Where a member stands, with its key.
fn member_range(node: &Node, number: usize) -> Range<usize> {
    match &node.value {
        Value::Object(members) => members
            .get(number)
            .map_or(0..0, |member| member.offset..member.node.end),
        Value::Null
        | Value::True
        | Value::False
        | Value::Number(_)
        | Value::Text(_)
        | Value::Array(_) => 0..0,
    }
}

/// How many values a container holds.
fn children_of(node: &Node) -> usize {
    match &node.value {
        Value::Object(members) => members.len(),
        Value::Array(elements) => elements.len(),
        Value::Null | Value::True | Value::False | Value::Number(_) | Value::Text(_) => 0,
    }
}

pub(super) fn elements(node: &Node) -> &[Node] {
    match &node.value {
        Value::Array(elements) => elements,
        Value::Null
        | Value::True
        | Value::False
        | Value::Number(_)
        | Value::Text(_)
        | Value::Object(_) => &[],
    }
}

pub(super) fn text_of(node: &Node) -> Option<String> {
    match &node.value {
        Value::Text(text) => Some(text.clone()),
        Value::Null
        | Value::True
        | Value::False
        | Value::Number(_)
        | Value::Array(_)
        | Value::Object(_) => None,
    }
}

/// A value without its places.
pub(super) fn json_of(node: &Node) -> Json {
    match &node.value {
        Value::Null => Json::Null,
        Value::True => Json::Bool(true),
        Value::False => Json::Bool(false),
        // A number that is too large for a machine is told apart by its spelling.
        Value::Number(text) => serde_json::from_str(text).unwrap_or_else(|_| text.clone().into()),
        Value::Text(text) => text.clone().into(),
        Value::Array(elements) => elements.iter().map(json_of).collect(),
        Value::Object(members) => members
            .iter()
            .map(|member| (member.key.clone(), json_of(&member.node)))
            .collect(),
    }
}

/// What a configuration says at a path of keys.
pub(super) fn value_at(host: Host, text: &str, path: &[&str]) -> Option<Json> {
    let read = read(host, text).ok()?;
    let mut node = &read.root;
    for key in path {
        node = member(node, key)?;
    }
    Some(json_of(node))
}

#[cfg(test)]
mod tests;
