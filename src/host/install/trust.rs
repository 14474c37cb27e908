//! Codex's trust: it runs a hook only where its configuration has the hash of the very definition.
//!
//! The key of a hook is the file that it stands in, its event, and its numbers in that file, so a hook that is moved is trusted no
//! more, and one that is edited neither. The hash is SHA-256 of the definition as JSON with sorted keys and no blanks, with the
//! default of each field that it leaves out. Both are what Codex's own app server lists for the same file.

use std::fmt::Write as _;
use std::ops::Range;

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::hooks::Found;
use super::toml::{Statement, TomlError, quoted, statements, text_of, value_at};

/// What Codex waits for a hook that says no timeout, in seconds.
const DEFAULT_TIMEOUT: u64 = 600;

/// A hook as Codex trusts it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrustEntry {
    /// Where it stands: what Codex calls the hook.
    pub key: String,
    /// Hash of its definition.
    pub hash: String,
}

/// Whether Codex runs a hook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trust {
    /// Its hash is recorded.
    Trusted,
    /// Another hash is: it was edited since.
    Modified,
    /// None is.
    Untrusted,
    /// It was switched off by hand.
    Disabled,
}

/// Trust cannot be recorded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TrustError {
    /// The configuration is no TOML.
    #[error(transparent)]
    Toml(#[from] TomlError),
    /// What is said of the hook already is written so that nothing can be added to it, or the hooks are a list.
    #[error("{key} is written with dotted keys or as a list, which nothing is added to")]
    Dotted {
        /// The table.
        key: &'static str,
    },
    /// The table is written in a way that nothing can be added to.
    #[error("{key} is an inline table, which nothing can be added to")]
    Inline {
        /// The table.
        key: &'static str,
    },
}

/// What Codex would have to trust for these entries of ours, which stand in the file at `path`: the canonical directory of its
/// configuration, and the name of the file.
pub fn entries_of(path: &str, found: &[Found]) -> Vec<TrustEntry> {
    found
        .iter()
        .map(|entry| {
            let event = snake(&entry.event);
            TrustEntry {
                key: format!("{path}:{event}:{}:{}", entry.group, entry.number),
                hash: hash(&event, entry.matcher.as_deref(), &entry.handler),
            }
        })
        .collect()
}

/// `PreToolUse` as `pre_tool_use`.
fn snake(event: &str) -> String {
    let mut out = String::new();
    for c in event.chars() {
        if c.is_ascii_uppercase() && !out.is_empty() {
            out.push('_');
        }
        out.push(c.to_ascii_lowercase());
    }
    out
}

fn hash(event: &str, matcher: Option<&str>, handler: &Value) -> String {
    let field = |name: &str| handler.get(name).cloned();
    // In the order of their names, which is part of what is hashed.
    let mut hook = json!({
        "async": field("async").unwrap_or(Value::Bool(false)),
        "command": field("command"),
    });
    if let Some(hook) = hook.as_object_mut() {
        if let Some(message) = field("statusMessage") {
            let _none = hook.insert("statusMessage".to_owned(), message);
        }
        let timeout = field("timeout").and_then(|timeout| timeout.as_u64());
        let timeout = timeout.unwrap_or(DEFAULT_TIMEOUT).max(1);
        let _none = hook.insert("timeout".to_owned(), timeout.into());
        let _none = hook.insert("type".to_owned(), "command".into());
    }
    let mut all = json!({"event_name": event, "hooks": [hook]});
    if let (Some(matcher), Some(all)) = (matcher, all.as_object_mut()) {
        let _none = all.insert("matcher".to_owned(), matcher.into());
    }
    let digest = Sha256::digest(all.to_string().as_bytes());
    let mut text = String::from("sha256:");
    for byte in digest {
        let _written = write!(text, "{byte:02x}");
    }
    text
}

/// What a configuration says of a hook.
pub fn trust_of(config: &str, entry: &TrustEntry) -> Result<Trust, TomlError> {
    let found = statements(config)?;
    let said = |key: &str| value_at(config, &found, &["hooks", "state", &entry.key, key]);
    Ok(match said("trusted_hash").and_then(text_of) {
        _ if said("enabled") == Some("false") => Trust::Disabled,
        Some(hash) if hash == entry.hash => Trust::Trusted,
        Some(_) => Trust::Modified,
        None => Trust::Untrusted,
    })
}

/// Whether Codex trusts a project, without which it reads none of its hooks.
pub fn is_project_trusted(config: &str, directory: &str) -> Result<bool, TomlError> {
    let found = statements(config)?;
    let level = value_at(config, &found, &["projects", directory, "trust_level"]);
    Ok(level.and_then(text_of).as_deref() == Some("trusted"))
}

