//! The peer's subagent asks, our server answers.

use serde_json::{Value, json};

use crate::support::{Choice, TempSpool, until};

/// Rules that would allow or deny all that is asked here, if a rule were allowed to speak.
fn rules(state: &str) -> Value {
    json!({ "permission": { "*": state, "bash": { "*": state } } })
}

/// One ask of the peer's child to our `select` server under these rules: what the child made of the person's answer.
fn asked_under(
    rules: &Value,
    choices: &[Choice],
    then_say: Option<&str>,
    child_args: &[&str],
) -> Vec<Value> {
    let spool = TempSpool::new();
    let mut server = spool.serve("P", "select", rules, &[]);
    let mut child = spool.their_child("P", "C", child_args);
    for choice in choices {
        server.choose(*choice);
    }
    if let Some(text) = then_say {
        server.say(text);
    }
    let decisions = child.all_json();
    assert!(child.wait().success());
    assert_eq!(spool.waiting("P"), Vec::<String>::new());
    decisions
}

/// Its request has no `accessIntent`, so an allow would rest on the text for display alone. A rule must not say yes to that.
#[test]
fn an_allow_rule_does_not_answer_a_request_without_access_facts() {
    let decisions = asked_under(
        &rules("allow"),
        &[Choice::Deny],
        None,
        &["--command", "ls -l"],
    );
    assert_eq!(decisions[0]["state"], "denied");
    assert_eq!(decisions[0]["allowed"], false);
}

/// Nor no: the text says what a rule for the true facts might not. The person decides.
#[test]
fn a_deny_rule_does_not_answer_a_request_without_access_facts() {
    let decisions = asked_under(
        &rules("deny"),
        &[Choice::Approve],
        None,
        &["--command", "ls -l"],
    );
    assert_eq!(decisions[0]["state"], "approved");
}

/// With nobody to ask, the same request is denied, whatever the rules allow.
#[test]
fn with_nobody_to_ask_a_request_without_access_facts_is_denied() {
    let spool = TempSpool::new();
    let _server = spool.serve("P", "headless", &rules("allow"), &[]);
    let mut child = spool.their_child("P", "C", &["--command", "ls -l"]);
    let decision = child.json();
    assert_eq!(
        (&decision["approved"], &decision["allowed"]),
        (&json!(false), &json!(false))
    );
}

#[test]
fn a_person_approves() {
    let decisions = asked_under(
        &rules("ask"),
        &[Choice::Approve],
        None,
        &["--command", "ls -l"],
    );
    assert_eq!(decisions[0]["state"], "approved");
    assert_eq!(decisions[0]["allowed"], true);
}

#[test]
fn a_person_denies() {
    let decisions = asked_under(
        &rules("ask"),
        &[Choice::Deny],
        None,
        &["--command", "rm -rf /"],
    );
    assert_eq!(decisions[0]["state"], "denied");
    assert_eq!(decisions[0]["allowed"], false);
}

#[test]
fn a_reason_reaches_the_child() {
    let choices = [Choice::DenyWithReason];
    let decisions = asked_under(
        &rules("ask"),
        &choices,
        Some("not before the tests pass"),
        &["--command", "make deploy"],
    );
    assert_eq!(decisions[0]["state"], "denied_with_reason");
    assert_eq!(decisions[0]["denialReason"], "not before the tests pass");
}

/// Granted to the subagent: the peer's child records its own suggestion and does not ask again.
#[test]
fn a_session_grant_is_recorded_by_the_child() {
    let choices = [Choice::Session, Choice::ThisSubagent];
    let child = ["--command", "ls -l", "--pattern", "ls *", "--rounds", "2"];
    let decisions = asked_under(&rules("ask"), &choices, None, &child);
    assert_eq!(decisions[0]["state"], "approved_for_session");
    assert_eq!(
        (&decisions[1]["forwarded"], &decisions[1]["allowed"]),
        (&json!(false), &json!(true))
    );
}

/// Granted to the whole session: the child learns of one approval and forwards its next ask. As that one has no facts
/// either, the recorded grant may not answer it, and the person sees it.
#[test]
fn a_grant_for_the_whole_session_is_one_approval_to_the_child() {
    let choices = [Choice::Session, Choice::WholeSession, Choice::Approve];
    let child = ["--command", "ls -l", "--pattern", "ls *", "--rounds", "2"];
    let decisions = asked_under(&rules("ask"), &choices, None, &child);
    assert_eq!(decisions[0]["state"], "approved");
    assert_eq!(
        (&decisions[1]["forwarded"], &decisions[1]["state"]),
        (&json!(true), &json!("approved"))
    );
}

/// Without a suggestion there is nothing that a session could remember, so it is not on offer.
#[test]
fn without_a_suggestion_no_session_grant_is_offered() {
    let spool = TempSpool::new();
    let mut server = spool.serve("P", "select", &rules("ask"), &[]);
    let mut child = spool.their_child("P", "C", &["--command", "ls -l"]);
    let offered = server.choose(Choice::Approve);
    assert!(
        offered.iter().all(|label| !Choice::Session.fits(label)),
        "{offered:?}"
    );
    assert_eq!(child.json()["state"], "approved");
}

/// The sentence that its child wrote is all that it tells about the ask, so the person gets to see it.
#[test]
fn the_sentence_of_an_old_child_is_shown() {
    let spool = TempSpool::new();
    let mut server = spool.serve("P", "select", &rules("ask"), &[]);
    let _child = spool.their_child("P", "C", &["--command", "make deploy", "--agent", "scout"]);
    server.line("the child's own sentence is shown", |line| {
        line.contains("scout asks to use bash: make deploy")
    });
}

/// Several children at once, one person: everyone gets the answer to their own question.
#[test]
fn several_children_are_answered_each() {
    let spool = TempSpool::new();
    let mut server = spool.serve("P", "select", &rules("ask"), &[]);
    let mut children: Vec<_> = (0..3)
        .map(|n| spool.their_child("P", &format!("C{n}"), &["--rounds", "2"]))
        .collect();
    for _ in 0..6 {
        server.choose(Choice::Approve);
    }
    for child in &mut children {
        let decisions = child.all_json();
        assert_eq!(decisions.len(), 2);
        assert!(
            decisions
                .iter()
                .all(|decision| decision["state"] == "approved"),
            "{decisions:?}"
        );
    }
    until("every request is gone", || spool.waiting("P").is_empty());
}

/// A link of our chain decides an ask of the peer's child, by the surface that it displays.
#[test]
fn a_link_of_the_chain_answers() {
    let script = r#"case $(cat) in *rm*) v='"deny","reason":"not here"';; *) v='"allow"';; esac
        printf '%s\n' "{\"verdict\":$v}""#;
    let chain = json!({
        "authorizerChain": ["judge"],
        "authorizers": {"judge": {"command": ["/bin/sh", "-c", script]}},
    });
    let spool = TempSpool::new();
    let _server = spool.serve("P", "headless", &chain, &[]);
    for (command, allowed) in [("ls -l", true), ("rm -rf /", false)] {
        let mut child = spool.their_child("P", "C", &["--command", command]);
        let decision = child.json();
        assert_eq!(decision["allowed"], allowed, "{decision}");
        if !allowed {
            assert_eq!(decision["state"], "denied_with_reason");
            assert_eq!(decision["denialReason"], "not here");
        }
        assert!(child.wait().success());
    }
}
