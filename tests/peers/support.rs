//! A spool, processes whose output is read by lines, and waits that end.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use serde_json::Value;

/// Long enough that only a hang reaches it, on a machine that does other work as well.
const PATIENCE: Duration = Duration::from_mins(1);

/// Looks again and again until the condition holds. Fails, saying what it waited for, when it never does.
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "waited in vain until {what}");
        std::thread::park_timeout(Duration::from_millis(5));
    }
}

/// A fresh spool with its own home, so that nothing outside is read or written.
pub(crate) struct TempSpool {
    dir: tempfile::TempDir,
}

impl TempSpool {
    pub(crate) fn new() -> Self {
        let dir = tempfile::Builder::new()
            .prefix("askrelay-peers-")
            .tempdir()
            .unwrap();
        Self { dir }
    }

    /// The spool root. Nobody has made it yet.
    pub(crate) fn root(&self) -> PathBuf {
        self.dir.path().join("spool")
    }

    pub(crate) fn session(&self, id: &str) -> PathBuf {
        self.root().join("sessions").join(id)
    }

    /// Ids of the requests that wait in a session's inbox.
    pub(crate) fn waiting(&self, session: &str) -> Vec<String> {
        let Ok(entries) = std::fs::read_dir(self.session(session).join("requests")) else {
            return Vec::new();
        };
        entries
            .filter_map(|entry| {
                Some(
                    entry
                        .ok()?
                        .file_name()
                        .to_str()?
                        .strip_suffix(".json")?
                        .to_owned(),
                )
            })
            .collect()
    }

    /// Every path below the root with the bytes of its file, to see whether anything was changed.
    pub(crate) fn contents(&self) -> Vec<(PathBuf, Option<Vec<u8>>)> {
        fn visit(dir: &Path, all: &mut Vec<(PathBuf, Option<Vec<u8>>)>) {
            for entry in std::fs::read_dir(dir).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    visit(&path, all);
                    all.push((path, None));
                } else {
                    let bytes = std::fs::read(&path).unwrap();
                    all.push((path, Some(bytes)));
                }
            }
        }
        let mut all = Vec::new();
        visit(&self.root(), &mut all);
        all.sort();
        all
    }

    pub(crate) fn write_json(&self, name: &str, value: &Value) -> PathBuf {
        self.write(name, &value.to_string())
    }

    /// A file below the home.
    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.dir.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }

    /// Where the tools of an agent work.
    pub(crate) fn work(&self) -> PathBuf {
        let work = self.dir.path().join("work");
        std::fs::create_dir_all(&work).unwrap();
        work
    }

    /// Our binary with nothing inherited but the search path.
    pub(crate) fn askrelay(&self, command: &str) -> Command {
        let mut run = hermetic(env!("CARGO_BIN_EXE_askrelay"), self.dir.path());
        run.arg(command).arg("--spool").arg(self.root());
        run
    }

    /// A server of ours, started and seen to serve. The person, if any, is whoever writes to the process.
    pub(crate) fn serve(
        &self,
        session: &str,
        mode: &str,
        config: &Value,
        env: &[(&str, &str)],
    ) -> Process {
        let config = self.write_json(&format!("config-{session}.json"), config);
        let mut run = self.askrelay("serve");
        run.args(["--session", session, "--mode", mode])
            .arg("--config")
            .arg(config);
        run.envs(env.iter().copied());
        let mut server = Process::start("askrelay serve", run);
        let heartbeat = self.root().join("serving").join(format!("{session}.json"));
        until("our server publishes its heartbeat", || {
            server.assert_runs();
            heartbeat.exists()
        });
        server
    }

    /// An ask of ours to a server of the peer, in full: the arguments, then its exit code and its one line of JSON.
    pub(crate) fn ask(&self, session: &str, args: &[&str]) -> (Option<i32>, Value) {
        self.start_ask(session, args).finish_ask()
    }

    pub(crate) fn start_ask(&self, session: &str, args: &[&str]) -> Process {
        let mut run = self.askrelay("ask");
        run.args(["--session", session, "--json"]).args(args);
        Process::start("askrelay ask", run)
    }

    /// A subagent of the peer.
    pub(crate) fn their_child(&self, parent: &str, me: &str, args: &[&str]) -> Process {
        let mut run = self.driver("child", me);
        run.args(["--parent", parent, "--me", me]).args(args);
        Process::start("the peer's child", run)
    }

    /// A serving session of the peer, seen to serve.
    pub(crate) fn their_server(&self, session: &str, args: &[&str]) -> Process {
        let mut run = self.driver("parent", session);
        run.args(["--session", session]).args(args);
        let mut server = Process::start("the peer's server", run);
        server.line("the peer's server says that it is ready", |line| {
            line == "ready"
        });
        server
    }

    /// A session of the peer's parts that serves and passes on, seen to look into its inbox.
    pub(crate) fn their_hop(&self, session: &str, parent: &str) -> Process {
        let mut run = self.driver("hop", session);
        run.args(["--session", session, "--parent", parent]);
        let mut hop = Process::start("the peer's hop", run);
        hop.line("the peer's hop says that it is ready", |line| {
            line == "ready"
        });
        hop
    }

    /// Where the log of one of our sessions is, when it has one of its own.
    pub(crate) fn our_log_path(&self, session: &str) -> PathBuf {
        self.dir.path().join(format!("{session}.jsonl"))
    }

    /// Entries with the given name in the log of one of our sessions.
    pub(crate) fn our_log(&self, session: &str, event: &str) -> Vec<Value> {
        let log = std::fs::read_to_string(self.our_log_path(session)).unwrap();
        let entries = log
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap());
        entries.filter(|entry| entry["event"] == event).collect()
    }

    /// The peer's reader of command lines: a line of JSON for each that is said.
    pub(crate) fn their_reader(&self) -> Process {
        Process::start("the peer's reader", self.driver("units", "R"))
    }

    /// The peer's judge: a line of JSON for each case that is said.
    pub(crate) fn their_judge(&self) -> Process {
        let mut run = self.driver("judge", "J");
        // It asks for its own directory before it is told another one.
        run.env("PI_CODING_AGENT_DIR", self.dir.path().join("agent-J"));
        Process::start("the peer's judge", run)
    }

    /// The home directory of whatever is started here.
    pub(crate) fn home(&self) -> &Path {
        self.dir.path()
    }

    /// Rules for the peer's server, where the peer looks for them.
    pub(crate) fn their_rules(&self, session: &str, permission: &Value) {
        let name = format!("agent-{session}/extensions/pi-permission-system/config.json");
        self.write_json(&name, &serde_json::json!({ "permission": permission }));
    }

    /// Entries of the peer's review log with the given name.
    pub(crate) fn their_log(&self, session: &str, event: &str) -> Vec<Value> {
        let name = format!("agent-{session}/logs/pi-permission-system-permission-review.jsonl");
        let log = std::fs::read_to_string(self.dir.path().join(name)).unwrap();
        let entries = log
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap());
        entries.filter(|entry| entry["event"] == event).collect()
    }

    fn driver(&self, name: &str, session: &str) -> Command {
        let built =
            Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/peers/dist/{name}.mjs"));
        assert!(
            built.exists(),
            "{} is missing.\nhint: run tests/peers/run, which installs the peer and builds its drivers",
            built.display()
        );
        let mut run = hermetic("node", self.dir.path());
        run.arg(built).arg("--spool").arg(self.root());
        run.arg("--agent-dir")
            .arg(self.dir.path().join(format!("agent-{session}")));
        run
    }
}

