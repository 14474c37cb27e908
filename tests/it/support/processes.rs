//! Real processes under guards: nothing that a test starts outlives it.

use std::ffi::OsStr;
use std::io::{Read, Write as _};
use std::path::Path;
use std::process::{Child as Process, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::screen::OnScreen;
use super::spool::{TestSpool, eventually, until};

/// What a process has written so far.
#[derive(Clone, Default)]
struct Written(Arc<Mutex<Vec<u8>>>);

impl Written {
    fn collect(&self, mut from: impl Read + Send + 'static) -> JoinHandle<()> {
        let written = self.clone();
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = from.read(&mut buffer) {
                written
                    .0
                    .lock()
                    .unwrap()
                    .extend_from_slice(&buffer[..count]);
            }
        })
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().unwrap()).into_owned()
    }
}

/// A running process; killed when it is dropped.
pub(crate) struct Running {
    process: Process,
    stdin: Option<ChildStdin>,
    stdout: Written,
    stderr: Written,
    readers: Vec<JoinHandle<()>>,
}

impl Running {
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut process = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (stdout, stderr) = (Written::default(), Written::default());
        let readers = vec![
            stdout.collect(process.stdout.take().unwrap()),
            stderr.collect(process.stderr.take().unwrap()),
        ];
        Self {
            stdin: process.stdin.take(),
            process,
            stdout,
            stderr,
            readers,
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }

    pub(crate) fn stdout(&self) -> String {
        self.stdout.text()
    }

    /// The whole lines that it has written, each of which has to be JSON.
    #[track_caller]
    pub(crate) fn json_lines(&self) -> Vec<Value> {
        let stdout = self.stdout();
        let whole = stdout.rfind('\n').map_or("", |end| &stdout[..end]);
        let lines = whole
            .lines()
            .map(|line| serde_json::from_str(line).unwrap());
        lines.collect()
    }

    pub(crate) fn stderr(&self) -> String {
        self.stderr.text()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.pid()).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// Stops the process, and waits until it has really stopped.
    #[expect(clippy::disallowed_methods, reason = "a process's state is a file")]
    pub(crate) fn freeze(&self) {
        self.signal(Signal::STOP);
        let stat = format!("/proc/{}/stat", self.pid());
        until("a stopped process", || {
            let text = std::fs::read_to_string(&stat).unwrap();
            text.rsplit_once(") ")
                .is_some_and(|(_, rest)| rest.starts_with('T'))
        });
    }

    pub(crate) fn thaw(&self) {
        self.signal(Signal::CONT);
    }

    /// Kills it with no chance to clean up.
    pub(crate) fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.process.try_wait().unwrap().is_some()
    }

    /// Waits for the end, and gives the exit code.
    #[track_caller]
    pub(crate) fn exit_code(&mut self) -> i32 {
        let status = eventually("the end of a process", || self.process.try_wait().unwrap());
        for reader in self.readers.drain(..) {
            reader.join().unwrap();
        }
        status.code().unwrap_or(-1)
    }

    pub(crate) fn write_line(&mut self, line: &str) {
        let stdin = self.stdin.as_mut().expect("an open input");
        stdin.write_all(format!("{line}\n").as_bytes()).unwrap();
        stdin.flush().unwrap();
    }

    pub(crate) fn close_stdin(&mut self) {
        self.stdin = None;
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _killed = self.process.kill();
        let _reaped = self.process.wait();
        if std::thread::panicking() {
            use std::io::stderr;
            let text = format!(
                "--- process {} wrote:\n{}--- and on stderr:\n{}",
                self.pid(),
                self.stdout(),
                self.stderr()
            );
            let _shown = stderr().write_all(text.as_bytes());
        }
    }
}

/// How `askrelay serve` is started.
pub(crate) struct Serve {
    command: Command,
}

/// A serving session that has said it serves.
pub(crate) struct Server {
    pub(crate) running: Running,
    /// How much of its output has been looked at for questions.
    seen: usize,
}

impl TestSpool {
    /// `askrelay serve` for a session; headless unless told otherwise.
    pub(crate) fn serve(&self, session: &str) -> Serve {
        let mut command = self.relay();
        command.args(["serve", "--session", session]);
        Serve { command }
    }

    /// `askrelay serve --mode select` under this policy.
    pub(crate) fn serve_select(&self, session: &str, permission: &Value) -> Server {
        self.serve(session)
            .select()
            .policy(self, session, permission)
            .start()
    }

