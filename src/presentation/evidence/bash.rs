//! Evidence of a command line.

use super::fields::{COMMANDS, Members};
use super::{Call, entry};
use crate::wire::Evidence;

/// Names under which agents give the directory that a command runs in.
const DIRECTORIES: [&str; 5] = [
    "cwd",
    "workdir",
    "working_directory",
    "dir_path",
    "directory",
];

/// Names under which an agent says in its own words what a command is for. Nobody has checked them.
const WORDS: [&str; 2] = ["description", "justification"];

/// `None` where the input holds no command line.
pub(super) fn evidence(call: &Call<'_>) -> Option<Vec<Evidence>> {
    let mut input = Members::of(call.input)?;
    let command = input.text(&COMMANDS)?;
    let mut entries = Vec::new();
    if command != call.value {
        entries.push(entry("full command", command));
    }
    if let Some(directory) = input.text(&DIRECTORIES) {
        entries.push(entry("working directory", directory));
    }
    for name in WORDS {
        entries.extend(
            input
                .text(&[name])
                .map(|words| entry("asker's words", words)),
        );
    }
    entries.extend(input.rest());
    Some(entries)
}
