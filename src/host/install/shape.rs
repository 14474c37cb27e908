//! What a host's own reader refuses in its configuration: where one value is of another kind than it takes, it skips the whole file
//! without a word, and every hook in it, whosever that value is.
//!
//! Only what was seen to have that effect is checked, not the whole schema of a host.

use super::Host;
use super::hooks::{EditError, Kind, Read, elements, member, text_of};
use crate::policy::Position;
use crate::policy::json::{Node, Value};

/// Settings of Claude Code whose kind its schema insists on, as it was seen to in 2.1.332; a dot leads into an object. What it does not
/// name here it takes no offence at, or nobody has looked.
const CLAUDE: [(Kind, &[&str]); 8] = [
    (
        Kind::Object,
        &[
            "attributionProjectPolicy",
            "breakReminder",
            "enabledPlugins",
            "env",
            "extraKnownMarketplaces",
            "fileSuggestion",
            "modelOverrides",
            "modelPicker",
            "modelPricing",
            "permissions",
            "pluginConfigs",
            "quietHours",
            "remote",
            "remoteTools",
            "sandbox",
            "sandbox.network",
            "skillOverrides",
            "spinnerVerbs",
            "statusLine",
            "voice",
            "worktree",
        ],
    ),
    (Kind::Array, &["allowedChannelPlugins", "sshConfigs"]),
    (Kind::Array, CLAUDE_TEXTS),
    (
        Kind::Text,
        &[
            "$schema",
            "advisorModel",
            "agent",
            "apiKeyHelper",
            "attributionProject",
            "autoMemoryDirectory",
            "autoUpdatesChannel",
            "availableModelsMatch",
            "awsAuthRefresh",
            "awsCredentialExport",
            "claudeMd",
            "daemonColdStart",
            "defaultShell",
            "disableAutoMode",
            "downloadsMirrorUrl",
            "feedbackDrafts",
            "fileSuggestion.command",
            "fileSuggestion.type",
            "gcpAuthRefresh",
            "language",
            "managedSourcesBehavior",
            "minimumVersion",
            "model",
            "modelCatalogPublicKey",
            "modelCatalogUrl",
            "otelHeadersHelper",
            "outputStyle",
            "parentSettingsBehavior",
            "permissions.defaultMode",
            "permissions.disableAutoMode",
            "permissions.disableBypassPermissionsMode",
            "plansDirectory",
            "pluginTrustMessage",
            "prUrlTemplate",
            "processWrapper",
            "proxyAuthHelper",
            "requiredMaximumVersion",
            "requiredMinimumVersion",
            "statusLine.command",
            "statusLine.type",
            "timeZone",
            "totalTokensReminder",
            "tui",
            "workflowSizeGuideline",
        ],
    ),
    (
        Kind::Flag,
        &[
            "agentPushNotifEnabled",
            "allowAllClaudeAiMcps",
            "allowClaudeInChromeWithManagedMcp",
            "allowManagedHooksOnly",
            "allowManagedMcpServersOnly",
            "allowManagedPermissionRulesOnly",
            "allowNestedModelAccessUnderForceLogin",
            "alwaysThinkingEnabled",
            "autoCompactEnabled",
            "autoContinueAtUsageLimit",
            "autoDreamEnabled",
            "autoMemoryEnabled",
            "autoScrollEnabled",
            "autoUploadSessions",
            "awaySummaryEnabled",
            "bashEditDiffEnabled",
            "channelsEnabled",
            "clawdFileProgressEnabled",
            "disableAgentView",
            "disableAllHooks",
            "disableArtifact",
            "disableBundledSkills",
            "disableClaudeAiConnectors",
            "disableCommandPluginSources",
            "disableRemoteControl",
            "disableReplyCheck",
            "disableSideloadFlags",
            "disableSkillShellExecution",
            "disableWindowsBashCommandSplit",
            "disableWorkflows",
            "doneMeansMerged",
            "emojiCompletionEnabled",
            "enableAllProjectMcpServers",
            "enableArtifact",
            "enableWorkflows",
            "enforceAvailableModels",
            "fastMode",
            "fastModePerSessionOptIn",
            "fileCheckpointingEnabled",
            "forceRemoteSettingsRefresh",
            "idleCompaction",
            "includeCoAuthoredBy",
            "includeGitInstructions",
            "inputNeededNotifEnabled",
            "isolatePeerMachines",
            "precomputeCompactionEnabled",
            "prefersReducedMotion",
            "promptSuggestionEnabled",
            "remoteControlAtStartup",
            "respectGitignore",
            "respondToBashCommands",
            "responseComparisonEnabled",
            "sandbox.enabled",
            "showClearContextOnPlanAccept",
            "showMessageTimestamps",
            "showThinkingSummaries",
            "showTurnDuration",
            "skipDangerousModePermissionPrompt",
            "skipWebFetchPreflight",
            "skipWorkflowUsageWarning",
            "spinnerTipsEnabled",
            "switchModelsOnFlag",
            "syncClaudeAiPlugins",
            "syncClaudeAiSkills",
            "syntaxHighlightingDisabled",
            "terminalProgressBarEnabled",
            "terminalTitleFromRename",
            "todoFeatureEnabled",
            "totalTokensReminderAfterUserTurn",
            "verbose",
            "wheelScrollAccelerationEnabled",
            "workflowKeywordTriggerEnabled",
            "wslInheritsWindowsSettings",
        ],
    ),
    (
        Kind::Positive,
        &[
            "cleanupPeriodDays",
            "skillListingMaxDescChars",
            "totalTokensReminderBudget",
        ],
    ),
    (Kind::Count, &["desktopSessionCleanupPeriodDays"]),
    (
        Kind::Number,
        &["feedbackSurveyRate", "skillListingBudgetFraction"],
    ),
];
/// Settings of Claude Code that are lists of texts.
const CLAUDE_TEXTS: &[&str] = &[
    "allowedHttpHookUrls",
    "availableModels",
    "claudeMdExcludes",
    "companyAnnouncements",
    "deniedModels",
    "disabledMcpjsonServers",
    "enabledMcpjsonServers",
    "fallbackModel",
    "httpHookAllowedEnvVars",
    "permissions.additionalDirectories",
    "permissions.allow",
    "permissions.ask",
    "permissions.deny",
    "pluginSuggestionMarketplaces",
    "sandbox.network.allowedDomains",
];
/// Settings of Claude Code that are one of a few words, and the words that were seen. Another one has it skip the file; but a newer
/// version may know more of them.
const CLAUDE_WORDS: [(&str, &[&str]); 8] = [
    (
        "permissions.defaultMode",
        &[
            "default",
            "manual",
            "acceptEdits",
            "plan",
            "bypassPermissions",
            "dontAsk",
            "auto",
        ],
    ),
    ("permissions.disableBypassPermissionsMode", &["disable"]),
    ("permissions.disableAutoMode", &["disable"]),
    ("disableAutoMode", &["disable"]),
    ("defaultShell", &["bash", "powershell"]),
    ("statusLine.type", &["command"]),
    ("tui", &["default", "fullscreen"]),
    ("autoUpdatesChannel", &["latest", "stable", "rc"]),
];
/// Fields of a handler of Codex that have to be of a kind where they are there.
const CODEX: [(&str, Kind); 3] = [
    ("timeout", Kind::Count),
    ("async", Kind::Flag),
    ("statusMessage", Kind::Text),
];
/// Types of handlers that Codex reads.
const CODEX_TYPES: [&str; 4] = ["command", "mcp_tool", "prompt", "agent"];

