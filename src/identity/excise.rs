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
    is_above_the_bound(head, tools, Kept::BelowTheBound)?;
    let tools_end = lines.first(b"</tools>", tools).ok_or(Kept::ToolsOpen)?;
    is_above_the_bound(head, tools_end, Kept::ToolsOpen)?;
    let gap = lines.below(tools_end).ok_or(Kept::Apart)?;
    let rules = lines.below(gap).ok_or(Kept::Apart)?;
    if !lines.is(gap, b"") || !lines.is(rules, b"<rules>") {
        return Err(Kept::Apart);
    }
    let rules_end = lines.first(b"</rules>", rules).ok_or(Kept::RulesOpen)?;
    is_above_the_bound(head, rules_end, Kept::RulesOpen)?;
    let end = match lines.below(rules_end) {
        None => head.len(),
        Some(below) if lines.is(below, b"") => lines.below(below).unwrap_or(head.len()),
        Some(below) => below,
    };
    Ok(tools..end)
}

/// Whether no section that the host writes below the pair starts above this line. Only what lies above it is looked at, so that a long
/// prompt costs nothing more.
fn is_above_the_bound(head: &[u8], at: usize, else_kept: Kept) -> Result<(), Kept> {
    let above = Lines::new(head.get(..at).unwrap_or_default());
    let is_below = BELOW
        .iter()
        .any(|section| above.first(section, 0).is_some());
    if is_below { Err(else_kept) } else { Ok(()) }
}
