//! `askrelay serve`: answers the children of a session, by policy or by asking the person at this terminal.

use std::io::{BufReader, IsTerminal as _};
use std::sync::Arc;

use anyhow::Context as _;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use super::env::{self, Env};
use super::exit::Exit;
use super::place::{Loaded, Place};
use super::{Hinted, PlaceArgs, output, role};
use crate::ask::{self, Requester};
use crate::audit::ReviewLog;
use crate::prompt::{Input, PersonEvents, Prompter, SelectPrompter};
use crate::serve::{Mode, Parent, Server, Settings};
use crate::spool::{Missing, Spool, Watch};
use crate::wire::{Generation, SessionId};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The session that is served [env: ASKRELAY_SESSION] [default: main]
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// Own agent name [env: ASKRELAY_AGENT]
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// How you are asked [default: select on a terminal, else headless]
    #[arg(long, value_enum)]
    mode: Option<ModeArg>,
    /// Ask the own parent in the form of the oldest generation of the peer
    #[arg(long, value_name = "GENERATION", value_parser = ["g1"])]
    peer: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum ModeArg {
    /// Numbered questions on stdout, answers from stdin
    Select,
    /// Policy only; what it leaves open goes to the own parent, or is denied as unavailable
    Headless,
}

pub(super) fn run(env: &Env, place_args: &PlaceArgs, args: Args) -> anyhow::Result<Exit> {
    let place = Place::new(env, place_args);
    let loaded = place.config()?;
    Place::warn_of_keys_not_in_force(&loaded.config);
    let log = if loaded.config.require_audit.is_on() {
        place.log(&loaded.config).context(
            "this session decides nothing unrecorded, and the review log cannot be opened",
        )?
    } else {
        place.log_or_none(&loaded.config)
    };
    let spool = place.spool(Missing::Create)?;
    let own = role::served(
        env,
        args.session.as_deref(),
        &Place::default_session(&loaded.config),
    );
    let session = SessionId::parse(&own.id).map_err(|error| {
        Hinted::usage(
            format!(
                "{:?} (from {}) cannot be served: {error}",
                own.id, own.reason
            ),
            "name the session with --session",
        )
    })?;
    let mode = match args.mode {
        Some(ModeArg::Select) => Mode::Select,
        None if std::io::stdin().is_terminal() => Mode::Select,
        Some(ModeArg::Headless) | None => Mode::Headless,
    };
    let agent = args
        .agent
        .or_else(|| env.text(env::AGENT))
        .unwrap_or_else(|| "unknown".to_owned());
    let watch = start_watch();
    let (events, person) = mpsc::unbounded_channel();
    let prompter: Option<Box<dyn Prompter>> = match mode {
        Mode::Select => Some(Box::new(select_prompter(events)?)),
        Mode::Inbox(_) | Mode::Headless => None,
    };
    let generation = if args.peer.is_some() {
        Generation::G1
    } else {
        loaded.config.peer_generation
    };
    let parent = parent(
        env,
        &spool,
        &session,
        &agent,
        generation,
        watch.clone(),
        &log,
    );
    let place_of_session = spool.session_path(&session);
    let settings = settings(&place, &loaded, session, agent, mode, parent)?;
    let greeting = greeting(&settings, &place_of_session);
    super::runtime()?.block_on(async {
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        let mut hangup = signal(SignalKind::hangup())?;
        let server = Server::start(&spool, settings, watch, log, prompter, person)?;
        output::say(&greeting);
        server
            .run(async move {
                tokio::select! {
                    _ = interrupt.recv() => {}
                    _ = terminate.recv() => {}
                    _ = hangup.recv() => {}
                }
            })
            .await?;
        Ok(Exit::Ok)
    })
}

/// The watcher of this process, or none, with a warning that says why.
pub(super) fn start_watch() -> Option<Arc<Watch>> {
    match Watch::start() {
        Ok(watch) => Some(Arc::new(watch)),
        Err(error) => {
            output::warn(&error.to_string());
            None
        }
    }
}

pub(super) fn select_prompter(events: PersonEvents) -> anyhow::Result<SelectPrompter> {
    let terminal = std::io::stdin().is_terminal();
    let kind = if terminal {
        Input::Terminal
    } else {
        Input::Stream
    };
    let columns = std::io::stdout()
        .is_terminal()
        .then(|| {
            rustix::termios::tcgetwinsize(std::io::stdout())
                .ok()
                .map(|size| size.ws_col)
        })
        .flatten()
        .filter(|columns| *columns > 0);
    let input = Box::new(BufReader::new(std::io::stdin()));
    SelectPrompter::start(Box::new(std::io::stdout()), input, kind, columns, events)
        .context("cannot start reading the input")
}

/// The session that this one asks in turn: only where a variable names one.
fn parent(
    env: &Env,
    spool: &Spool,
    session: &SessionId,
    agent: &str,
    generation: Generation,
    watch: Option<Arc<Watch>>,
    log: &Arc<ReviewLog>,
) -> Option<Parent> {
    let target = role::parent_of_served(env, session.as_str()).ok()?.session;
    let settings = ask::Settings {
        target: target.clone(),
        session_id: session.as_str().to_owned(),
        agent_name: agent.to_owned(),
        generation,
    };
    Some(Parent {
        session: target,
        requester: Requester::new(spool, settings, watch, Arc::clone(log)),
    })
}

fn settings(
    place: &Place<'_>,
    loaded: &Loaded,
    session: SessionId,
    agent: String,
    mode: Mode,
    parent: Option<Parent>,
) -> anyhow::Result<Settings> {
    let home = place.home();
    Ok(Settings {
        session,
        agent,
        mode,
        parent,
        policy: Arc::new(loaded.policy(home.as_deref())?),
        home,
        forwarding_timeout: loaded.config.forwarding_timeout,
        request_max_age: loaded.config.request_max_age,
        require_audit: loaded.config.require_audit.is_on(),
    })
}

fn greeting(settings: &Settings, path: &std::path::Path) -> String {
    let session = crate::presentation::text::visible(settings.session.as_str());
    let parent = settings.parent.as_ref().map_or_else(String::new, |parent| {
        format!(
            "; its parent is {}",
            crate::presentation::text::visible(parent.session.as_str())
        )
    });
    format!(
        "serving session {session} ({}) at {}{parent}",
        settings.mode.name(),
        path.display()
    )
}
