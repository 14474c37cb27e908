//! The configuration of a host for a trial of the host itself: what the user has, so that a file that the host refuses shows, without
//! what would reach out of the trial. What somebody else's hooks run is replaced by a program that does nothing.
//!
//! What is of another kind than the host takes stays as it is: it is what a trial has to show.

use serde_json::{Map, Value, json};

use super::Host;
use super::hooks::{EditError, json_of, read};

/// Settings of Claude Code that name a program, a person or a place: none of the trial's, and each a text where it is right.
const TEXTS: [&str; 21] = [
    "apiKeyHelper",
    "proxyAuthHelper",
    "awsCredentialExport",
    "awsAuthRefresh",
    "gcpAuthRefresh",
    "processWrapper",
    "otelHeadersHelper",
    "forceLoginMethod",
    "forceLoginOrgUUID",
    "forceLoginGatewayUrl",
    "minimumVersion",
    "requiredMinimumVersion",
    "requiredMaximumVersion",
    "model",
    "advisorModel",
    "agent",
    "outputStyle",
    "claudeMd",
    "plansDirectory",
    "autoMemoryDirectory",
    "downloadsMirrorUrl",
];
/// Settings of Claude Code that start a program that they name.
const STARTERS: [&str; 3] = ["statusLine", "subagentStatusLine", "fileSuggestion"];
/// Lists of rules, which are Claude Code's own matter and not what is tried.
const RULES: [&str; 3] = ["allow", "ask", "deny"];
/// Where a plugin may come from.
const SOURCES: [&str; 7] = [
    "github",
    "git",
    "url",
    "npm",
    "file",
    "directory",
    "settings",
];
/// Types of hooks that do something else than start a program.
const OTHER_TYPES: [&str; 4] = ["http", "prompt", "agent", "mcp_tool"];

/// The configuration as it is tried: hooks of which `keeps` holds stay as they are.
pub fn for_trial(
    host: Host,
    text: &str,
    keeps: impl Fn(&Value) -> bool,
) -> Result<Value, EditError> {
    let mut root = json_of(&read(host, text)?.root);
    if let Some(events) = root.get_mut("hooks").and_then(Value::as_object_mut) {
        for handler in events.values_mut().flat_map(handlers_of) {
            if !keeps(handler) {
                still(host, handler);
            }
        }
    }
    if let (Host::ClaudeCode, Some(root)) = (host, root.as_object_mut()) {
        claude_code(root);
    }
    if let (Host::Gemini, Some(root)) = (host, root.as_object_mut()) {
        // One value that it does not take keeps it from no other.
        root.retain(|key, _| matches!(&**key, "hooks" | "hooksConfig"));
    }
    Ok(root)
}

fn handlers_of(groups: &mut Value) -> impl Iterator<Item = &mut Value> {
    let groups = groups.as_array_mut().into_iter().flatten();
    let handlers = groups.filter_map(|group| group.get_mut("hooks")?.as_array_mut());
    handlers.flatten()
}

/// The hook of somebody else, so that it does nothing. One that is no hook stays.
fn still(host: Host, handler: &mut Value) {
    let Some(handler) = handler.as_object_mut() else {
        return;
    };
    let kind = handler.get("type").and_then(Value::as_str);
    match kind {
        Some("command") if handler.get("command").is_some_and(Value::is_string) => {
            let _other = handler.insert("command".to_owned(), "true".into());
            if handler.get("args").is_some_and(is_texts) {
                let _gone = handler.shift_remove("args");
            }
        }
        Some(kind) if host == Host::ClaudeCode && OTHER_TYPES.contains(&kind) => {
            *handler = Map::new();
            let _none = handler.insert("type".to_owned(), "command".into());
            let _none = handler.insert("command".to_owned(), "true".into());
        }
        Some(_) | None => {}
    }
}

fn is_texts(value: &Value) -> bool {
    let all = value.as_array();
    all.is_some_and(|all| all.iter().all(Value::is_string))
}

