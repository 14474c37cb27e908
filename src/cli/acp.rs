//! `askrelay acp -- AGENT…`: stands between a client and an agent that speaks ACP, and has the agent's requests for permission
//! answered by the parent session.
//!
//! Which line passes and what is answered is decided by the pure step ([`Proxy`]); here are the pipes, the process and the asks. A
//! side that does not read holds up the other, as it would without anybody between them, and nothing else.

mod outlet;

use std::collections::HashMap;
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::io::AsyncReadExt as _;
use tokio::process::{Child, ChildStdout, Command};
use tokio::signal::unix::{Signal as Stream, SignalKind, signal};
use tokio::task::{AbortHandle, JoinError, JoinSet};
use tokio::time::Instant;

use self::outlet::Outlet;
use super::env::{self, Env};
use super::exit::Exit;
use super::forward::{Forwarder, Who};
use super::place::Place;
use super::{Hinted, PlaceArgs};
use crate::host::ToolCall;
use crate::host::acp::{Ask, Effect, LONGEST_LOOKED_AT, Manners, Proxy, Ruling, Side, Step};
use crate::host::lines::{Lines, Piece};
use crate::presentation::text::visible;
use crate::wire::{DecisionState, Hop};

/// How long a rule has to answer before the client is asked as well.
const CLIENT_AFTER: Duration = Duration::from_millis(300);

/// How long what the agent has written is still passed on after its end: a process that it left behind may hold the pipe open.
const AFTER_THE_END: Duration = Duration::from_millis(500);

/// How much is read at a time.
const CHUNK: usize = 64 << 10;

/// How many sessions of an agent are kept apart. Beyond, their asks go by the name of the first.
const MOST_SESSIONS: usize = 256;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The session that is asked [env: ASKRELAY_PARENT_SESSION]
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// Agent name that its asks go by [env: ASKRELAY_AGENT] [default: the name of the command]
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// Key that the session that is asked seals its answers with [env: ASKRELAY_SERVING_KEY]
    #[arg(long, value_name = "KEY")]
    serving_key: Option<String>,
    /// Ask the client as well: whoever answers first decides
    #[arg(long)]
    client_too: bool,
    /// Hand a yes for this subagent until the session ends on as the agent's own "always": what the agent allows by it then is not
    /// asked any more
    #[arg(long)]
    always: bool,
    /// The agent
    #[arg(last = true, required = true, value_name = "AGENT")]
    command: Vec<OsString>,
}

pub(super) fn run(env: &Env, place_args: &PlaceArgs, args: &Args) -> anyhow::Result<Exit> {
    let place = Place::new(env, place_args);
    let asking = Asking::new(env, place, args)?;
    let manners = Manners {
        client_too: args.client_too,
        always: args.always,
    };
    let runtime = super::runtime()?;
    let ended = runtime.block_on(async {
        let mut signals = Signals::listen()?;
        let mut agent = start(&args.command)?;
        let mut bridge = Bridge::new(&mut agent, asking, manners)?;
        let status = bridge.run(&mut agent, &mut signals).await?;
        tokio::select! {
            () = bridge.end() => {}
            // A client that does not read what is left keeps nobody who wants to end this.
            _ = signals.next() => {}
        }
        Ok(Exit::Command(code_of(status)))
    });
    // A read of the standard input cannot be taken back, and nobody waits for it.
    runtime.shutdown_background();
    ended
}

/// Starts the agent in this environment, with pipes between.
fn start(command: &[OsString]) -> anyhow::Result<Child> {
    let Some((program, words)) = command.split_first() else {
        return Err(Hinted::usage(
            "there is no agent",
            "write its command behind `--`",
        ));
    };
    let started = Command::new(program)
        .args(words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    started.map_err(|error| {
        let exit = if error.kind() == std::io::ErrorKind::NotFound {
            Exit::NotFound
        } else {
            Exit::NobodyRuled
        };
        Hinted {
            message: format!("cannot start {}", program.to_string_lossy()),
            hint: "check that the command is on PATH and executable".to_owned(),
            exit,
            source: Some(error.into()),
        }
        .into()
    })
}

/// The code that a shell would give for this end.
fn code_of(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| Some(128 + status.signal()?));
    code.and_then(|code| u8::try_from(code).ok())
        .unwrap_or(u8::MAX)
}

/// The signals that are handed on to the agent.
struct Signals {
    hangup: Stream,
    interrupt: Stream,
    quit: Stream,
    terminate: Stream,
}

