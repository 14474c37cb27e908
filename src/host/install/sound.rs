//! Whether a host would be held by an entry of ours that gates: what stands beside the command decides whether it waits for the
//! answer, for which tools it asks, and what it does with an answer that does not come.

use serde_json::Value;

use super::Host;
use super::entries::line_of;
use super::hooks::Found;

/// Fields of a handler that do not keep it from gating. Of any other it is not known.
const HARMLESS: [&str; 8] = [
    "type",
    "command",
    "args",
    "timeout",
    "onFailure",
    "statusMessage",
    "name",
    "description",
];
/// Matchers that stand for every tool.
const EVERY_TOOL: [&str; 3] = ["*", "", ".*"];

/// Seconds that a host waits for a hook without a timeout of its own, and that the hook takes it to wait where it is told nothing.
const fn default_wait(host: Host) -> u64 {
    match host {
        Host::Gemini => 60,
        Host::ClaudeCode | Host::Codex | Host::Opencode | Host::Pi => 600,
    }
}

/// How long the host waits for a hook, in seconds; `None` where its timeout is none.
pub fn wait_of(host: Host, handler: &Value) -> Option<u64> {
    let Some(timeout) = handler.get("timeout") else {
        return Some(default_wait(host));
    };
    let timeout = timeout.as_u64().filter(|timeout| *timeout > 0)?;
    Some(if host == Host::Gemini {
        timeout / 1_000
    } else {
        timeout
    })
}

/// Whether a text of Gemini CLI's settings is another one once it has read it: it puts in the values of variables, quoted or not.
pub fn holds_variable(text: &str) -> bool {
    text.contains('$')
}

/// Why an entry of ours that should gate does not hold its host; nothing where it does.
pub fn faults(host: Host, entry: &Found) -> Vec<String> {
    let mut all = Vec::new();
    let handler = &entry.handler;
    let said = |key: &str| handler.get(key).and_then(Value::as_str);
    if said("type") != Some("command") {
        all.push("it is not of the type \"command\"".to_owned());
    }
    if let Some(matcher) = &entry.matcher
        && !EVERY_TOOL.contains(&&**matcher)
    {
        all.push(format!(
            "it is only for the tools {matcher:?}, all others run"
        ));
    }
    for (key, value) in handler.as_object().into_iter().flatten() {
        let says_nothing = matches!(value, Value::Null | Value::Bool(false));
        if !says_nothing && !HARMLESS.contains(&&**key) {
            all.push(format!("with {key:?}: {value} it does not gate every call"));
        }
    }
    let line = line_of(host, handler);
    if host == Host::Gemini && said("command").is_some_and(holds_variable) {
        all.push("Gemini CLI puts a variable of its environment in the place of what stands behind \"$\"".to_owned());
    }
    match host {
        Host::ClaudeCode if said("onFailure") != Some("block") => {
            all.push("without \"onFailure\": \"block\" a tool runs where it fails".to_owned());
        }
        Host::Codex | Host::Gemini if line.as_ref().is_none_or(|line| !line.is_closed) => {
            all.push("without the end that denies, a tool runs where it fails".to_owned());
        }
        Host::ClaudeCode | Host::Codex | Host::Gemini | Host::Opencode | Host::Pi => {}
    }
    let told = line.and_then(|line| line.told);
    let told = told.unwrap_or(default_wait(host));
    match wait_of(host, handler) {
        None => all.push("its timeout is no whole number of one or more".to_owned()),
        Some(waits) if told > waits => all.push(format!(
            "the host waits {waits} s, and the hook thinks it waits {told} s: what comes later lets the tool run"
        )),
        Some(_) => {}
    }
    all
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::{find, install};
    use super::*;

    fn found(host: Host) -> Found {
        let text = install(host, "", "/usr/bin/askrelay").unwrap();
        find(host, &text).unwrap().remove(0)
    }

    #[test]
    fn what_is_installed_holds_its_host() {
        for host in [Host::ClaudeCode, Host::Codex, Host::Gemini] {
            assert_eq!(faults(host, &found(host)), [""; 0]);
            let mut entry = found(host);
            entry.matcher = None;
            assert_eq!(faults(host, &entry), [""; 0]);
        }
    }

    #[test]
    fn a_line_in_which_gemini_would_put_a_variable_does_not_hold_it() {
        let text = install(Host::Gemini, "", "/opt/$XX/askrelay").unwrap();
        let entry = find(Host::Gemini, &text).unwrap().remove(0);
        let said = faults(Host::Gemini, &entry);
        assert!(
            said[0].starts_with("Gemini CLI puts a variable"),
            "{said:?}"
        );
    }

    #[test]
    fn an_entry_that_does_not_hold_its_host_is_at_fault_for_it() {
        for host in [Host::ClaudeCode, Host::Codex, Host::Gemini] {
            for matcher in ["Bash", "Nothing", "Bash|Write"] {
                let mut entry = found(host);
                entry.matcher = Some(matcher.to_owned());
                assert_eq!(faults(host, &entry).len(), 1, "{matcher}");
            }
            for (key, value) in [
                ("async", json!(true)),
                ("asyncRewake", json!(true)),
                ("once", json!(true)),
                ("if", json!("Bash(git *)")),
                ("type", json!("prompt")),
                ("timeout", json!(5)),
                ("timeout", json!("86400")),
                ("timeout", json!(0)),
            ] {
                let mut entry = found(host);
                entry.handler[key] = value;
                assert_eq!(faults(host, &entry).len(), 1, "{}", entry.handler);
            }
        }
        let mut entry = found(Host::ClaudeCode);
        entry.handler.as_object_mut().unwrap().remove("onFailure");
        assert_eq!(faults(Host::ClaudeCode, &entry).len(), 1);
    }

    #[test]
    fn a_hook_that_is_told_nothing_thinks_that_its_host_waits_as_long_as_it_does_by_itself() {
        let mut entry = found(Host::Codex);
        entry.handler =
            json!({"type": "command", "command": "/usr/bin/askrelay hook codex", "timeout": 5});
        let said = faults(Host::Codex, &entry);
        assert_eq!(said.len(), 2, "{said:?}");
        assert!(said[1].contains("waits 5 s") && said[1].contains("waits 600 s"));
    }
}
