//! `askrelay mcp`: an MCP server on stdin and stdout, with a permission prompt for Claude Code, and a tool to ask with for any agent.
//!
//! With `--serve` it also serves a session, as `askrelay serve` does, and what is left for a person there becomes a form in the client.
//!
//! The standard output belongs to the protocol: whatever is said to the operator goes to stderr. The server ends with its client, and
//! what it has asked is withdrawn then.

mod around;
mod forms;
mod serving;
mod tools;
mod transport;

use std::sync::Arc;

use rmcp::ServiceExt as _;
use rmcp::service::ServerInitializeError;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{Mutex, mpsc, oneshot, watch};

use self::forms::Forms;
use self::serving::Serving;
use self::tools::Tools;
use self::transport::LineTransport;
use super::env::{self, Env};
use super::exit::Exit;
use super::forward::{Forwarder, Who};
use super::place::Place;
use super::{Hinted, PlaceArgs, role};
use crate::wire::{Hop, SessionId};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The session that is asked [env: ASKRELAY_PARENT_SESSION]; with --serve the one that is served [env: ASKRELAY_SESSION]
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
    /// Serve a session as well, and show its asks as forms in the client, which is credited with the answers
    #[arg(long)]
    serve: bool,
    /// Rows of an ask before its evidence gives way [default: promptMaxRows of the configuration]
    #[arg(long, value_name = "N", requires = "serve", value_parser = clap::value_parser!(u16).range(1..))]
    max_rows: Option<u16>,
}

pub(super) fn run(env: &Env, place_args: &PlaceArgs, args: &Args) -> anyhow::Result<Exit> {
    let place = Place::new(env, place_args);
    let serving = if args.serve {
        Some(Serving::new(env, &place, args)?)
    } else {
        None
    };
    let served = serving.as_ref().map(|serving| serving.session.clone());
    let forwarder = forwarder(env, &place, args, served.as_ref())?;
    let names_agent = args.agent.is_some() || env.text(env::AGENT).is_some();
    let (over, is_over) = watch::channel(false);
    let tools = Tools::new(env, forwarder, names_agent, is_over);
    let runtime = super::runtime()?;
    let ended = runtime.block_on(async {
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        let mut hangup = signal(SignalKind::hangup())?;
        let output = Arc::new(Mutex::new(tokio::io::stdout()));
        let (forms, hello) = Forms::new();
        let forms = Arc::new(forms);
        let (stop, stopped) = oneshot::channel::<()>();
        let (shown, to_show) = mpsc::unbounded_channel();
        let of_session = serving.is_some().then(|| Arc::clone(&forms));
        let streams = LineTransport::new(tokio::io::stdin(), Arc::clone(&output), of_session, over);
        let protocol = async {
            let service = match Box::pin(tools.serve(streams)).await {
                Ok(service) => service,
                // A client that leaves before it has said a word.
                Err(ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
                Err(fault) => return Err(not_spoken(&fault)),
            };
            let _ended = service.waiting().await?;
            anyhow::Ok(())
        };
        let session = async {
            if let Some(serving) = serving {
                serving.run(&forms, hello, shown, stopped).await;
            }
        };
        let until_end = async {
            let ended = tokio::select! {
                served = protocol => served.map(|()| Exit::Ok),
                _ = interrupt.recv() => Ok(Exit::Interrupted),
                _ = terminate.recv() => Ok(Exit::Interrupted),
                _ = hangup.recv() => Ok(Exit::Interrupted),
            };
            // What waits here is settled before the process goes.
            drop(stop);
            ended
        };
        let showing = transport::write_all(&output, to_show);
        let all = async { tokio::join!(until_end, session).0 };
        tokio::select! {
            ended = all => ended,
            never = showing => match never {},
        }
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

/// What asks. It is the client's session that does; where this process was launched as somebody, it is a session within that one. Beside
/// a session that is served and has no parent, the agent asks that session, and not as that session.
fn forwarder(
    env: &Env,
    place: &Place<'_>,
    args: &Args,
    served: Option<&SessionId>,
) -> anyhow::Result<Forwarder> {
    let of_client = env.text(env::CLAUDE_SESSION);
    let alone = served.filter(|served| role::parent_of_served(env, served.as_str()).is_err());
    let is_named = args.from.is_some() || env.text(env::SESSION).is_some();
    let (from, within) = match of_client {
        client if alone.is_some() => {
            let from = args.from.clone().or(client);
            (Some(from.unwrap_or_else(role::minted)), None)
        }
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
    let asked = match (served, alone) {
        (None, _) => args.session.clone(),
        (Some(_), alone) => alone.map(|served| served.as_str().to_owned()),
    };
    let who = Who {
        session: asked,
        from,
        agent: args.agent.clone(),
        within: within.into_iter().collect(),
        serving_key: args.serving_key.clone(),
        generation: None,
        is_hook: false,
    };
    Forwarder::open(env, place, who)
}
