//! A spool of its own for each test, with everything that a process could look at beside it: home, configuration, log.
#![expect(
    clippy::disallowed_methods,
    reason = "tests play the other side of the spool, which is files"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

/// How long anything may take before a test fails. Far more than is needed: a machine under load must not fail a test.
pub(crate) const DEADLINE: Duration = Duration::from_secs(90);

/// Looks again and again until `look` gives something, and fails when it never does.
#[track_caller]
pub(crate) fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let started = askrelay::clock::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(
            askrelay::clock::now().since(started) < DEADLINE,
            "this never came: {what}"
        );
        std::thread::sleep(Duration::from_millis(4));
    }
}

/// As [`eventually`], for a plain condition.
#[track_caller]
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    eventually(what, || holds().then_some(()));
}

/// Lets time pass, where time itself is what a test is about.
pub(crate) fn pass(time: Duration) {
    let started = askrelay::clock::now();
    until("time to pass", || {
        askrelay::clock::now().since(started) >= time
    });
}

/// A directory below which one test lives, and nothing else.
pub(crate) struct TestSpool {
    place: TempDir,
}

impl TestSpool {
    pub(crate) fn new() -> Self {
        Self::below_directory(Path::new(env!("CARGO_TARGET_TMPDIR")))
    }

    /// One that lies in memory where this machine has such a place, for more files than a disk likes.
    pub(crate) fn in_memory() -> Self {
        let memory = Path::new("/dev/shm");
        if memory.is_dir() {
            Self::below_directory(memory)
        } else {
            Self::new()
        }
    }

    fn below_directory(directory: &Path) -> Self {
        let place = tempfile::Builder::new()
            .prefix("it-")
            .tempdir_in(directory)
            .unwrap();
        for directory in ["home", "tmp", "work"] {
            fs::create_dir(place.path().join(directory)).unwrap();
        }
        Self { place }
    }

    pub(crate) fn below(&self, relative: &str) -> PathBuf {
        self.place.path().join(relative)
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.below("spool")
    }

    /// Working directory of every process.
    pub(crate) fn work(&self) -> PathBuf {
        self.below("work")
    }

    /// The program in an environment that holds nothing but what lies below this test's own directory.
    pub(crate) fn relay(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_askrelay"));
        command
            .env_clear()
            .env("HOME", self.below("home"))
            .env("XDG_STATE_HOME", self.below("state"))
            .env("XDG_CONFIG_HOME", self.below("config"))
            .env("TMPDIR", self.below("tmp"))
            .env("PATH", "/usr/bin:/bin")
            .env("ASKRELAY_SPOOL", self.root())
            .current_dir(self.work());
        command
    }

    /// Opens the spool within this process.
    pub(crate) fn open(&self) -> askrelay::spool::Spool {
        askrelay::spool::Spool::open(&self.root(), askrelay::spool::Missing::Create).unwrap()
    }

    /// Writes a configuration file of its own and gives its path.
    pub(crate) fn config(&self, name: &str, config: &Value) -> PathBuf {
        let path = self.below(&format!("{name}.config.json"));
        fs::write(&path, config.to_string()).unwrap();
        path
    }

    // The other side's files.

    pub(crate) fn session_dir(&self, session: &str) -> PathBuf {
        self.root().join("sessions").join(session)
    }

    pub(crate) fn request_path(&self, session: &str, id: &str) -> PathBuf {
        self.session_dir(session)
            .join("requests")
            .join(format!("{id}.json"))
    }

    pub(crate) fn response_path(&self, session: &str, id: &str) -> PathBuf {
        self.session_dir(session)
            .join("responses")
            .join(format!("{id}.json"))
    }

    pub(crate) fn heartbeat_path(&self, session: &str) -> PathBuf {
        self.root().join("serving").join(format!("{session}.json"))
    }

    /// Writes bytes as a well-behaved program does: beside the place, then renamed into it.
    pub(crate) fn put(&self, path: &Path, bytes: impl AsRef<[u8]>) {
        let directory = path.parent().unwrap();
        let temp = directory.join(format!(
            ".{}.tmp",
            path.file_name().unwrap().to_str().unwrap()
        ));
        // A clean-up may take an empty directory away in between.
        eventually("a place for a file", || {
            make_private_dirs(&self.root(), directory);
            fs::write(&temp, bytes.as_ref()).ok()?;
            fs::rename(&temp, path).ok()
        });
    }

    /// Moves a file to where another one may lie.
    pub(crate) fn rename(&self, from: &Path, to: &Path) {
        eventually("a place for a file", || {
            make_private_dirs(&self.root(), to.parent().unwrap());
            fs::rename(from, to).ok()
        });
    }

    pub(crate) fn put_request(&self, session: &str, request: &Value) {
        let id = request["id"].as_str().unwrap();
        self.put(&self.request_path(session, id), request.to_string());
    }

