//! A configuration with a hundred thousand rules is read whole, and judges as a short one does. What needs that many belongs here.
use std::fmt::Write as _;

use askrelay::policy::{
    AgentLayer, AgentOwner, Config, Judgement, LayerRules, Layers, MAX_CONFIG_BYTES, MatchedRule,
    PermissionMap, Policy, Question, SessionRules, TextFidelity, Verdict,
};
use askrelay::wire::{DecisionSource, ForwardedAccessIntent, Principal};

const MANY: usize = 100_000;

/// Commands and paths in equal parts, as a team would have them that writes down whatever it allows.
fn text() -> String {
    let mut text =
        r#"{"permission": {"bash": {"*": "ask", "rm *": {"action": "deny", "reason": "by hand"}"#
            .to_owned();
    for n in 0..MANY / 4 {
        write!(
            text,
            ",\n\"git -C /srv/r{n} *\": \"allow\", \"* --project=p{n}\": \"allow\""
        )
        .unwrap();
    }
    text.push_str(r#"}, "path": {"*": "ask""#);
    for n in 0..MANY / 4 {
        write!(
            text,
            ",\n\"/srv/r{n}/*\": \"allow\", \"*/r{n}/.env\": \"deny\""
        )
        .unwrap();
    }
    text.push_str("}}}");
    text
}

fn policy(map: &PermissionMap, scout: &PermissionMap) -> Policy {
    Policy::from_layers(&Layers {
        global: LayerRules::Rules(map),
        agents: vec![AgentLayer {
            agent: "scout",
            owner: AgentOwner::User,
            rules: LayerRules::Rules(scout),
        }],
        ..Layers::default()
    })
}

fn judge(policy: &Policy, agent: &str, surface: &str, values: &[&str]) -> Judgement {
    let intent = ForwardedAccessIntent {
        surface: surface.to_owned(),
        match_values: values.iter().map(|&value| value.to_owned()).collect(),
        boundary_value: None,
        requester_cwd: String::new(),
        principal: Principal {
            session_id: "c".to_owned(),
            agent_name: agent.to_owned(),
        },
        floor: None,
        asking_units: None,
    };
    let question = Question {
        intent: Some(&intent),
        text: TextFidelity::Exact,
        payload: None,
    };
    policy.judge(&question, &SessionRules::default())
}

fn matched(judgement: &Judgement) -> Vec<&str> {
    judgement.matched.iter().map(MatchedRule::pattern).collect()
}

#[test]
fn a_hundred_thousand_rules_are_read_and_each_is_found() {
    let text = text();
    assert!(text.len() < MAX_CONFIG_BYTES);
    let config = Config::read(text.as_bytes(), "many.json").unwrap();
    let scout = Config::read(
        br#"{"permission": {"bash": {"* --project=p7": "deny", "make": "allow"}}}"#,
        "scout",
    )
    .unwrap();
    let policy = policy(&config.permission, &scout.permission);
    assert_eq!(
        policy.rules_for("").rules().count(),
        2 + 1 + MANY + MANY / 2 + 1
    );

    let found = judge(
        &policy,
        "",
        "bash",
        &["git -C /srv/r24999 push --project=p24998"],
    );
    assert_eq!(found.verdict, Verdict::Allow);
    // In the order of the file, not in that of the index.
    assert_eq!(
        matched(&found),
        ["*", "* --project=p24998", "git -C /srv/r24999 *"]
    );
    assert_eq!(
        matched(&judge(&policy, "", "bash", &["git -C /srv/r24999"])),
        ["*", "git -C /srv/r24999 *"]
    );

    let found = judge(&policy, "", "path_read", &["r7/.env", "/srv/r7/.env"]);
    assert_eq!(found.verdict, Verdict::Deny);
    assert_eq!(matched(&found), ["*", "/srv/r7/*", "*/r7/.env"]);
    assert_eq!(
        judge(&policy, "", "path_write", &["/srv/r25000/a"]).verdict,
        Verdict::Ask
    );

    let found = judge(&policy, "", "bash", &["ls && rm x"]);
    assert_eq!(
        (found.verdict, found.reason.as_deref()),
        (Verdict::Deny, Some("by hand"))
    );

    // An agent with a word of its own has the others too, in their places.
    let found = judge(
        &policy,
        "scout",
        "bash",
        &["git -C /srv/r9 log --project=p7"],
    );
    assert_eq!(matched(&found), ["*", "* --project=p7", "git -C /srv/r9 *"]);
    assert_eq!(
        judge(&policy, "scout", "bash", &["run --project=p7"]).verdict,
        Verdict::Deny
    );
    assert_eq!(
        judge(&policy, "scout", "bash", &["make"]).verdict,
        Verdict::Allow
    );

    let clamped = policy.clamped();
    let found = judge(&clamped, "", "bash", &["git -C /srv/r1 log"]);
    assert_eq!(found.verdict, Verdict::Ask);
    assert_eq!(
        judge(&clamped, "", "path_read", &["/srv/r7/.env"]).verdict,
        Verdict::Deny
    );
}

#[test]
fn every_one_of_many_rules_knows_its_place() {
    let text = text();
    let config = Config::read(text.as_bytes(), "many.json").unwrap();
    let policy = policy(&config.permission, &PermissionMap::default());
    let found = judge(&policy, "", "bash", &["git -C /srv/r24999 push"]);
    let place = match &found.matched[1].matched {
        askrelay::policy::Matched::Rule(rule) => rule.place.clone().unwrap().to_string(),
        askrelay::policy::Matched::Grant(_) => String::new(),
    };
    assert_eq!(place, "many.json:25001:1");
    assert!(matches!(found.decided_by, DecisionSource::Rule { .. }));
}

#[test]
fn many_patterns_that_can_allow_nothing_are_told_a_bounded_number_of_times() {
    let mut text = r#"{"permission": {"bash": {"*": "ask""#.to_owned();
    for n in 0..MANY / 10 {
        write!(text, ",\n\"a{n} && b\": \"allow\"").unwrap();
    }
    text.push_str("}}}");
    let config = Config::read(text.as_bytes(), "many.json").unwrap();
    assert_eq!(config.notices.len(), 21);
    assert_eq!(
        config.notices[20].to_string().split(": ").last().unwrap(),
        "and 980 more"
    );
}
