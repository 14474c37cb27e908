//! A spool with real processes around it, and everything odd that a program of the same user can put into it.
#![expect(
    clippy::disallowed_methods,
    reason = "tests lay out odd files and look at what became of them"
)]

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};

use rustix::fs::{CWD, FileType, Mode};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::spool::{eventually, until};

/// Says that something could not be tried here, so that a test that passes does not claim it.
#[expect(
    clippy::print_stdout,
    reason = "the test runner keeps it with the test"
)]
pub(crate) fn skipped(why: &str) {
    println!("skipped: {why}");
}

/// The rules of every test here: one word is allowed, one denied, the rest is asked.
pub(crate) const RULES: &str =
    r#"{"permission": {"bash": {"*": "ask", "ls *": "allow", "rm *": "deny"}}}"#;

/// A place that goes with its test: spool, log, home, configuration.
pub(crate) struct Field {
    dir: tempfile::TempDir,
}

impl Field {
    pub(crate) fn new() -> Self {
        let field = Self {
            dir: tempfile::Builder::new()
                .prefix("hostile-")
                .tempdir()
                .unwrap(),
        };
        for name in ["home", "work"] {
            fs::create_dir(field.at(name)).unwrap();
        }
        fs::write(field.at("config.json"), RULES).unwrap();
        field
    }

    pub(crate) fn at(&self, relative: &str) -> PathBuf {
        self.dir.path().canonicalize().unwrap().join(relative)
    }

    pub(crate) fn spool(&self) -> PathBuf {
        self.at("spool")
    }

    pub(crate) fn requests(&self) -> PathBuf {
        self.at("spool/sessions/main/requests")
    }

    pub(crate) fn responses(&self) -> PathBuf {
        self.at("spool/sessions/main/responses")
    }

    /// Sets the environment in which every process here runs: nothing but what lies in this place.
    pub(crate) fn surround<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command
            .env_clear()
            .env("PATH", "/usr/bin:/bin:/usr/sbin:/sbin")
            .env("HOME", self.at("home"))
            .env("XDG_STATE_HOME", self.at("state"))
            .env("XDG_CONFIG_HOME", self.at("none"))
            .env("ASKRELAY_SPOOL", self.spool())
            .env("ASKRELAY_CONFIG", self.at("config.json"))
            .env("ASKRELAY_LOG", self.at("review.jsonl"))
            .current_dir(self.at("work"))
    }

    pub(crate) fn relay(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_askrelay"));
        self.surround(&mut command);
        command
    }

    /// Starts a server, and waits until it serves.
    #[track_caller]
    pub(crate) fn serve(&self, mode: &str) -> Run {
        let mut run = self.serve_with_fault(mode, None);
        run.await_serving();
        run
    }

    /// Starts a server that ends itself at a step.
    pub(crate) fn serve_with_fault(&self, mode: &str, step: Option<&str>) -> Run {
        let mut command = self.relay();
        command.args(["serve", "--session", "main", "--mode", mode]);
        command.envs(step.map(|step| ("ASKRELAY_TEST_FAULT", step)));
        Run::start(self, &mut command)
    }

    /// `askrelay ask` of session `child`.
    pub(crate) fn ask_command(&self, value: &str, more: &[&str]) -> Command {
        let mut command = self.relay();
        command.args(["ask", "--json", "--session", "main", "--from", "child"]);
        command.args(["--value", value]).args(more);
        command
    }

    pub(crate) fn start_ask(&self, value: &str, more: &[&str]) -> Run {
        Run::start(self, &mut self.ask_command(value, more))
    }

    #[track_caller]
    pub(crate) fn ask(&self, value: &str, more: &[&str]) -> Answer {
        self.start_ask(value, more).answer()
    }

    /// An ask that policy allows must be answered, whatever else lies there.
    #[track_caller]
    pub(crate) fn a_good_ask_is_answered(&self) {
        let answer = self.ask("ls -la", &[]);
        assert_eq!(answer.code, Some(0), "{answer:?}");
        assert_eq!(answer.json["state"], "approved");
    }

    /// Entries of the review log.
    pub(crate) fn log(&self) -> Vec<Value> {
        fs::read_to_string(self.at("review.jsonl"))
            .unwrap_or_default()
            .lines()
            // The last line may be half-written at this moment.
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect()
    }

    pub(crate) fn logged(&self, event: &str) -> Vec<Value> {
        let mut log = self.log();
        log.retain(|entry| entry["event"] == event);
        log
    }

    pub(crate) fn logged_of(&self, event: &str, id: &str) -> usize {
        let mut log = self.logged(event);
        log.retain(|entry| entry["requestId"] == id);
        log.len()
    }

    /// What was moved aside: the name of each object in the quarantine, and the reason beside it.
    pub(crate) fn aside(&self) -> Vec<(String, Value)> {
        let dir = self.at("spool/quarantine");
        names(&dir)
            .into_iter()
            // A reason that is just being written is neither.
            .filter(|name| !name.starts_with('.') && !name.ends_with(".reason.json"))
            .map(|name| {
                let note = fs::read(dir.join(format!("{name}.reason.json"))).unwrap_or_default();
                let note = serde_json::from_slice(&note).unwrap_or(Value::Null);
                (name, note)
            })
            .collect()
    }

    /// Makes the directories of the session as a child does.
    pub(crate) fn make_dirs(&self) {
        use std::os::unix::fs::DirBuilderExt as _;
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true).mode(0o700);
        builder.create(self.requests()).unwrap();
        builder.create(self.responses()).unwrap();
    }

    /// Publishes bytes under a name in the inbox at once.
    pub(crate) fn put_request(&self, name: &str, bytes: impl AsRef<[u8]>) {
        fs::write(self.requests().join(".put.tmp"), bytes).unwrap();
        fs::rename(self.requests().join(".put.tmp"), self.requests().join(name)).unwrap();
    }

    pub(crate) fn put_response(&self, id: &str, bytes: impl AsRef<[u8]>) {
        fs::write(self.responses().join(".put.tmp"), bytes).unwrap();
        fs::rename(
            self.responses().join(".put.tmp"),
            self.responses().join(format!("{id}.json")),
        )
        .unwrap();
    }

    #[track_caller]
    pub(crate) fn await_request(&self, id: &str) {
        let path = self.requests().join(format!("{id}.json"));
        until("a request", || path.exists());
    }

    #[track_caller]
    pub(crate) fn await_response(&self, id: &str) -> Value {
        let path = self.responses().join(format!("{id}.json"));
        eventually(&format!("a response to {id}"), || {
            serde_json::from_slice(&fs::read(&path).ok()?).ok()
        })
    }

    /// Everything below a path: name, inode, mode, size, time of change.
    pub(crate) fn picture(&self, relative: &str) -> Vec<(PathBuf, u64, u32, u64, i64, i64)> {
        let mut all = Vec::new();
        let mut open = vec![self.at(relative)];
        while let Some(path) = open.pop() {
            let facts = fs::symlink_metadata(&path).unwrap();
            if facts.is_dir() {
                open.extend(
                    fs::read_dir(&path)
                        .unwrap()
                        .map(|entry| entry.unwrap().path()),
                );
            }
            all.push((
                path,
                facts.ino(),
                facts.mode(),
                facts.size(),
                facts.ctime(),
                facts.ctime_nsec(),
            ));
        }
        all.sort();
        all
    }
}

