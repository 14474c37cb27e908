//! `askrelay demo`: a serving session and three child processes in one terminal, in a spool of its own that is removed at
//! the end. On a terminal you answer; without one a script does, and says so.

use std::io::IsTerminal as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use anyhow::Context as _;
use tokio::sync::{mpsc, oneshot};

use super::env::{self, Env};
use super::exit::Exit;
use super::output::Out;
use super::serve::{colours, dialog_settings, has_screen, prompter, start_watch};
use crate::audit::{Access, Options, Record, ReviewLog, read_entries, verify};
use crate::policy::{Config, LayerRules, Layers, Policy};
use crate::presentation::select::Choice;
use crate::presentation::text::visible;
use crate::prompt::{Prompter, ScriptedPrompter};
use crate::serve::{Mode, Server, Settings, Shown};
use crate::spool::{Missing, Spool};
use crate::wire::SessionId;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Answer from the script, on a terminal too
    #[arg(long)]
    scripted: bool,
}

/// The rules of the demonstration.
const RULES: &str = r#"{"permission": {"bash": {
    "*": "ask",
    "ls *": "allow",
    "git push *": {"action": "deny", "reason": "pushes are made by hand"}
}}}"#;

/// What the three children want, one after the other.
const CHILDREN: [(&str, &[&str]); 3] = [
    ("scout", &["ls -la", "git push --force origin main"]),
    ("builder", &["rm -rf build"]),
    ("deployer", &["kubectl delete pod web-1"]),
];

/// The reason that the script gives for its one denial.
const SCRIPTED_REASON: &str = "not while the release is running";

pub(super) fn run(env: &Env, args: &Args) -> anyhow::Result<Exit> {
    let scripted =
        args.scripted || !(std::io::stdin().is_terminal() && std::io::stdout().is_terminal());
    let place = tempfile::Builder::new()
        .prefix("askrelay-demo-")
        .tempdir()
        .context("cannot make a directory")?;
    let spool_path = place.path().join("spool");
    let log_path = place.path().join("review.jsonl");
    let spool = Spool::open(&spool_path, Missing::Create)?;
    let log = Arc::new(ReviewLog::open(&log_path, Options::default())?);
    let config = Config::read(RULES.as_bytes(), "the demo's rules").map_err(anyhow::Error::msg)?;
    let layers = Layers {
        global: LayerRules::Rules(&config.permission),
        ..Layers::default()
    };
    let session = SessionId::parse("demo").map_err(anyhow::Error::msg)?;
    let (events, person) = mpsc::unbounded_channel();
    introduce(&spool_path, scripted)?;
    let mode = if has_screen(env) {
        Mode::Dialog
    } else {
        Mode::Select
    };
    let prompter = if scripted {
        Some(Box::new(ScriptedPrompter::new(Box::new(script), events)) as Box<dyn Prompter>)
    } else {
        let dialog = dialog_settings(&config, &session, None);
        prompter(mode, dialog, colours(env), events)?
    };
    let settings = Settings {
        agent: "demo".to_owned(),
        mode,
        policy: Arc::new(Policy::from_layers(&layers)),
        home: env.home().map(|home| home.to_string_lossy().into_owned()),
        ..Settings::new(session)
    };
    let program = std::env::current_exe().context("cannot find this program")?;
    super::runtime()?.block_on(async {
        let server = Server::start(&spool, settings, start_watch(), log, prompter, person)?;
        let (done, all_done) = oneshot::channel::<()>();
        let key = server.public_key().to_string();
        let children = start_children(&program, &spool_path, place.path(), &key, done)?;
        let run = server.run(async move {
            // The children's end is the session's: the sender is dropped with the last of them.
            let _ended = all_done.await;
        });
        run.await?;
        // They have ended, or the session would still run.
        let outcomes = children
            .into_iter()
            .flat_map(|child| child.join().unwrap_or_default());
        tell_outcomes(outcomes)?;
        anyhow::Ok(())
    })?;
    tell_story(&log_path)?;
    Ok(Exit::Ok)
}

fn introduce(spool: &Path, scripted: bool) -> anyhow::Result<()> {
    let mut out = Out::stdout();
    out.line("askrelay demo: a parent session and three subagents, each a process of its own.")?;
    out.line(&format!("They meet in the spool {}.", spool.display()))?;
    out.line("")?;
    out.line(
        "Rules of the parent: `ls *` is allowed, `git push *` is denied, everything else asks you.",
    )?;
    if scripted {
        out.line("There is no terminal to ask on, so a script answers: yes to `rm`, no to everything else.")?;
    }
    out.line("")?;
    out.flush()
}

/// What the script answers.
fn script(shown: &Shown) -> Choice {
    if shown.request.projection().request.value.starts_with("rm ") {
        Choice::Once
    } else {
        Choice::DenyWithReason(SCRIPTED_REASON.to_owned())
    }
}

