//! `askrelay doctor`: whether everything is in place, and whether the hook of an agent really fires. It changes nothing of the
//! user's: what it tries, it tries in a scratch spool, with a server and a model of its own.

mod hook;
mod host;
mod live;
mod machine;
mod model;
mod permit;
mod scratch;

use std::path::PathBuf;

use serde_json::json;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::env::Env;
use super::exit::Exit;
use super::install::hosts::layers;
use super::install::parse_host;
use super::output::Out;
use super::place::Place;
use super::{Hinted, PlaceArgs};
use crate::host::install::Host;
use crate::presentation::text::visible;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Agent whose hook is tried [default: what is common to all of them]
    #[arg(value_name = "HOST", value_parser = parse_host)]
    host: Option<Host>,
    /// Start the agent itself, in a scratch home, with a model on this machine that asks for one harmless command
    #[arg(long, requires = "host")]
    live: bool,
    /// Print one JSON object a line
    #[arg(long)]
    json: bool,
}

/// How something stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Level {
    Ok,
    Warn,
    Fail,
}

impl Level {
    const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Fail => "fail",
        }
    }
}

/// One thing that was looked at.
struct Line {
    level: Level,
    /// Name of the check, for programs.
    check: &'static str,
    what: String,
    hint: Option<String>,
}

/// Everything that was looked at, in its order; told as it comes.
struct Checks {
    out: Out,
    json: bool,
    failed: usize,
    warned: usize,
}

impl Checks {
    fn ok(&mut self, check: &'static str, what: impl Into<String>) -> anyhow::Result<()> {
        self.tell(&Line {
            level: Level::Ok,
            check,
            what: what.into(),
            hint: None,
        })
    }

    fn warn(
        &mut self,
        check: &'static str,
        what: impl Into<String>,
        hint: impl Into<String>,
    ) -> anyhow::Result<()> {
        self.tell(&Line {
            level: Level::Warn,
            check,
            what: what.into(),
            hint: Some(hint.into()),
        })
    }

    fn fail(
        &mut self,
        check: &'static str,
        what: impl Into<String>,
        hint: impl Into<String>,
    ) -> anyhow::Result<()> {
        self.tell(&Line {
            level: Level::Fail,
            check,
            what: what.into(),
            hint: Some(hint.into()),
        })
    }

    fn tell(&mut self, line: &Line) -> anyhow::Result<()> {
        match line.level {
            Level::Ok => {}
            Level::Warn => self.warned += 1,
            Level::Fail => self.failed += 1,
        }
        if self.json {
            self.out.json(&json!({
                "level": line.level.name(),
                "check": line.check,
                "what": line.what,
                "hint": line.hint,
            }))?;
        } else {
            let level = line.level.name();
            self.out
                .line(&format!("{level:<5} {}", visible(&line.what)))?;
            if let Some(hint) = &line.hint {
                self.out.line(&format!("      hint: {}", visible(hint)))?;
            }
        }
        // The next thing may take its time.
        self.out.flush()
    }

    fn finish(mut self, tried: Option<(Host, bool)>) -> anyhow::Result<Exit> {
        let healthy = self.failed == 0;
        if !self.json {
            let warned = match self.warned {
                0 => String::new(),
                1 => ", 1 warning".to_owned(),
                count => format!(", {count} warnings"),
            };
            let failed = match self.failed {
                0 => "healthy".to_owned(),
                1 => "1 failure".to_owned(),
                count => format!("{count} failures"),
            };
            let meaning = match tried {
                None => String::new(),
                Some((host, live)) => meaning(host, live, healthy),
            };
            self.out.line(&format!("{failed}{warned}{meaning}"))?;
        }
        self.out.flush()?;
        Ok(if healthy { Exit::Ok } else { Exit::Denied })
    }
}

pub(super) fn run(env: &Env, place_args: &PlaceArgs, args: &Args) -> anyhow::Result<Exit> {
    let place = Place::new(env, place_args);
    let mut checks = Checks {
        out: Out::stdout(),
        json: args.json,
        failed: 0,
        warned: 0,
    };
    let project: Option<PathBuf> = place.project()?;
    machine::look(env, &place, &mut checks)?;
    match args.host {
        None => {
            for host in Host::ALL {
                host::summary(env, host, project.as_deref(), &mut checks)?;
            }
        }
        Some(host) => {
            let runtime = super::runtime()?;
            let around = host::Around {
                project: project.as_deref(),
                is_named: place_args.project.is_some(),
            };
            // What was started ends with what is dropped, and the scratch place goes.
            let done: anyhow::Result<Option<()>> = runtime.block_on(async {
                let mut stop = Stop::new()?;
                tokio::select! {
                    () = stop.come() => Ok(None),
                    done = one(env, host, around, args.live, &mut checks) => done.map(Some),
                }
            });
            if done?.is_none() {
                return Ok(Exit::Interrupted);
            }
        }
    }
    checks.finish(args.host.map(|host| (host, args.live)))
}

/// What it comes to, for whoever reads nothing else.
fn meaning(host: Host, live: bool, healthy: bool) -> String {
    let (title, name) = (host.title(), host.name());
    match (healthy, live) {
        (true, true) => format!(
            ": askrelay is in charge of {title}, which was started and did as the rules said"
        ),
        (true, false) => format!(
            ": askrelay is in charge of {title}; `askrelay doctor {name} --live` starts it and shows that it heeds"
        ),
        (false, _) => format!(": do not rely on askrelay being in charge of {title}"),
    }
}

/// The beginning of what a model or a person is told, for one line of many.
fn brief(text: &str) -> String {
    const MOST: usize = 110;
    let line = text.lines().next().unwrap_or_default();
    match line.char_indices().nth(MOST) {
        None => line.to_owned(),
        Some((end, _)) => format!("{}…", line.get(..end).unwrap_or(line)),
    }
}

/// The signals that end it.
struct Stop([Signal; 3]);

impl Stop {
    fn new() -> anyhow::Result<Self> {
        Ok(Self([
            signal(SignalKind::interrupt())?,
            signal(SignalKind::terminate())?,
            signal(SignalKind::hangup())?,
        ]))
    }

    async fn come(&mut self) {
        let [interrupt, terminate, hangup] = &mut self.0;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hangup.recv() => {}
        }
    }
}

/// Looks at one agent, and tries its hooks.
async fn one(
    env: &Env,
    host: Host,
    around: host::Around<'_>,
    live: bool,
    checks: &mut Checks,
) -> anyhow::Result<()> {
    let gates = host::look(env, host, around, checks).await?;
    let install = format!("run `askrelay install {}`", host.name());
    if gates.count == 0 {
        let read = layers(env, host, around.project);
        let read: Vec<String> = read
            .iter()
            .map(|layer| layer.path.to_string_lossy().into_owned())
            .collect();
        checks.fail(
            "hook.present",
            format!("no hook of askrelay stands in {}", read.join(", ")),
            install,
        )?;
        if live {
            let hint = format!("run `askrelay install {}` first", host.name());
            return Err(Hinted::usage("there is no hook to try", hint));
        }
        return Ok(());
    }
    if gates.tried.is_empty() {
        return checks.fail(
            "hook.present",
            "no hook was tried, so it is not known whether any holds",
            install,
        );
    }
    hook::prove(env, host, &gates.tried, checks).await?;
    if live {
        live::prove(env, host, &gates, checks).await?;
    }
    Ok(())
}
