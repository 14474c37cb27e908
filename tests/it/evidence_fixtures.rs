//! The fixtures of evidence: each holds a tool's input and what files hold, and by itself says which entries come of them.

use std::collections::BTreeSet;

use askrelay::presentation::evidence::{Call, Current, Files, Formatters};
use serde_json::{Map, Value};

use crate::support::fixtures;

/// What files hold, by path: a text, a list of bytes, null for no file, or an object that says why it cannot be read. Nobody
/// has looked at a file that is not named.
struct Holds(Map<String, Value>);

impl Files for Holds {
    fn current(&self, path: &str) -> Current {
        match self.0.get(path) {
            None => Current::Unknown,
            Some(Value::Null) => Current::Missing,
            Some(Value::String(text)) => Current::Content(text.clone().into_bytes()),
            Some(Value::Array(bytes)) => {
                let byte = |byte: &Value| u8::try_from(byte.as_u64().unwrap()).unwrap();
                Current::Content(bytes.iter().map(byte).collect())
            }
            Some(other) => Current::Unreadable(other["unreadable"].as_str().unwrap().to_owned()),
        }
    }
}

#[test]
fn each_input_gives_the_entries_that_its_fixture_names() {
    let mut failures = Vec::new();
    let paths = fixtures::files_below("fixtures/evidence");
    let mut tools = BTreeSet::new();
    for path in &paths {
        let fixture: Value = serde_json::from_slice(&fixtures::bytes(path)).unwrap();
        let files = Holds(fixture["files"].as_object().cloned().unwrap_or_default());
        let tool = fixture["tool"].as_str().unwrap();
        let evidence = Formatters::default().evidence(&Call {
            tool,
            input: &fixture["input"],
            value: fixture["value"].as_str().unwrap_or_default(),
            files: &files,
        });
        let made = serde_json::to_value(&evidence).unwrap();
        if made != fixture["evidence"] {
            failures.push(format!("{path}\t{made}"));
        }
        tools.insert(tool.to_owned());
    }
    assert!(failures.is_empty(), "\n{}", failures.join("\n"));
    assert!(
        paths.len() >= 40 && tools.len() >= 15,
        "only {paths:?} for {tools:?}"
    );
}
