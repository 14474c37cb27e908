//! `askrelay launch -- CMD…`: becomes the command, in an environment in which its asks find this session.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use super::env::{self, Env};
use super::exit::Exit;
use super::place::Place;
use super::{Hinted, PlaceArgs, role};
use crate::spool::Missing;
use crate::wire::{Hop, SessionId};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The session that the child asks: the own one [env: ASKRELAY_SESSION] [default: main]
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// Id of the child's own session; minted where it is not given
    #[arg(long = "as", value_name = "ID")]
    child: Option<String>,
    /// Agent name of the child
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// The command
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

pub(super) fn run(env: &Env, place_args: &PlaceArgs, args: Args) -> anyhow::Result<Exit> {
    let place = Place::new(env, place_args);
    let config = place.config()?.config;
    // The child must find a spool, even if it is the first to ask.
    let spool = place.spool(Missing::Create)?;
    let own = role::served(
        env,
        args.session.as_deref(),
        &Place::default_session(&config),
    );
    let parent = SessionId::parse(&own.id).map_err(|error| {
        Hinted::usage(
            format!("{:?} cannot be asked: {error}", own.id),
            "name the session with --session",
        )
    })?;
    let child = match args.child {
        Some(child) => child,
        None => role::minted(),
    };
    if SessionId::parse(&child).is_ok_and(|child| child == parent) {
        return Err(Hinted::usage(
            "the child cannot be its own parent",
            "give it another id with --as",
        ));
    }
    let agent = args.agent.unwrap_or_else(|| "unknown".to_owned());
    let mut lineage = role::lineage(env);
    lineage.push(Hop {
        session_id: parent.as_str().to_owned(),
        agent_name: env.text(env::AGENT).unwrap_or_else(|| "unknown".to_owned()),
    });
    let mut words = args.command.into_iter();
    let Some(program) = words.next() else {
        return Err(Hinted::usage("there is no command", "write it behind `--`"));
    };
    let mut command = Command::new(&program);
    command
        .args(words)
        .env(env::SPOOL, spool.path())
        .env(env::PARENT_SESSION, parent.as_str())
        .env(env::SESSION, &child)
        .env(env::AGENT, &agent)
        .env(env::LINEAGE, role::lineage_text(&lineage))
        // Children that speak the peer's protocol look for these.
        .env(env::PEER_PARENTS[1], parent.as_str())
        .env_remove(env::PEER_PARENTS[0]);
    for (name, path) in [
        (env::CONFIG, &place_args.config),
        (env::LOG, &place_args.log),
    ] {
        if let Some(path) = path {
            command.env(name, place.absolute(path));
        }
    }
    // Only comes back when it failed.
    let error = command.exec();
    let exit = if error.kind() == std::io::ErrorKind::NotFound {
        Exit::NotFound
    } else {
        Exit::NobodyRuled
    };
    Err(Hinted {
        message: format!("cannot start {}", program.to_string_lossy()),
        hint: "check that the command is on PATH and executable".to_owned(),
        exit,
        source: Some(error.into()),
    }
    .into())
}