    /// `askrelay serve --mode headless` under this policy.
    pub(crate) fn serve_headless(&self, session: &str, permission: &Value) -> Server {
        self.serve(session)
            .policy(self, session, permission)
            .start()
    }

    /// `askrelay ask --json` to a session, from session `child`.
    pub(crate) fn ask(&self, session: &str) -> Ask {
        self.ask_as("scout", session)
    }

    /// The same, by an agent of this name.
    pub(crate) fn ask_as(&self, agent: &str, session: &str) -> Ask {
        let mut command = self.relay();
        command.args(["ask", "--json", "--agent", agent]);
        command.env("ASKRELAY_SESSION", "child");
        if !session.is_empty() {
            command.args(["--session", session]);
        }
        Ask { command }
    }
}

impl Serve {
    pub(crate) fn select(self) -> Self {
        self.args(["--mode", "select"])
    }

    pub(crate) fn args<S: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.command.args(args);
        self
    }

    pub(crate) fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Serves under these rules and no other configuration.
    pub(crate) fn policy(self, spool: &TestSpool, name: &str, permission: &Value) -> Self {
        self.config(&spool.config(name, &serde_json::json!({"permission": permission})))
    }

    /// Starts it in this directory.
    pub(crate) fn directory(mut self, path: &Path) -> Self {
        self.command.current_dir(path);
        self
    }

    pub(crate) fn config(self, path: &Path) -> Self {
        self.args([OsStr::new("--config"), path.as_os_str()])
    }

    /// Starts it on a terminal of this size.
    pub(crate) fn on_screen(self, columns: u16, rows: u16) -> OnScreen {
        OnScreen::start(&self.command, columns, rows)
    }

    /// Starts it without waiting for anything.
    pub(crate) fn spawn(mut self) -> Running {
        Running::start(&mut self.command)
    }

    /// Starts it, and waits until it says that it serves.
    #[track_caller]
    pub(crate) fn start(self) -> Server {
        let mut running = self.spawn();
        until("a serving session", || {
            assert!(!running.has_ended(), "it ended: {}", running.stderr());
            running.stderr().contains("serving session")
        });
        Server { running, seen: 0 }
    }
}

impl Server {
    /// Waits for the next question that opens, and gives its text, options included.
    #[track_caller]
    pub(crate) fn question(&mut self) -> Question {
        let (text, end) = eventually("a question", || {
            let all = self.running.stdout();
            let new = all.get(self.seen..)?;
            let start = ["Permission Required", "Grant for whom?", "Reason for"]
                .iter()
                .filter_map(|title| new.find(title))
                .min()?;
            // A question is written at once, but may be read in pieces: its last line ends it.
            let question = &new[start..];
            let is_whole = question.starts_with("Reason for")
                || question.contains(") Not now: ")
                || question.contains("The whole session, 10 times");
            (is_whole && question.ends_with('\n')).then(|| (question.to_owned(), all.len()))
        });
        self.seen = end;
        Question { text }
    }

    /// Whether anything was written since the last question.
    pub(crate) fn has_written_more(&self) -> bool {
        self.running.stdout().len() > self.seen
    }

    /// Waits until this stands in what was written since the last question.
    #[track_caller]
    pub(crate) fn await_text(&self, text: &str) {
        until(text, || {
            self.running
                .stdout()
                .get(self.seen..)
                .is_some_and(|new| new.contains(text))
        });
    }

    /// Answers with the option whose label begins so.
    #[track_caller]
    pub(crate) fn choose(&mut self, question: &Question, label: &str) {
        let number = question.number_of(label);
        self.running.write_line(&number);
    }

    /// Waits for a question about `value`, and answers it.
    #[track_caller]
    pub(crate) fn answer(&mut self, value: &str, label: &str) {
        let question = self.question();
        assert!(question.text.contains(value), "{}", question.text);
        self.choose(&question, label);
    }

    /// Asks it to end, and waits until it has.
    #[track_caller]
    pub(crate) fn stop(&mut self) -> i32 {
        self.running.signal(Signal::TERM);
        self.running.exit_code()
    }
}

/// A question as it stands on the screen.
pub(crate) struct Question {
    pub(crate) text: String,
}

