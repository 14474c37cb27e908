//! Programs that run what stands behind them, and how their options are told from it.
//!
//! An option that is not listed here is not guessed at: nobody knows where the command begins behind it.

use super::trust::is_name;
use super::word::Word;

/// A program that runs the command behind its options.
#[derive(Debug)]
pub(super) struct Wrapper {
    /// What it is called, without a directory.
    pub(super) name: &'static str,
    /// Letters of options without a value.
    flags: &'static str,
    /// Letters of options with a value.
    valued: &'static str,
    long_flags: &'static [&'static str],
    /// Long options with a value, behind `=` or as the next word.
    long_valued: &'static [&'static str],
    /// Letters and long options with which nothing is run.
    ends: &'static str,
    long_ends: &'static [&'static str],
    /// Letters and long options with which a shell is run when there is no command.
    shell: &'static str,
    long_shell: &'static [&'static str],
    /// Words between the options and the command.
    pub(super) operands: usize,
    /// Which `NAME=value` may stand before the command.
    assigns: Assigns,
    /// Whether the command gets more arguments than stand on the line.
    pub(super) adds_arguments: bool,
    /// Whether it is a command of the shell, which without a command does nothing that matters.
    pub(super) is_of_the_shell: bool,
}

/// Which words before a command set a variable for it.
#[derive(Debug, PartialEq, Eq)]
enum Assigns {
    /// None.
    Nothing,
    /// Each that looks like it.
    Words,
    /// Each that looks like it without quotes: the wrapper is a word of the grammar.
    Unquoted,
}

const PLAIN: Wrapper = Wrapper {
    name: "",
    flags: "",
    valued: "",
    long_flags: &[],
    long_valued: &[],
    ends: "",
    long_ends: &["help", "version"],
    shell: "",
    long_shell: &[],
    operands: 0,
    assigns: Assigns::Nothing,
    adds_arguments: false,
    is_of_the_shell: false,
};

const WRAPPERS: &[Wrapper] = &[
    Wrapper {
        name: "sudo",
        flags: "AbEHknPSB",
        valued: "CDghpRrTtuU",
        long_flags: &[
            "askpass",
            "background",
            "bell",
            "preserve-env",
            "set-home",
            "non-interactive",
            "no-update",
            "preserve-groups",
            "stdin",
            "reset-timestamp",
        ],
        long_valued: &[
            "close-from",
            "chdir",
            "group",
            "host",
            "prompt",
            "chroot",
            "role",
            "command-timeout",
            "type",
            "user",
            "other-user",
        ],
        ends: "lvKVe",
        long_ends: &[
            "list",
            "validate",
            "remove-timestamp",
            "version",
            "help",
            "edit",
        ],
        shell: "is",
        long_shell: &["login", "shell"],
        assigns: Assigns::Words,
        ..PLAIN
    },
    Wrapper {
        name: "doas",
        flags: "n",
        valued: "Cua",
        ends: "L",
        shell: "s",
        ..PLAIN
    },
    Wrapper {
        name: "env",
        flags: "i0v",
        valued: "uC",
        long_flags: &["ignore-environment", "null", "debug"],
        long_valued: &["unset", "chdir"],
        assigns: Assigns::Words,
        ..PLAIN
    },
    Wrapper {
        name: "nice",
        flags: "0123456789",
        valued: "n",
        long_valued: &["adjustment"],
        ..PLAIN
    },
    Wrapper {
        name: "ionice",
        flags: "t",
        valued: "cn",
        long_flags: &["ignore"],
        long_valued: &["class", "classdata"],
        ends: "pPu",
        long_ends: &["pid", "pgid", "uid", "help", "version"],
        ..PLAIN
    },
    Wrapper {
        name: "nohup",
        ..PLAIN
    },
    Wrapper {
        name: "setsid",
        flags: "cfw",
        long_flags: &["ctty", "fork", "wait"],
        ..PLAIN
    },
    Wrapper {
        name: "time",
        assigns: Assigns::Unquoted,
        flags: "apvq",
        valued: "fo",
        long_flags: &["append", "portability", "verbose", "quiet"],
        long_valued: &["format", "output"],
        ..PLAIN
    },
    Wrapper {
        name: "timeout",
        flags: "vfp",
        valued: "ks",
        long_flags: &["foreground", "preserve-status", "verbose"],
        long_valued: &["kill-after", "signal"],
        operands: 1,
        ..PLAIN
    },
    Wrapper {
        name: "stdbuf",
        valued: "ioe",
        long_valued: &["input", "output", "error"],
        ..PLAIN
    },
    Wrapper {
        name: "command",
        is_of_the_shell: true,
        flags: "p",
        ends: "vV",
        ..PLAIN
    },
    Wrapper {
        name: "builtin",
        is_of_the_shell: true,
        ..PLAIN
    },
    Wrapper {
        name: "exec",
        is_of_the_shell: true,
        flags: "cl",
        valued: "a",
        ..PLAIN
    },
    Wrapper {
        name: "coproc",
        assigns: Assigns::Unquoted,
        is_of_the_shell: true,
        ..PLAIN
    },
    Wrapper {
        name: "xargs",
        flags: "0rtpxo",
        valued: "adEILnPs",
        long_flags: &[
            "null",
            "no-run-if-empty",
            "verbose",
            "interactive",
            "exit",
            "open-tty",
            "show-limits",
        ],
        long_valued: &[
            "arg-file",
            "delimiter",
            "max-lines",
            "max-args",
            "max-procs",
            "max-chars",
            "replace",
            "eof",
            "process-slot-var",
        ],
        adds_arguments: true,
        ..PLAIN
    },
    Wrapper {
        name: "flock",
        flags: "sexnuoFv",
        valued: "wE",
        long_flags: &[
            "shared",
            "exclusive",
            "unlock",
            "nonblock",
            "nb",
            "close",
            "no-fork",
            "verbose",
        ],
        long_valued: &["timeout", "wait", "conflict-exit-code"],
        operands: 1,
        ..PLAIN
    },
];

