//! What Claude Code suggests to remember, as grants that a person can give.
//!
//! A suggestion is a rule in the host's own language, and not every one can be said in ours without saying more. Only what can be said
//! exactly, or more narrowly, becomes a grant; the rest is left out. Where nothing can, the call itself is what could be granted.

use serde_json::Value;

use super::ToolCall;
use crate::policy::{BASH_SURFACE, OUTSIDE_SANDBOX_SURFACE};
use crate::wire::{ApprovalGrant, PayloadKind};

/// What could be granted with a call.
pub(super) fn grants_of(suggestions: &[Value], call: &ToolCall) -> Vec<ApprovalGrant> {
    let mut grants: Vec<ApprovalGrant> = Vec::new();
    let asked = call.asked().surface;
    for mut grant in suggestions
        .iter()
        .flat_map(|said| of_suggestion(said, call))
    {
        // The host does not tell what leaves its sandbox from what stays within. What is asked about one is granted for that one.
        if asked == OUTSIDE_SANDBOX_SURFACE {
            if grant.surface != BASH_SURFACE {
                continue;
            }
            grant.surface.clone_from(&asked);
        }
        if !grants.contains(&grant) {
            grants.push(grant);
        }
    }
    grants
}

fn of_suggestion(suggestion: &Value, call: &ToolCall) -> Vec<ApprovalGrant> {
    let text = |name: &str| suggestion.get(name).and_then(Value::as_str);
    let list = |name: &str| {
        let list = suggestion.get(name).and_then(Value::as_array);
        list.into_iter().flatten()
    };
    match (text("type"), text("behavior")) {
        (Some("addRules"), Some("allow")) => list("rules").filter_map(of_rule).collect(),
        (Some("addDirectories"), _) => {
            let directories = list("directories").filter_map(Value::as_str);
            directories
                .filter_map(|directory| of_directory(directory, call))
                .collect()
        }
        _ => Vec::new(),
    }
}

fn of_rule(rule: &Value) -> Option<ApprovalGrant> {
    let tool = rule.get("toolName")?.as_str()?;
    let content = rule.get("ruleContent").and_then(Value::as_str);
    if let Some(name) = tool.strip_prefix("mcp__") {
        let (server, name) = name.split_once("__")?;
        return content
            .is_none()
            .then(|| grant("mcp", format!("{server}:{name}")));
    }
    let content = content?;
    match tool {
        "Bash" => command_pattern(content).map(|pattern| grant(BASH_SURFACE, pattern)),
        "WebFetch" => {
            let domain = content.strip_prefix("domain:")?;
            is_plain(domain).then(|| grant("WebFetch", format!("https://{domain}/*")))
        }
        "Read" => tree_pattern(content).map(|pattern| grant("read", pattern)),
        "Edit" => tree_pattern(content).map(|pattern| grant("edit", pattern)),
        _ => None,
    }
}

/// A directory that calls of this tool may work in.
fn of_directory(directory: &str, call: &ToolCall) -> Option<ApprovalGrant> {
    let asked = call.asked();
    let is_path = asked.kind == PayloadKind::Path && directory.starts_with('/');
    let directory = directory.trim_end_matches('/');
    (is_path && is_plain(directory)).then(|| grant(&asked.surface, format!("{directory}/*")))
}

/// A command, or how commands begin: `npm test` and `npm test:*`.
fn command_pattern(content: &str) -> Option<String> {
    match content.strip_suffix(":*") {
        Some(start) => (is_plain(start) && !start.trim().is_empty()).then(|| format!("{start} *")),
        None => is_plain(content).then(|| content.to_owned()),
    }
}

/// What lies below an absolute directory, or one absolute path: `//srv/data/**` and `//srv/data/a`.
fn tree_pattern(content: &str) -> Option<String> {
    let path = content
        .strip_prefix('/')
        .filter(|path| path.starts_with('/'))?;
    match path.strip_suffix("/**") {
        Some(directory) => {
            (is_plain(directory) && !directory.ends_with('/')).then(|| format!("{directory}/*"))
        }
        None => is_plain(path).then(|| path.to_owned()),
    }
}

/// Whether no character of a text is a wildcard, here or there.
fn is_plain(text: &str) -> bool {
    !text.is_empty() && !text.contains(['*', '?', '[', ']', '{', '}', '!', '\\', '~', '$'])
}

fn grant(surface: &str, pattern: impl Into<String>) -> ApprovalGrant {
    ApprovalGrant {
        surface: surface.to_owned(),
        pattern: pattern.into(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn grants(suggestion: Value, call: &ToolCall) -> Vec<(String, String)> {
        let grants = grants_of(&[suggestion.clone(), suggestion], call);
        grants
            .into_iter()
            .map(|grant| (grant.surface, grant.pattern))
            .collect()
    }

    fn rule(tool: &str, content: Option<&str>) -> Value {
        json!({"type": "addRules", "behavior": "allow", "destination": "localSettings",
               "rules": [{"toolName": tool, "ruleContent": content}]})
    }

    #[test]
    fn what_can_be_said_exactly_becomes_a_grant() {
        let call = ToolCall::new("Bash", json!({"command": "npm test"}), "/w");
        for (tool, content, surface, pattern) in [
            ("Bash", Some("npm test"), "bash", "npm test"),
            ("Bash", Some("npm test:*"), "bash", "npm test *"),
            ("Read", Some("//srv/data/**"), "read", "/srv/data/*"),
            ("Edit", Some("//srv/a.rs"), "edit", "/srv/a.rs"),
            ("mcp__tickets__close", None, "mcp", "tickets:close"),
            (
                "WebFetch",
                Some("domain:example.com"),
                "WebFetch",
                "https://example.com/*",
            ),
        ] {
            let found = grants(rule(tool, content), &call);
            assert_eq!(
                found,
                [(surface.to_owned(), pattern.to_owned())],
                "{tool} {content:?}"
            );
        }
        let read = ToolCall::new("Read", json!({"file_path": "/srv/data/a"}), "/w");
        let directory = json!({"type": "addDirectories", "directories": ["/srv/data/"], "destination": "session"});
        assert_eq!(
            grants(directory.clone(), &read),
            [("read".to_owned(), "/srv/data/*".to_owned())]
        );
        assert_eq!(grants(directory, &call), [], "a command works anywhere");
    }

    #[test]
    fn what_would_be_wider_in_our_words_is_left_out() {
        let call = ToolCall::new("Bash", json!({"command": "x"}), "/w");
        for said in [
            rule("Bash", None),
            rule("Bash", Some(":*")),
            rule("Bash", Some("git * main")),
            rule("Bash", Some("rm ?")),
            rule("Read", Some("src/**")),
            rule("Read", Some("//srv/*/a")),
            rule("Read", Some("///**")),
            rule("Edit", Some("~/x/**")),
            rule("WebFetch", Some("domain:*.example.com")),
            rule("mcp__tickets", None),
            rule("Nobody", Some("x")),
            json!({"type": "addRules", "behavior": "deny", "rules": [{"toolName": "Bash", "ruleContent": "ls"}]}),
            json!({"type": "setMode", "mode": "bypassPermissions"}),
            json!({"type": "replaceRules", "behavior": "allow", "rules": [{"toolName": "Bash", "ruleContent": "ls"}]}),
            json!({"type": "addRules", "behavior": "allow", "rules": 7}),
            json!(null),
        ] {
            assert_eq!(grants(said.clone(), &call), [], "{said}");
        }
    }
}
