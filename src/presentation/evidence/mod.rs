//! What helps to decide about a tool call, made from the call's own input: entries of a label and a text, in order.
//!
//! A [`Formatters`] knows for each tool what its input says: the directory of a command, the lines that are read, what a file
//! would become, as a unified diff. Any other tool's input is laid out as it is, one `key : value` line for each member. A
//! formatter of the caller's own takes the place of the built-in one.
//!
//! It decides nothing, opens no file (what files hold comes in through [`Files`]) and shortens nothing; it escapes nothing
//! either, that is done by whoever shows the text.
//!
//! Invariants: every member of an input stands in the core value, in an entry of its own, or under `other input`; an input
//! that is not what its tool takes is laid out whole; an entry is a fact, never a sentence about one; what the asker says about
//! its own call is labelled as the asker's words; an edit that would fail says so instead of showing a change of the file; what it takes is
//! bounded whatever the input, and what was not worked out says so and is shown as it is written.

mod bash;
mod diff;
mod edit;
mod fields;
mod file;
mod patch;
mod work;

use std::collections::HashMap;

use serde_json::Value;

pub use self::diff::{DIFF_LABEL, LineClass, line_classes, unified_diff};
pub use self::fields::{pointed_at, value_of};
pub use self::patch::{Patched, patched};
use crate::wire::Evidence;

/// One call of a tool that is asked about.
#[derive(Clone, Copy)]
pub struct Call<'a> {
    /// Name of the tool, as its agent calls it.
    pub tool: &'a str,
    /// The tool's own input.
    pub input: &'a Value,
    /// The value of the ask. What it says already is not said again.
    pub value: &'a str,
    /// What files hold now.
    pub files: &'a dyn Files,
}

/// Where the present content of files comes from.
pub trait Files {
    /// What lies at `path`, which is spelled as the call spells it.
    fn current(&self, path: &str) -> Current;
}

/// What is known about the present content of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Current {
    /// Its bytes.
    Content(Vec<u8>),
    /// There is none.
    Missing,
    /// It could not be read; why, in a few words.
    Unreadable(String),
    /// Nobody looked.
    Unknown,
}

/// Nobody looks at files.
#[derive(Debug, Clone, Copy)]
pub struct NoFiles;

impl Files for NoFiles {
    fn current(&self, _path: &str) -> Current {
        Current::Unknown
    }
}

/// Makes evidence of the calls of one tool. Any function of this form is one.
pub trait Formatter: Send + Sync {
    /// The entries, complete and in order.
    fn evidence(&self, call: &Call<'_>) -> Vec<Evidence>;
}

impl<F: Fn(&Call<'_>) -> Vec<Evidence> + Send + Sync> Formatter for F {
    fn evidence(&self, call: &Call<'_>) -> Vec<Evidence> {
        self(call)
    }
}

/// The formatters of all tools: those that were registered, and the built-in ones for everything else.
#[derive(Default)]
pub struct Formatters {
    registered: HashMap<String, Box<dyn Formatter>>,
}

impl std::fmt::Debug for Formatters {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.registered.keys()).finish()
    }
}

impl Formatters {
    /// Has `formatter` make the evidence of `tool`, in the place of whatever made it before.
    pub fn register(&mut self, tool: impl Into<String>, formatter: impl Formatter + 'static) {
        self.registered.insert(tool.into(), Box::new(formatter));
    }

    /// The evidence of one call.
    pub fn evidence(&self, call: &Call<'_>) -> Vec<Evidence> {
        match self.registered.get(call.tool) {
            Some(formatter) => formatter.evidence(call),
            None => built_in(call),
        }
    }
}

/// Names under which agents know the tools that are understood here.
fn built_in(call: &Call<'_>) -> Vec<Evidence> {
    let made = match call.tool {
        "bash" | "Bash" | "shell" | "local_shell" | "exec_command" | "run_shell_command" => {
            bash::evidence(call)
        }
        "read" | "Read" | "read_file" => file::read(call),
        "write" | "Write" | "write_file" => file::write(call),
        "edit" | "Edit" | "MultiEdit" | "multiedit" | "replace" => edit::evidence(call),
        "apply_patch" | "patch" => patch::evidence(call),
        _ => None,
    };
    made.unwrap_or_else(|| fields::whole(call.input).into_iter().collect())
}

/// Labels of the entries that are made here, as far as they cannot be taken for those of core facts.
pub(super) const LABELS: [&str; 10] = [
    DIFF_LABEL,
    "asker's words",
    "below",
    "content",
    "edit",
    "file",
    "line numbers",
    "lines",
    "no change",
    "other input",
];

fn entry(label: &str, text: impl Into<String>) -> Evidence {
    Evidence {
        label: label.to_owned(),
        text: text.into(),
        detail: None,
    }
}

/// What is to be known about a file beside its content.
fn about_file(path: &str, fact: impl Into<String>) -> Evidence {
    Evidence {
        label: "file".to_owned(),
        text: path.to_owned(),
        detail: Some(fact.into()),
    }
}

#[cfg(test)]
mod tests;