/// Names in a directory, sorted; none where there is no such directory.
pub(crate) fn names(path: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(path)
        .into_iter()
        .flatten()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// A request as a program without any word about locks writes it.
pub(crate) fn request(id: &str, value: &str) -> Value {
    json!({
        "id": id,
        "createdAt": 1_700_000_000_000_i64,
        "requesterSessionId": "stranger",
        "targetSessionId": "main",
        "requesterAgentName": "scout",
        "payload": {
            "kind": "bash",
            "request": {
                "requester": {"agentName": null, "forwarded": false, "sessionId": null},
                "surface": "bash",
                "toolName": "bash",
                "invokedToolName": null,
                "value": value,
                "matchedPattern": null,
                "commandContext": null,
                "executedUnit": null,
                "matchedSpelling": null,
            },
            "evidence": [],
            "annotations": [],
        },
        "source": "tool_call",
        "surface": "bash",
        "value": value,
        "accessIntent": {
            "surface": "bash",
            "matchValues": [value],
            "boundaryValue": null,
            "requesterCwd": "/work",
            "principal": {"sessionId": "stranger", "agentName": "scout"},
        },
    })
}

/// A response that approves, for the bytes of this digest.
pub(crate) fn approval(responder: &str, digest: Option<&str>) -> Value {
    json!({
        "approved": true,
        "state": "approved",
        "responderSessionId": responder,
        "respondedAt": 1_700_000_000_000_i64,
        "decidedBy": {"kind": "user", "via": "dialog"},
        "relay": {"v": 1, "requestDigest": digest},
    })
}

/// How an ask ended.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: Option<i32>,
    pub(crate) json: Value,
}

/// A process; killed when it is dropped. What it writes goes to files, so that nothing has to be read while it runs.
pub(crate) struct Run {
    process: Child,
    stdin: Option<ChildStdin>,
    stdout: PathBuf,
    stderr: PathBuf,
}

impl Run {
    pub(crate) fn start(field: &Field, command: &mut Command) -> Self {
        let file = |end: &str| {
            tempfile::Builder::new()
                .suffix(end)
                .tempfile_in(field.dir.path())
                .unwrap()
                .keep()
                .unwrap()
        };
        let (out, stdout) = file(".out");
        let (err, stderr) = file(".err");
        let mut process = command
            .stdin(Stdio::piped())
            .stdout(out)
            .stderr(err)
            .spawn()
            .unwrap();
        Self {
            stdin: process.stdin.take(),
            process,
            stdout,
            stderr,
        }
    }

