//! `askrelay launch -- CMD…`: becomes the command, in an environment in which its asks find this session.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;

use super::env::{self, Env};
use super::exit::Exit;
use super::identity::{self, MAX_PROMPT_BYTES, Making};
use super::place::Place;
use super::role::Ancestor;
use super::{Hinted, PlaceArgs, output, pin, role};
use crate::audit::{Entry, Event};
use crate::clock;
use crate::identity::Directories;
use crate::presentation::text::visible;
use crate::spool::{LivenessProbe, Missing, PromptFile, PromptFiles, Spool};
use crate::wire::{Hop, Liveness, ServingKey, SessionId};

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
    /// Key that the child takes answers of [default: the one that the session is served with]
    #[arg(long, value_name = "KEY")]
    serving_key: Option<String>,
    /// The own system prompt, of which one is made for the child; ASKRELAY_PROMPT_FILE tells it where
    #[arg(long, value_name = "FILE")]
    identity_from: Option<PathBuf>,
    /// Working directory that the own prompt states [default: the own one]
    #[arg(long, value_name = "DIR", requires = "identity_from")]
    parent_cwd: Option<OsString>,
    #[command(flatten)]
    making: Making,
    /// The command
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// The key that a session is served with at this moment, as its heartbeat says. Whoever can write the spool can write a heartbeat,
/// so what is believed here is that nobody does so before the first child is started; afterwards the key is fixed.
fn served_key(spool: &Spool, session: &SessionId) -> Option<ServingKey> {
    let mut probe = LivenessProbe::new(spool.clone(), session.clone());
    if probe.look(clock::now()).liveness != Liveness::Alive {
        return None;
    }
    let text = probe.record()?.relay.as_ref()?.public_key.as_ref()?;
    text.parse().ok()
}

/// The key that the child is told for the session that it asks: the one that is given; else the one that this process was told for
/// that session itself; else, where this process was told none at all, the one that the session is served with now. Who was told
/// keys believes no heartbeat: whoever serves a session that served nobody may be the very tool that the keys are there for.
fn child_key(
    env: &Env,
    spool: &Spool,
    parent: &SessionId,
    given: Option<&str>,
) -> anyhow::Result<Option<ServingKey>> {
    if let Some(text) = given {
        return Ok(Some(pin::parse(text, "--serving-key")?));
    }
    let ancestors = role::lineage(env)?;
    let of_session = ancestors
        .iter()
        .rev()
        .filter(|above| above.hop.session_id == parent.as_str())
        .find_map(|above| above.key.clone());
    let told = pin::told(env)?;
    let own_parent = role::parent_of_served(env, "").ok();
    let is_told_of_it = own_parent.is_none_or(|target| target.session == *parent);
    let known = of_session.or_else(|| told.clone().filter(|_| is_told_of_it));
    if known.is_some() {
        return Ok(known);
    }
    let served = served_key(spool, parent);
    if told.is_none() && ancestors.iter().all(|above| above.key.is_none()) {
        return Ok(served);
    }
    if served.is_some() {
        output::warn(&format!(
            "the key of session \"{}\" was not told to this process, so the child does not ask it, but the nearest session above whose \
             key is known; give the key with --serving-key if that session is to be asked",
            visible(parent.as_str())
        ));
    }
    Ok(None)
}

/// The sessions above the child, outermost first, each with its key where that is known.
fn lineage(
    env: &Env,
    parent: &SessionId,
    key: Option<ServingKey>,
) -> anyhow::Result<Vec<Ancestor>> {
    let mut lineage = role::lineage(env)?;
    if let Some(own_parents) = pin::told(env)? {
        match lineage.last_mut() {
            Some(last) if last.key.is_none() => last.key = Some(own_parents),
            Some(_) => {}
            // Another launcher may have told the key alone.
            None => lineage.extend(role::parent_of_served(env, parent.as_str()).ok().map(
                |target| Ancestor {
                    hop: Hop {
                        session_id: target.session.as_str().to_owned(),
                        agent_name: "unknown".to_owned(),
                    },
                    key: Some(own_parents),
                },
            )),
        }
    }
    lineage.push(Ancestor {
        hop: Hop {
            session_id: parent.as_str().to_owned(),
            agent_name: env.text(env::AGENT).unwrap_or_else(|| "unknown".to_owned()),
        },
        key,
    });
    Ok(lineage)
}

