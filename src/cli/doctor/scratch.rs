//! A place of its own for trying: a spool, a configuration and a home that nobody else uses, and a session that answers by rule.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use tempfile::TempDir;
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;
use tokio::sync::{mpsc, oneshot};

use crate::audit::ReviewLog;
use crate::cli::env::{self, Env};
use crate::cli::serve::start_watch;
use crate::policy::{Config, DEFAULT_SESSION, LayerRules, Layers, Policy};
use crate::process::{Ending, end_group};
use crate::serve::{Mode, Server, Settings};
use crate::spool::{Missing, Spool};
use crate::wire::SessionId;

/// What the rule that denies gives as its reason.
pub(super) const REASON: &str = "askrelay doctor denies this";

/// Under which rules something is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rules {
    /// Everything is allowed.
    Allow,
    /// Everything is denied.
    Deny,
    /// Nobody serves.
    Nobody,
}

/// The place; it goes when this is dropped.
pub(super) struct Scratch {
    place: TempDir,
    spool: Spool,
}

impl Scratch {
    pub(super) fn new() -> anyhow::Result<Self> {
        let place = tempfile::Builder::new()
            .prefix("askrelay-doctor-")
            .tempdir()
            .context("cannot make a directory to try in")?;
        // As the agents see it, which resolve links.
        let path = crate::spool::canonical_directory(place.path())?;
        let spool = Spool::open(&path.join("spool"), Missing::Create)?;
        let scratch = Self { place, spool };
        scratch.write("config.json", "{}\n")?;
        for directory in ["home", "work"] {
            scratch.write(&format!("{directory}/.askrelay-doctor"), "")?;
        }
        Ok(scratch)
    }

    pub(super) fn at(&self, relative: &str) -> PathBuf {
        let place = crate::spool::canonical_path(self.place.path());
        place
            .unwrap_or_else(|| self.place.path().to_owned())
            .join(relative)
    }

    /// Writes one file of the place.
    pub(super) fn write(&self, relative: &str, text: &str) -> anyhow::Result<()> {
        let file = crate::spool::ForeignFile::read(&self.at(relative), usize::MAX / 2)?;
        Ok(file.put(text.as_bytes())?)
    }

    /// A command in this place, with nothing of the user's environment but where programs are found.
    pub(super) fn command(&self, env: &Env, program: &Path) -> Command {
        let mut command = Command::new(program);
        command
            .env_clear()
            .env("HOME", self.at("home"))
            .env("XDG_STATE_HOME", self.at("state"))
            .env(env::XDG_CONFIG_HOME, self.at("home/.config"))
            .env(env::SPOOL, self.at("spool"))
            .env(env::CONFIG, self.at("config.json"))
            .env(env::LOG, self.at("review.jsonl"))
            .envs(env.variable("PATH").map(|path| ("PATH", path)))
            .current_dir(self.at("work"))
            .process_group(0)
            .kill_on_drop(true);
        command
    }

    /// Does `work` while a session answers by these rules.
    pub(super) async fn under<T>(
        &self,
        rules: Rules,
        work: impl Future<Output = anyhow::Result<T>>,
    ) -> anyhow::Result<T> {
        let text = match rules {
            Rules::Nobody => return work.await,
            // One gate of an agent is about leaving its sandbox, which what is said of everything else does not allow.
            Rules::Allow => {
                "{\"permission\": {\"*\": \"allow\", \"outside_sandbox\": \"allow\"}}".to_owned()
            }
            Rules::Deny => {
                let deny = format!("{{\"*\": {{\"action\": \"deny\", \"reason\": \"{REASON}\"}}}}");
                format!("{{\"permission\": {{\"*\": \"ask\", \"bash\": {deny}}}}}")
            }
        };
        let config =
            Config::read(text.as_bytes(), "the rules of the trial").map_err(anyhow::Error::msg)?;
        let layers = Layers {
            global: LayerRules::Rules(&config.permission),
            ..Layers::default()
        };
        let session = SessionId::parse(DEFAULT_SESSION).map_err(anyhow::Error::msg)?;
        let settings = Settings {
            mode: Mode::Headless,
            policy: Arc::new(Policy::from_layers(&layers)),
            ..Settings::new(session)
        };
        let (_person, events) = mpsc::unbounded_channel();
        let log = Arc::new(ReviewLog::disabled());
        let server = Server::start(&self.spool, settings, start_watch(), log, None, events)?;
        let (done, ended) = oneshot::channel::<()>();
        let serving = server.run(async move {
            let _ended = ended.await;
        });
        let working = async move {
            let came = work.await;
            drop(done);
            came
        };
        let (end, came) = tokio::join!(serving, working);
        end?;
        came
    }
}

/// How a process ended.
#[derive(Debug, Clone)]
pub(super) struct Ended {
    /// Its code; `None` where a signal ended it.
    pub(super) code: Option<i32>,
    pub(super) stdout: String,
    pub(super) stderr: String,
}

/// The processes that were started, which end with this.
struct Group(Option<u32>);

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(leader) = self.0 {
            end_group(leader, Ending::Forced);
        }
    }
}

/// Runs a command with this input, and gives how it ended; `None` where that took too long.
pub(super) async fn run(
    mut command: Command,
    input: &str,
    most: Duration,
) -> anyhow::Result<Option<Ended>> {
    let program = command
        .as_std()
        .get_program()
        .to_string_lossy()
        .into_owned();
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start {program}"))?;
    // However this ends, also when it is dropped in the middle: nothing that it started goes on.
    let _group = Group(child.id());
    if let Some(mut stdin) = child.stdin.take() {
        // One that ends without reading has its reasons.
        let _written = stdin.write_all(input.as_bytes()).await;
    }
    let Ok(output) = tokio::time::timeout(most, child.wait_with_output()).await else {
        return Ok(None);
    };
    let output = output.with_context(|| format!("cannot wait for {program}"))?;
    Ok(Some(Ended {
        code: output.status.code(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }))
}
