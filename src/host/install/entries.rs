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

/// The command line of a handler as words, where it is one that we could have written.
pub fn words_of(handler: &Value) -> Option<Vec<String>> {
    let command = handler.get("command")?.as_str()?;
    match handler.get("args") {
        // Exec form: no shell takes the command apart.
        Some(Value::Array(args)) => {
            let args = args.iter().map(|arg| arg.as_str().map(str::to_owned));
            std::iter::once(Some(command.to_owned()))
                .chain(args)
                .collect()
        }
        Some(_) => None,
        None => split(command).or_else(|| split(command.rsplit_once(" || ")?.0)),
    }
}

/// Whether a handler is ours: the program is called as ours is, and is told this host.
pub(super) fn is_ours(host: Host, handler: &Value) -> bool {
    let Some(words) = words_of(handler) else {
        return false;
    };
    let [program, verb, name, ..] = words.as_slice() else {
        return false;
    };
    let file = program.rsplit('/').next().unwrap_or_default();
    file.starts_with(NAME) && verb == "hook" && name == host.name()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_known_again_wherever_the_program_lies() {
        for host in Host::ALL {
            for program in [
                "/usr/bin/askrelay",
                "/opt/a 'b' || $c/askrelay-0.1",
                "askrelay",
            ] {
                for hook in hooks(host, program) {
                    assert!(is_ours(host, &hook.handler), "{}", hook.handler);
                    assert_eq!(words_of(&hook.handler).unwrap().first().unwrap(), program);
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
        ] {
            assert!(!is_ours(Host::ClaudeCode, &handler), "{handler}");
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
