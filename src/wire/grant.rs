//! What a person may grant beyond this one ask: the requester's own suggestion, in both shapes of the wire.

use std::time::Duration;

use serde::Serialize;

use super::json::Fields;

/// One surface and one pattern that a session grant would cover.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub struct ApprovalGrant {
    /// Gate surface, never empty.
    pub surface: String,
    /// Wildcard pattern as the requester suggests it; may be empty.
    pub pattern: String,
}

/// How wide a session grant is recorded. Absent or malformed on the wire means [`GrantWidth::Proven`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum GrantWidth {
    /// The surfaces as the gate named them.
    #[default]
    Proven,
    /// The directions folded into their family: `path_read` becomes `path`.
    Family,
}

impl GrantWidth {
    /// Surface under which a grant of this width is recorded.
    pub fn surface(self, surface: &str) -> &str {
        match (self, surface) {
            (Self::Family, "path_read" | "path_write") => "path",
            (Self::Family, "external_directory_read" | "external_directory_write") => {
                "external_directory"
            }
            (Self::Family | Self::Proven, other) => other,
        }
    }
}

/// For how long a session grant holds. It never outlives the session, unless the operator keeps grants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Lifetime {
    /// Until the session ends.
    #[default]
    SessionEnd,
    /// For this long, by the own clock, from the moment on in which it comes into force.
    For(Duration),
    /// For so many answers that rest on it.
    Uses(u32),
}

/// Which single direction all of `grants` prove, if any. The wider grant is offered only where one is proven.
pub fn proven_direction(grants: &[ApprovalGrant]) -> Option<Direction> {
    let mut directions = grants.iter().map(|grant| match grant.surface.as_str() {
        "path_read" | "external_directory_read" | "read" | "find" | "grep" | "ls" => {
            Some(Direction::Read)
        }
        "path_write" | "external_directory_write" | "write" => Some(Direction::Write),
        _ => None,
    });
    let first = directions.next()??;
    directions
        .all(|direction| direction == Some(first))
        .then_some(first)
}

/// One half of a family of surfaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Reading.
    Read,
    /// Writing.
    Write,
}

/// Reads `sessionApproval` in the shape of any generation. All or nothing: one bad entry drops the whole suggestion, and so
/// does an empty list, for there would be nothing to record.
pub(crate) fn read(fields: &Fields<'_>) -> Vec<ApprovalGrant> {
    read_current(fields)
        .or_else(|| read_old(fields))
        .unwrap_or_default()
}

fn read_current(fields: &Fields<'_>) -> Option<Vec<ApprovalGrant>> {
    fields.each("grants", |grant| {
        Some(ApprovalGrant {
            surface: grant
                .text("surface")
                .filter(|surface| !surface.is_empty())?,
            pattern: grant.text("pattern")?,
        })
    })
}

/// The shape before 30.0.0: one surface, any number of patterns.
fn read_old(fields: &Fields<'_>) -> Option<Vec<ApprovalGrant>> {
    if fields.has("grants") {
        return None;
    }
    let surface = fields
        .text("surface")
        .filter(|surface| !surface.is_empty())?;
    let patterns = fields.texts("patterns")?;
    Some(
        patterns
            .into_iter()
            .map(|pattern| ApprovalGrant {
                surface: surface.clone(),
                pattern,
            })
            .collect(),
    )
}
