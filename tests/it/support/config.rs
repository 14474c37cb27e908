//! A configuration whose files a test changes while a session runs.
#![expect(
    clippy::disallowed_methods,
    reason = "tests play the operator, whose configuration is files"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::processes::{Ended, Serve, Server, run};
use super::spool::{TestSpool, eventually, until};

/// A spool, the configuration that its sessions are started with, and a project.
pub(crate) struct Configured {
    pub(crate) spool: TestSpool,
}

impl Configured {
    pub(crate) fn new(config: &str) -> Self {
        let spool = TestSpool::new();
        for directory in ["conf/agents", "project/.askrelay/agents"] {
            fs::create_dir_all(spool.below(directory)).unwrap();
        }
        let configured = Self { spool };
        configured.write(config);
        configured
    }

    /// The user's configuration.
    pub(crate) fn path(&self) -> PathBuf {
        self.spool.below("conf/config.json")
    }

    pub(crate) fn agent(&self, name: &str) -> PathBuf {
        self.spool.below(&format!("conf/agents/{name}.md"))
    }

    /// A file of the project.
    pub(crate) fn of_project(&self, relative: &str) -> PathBuf {
        self.spool.below("project").join(relative)
    }

    /// Writes the configuration as an editor does: beside it, then renamed over it.
    pub(crate) fn write(&self, config: &str) {
        put(&self.path(), config);
    }

    /// The program with this configuration, in this project.
    pub(crate) fn relay(&self) -> Command {
        let mut command = self.spool.relay();
        command
            .arg("--config")
            .arg(self.path())
            .arg("--project")
            .arg(self.spool.below("project"));
        command
    }

    pub(crate) fn serve(&self) -> Serve {
        let project = self.spool.below("project");
        let serve = self.spool.serve("P").config(&self.path());
        serve.args([Path::new("--project"), &project])
    }

    pub(crate) fn headless(&self) -> Server {
        self.serve().start()
    }

    pub(crate) fn select(&self) -> Server {
        self.serve().select().start()
    }

    /// Trusts the project as it is.
    #[track_caller]
    pub(crate) fn trust(&self) {
        let (code, _, stderr) = run(self
            .relay()
            .args(["config", "trust", "--yes"])
            .arg(self.spool.below("project")));
        assert_eq!(code, 0, "{stderr}");
    }

    /// One ask by an agent, to its end.
    #[track_caller]
    pub(crate) fn ask(&self, agent: &str, command: &str) -> Ended {
        let ask = self.spool.ask_as(agent, "P");
        ask.value(command).run()
    }

    /// Waits until so many entries of this event are in the log, and gives the last one.
    #[track_caller]
    pub(crate) fn await_events(&self, event: &str, count: usize) -> Value {
        let found = eventually(&format!("{count} of {event}"), || {
            let found = self.spool.events(event);
            (found.len() >= count).then_some(found)
        });
        assert_eq!(found.len(), count, "{found:?}");
        found.last().unwrap().clone()
    }

    /// What `status` says about the configuration of the session.
    #[track_caller]
    pub(crate) fn failure(&self) -> Option<String> {
        let (code, stdout, stderr) = run(self.spool.relay().args(["status", "--json"]));
        assert_eq!(code, 0, "{stderr}");
        let mut lines = stdout.lines();
        let session = lines.find(|line| line.contains("\"type\":\"session\""))?;
        let session: Value = serde_json::from_str(session).unwrap();
        session["heartbeat"]["configFailure"]
            .as_str()
            .map(str::to_owned)
    }

    /// Waits until `status` names a failure that contains this, and gives it.
    #[track_caller]
    pub(crate) fn await_failure(&self, text: &str) -> String {
        eventually(&format!("a failure with {text:?}"), || {
            self.failure().filter(|failure| failure.contains(text))
        })
    }

    #[track_caller]
    pub(crate) fn await_no_failure(&self) {
        until("the end of the failure", || self.failure().is_none());
    }
}

/// Writes a file beside its place, and renames it into it.
pub(crate) fn put(path: &Path, text: &str) {
    let beside = path.with_extension("new");
    fs::write(&beside, text).unwrap();
    fs::rename(&beside, path).unwrap();
}

pub(crate) fn make_directory(path: &Path) {
    fs::create_dir_all(path).unwrap();
}

/// Writes a file in its place.
pub(crate) fn overwrite(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
}

pub(crate) fn remove(path: &Path) {
    if path.is_dir() && !path.is_symlink() {
        fs::remove_dir_all(path).unwrap();
    } else {
        fs::remove_file(path).unwrap();
    }
}