/// The prompt that the child is to have, where one is wanted.
fn child_prompt(env: &Env, args: &Args) -> anyhow::Result<Option<Vec<u8>>> {
    let Some(path) = &args.identity_from else {
        return match args.making.first_given() {
            Some(option) => Err(Hinted::usage(
                format!("{option} is about the child's prompt, and none is made"),
                "say with --identity-from of which prompt it is made",
            )),
            None => Ok(None),
        };
    };
    let Some(agent) = &args.agent else {
        return Err(Hinted::usage(
            "a prompt is made for an agent, and none is named",
            "name it with --agent",
        ));
    };
    let cwd = env.cwd().ok_or_else(identity::no_directory)?;
    let cwd = cwd.clone().into_os_string();
    let parent = args.parent_cwd.as_ref().unwrap_or(&cwd);
    let directories = Directories {
        parent: parent.as_bytes(),
        child: cwd.as_bytes(),
    };
    let made = args.making.make(
        env,
        agent,
        &identity::read(path, MAX_PROMPT_BYTES)?,
        &directories,
    )?;
    made.warn();
    Ok(Some(made.prompt.text))
}

/// Writes the prompt where the child alone reads it, and removes those that no child has any more.
fn keep_prompt(env: &Env, prompt: &[u8]) -> anyhow::Result<PromptFile> {
    let Some(state) = env.state_dir() else {
        return Err(Hinted::nobody(
            "there is no directory for the child's prompt",
            "set HOME or XDG_STATE_HOME",
            None,
        ));
    };
    let files = PromptFiles::new(state.join("prompts"));
    // What is left over does no harm, and the next launch tries again.
    let _swept = files.sweep(clock::wall_ms());
    files.write(&role::minted(), prompt).map_err(|error| {
        Hinted::nobody(
            "the child's prompt cannot be kept",
            "it lies below XDG_STATE_HOME, else below ~/.local/state: name a directory of yours, by its own path",
            Some(error.into()),
        )
    })
}

pub(super) fn run(env: &Env, place_args: &PlaceArgs, args: Args) -> anyhow::Result<Exit> {
    // Before anything is written: a wrong option costs nothing.
    let prompt = child_prompt(env, &args)?;
    let place = Place::new(env, place_args);
    let asking = place.user_config()?;
    asking.warn();
    let config = &asking.config;
    // The child must find a spool, even if it is the first to ask.
    let spool = place.spool(Missing::Create)?;
    let own = role::served(
        env,
        args.session.as_deref(),
        &Place::default_session(config),
    );
    asking.check_default_is_meant(&own.reason)?;
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
    let key = child_key(env, &spool, &parent, args.serving_key.as_deref())?;
    let lineage = lineage(env, &parent, key.clone())?;
    if lineage.iter().all(|ancestor| ancestor.key.is_none()) {
        if config.require_seal.is_on() {
            return Err(Hinted::usage(
                format!(
                    "answers must be sealed, and nobody serves session \"{}\" with a key that the child could be told",
                    visible(parent.as_str())
                ),
                "run `askrelay serve` first, or give the key with --serving-key",
            ));
        }
        output::warn(&format!(
            "nobody serves session \"{}\" with a key, so the child will take answers without a seal",
            visible(parent.as_str())
        ));
    }
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
        // Children that speak the peer's protocol look for these: whose child one is, and that it is one.
        .env(env::PEER_PARENTS[1], parent.as_str())
        .env(env::CHILD_HINTS[0], "1")
        .env_remove(env::PEER_PARENTS[0]);
    match &key {
        Some(key) => command.env(env::SERVING_KEY, key.to_string()),
        // That of the own parent: the child asks somebody else.
        None => command.env_remove(env::SERVING_KEY),
    };
    let prompt_file = match prompt {
        Some(prompt) => Some(keep_prompt(env, &prompt)?),
        None => None,
    };
    match &prompt_file {
        Some(file) => command.env(env::PROMPT_FILE, &file.path),
        // That of this process.
        None => command.env_remove(env::PROMPT_FILE),
    };
    for (name, path) in [
        (env::CONFIG, &place_args.config),
        (env::LOG, &place_args.log),
    ] {
        if let Some(path) = path {
            command.env(name, place.absolute(path));
        }
    }
    // So that a child that never asks can be told from one that there was not.
    let launched = Entry::new(Event::ChildLaunched)
        .with("childSessionId", child.as_str())
        .with("parentSessionId", parent.as_str())
        .with("agentName", agent.as_str());
    let _recorded = place.log(config).append(clock::wall_ms(), &launched);
    Err(become_command(command, prompt_file))
}

/// Becomes the command. Only comes back when that failed.
fn become_command(mut command: Command, prompt: Option<PromptFile>) -> anyhow::Error {
    let error = command.exec();
    if let Some(file) = prompt {
        file.discard();
    }
    let exit = if error.kind() == std::io::ErrorKind::NotFound {
        Exit::NotFound
    } else {
        Exit::NobodyRuled
    };
    Hinted {
        message: format!("cannot start {}", command.get_program().to_string_lossy()),
        hint: "check that the command is on PATH and executable".to_owned(),
        exit,
        source: Some(error.into()),
    }
    .into()
}