pub(crate) fn hermetic(program: impl AsRef<OsStr>, home: &Path) -> Command {
    let mut run = Command::new(program);
    run.env_clear().current_dir(home).env("HOME", home);
    run.env("PATH", std::env::var_os("PATH").unwrap_or_default());
    for (name, dir) in [
        ("XDG_CONFIG_HOME", "config"),
        ("XDG_STATE_HOME", "state"),
        ("XDG_RUNTIME_DIR", "runtime"),
    ] {
        run.env(name, home.join(dir));
    }
    run
}

/// A running program. Killed when dropped, so that a failed test leaves nothing behind.
pub(crate) struct Process {
    name: &'static str,
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    /// What was read, for the message of a failure.
    seen: VecDeque<String>,
}

impl Process {
    pub(crate) fn start(name: &'static str, mut run: Command) -> Self {
        run.stdin(Stdio::piped()).stderr(Stdio::inherit());
        Self::run(name, run)
    }

    /// One that has nobody to read from, and whose complaints nobody reads.
    pub(crate) fn start_unattended(name: &'static str, mut run: Command) -> Self {
        run.stdin(Stdio::null()).stderr(Stdio::null());
        Self::run(name, run)
    }

    /// One whose complaints nobody reads.
    pub(crate) fn start_quietly(name: &'static str, mut run: Command) -> Self {
        run.stdin(Stdio::piped()).stderr(Stdio::null());
        Self::run(name, run)
    }

    /// One whose complaints go where the command says.
    pub(crate) fn start_heard(name: &'static str, mut run: Command) -> Self {
        run.stdin(Stdio::piped());
        Self::run(name, run)
    }

