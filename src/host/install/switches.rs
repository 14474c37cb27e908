//! What switches hooks off in the configuration of a host, so that ours stand there and do not run.

use serde_json::Value;

use super::Host;
use super::entries::NAME;
use super::hooks::value_at;
use super::toml::{self, TomlError, statements};

/// A setting that keeps our hooks from running.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Switched {
    /// No hook runs at all.
    Off(&'static str),
    /// Only hooks of the administrator run.
    ManagedOnly(&'static str),
    /// Ours are switched off by their name.
    ByName(&'static str),
}

impl Switched {
    /// The setting, as it is written.
    pub const fn setting(self) -> &'static str {
        match self {
            Self::Off(setting) | Self::ManagedOnly(setting) | Self::ByName(setting) => setting,
        }
    }
}

/// What a configuration in JSON switches off; nothing where it cannot be read.
pub fn json_switches(host: Host, text: &str) -> Vec<Switched> {
    let said = |path: &[&str]| value_at(host, text, path);
    let is = |path: &[&str], wanted: bool| said(path) == Some(Value::Bool(wanted));
    let mut all = Vec::new();
    match host {
        Host::ClaudeCode => {
            if is(&["disableAllHooks"], true) {
                all.push(Switched::Off("\"disableAllHooks\": true"));
            }
            if is(&["allowManagedHooksOnly"], true) {
                all.push(Switched::ManagedOnly("\"allowManagedHooksOnly\": true"));
            }
            let plugins_only = said(&["strictPluginOnlyCustomization"]);
            if plugins_only.is_some_and(|surfaces| {
                let named = surfaces.as_array();
                surfaces == Value::Bool(true)
                    || named.is_some_and(|all| all.contains(&"hooks".into()))
            }) {
                all.push(Switched::ManagedOnly(
                    "\"strictPluginOnlyCustomization\" for hooks",
                ));
            }
        }
        Host::Gemini => {
            // It takes the text "false" for the value, too; of anything else but a yes it is not known.
            let enabled = said(&["hooksConfig", "enabled"]);
            let is_on = |enabled: &Value| {
                matches!(enabled, Value::Null | Value::Bool(true)) || *enabled == "true"
            };
            if enabled.is_some_and(|enabled| !is_on(&enabled)) {
                all.push(Switched::Off("\"hooksConfig\": {\"enabled\": false}"));
            }
            let named = said(&["hooksConfig", "disabled"]);
            if named.is_some_and(|names| {
                let all = names.as_array();
                // In a text it looks for the name all the same.
                all.is_some_and(|all| all.contains(&NAME.into()))
                    || names.as_str().is_some_and(|text| text.contains(NAME))
            }) {
                all.push(Switched::ByName(
                    "\"hooksConfig\": {\"disabled\": [\"askrelay\"]}",
                ));
            }
        }
        Host::Codex | Host::Opencode | Host::Pi => {}
    }
    all
}

/// What Codex's own configuration, or that of its administrator, switches off.
pub fn toml_switches(text: &str) -> Result<Vec<Switched>, TomlError> {
    let found = statements(text)?;
    let said = |path: &[&str]| toml::value_at(text, &found, path);
    let mut all = Vec::new();
    if said(&["features", "hooks"]) == Some("false") {
        all.push(Switched::Off("[features] hooks = false"));
    }
    // Its older name.
    if said(&["features", "codex_hooks"]) == Some("false") {
        all.push(Switched::Off("[features] codex_hooks = false"));
    }
    if said(&["allow_managed_hooks_only"]) == Some("true") {
        all.push(Switched::ManagedOnly("allow_managed_hooks_only = true"));
    }
    Ok(all)
}

/// Whether Gemini CLI trusts a folder, by its settings and by its list of folders. `is_above` says whether the folder of a rule, or its
/// parent, is the one that is asked about or lies above it.
pub fn is_folder_trusted(
    settings: &str,
    folders: &str,
    is_above: &dyn Fn(&str, bool) -> bool,
) -> bool {
    let off = value_at(
        Host::Gemini,
        settings,
        &["security", "folderTrust", "enabled"],
    );
    if off == Some(Value::Bool(false)) {
        return true;
    }
    let Ok(Value::Object(rules)) = serde_json::from_str(folders) else {
        return false;
    };
    // The one that is nearest counts.
    let holding = rules
        .iter()
        .filter(|(folder, rule)| is_above(folder, rule.as_str() == Some("TRUST_PARENT")));
    let nearest = holding.max_by_key(|(folder, _)| folder.len());
    nearest.is_some_and(|(_, rule)| matches!(rule.as_str(), Some("TRUST_FOLDER" | "TRUST_PARENT")))
}

/// Whether somebody said to Claude Code that they trust a directory.
pub fn is_workspace_trusted(state: &str, directory: &str) -> bool {
    let state: Value = serde_json::from_str(state).unwrap_or_default();
    let said = |key: &str| state.get("projects")?.get(directory)?.get(key)?.as_bool();
    said("hasTrustDialogAccepted") == Some(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_setting_that_keeps_hooks_from_running_is_named() {
        for (host, text) in [
            (Host::ClaudeCode, "{\"disableAllHooks\": true}"),
            (Host::ClaudeCode, "{\"allowManagedHooksOnly\": true}"),
            (
                Host::ClaudeCode,
                "{\"strictPluginOnlyCustomization\": [\"hooks\"]}",
            ),
            (Host::Gemini, "{\"hooksConfig\": {\"enabled\": false}}"),
            (Host::Gemini, "{\"hooksConfig\": {\"enabled\": \"false\"}}"),
            (
                Host::Gemini,
                "{\"hooksConfig\": {\"disabled\": [\"x\", \"askrelay\"]}}",
            ),
        ] {
            assert_eq!(json_switches(host, text).len(), 1, "{text}");
        }
        assert_eq!(
            json_switches(Host::ClaudeCode, "{\"disableAllHooks\": false}"),
            []
        );
        assert_eq!(
            toml_switches("[features]\nhooks = false\n").unwrap(),
            [Switched::Off("[features] hooks = false")]
        );
        assert_eq!(
            toml_switches("features.codex_hooks = false\n").unwrap(),
            [Switched::Off("[features] codex_hooks = false")]
        );
        assert_eq!(toml_switches("[features]\nhooks = true\n").unwrap(), []);
    }

    #[test]
    fn a_folder_is_trusted_by_itself_or_by_one_above_it_and_the_nearest_counts() {
        let trusted = |settings: &str, folders: &str| {
            is_folder_trusted(settings, folders, &|folder, parent| {
                let folder = if parent {
                    folder.rsplit_once('/').unwrap().0
                } else {
                    folder
                };
                "/a/b/c".starts_with(folder)
            })
        };
        assert!(!trusted("", ""));
        assert!(trusted(
            "{\"security\": {\"folderTrust\": {\"enabled\": false}}}",
            ""
        ));
        assert!(trusted("", "{\"/a/b\": \"TRUST_FOLDER\"}"));
        assert!(trusted("", "{\"/a/b/x\": \"TRUST_PARENT\"}"));
        assert!(!trusted("", "{\"/z\": \"TRUST_FOLDER\"}"));
        assert!(!trusted(
            "",
            "{\"/a\": \"TRUST_FOLDER\", \"/a/b/c\": \"DO_NOT_TRUST\"}"
        ));
    }

    #[test]
    fn a_workspace_is_trusted_where_somebody_said_so() {
        let state = "{\"projects\": {\"/a\": {\"hasTrustDialogAccepted\": true}, \"/b\": {}}}";
        assert!(is_workspace_trusted(state, "/a"));
        assert!(!is_workspace_trusted(state, "/b"));
        assert!(!is_workspace_trusted("", "/a"));
    }
}