    pub(crate) fn stdout(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.stdout).unwrap()).into_owned()
    }

    pub(crate) fn stderr(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.stderr).unwrap()).into_owned()
    }

    #[track_caller]
    pub(crate) fn await_serving(&mut self) {
        until("a serving session", || {
            assert!(
                self.process.try_wait().unwrap().is_none(),
                "it ended: {}",
                self.stderr()
            );
            self.stderr().contains("serving session")
        });
    }

    pub(crate) fn type_line(&mut self, line: &str) {
        // Whoever has ended reads nothing more; the test sees that elsewhere.
        let _written = writeln!(self.stdin.as_mut().unwrap(), "{line}");
    }

    /// Closes its input.
    pub(crate) fn end_input(&mut self) {
        self.stdin = None;
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.pid()).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// Stops it, and waits until it stands still.
    pub(crate) fn freeze(&self) {
        self.signal(Signal::STOP);
        let stat = format!("/proc/{}/stat", self.pid());
        until("a stopped process", || {
            let text = fs::read_to_string(&stat).unwrap();
            text.rsplit_once(") ")
                .is_some_and(|(_, rest)| rest.starts_with('T'))
        });
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.process.try_wait().unwrap().is_some()
    }

    #[track_caller]
    pub(crate) fn await_end(&mut self) -> ExitStatus {
        eventually("the end of a process", || self.process.try_wait().unwrap())
    }

    /// Waits for the end of an ask.
    #[track_caller]
    pub(crate) fn answer(mut self) -> Answer {
        let code = self.await_end().code();
        Answer {
            code,
            json: serde_json::from_str(&self.stdout()).unwrap_or(Value::Null),
        }
    }

    /// Ends a server in good order.
    #[track_caller]
    pub(crate) fn stop(mut self) {
        self.signal(Signal::TERM);
        let status = self.await_end();
        assert_eq!(status.code(), Some(0), "{}", self.stderr());
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        let _killed = self.process.kill();
        let _reaped = self.process.wait();
    }
}

/// An object that is no plain file of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Odd {
    Fifo,
    Directory,
    Link,
    DanglingLink,
    Socket,
    Device,
    SecondName,
    Strangers,
    TenGigabytes,
}

impl Odd {
    pub(crate) const ALL: [Self; 9] = [
        Self::Fifo,
        Self::Directory,
        Self::Link,
        Self::DanglingLink,
        Self::Socket,
        Self::Device,
        Self::SecondName,
        Self::Strangers,
        Self::TenGigabytes,
    ];

    /// Makes it at `path`, whole from the first instant on; a link leads to `secret`. Tells whether it could.
    pub(crate) fn make(self, path: &Path, secret: &Path) -> bool {
        let beside = path.with_file_name(".odd.tmp");
        let made = self.make_here(&beside, secret);
        if made {
            fs::rename(&beside, path).unwrap();
        }
        made
    }

    fn make_here(self, path: &Path, secret: &Path) -> bool {
        let root = rustix::process::geteuid().is_root();
        // What takes two steps is made beside: a running server takes away what it sees in between.
        let aside = path.with_extension("making");
        match self {
            Self::Fifo => {
                let mode = Mode::from_raw_mode(0o600);
                rustix::fs::mknodat(CWD, path, FileType::Fifo, mode, 0).unwrap();
            }
            Self::Directory => {
                fs::create_dir(&aside).unwrap();
                fs::write(aside.join("inner.json"), "{}").unwrap();
                fs::rename(&aside, path).unwrap();
            }
            Self::Link => symlink(secret, path).unwrap(),
            Self::DanglingLink => symlink(path.with_extension("nothing"), path).unwrap(),
            Self::Socket => drop(UnixListener::bind(path).unwrap()),
            Self::Device => {
                let mode = Mode::from_raw_mode(0o600);
                let null = rustix::fs::makedev(1, 3);
                if !root
                    || rustix::fs::mknodat(CWD, path, FileType::CharacterDevice, mode, null)
                        .is_err()
                {
                    skipped("a device cannot be made here");
                    return false;
                }
            }
            Self::SecondName => fs::hard_link(secret, path).unwrap(),
            Self::Strangers => {
                if !root {
                    skipped("only root can make another user's file");
                    return false;
                }
                fs::write(&aside, "{}").unwrap();
                std::os::unix::fs::chown(&aside, Some(12_345), None).unwrap();
                fs::rename(&aside, path).unwrap();
            }
            Self::TenGigabytes => {
                let file = fs::File::create(&aside).unwrap();
                file.set_len(10 * 1024 * 1024 * 1024).unwrap();
                fs::rename(&aside, path).unwrap();
            }
        }
        true
    }
}