/// A value for which a host may skip the file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{position}: {key:?} is {word:?}, and not one of {}", words.join(", "))]
pub struct Doubt {
    position: Position,
    key: &'static str,
    word: String,
    words: &'static [&'static str],
}

impl Read<'_> {
    /// The first value for which the host skips the file.
    pub(super) fn all_shapes(&self, host: Host) -> Result<(), EditError> {
        let hooks = self.hooks()?;
        match host {
            Host::ClaudeCode => self.claude_code(),
            Host::Codex => hooks.map_or(Ok(()), |hooks| self.codex(hooks)),
            // What it cannot read it names, and goes on; but for this it forgets the whole event.
            Host::Gemini => self.event("BeforeTool")?.map_or(Ok(()), |groups| {
                elements(groups)
                    .iter()
                    .try_for_each(|group| self.matcher("\"hooks\".\"BeforeTool\"", group))
            }),
            Host::Opencode | Host::Pi => Ok(()),
        }
    }

    fn matcher(&self, event: &str, group: &Node) -> Result<(), EditError> {
        match member(group, "matcher") {
            Some(matcher) if !matches!(matcher.value, Value::Null) => {
                self.shape(&format!("\"matcher\" in {event}"), matcher, Kind::Text)
            }
            Some(_) | None => Ok(()),
        }
    }

    fn at(&self, key: &str) -> Option<&Node> {
        key.split('.')
            .try_fold(&self.root, |node, key| member(node, key))
    }

    fn claude_code(&self) -> Result<(), EditError> {
        for (kind, keys) in CLAUDE {
            for key in keys {
                let Some(node) = self.at(key) else {
                    continue;
                };
                self.shape(&format!("{key:?}"), node, kind)?;
                if CLAUDE_TEXTS.contains(key) {
                    for element in elements(node) {
                        self.shape(&format!("an element of {key:?}"), element, Kind::Text)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Settings that are another word than was seen to be taken: the key, the word, and those that were.
    pub(super) fn all_doubts(&self, host: Host) -> Vec<Doubt> {
        let mut all = Vec::new();
        if host != Host::ClaudeCode {
            return all;
        }
        for (key, words) in CLAUDE_WORDS {
            let Some((node, word)) = self.at(key).and_then(|node| Some((node, text_of(node)?)))
            else {
                continue;
            };
            if !words.contains(&&*word) {
                all.push(Doubt {
                    position: self.position(node),
                    key,
                    word,
                    words,
                });
            }
        }
        all
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
                self.matcher(&key, group)?;
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
            return Err(self.misshapen(
                &of("type"),
                at,
                "\"command\", \"mcp_tool\", \"prompt\" or \"agent\"",
            ));
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
    use super::super::{check_shape, doubts, install};
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
            (
                Host::Codex,
                r#"{"hooks":{"Stop":[{"hooks":[{"type":"http","url":"x"}]}]}}"#,
            ),
            (Host::Codex, r#"{"hooks":{"Stop":null}}"#),
            (
                Host::Gemini,
                r#"{"hooks":{"BeforeTool":[{"matcher":1,"hooks":[]}]}}"#,
            ),
            (Host::ClaudeCode, r#"{"permissions":{"allow":"Bash"}}"#),
            (Host::ClaudeCode, r#"{"permissions":{"deny":[1]}}"#),
            (Host::ClaudeCode, r#"{"permissions":[]}"#),
            (Host::ClaudeCode, r#"{"hooks":[]}"#),
            (Host::ClaudeCode, r#"{"model":null}"#),
            (Host::ClaudeCode, r#"{"env":[]}"#),
            (Host::ClaudeCode, r#"{"enabledPlugins":["a"]}"#),
            (Host::ClaudeCode, r#"{"cleanupPeriodDays":0}"#),
            (Host::ClaudeCode, r#"{"verbose":"yes"}"#),
            (Host::ClaudeCode, r#"{"availableModels":"x"}"#),
            (Host::ClaudeCode, r#"{"statusLine":{"type":1}}"#),
            (Host::ClaudeCode, r#"{"sandbox":{"enabled":"yes"}}"#),
            (
                Host::ClaudeCode,
                r#"{"sandbox":{"network":{"allowedDomains":"x"}}}"#,
            ),
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
            (
                Host::Codex,
                r#"{"hooks":{"Stop":[{"hooks":[{"type":"mcp_tool","server":"s","tool":"t"}]}]}}"#,
            ),
            (
                Host::Gemini,
                r#"{"ui":5,"hooks":{"AfterTool":1,"BeforeTool":[{"hooks":5}]}}"#,
            ),
            // Taken by Claude Code as it is.
            (
                Host::ClaudeCode,
                r#"{"theme":5,"zzz":1,"env":{"A":1},"permissions":{"allow":["Bash(",""],"z":1}}"#,
            ),
        ] {
            check_shape(host, text).unwrap();
        }
    }

    #[test]
    fn a_word_that_was_never_seen_to_be_taken_is_in_doubt_and_not_refused() {
        let text = r#"{"permissions":{"defaultMode":"yolo"},"tui":"default"}"#;
        let said = |text| {
            let all = doubts(Host::ClaudeCode, text);
            all.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(
            said(text),
            [
                "1:31: \"permissions.defaultMode\" is \"yolo\", and not one of default, manual, acceptEdits, plan, bypassPermissions, dontAsk, auto"
            ]
        );
        check_shape(Host::ClaudeCode, text).unwrap();
        assert!(install(Host::ClaudeCode, text, "/usr/bin/askrelay").is_ok());
        assert_eq!(said("{\"tui\":"), [""; 0]);
    }
}
