//! What is written into the configuration of each host, and how an entry of ours is known again.
//!
//! # Invariants
//!
//! * The same program gives the same entry, byte for byte: Codex trusts a hash of it.
//! * What gates fails closed where the host can.

use serde_json::{Value, json};

use super::Host;
use super::words::{command_line, split};

/// How long a host waits for a hook that gates, in seconds: a person may be at lunch. The hook itself gives up before.
pub const HOST_TIMEOUT_SECONDS: u64 = 86_400;
/// How long a host waits for a hook that only takes note.
const NOTE_TIMEOUT_SECONDS: u64 = 60;
/// What the host shows meanwhile.
const WAITING: &str = "askrelay: waiting for a decision";
/// What stands behind the command line where a shell takes it apart, for hosts that let a tool run when its hook ends badly: a
/// program that is missing, crashed or was killed denies then. A shell of any kind takes it alike.
const OR_DENY: &str =
    " || sh -c 'echo \"askrelay did not answer, so nothing is allowed\" >&2; exit 2'";
/// Name by which the host lists and switches off the hook, where it has names.
pub(super) const NAME: &str = "askrelay";

/// One hook as it stands in the configuration of a host.
#[derive(Debug, Clone, PartialEq)]
pub struct Hook {
    /// The event at which it runs.
    pub event: &'static str,
    /// Which tools it is for; an event without tools has none.
    pub matcher: Option<&'static str>,
    /// What runs: the object of the host.
    pub handler: Value,
    /// Whether it decides; others only take note.
    pub gates: bool,
}

/// The words of the command line behind the program.
pub fn arguments(host: Host) -> Vec<String> {
    let words = ["hook", host.name(), "--host-timeout"];
    let mut words: Vec<String> = words.map(str::to_owned).to_vec();
    words.push(HOST_TIMEOUT_SECONDS.to_string());
    words
}

/// Every hook of a host that is configured with hooks, for the program at this path.
pub fn hooks(host: Host, program: &str) -> Vec<Hook> {
    let arguments = arguments(host);
    let words: Vec<&str> = std::iter::once(program)
        .chain(arguments.iter().map(String::as_str))
        .collect();
    match host {
        Host::ClaudeCode => claude_code(program, &arguments),
        Host::Codex => ["PreToolUse", "PermissionRequest"]
            .map(|event| Hook {
                event,
                matcher: Some("*"),
                handler: json!({
                    "type": "command",
                    "command": closed_line(&words),
                    "timeout": HOST_TIMEOUT_SECONDS,
                    "statusMessage": WAITING,
                }),
                gates: true,
            })
            .to_vec(),
        Host::Gemini => vec![Hook {
            event: "BeforeTool",
            matcher: Some("*"),
            handler: json!({
                "name": NAME,
                "type": "command",
                "command": closed_line(&words),
                "timeout": HOST_TIMEOUT_SECONDS * 1_000,
                "description": "Asks the session in charge before a tool runs",
            }),
            gates: true,
        }],
        Host::Opencode | Host::Pi => Vec::new(),
    }
}

/// A line for a shell that denies where the program gives no answer.
fn closed_line(words: &[&str]) -> String {
    format!("{}{OR_DENY}", command_line(words))
}

fn claude_code(program: &str, arguments: &[String]) -> Vec<Hook> {
    let gates = ["PreToolUse", "PermissionRequest"].map(|event| Hook {
        event,
        matcher: Some("*"),
        handler: json!({
            "type": "command",
            "command": program,
            "args": arguments,
            "timeout": HOST_TIMEOUT_SECONDS,
            "onFailure": "block",
            "statusMessage": WAITING,
        }),
        gates: true,
    });
    let note = |event, matcher| Hook {
        event,
        matcher,
        handler: json!({
            "type": "command",
            "command": program,
            "args": arguments,
            "timeout": NOTE_TIMEOUT_SECONDS,
            "async": true,
        }),
        gates: false,
    };
    let notes = [
        note("PostToolUse", Some("*")),
        note("PostToolUseFailure", Some("*")),
        note("Stop", None),
        note("SessionEnd", None),
    ];
    gates.into_iter().chain(notes).collect()
}

/// A command line of ours, taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// The program, as it is written.
    pub program: String,
    /// How long the hook is told that its host waits, in seconds, where it is told.
    pub told: Option<u64>,
    /// Whether it denies by itself where the program gives no answer.
    pub is_closed: bool,
    /// Whether it is written just as it is written here, so that a shell does with it what is read here, and nothing else.
    pub is_exact: bool,
}

/// The command line of a handler, where it is ours: a program that is called as ours is, our arguments, and behind them nothing or
/// what denies. Anything more, and anything else, is somebody else's.
pub fn line_of(host: Host, handler: &Value) -> Option<Line> {
    let command = handler.get("command")?.as_str()?;
    let (words, is_closed, is_shell) = match (host, handler.get("args")) {
        // These two have no exec form: what they run is the command alone.
        (Host::Codex | Host::Gemini, Some(_)) => return None,
        (_, Some(args)) => {
            let args = args.as_array()?.iter();
            let args = args.map(|arg| arg.as_str().map(str::to_owned));
            let words: Option<Vec<String>> = std::iter::once(Some(command.to_owned()))
                .chain(args)
                .collect();
            (words?, false, false)
        }
        (_, None) => match command.strip_suffix(OR_DENY) {
            Some(line) => (split(line)?, true, true),
            None => (split(command)?, false, true),
        },
    };
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let (program, told) = match words.as_slice() {
        [program, "hook", name] if *name == host.name() => (*program, None),
        [program, "hook", name, "--host-timeout", told] if *name == host.name() => {
            (*program, Some(told.parse().ok()?))
        }
        // In one word, as somebody may write it by hand.
        [program, "hook", name, told] if *name == host.name() => {
            let told = told.strip_prefix("--host-timeout=")?;
            (*program, Some(told.parse().ok()?))
        }
        _ => return None,
    };
    let again = if is_closed {
        closed_line(&words)
    } else {
        command_line(&words)
    };
    is_named_as_ours(program).then(|| Line {
        program: program.to_owned(),
        told,
        is_closed,
        is_exact: !is_shell || again == command,
    })
}