impl Signals {
    fn listen() -> anyhow::Result<Self> {
        Ok(Self {
            hangup: signal(SignalKind::hangup())?,
            interrupt: signal(SignalKind::interrupt())?,
            quit: signal(SignalKind::quit())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    async fn next(&mut self) -> Signal {
        tokio::select! {
            _ = self.hangup.recv() => Signal::HUP,
            _ = self.interrupt.recv() => Signal::INT,
            _ = self.quit.recv() => Signal::QUIT,
            _ = self.terminate.recv() => Signal::TERM,
        }
    }
}

/// Hands a signal on. One that a terminal sends has reached the agent by itself.
fn hand_on(agent: &Child, signal: Signal) {
    use std::io::IsTerminal as _;
    if matches!(signal, Signal::INT | Signal::QUIT) && std::io::stdin().is_terminal() {
        return;
    }
    let pid = agent
        .id()
        .and_then(|pid| i32::try_from(pid).ok())
        .and_then(Pid::from_raw);
    if let Some(pid) = pid {
        // It may have ended in this moment.
        let _sent = kill_process(pid, signal);
    }
}

/// Who asks, for each session of the agent.
struct Asking<'a> {
    env: &'a Env,
    place: Place<'a>,
    session: Option<String>,
    agent: String,
    serving_key: Option<String>,
    by_session: HashMap<String, Arc<Forwarder>>,
    /// For an agent with more sessions than are kept apart.
    first: Option<Arc<Forwarder>>,
}

impl<'a> Asking<'a> {
    /// An error of usage is told before the agent is started.
    fn new(env: &'a Env, place: Place<'a>, args: &Args) -> anyhow::Result<Self> {
        let program = args.command.first().map(PathBuf::from).unwrap_or_default();
        let program = program
            .file_name()
            .map(|name| name.to_string_lossy().into_owned());
        let agent = args
            .agent
            .clone()
            .or_else(|| env.text(env::AGENT))
            .or(program);
        let asking = Self {
            env,
            place,
            session: args.session.clone(),
            agent: agent.unwrap_or_else(|| "unknown".to_owned()),
            serving_key: args.serving_key.clone(),
            by_session: HashMap::new(),
            first: None,
        };
        let _checked = asking.open(None)?;
        Ok(asking)
    }

    /// What asks for a session of the agent. It is that session that asks; where this process was launched as somebody, it is a
    /// session within that one.
    fn open(&self, of: Option<&str>) -> anyhow::Result<Forwarder> {
        let is_launched = self.env.text(env::SESSION).is_some();
        let within = of.filter(|_| is_launched).map(|session| Hop {
            session_id: session.to_owned(),
            agent_name: self.agent.clone(),
        });
        Forwarder::open(
            self.env,
            &self.place,
            Who {
                session: self.session.clone(),
                from: of.filter(|_| !is_launched).map(str::to_owned),
                agent: Some(self.agent.clone()),
                within: within.into_iter().collect(),
                serving_key: self.serving_key.clone(),
                generation: None,
                is_hook: false,
            },
        )
    }

    fn forwarder(&mut self, session: &str) -> anyhow::Result<Arc<Forwarder>> {
        if let Some(known) = self.by_session.get(session) {
            return Ok(Arc::clone(known));
        }
        if let (Some(first), true) = (&self.first, self.by_session.len() >= MOST_SESSIONS) {
            return Ok(Arc::clone(first));
        }
        let forwarder = Arc::new(self.open(Some(session))?);
        self.first.get_or_insert_with(|| Arc::clone(&forwarder));
        self.by_session
            .insert(session.to_owned(), Arc::clone(&forwarder));
        Ok(forwarder)
    }
}

/// What a task that waits has to tell.
enum Told {
    /// An ask has ended so, and why.
    Ruled(u64, Ruling, String),
    /// The client may be asked about this one.
    ClientMayBeAsked(u64),
}

/// Everything between the two sides.
struct Bridge<'a> {
    proxy: Proxy,
    asking: Asking<'a>,
    directory: PathBuf,
    to_agent: Outlet,
    to_client: Outlet,
    /// What is told to whoever started this. A client may have it come through a pipe that it never reads.
    to_operator: Outlet,
    from_agent: Option<ChildStdout>,
    client_reads: bool,
    client_writes: bool,
    /// Whether the rest of a long line of the agent passes, within one.
    long_of_agent: Option<bool>,
    long_of_client: Option<bool>,
    waits: JoinSet<Told>,
    asks: HashMap<u64, AbortHandle>,
}

impl<'a> Bridge<'a> {
    fn new(agent: &mut Child, asking: Asking<'a>, manners: Manners) -> anyhow::Result<Self> {
        let (Some(stdin), stdout) = (agent.stdin.take(), agent.stdout.take()) else {
            anyhow::bail!("the agent has no standard input");
        };
        Ok(Self {
            proxy: Proxy::new(manners),
            directory: asking.env.cwd().cloned().unwrap_or_default(),
            asking,
            to_agent: Outlet::to(stdin),
            to_client: Outlet::to(tokio::io::stdout()),
            to_operator: Outlet::to(tokio::io::stderr()),
            from_agent: stdout,
            client_reads: true,
            client_writes: true,
            long_of_agent: None,
            long_of_client: None,
            waits: JoinSet::new(),
            asks: HashMap::new(),
        })
    }

