//! One step through a command: what it hands on, and what of it cannot be seen.

use std::ops::Range;

use super::Floor;
use super::trust::has_expansion;
use super::word::Word;
use super::wrappers::{Options, Program, Wrapper, program};
use super::{launchers, shells};

/// What a command comes to.
#[derive(Debug)]
pub(super) struct Step {
    /// Why no rule may allow the command itself.
    pub(super) floor: Option<Floor>,
    /// What it runs besides itself.
    pub(super) inner: Inner,
    /// What it is called in the list of wrappers.
    pub(super) name: &'static str,
    /// Whether what it runs, runs on another machine.
    pub(super) remote: bool,
}

/// What a command runs besides itself.
#[derive(Debug)]
pub(super) enum Inner {
    Nothing,
    /// These words are a command.
    Command(Range<usize>),
    /// Each of these ranges of words is a command.
    Commands(Vec<Range<usize>>),
    /// These words, joined with blanks, are a command line.
    Line(Range<usize>),
    /// What comes on its standard input is a command line.
    Input,
}

impl Step {
    pub(super) fn plain() -> Self {
        Self {
            floor: None,
            inner: Inner::Nothing,
            name: "",
            remote: false,
        }
    }

    pub(super) fn floored(floor: Floor) -> Self {
        Self {
            floor: Some(floor),
            ..Self::plain()
        }
    }

    pub(super) fn handing_on(name: &'static str, inner: Inner) -> Self {
        Self {
            inner,
            name,
            ..Self::plain()
        }
    }
}

/// Looks at a command, of which `words` are all words, its name first.
pub(super) fn step(words: &[Word]) -> Step {
    let Some(first) = words.first() else {
        return Step::plain();
    };
    let Some(name) = first.literal() else {
        return Step::floored(Floor::Indirection);
    };
    match program(name) {
        Program::Plain => Step::plain(),
        Program::Wrapper(wrapper) => wrapped(wrapper, words),
        Program::Shell(shell) => shells::shell_step(shell, words),
        Program::OtherShell => shells::other_shell(name, words),
        Program::Interpreter => shells::interpreter(name, words),
        Program::Indirect => Step::floored(Floor::Indirection),
        Program::Keeper => {
            if words.len() > 1 {
                Step::floored(Floor::Opaque)
            } else {
                Step::plain()
            }
        }
        Program::Eval => Step {
            floor: Some(Floor::Opaque),
            ..Step::handing_on("eval", line_of(words, 1))
        },
        Program::Trap => trap(words),
        Program::Alias => {
            let defines = words
                .iter()
                .skip(1)
                .any(|word| !word.is_literal || word.value.text.contains('='));
            if defines {
                Step::floored(Floor::Opaque)
            } else {
                Step::plain()
            }
        }
        Program::Find => launchers::find(words),
        Program::Fd => launchers::fd(words),
        Program::Ssh => shells::ssh(words),
        Program::Watch => launchers::watch(words),
        Program::Parallel => launchers::parallel(words),
        Program::Evaluates => evaluates(name, words),
        Program::Reserved => Step {
            floor: Some(Floor::UnparsedSubtree),
            ..Step::handing_on("", commands_from(words, 1))
        },
    }
}

/// All words from `at` on are one command.
pub(super) fn commands_from(words: &[Word], at: usize) -> Inner {
    if at < words.len() {
        Inner::Command(at..words.len())
    } else {
        Inner::Nothing
    }
}

/// All words from `at` on are one command line.
pub(super) fn line_of(words: &[Word], at: usize) -> Inner {
    if at < words.len() {
        Inner::Line(at..words.len())
    } else {
        Inner::Nothing
    }
}

pub(super) fn is_literally(word: Option<&Word>, one_of: &[&str]) -> bool {
    word.and_then(Word::literal)
        .is_some_and(|text| one_of.contains(&text))
}

fn wrapped(wrapper: &'static Wrapper, words: &[Word]) -> Step {
    match wrapper.options(words) {
        // The peer asks about these even then, and so do we.
        Options::Nothing if !wrapper.is_of_the_shell => Step::floored(Floor::Indirection),
        Options::Nothing => Step::plain(),
        Options::Shell => Step {
            floor: Some(Floor::Opaque),
            ..Step::handing_on(wrapper.name, Inner::Input)
        },
        Options::Unknown => Step::floored(Floor::Indirection),
        Options::Command(at) => {
            let inner =
                if wrapper.name == "flock" && is_literally(words.get(at), &["-c", "--command"]) {
                    line_of(words, at + 1)
                } else if wrapper.name == "coproc" && is_literally(words.get(at + 1), &["{"]) {
                    commands_from(words, at + 2)
                } else {
                    commands_from(words, at)
                };
            Step {
                floor: if wrapper.adds_arguments {
                    Some(Floor::Indirection)
                } else {
                    (!wrapper.is_of_the_shell).then_some(Floor::Wrapper)
                },
                ..Step::handing_on(wrapper.name, inner)
            }
        }
    }
}

fn trap(words: &[Word]) -> Step {
    let at = if is_literally(words.get(1), &["--"]) {
        2
    } else {
        1
    };
    let Some(action) = words.get(at) else {
        return Step::plain();
    };
    // `trap INT` and `trap - INT` give the signal back, `trap '' INT` ignores it.
    let resets = words.len() == at + 1 && action.is_literal;
    match action.literal() {
        Some("" | "-" | "-l" | "-p" | "-P") => Step::plain(),
        Some(_) if resets => Step::plain(),
        Some(_) => Step::handing_on("trap", Inner::Line(at..at + 1)),
        None => Step {
            floor: Some(Floor::Opaque),
            ..Step::handing_on("trap", Inner::Line(at..at + 1))
        },
    }
}

/// Commands of the shell that evaluate subscripts in their arguments, substitutions in quotes included.
fn evaluates(name: &str, words: &[Word]) -> Step {
    let arguments = words.get(1..).unwrap_or_default();
    let has_option = |letter: char| {
        arguments.iter().any(|word| {
            word.value
                .text
                .strip_prefix(['-', '+'])
                .is_some_and(|letters| !letters.starts_with('-') && letters.contains(letter))
        })
    };
    let concerned = match name {
        // Hands each batch of lines to a command.
        "mapfile" | "readarray" => {
            if has_option('C') {
                return Step::floored(Floor::Opaque);
            }
            true
        }
        // Remembers another file for a command.
        "hash" => {
            if has_option('p') {
                return Step::floored(Floor::Opaque);
            }
            false
        }
        "printf" | "test" | "[" => {
            has_option('v')
                || arguments
                    .iter()
                    .any(|word| word.value.text.starts_with("-v"))
        }
        _ => true,
    };
    // What is expanded before is no matter of theirs: it stands in the tree.
    let hides = arguments
        .iter()
        .any(|word| word.is_literal && has_expansion(&word.value.text));
    if concerned && hides {
        Step::floored(Floor::Opaque)
    } else {
        Step::plain()
    }
}
