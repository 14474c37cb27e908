//! The command line: parses, resolves where things are, runs one command, and prints what came of it.
//!
//! One file for each command. The environment is read in `env`, exit codes stand in `exit`, printing in `output`.

#![expect(
    clippy::doc_markdown,
    reason = "these comments are the help text, which is no Markdown"
)]

mod acp;
mod ask;
mod config;
mod demo;
mod doctor;
mod env;
mod events;
mod exit;
mod forward;
mod grants;
mod hook;
mod identity;
mod input;
mod install;
mod launch;
mod layers;
mod log;
mod ls;
mod mcp;
mod output;
mod pin;
mod place;
mod policy;
mod programs;
mod project;
mod reload;
mod revoke;
mod role;
mod roles;
mod schema;
mod serve;
mod show;
mod status;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

use env::Env;
use exit::Exit;

/// Forwards permission asks of coding agents' subagents to the session in charge.
#[derive(Debug, Parser)]
#[command(
    name = "askrelay",
    version,
    max_term_width = 100,
    propagate_version = true
)]
struct Cli {
    #[command(flatten)]
    place: PlaceArgs,
    #[command(subcommand)]
    command: Command,
}

/// Where things are; the same for every command.
#[derive(Debug, Clone, Default, Args)]
struct PlaceArgs {
    /// Spool directory, or `pi` for the peer's [env: ASKRELAY_SPOOL]
    #[arg(long, global = true, value_name = "DIR")]
    spool: Option<PathBuf>,
    /// Configuration file [env: ASKRELAY_CONFIG]
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Project whose configuration counts, if it is trusted [default: the working directory]
    #[arg(long, global = true, value_name = "DIR", conflicts_with = "no_project")]
    project: Option<PathBuf>,
    /// No configuration of a project counts
    #[arg(long, global = true)]
    no_project: bool,
    /// Review log [env: ASKRELAY_LOG]
    #[arg(long, global = true, value_name = "FILE")]
    log: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Forward one ask to the parent session, wait, and print the decision
    Ask(ask::Args),
    /// Run an agent that speaks ACP, and have its requests for permission answered by the parent session
    Acp(acp::Args),
    /// Be an MCP server on stdin and stdout: a permission prompt for Claude Code, and a tool to ask with for any agent
    Mcp(mcp::Args),
    /// Answer a host that is about to call a tool, as its hook
    Hook(hook::Args),
    /// Serve a session: answer its children by policy or by asking you
    Serve(serve::Args),
    /// Start a child with the environment that its asks need
    Launch(launch::Args),
    /// Show the sessions of the spool and who serves them
    Status(status::Args),
    /// List the asks that are waiting, or what is granted
    Ls(ls::Args),
    /// Take grants back: no later answer rests on them
    Revoke(revoke::Args),
    /// Show one ask whole
    Show(show::Args),
    /// Read the review log: who decided what, and whether it is as it was written
    Log(log::Args),
    /// Say what the rules would say, and why
    Policy(policy::Args),
    /// Print what a child may inherit of its parent's system prompt, or a whole prompt for it
    Identity(identity::Args),
    /// Check and show the configuration, and have that of a project count
    Config(config::Args),
    /// Print the JSON Schema of a document on disk, or of the configuration
    Schema(schema::Args),
    /// Put askrelay in charge of an agent: edit its configuration, after showing what would be written
    Install(install::InstallArgs),
    /// Take askrelay out of the configuration of an agent again
    Uninstall(install::UninstallArgs),
    /// Say whether everything is in place, and prove that the hook of an agent fires
    Doctor(doctor::Args),
    /// See it work: a serving session and three children in this terminal
    Demo(demo::Args),
}

/// A failure that has a hint and an exit code of its own.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
struct Hinted {
    message: String,
    hint: String,
    exit: Exit,
    #[source]
    source: Option<anyhow::Error>,
}

impl Hinted {
    fn usage(message: impl Into<String>, hint: impl Into<String>) -> anyhow::Error {
        Self {
            message: message.into(),
            hint: hint.into(),
            exit: Exit::Usage,
            source: None,
        }
        .into()
    }

    /// The machine has not what is needed.
    fn nobody(
        message: impl Into<String>,
        hint: impl Into<String>,
        source: Option<anyhow::Error>,
    ) -> anyhow::Error {
        Self {
            message: message.into(),
            hint: hint.into(),
            exit: Exit::NobodyRuled,
            source,
        }
        .into()
    }
}

/// Runs the program. Prints whatever has to be said, once.
pub fn run() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are no errors; clap knows where each is printed.
            let _printed = error.print();
            return if error.use_stderr() {
                Exit::Usage.into()
            } else {
                Exit::Ok.into()
            };
        }
    };
    let env = Env::of_process();
    #[cfg(debug_assertions)]
    env.arm_fault();
    let place = cli.place;
    let ended = match cli.command {
        Command::Ask(args) => ask::run(&env, &place, args),
        Command::Acp(args) => acp::run(&env, &place, &args),
        Command::Mcp(args) => mcp::run(&env, &place, &args),
        Command::Hook(args) => Ok(hook::run(&env, &place, &args)),
        Command::Serve(args) => serve::run(&env, &place, args),
        Command::Launch(args) => launch::run(&env, &place, args),
        Command::Status(args) => status::run(&env, &place, &args),
        Command::Ls(args) => ls::run(&env, &place, &args),
        Command::Revoke(args) => revoke::run(&env, &place, &args),
        Command::Show(args) => show::run(&env, &place, &args),
        Command::Log(args) => log::run(&env, &place, &args),
        Command::Policy(args) => policy::run(&env, &place, &args),
        Command::Identity(args) => identity::run(&env, &place, args),
        Command::Config(args) => config::run(&env, &place, &args),
        Command::Schema(args) => schema::run(&args),
        Command::Install(args) => install::install(&env, &place, &args),
        Command::Uninstall(args) => install::uninstall(&env, &place, &args),
        Command::Doctor(args) => doctor::run(&env, &place, &args),
        Command::Demo(args) => demo::run(&env, &args),
    };
    match ended {
        Ok(exit) => exit.into(),
        Err(error) => {
            let (hint, exit) = hint_of(&error);
            output::error(&error, hint.as_deref());
            exit.into()
        }
    }
}

/// What to do about an error, and how the program ends for it.
fn hint_of(error: &anyhow::Error) -> (Option<String>, Exit) {
    use crate::audit::AuditError;
    use crate::serve::ServeError;
    use crate::spool::SpoolError;
    for cause in error.chain() {
        if let Some(hinted) = cause.downcast_ref::<Hinted>() {
            return (Some(hinted.hint.clone()), hinted.exit);
        }
        if let Some(error) = cause.downcast_ref::<ServeError>() {
            return (Some(error.hint()), Exit::NobodyRuled);
        }
        if let Some(error) = cause.downcast_ref::<SpoolError>() {
            return (Some(error.hint()), Exit::NobodyRuled);
        }
        if let Some(error) = cause.downcast_ref::<AuditError>() {
            return (Some(error.hint()), Exit::NobodyRuled);
        }
    }
    (None, Exit::NobodyRuled)
}

/// A runtime for one command: one thread, for nothing here computes.
fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_command_tree_is_sound() {
        Cli::command().debug_assert();
    }
}