/// Programs that run a command among their arguments and are not taken apart.
const INDIRECT: [&str; 39] = [
    "bwrap",
    "busybox",
    "caffeinate",
    "catchsegv",
    "cgexec",
    "chpst",
    "chroot",
    "chrt",
    "daemonize",
    "dbus-run-session",
    "entr",
    "fakeroot",
    "firejail",
    "gdb",
    "linux32",
    "linux64",
    "ltrace",
    "nsenter",
    "numactl",
    "perf",
    "pkexec",
    "prlimit",
    "proot",
    "run-parts",
    "runcon",
    "rush",
    "rust-parallel",
    "setarch",
    "setpriv",
    "setuidgid",
    "start-stop-daemon",
    "strace",
    "systemd-run",
    "taskset",
    "toybox",
    "unbuffer",
    "unshare",
    "valgrind",
    "xvfb-run",
];

/// Shells of the family that the grammar reads.
const SHELLS: [&str; 8] = ["sh", "bash", "dash", "zsh", "ksh", "ash", "mksh", "rbash"];

/// Shells with a language of their own, and programs that hand a text to the user's shell.
const OTHER_SHELLS: [&str; 12] = [
    "fish",
    "csh",
    "tcsh",
    "pwsh",
    "powershell",
    "nu",
    "xonsh",
    "elvish",
    "su",
    "runuser",
    "script",
    "mosh",
];

/// Interpreters that run what they read when nothing else is named.
const INTERPRETERS: [&str; 13] = [
    "python",
    "python2",
    "python3",
    "pypy",
    "pypy3",
    "node",
    "bun",
    "perl",
    "ruby",
    "php",
    "lua",
    "osascript",
    "Rscript",
];

/// Commands of the shell that run, or keep for later, code which is no command line here.
const CODE_KEEPERS: [&str; 7] = ["source", ".", "enable", "bind", "complete", "compgen", "fc"];