/// The configuration with these hooks trusted.
pub fn with_trust(config: &str, entries: &[TrustEntry]) -> Result<String, TrustError> {
    let mut now = config.to_owned();
    for entry in entries {
        now = with_one(&now, entry)?;
    }
    Ok(now)
}

fn with_one(config: &str, entry: &TrustEntry) -> Result<String, TrustError> {
    let found = statements(config)?;
    let path = ["hooks", "state", &entry.key];
    let hash = quoted(&entry.hash);
    let mut table = None;
    let mut is_dotted = false;
    for statement in &found {
        match statement {
            Statement::Value {
                path: at, value, ..
            } => {
                let is_hash = at
                    .split_last()
                    .is_some_and(|(last, above)| last == "trusted_hash" && above == path);
                if is_hash {
                    return Ok(spliced(config, value.clone(), &hash));
                }
                is_dotted |= at.starts_with(&path.map(str::to_owned));
                for (length, key) in [
                    (1, "hooks"),
                    (2, "hooks.state"),
                    (3, "the state of the hook"),
                ] {
                    if at.len() == length && path.get(..length).is_some_and(|path| at == path) {
                        return Err(TrustError::Inline { key });
                    }
                }
            }
            // A list has no keys that could be added to it, but in its last element.
            Statement::Table {
                path: at,
                is_element: true,
                ..
            } if path.starts_with(&at.iter().map(String::as_str).collect::<Vec<_>>()) => {
                return Err(TrustError::Dotted { key: "hooks" });
            }
            Statement::Table { path: at, span, .. } if *at == path => table = Some(span.end),
            Statement::Table { .. } => {}
        }
    }
    let newline = newline(config);
    let line = format!("trusted_hash = {hash}");
    if let Some(end) = table {
        let rest = config.get(end..).unwrap_or_default();
        let end = end + rest.find('\n').unwrap_or(rest.len());
        let end = end - usize::from(config.get(..end).is_some_and(|text| text.ends_with('\r')));
        return Ok(spliced(config, end..end, &format!("{newline}{line}")));
    }
    // A second table of that name would make Codex refuse the whole file.
    if is_dotted {
        return Err(TrustError::Dotted {
            key: "the state of the hook",
        });
    }
    let mut now = config.to_owned();
    if !now.is_empty() && !now.ends_with('\n') {
        now.push_str(newline);
    }
    if !now.is_empty() {
        now.push_str(newline);
    }
    let key = quoted(&entry.key);
    let _written = write!(now, "[hooks.state.{key}]{newline}{line}{newline}");
    Ok(now)
}

/// The configuration without the trust in these hooks, where it is as it was recorded and says nothing else of them.
pub fn without_trust(config: &str, entries: &[TrustEntry]) -> Result<String, TomlError> {
    let mut now = config.to_owned();
    for entry in entries {
        now = without_one(&now, entry)?;
    }
    Ok(now)
}

fn without_one(config: &str, entry: &TrustEntry) -> Result<String, TomlError> {
    let found = statements(config)?;
    let path = ["hooks", "state", &entry.key];
    let header = found.iter().position(
        |statement| matches!(statement, Statement::Table { path: at, is_element: false, .. } if *at == path),
    );
    let Some(number) = header else {
        return Ok(config.to_owned());
    };
    let (
        Some(Statement::Table { span: header, .. }),
        Some(Statement::Value {
            path: at,
            value,
            span,
        }),
    ) = (found.get(number), found.get(number + 1))
    else {
        return Ok(config.to_owned());
    };
    let is_alone = !matches!(found.get(number + 2), Some(Statement::Value { .. }));
    let is_ours = at.last().is_some_and(|last| last == "trusted_hash")
        && config.get(value.clone()).and_then(text_of).as_deref() == Some(&*entry.hash);
    if !is_alone || !is_ours {
        return Ok(config.to_owned());
    }
    let rest = config.get(span.end..).unwrap_or_default();
    let end = span.end + rest.find('\n').map_or(rest.len(), |at| at + 1);
    let newline = newline(config);
    let before = config.get(..header.start).unwrap_or_default();
    // The empty line that was put before it.
    let start = if before.ends_with(&format!("{newline}{newline}")) {
        header.start - newline.len()
    } else {
        header.start
    };
    Ok(spliced(config, start..end, ""))
}

fn newline(text: &str) -> &'static str {
    if text.contains("\r\n") { "\r\n" } else { "\n" }
}