    /// Passes on what comes, until the agent has ended and what it wrote is passed on.
    async fn run(
        &mut self,
        agent: &mut Child,
        signals: &mut Signals,
    ) -> anyhow::Result<ExitStatus> {
        let mut client = tokio::io::stdin();
        let (mut of_client, mut of_agent) = (vec![0; CHUNK], vec![0; CHUNK]);
        let mut client_lines = Lines::of_at_most(LONGEST_LOOKED_AT);
        let mut agent_lines = Lines::of_at_most(LONGEST_LOOKED_AT);
        let mut ended = None;
        // When nothing more is expected of an agent that has ended.
        let mut last_at = Instant::now();
        loop {
            if let (Some(status), true) = (ended, self.from_agent.is_none()) {
                return Ok(status);
            }
            tokio::select! {
                read = client.read(&mut of_client), if self.client_writes && self.to_agent.has_room() => {
                    let read = of_client.get(..read.unwrap_or(0)).unwrap_or_default();
                    if read.is_empty() {
                        self.pieces(Side::Client, client_lines.end());
                        self.client_has_gone();
                    } else {
                        self.pieces(Side::Client, client_lines.take(read));
                    }
                }
                read = read_from(&mut self.from_agent, &mut of_agent), if self.to_client.has_room() => {
                    last_at = Instant::now() + AFTER_THE_END;
                    if read == 0 {
                        self.pieces(Side::Agent, agent_lines.end());
                        self.from_agent = None;
                    } else {
                        let pieces = agent_lines.take(of_agent.get(..read).unwrap_or_default());
                        self.pieces(Side::Agent, pieces);
                    }
                }
                () = self.to_agent.room(), if !self.to_agent.has_room() => {}
                () = self.to_client.room(), if !self.to_client.has_room() => {
                    last_at = Instant::now() + AFTER_THE_END;
                }
                () = self.to_client.broken(), if self.client_reads => {
                    // The agent is to see that nobody reads it, as it would without us.
                    self.client_reads = false;
                    self.from_agent = None;
                    self.client_has_gone();
                }
                Some(told) = self.waits.join_next(), if !self.waits.is_empty() => match told {
                    Ok(told) => self.told(told),
                    Err(fault) => self.broke(&fault),
                },
                signal = signals.next() => hand_on(agent, signal),
                status = agent.wait(), if ended.is_none() => {
                    ended = Some(status?);
                    last_at = Instant::now() + AFTER_THE_END;
                }
                () = tokio::time::sleep_until(last_at), if ended.is_some() && self.to_client.has_room() => {
                    self.pieces(Side::Agent, agent_lines.end());
                    self.from_agent = None;
                }
            }
        }
    }

    /// Withdraws what waits, and has written what is to be written.
    async fn end(mut self) {
        self.waits.shutdown().await;
        self.to_client.finish().await;
        // What nobody reads keeps nobody.
        let told = tokio::time::timeout(AFTER_THE_END, self.to_operator.finish());
        let _all_or_not = told.await;
    }

    fn pieces(&mut self, from: Side, pieces: impl IntoIterator<Item = Piece>) {
        for piece in pieces {
            let long = match from {
                Side::Client => &mut self.long_of_client,
                Side::Agent => &mut self.long_of_agent,
            };
            let step = match (&piece, *long) {
                (Piece::Line(line), _) => self.proxy.line(from, line),
                // What was said of the beginning of a line holds for all of it.
                (Piece::Part { .. }, Some(passes)) => Step {
                    passes,
                    effects: Vec::new(),
                },
                (Piece::Part { bytes, .. }, None) => self.proxy.long_line(from, bytes),
            };
            *long = match piece {
                Piece::Part { ends: false, .. } => Some(step.passes),
                Piece::Part { ends: true, .. } | Piece::Line(_) => None,
            };
            let outlet = match from {
                Side::Client => &mut self.to_agent,
                Side::Agent => &mut self.to_client,
            };
            match piece {
                Piece::Line(line) if step.passes => outlet.pass(line, true),
                Piece::Part { bytes, ends } if step.passes => outlet.pass(bytes, ends),
                Piece::Line(_) | Piece::Part { .. } => {}
            }
            self.perform(step.effects);
        }
    }