    fn run(name: &'static str, mut run: Command) -> Self {
        run.stdout(Stdio::piped());
        let mut child = run
            .spawn()
            .unwrap_or_else(|error| panic!("{name} does not start: {error}"));
        let output = BufReader::new(child.stdout.take().unwrap());
        let (send, lines) = channel();
        std::thread::spawn(move || {
            for line in output.lines() {
                let Ok(line) = line else { break };
                if send.send(line).is_err() {
                    break;
                }
            }
        });
        let stdin = child.stdin.take();
        Self {
            name,
            child,
            stdin,
            lines,
            seen: VecDeque::new(),
        }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn assert_runs(&mut self) {
        if let Some(status) = self.child.try_wait().unwrap() {
            panic!("{} ended early with {status}", self.name);
        }
    }

    /// The next line, or nothing once the program has closed its output.
    pub(crate) fn next_line(&mut self) -> Option<String> {
        match self.lines.recv_timeout(PATIENCE) {
            Ok(line) => {
                self.seen.push_back(line.clone());
                self.seen.truncate(200);
                Some(line)
            }
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => {
                let said: Vec<&String> = self.seen.iter().rev().take(5).rev().collect();
                panic!("{} is silent; it had said at last {said:#?}", self.name)
            }
        }
    }

    /// The next line that fits.
    pub(crate) fn line(&mut self, what: &str, fits: impl Fn(&str) -> bool) -> String {
        while let Some(line) = self.next_line() {
            if fits(&line) {
                return line;
            }
        }
        panic!(
            "waited in vain until {what}: {} ended, having said {:#?}",
            self.name, self.seen
        )
    }

    /// The next JSON line with this `event`.
    pub(crate) fn event(&mut self, event: &str) -> Value {
        let parsed = |line: &str| serde_json::from_str::<Value>(line).ok();
        let fits = |line: &str| parsed(line).is_some_and(|value| value["event"] == event);
        parsed(&self.line(&format!("`{event}` is reported"), fits)).unwrap()
    }

    /// The next line, which is JSON.
    pub(crate) fn json(&mut self) -> Value {
        let line = self
            .next_line()
            .unwrap_or_else(|| panic!("{} ended without a word", self.name));
        serde_json::from_str(&line)
            .unwrap_or_else(|error| panic!("{} said {line:?}: {error}", self.name))
    }

    pub(crate) fn all_json(&mut self) -> Vec<Value> {
        let mut all = Vec::new();
        while let Some(line) = self.next_line() {
            all.push(serde_json::from_str(&line).unwrap());
        }
        all
    }

    pub(crate) fn say(&mut self, text: &str) {
        let stdin = self.stdin.as_mut().unwrap();
        writeln!(stdin, "{text}")
            .and_then(|()| stdin.flush())
            .unwrap();
    }

    /// Nothing more is said to it.
    pub(crate) fn hang_up(&mut self) {
        self.stdin = None;
    }

    pub(crate) fn wait(&mut self) -> ExitStatus {
        let mut ended = None;
        until(&format!("{} ends", self.name), || {
            ended = self.child.try_wait().unwrap();
            ended.is_some()
        });
        ended.unwrap()
    }

    pub(crate) fn finish_ask(mut self) -> (Option<i32>, Value) {
        let decision = self.json();
        (self.wait().code(), decision)
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// The person's side of `serve --mode select`: waits for a list of numbered options, says the number of the one that
    /// fits. Only the options are looked at, as the text around them is for people. Gives the labels that were offered.
    pub(crate) fn choose(&mut self, choice: Choice) -> Vec<String> {
        let mut options: Vec<(String, String)> = Vec::new();
        while let Some(line) = self.next_line() {
            let Some((number, label)) = option(&line) else {
                continue;
            };
            if number == "1" {
                options.clear();
            }
            options.push((number, label));
            if choice.is_last(&options) {
                let fits = options.iter().find(|(_, label)| choice.fits(label));
                let (number, _) =
                    fits.unwrap_or_else(|| panic!("{choice:?} is not among {options:?}"));
                let number = number.clone();
                self.say(&number);
                return options.into_iter().map(|(_, label)| label).collect();
            }
        }
        panic!(
            "{} ended before it offered {choice:?}; it had said {:#?}",
            self.name, self.seen
        )
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.stdin.take());
        if matches!(self.child.try_wait(), Ok(None)) {
            self.child.kill().ok();
        }
        self.child.wait().ok();
    }
}

/// `1) Yes` in any dress: `  1. Yes`, `> 1) Yes`.
fn option(line: &str) -> Option<(String, String)> {
    let start = line.find(|c: char| c.is_ascii_digit())?;
    if line[..start].contains(char::is_alphanumeric) {
        return None;
    }
    let (number, label) = line[start..].split_once([')', '.'])?;
    let plain = number.chars().all(|c| c.is_ascii_digit()) && label.starts_with(' ');
    plain.then(|| (number.to_owned(), label.trim().to_lowercase()))
}

/// What a person may choose at the select prompt.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Choice {
    Approve,
    Session,
    Deny,
    DenyWithReason,
    /// The second step of a session grant.
    ThisSubagent,
    WholeSession,
}

impl Choice {
    fn is_scope(self) -> bool {
        matches!(self, Self::ThisSubagent | Self::WholeSession)
    }

    fn is_last(self, options: &[(String, String)]) -> bool {
        let (_, label) = options.last().unwrap();
        if self.is_scope() {
            options.len() == 2
        } else {
            label.contains("reason")
        }
    }

    pub(crate) fn fits(self, label: &str) -> bool {
        let (session, reason) = (label.contains("session"), label.contains("reason"));
        match self {
            Self::Approve => label.starts_with("yes") && !session,
            Self::Session => label.starts_with("yes") && session,
            Self::Deny => label.starts_with("no") && !reason,
            Self::DenyWithReason => label.starts_with("no") && reason,
            Self::ThisSubagent => label.contains("subagent") && !label.contains("whole session"),
            Self::WholeSession => label.contains("whole session"),
        }
    }
}
