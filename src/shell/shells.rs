//! Shells and other interpreters, here and behind `ssh`: where the code comes from that they run.

use super::Floor;
use super::step::{Inner, Step, is_literally};
use super::word::Word;
use super::wrappers::base_name;

/// Letters of options of shells: without a value, and with one.
const SHELL_FLAGS: &str = "abefhiklmnprtuvxBCDEHPTI";
const SHELL_VALUED: &str = "oO";
const SHELL_LONG: [&str; 7] = [
    "login",
    "norc",
    "noprofile",
    "posix",
    "verbose",
    "restricted",
    "noediting",
];

pub(super) fn shell_step(shell: &'static str, words: &[Word]) -> Step {
    let opaque = Step::floored(Floor::Opaque);
    let (mut at, mut line, mut input) = (1, false, false);
    while let Some(word) = words.get(at) {
        let Some(text) = word.literal() else {
            break;
        };
        if text == "--" || text == "-" {
            at += 1;
            break;
        }
        if let Some(long) = text.strip_prefix("--") {
            if matches!(long, "version" | "help") {
                return Step::plain();
            }
            if !SHELL_LONG.contains(&long) {
                return opaque;
            }
            at += 1;
            continue;
        }
        let Some(letters) = text.strip_prefix(['-', '+']) else {
            break;
        };
        at += 1;
        for letter in letters.chars() {
            match letter {
                'c' if text.starts_with('-') => line = true,
                's' => input = true,
                _ if SHELL_VALUED.contains(letter) => {
                    if !words.get(at).is_some_and(|word| word.is_one) {
                        return opaque;
                    }
                    at += 1;
                }
                _ if SHELL_FLAGS.contains(letter) => {}
                _ => return opaque,
            }
        }
    }
    let operand = words.get(at);
    if line {
        return match operand {
            Some(word) if word.is_literal || word.is_one => {
                handed_on(shell, Inner::Line(at..at + 1))
            }
            Some(_) | None => opaque,
        };
    }
    match operand {
        None => handed_on(shell, Inner::Input),
        Some(_) if input => handed_on(shell, Inner::Input),
        Some(word) => match word.literal() {
            Some(file) if file.starts_with("/dev/") || file.starts_with("/proc/") => Step {
                floor: Some(Floor::Opaque),
                ..Step::handing_on(shell, Inner::Input)
            },
            // A script in a file is no part of the line, and the rule that allows it names it.
            Some(_) => Step::plain(),
            None => opaque,
        },
    }
}

/// Shells whose language is not read: what they are given to run is opaque, wherever it comes from.
pub(super) fn other_shell(name: &str, words: &[Word]) -> Step {
    let runs_a_file = !matches!(base_name(name), "su" | "runuser" | "script" | "mosh")
        && words
            .get(1)
            .and_then(Word::literal)
            .is_some_and(|text| !text.starts_with('-') && !text.starts_with('/'));
    let asks_for_help =
        words.len() == 2 && is_literally(words.get(1), &["--version", "--help", "-v", "-V"]);
    if runs_a_file || asks_for_help {
        Step::plain()
    } else {
        Step::floored(Floor::Opaque)
    }
}

/// An interpreter that is given no file and no code reads its program from its input.
pub(super) fn interpreter(name: &str, words: &[Word]) -> Step {
    let base = base_name(name);
    let is = |family: &str| base.starts_with(family);
    // Letters of options that bring code or name it, and of options whose value is the next word.
    let (code, valued) = if is("python") || is("pypy") {
        ("cm", "WX")
    } else if is("perl") {
        ("eE", "I")
    } else if is("ruby") {
        ("e", "Ir")
    } else if is("node") || is("bun") {
        ("ep", "r")
    } else if is("php") {
        ("rf", "dc")
    } else {
        ("e", "")
    };
    let mut arguments = words.iter().skip(1);
    while let Some(word) = arguments.next() {
        let Some(text) = word.literal() else {
            return Step::plain();
        };
        if text.starts_with("/dev/") || text == "-" {
            break;
        }
        if text == "--" {
            continue;
        }
        let Some(letters) = text.strip_prefix('-') else {
            return Step::plain();
        };
        let informs =
            matches!(letters, "-version" | "-help" | "V" | "h") || letters == "v" && !is("py");
        let long_code = ["-eval", "-print"]
            .iter()
            .any(|option| letters.starts_with(option));
        if informs
            || long_code
            || !letters.starts_with('-') && letters.contains(|letter| code.contains(letter))
        {
            return Step::plain();
        }
        if letters.len() == 1 && valued.contains(letters) {
            arguments.next();
        }
    }
    Step::floored(Floor::Opaque)
}

/// A shell that is handed a command line, which is taken apart.
fn handed_on(shell: &'static str, inner: Inner) -> Step {
    Step {
        floor: Some(Floor::Shell),
        ..Step::handing_on(shell, inner)
    }
}

/// Letters of options of `ssh`: without a value, and with one.
const SSH_FLAGS: &str = "46AaCfGgKkMNnqsTtVvXxYy";
const SSH_VALUED: &str = "BbcDEeFIiJLlmOopQRSWw";

pub(super) fn ssh(words: &[Word]) -> Step {
    let mut at = 1;
    let mut floor = None;
    let mut host = false;
    // With one of these no command is run there.
    let mut idle = false;
    while let Some(word) = words.get(at) {
        let Some(text) = word.literal() else {
            if host {
                break;
            }
            // A host of that name might be an option.
            floor = Some(Floor::Indirection);
            if !word.is_one {
                return Step::floored(Floor::Indirection);
            }
            host = true;
            at += 1;
            continue;
        };
        if text == "--" {
            at += 1;
            if host {
                break;
            }
            continue;
        }
        let Some(letters) = text.strip_prefix('-').filter(|letters| !letters.is_empty()) else {
            if host {
                break;
            }
            host = true;
            at += 1;
            continue;
        };
        at += 1;
        for (place, letter) in letters.char_indices() {
            idle |= matches!(letter, 'N' | 'O' | 'Q' | 'W' | 'V' | 'G');
            if SSH_VALUED.contains(letter) {
                let attached = letters.get(place + letter.len_utf8()..).unwrap_or_default();
                let value = if attached.is_empty() {
                    at += 1;
                    words
                        .get(at - 1)
                        .filter(|word| word.is_one)
                        .map(|word| word.value.text.as_str())
                } else {
                    Some(attached)
                };
                let harmless = value.is_some_and(|value| letter != 'o' || !names_a_command(value));
                if !harmless || letter == 'F' {
                    floor = Some(Floor::Indirection);
                }
                break;
            }
            if !SSH_FLAGS.contains(letter) {
                return Step::floored(Floor::Indirection);
            }
        }
    }
    let inner = if idle || !host {
        Inner::Nothing
    } else if at < words.len() {
        Inner::Line(at..words.len())
    } else {
        Inner::Input
    };
    Step {
        floor,
        remote: true,
        ..Step::handing_on("ssh", inner)
    }
}

/// Whether an option of `ssh` runs something, here or there. An expansion might.
fn names_a_command(option: &str) -> bool {
    let lower = option.to_ascii_lowercase();
    ["command", "include", "provider", "match", "$", "`", "xauth"]
        .iter()
        .any(|part| lower.contains(part))
}