    fn told(&mut self, told: Told) {
        let effects = match told {
            Told::Ruled(number, ruling, why) => {
                self.asks.remove(&number);
                self.proxy.answered(number, &ruling, &why)
            }
            Told::ClientMayBeAsked(number) => self.proxy.client_may_be_asked(number),
        };
        self.perform(effects);
    }

    /// A task has ended without a word. One that was withdrawn is none of ours any more; by any other, an ask would never end.
    fn broke(&mut self, fault: &JoinError) {
        let mut asks = self.asks.iter();
        let found = asks.find(|(_, ask)| ask.id() == fault.id());
        if let (Some((number, _)), false) = (found, fault.is_cancelled()) {
            let why = "not decided, so not allowed: asking broke".to_owned();
            self.told(Told::Ruled(*number, Ruling::Nobody, why));
        }
    }

    fn client_has_gone(&mut self) {
        self.client_writes = false;
        let effects = self.proxy.client_gone();
        self.perform(effects);
        self.to_agent.close();
    }

    fn perform(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Ask(ask) => self.ask(*ask),
                Effect::Withdraw(number) => {
                    if let Some(ask) = self.asks.remove(&number) {
                        ask.abort();
                    }
                }
                Effect::AskClientSoon(number) => {
                    self.waits.spawn(async move {
                        tokio::time::sleep(CLIENT_AFTER).await;
                        Told::ClientMayBeAsked(number)
                    });
                }
                Effect::ToAgent(line) => self.to_agent.add(line),
                Effect::ToClient(line) => self.to_client.add(line),
                Effect::Say(what) if self.to_operator.has_room() => {
                    let line = format!("askrelay acp: {}\n", visible(&what));
                    self.to_operator.add(line.into_bytes());
                }
                Effect::Say(_) => {}
            }
        }
    }

    fn ask(&mut self, ask: Ask) {
        if !self.client_writes {
            // The agent cannot be answered any more.
            return;
        }
        let number = ask.number;
        let waiting = match self.asking.forwarder(&ask.session) {
            Ok(forwarder) => {
                let call = call_of(ask, &self.directory);
                self.waits.spawn(async move {
                    let (ruling, why) = ruling_of(&forwarder, call).await;
                    Told::Ruled(number, ruling, why)
                })
            }
            Err(error) => {
                let why = format!("not asked, so not allowed: {error:#}");
                self.waits
                    .spawn(std::future::ready(Told::Ruled(number, Ruling::Nobody, why)))
            }
        };
        self.asks.insert(number, waiting);
    }
}

/// Reads; 0 is the end. What is not there is never read from.
async fn read_from(from: &mut Option<ChildStdout>, into: &mut [u8]) -> usize {
    match from {
        // An error is the end: there is nothing more to come.
        Some(from) => from.read(into).await.unwrap_or(0),
        None => std::future::pending().await,
    }
}

fn call_of(ask: Ask, directory: &std::path::Path) -> ToolCall {
    let cwd = ask.directory.map_or_else(
        || directory.to_owned(),
        |of_session| directory.join(of_session),
    );
    let mut call = ToolCall::new(ask.call.tool, ask.call.input, cwd);
    call.evidence.extend(ask.call.evidence);
    call.files = ask.call.files;
    if let (None, Some(named)) = (call.directory(), ask.call.directory) {
        call.cwd.push(named);
    }
    call
}

async fn ruling_of(forwarder: &Forwarder, call: ToolCall) -> (Ruling, String) {
    let ruled = forwarder.ask(call).await;
    forwarder.warn_of_log();
    let decision = ruled.decision();
    let ruling = if decision.is_approved() {
        Ruling::Approved {
            for_longer: decision.state != DecisionState::Approved,
        }
    } else if decision.decided_by.is_nobody() {
        Ruling::Nobody
    } else {
        Ruling::Denied
    };
    let hint = ruled
        .hint()
        .map_or_else(String::new, |hint| format!(" (hint: {hint})"));
    (ruling, format!("{}{hint}", ruled.text()))
}
