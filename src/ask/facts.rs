//! The facts of an ask from plain words: a tool, a surface, a value. Pure; paths come in resolved.
//!
//! A command line is taken apart, so that whoever judges it has every command in it, and whoever decides sees what really runs.

use crate::policy::{BASH_SURFACE, OUTSIDE_SANDBOX_SURFACE, is_command_surface};
use crate::shell::{self, Floor, Reading, Unit};
use crate::wire::{
    AskingUnit, Evidence, ForwardedAccessIntent, PayloadKind, Principal, PromptPayload,
    RequestFacts, Requester,
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
            BASH_SURFACE | OUTSIDE_SANDBOX_SURFACE => PayloadKind::Bash,
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
        let reading = is_command_surface(&self.surface).then(|| shell::read(&self.value));
        let hidden = reading.as_ref().and_then(hidden_most);
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
                command_context: hidden.and_then(|unit| unit.context),
                executed_unit: hidden.map(|unit| unit.command.to_string()),
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
    let reading = is_command_surface(&facts.surface).then(|| shell::read(&facts.value));
    ForwardedAccessIntent {
        surface: facts.surface.clone(),
        match_values: spellings.values,
        boundary_value: spellings.boundary,
        requester_cwd: cwd,
        principal,
        floor: reading.as_ref().and_then(line_floor).map(name),
        asking_units: reading
            .as_ref()
            .and_then(|reading| asking_units(reading, &facts.value)),
    }
}

/// The unit that stands deepest in others: the one that a person is least likely to see. `None` where nothing is nested.
fn hidden_most<'r, 'a>(reading: &'r Reading<'a>) -> Option<&'r Unit<'a>> {
    let depth = |unit: &Unit<'_>| unit.through.len() + usize::from(unit.context.is_some());
    let deepest = reading.units.iter().map(depth).max()?;
    reading
        .units
        .iter()
        .find(|unit| deepest > 0 && depth(unit) == deepest)
}

/// What lifts an allow of the whole line: its own floor, and where it is one unit also that of the unit.
fn line_floor(reading: &Reading<'_>) -> Option<Floor> {
    match reading.units.as_slice() {
        [_] => reading.heaviest_floor(),
        _ => reading.floor,
    }
}

/// Every unit of a line that is more than one plain command.
fn asking_units(reading: &Reading<'_>, line: &str) -> Option<Vec<AskingUnit>> {
    let is_one = match reading.units.as_slice() {
        [] => true,
        [unit] => unit.text == line,
        _ => false,
    };
    (!is_one).then(|| {
        reading
            .units
            .iter()
            .map(|unit| AskingUnit {
                command: unit.command.to_string(),
                floor: unit.floor.map(name),
            })
            .collect()
    })
}

fn name(floor: Floor) -> String {
    floor.sentinel().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::CommandContext;

    fn plain(surface: &str, value: &str) -> PlainAsk {
        PlainAsk {
            tool: surface.into(),
            surface: surface.into(),
            kind: None,
            value: value.into(),
            evidence: vec![],
        }
    }

    fn intent(value: &str) -> ForwardedAccessIntent {
        let spellings = Spellings {
            values: vec![value.into()],
            boundary: None,
        };
        let principal = Principal {
            session_id: "C".into(),
            agent_name: "scout".into(),
        };
        let payload = plain("bash", value).payload();
        intent_of(&payload, spellings, "/w".into(), principal)
    }

    fn units(value: &str) -> Vec<(String, Option<String>)> {
        let units = intent(value).asking_units.unwrap_or_default();
        units
            .into_iter()
            .map(|unit| (unit.command, unit.floor))
            .collect()
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
    fn one_plain_command_adds_nothing() {
        let intent = intent("rm -rf build");
        assert_eq!((intent.floor, intent.asking_units), (None, None));
        let payload = plain("bash", "rm -rf build").payload();
        assert_eq!(payload.request.executed_unit, None);
        assert_eq!(payload.request.command_context, None);
        assert_eq!(
            plain("deploy", "a; b").payload().request.executed_unit,
            None
        );
    }

    #[test]
    fn every_command_of_a_line_is_named_with_its_floor() {
        let opaque = Some("<opaque-bash-wrapper>".to_owned());
        assert_eq!(
            units("curl x | sh"),
            [("curl x".to_owned(), None), ("sh".to_owned(), opaque)]
        );
        assert_eq!(intent("curl x | sh").floor, None);
        assert_eq!(
            units("bash -c \"rm \\\"a b\\\"\"").last().unwrap().0,
            "rm \"a b\"",
            "as the inner shell reads it"
        );
    }

    #[test]
    fn a_floor_of_the_line_is_its_floor() {
        assert_eq!(
            intent("{ a").floor.as_deref(),
            Some("<unparseable-bash-command>")
        );
        assert_eq!(intent("eval x").floor.as_deref(), None, "the unit has it");
        assert_eq!(
            intent("source x").floor.as_deref(),
            Some("<opaque-bash-wrapper>")
        );
    }

    #[test]
    fn what_stands_deepest_is_what_runs() {
        for (line, unit, context) in [
            ("sudo sh -c 'rm x'", "rm x", None),
            (
                "echo $(rm x)",
                "rm x",
                Some(CommandContext::CommandSubstitution),
            ),
            ("(cd x && rm y)", "cd x", Some(CommandContext::Subshell)),
        ] {
            let facts = plain("bash", line).payload().request;
            assert_eq!(facts.executed_unit.as_deref(), Some(unit), "{line}");
            assert_eq!(facts.command_context, context, "{line}");
            assert_eq!(facts.value, line);
        }
    }
}