/// What a program does with what stands behind it.
#[derive(Debug)]
pub(super) enum Program {
    Wrapper(&'static Wrapper),
    Shell(&'static str),
    OtherShell,
    Interpreter,
    Indirect,
    Keeper,
    /// Joins its arguments to a command line and runs it.
    Eval,
    Trap,
    Alias,
    Find,
    Fd,
    Ssh,
    Watch,
    Parallel,
    /// A command of the shell that evaluates some of its arguments.
    Evaluates,
    /// No command name, but a word of the grammar.
    Reserved,
    Plain,
}

/// The last part of a path.
pub(super) fn base_name(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name)
}

/// What is known about the program of this name.
pub(super) fn program(name: &str) -> Program {
    let base = base_name(name);
    let in_list = |list: &[&'static str]| list.iter().copied().find(|entry| *entry == base);
    if let Some(wrapper) = WRAPPERS.iter().find(|wrapper| wrapper.name == base) {
        return Program::Wrapper(wrapper);
    }
    if let Some(shell) = in_list(&SHELLS) {
        return Program::Shell(shell);
    }
    if in_list(&OTHER_SHELLS).is_some() {
        return Program::OtherShell;
    }
    if in_list(&INTERPRETERS).is_some() || is_versioned_interpreter(base) {
        return Program::Interpreter;
    }
    if in_list(&INDIRECT).is_some() {
        return Program::Indirect;
    }
    if CODE_KEEPERS.contains(&name) {
        return Program::Keeper;
    }
    match name {
        "eval" => return Program::Eval,
        "trap" => return Program::Trap,
        "alias" => return Program::Alias,
        "let" | "declare" | "typeset" | "local" | "export" | "readonly" | "unset" | "read"
        | "test" | "[" | "printf" | "mapfile" | "readarray" | "wait" | "hash" => {
            return Program::Evaluates;
        }
        "{" | "}" | "(" | ")" | "!" | "if" | "then" | "else" | "elif" | "fi" | "for" | "select"
        | "while" | "until" | "do" | "done" | "case" | "esac" | "function" | "[[" | "]]" => {
            return Program::Reserved;
        }
        _ => {}
    }
    match base {
        "find" => Program::Find,
        "fd" | "fdfind" => Program::Fd,
        "ssh" => Program::Ssh,
        "watch" => Program::Watch,
        "parallel" => Program::Parallel,
        _ => Program::Plain,
    }
}

/// `python3.12` and the like.
fn is_versioned_interpreter(base: &str) -> bool {
    ["python", "pypy", "perl", "ruby", "lua", "php"]
        .iter()
        .any(|name| {
            base.strip_prefix(name).is_some_and(|version| {
                !version.is_empty() && version.chars().all(|c| c.is_ascii_digit() || c == '.')
            })
        })
}

/// Where the options of a wrapper lead.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Options {
    /// The command begins at this word.
    Command(usize),
    /// There is no command, and nothing is run.
    Nothing,
    /// There is no command, and a shell is run.
    Shell,
    /// An option is not known, or what it is cannot be seen.
    Unknown,
}

impl Wrapper {
    fn takes_assignment(&self, word: &Word) -> bool {
        let assigns = match self.assigns {
            Assigns::Nothing => false,
            Assigns::Words => true,
            Assigns::Unquoted => word.assigns,
        };
        assigns && is_assignment(&word.value.text)
    }

    /// Finds the command among `words`, of which the first is the wrapper.
    pub(super) fn options(&self, words: &[Word]) -> Options {
        let mut at = 1;
        let mut shell = false;
        let mut left = self.operands;
        let mut options = true;
        while let Some(word) = words.get(at) {
            let Some(text) = word.literal() else {
                // As an operand it does no harm, as long as it is one. Anywhere else it could be anything.
                if left > 0 && word.is_one && !word.value.text.starts_with('-') {
                    left -= 1;
                    options = false;
                    at += 1;
                    continue;
                }
                if left == 0 && self.takes_assignment(word) && word.is_one {
                    at += 1;
                    continue;
                }
                return Options::Unknown;
            };
            if options && text == "--" {
                options = false;
                at += 1;
            } else if let Some(long) = text.strip_prefix("--").filter(|_| options) {
                let (name, value) = long
                    .split_once('=')
                    .map_or((long, None), |(name, value)| (name, Some(value)));
                if self.long_ends.contains(&name) {
                    return Options::Nothing;
                }
                let takes = self.long_valued.contains(&name);
                shell |= self.long_shell.contains(&name);
                if !takes && !self.long_flags.contains(&name) && !self.long_shell.contains(&name) {
                    return Options::Unknown;
                }
                at += 1;
                if takes && value.is_none() {
                    if !words.get(at).is_some_and(|word| word.is_one) {
                        return Options::Unknown;
                    }
                    at += 1;
                }
            } else if let Some(letters) = text
                .strip_prefix('-')
                .filter(|letters| options && !letters.is_empty())
            {
                at += 1;
                for (place, letter) in letters.char_indices() {
                    if self.ends.contains(letter) {
                        return Options::Nothing;
                    }
                    if self.valued.contains(letter) {
                        if place + letter.len_utf8() == letters.len() {
                            if !words.get(at).is_some_and(|word| word.is_one) {
                                return Options::Unknown;
                            }
                            at += 1;
                        }
                        break;
                    }
                    shell |= self.shell.contains(letter);
                    if !self.flags.contains(letter) && !self.shell.contains(letter) {
                        return Options::Unknown;
                    }
                }
            } else if options && text == "-" {
                // An empty environment to `env`, nothing that is known to the others.
                if self.assigns == Assigns::Nothing {
                    return Options::Unknown;
                }
                at += 1;
            } else if self.takes_assignment(word) {
                at += 1;
            } else if left > 0 {
                left -= 1;
                options = false;
                at += 1;
            } else {
                return Options::Command(at);
            }
        }
        if shell {
            Options::Shell
        } else {
            Options::Nothing
        }
    }
}

fn is_assignment(text: &str) -> bool {
    text.split_once('=').is_some_and(|(name, _)| is_name(name))
}