/// Whether the file that a path leads to has our name. By that an entry is known again.
pub fn is_named_as_ours(program: &str) -> bool {
    program.rsplit('/').next() == Some(NAME)
}

/// A handler that speaks of us and is not ours, as somebody would read it: the hook of another program, or one of ours that was edited.
pub(super) fn stranger_of(host: Host, handler: &Value) -> Option<String> {
    if line_of(host, handler).is_some() {
        return None;
    }
    let command = handler.get("command")?.as_str()?;
    let args = handler.get("args").and_then(Value::as_array);
    let args = args.into_iter().flatten().filter_map(Value::as_str);
    let line: Vec<&str> = std::iter::once(command).chain(args).collect();
    let line = line.join(" ");
    (line.contains(NAME) && line.contains("hook")).then_some(line)
}

/// Whether a handler is ours.
pub(super) fn is_ours(host: Host, handler: &Value) -> bool {
    line_of(host, handler).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_known_again_wherever_the_program_lies() {
        for host in Host::ALL {
            for program in ["/usr/bin/askrelay", "/opt/a 'b' || $c/askrelay", "askrelay"] {
                for hook in hooks(host, program) {
                    assert!(is_ours(host, &hook.handler), "{}", hook.handler);
                    let line = line_of(host, &hook.handler).unwrap();
                    assert_eq!(line.program, program);
                    assert_eq!(line.told, Some(HOST_TIMEOUT_SECONDS));
                    assert!(line.is_exact);
                }
            }
        }
    }

    #[test]
    fn what_only_looks_like_ours_is_not_touched() {
        for handler in [
            json!({"type": "command", "command": "/usr/bin/askrelay hook codex"}),
            json!({"type": "command", "command": "/usr/bin/relay hook claude-code"}),
            json!({"type": "command", "command": "/usr/bin/askrelay ask"}),
            json!({"type": "command", "command": "askrelay hook claude-code; rm x"}),
            json!({"type": "command", "command": "askrelay ask || askrelay hook claude-code"}),
            json!({"type": "command", "command": "askrelay", "args": ["hook", 1]}),
            json!({"type": "http", "url": "http://127.0.0.1/askrelay"}),
            json!("askrelay hook claude-code"),
            json!({"type": "command", "command": "/opt/askrelay-audit-log", "args": ["hook", "claude-code", "--to", "syslog"]}),
            json!({"type": "command", "command": "/opt/askrelay-audit-log hook claude-code"}),
            json!({"type": "command", "command": "askrelayer hook claude-code x || logger failed"}),
            json!({"type": "command", "command": "askrelay hook claude-code || logger failed"}),
            json!({"type": "command", "command": "askrelay hook claude-code || exit 0"}),
            json!({"type": "command", "command": "askrelay", "args": ["hook", "claude-code", "x"]}),
            json!({"type": "command", "command": "askrelay", "args": ["hook", "claude-code", "--host-timeout", "x"]}),
        ] {
            assert!(!is_ours(Host::ClaudeCode, &handler), "{handler}");
        }
        // No exec form here: the arguments are ignored, and the program is started without.
        let handler = json!({"type": "command", "command": "askrelay", "args": ["hook", "codex"]});
        assert!(!is_ours(Host::Codex, &handler));
    }

    #[test]
    fn how_long_the_host_waits_is_read_in_one_word_as_well() {
        for handler in [
            json!({"command": "/a/askrelay hook codex --host-timeout=5"}),
            json!({"command": "/a/askrelay hook codex --host-timeout 5"}),
        ] {
            assert_eq!(line_of(Host::Codex, &handler).unwrap().told, Some(5));
        }
        let handler =
            json!({"command": "a/askrelay", "args": ["hook", "claude-code", "--host-timeout=x"]});
        assert_eq!(line_of(Host::ClaudeCode, &handler), None);
    }

    #[test]
    fn a_line_that_a_shell_reads_otherwise_is_not_exact() {
        for (command, is_exact) in [
            ("/a/askrelay hook codex", true),
            ("'/a b/askrelay' hook codex", true),
            ("/a/{b,c}/askrelay hook codex", false),
            ("\"/a\\c/askrelay\" hook codex", false),
            ("/a/askrelay  hook codex", false),
        ] {
            let line = line_of(Host::Codex, &json!({"command": command})).unwrap();
            assert_eq!(line.is_exact, is_exact, "{command}");
        }
    }

    #[test]
    fn what_gates_fails_closed_where_the_host_can() {
        for hook in hooks(Host::ClaudeCode, "/askrelay") {
            let blocks = hook.handler.get("onFailure") == Some(&json!("block"));
            assert_eq!(blocks, hook.gates, "{}", hook.event);
            assert_eq!(hook.handler.get("async").is_none(), hook.gates);
        }
    }
}
