//! What holds of each key of a configuration beside its type: what the configuration of a project may do with it, and when a
//! change of it counts in a session that runs.
//!
//! A project is trusted for what its files said when somebody looked at them. Even so, nothing of it loosens what belongs to the
//! machine or to the person: which session this is, how the log is written, which key means yes, who else may allow.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::config::{CONFIG_KEYS, Config, Program, Switch};
use super::permission::{PermissionMap, SurfaceRules};
use crate::wire::{Generation, SessionId};

/// What the configuration of a trusted project may do with a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProjectMay {
    /// Say what holds.
    Set,
    /// Add to what the user has, and replace it name by name.
    Add,
    /// Switch it on, never off.
    SwitchOn,
    /// Switch it off, never on.
    SwitchOff,
    /// Lower it, never raise it.
    Lower,
    /// Nothing.
    Nothing,
}

/// When a change of a key counts in a session that runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counts {
    /// With the next ask, and for what waits.
    AtOnce,
    /// From the next start of the session on.
    FromStart,
    /// Whoever asks reads it anew each time; the session does not heed it.
    InTheAsker,
}

/// What holds of one key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key {
    /// The key.
    pub name: &'static str,
    /// What a project may do with it.
    pub project: ProjectMay,
    /// When a change counts.
    pub counts: Counts,
}

const fn key(name: &'static str, project: ProjectMay, counts: Counts) -> Key {
    Key {
        name,
        project,
        counts,
    }
}

/// What holds of every key, in the order of [`CONFIG_KEYS`].
pub const KEYS: [Key; CONFIG_KEYS.len()] = {
    use Counts::{AtOnce, FromStart, InTheAsker};
    use ProjectMay::{Add, Lower, Nothing, Set, SwitchOff, SwitchOn};
    [
        key("$schema", Set, InTheAsker),
        key("debugLog", Nothing, FromStart),
        key("permissionReviewLog", SwitchOn, FromStart),
        key("yoloMode", SwitchOff, AtOnce),
        key("doublePressToConfirm", SwitchOn, FromStart),
        key("permissionDialogKeys", Nothing, FromStart),
        key("forwardingTimeoutMs", Set, AtOnce),
        key("promptMaxRows", Set, FromStart),
        key("promptFieldMaxWidth", Set, FromStart),
        key("reviewLogFieldMaxWidth", Nothing, FromStart),
        key("authorizerChain", Set, AtOnce),
        key("authorizerTrust", Nothing, AtOnce),
        key("piInfrastructureReadPaths", Set, AtOnce),
        key("shellTools", Add, InTheAsker),
        key("permission", Add, AtOnce),
        key("toolInputPreviewMaxLength", Set, InTheAsker),
        key("toolTextSummaryMaxLength", Set, InTheAsker),
        key("session", Nothing, FromStart),
        key("peerGeneration", Nothing, FromStart),
        key("requireSeal", SwitchOn, FromStart),
        key("requireAudit", SwitchOn, FromStart),
        key("reviewLogRotation", Nothing, FromStart),
        key("requestMaxAgeMs", Set, AtOnce),
        key("inbox", Nothing, FromStart),
        key("authorizers", Nothing, AtOnce),
        key("annotatorChain", Set, AtOnce),
        key("annotators", Add, AtOnce),
        key("evidenceFormatters", Add, InTheAsker),
        key("limits", Lower, AtOnce),
        key("persistGrants", Nothing, FromStart),
        key("hooks", Nothing, InTheAsker),
    ]
};

/// The JSON Schema (draft 2020-12) of a configuration, ending in a newline. What no schema can say (a key that stands twice, which
/// directions a family has, whether an example fits its rule) is checked when the file is read.
pub const CONFIG_SCHEMA: &str = include_str!("schema/config.json");

