//! `askrelay serve`: answers the children of a session, by policy or by asking the person at this terminal.

use std::io::{BufReader, IsTerminal as _};
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context as _;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use super::env::{self, Env};
use super::events::Listener;
use super::exit::Exit;
use super::pin::Pins;
use super::place::{Loaded, Place};
use super::programs::Programs;
use super::reload::{self, Reload};
use super::{Hinted, PlaceArgs, output, role};
use crate::ask::{self, Requester, Trust};
use crate::audit::ReviewLog;
use crate::clock;
use crate::policy::{self, Config};
use crate::presentation::fit::Budget;
use crate::prompt::{
    Colours, DialogSettings, InboxSettings, Input, PersonEvent, PersonEvents, Presses, Prompter,
    SelectPrompter, TerminalPrompter,
};
use crate::serve::{Broadcasts, Mode, Notices, Parent, Renewal, Server, Settings};
use crate::spool::{Missing, Spool, Watch};
use crate::wire::{Generation, SessionId};

/// How many broadcasts a listener may be behind before it misses some.
const BROADCASTS_AHEAD: usize = 1024;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The session that is served [env: ASKRELAY_SESSION] [default: main]
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// Own agent name [env: ASKRELAY_AGENT]
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// How you are asked [default: dialog on a terminal, else headless]
    #[arg(long, value_enum)]
    mode: Option<ModeArg>,
    /// Rows of a prompt before its evidence gives way [default: promptMaxRows of the configuration]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    max_rows: Option<u16>,
    /// Write what is asked and how it ended to this file, or to stdout with `-`: one JSON object a line
    #[arg(long, value_name = "FILE")]
    events: Option<PathBuf>,
    /// Key that the own parent seals its answers with [env: ASKRELAY_SERVING_KEY]
    #[arg(long, value_name = "KEY")]
    serving_key: Option<String>,
    /// Ask the own parent in the form of the oldest generation of the peer
    #[arg(long, value_name = "GENERATION", value_parser = ["g1"])]
    peer: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum ModeArg {
    /// One bounded dialog at a time, on this terminal
    Dialog,
    /// A list on this terminal: asks wait until you open them
    Inbox,
    /// Numbered questions on stdout, answers from stdin
    Select,
    /// Policy only; what it leaves open goes to the own parent, or is denied as unavailable
    Headless,
}

pub(super) fn run(env: &Env, place_args: &PlaceArgs, args: Args) -> anyhow::Result<Exit> {
    let place = Place::new(env, place_args);
    let loaded = place.config()?;
    let mode = mode(env, args.mode, loaded.config.inbox)?;
    let wanted = Wanted {
        session: args.session,
        agent: args.agent,
        mode,
        max_rows: args.max_rows,
        serving_key: args.serving_key,
        writes_oldest: args.peer.is_some(),
    };
    let prepared = Prepared::new(env, &place, loaded, wanted)?;
    let (events, person) = mpsc::unbounded_channel();
    let listener = match args.events {
        Some(target) => Some(Listener::start(
            &target,
            mode,
            prepared.settings.broadcasts.subscribe(),
        )?),
        None => None,
    };
    super::runtime()?.block_on(async {
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        let mut hangup = signal(SignalKind::hangup())?;
        let mut quit = signal(SignalKind::quit())?;
        let prompter = prompter(mode, prepared.dialog.clone(), colours(env), events)?;
        let server = prepared.start(prompter, person)?;
        server
            .run(async move {
                tokio::select! {
                    _ = interrupt.recv() => {}
                    _ = terminate.recv() => {}
                    _ = hangup.recv() => {}
                    _ = quit.recv() => {}
                }
            })
            .await?;
        // The last words of the session are told as well.
        drop(listener);
        Ok(Exit::Ok)
    })
}

/// Which session is to be served, and how.
pub(super) struct Wanted {
    /// The session.
    pub(super) session: Option<String>,
    /// The own agent name.
    pub(super) agent: Option<String>,
    /// How a person is asked.
    pub(super) mode: Mode,
    /// Rows of a prompt, where the configuration is not to say.
    pub(super) max_rows: Option<u16>,
    /// The key that the own parent seals with.
    pub(super) serving_key: Option<String>,
    /// Whether the own parent is asked in the form of the oldest generation of the peer.
    pub(super) writes_oldest: bool,
}

/// A session that can be served: everything is resolved, and nothing has begun.
pub(super) struct Prepared {
    spool: Spool,
    settings: Settings,
    watch: Option<Arc<Watch>>,
    log: Arc<ReviewLog>,
    renew: mpsc::UnboundedSender<Renewal>,
    programs: Programs,
    home: Option<String>,
    loaded: Loaded,
    /// How a person is shown things.
    pub(super) dialog: DialogSettings,
}