/// Starts the children, each on a thread that gives what came of its asks. `done` is dropped when all have ended.
fn start_children(
    program: &Path,
    spool: &Path,
    place: &Path,
    key: &str,
    done: oneshot::Sender<()>,
) -> anyhow::Result<Vec<std::thread::JoinHandle<Vec<String>>>> {
    let done = Arc::new(done);
    CHILDREN
        .into_iter()
        .map(|(agent, commands)| {
            let (program, spool, place) = (program.to_owned(), spool.to_owned(), place.to_owned());
            let key = key.to_owned();
            let done = Arc::clone(&done);
            let thread = std::thread::Builder::new()
                .name(agent.to_owned())
                .spawn(move || {
                    let outcomes = commands.iter().map(|command| {
                        let outcome = ask(&program, &spool, &place, &key, agent, command)
                            .unwrap_or_else(|error| format!("could not ask: {error:#}"));
                        format!("  {agent:<9} {command:<30} -> {outcome}")
                    });
                    let outcomes = outcomes.collect();
                    drop(done);
                    outcomes
                });
            thread.context("cannot start a thread")
        })
        .collect()
}

/// One ask by a child process, as a launcher would start it.
fn ask(
    program: &Path,
    spool: &Path,
    place: &Path,
    key: &str,
    agent: &str,
    command: &str,
) -> anyhow::Result<String> {
    let ended = Command::new(program)
        .args([
            "ask",
            "--value",
            command,
            "--session",
            "demo",
            "--from",
            agent,
            "--agent",
            agent,
        ])
        .env(env::SPOOL, spool)
        .env(env::SERVING_KEY, key)
        .env(env::LOG, place.join("review.jsonl"))
        // No configuration of this machine may answer for the demonstration.
        .env("XDG_CONFIG_HOME", place)
        .env_remove(env::CONFIG)
        .stdin(Stdio::null())
        .output()
        .context("cannot start a child")?;
    let text = String::from_utf8_lossy(&ended.stdout);
    let state = text
        .split_whitespace()
        .next()
        .unwrap_or("nothing")
        .to_owned();
    let code = ended
        .status
        .code()
        .map_or_else(|| "a signal".to_owned(), |code| format!("exit {code}"));
    let said = String::from_utf8_lossy(&ended.stderr);
    let reason = said
        .lines()
        .next()
        .map(|line| format!("\n{:>12}{line}", ""))
        .unwrap_or_default();
    Ok(format!("{state} ({code}){reason}"))
}

/// Prints what each child got. It waits until all have ended, for a line in between would stand in the middle of a question.
fn tell_outcomes(outcomes: impl Iterator<Item = String>) -> anyhow::Result<()> {
    let mut out = Out::stdout();
    out.line("")?;
    out.line("What the children got:")?;
    for outcome in outcomes {
        out.line(&outcome)?;
    }
    out.flush()
}

/// Prints who decided what, from the review log.
fn tell_story(log: &Path) -> anyhow::Result<()> {
    let mut out = Out::stdout();
    out.line("")?;
    out.line("What the review log says (one line of it for each decision):")?;
    let (mut answers, mut sealed) = (0, 0);
    for record in read_entries(log)? {
        let Record::Entry(entry) = record? else {
            continue;
        };
        let text = |key: &str| {
            entry
                .get(key)
                .and_then(|value| value.as_str())
                .unwrap_or("-")
                .to_owned()
        };
        if text("event") == "forwarded_permission.response_received" {
            answers += 1;
            let is_sealed = entry
                .get("decidedBy")
                .and_then(|by| by.pointer("/relay/sealed"))
                .is_some_and(|sealed| *sealed == true);
            sealed += u32::from(is_sealed);
        }
        if matches!(
            text("event").as_str(),
            "forwarded_permission.approved" | "forwarded_permission.denied"
        ) {
            let decider = entry
                .get("decidedBy")
                .map(ToString::to_string)
                .unwrap_or_default();
            let line = format!(
                "  {:<9} {:<19} decided by {decider}",
                text("requesterAgentName"),
                text("resolution")
            );
            out.line(&visible(&line))?;
        }
    }
    out.line("")?;
    out.line(&format!(
        "{sealed} of {answers} answers carried the seal of the session's key; the children take no other."
    ))?;
    if let Some(checked) = verify(log, Access::Own, &[])? {
        let holds = if checked.broken.is_none() {
            "holds"
        } else {
            "is broken"
        };
        out.line(&format!(
            "The {} lines of the log are chained to one another, and the chain {holds} (`askrelay log verify`).",
            checked.lines
        ))?;
    }
    out.line("")?;
    out.line("Next: `askrelay serve` in one terminal, `askrelay ask --value \"rm -rf build\"` in another.")?;
    out.flush()
}
