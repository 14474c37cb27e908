//! Links of a chain of authorizers, as small programs that a test writes.
#![expect(
    clippy::disallowed_methods,
    reason = "tests write the programs that they run"
)]

use std::path::PathBuf;

use serde_json::{Map, Value, json};

use super::processes::{Serve, has_ended};
use super::spool::{TestSpool, eventually, until};

/// A program that says this, and reads what it is asked.
pub(crate) fn says(answer: &str) -> String {
    format!("cat >/dev/null; printf '%s\\n' '{answer}'")
}

pub(crate) fn allows() -> String {
    says(r#"{"verdict":"allow"}"#)
}

pub(crate) fn defers() -> String {
    says(r#"{"verdict":"defer"}"#)
}

/// A chain of links, each a shell script, in this order.
#[derive(Default)]
pub(crate) struct Chain {
    names: Vec<String>,
    programs: Map<String, Value>,
    pub(crate) config: Map<String, Value>,
}

impl Chain {
    /// One more link, which runs this shell script in the test's own directory.
    pub(crate) fn link(self, spool: &TestSpool, name: &str, body: &str) -> Self {
        self.link_within(spool, name, body, 60_000)
    }

    /// As [`Chain::link`], with so many milliseconds of time.
    pub(crate) fn link_within(self, spool: &TestSpool, name: &str, body: &str, ms: u64) -> Self {
        let path = spool.work().join(format!("judge-{name}"));
        let directory = spool.work();
        let script = format!("cd '{}' || exit 9\n{body}\n", directory.display());
        std::fs::write(&path, script).unwrap();
        let program = json!({"command": ["/bin/sh", path], "timeoutMs": ms});
        self.program(name, program)
    }

    /// One more link, of this entry in the configuration.
    pub(crate) fn program(mut self, name: &str, program: Value) -> Self {
        self.programs.insert(name.to_owned(), program);
        self.named(name)
    }

    /// One more name, whether there is a program for it or not.
    pub(crate) fn named(mut self, name: &str) -> Self {
        self.names.push(name.to_owned());
        self
    }

    pub(crate) fn with(mut self, key: &str, value: Value) -> Self {
        self.config.insert(key.to_owned(), value);
        self
    }

    /// The file with all of it.
    pub(crate) fn file(&self, spool: &TestSpool, name: &str) -> PathBuf {
        let mut config = self.config.clone();
        config.insert("authorizerChain".to_owned(), json!(self.names));
        config.insert("authorizers".to_owned(), json!(self.programs));
        spool.config(name, &Value::Object(config))
    }

    /// `askrelay serve` with it, headless unless told otherwise.
    pub(crate) fn serve(&self, spool: &TestSpool, session: &str) -> Serve {
        let path = self.file(spool, session);
        spool.serve(session).config(&path)
    }
}

impl TestSpool {
    /// What a program of this test has written into its own directory.
    pub(crate) fn written(&self, name: &str) -> Option<String> {
        std::fs::read_to_string(self.work().join(name)).ok()
    }

    /// Waits for the process id that a program writes into this file.
    pub(crate) fn await_pid(&self, name: &str) -> u32 {
        eventually("a process id", || {
            self.written(name)?.strip_suffix('\n')?.parse().ok()
        })
    }

    /// Waits until the process has ended that wrote its id into this file; one that could not even begin to write has.
    pub(crate) fn await_end(&self, name: &str) {
        if self.written(name).is_some() {
            let pid = self.await_pid(name);
            until("the end of a process", || has_ended(pid));
        }
    }

    /// What is recorded of the links that were asked about an ask, as pairs of name and outcome.
    pub(crate) fn links(&self, id: &str) -> Vec<(String, String)> {
        let entries = self.events_of("authorizer_link", id);
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        entries
            .iter()
            .map(|entry| {
                assert!(entry["latencyMs"].is_u64(), "{entry}");
                (text(&entry["name"]), text(&entry["outcome"]))
            })
            .collect()
    }
}