    /// Ids of the requests that wait in a session's inbox.
    pub(crate) fn waiting(&self, session: &str) -> Vec<String> {
        names(&self.session_dir(session).join("requests"))
            .iter()
            .filter_map(|name| name.strip_suffix(".json"))
            .map(str::to_owned)
            .collect()
    }

    /// Names of what was moved aside, without the notes beside them.
    pub(crate) fn quarantined(&self) -> Vec<String> {
        let mut names = names(&self.root().join("quarantine"));
        names.retain(|name| !name.ends_with(".reason.json"));
        names
    }

    pub(crate) fn await_request(&self, session: &str, id: &str) -> Value {
        let path = self.request_path(session, id);
        eventually(&format!("request {id}"), || read_json(&path))
    }

    pub(crate) fn await_response(&self, session: &str, id: &str) -> Value {
        let path = self.response_path(session, id);
        eventually(&format!("response {id}"), || read_json(&path))
    }

    // The review log.

    pub(crate) fn log(&self) -> Vec<Value> {
        self.log_at("state/askrelay/review.jsonl")
    }

    /// The entries of the log that lies here, below this test's own directory.
    pub(crate) fn log_at(&self, relative: &str) -> Vec<Value> {
        let text = fs::read_to_string(self.below(relative));
        text.unwrap_or_default()
            .lines()
            // The last line may be half-written at this moment.
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect()
    }

    /// The entries of one event, such as `forwarded_permission.approved`.
    pub(crate) fn events(&self, event: &str) -> Vec<Value> {
        let mut log = self.log();
        log.retain(|entry| entry["event"] == event);
        log
    }

    /// The entries of one event about one ask.
    pub(crate) fn events_of(&self, event: &str, id: &str) -> Vec<Value> {
        let mut events = self.events(event);
        events.retain(|entry| entry["requestId"] == id);
        events
    }

    pub(crate) fn await_event(&self, event: &str, id: &str) -> Value {
        eventually(&format!("{event} of {id}"), || {
            self.events_of(event, id).into_iter().next()
        })
    }

    /// The entries that say how an ask ended at the serving session.
    pub(crate) fn ends_of(&self, id: &str) -> Vec<Value> {
        let mut ends = self.events_of("forwarded_permission.approved", id);
        ends.extend(self.events_of("forwarded_permission.denied", id));
        ends
    }
}

/// Puts the modification time of a file back.
pub(crate) fn age(path: &Path, by: Duration) {
    let file = fs::File::options().write(true).open(path).unwrap();
    let then = file.metadata().unwrap().modified().unwrap() - by;
    file.set_modified(then).unwrap();
}

pub(crate) fn remove_tree(path: &Path) {
    // What serves there may be making things meanwhile.
    until("an empty place", || {
        fs::remove_dir_all(path).is_ok() || !is_there(path)
    });
}

pub(crate) fn move_away(path: &Path, to: &Path) {
    fs::rename(path, to).unwrap();
}

pub(crate) fn bytes(path: &Path) -> Vec<u8> {
    fs::read(path).unwrap()
}

pub(crate) fn is_there(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

pub(crate) fn read_json(path: &Path) -> Option<Value> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

/// Names in a directory, sorted; none where it is not there.
pub(crate) fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(directory)
        .into_iter()
        .flatten()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

fn make_private_dirs(root: &Path, directory: &Path) {
    use std::os::unix::fs::DirBuilderExt as _;
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true).mode(0o700);
    // Somebody else may make or remove one of them at the same time; the caller tries again.
    let _made = builder.create(root);
    let _made = builder.create(directory);
}

/// A request of the newest generation, as another program would write it: no word about locks or limits.
pub(crate) fn request(id: &str, target: &str, surface: &str, value: &str) -> Value {
    json!({
        "id": id,
        "createdAt": 1_700_000_000_000_i64,
        "requesterSessionId": "child",
        "targetSessionId": target,
        "requesterAgentName": "scout",
        "payload": {
            "kind": if surface == "bash" { "bash" } else { "tool" },
            "request": {
                "requester": {"agentName": null, "forwarded": false, "sessionId": null},
                "surface": surface,
                "toolName": surface,
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
        "surface": surface,
        "value": value,
        "accessIntent": {
            "surface": surface,
            "matchValues": [value],
            "boundaryValue": null,
            "requesterCwd": "/srv/tree",
            "principal": {"sessionId": "child", "agentName": "scout"},
        },
    })
}

/// A response as another program would write it.
pub(crate) fn response(responder: &str, state: &str) -> Value {
    json!({
        "approved": state.starts_with("approved"),
        "state": state,
        "responderSessionId": responder,
        "respondedAt": 1_700_000_000_000_i64,
        "decidedBy": {"kind": "user", "via": "dialog"},
    })
}
