//! The fixtures of identities: each holds a parent's prompt, and by itself says what a child inherits of it and what was cut.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;

use askrelay::identity::{Directories, Excision, inherit, line_number};
use serde_json::{Value, json};

use crate::support::fixtures;
use crate::support::processes::filter;
use crate::support::spool::TestSpool;

struct Fixture {
    name: String,
    document: Value,
}

impl Fixture {
    fn all() -> Vec<Self> {
        fixtures::files_below("fixtures/identity")
            .into_iter()
            .map(|path| Self {
                document: serde_json::from_slice(&fixtures::bytes(&path)).unwrap(),
                name: path,
            })
            .collect()
    }

    fn bytes(&self, text: &str) -> Vec<u8> {
        match self.document.get("encoding") {
            None => text.as_bytes().to_vec(),
            // One byte a character.
            Some(encoding) => {
                assert_eq!(encoding, "latin1");
                text.chars().map(|c| u8::try_from(c).unwrap()).collect()
            }
        }
    }

    fn lines(&self, member: &str) -> Vec<u8> {
        let lines = self.document[member].as_array().unwrap();
        let lines: Vec<&str> = lines.iter().map(|line| line.as_str().unwrap()).collect();
        self.bytes(&lines.join("\n"))
    }

    fn text(&self, member: &str) -> Vec<u8> {
        self.bytes(self.document[member].as_str().unwrap())
    }
}

/// What a fixture says that was done, in its own words.
fn done(prompt: &[u8], directories: &Directories<'_>) -> (Vec<u8>, Value) {
    let identity = inherit(prompt, directories);
    let line = |at| line_number(prompt, at);
    let mut said = json!({"shape": identity.tail.map(|tail| tail.shape.name())});
    if let Some(tail) = identity.tail {
        said["cut"] = json!({"line": line(tail.cut), "at": tail.cut_at.name()});
    }
    match &identity.excision {
        Excision::Done(bytes) => {
            said["excised"] = json!([line(bytes.start), line(bytes.end) - 1]);
        }
        Excision::Kept(kept) => {
            said["excised"] = Value::Null;
            said["kept"] = json!(kept.name());
        }
    }
    (identity.to_vec(), said)
}

#[test]
fn each_prompt_gives_the_identity_that_its_fixture_names() {
    let mut failures = Vec::new();
    let fixtures = Fixture::all();
    for fixture in &fixtures {
        let prompt = fixture.lines("prompt");
        let (parent, child) = (fixture.text("parent"), fixture.text("child"));
        let directories = Directories {
            parent: &parent,
            child: &child,
        };
        let (identity, said) = done(&prompt, &directories);
        let shown = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let wanted = fixture.lines("identity");
        if identity != wanted {
            failures.push(format!(
                "{}:\n{}\n--- instead of\n{}",
                fixture.name,
                shown(&identity),
                shown(&wanted)
            ));
        }
        let members = ["shape", "cut", "excised", "kept"];
        for member in members {
            if said.get(member) != fixture.document.get(member) {
                failures.push(format!("{}: {member}: {said}", fixture.name));
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
    assert!(fixtures.len() >= 80, "only {}", fixtures.len());
}

#[test]
fn the_command_prints_the_same_bytes() {
    let spool = TestSpool::new();
    for fixture in Fixture::all() {
        let mut command = spool.relay();
        command.arg("identity");
        for (option, member) in [("--parent-cwd", "parent"), ("--child-cwd", "child")] {
            command
                .arg(option)
                .arg(OsString::from_vec(fixture.text(member)));
        }
        let (code, stdout, stderr) = filter(&mut command, &fixture.lines("prompt"));
        assert_eq!((code, stderr.as_str()), (0, ""), "{}", fixture.name);
        assert_eq!(stdout, fixture.lines("identity"), "{}", fixture.name);
    }
}