fn spliced(text: &str, range: Range<usize>, new: &str) -> String {
    let before = text.get(..range.start).unwrap_or_default();
    let after = text.get(range.end..).unwrap_or_default();
    format!("{before}{new}{after}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What Codex 0.171.0 lists for these definitions.
    #[test]
    fn the_hash_is_what_codex_lists() {
        let handler = json!({
            "type": "command",
            "command": "'/opt/a b/askrelay' hook codex --host-timeout 86400",
            "timeout": 86_400,
            "statusMessage": "askrelay: waiting",
        });
        assert_eq!(
            hash("pre_tool_use", Some("*"), &handler),
            "sha256:a8d192a1290dc1e7294448314a6396a5dcc299df0ae4cd08503e00db1227d4a1"
        );
        let handler = json!({"type": "command", "command": "/bin/true"});
        assert_eq!(
            hash("permission_request", None, &handler),
            "sha256:e3238e16f771402fac7196d3612da9fa0e46a0a077aa580342df2f0a0d2ba9c3"
        );
        let handler = json!({
            "type": "command",
            "command": "'/opt/\u{e4} \u{7f}\"b/askrelay' hook",
            "timeout": 86_400,
            "args": ["a"],
            "onFailure": "block",
        });
        assert_eq!(
            hash("pre_tool_use", Some("*"), &handler),
            "sha256:c12cb325a2ab4b8df722f5d1325180ab8d800ac9870e15c69dfbbbae8ee18c83"
        );
    }

    fn entry() -> TrustEntry {
        TrustEntry {
            key: "/home/me/.codex/hooks.json:pre_tool_use:0:0".to_owned(),
            hash: "sha256:00".to_owned(),
        }
    }

    #[test]
    fn trust_is_recorded_behind_everything_and_taken_back_to_the_byte() {
        for config in [
            "",
            "model = \"m\"\n",
            "# mine\r\n[features]\r\nhooks = true\r\n",
            "[[hooks.PreToolUse]]\nmatcher = \"*\"\n[[hooks.PreToolUse.hooks]]\ntype = \"command\"\n\n",
            "[hooks.state]\n\"other\".trusted_hash = \"sha256:11\"\n",
            "s = '''\n[hooks.state.\"/home/me/.codex/hooks.json:pre_tool_use:0:0\"]\n'''\n",
        ] {
            let with = with_trust(config, &[entry()]).unwrap();
            assert_eq!(trust_of(&with, &entry()).unwrap(), Trust::Trusted, "{with}");
            assert_eq!(with_trust(&with, &[entry()]).unwrap(), with);
            assert_eq!(without_trust(&with, &[entry()]).unwrap(), config);
        }
    }

    #[test]
    fn another_hash_is_replaced_and_what_else_is_said_of_the_hook_stays() {
        let key = entry().key;
        let config =
            format!("[hooks.state.'{key}']\nenabled = true\ntrusted_hash = 'sha256:99' # x\n");
        assert_eq!(trust_of(&config, &entry()).unwrap(), Trust::Modified);
        let with = with_trust(&config, &[entry()]).unwrap();
        assert_eq!(with, config.replace("'sha256:99'", "\"sha256:00\""));
        assert_eq!(without_trust(&with, &[entry()]).unwrap(), with);
        let bare = format!("[hooks.state.\"{key}\"] # x\nenabled = false");
        let with = with_trust(&bare, &[entry()]).unwrap();
        assert_eq!(
            with,
            format!("[hooks.state.\"{key}\"] # x\ntrusted_hash = \"sha256:00\"\nenabled = false")
        );
        assert_eq!(trust_of(&with, &entry()).unwrap(), Trust::Disabled);
    }

    #[test]
    fn what_nothing_can_be_added_to_is_refused() {
        for config in [
            "hooks = {}",
            "[hooks]\nstate = { a = { b = 1 } }",
            "hooks.state = {}",
        ] {
            let refused = with_trust(config, &[entry()]);
            assert!(
                matches!(refused, Err(TrustError::Inline { .. })),
                "{config}"
            );
        }
        assert!(with_trust("a", &[entry()]).is_err());
        assert!(with_trust("a = hello world", &[entry()]).is_err());
        let key = quoted(&entry().key);
        for config in [
            format!("[hooks.state]\n{key}.enabled = true\n"),
            format!("hooks.state.{key}.enabled = true\n"),
            format!("[hooks]\nstate.{key}.enabled = true\n"),
            "[[hooks]]\na = 1\n".to_owned(),
        ] {
            let refused = with_trust(&config, &[entry()]);
            assert!(
                matches!(refused, Err(TrustError::Dotted { .. })),
                "{config}"
            );
        }
        // What is there is replaced, however it is written.
        let config = format!("[hooks.state]\n{key}.trusted_hash = \"sha256:11\"\n");
        let with = with_trust(&config, &[entry()]).unwrap();
        assert_eq!(with, config.replace("11", "00"));
    }

    #[test]
    fn a_project_is_trusted_by_its_table() {
        let config = "[projects.\"/p\"]\ntrust_level = \"trusted\"\n[projects.\"/q\"]\ntrust_level = \"untrusted\"";
        assert!(is_project_trusted(config, "/p").unwrap());
        assert!(!is_project_trusted(config, "/q").unwrap());
        assert!(!is_project_trusted("", "/p").unwrap());
    }
}
