//! `askrelay identity`: a parent's system prompt in, what a child may inherit out; or the whole prompt of a child.

mod making;
mod report;

use std::ffi::OsString;
use std::io::{IsTerminal as _, Read as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

pub(super) use making::{Making, read};

use super::env::Env;
use super::exit::Exit;
use super::output;
use super::{Hinted, PlaceArgs};
use crate::identity::{Directories, inherit};
use crate::spool::canonical_directory;

/// Most bytes of a prompt that are read.
pub(super) const MAX_PROMPT_BYTES: usize = 64 << 20;

#[derive(Debug, clap::Args)]
#[command(after_help = "The prompt is read from stdin. \
    Without --agent, what a child may inherit of it is printed byte for byte; with --agent, the whole prompt of that child.")]
pub(super) struct Args {
    /// Working directory of the parent's session, as its prompt states it [default: the own one]
    #[arg(long, value_name = "DIR")]
    parent_cwd: Option<OsString>,
    /// Working directory of the child [default: the parent's]
    #[arg(long, value_name = "DIR")]
    child_cwd: Option<OsString>,
    /// Make the whole prompt of the agent of this name
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    #[command(flatten)]
    making: Making,
    /// Say on stderr what was recognised and what was cut
    #[arg(long)]
    explain: bool,
    /// Print what was done as JSON, with the text in it
    #[arg(long)]
    json: bool,
}

pub(super) fn run(env: &Env, _place: &PlaceArgs, args: Args) -> anyhow::Result<Exit> {
    let own = || env.cwd().map(|cwd| cwd.clone().into_os_string());
    let parent = args.parent_cwd.or_else(own).ok_or_else(no_directory)?;
    let child = args.child_cwd.unwrap_or_else(|| parent.clone());
    let [parent, child] = [parent, child].map(|named| from_here(env, named));
    if args.agent.is_none()
        && let Some(option) = args.making.first_given()
    {
        return Err(Hinted::usage(
            format!("{option} is about a whole prompt, and no agent is named"),
            "name the agent that the prompt is for with --agent",
        ));
    }
    let prompt = read_stdin()?;
    let directories = Directories {
        parent: parent.as_bytes(),
        child: child.as_bytes(),
    };
    let identity = inherit(&prompt, &directories);
    let Some(agent) = &args.agent else {
        if args.explain {
            report::explain(&prompt, &directories, &identity);
        }
        if args.json {
            print_json(&report::json(&prompt, &identity))?;
        } else {
            print(&identity.pieces())?;
        }
        return Ok(Exit::Ok);
    };
    let made = args.making.make(env, agent, &prompt, &directories)?;
    made.warn();
    if args.explain {
        if made.is_inherited {
            report::explain(&prompt, &directories, &identity);
        }
        report::explain_made(&made);
    }
    if args.json {
        print_json(&report::made_json(&prompt, &identity, &made))?;
    } else {
        print(&[&made.prompt.text])?;
    }
    Ok(Exit::Ok)
}

/// Prints a report. It holds the text, so it is whole or an error, as the text itself is.
fn print_json(value: &serde_json::Value) -> anyhow::Result<()> {
    let line = crate::presentation::json::line(value).context("cannot write JSON")?;
    print(&[line.as_bytes(), b"\n"])
}

/// A directory that is named from here, such as `.`, by its own name; any other as it was given, for it may be one of another system.
fn from_here(env: &Env, named: OsString) -> OsString {
    let relative = !named.is_empty() && !Path::new(&named).is_absolute();
    let found = env
        .cwd()
        .filter(|_| relative)
        .and_then(|cwd| canonical_directory(&cwd.join(&named)).ok());
    found.map_or(named, PathBuf::into_os_string)
}

/// The own working directory is asked for, and was removed.
pub(super) fn no_directory() -> anyhow::Error {
    Hinted::usage(
        "this process has no working directory",
        "change to one that is there, or name the directories with options",
    )
}

fn read_stdin() -> anyhow::Result<Vec<u8>> {
    let stdin = std::io::stdin();
    if stdin.is_terminal() {
        output::say("reading the parent's prompt from the terminal; ctrl-d ends it");
    }
    let mut bytes = Vec::new();
    stdin
        .take(MAX_PROMPT_BYTES as u64 + 1)
        .read_to_end(&mut bytes)
        .context("cannot read the prompt from stdin")?;
    if bytes.len() > MAX_PROMPT_BYTES {
        return Err(Hinted::usage(
            format!("the prompt has more than {MAX_PROMPT_BYTES} bytes"),
            "check what is piped in: that is no system prompt",
        ));
    }
    Ok(bytes)
}

/// Writes bytes as they are. A reader that went away is an error here: what it has is not the whole text.
fn print(pieces: &[&[u8]]) -> anyhow::Result<()> {
    let mut stdout = std::io::stdout().lock();
    for piece in pieces {
        stdout.write_all(piece).context("cannot write to stdout")?;
    }
    stdout.flush().context("cannot write to stdout")
}
