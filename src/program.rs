//! The operator's programs that take part in an ask: how one is run, whatever it does.
//!
//! ```text
//! run ─▶ start: no shell, own process group, clean environment
//!        one JSON object in, one out ── in time, small enough, exit code 0 ──▶ Answered
//!        anything else ──▶ the group is told to end, killed a second later ──▶ Failed
//! ```
//!
//! What an answer means is for those who ask for it. A program is never waited for longer than its time: what is left of it
//! then ends behind the caller's back. What it writes to stderr is kept where the operator wants that, see [`Executable::keeping_stderr`],
//! and otherwise thrown away.
//!
//! Invariants: nothing of a program outlives its run by more than [`GRACE`], but for what leaves its process group, or where this
//! process itself is killed and can end nothing any more; dropping a run ends the program; what a program writes is bounded before
//! it is kept; a failure is an outcome, and says why.

mod stderr;

use std::ffi::OsString;
use std::path::PathBuf;
use std::pin::pin;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use self::stderr::{Heard, Kept};
use crate::audit::ReviewLog;
use crate::policy::Program;
use crate::process::{Ending, end_group};
use crate::wire::{
    AskFacts, Evidence, LinkVerdict, MAX_PROGRAM_BYTES, annotation_from_json, evidence_from_json,
    tool_call_json, verdict_from_json,
};

/// How long a program that is told to end may put things in order.
pub const GRACE: Duration = Duration::from_secs(1);

/// Variables that every program inherits.
const INHERITED: [&str; 3] = ["PATH", "HOME", "LANG"];

/// A program of the configuration with the environment that it gets.
#[derive(Debug, Clone)]
pub struct Executable {
    command: Vec<String>,
    env: Vec<(String, OsString)>,
    directory: Option<PathBuf>,
    timeout: Duration,
    stderr: Option<Kept>,
}

/// What came of running a program.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum Outcome<T> {
    /// It answered.
    Answered(T),
    /// It did not, for this reason.
    Failed(Failure),
}

/// Why a program gave no answer. Shown, it is a fragment that fits behind its name and a colon.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// It could not be started.
    #[error("it cannot be started: {0}")]
    NotStarted(String),
    /// It took longer than it may.
    #[error("it took longer than {} ms", .0.as_millis())]
    TooSlow(Duration),
    /// It wrote more than it may.
    #[error("it wrote more than {MAX_PROGRAM_BYTES} bytes")]
    TooMuch,
    /// It ended otherwise than with exit code 0.
    #[error("it ended with {0}")]
    Ended(String),
    /// It broke within this process.
    #[error("it broke")]
    Broken,
    /// What it wrote is not what it should have written.
    #[error("its answer is unusable: {0}")]
    Unusable(String),
}

impl Executable {
    /// The program of the configuration, with those variables that it inherits, as `variable` gives them.
    pub fn new(program: &Program, variable: impl Fn(&str) -> Option<OsString>) -> Self {
        let inherited = INHERITED.into_iter().map(str::to_owned);
        Self {
            command: program.command.clone(),
            directory: program.directory.clone(),
            env: inherited
                .chain(program.env.iter().cloned())
                .filter_map(|name| {
                    let value = variable(&name)?;
                    Some((name, value))
                })
                .collect(),
            timeout: program.timeout,
            stderr: None,
        }
    }

    /// The same, and what it writes to stderr goes to this log, under this name of the program.
    #[must_use]
    pub fn keeping_stderr(mut self, log: Arc<ReviewLog>, name: impl Into<String>) -> Self {
        self.stderr = Some(Kept::new(log, name.into())).filter(Kept::is_wanted);
        self
    }

    /// How long it may take.
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Asks it for more evidence about a call of `tool`.
    pub async fn evidence(&self, tool: &str, input: &serde_json::Value) -> Outcome<Vec<Evidence>> {
        self.ask(tool_call_json(tool, input), None, evidence_from_json)
            .await
    }

    /// Asks it for a text about an ask.
    pub async fn annotation(&self, facts: &AskFacts) -> Outcome<String> {
        let about = Some(facts.request_id.as_str());
        self.ask(facts.to_json(), about, annotation_from_json).await
    }

    /// Asks it for a verdict on an ask.
    pub async fn verdict(&self, facts: &AskFacts) -> Outcome<LinkVerdict> {
        let about = Some(facts.request_id.as_str());
        self.ask(facts.to_json(), about, |answer| {
            verdict_from_json(answer, &facts.request_id)
        })
        .await
    }

    async fn ask<T, E: std::fmt::Display>(
        &self,
        question: serde_json::Result<Vec<u8>>,
        about: Option<&str>,
        read: impl Fn(&[u8]) -> Result<T, E>,
    ) -> Outcome<T> {
        let question = match question {
            Ok(question) => question,
            Err(error) => return Outcome::Failed(Failure::NotStarted(error.to_string())),
        };
        match self.run_about(&question, about).await {
            Outcome::Answered(bytes) => match read(&bytes) {
                Ok(answer) => Outcome::Answered(answer),
                Err(why) => Outcome::Failed(Failure::Unusable(why.to_string())),
            },
            Outcome::Failed(failure) => Outcome::Failed(failure),
        }
    }

