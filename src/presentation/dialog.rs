//! The plain layout of a payload as labelled lines.

use crate::wire::{Hop, PromptPayload};

/// One labelled fact, made visible: the first line stands beside the label, the others below it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fact {
    /// What it is.
    pub label: String,
    /// The text, visible, at least one line.
    pub lines: Vec<String>,
}

/// The core facts, in order. No budget drops one of these.
pub fn core_rows(payload: &PromptPayload, path: &[Hop]) -> Vec<Fact> {
    let _ = (payload, path);
    Vec::new()
}

/// The evidence, in the payload's order, then what a model wrote, marked as such.
pub fn evidence_rows(payload: &PromptPayload) -> Vec<Fact> {
    let _ = payload;
    Vec::new()
}

/// Columns of the label column of a layout of `facts`.
pub fn label_width(facts: &[Fact]) -> usize {
    let _ = facts;
    0
}

/// Rows of one fact beside a label column of `label_width`, wrapped to `columns` where given; wrapped text stays right of
/// the label column.
pub fn layout(fact: &Fact, label_width: usize, columns: Option<usize>) -> Vec<String> {
    let _ = (label_width, columns);
    fact.lines.clone()
}

/// All facts of a payload, complete.
pub fn lines(payload: &PromptPayload) -> Vec<String> {
    lines_with_path(payload, &[])
}

/// All facts of a payload that came through other sessions, complete.
pub fn lines_with_path(payload: &PromptPayload, path: &[Hop]) -> Vec<String> {
    let _ = (payload, path);
    Vec::new()
}

/// The same facts as one text, for the `message` of the oldest peers.
pub fn plain_message(payload: &PromptPayload) -> String {
    lines(payload).join("\n")
}