fn claude_code(root: &mut Map<String, Value>) {
    root.retain(|key, value| {
        let reaches_out = TEXTS.contains(&&**key) && value.is_string()
            || STARTERS.contains(&&**key) && value.get("command").is_some_and(Value::is_string);
        !reaches_out
    });
    // What it takes any members in, as long as it is an object.
    for key in ["env", "modelOverrides"] {
        if let Some(value) = root.get_mut(key).filter(|value| value.is_object()) {
            *value = json!({});
        }
    }
    if let Some(plugins) = root
        .get_mut("enabledPlugins")
        .and_then(Value::as_object_mut)
    {
        plugins.retain(|_, value| !value.is_boolean());
    }
    for key in ["extraKnownMarketplaces", "additionalMarketplaces"] {
        if let Some(places) = root.get_mut(key).and_then(Value::as_object_mut) {
            places.retain(|_, place| {
                let source = place.pointer("/source/source").and_then(Value::as_str);
                !source.is_some_and(|source| SOURCES.contains(&source))
            });
        }
    }
    if let Some(rules) = root.get_mut("permissions").and_then(Value::as_object_mut) {
        for key in RULES {
            if let Some(list) = rules.get_mut(key).filter(|list| is_texts(list)) {
                *list = json!([]);
            }
        }
    }
    if let Some(sandbox) = root.get_mut("sandbox").and_then(Value::as_object_mut)
        && let Some(enabled) = sandbox
            .get_mut("enabled")
            .filter(|value| value.is_boolean())
    {
        *enabled = false.into();
    }
}

#[cfg(test)]
mod tests {
    use super::super::{find, install};
    use super::*;

    fn tried(host: Host, text: &str) -> Value {
        let ours = |handler: &Value| {
            let line = super::super::line_of(host, handler);
            line.is_some()
        };
        for_trial(host, text, ours).unwrap()
    }

    #[test]
    fn ours_stay_and_what_others_run_does_nothing() {
        let others = r#"{"hooks":{"Stop":[{"hooks":[
            {"type":"command","command":"curl evil","args":["a"],"timeout":5},
            {"type":"http","url":"https://example.org"},
            {"type":"zzz","command":"x"},
            7]}]}}"#;
        for host in [Host::ClaudeCode, Host::Gemini] {
            let text = install(host, others, "/usr/bin/askrelay").unwrap();
            let now = tried(host, &text);
            let said = &now["hooks"]["Stop"][0]["hooks"];
            assert_eq!(
                said[0],
                json!({"type": "command", "command": "true", "timeout": 5})
            );
            assert_eq!(said[2], json!({"type": "zzz", "command": "x"}));
            assert_eq!(said[3], 7);
            let now = now.to_string();
            assert_eq!(
                find(host, &now).unwrap().len(),
                find(host, &text).unwrap().len()
            );
            if host == Host::ClaudeCode {
                assert_eq!(said[1], json!({"type": "command", "command": "true"}));
            }
        }
    }

    #[test]
    fn what_reaches_out_goes_where_it_is_right_and_stays_where_it_is_not() {
        let text = r#"{"env":{"TOKEN":"s3cret"},"apiKeyHelper":"./key","statusLine":{"type":"command","command":"x"},
            "permissions":{"allow":["Bash"],"deny":"Bash","defaultMode":"plan"},"enabledPlugins":{"a@b":true,"c@d":7},
            "extraKnownMarketplaces":{"a":{"source":{"source":"github","repo":"a/b"}},"b":{"source":{"source":"zzz"}}},
            "model":7,"verbose":true,"sandbox":{"enabled":true}}"#;
        assert_eq!(
            tried(Host::ClaudeCode, text),
            json!({
                "env": {},
                "permissions": {"allow": [], "deny": "Bash", "defaultMode": "plan"},
                "enabledPlugins": {"c@d": 7},
                "extraKnownMarketplaces": {"b": {"source": {"source": "zzz"}}},
                "model": 7,
                "verbose": true,
                "sandbox": {"enabled": false},
            })
        );
        let text =
            r#"{"mcpServers":{"a":{"command":"x"}},"hooksConfig":{"enabled":"false"},"hooks":{}}"#;
        assert_eq!(
            tried(Host::Gemini, text),
            json!({"hooksConfig": {"enabled": "false"}, "hooks": {}})
        );
    }
}