impl Prepared {
    /// Resolves who serves what, with which rules.
    pub(super) fn new(
        env: &Env,
        place: &Place<'_>,
        loaded: Loaded,
        wanted: Wanted,
    ) -> anyhow::Result<Self> {
        let log = if loaded.config.require_audit.is_on() {
            place
                .required_log(&loaded.config)
                .context("this session decides nothing unrecorded")?
        } else {
            place.log(&loaded.config)
        };
        let spool = place.spool(Missing::Create)?;
        let session = session(env, wanted.session.as_deref(), &loaded.config)?;
        let agent = wanted
            .agent
            .or_else(|| env.text(env::AGENT))
            .unwrap_or_else(|| "unknown".to_owned());
        let watch = start_watch();
        let generation = if wanted.writes_oldest {
            Generation::G1
        } else {
            loaded.config.peer_generation
        };
        let ancestors = role::lineage(env)?;
        let pins = Pins::new(
            env,
            wanted.serving_key.as_deref(),
            &ancestors,
            loaded.config.require_seal.is_on(),
        )?;
        let parent = asking(env, &session, &agent, generation, &pins).map(|settings| Parent {
            session: settings.target.clone(),
            requester: Requester::new(&spool, settings, watch.clone(), Arc::clone(&log)),
        });
        let dialog = dialog_settings(&loaded.config, &session, wanted.max_rows);
        let home = place.home();
        let files = loaded.files.clone();
        let programs = Programs::new(env.clone(), place.debug_log(&loaded.config));
        let first = reload::renewal(
            &programs,
            &loaded.force,
            &loaded.layered,
            home.as_deref(),
            files,
        );
        let (mut settings, renew) = settings(
            &loaded,
            home.clone(),
            first,
            session,
            agent,
            wanted.mode,
            parent,
        );
        may_keep_grants(&mut settings, &log);
        Ok(Self {
            spool,
            settings,
            watch,
            log,
            renew,
            programs,
            home,
            loaded,
            dialog,
        })
    }

    /// Takes the session and says so. Must be called within a runtime.
    pub(super) fn start(
        self,
        prompter: Option<Box<dyn Prompter>>,
        person: mpsc::UnboundedReceiver<PersonEvent>,
    ) -> anyhow::Result<Server> {
        let mode = self.settings.mode;
        let path = self.spool.session_path(&self.settings.session);
        let greeting = greeting(&self.settings, &path);
        let files_watch = self.watch.clone();
        let server = Server::start(
            &self.spool,
            self.settings,
            self.watch,
            self.log,
            prompter,
            person,
        )?;
        greet(mode, &server, &greeting);
        Reload::start(
            self.programs,
            self.home,
            self.loaded,
            files_watch,
            self.renew,
        )
        .context("cannot look after the configuration")?;
        Ok(server)
    }
}

/// The session that is to be served: named, or the configured default.
pub(super) fn session(env: &Env, flag: Option<&str>, config: &Config) -> anyhow::Result<SessionId> {
    let own = role::served(env, flag, &Place::default_session(config));
    SessionId::parse(&own.id).map_err(|error| {
        Hinted::usage(
            format!(
                "{:?} (from {}) cannot be served: {error}",
                own.id, own.reason
            ),
            "name the session with --session",
        )
    })
}

/// Grants outlive the server only where a review log can bear them out afterwards; says so where there is none.
fn may_keep_grants(settings: &mut Settings, log: &ReviewLog) {
    if settings.persist_grants && !log.is_enabled() {
        output::warn(
            "\"persistGrants\" is on, and no review log is kept that could bear a grant out after a restart: grants end with this server",
        );
        settings.persist_grants = false;
    }
}

/// How this session asks in turn: only where a variable names a parent, and one that can be believed.
fn asking(
    env: &Env,
    session: &SessionId,
    agent: &str,
    generation: Generation,
    pins: &Pins<'_>,
) -> Option<ask::Settings> {
    let named = role::parent_of_served(env, session.as_str()).ok()?.session;
    let target = pins.nearest_known(&named, session.as_str());
    let trust = pins.trust(&target);
    may_be_asked(&trust, &target).then(|| ask::Settings {
        target,
        session_id: session.as_str().to_owned(),
        agent_name: agent.to_owned(),
        generation,
        trust,
        where_nobody_serves: ask::WhereNobodyServes::Wait,
    })
}

/// Whether a parent can be asked at all; says what its answers are worth where that is less than it could be.
fn may_be_asked(trust: &Trust, parent: &SessionId) -> bool {
    let parent = crate::presentation::text::visible(parent.as_str());
    match trust {
        Trust::Pinned(_) => true,
        Trust::Anybody => {
            output::warn(&format!(
                "answers of the parent session \"{parent}\" count without a seal: its key is not known"
            ));
            true
        }
        Trust::NoKey => {
            output::warn(&format!(
                "the parent session \"{parent}\" is not asked: its key is not known, and answers must be sealed"
            ));
            false
        }
    }
}

