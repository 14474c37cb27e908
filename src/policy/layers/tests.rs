use super::*;
use crate::policy::{Switch, Verdict};

fn source(label: &str, text: &str) -> Source {
    Source {
        label: label.to_owned(),
        config: Config::read(text.as_bytes(), label).unwrap(),
    }
}

fn sources(global: &str, project: &str) -> Sources {
    Sources {
        global: Some(source("global", global)),
        project: Some(source("project", project)),
        ..Sources::default()
    }
}

fn agent(text: &str, trouble: Option<&str>) -> AgentSource {
    AgentSource {
        agent: "scout".to_owned(),
        owner: AgentOwner::User,
        label: "scout.md".to_owned(),
        front: Some(FrontMatter::read(text.as_bytes(), "scout.md").unwrap()),
        trouble: trouble.map(str::to_owned),
    }
}

fn verdicts(policy: &Policy, agent: &str) -> Vec<String> {
    let rules = policy.rules_for(agent).rules();
    rules
        .map(|rule| {
            format!(
                "{} {} {} {}",
                rule.surface,
                rule.pattern.as_str(),
                rule.verdict.name(),
                rule.origin.name()
            )
        })
        .collect()
}

#[test]
fn a_project_comes_over_the_user_key_by_key_and_says_where() {
    let layered = sources(
        "{\"forwardingTimeoutMs\": 1,\n \"promptMaxRows\": 2}",
        "{\"forwardingTimeoutMs\": 3}",
    )
    .layered();
    assert_eq!(layered.config.forwarding_timeout.as_millis(), 3);
    assert_eq!(layered.config.prompt_max_rows, 2);
    let of = |key: &str| -> Vec<String> {
        let stated = layered.origins.get(key).into_iter().flatten();
        stated
            .map(|stated| format!("{}:{}", stated.label, stated.position))
            .collect()
    };
    assert_eq!(of("forwardingTimeoutMs"), ["project:1:2"]);
    assert_eq!(of("promptMaxRows"), ["global:2:2"]);
    assert!(of("inbox").is_empty());
    assert_eq!(layered.withheld, []);
}

#[test]
fn programs_and_shell_tools_are_added_name_by_name() {
    let layered = sources(
        r#"{"annotators": {"a": {"command": ["/a"]}, "b": {"command": ["/b"]}},
            "shellTools": {"sh": {"commandArgument": "c"}}}"#,
        r#"{"annotators": {"b": {"command": ["/other"]}}, "annotatorChain": ["a", "b"],
            "shellTools": {"zsh": {"commandArgument": "c"}}}"#,
    )
    .layered();
    let command = |name: &str| layered.config.annotators[name].command.clone();
    assert_eq!(
        (command("a"), command("b")),
        (vec!["/a".to_owned()], vec!["/other".to_owned()])
    );
    assert_eq!(layered.config.shell_tools.len(), 2);
    assert_eq!(layered.origins["annotators"].len(), 2);
    // The project names a program that the user has: that is no mistake.
    assert_eq!(layered.config.notices, []);
}

#[test]
fn nothing_of_a_project_loosens_what_belongs_to_the_machine_or_the_person() {
    let loose = r#"{
        "debugLog": true, "permissionReviewLog": false, "yoloMode": true, "doublePressToConfirm": false,
        "permissionDialogKeys": {"approve": "n", "deny": "y"}, "reviewLogFieldMaxWidth": 1, "authorizerTrust": {"x": ["path"]},
        "authorizers": {"x": {"command": ["/x"]}}, "session": "other", "peerGeneration": "g1", "requireSeal": false,
        "requireAudit": false, "reviewLogRotation": {"maxBytes": 4096}, "inbox": {"maxPending": 1},
        "limits": {"perRequesterPending": 100000, "perSessionPending": 7}, "persistGrants": true
    }"#;
    let strict =
        r#"{"requireSeal": true, "requireAudit": true, "limits": {"perSessionPending": 9}}"#;
    let sources = sources(strict, loose);
    let layered = sources.layered();
    let mut wanted = sources.global.unwrap().config;
    wanted.limits.per_session_pending = 7;
    wanted.notices.clone_from(&layered.config.notices);
    assert_eq!(layered.config, wanted);
    let withheld: Vec<&str> = layered
        .withheld
        .iter()
        .map(|withheld| withheld.key)
        .collect();
    assert_eq!(withheld.len(), 16, "{withheld:?}");
}

