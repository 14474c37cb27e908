//! What a host's own reader refuses in its configuration: where one value is of another kind than it takes, it skips the whole file
//! without a word, and every hook in it, whosever that value is.
//!
//! Only what was seen to have that effect is checked, not the whole schema of a host.

use super::Host;
use super::hooks::{EditError, Kind, Read, elements, member, text_of};
use crate::policy::json::{Node, Value};

/// Settings of Claude Code whose kind its schema insists on.
const CLAUDE: [(&[&str], Kind); 16] = [
    (&["permissions"], Kind::Object),
    (&["permissions", "allow"], Kind::Array),
    (&["permissions", "deny"], Kind::Array),
    (&["permissions", "ask"], Kind::Array),
    (&["permissions", "additionalDirectories"], Kind::Array),
    (&["permissions", "defaultMode"], Kind::Text),
    (&["permissions", "disableBypassPermissionsMode"], Kind::Text),
    (&["env"], Kind::Object),
    (&["model"], Kind::Text),
    (&["apiKeyHelper"], Kind::Text),
    (&["statusLine"], Kind::Object),
    (&["sandbox"], Kind::Object),
    (&["enabledPlugins"], Kind::Object),
    (&["disableAllHooks"], Kind::Flag),
    (&["allowManagedHooksOnly"], Kind::Flag),
    (&["enableAllProjectMcpServers"], Kind::Flag),
];
/// Fields of a handler of Codex that have to be of a kind where they are there.
const CODEX: [(&str, Kind); 3] = [
    ("timeout", Kind::Count),
    ("async", Kind::Flag),
    ("statusMessage", Kind::Text),
];
/// Types of handlers that Codex reads.
const CODEX_TYPES: [&str; 3] = ["command", "prompt", "agent"];

impl Read<'_> {
    /// The first value for which the host skips the file.
    pub(super) fn all_shapes(&self, host: Host) -> Result<(), EditError> {
        let hooks = self.hooks()?;
        match host {
            Host::ClaudeCode => self.claude_code(),
            Host::Codex => hooks.map_or(Ok(()), |hooks| self.codex(hooks)),
            Host::Gemini | Host::Opencode | Host::Pi => Ok(()),
        }
    }

    fn claude_code(&self) -> Result<(), EditError> {
        for (path, kind) in CLAUDE {
            let mut node = Some(&self.root);
            for key in path {
                node = node.and_then(|node| member(node, key));
            }
            let Some(node) = node else {
                continue;
            };
            let key = format!("{:?}", path.join("."));
            self.shape(&key, node, kind)?;
            if kind == Kind::Array {
                for element in elements(node) {
                    self.shape(&format!("an element of {key}"), element, Kind::Text)?;
                }
            }
        }
        Ok(())
    }

    fn codex(&self, hooks: &Node) -> Result<(), EditError> {
        let Value::Object(events) = &hooks.value else {
            return Ok(());
        };
        for event in events {
            let key = format!("\"hooks\".{:?}", event.key);
            self.shape(&key, &event.node, Kind::Array)?;
            for group in elements(&event.node) {
                self.shape(&format!("a group of {key}"), group, Kind::Object)?;
                if let Some(matcher) = member(group, "matcher")
                    && !matches!(matcher.value, Value::Null)
                {
                    self.shape(&format!("\"matcher\" in {key}"), matcher, Kind::Text)?;
                }
                let Some(handlers) = member(group, "hooks") else {
                    continue;
                };
                self.shape(&format!("\"hooks\" in {key}"), handlers, Kind::Array)?;
                for handler in elements(handlers) {
                    self.codex_handler(&key, handler)?;
                }
            }
        }
        Ok(())
    }

    fn codex_handler(&self, event: &str, handler: &Node) -> Result<(), EditError> {
        self.shape(&format!("a hook of {event}"), handler, Kind::Object)?;
        let of = |name: &str| format!("{name:?} of a hook of {event}");
        let kind = member(handler, "type");
        let named = kind.and_then(text_of).unwrap_or_default();
        if !CODEX_TYPES.contains(&&*named) {
            let at = kind.unwrap_or(handler);
            return Err(self.misshapen(&of("type"), at, "\"command\", \"prompt\" or \"agent\""));
        }
        if named == "command" {
            match member(handler, "command") {
                Some(command) => self.shape(&of("command"), command, Kind::Text)?,
                None => return Err(self.misshapen(&of("command"), handler, "there, and a text")),
            }
        }
        for (name, kind) in CODEX {
            if let Some(value) = member(handler, name)
                && !matches!(value.value, Value::Null)
            {
                self.shape(&of(name), value, kind)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::{check_shape, install};
    use super::*;

    #[test]
    fn a_value_for_which_the_host_skips_the_whole_file_is_refused_whosever_it_is() {
        for (host, text) in [
            (
                Host::Codex,
                r#"{"hooks":{"Stop":[{"hooks":[{"type":"zzz","command":"x"}]}]}}"#,
            ),
            (
                Host::Codex,
                r#"{"hooks":{"Stop":[{"hooks":[{"command":"x"}]}]}}"#,
            ),
            (Host::Codex, r#"{"hooks":{"Stop":{"a":1}}}"#),
            (Host::Codex, r#"{"hooks":{"Stop":[1]}}"#),
            (Host::Codex, r#"{"hooks":{"Stop":[{"hooks":{}}]}}"#),
            (
                Host::Codex,
                r#"{"hooks":{"Stop":[{"matcher":1,"hooks":[]}]}}"#,
            ),
            (
                Host::Codex,
                r#"{"hooks":{"Stop":[{"hooks":[{"type":"command"}]}]}}"#,
            ),
            (
                Host::Codex,
                r#"{"hooks":{"Stop":[{"hooks":[{"type":"command","command":"x","timeout":1.5}]}]}}"#,
            ),
            (Host::ClaudeCode, r#"{"permissions":{"allow":"Bash"}}"#),
            (Host::ClaudeCode, r#"{"permissions":{"deny":[1]}}"#),
            (Host::ClaudeCode, r#"{"permissions":[]}"#),
            (Host::ClaudeCode, r#"{"hooks":[]}"#),
        ] {
            assert!(check_shape(host, text).is_err(), "{text}");
            let refused = install(host, text, "/usr/bin/askrelay");
            assert!(matches!(refused, Err(EditError::Shape { .. })), "{text}");
        }
        for (host, text) in [
            (
                Host::Codex,
                r#"{"hooks":{"Stop":[{"hooks":[{"type":"command","command":"x","timeout":5}]}]}}"#,
            ),
            (
                Host::ClaudeCode,
                r#"{"permissions":{"allow":["Bash"]},"hooks":{"Stop":[{"matcher":1}]}}"#,
            ),
        ] {
            check_shape(host, text).unwrap();
        }
    }
}