/// How the person is asked: as wanted, or as the streams allow.
fn mode(env: &Env, wanted: Option<ModeArg>, inbox: policy::Inbox) -> anyhow::Result<Mode> {
    let (input, screen) = (std::io::stdin().is_terminal(), has_screen(env));
    Ok(match wanted {
        Some(ModeArg::Dialog | ModeArg::Inbox) if !screen => {
            return Err(Hinted::usage(
                "this mode needs a terminal on stdin and stdout".to_owned(),
                "use --mode select to be asked on other streams",
            ));
        }
        Some(ModeArg::Dialog) => Mode::Dialog,
        Some(ModeArg::Inbox) => Mode::Inbox(inbox),
        Some(ModeArg::Select) => Mode::Select,
        None if screen => Mode::Dialog,
        None if input => Mode::Select,
        Some(ModeArg::Headless) | None => Mode::Headless,
    })
}

/// Whether a person sits before a screen that can be drawn on.
pub(super) fn has_screen(env: &Env) -> bool {
    std::io::stdin().is_terminal()
        && std::io::stdout().is_terminal()
        && env.text(env::TERM).is_none_or(|term| term != "dumb")
}

pub(super) fn colours(env: &Env) -> Colours {
    if env.text(env::NO_COLOR).is_some() {
        Colours::Plain
    } else {
        Colours::Shown
    }
}

pub(super) fn dialog_settings(
    config: &Config,
    session: &SessionId,
    max_rows: Option<u16>,
) -> DialogSettings {
    DialogSettings {
        session: crate::presentation::text::visible(session.as_str()).into_owned(),
        budget: Budget {
            rows: max_rows.map_or(config.prompt_max_rows, usize::from),
            field_units: config.prompt_field_max_width,
        },
        keys: config.permission_dialog_keys,
        presses: if config.double_press_to_confirm.is_on() {
            Presses::Two
        } else {
            Presses::One
        },
    }
}

/// What puts asks before the person, where one is asked here. A screen is taken from now on.
pub(super) fn prompter(
    mode: Mode,
    dialog: DialogSettings,
    colours: Colours,
    events: PersonEvents,
) -> anyhow::Result<Option<Box<dyn Prompter>>> {
    Ok(match mode {
        Mode::Dialog => Some(Box::new(TerminalPrompter::dialog(dialog, colours, events)?)),
        Mode::Select => Some(Box::new(select_prompter(dialog.budget, events)?)),
        Mode::Inbox(_) => {
            let since_start = clock::now().since_start().as_millis();
            let inbox = InboxSettings {
                session: dialog.session,
                clock_start_ms: clock::wall_ms() - i64::try_from(since_start).unwrap_or_default(),
            };
            Some(Box::new(TerminalPrompter::inbox(inbox, colours, events)?))
        }
        // Its forms go where the protocol does.
        Mode::Form | Mode::Headless => None,
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

fn select_prompter(budget: Budget, events: PersonEvents) -> anyhow::Result<SelectPrompter> {
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
    SelectPrompter::start(
        Box::new(std::io::stdout()),
        input,
        kind,
        columns,
        budget,
        events,
    )
    .context("cannot start reading the input")
}

/// How the session is served, and where renewals of its configuration are sent. What a renewal brings is what it starts with.
fn settings(
    loaded: &Loaded,
    home: Option<String>,
    first: Renewal,
    session: SessionId,
    agent: String,
    mode: Mode,
    parent: Option<Parent>,
) -> (Settings, mpsc::UnboundedSender<Renewal>) {
    let (renew, renewals) = mpsc::unbounded_channel();
    let settings = Settings {
        authorizers: first.authorizers,
        annotators: first.annotators,
        session,
        agent,
        mode,
        parent,
        policy: first.policy,
        renewals,
        trouble: first.trouble,
        home,
        forwarding_timeout: first.forwarding_timeout,
        request_max_age: first.request_max_age,
        limits: first.limits,
        require_audit: loaded.config.require_audit.is_on(),
        persist_grants: loaded.config.persist_grants.is_on(),
        notices: Some(Notices::new(output::warn)),
        broadcasts: Broadcasts::new(BROADCASTS_AHEAD),
    };
    (settings, renew)
}

/// Says what is served, and with which key.
fn greet(mode: Mode, server: &Server, greeting: &str) {
    let key = format!("it seals with {}", server.public_key());
    match mode {
        Mode::Dialog => {
            server.notice(greeting);
            server.notice(&key);
        }
        // Its first row says what is served, all the time, and its last one is for what can be done.
        Mode::Inbox(_) => {}
        Mode::Select | Mode::Form | Mode::Headless => {
            output::say(greeting);
            output::say(&key);
        }
    }
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
