//! `askrelay mcp`: an MCP server on stdin and stdout, with a permission prompt for Claude Code, and a tool to ask with for any agent.
//!
//! The standard output belongs to the protocol: whatever is said to the operator goes to stderr. The server ends with its client, and
//! what it has asked is withdrawn then.

mod tools;
mod transport;

use rmcp::ServiceExt as _;
use rmcp::service::ServerInitializeError;
use tokio::signal::unix::{SignalKind, signal};

use self::tools::Tools;
use self::transport::LineTransport;
use super::env::{self, Env};
use super::exit::Exit;
use super::forward::{Forwarder, Who};
use super::place::Place;
use super::{Hinted, PlaceArgs};
use crate::wire::Hop;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The session that is asked [env: ASKRELAY_PARENT_SESSION]
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// Own session [env: ASKRELAY_SESSION, CLAUDE_CODE_SESSION_ID]
    #[arg(long, value_name = "ID")]
    from: Option<String>,
    /// Own agent name [env: ASKRELAY_AGENT] [default: what the client calls itself]
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// Key that the session that is asked seals its answers with [env: ASKRELAY_SERVING_KEY]
    #[arg(long, value_name = "KEY")]
    serving_key: Option<String>,
}

pub(super) fn run(env: &Env, place_args: &PlaceArgs, args: &Args) -> anyhow::Result<Exit> {
    let place = Place::new(env, place_args);
    let forwarder = forwarder(env, &place, args)?;
    let names_agent = args.agent.is_some() || env.text(env::AGENT).is_some();
    let tools = Tools::new(env, forwarder, names_agent);
    let runtime = super::runtime()?;
    let ended = runtime.block_on(async {
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        let mut hangup = signal(SignalKind::hangup())?;
        let streams = LineTransport::new(tokio::io::stdin(), tokio::io::stdout());
        let served = async {
            let service = match Box::pin(tools.serve(streams)).await {
                Ok(service) => service,
                // A client that leaves before it has said a word.
                Err(ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
                Err(fault) => return Err(not_spoken(&fault)),
            };
            let _ended = service.waiting().await?;
            anyhow::Ok(())
        };
        Ok(tokio::select! {
            served = served => served.map(|()| Exit::Ok)?,
            _ = interrupt.recv() => Exit::Interrupted,
            _ = terminate.recv() => Exit::Interrupted,
            _ = hangup.recv() => Exit::Interrupted,
        })
    });
    // What waits is withdrawn; a read of the standard input cannot be taken back, and nobody waits for it.
    runtime.shutdown_background();
    ended
}

fn not_spoken(fault: &ServerInitializeError) -> anyhow::Error {
    Hinted::usage(
        format!("what is on the standard input does not speak MCP: {fault}"),
        "an agent starts this as an MCP server of the kind \"stdio\"; docs/mcp.md shows how it is told to",
    )
}

/// What asks. It is the client's session that does; where this process was launched as somebody, it is a session within that one.
fn forwarder(env: &Env, place: &Place<'_>, args: &Args) -> anyhow::Result<Forwarder> {
    let of_client = env.text(env::CLAUDE_SESSION);
    let is_named = args.from.is_some() || env.text(env::SESSION).is_some();
    let (from, within) = match of_client {
        Some(session) if is_named => {
            let within = Hop {
                session_id: session,
                agent_name: "claude-code".to_owned(),
            };
            (args.from.clone(), Some(within))
        }
        Some(session) => (Some(session), None),
        None => (args.from.clone(), None),
    };
    let who = Who {
        session: args.session.clone(),
        from,
        agent: args.agent.clone(),
        within: within.into_iter().collect(),
        serving_key: args.serving_key.clone(),
        generation: None,
        is_hook: false,
    };
    Forwarder::open(env, place, who)
}
