//! `ask --input`: the tool's own input, and what is made of it: the value of the ask, and its evidence.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use serde_json::Value;

use super::Hinted;
use super::env::Env;
use super::output;
use crate::ask::PlainAsk;
use crate::audit::{Entry, Event, ReviewLog};
use crate::clock;
use crate::policy::{Config, ShellTool};
use crate::presentation::evidence::{Call, Current, Files, Formatters, pointed_at, value_of};
use crate::program::{Executable, Outcome};
use crate::spool::{SubjectFile, read_subject_file};
use crate::wire::{Evidence, MAX_REQUEST_BYTES, PayloadKind, tool_input_from_json};

/// Most bytes of a file that are looked at to show what would become of it.
const MAX_FILE: usize = 4 << 20;

/// Reads the argument: JSON, `@FILE`, or `-` for the standard input.
pub(super) fn read(argument: &str) -> anyhow::Result<Value> {
    let bytes = match argument.strip_prefix('@') {
        Some(path) => super::ask::read_text_file(Path::new(path))?,
        None if argument == "-" => {
            let mut bytes = Vec::new();
            std::io::stdin()
                .take(MAX_REQUEST_BYTES as u64 + 1)
                .read_to_end(&mut bytes)
                .context("cannot read the input from stdin")?;
            bytes
        }
        None => argument.as_bytes().to_vec(),
    };
    tool_input_from_json(&bytes).map_err(|unusable| {
        Hinted::usage(
            format!("the input is unusable: {unusable}"),
            "give the tool's input as one JSON value, as @FILE, or as - for stdin",
        )
    })
}

/// Takes the value of an ask from its input. A call that is known by the path it names becomes one about that path.
pub(super) fn take_value(ask: &mut PlainAsk, input: &Value) -> anyhow::Result<()> {
    let kind = ask.kind();
    if let Some(value) = value_of(kind, input) {
        value.clone_into(&mut ask.value);
        return Ok(());
    }
    let missing = match kind {
        PayloadKind::Tool | PayloadKind::Mcp | PayloadKind::Forwarded => {
            match pointed_at(input).filter(|_| ask.kind.is_none() && kind == PayloadKind::Tool) {
                Some(path) => {
                    ask.kind = Some(PayloadKind::Path);
                    path.clone_into(&mut ask.value);
                }
                None => ask.value.clone_from(&ask.tool),
            }
            return Ok(());
        }
        PayloadKind::Bash | PayloadKind::BashExternalDirectory => "command",
        PayloadKind::Path | PayloadKind::ExternalDirectory | PayloadKind::SkillRead => "path",
        PayloadKind::Skill => "skill",
    };
    Err(Hinted::usage(
        format!("the input states no {missing}, and there is no --value"),
        format!(
            "give an input with a text under {missing:?}, or say what is asked for with --value"
        ),
    ))
}

/// The command line in the input of a tool that runs one under another name.
pub(super) fn command_of(shell: &ShellTool, tool: &str, input: &Value) -> anyhow::Result<String> {
    let name = &shell.command_argument;
    match input.get(name).and_then(Value::as_str) {
        Some(command) => Ok(command.to_owned()),
        None => Err(Hinted::usage(
            format!("the input of {tool:?} has no text under {name:?}, and there is no --value"),
            "\"shellTools\" of the configuration says under which name the tool has its command",
        )),
    }
}

/// The directory in the input of such a tool.
pub(super) fn directory_of(shell: &ShellTool, input: &Value) -> Option<String> {
    let directory = input.get(shell.workdir_argument.as_ref()?)?.as_str()?;
    Some(directory.to_owned())
}

/// The evidence that is known here of a call.
pub(super) fn evidence(cwd: &Path, tool: &str, value: &str, input: &Value) -> Vec<Evidence> {
    Formatters::default().evidence(&Call {
        tool,
        input,
        value,
        files: &OnDisk {
            cwd: cwd.to_owned(),
        },
    })
}

/// Files as they lie there, seen from the working directory.
struct OnDisk {
    cwd: PathBuf,
}

impl Files for OnDisk {
    fn current(&self, path: &str) -> Current {
        match read_subject_file(&self.cwd.join(path), MAX_FILE) {
            SubjectFile::Content(bytes) => Current::Content(bytes),
            SubjectFile::Missing => Current::Missing,
            SubjectFile::TooLarge => Current::Unreadable(format!("more than {MAX_FILE} bytes")),
            SubjectFile::NotRegular => Current::Unreadable("no regular file".to_owned()),
            SubjectFile::Failed(error) => Current::Unreadable(error.to_string()),
        }
    }
}

/// What the operator's program for this tool adds. One that fails adds nothing, which is said and logged.
pub(super) async fn added(
    env: &Env,
    debug_log: &Arc<ReviewLog>,
    config: &Config,
    log: &ReviewLog,
    tool: &str,
    input: &Value,
) -> Vec<Evidence> {
    let Some(program) = config.evidence_formatters.get(tool) else {
        return Vec::new();
    };
    let executable = Executable::new(program, |name| env.variable(name))
        .keeping_stderr(Arc::clone(debug_log), format!("evidence formatter {tool}"));
    match executable.evidence(tool, input).await {
        Outcome::Answered(evidence) => evidence,
        Outcome::Failed(failure) => {
            let message =
                format!("the evidence formatter of tool {tool:?} adds nothing: {failure}");
            output::warn(&message);
            let entry = Entry::new(Event::Warning).with("message", message);
            // A log that cannot be written is told of once, at the end.
            let _logged = log.append_or_hold(clock::wall_ms(), &[entry]);
            Vec::new()
        }
    }
}
