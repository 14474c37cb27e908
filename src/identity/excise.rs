//! The two sections that state what tools a session has and how they are used: what goes of them, and what must hold first.

use std::ops::Range;

use super::Kept;
use super::lines::Lines;

/// Sections that the host writes below the pair; the first such line ends the place where the pair may stand.
const BELOW: [&[u8]; 5] = [
    b"<docs>",
    b"<addendum>",
    b"<project_context>",
    b"<skills>",
    b"<cwd>",
];

/// The bytes of the pair in a head, with one empty line below it: so the head reads as the host writes it without the pair. There is one
/// try, with the first `<tools>`: whatever is quoted further down is text of somebody.
pub(super) fn pair(head: &[u8]) -> Result<Range<usize>, Kept> {
    let lines = Lines::new(head);
    let tools = lines.first(b"<tools>", 0).ok_or(Kept::NoTools)?;
    if bound(head, 0..tools).is_some() {
        return Err(Kept::BelowTheBound);
    }
    let tools_end = lines.first(b"</tools>", tools).ok_or(Kept::ToolsOpen)?;
    if bound(head, tools..tools_end).is_some() {
        return Err(Kept::ToolsOpen);
    }
    let gap = lines.below(tools_end).ok_or(Kept::Apart)?;
    let rules = lines.below(gap).ok_or(Kept::Apart)?;
    if !lines.is(gap, b"") || !lines.is(rules, b"<rules>") {
        return Err(Kept::Apart);
    }
    let rules_end = lines.first(b"</rules>", rules).ok_or(Kept::RulesOpen)?;
    if bound(head, rules..rules_end).is_some() {
        return Err(Kept::RulesOpen);
    }
    let end = match lines.below(rules_end) {
        None => head.len(),
        Some(below) if lines.is(below, b"") => lines.below(below).unwrap_or(head.len()),
        Some(below) => below,
    };
    Ok(tools..end)
}

/// The first section that the host writes below the pair, among the lines that start within. Only what lies above the end of the pair is
/// ever looked at, and once, so that a long prompt costs little more.
fn bound(head: &[u8], within: Range<usize>) -> Option<usize> {
    let lines = Lines::new(head);
    let is_section = |at: usize| BELOW.iter().any(|section| lines.is(at, section));
    if within.start == 0 && !within.is_empty() && is_section(0) {
        return Some(0);
    }
    // A line that starts within has the end of the one above it there too, or just before.
    let from = within.start.saturating_sub(1);
    let looked_at = head.get(from..within.end)?;
    memchr::memmem::find_iter(looked_at, b"\n<")
        .map(|newline| from + newline + 1)
        .find(|at| is_section(*at))
}