impl Question {
    /// Number of the option whose label begins so.
    #[track_caller]
    pub(crate) fn number_of(&self, label: &str) -> String {
        let found = self.text.lines().find_map(|line| {
            let (number, text) = line.trim_start().split_once(") ")?;
            let is_meant = text == label
                || [":", " ("]
                    .iter()
                    .any(|end| text.starts_with(&format!("{label}{end}")));
            is_meant
                .then(|| number.to_owned())
                .filter(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
        });
        found.unwrap_or_else(|| panic!("there is no option {label:?} in\n{}", self.text))
    }
}

/// How `askrelay ask` is started.
pub(crate) struct Ask {
    command: Command,
}

impl Ask {
    pub(crate) fn args<S: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.command.args(args);
        self
    }

    pub(crate) fn value(self, value: &str) -> Self {
        self.args(["--value", value])
    }

    pub(crate) fn id(self, id: &str) -> Self {
        self.args(["--id", id])
    }

    pub(crate) fn grant(self, grant: &str) -> Self {
        self.args(["--grant", grant])
    }

    pub(crate) fn from(self, session: &str) -> Self {
        self.args(["--from", session])
    }

    pub(crate) fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    pub(crate) fn start(mut self) -> Child {
        Child {
            running: Running::start(&mut self.command),
        }
    }

    /// Asks, and waits for the end.
    #[track_caller]
    pub(crate) fn run(self) -> Ended {
        self.start().end()
    }
}

/// A child that asks.
pub(crate) struct Child {
    pub(crate) running: Running,
}

/// How an ask ended.
pub(crate) struct Ended {
    pub(crate) code: i32,
    /// What it printed; null where it printed nothing.
    pub(crate) json: Value,
    pub(crate) stderr: String,
}

impl Child {
    /// Waits for the end of the ask.
    #[track_caller]
    pub(crate) fn end(mut self) -> Ended {
        let code = self.running.exit_code();
        let stdout = self.running.stdout();
        Ended {
            code,
            json: serde_json::from_str(&stdout).unwrap_or(Value::Null),
            stderr: self.running.stderr(),
        }
    }
}

impl Ended {
    /// Fails unless the ask was approved.
    #[track_caller]
    pub(crate) fn approved(&self) -> &Self {
        assert_eq!(self.code, 0, "{} {}", self.json, self.stderr);
        assert_eq!(self.json["approved"], true, "{}", self.json);
        self
    }

    /// Fails unless an authority denied the ask.
    #[track_caller]
    pub(crate) fn denied(&self) -> &Self {
        assert_eq!(self.code, 1, "{} {}", self.json, self.stderr);
        assert_eq!(self.json["approved"], false, "{}", self.json);
        assert_eq!(self.json["confirmationUnavailable"], false, "{}", self.json);
        self
    }

    /// Fails unless nobody ruled on the ask.
    #[track_caller]
    pub(crate) fn unruled(&self) -> &Self {
        assert_eq!(self.code, 3, "{} {}", self.json, self.stderr);
        assert_eq!(self.json["approved"], false, "{}", self.json);
        assert_eq!(self.json["confirmationUnavailable"], true, "{}", self.json);
        self
    }
}

/// One run of any command to its end: exit code, stdout, stderr.
#[track_caller]
pub(crate) fn run(command: &mut Command) -> (i32, String, String) {
    let mut running = Running::start(command);
    running.close_stdin();
    let code = running.exit_code();
    (code, running.stdout(), running.stderr())
}

/// Whether a process has ended; one that nobody has waited for yet, as that of an orphan, has.
#[expect(clippy::disallowed_methods, reason = "a process's state is a file")]
pub(crate) fn has_ended(pid: u32) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else {
        return true;
    };
    stat.rsplit_once(") ")
        .is_some_and(|(_, rest)| rest.starts_with('Z'))
}

/// One run of a command that reads bytes and prints bytes: exit code, stdout, stderr.
#[track_caller]
pub(crate) fn filter(command: &mut Command, input: &[u8]) -> (i32, Vec<u8>, String) {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let output = std::thread::scope(|scope| {
        scope.spawn(move || {
            // A command that refuses its options reads nothing.
            let _written = stdin.write_all(input);
        });
        child.wait_with_output().unwrap()
    });
    let stderr = String::from_utf8(output.stderr).unwrap();
    (output.status.code().unwrap_or(-1), output.stdout, stderr)
}