impl Config {
    /// The value of a key as it would stand in a file; null where there is no such value.
    pub fn value_of(&self, key: &str) -> Value {
        match key {
            "debugLog" => self.debug_log.is_on().into(),
            "permissionReviewLog" => self.permission_review_log.is_on().into(),
            "yoloMode" => self.yolo_mode.is_on().into(),
            "doublePressToConfirm" => self.double_press_to_confirm.is_on().into(),
            "permissionDialogKeys" => {
                let keys = self.permission_dialog_keys.named();
                keys.map(|(name, key)| (name.to_owned(), Value::from(key.to_string())))
                    .into_iter()
                    .collect::<Map<_, _>>()
                    .into()
            }
            "forwardingTimeoutMs" => milliseconds(self.forwarding_timeout),
            "promptMaxRows" => self.prompt_max_rows.into(),
            "promptFieldMaxWidth" => self.prompt_field_max_width.into(),
            "reviewLogFieldMaxWidth" => self.review_log_field_max_width.into(),
            "authorizerChain" => json!(self.authorizer_chain),
            "authorizerTrust" => by_name(&self.authorizer_trust, |families| {
                families.iter().map(|family| family.name()).collect()
            }),
            "piInfrastructureReadPaths" => json!(self.pi_infrastructure_read_paths),
            "shellTools" => by_name(&self.shell_tools, |tool| {
                let mut members = Map::new();
                members.insert("commandArgument".to_owned(), json!(tool.command_argument));
                if let Some(workdir) = &tool.workdir_argument {
                    members.insert("workdirArgument".to_owned(), json!(workdir));
                }
                members.into()
            }),
            "permission" => permission(&self.permission),
            "session" => json!(self.session.as_ref().map(SessionId::as_str)),
            "peerGeneration" => match self.peer_generation {
                Generation::G1 => "g1",
                Generation::Current => "current",
            }
            .into(),
            "requireSeal" => self.require_seal.is_on().into(),
            "requireAudit" => self.require_audit.is_on().into(),
            "reviewLogRotation" => json!({
                "maxBytes": self.review_log_rotation.max_bytes,
                "maxAgeDays": self.review_log_rotation.max_age.map(|age| age.as_secs() / 86_400),
            }),
            "requestMaxAgeMs" => milliseconds(self.request_max_age),
            "inbox" => json!({
                "maxPending": self.inbox.max_pending,
                "expireMs": self.inbox.expire.map(milliseconds),
                "retain": self.inbox.retain,
            }),
            "authorizers" => by_name(&self.authorizers, program),
            "annotatorChain" => json!(self.annotator_chain),
            "annotators" => by_name(&self.annotators, program),
            "evidenceFormatters" => by_name(&self.evidence_formatters, program),
            "limits" => json!({
                "perRequesterPending": self.limits.per_requester_pending,
                "perSessionPending": self.limits.per_session_pending,
                "perRequesterPerMinute": self.limits.per_requester_per_minute,
            }),
            "persistGrants" => self.persist_grants.is_on().into(),
            "hooks" => json!({
                "denyStops": self.hooks.deny_stops.is_on(),
                "hostRemembers": self.hooks.host_remembers.is_on(),
            }),
            _ => Value::Null,
        }
    }

    /// Takes over what a project's configuration says about a key, as far as it may. Tells whether all of it counts. The rules
    /// of `permission` stay apart: they are laid over each other with their origins.
    pub(super) fn lay(&mut self, key: &Key, project: &Self) -> bool {
        match key.project {
            ProjectMay::Nothing => return false,
            ProjectMay::SwitchOn | ProjectMay::SwitchOff => {
                let wanted = project.switch(key.name);
                let may = wanted == Some(on(key.project == ProjectMay::SwitchOn));
                if may && let (Some(switch), Some(wanted)) = (self.switch_mut(key.name), wanted) {
                    *switch = wanted;
                }
                return may;
            }
            ProjectMay::Lower => return self.lower_limits(project),
            ProjectMay::Set | ProjectMay::Add => {}
        }
        match key.name {
            "forwardingTimeoutMs" => self.forwarding_timeout = project.forwarding_timeout,
            "promptMaxRows" => self.prompt_max_rows = project.prompt_max_rows,
            "promptFieldMaxWidth" => self.prompt_field_max_width = project.prompt_field_max_width,
            "authorizerChain" => self.authorizer_chain.clone_from(&project.authorizer_chain),
            "piInfrastructureReadPaths" => self
                .pi_infrastructure_read_paths
                .clone_from(&project.pi_infrastructure_read_paths),
            "shellTools" => add(&mut self.shell_tools, &project.shell_tools),
            "requestMaxAgeMs" => self.request_max_age = project.request_max_age,
            "annotatorChain" => self.annotator_chain.clone_from(&project.annotator_chain),
            "annotators" => add(&mut self.annotators, &project.annotators),
            "evidenceFormatters" => {
                add(&mut self.evidence_formatters, &project.evidence_formatters);
            }
            // Rules are laid by the policy; the others say nothing.
            _ => {}
        }
        true
    }

    fn switch(&self, key: &str) -> Option<Switch> {
        Some(match key {
            "permissionReviewLog" => self.permission_review_log,
            "yoloMode" => self.yolo_mode,
            "doublePressToConfirm" => self.double_press_to_confirm,
            "requireSeal" => self.require_seal,
            "requireAudit" => self.require_audit,
            _ => return None,
        })
    }

    fn switch_mut(&mut self, key: &str) -> Option<&mut Switch> {
        Some(match key {
            "permissionReviewLog" => &mut self.permission_review_log,
            "yoloMode" => &mut self.yolo_mode,
            "doublePressToConfirm" => &mut self.double_press_to_confirm,
            "requireSeal" => &mut self.require_seal,
            "requireAudit" => &mut self.require_audit,
            _ => return None,
        })
    }

    fn lower_limits(&mut self, project: &Self) -> bool {
        let (own, theirs) = (self.limits, project.limits);
        let lower = |own: &mut usize, theirs: usize| *own = theirs.min(*own);
        lower(
            &mut self.limits.per_requester_pending,
            theirs.per_requester_pending,
        );
        lower(
            &mut self.limits.per_session_pending,
            theirs.per_session_pending,
        );
        lower(
            &mut self.limits.per_requester_per_minute,
            theirs.per_requester_per_minute,
        );
        theirs.per_requester_pending <= own.per_requester_pending
            && theirs.per_session_pending <= own.per_session_pending
            && theirs.per_requester_per_minute <= own.per_requester_per_minute
    }
}