#[test]
fn a_project_may_be_stricter_than_the_user() {
    let layered = sources(
        r#"{"yoloMode": true, "permissionReviewLog": false, "doublePressToConfirm": false}"#,
        r#"{"yoloMode": false, "permissionReviewLog": true, "doublePressToConfirm": true, "requireSeal": true,
            "requireAudit": true, "limits": {"perRequesterPerMinute": 1}}"#,
    )
    .layered();
    let config = &layered.config;
    assert_eq!(layered.withheld, []);
    assert_eq!(config.yolo_mode, Switch::Off);
    assert_eq!(config.permission_review_log, Switch::On);
    assert_eq!(config.double_press_to_confirm, Switch::On);
    assert_eq!(
        (config.require_seal, config.require_audit),
        (Switch::On, Switch::On)
    );
    assert_eq!(config.limits.per_requester_per_minute, 1);
}

#[test]
fn programs_of_a_project_that_has_changed_do_not_run() {
    let mut sources = sources(
        r#"{"annotators": {"b": {"command": ["/b"]}}}"#,
        r#"{"annotators": {"b": {"command": ["/other"]}}, "evidenceFormatters": {"edit": {"command": ["/e"]}}}"#,
    );
    sources.without_programs_of_project = true;
    let layered = sources.layered();
    assert_eq!(layered.config.annotators["b"].command, ["/b"]);
    assert!(layered.config.evidence_formatters.is_empty());
    assert_eq!(layered.withheld.len(), 2);
}

#[test]
fn rules_keep_their_origins_and_a_broken_configuration_allows_nothing() {
    let mut sources = sources(
        r#"{"permission": {"bash": {"ls": "allow", "rm": "deny"}}}"#,
        r#"{"permission": {"bash": {"make": "allow"}}}"#,
    );
    let config = sources.layered().config;
    assert_eq!(
        verdicts(&sources.policy(&config, None), "scout"),
        [
            "bash ls allow global",
            "bash rm deny global",
            "bash make allow project"
        ]
    );
    sources.is_broken = true;
    let policy = sources.policy(&config, None);
    assert!(policy.is_clamped());
    assert_eq!(
        verdicts(&policy, "scout"),
        [
            "bash ls ask fail-closed",
            "bash rm deny global",
            "bash make ask fail-closed"
        ]
    );
}

#[test]
fn an_agent_whose_file_breaks_keeps_its_denies_and_no_allow() {
    let text =
        "---\npermission:\n  bash:\n    \"cargo *\": allow\n    \"cargo publish\": deny\n---\n";
    let mut sources = sources(r#"{"permission": {"read": "allow"}}"#, "{}");
    sources.agents.push(agent(text, Some("it is torn")));
    let policy = sources.policy(&Config::default(), None);
    assert!(policy.rules_for("scout").is_clamped() && !policy.is_clamped());
    assert_eq!(
        verdicts(&policy, "scout"),
        [
            "read * ask fail-closed",
            "bash cargo * ask fail-closed",
            "bash cargo publish deny agent"
        ]
    );
    assert_eq!(
        policy.rules_for("builder").rules().next().unwrap().verdict,
        Verdict::Allow
    );
}

#[test]
fn keys_that_a_running_session_does_not_heed_are_named_when_they_change() {
    let before = sources("{}", "{}").layered();
    let after = sources(
        r#"{"session": "x", "yoloMode": true, "requireSeal": true, "evidenceFormatters": {"e": {"command": ["/e"]}}}"#,
        "{}",
    )
    .layered();
    assert_eq!(
        after.counts_from_next_start(&before),
        ["session", "requireSeal"]
    );
    assert!(before.counts_from_next_start(&before).is_empty());
}