    /// Runs it with `input`, and gives what it wrote. Must be called within a runtime.
    pub async fn run(&self, input: &[u8]) -> Outcome<Vec<u8>> {
        self.run_about(input, None).await
    }

    async fn run_about(&self, input: &[u8], about: Option<&str>) -> Outcome<Vec<u8>> {
        let started = match self.start(about) {
            Ok(started) => started,
            Err(why) => return Outcome::Failed(Failure::NotStarted(why)),
        };
        match tokio::time::timeout(self.timeout, started.converse(input)).await {
            Ok(Ok(answer)) => Outcome::Answered(answer),
            Ok(Err(failure)) => Outcome::Failed(failure),
            Err(_elapsed) => Outcome::Failed(Failure::TooSlow(self.timeout)),
        }
    }

    fn start(&self, about: Option<&str>) -> Result<Started, String> {
        let (program, arguments) = self.command.split_first().ok_or("it has no name")?;
        let mut command = match &self.directory {
            // Said whole: from where a relative one leads differs between systems.
            Some(directory) if program.contains('/') => Command::new(directory.join(program)),
            Some(_) | None => Command::new(program),
        };
        if let Some(directory) = &self.directory {
            command.current_dir(directory);
        }
        let mut child = command
            .args(arguments)
            .env_clear()
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(if self.stderr.is_some() {
                Stdio::piped()
            } else {
                Stdio::null()
            })
            .process_group(0)
            .spawn()
            .map_err(|error| error.to_string())?;
        let pipes = child.stdin.take().zip(child.stdout.take());
        let heard = child
            .stderr
            .take()
            .zip(self.stderr.clone())
            .map(|(from, to)| Heard::new(from, to, about.map(str::to_owned)));
        let leader = child.id().ok_or("it has no process id")?;
        let run = Run {
            child: Some(child),
            group: Group(leader),
        };
        let (stdin, stdout) = pipes.ok_or("it has no pipes")?;
        Ok(Started {
            run,
            stdin,
            stdout,
            heard,
        })
    }
}

/// A program that was started, and nothing was said yet.
struct Started {
    run: Run,
    stdin: ChildStdin,
    stdout: ChildStdout,
    heard: Option<Heard>,
}

impl Started {
    async fn converse(self, input: &[u8]) -> Result<Vec<u8>, Failure> {
        let Self {
            mut run,
            mut stdin,
            mut stdout,
            mut heard,
        } = self;
        let mut asking = pin!(async move {
            // Whoever answers without reading everything has heard enough.
            let _written = stdin.write_all(input).await;
        });
        let (mut asked, mut open) = (false, true);
        let mut answer = Vec::new();
        let status = loop {
            tokio::select! {
                () = &mut asking, if !asked => asked = true,
                read = stdout.read_buf(&mut answer), if open => open = matches!(read, Ok(1..)),
                () = listen(&mut heard), if heard.as_ref().is_some_and(Heard::is_open) => {}
                status = run.ended() => break status?,
            }
            check_length(&answer)?;
        };
        // Others of its group may hold the pipe still; what it wrote itself is in there already.
        while open && rustix::io::ioctl_fionread(&stdout).is_ok_and(|waiting| waiting > 0) {
            open = matches!(stdout.read_buf(&mut answer).await, Ok(1..));
            check_length(&answer)?;
        }
        if let Some(heard) = &mut heard {
            heard.catch_up().await;
        }
        if status.success() {
            Ok(answer)
        } else {
            Err(Failure::Ended(status.to_string()))
        }
    }
}

async fn listen(heard: &mut Option<Heard>) {
    if let Some(heard) = heard {
        let _count = heard.listen().await;
    }
}

fn check_length(answer: &[u8]) -> Result<(), Failure> {
    if answer.len() > MAX_PROGRAM_BYTES {
        return Err(Failure::TooMuch);
    }
    Ok(())
}

/// A process that runs, with its group. Dropped before its end, it is told to end.
struct Run {
    child: Option<Child>,
    group: Group,
}

impl Run {
    /// Waits for the end of the process; then its group ends as well.
    async fn ended(&mut self) -> Result<ExitStatus, Failure> {
        let Some(child) = &mut self.child else {
            return Err(Failure::Ended("no process".to_owned()));
        };
        let status = child.wait().await;
        self.child = None;
        self.group.kill();
        status.map_err(|error| Failure::Ended(error.to_string()))
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        let Some(mut child) = self.child.take() else {
            return;
        };
        end_group(self.group.0, Ending::Asked);
        let killed = Killed(Group(self.group.0));
        let ends = async move {
            let _ended = tokio::time::timeout(GRACE, child.wait()).await;
            drop(killed);
            let _reaped = child.wait().await;
        };
        // A runtime that ends drops this at once, and what it holds kills. Without any, it is dropped here.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            drop(runtime.spawn(ends));
        }
    }
}

/// The process group of a program, by its leader.
///
/// The number stays its own as long as the group has a process or its leader was not waited for. When its leader was waited for
/// a moment ago, the kernel would have to go through all its numbers within that moment to give it to another.
struct Group(u32);

impl Group {
    fn kill(&self) {
        end_group(self.0, Ending::Forced);
    }
}

/// Kills a group when it is dropped.
struct Killed(Group);

impl Drop for Killed {
    fn drop(&mut self) {
        self.0.kill();
    }
}
