//! The facts of an ask from plain words: a tool, a surface, a value. Pure; paths come in resolved.
//!
//! A command line that is not one simple command carries a floor: nobody's rule may allow it as if it were one.

use crate::policy::{BASH_SURFACE, is_one_simple_command};
use crate::wire::{
    Evidence, ForwardedAccessIntent, PayloadKind, Principal, PromptPayload, RequestFacts,
    Requester, SENTINEL_UNPARSEABLE_COMMAND,
};

/// What somebody wants to do, in plain words.
#[derive(Debug, Clone)]
pub struct PlainAsk {
    /// Tool that would be called.
    pub tool: String,
    /// Gate surface.
    pub surface: String,
    /// Kind of the gate, where it is not what the surface says.
    pub kind: Option<PayloadKind>,
    /// Command, path, target or name.
    pub value: String,
    /// What helps to decide.
    pub evidence: Vec<Evidence>,
}

/// The spellings of a value that rules are matched with.
#[derive(Debug, Clone)]
pub struct Spellings {
    /// All of them; never empty.
    pub values: Vec<String>,
    /// The canonical path, where the value is one.
    pub boundary: Option<String>,
}

impl PlainAsk {
    /// Kind of the gate.
    pub fn kind(&self) -> PayloadKind {
        self.kind.unwrap_or(match self.surface.as_str() {
            BASH_SURFACE => PayloadKind::Bash,
            "mcp" => PayloadKind::Mcp,
            "skill" => PayloadKind::Skill,
            "path" | "path_read" | "path_write" | "read" | "write" | "edit" | "find" | "grep"
            | "ls" => PayloadKind::Path,
            "external_directory" | "external_directory_read" | "external_directory_write" => {
                PayloadKind::ExternalDirectory
            }
            _ => PayloadKind::Tool,
        })
    }

    /// The complete payload. Who asks is filled in by the serving session.
    pub fn payload(&self) -> PromptPayload {
        let skill = matches!(self.kind(), PayloadKind::Skill | PayloadKind::SkillRead);
        PromptPayload {
            kind: self.kind(),
            request: RequestFacts {
                requester: Requester {
                    agent_name: None,
                    forwarded: false,
                    session_id: None,
                },
                surface: self.surface.clone(),
                tool_name: (!skill).then(|| self.tool.clone()),
                invoked_tool_name: None,
                value: self.value.clone(),
                matched_pattern: None,
                command_context: None,
                executed_unit: None,
                matched_spelling: None,
            },
            evidence: self.evidence.clone(),
            annotations: Vec::new(),
        }
    }
}

/// The facts that a policy judges, from the facts that a person sees.
pub fn intent_of(
    payload: &PromptPayload,
    spellings: Spellings,
    cwd: String,
    principal: Principal,
) -> ForwardedAccessIntent {
    let facts = &payload.request;
    let opaque = facts.surface == BASH_SURFACE && !is_one_simple_command(&facts.value);
    ForwardedAccessIntent {
        surface: facts.surface.clone(),
        match_values: spellings.values,
        boundary_value: spellings.boundary,
        requester_cwd: cwd,
        principal,
        floor: opaque.then(|| SENTINEL_UNPARSEABLE_COMMAND.to_owned()),
        asking_units: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(surface: &str, value: &str) -> PlainAsk {
        PlainAsk {
            tool: surface.into(),
            surface: surface.into(),
            kind: None,
            value: value.into(),
            evidence: vec![],
        }
    }

    fn floor(value: &str) -> Option<String> {
        let spellings = Spellings {
            values: vec![value.into()],
            boundary: None,
        };
        let principal = Principal {
            session_id: "C".into(),
            agent_name: "scout".into(),
        };
        intent_of(
            &plain("bash", value).payload(),
            spellings,
            "/w".into(),
            principal,
        )
        .floor
    }

    #[test]
    fn the_surface_says_the_kind() {
        for (surface, kind) in [
            ("bash", PayloadKind::Bash),
            ("mcp", PayloadKind::Mcp),
            ("path_write", PayloadKind::Path),
            ("external_directory_read", PayloadKind::ExternalDirectory),
            ("skill", PayloadKind::Skill),
            ("deploy", PayloadKind::Tool),
        ] {
            assert_eq!(plain(surface, "x").kind(), kind, "{surface}");
        }
        assert_eq!(plain("skill", "x").payload().request.tool_name, None);
    }

    #[test]
    fn a_command_line_that_is_more_than_one_command_carries_a_floor() {
        assert_eq!(floor("rm -rf build"), None);
        for line in [
            "a; b", "a && b", "a | b", "`a`", "$(a)", "a > b", "(a)", "{ a; }", "a\nb",
        ] {
            assert_eq!(
                floor(line).as_deref(),
                Some(SENTINEL_UNPARSEABLE_COMMAND),
                "{line}"
            );
        }
    }
}
