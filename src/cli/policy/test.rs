//! `askrelay policy test`: judges one ask on paper, as a server with this configuration would, and tells every step.

use std::io::Read as _;
use std::path::Path;

use anyhow::Context as _;
use clap::ValueEnum;

use crate::ask::{PlainAsk, Spellings, intent_of};
use crate::cli::env::Env;
use crate::cli::exit::Exit;
use crate::cli::ls::each_request;
use crate::cli::output::Out;
use crate::cli::place::Place;
use crate::cli::{Hinted, PlaceArgs};
use crate::policy::{
    BASH_SURFACE, Explained, Question, SessionRules, TextFidelity, Verdict, is_path_surface,
};
use crate::presentation::explain;
use crate::spool::path_spellings;
use crate::wire::{
    ForwardedAccessIntent, ForwardedPermissionRequest, MAX_REQUEST_BYTES, Principal, PromptPayload,
    RequestId,
};

#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("what").required(true).args(["line", "command", "path", "value", "request"]))]
pub(in crate::cli) struct Args {
    /// A command line
    #[arg(value_name = "LINE")]
    line: Option<String>,
    /// A command line, where it could be taken for a flag
    #[arg(long, value_name = "LINE", allow_hyphen_values = true)]
    command: Option<String>,
    /// A path, as seen from here
    #[arg(long, value_name = "PATH", allow_hyphen_values = true)]
    path: Option<String>,
    /// What would be done with the path; both where it is not said
    #[arg(
        long,
        value_name = "DIRECTION",
        requires = "path",
        conflicts_with = "surface"
    )]
    direction: Option<Direction>,
    /// The surface of the value or of the path
    #[arg(long, value_name = "NAME", conflicts_with_all = ["line", "command", "request"])]
    surface: Option<String>,
    /// A value on that surface; give it again for further spellings
    #[arg(
        long,
        value_name = "VALUE",
        requires = "surface",
        allow_hyphen_values = true
    )]
    value: Vec<String>,
    /// A request: its file, its id in the spool, or - for stdin
    #[arg(long, value_name = "FILE|ID")]
    request: Option<String>,
    /// The agent in whose name it is asked [env: ASKRELAY_AGENT]
    #[arg(long, value_name = "NAME", conflicts_with = "request")]
    agent: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Direction {
    Read,
    Write,
}

/// What is judged.
struct Subject {
    intent: Option<ForwardedAccessIntent>,
    payload: Option<PromptPayload>,
    text: TextFidelity,
}

pub(super) fn run(env: &Env, place_args: &PlaceArgs, args: &Args) -> anyhow::Result<Exit> {
    let place = Place::new(env, place_args);
    let policy = place.config()?.policy(place.home().as_deref());
    let subject = match &args.request {
        Some(named) => recorded(&place, named)?,
        None => plain(env, args),
    };
    let question = Question {
        intent: subject.intent.as_ref(),
        text: subject.text,
        payload: subject.payload.as_ref(),
    };
    let explained = policy.explain(&question, &SessionRules::default());
    print(&explained, subject.intent.as_ref(), args.json)?;
    Ok(match explained.judgement.verdict {
        Verdict::Allow => Exit::Ok,
        Verdict::Deny => Exit::Denied,
        Verdict::Ask => Exit::NobodyRuled,
    })
}

fn print(
    explained: &Explained,
    intent: Option<&ForwardedAccessIntent>,
    as_json: bool,
) -> anyhow::Result<()> {
    let mut out = Out::stdout();
    if as_json {
        out.json(&explain::json(explained, intent))?;
    } else {
        for line in explain::lines(explained, intent) {
            out.line(&line)?;
        }
    }
    out.flush()
}

/// The facts that `askrelay ask` would send.
fn plain(env: &Env, args: &Args) -> Subject {
    let cwd = env.cwd().cloned().unwrap_or_default();
    let (surface, values) = match (&args.line, &args.command, &args.path) {
        (Some(line), _, _) | (None, Some(line), _) => (BASH_SURFACE, vec![line.clone()]),
        (None, None, Some(path)) => {
            let surface = match args.direction {
                Some(Direction::Read) => "path_read",
                Some(Direction::Write) => "path_write",
                None => "path",
            };
            (
                args.surface.as_deref().unwrap_or(surface),
                vec![path.clone()],
            )
        }
        (None, None, None) => (
            args.surface.as_deref().unwrap_or_default(),
            args.value.clone(),
        ),
    };
    let first = values.first().cloned().unwrap_or_default();
    let spellings = if is_path_surface(surface) && values.len() == 1 {
        let (values, canonical) = path_spellings(&first, &cwd);
        Spellings {
            values,
            boundary: Some(canonical),
        }
    } else {
        Spellings {
            values,
            boundary: None,
        }
    };
    let ask = PlainAsk {
        tool: surface.to_owned(),
        surface: surface.to_owned(),
        kind: None,
        value: first,
        evidence: Vec::new(),
    };
    let payload = ask.payload();
    let agent = args.agent.clone();
    let principal = Principal {
        session_id: String::new(),
        agent_name: agent
            .or_else(|| env.text(crate::cli::env::AGENT))
            .unwrap_or_default(),
    };
    let cwd = cwd.to_string_lossy().into_owned();
    Subject {
        intent: Some(intent_of(&payload, spellings, cwd, principal)),
        payload: Some(payload),
        text: TextFidelity::Exact,
    }
}

/// A request that somebody wrote.
fn recorded(place: &Place<'_>, named: &str) -> anyhow::Result<Subject> {
    let request = if named == "-" {
        let mut bytes = Vec::new();
        std::io::stdin()
            .take(MAX_REQUEST_BYTES as u64 + 1)
            .read_to_end(&mut bytes)
            .context("cannot read the request from stdin")?;
        read(&bytes, "stdin")?
    } else if named.contains(['/', '.']) || RequestId::parse(named).is_none() {
        let path = place.absolute(Path::new(named));
        read(&crate::cli::ask::read_text_file(&path)?, named)?
    } else {
        waiting(place, named)?
    };
    Ok(Subject {
        text: if request.was_replaced {
            TextFidelity::Replaced
        } else {
            TextFidelity::Exact
        },
        intent: request.access_intent,
        payload: request.payload,
    })
}

fn read(bytes: &[u8], named: &str) -> anyhow::Result<ForwardedPermissionRequest> {
    ForwardedPermissionRequest::from_json(bytes).map_err(|unusable| {
        Hinted::usage(
            format!("{named:?} holds no request: {unusable}"),
            "give a file as it lies below requests/ of a session, or the id of an ask that waits",
        )
    })
}

fn waiting(place: &Place<'_>, id: &str) -> anyhow::Result<ForwardedPermissionRequest> {
    let mut found = Vec::new();
    each_request(place, None, |_, view| {
        let is_it = view.id.as_ref().is_some_and(|it| it.as_str() == id);
        if is_it && let Ok((request, _)) = &view.content {
            found.push(request.as_ref().clone());
        }
    })?;
    let mut found = found.into_iter();
    match (found.next(), found.next()) {
        (Some(request), None) => Ok(request),
        (None, _) => Err(Hinted::usage(
            format!("no ask {id:?} is waiting that could be read"),
            "`askrelay ls` lists those that wait; give a file with its directory, as ./FILE",
        )),
        (Some(_), Some(_)) => Err(Hinted::usage(
            format!("more than one ask {id:?} is waiting"),
            "give the file of the one that is meant",
        )),
    }
}