fn on(yes: bool) -> Switch {
    if yes { Switch::On } else { Switch::Off }
}

fn add<T: Clone>(own: &mut BTreeMap<String, T>, project: &BTreeMap<String, T>) {
    own.extend(
        project
            .iter()
            .map(|(name, entry)| (name.clone(), entry.clone())),
    );
}

fn milliseconds(time: Duration) -> Value {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX).into()
}

fn by_name<T>(entries: &BTreeMap<String, T>, value: impl Fn(&T) -> Value) -> Value {
    let members = entries
        .iter()
        .map(|(name, entry)| (name.clone(), value(entry)));
    members.collect::<Map<_, _>>().into()
}

fn program(program: &Program) -> Value {
    json!({
        "command": program.command,
        "timeoutMs": milliseconds(program.timeout),
        "env": program.env,
    })
}

fn permission(map: &PermissionMap) -> Value {
    let rules = |rules: &SurfaceRules| match rules {
        SurfaceRules::Whole(verdict) => verdict.name().into(),
        SurfaceRules::Patterns(patterns) => patterns
            .iter()
            .map(|rule| {
                let said = match &rule.reason {
                    Some(reason) => json!({"action": rule.verdict.name(), "reason": reason}),
                    None => rule.verdict.name().into(),
                };
                (rule.pattern.clone(), said)
            })
            .collect::<Map<_, _>>()
            .into(),
    };
    let surfaces = map.surfaces.iter();
    surfaces
        .map(|(surface, said)| (surface.clone(), rules(said)))
        .collect::<Map<_, _>>()
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_has_every_key_with_its_default_and_no_other() {
        let schema: Value = serde_json::from_str(CONFIG_SCHEMA).unwrap();
        assert!(CONFIG_SCHEMA.ends_with("}\n"));
        assert_eq!(schema["additionalProperties"], false);
        let keys = schema["properties"].as_object().unwrap();
        assert_eq!(keys.keys().collect::<Vec<_>>(), CONFIG_KEYS.each_ref());
        let defaults = Config::default();
        for (key, described) in keys {
            assert!(described["description"].is_string(), "{key}");
            let default = described.get("default").unwrap_or(&Value::Null);
            assert_eq!(*default, defaults.value_of(key), "{key}");
            for (member, inner) in described["properties"].as_object().into_iter().flatten() {
                assert_eq!(inner["default"], default[member], "{key}.{member}");
            }
        }
    }

    #[test]
    fn every_key_has_its_row() {
        assert_eq!(KEYS.map(|key| key.name), CONFIG_KEYS);
    }

    #[test]
    fn a_value_that_is_written_back_reads_as_itself() {
        let text = r#"{
            "debugLog": true, "permissionReviewLog": false, "yoloMode": true, "doublePressToConfirm": false,
            "permissionDialogKeys": {"approve": "a"}, "forwardingTimeoutMs": 5, "promptMaxRows": 6,
            "promptFieldMaxWidth": 7, "reviewLogFieldMaxWidth": 8, "authorizerChain": ["x"],
            "authorizerTrust": {"x": ["path", "external_directory"]}, "piInfrastructureReadPaths": ["/srv"],
            "shellTools": {"sh": {"commandArgument": "cmd"}, "zsh": {"commandArgument": "c", "workdirArgument": "d"}},
            "permission": {"*": "ask", "bash": {"ls": "allow", "rm": {"action": "deny", "reason": "no"}}},
            "session": "s", "peerGeneration": "g1", "requireSeal": true, "requireAudit": true,
            "reviewLogRotation": {"maxBytes": null, "maxAgeDays": 3}, "requestMaxAgeMs": 9,
            "inbox": {"maxPending": 1, "expireMs": null, "retain": 2},
            "authorizers": {"x": {"command": ["/x"], "timeoutMs": 4, "env": ["A"]}}, "annotatorChain": ["y"],
            "annotators": {"y": {"command": ["/y"]}}, "evidenceFormatters": {"edit": {"command": ["/z"]}},
            "limits": {"perRequesterPending": 1, "perSessionPending": 2, "perRequesterPerMinute": 3},
            "persistGrants": true, "hooks": {"denyStops": true, "hostRemembers": true}
        }"#;
        let config = Config::read(text.as_bytes(), "test").unwrap();
        let valued = KEYS
            .map(|key| key.name)
            .into_iter()
            .filter(|key| !key.starts_with("tool") && *key != "$schema");
        let written: Map<String, Value> = valued
            .map(|key| (key.to_owned(), config.value_of(key)))
            .collect();
        assert_eq!(written.len(), CONFIG_KEYS.len() - 3);
        assert!(written.values().all(|value| !value.is_null()));
        let text = Value::Object(written).to_string();
        let mut again = Config::read(text.as_bytes(), "test").unwrap();
        again.stated.clone_from(&config.stated);
        again.notices.clone_from(&config.notices);
        assert_eq!(again.value_of("permission"), config.value_of("permission"));
        // Where each rule stands is another matter.
        again.permission.clone_from(&config.permission);
        assert_eq!(again, config);
    }
}
