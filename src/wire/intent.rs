//! The facts that a policy judges: fixed by the requester, used verbatim by the serving session.
//!
//! All or nothing: one malformed member drops the whole intent, and an ask without an intent is never allowed by a rule.

use serde::Serialize;

use super::json::Fields;

/// What is really asked for, in the words of the policy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ForwardedAccessIntent {
    /// Gate surface: `bash`, `mcp`, `skill`, `path_write`, a tool name.
    pub surface: String,
    /// Values that rules are matched with. On a path surface these are spellings of one path, elsewhere one value.
    pub match_values: Vec<String>,
    /// Canonical path; `None` for surfaces that are no paths.
    pub boundary_value: Option<String>,
    /// Working directory of the requester: provenance, never a base for resolving a path.
    pub requester_cwd: String,
    /// For whom the ask is made.
    pub principal: Principal,
    /// Sentinel that lifts an allow to an ask.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub floor: Option<String>,
    /// Every unit of a command line that still asks, in order; never empty where present.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asking_units: Option<Vec<AskingUnit>>,
}

/// For whom an ask is made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Principal {
    /// The asking session.
    pub session_id: String,
    /// Its agent; selects the rules of that agent.
    pub agent_name: String,
}

/// One executed unit of a command line that its own policy would ask about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AskingUnit {
    /// Text of the unit.
    pub command: String,
    /// Sentinel that lifts an allow of this unit to an ask.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub floor: Option<String>,
}

impl ForwardedAccessIntent {
    pub(crate) fn read(fields: &Fields<'_>) -> Option<Self> {
        let principal = fields.object("principal")?;
        Some(Self {
            surface: fields.text("surface")?,
            match_values: fields.texts("matchValues")?,
            boundary_value: fields.nullable_text("boundaryValue")?,
            requester_cwd: fields.text("requesterCwd")?,
            principal: Principal {
                session_id: principal.text("sessionId")?,
                agent_name: principal.text("agentName")?,
            },
            floor: optional(fields, "floor")?,
            asking_units: if fields.has("askingUnits") {
                Some(asking_units(fields)?)
            } else {
                None
            },
        })
    }
}

fn asking_units(fields: &Fields<'_>) -> Option<Vec<AskingUnit>> {
    fields
        .each("askingUnits", |unit| {
            Some(AskingUnit {
                command: unit.text("command")?,
                floor: optional(unit, "floor")?,
            })
        })
        .filter(|units| !units.is_empty())
}

/// A text that may be absent, but not malformed.
#[expect(
    clippy::option_option,
    reason = "malformed, absent and present are three different things here"
)]
fn optional(fields: &Fields<'_>, key: &str) -> Option<Option<String>> {
    if fields.has(key) {
        fields.text(key).map(Some)
    } else {
        Some(None)
    }
}
