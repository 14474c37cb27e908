//! What agents that speak ACP really send, and which ask comes of it. A shape of an agent's messages belongs into
//! `fixtures/hosts/acp`; how processes behave around them belongs into `flow_acp`.

use askrelay::host::acp::{Ask, Effect, Manners, Proxy, Ruling, Side};
use serde_json::{Value, json};

use crate::support::fixtures;

fn proxy_after(fixture: &Value) -> (Proxy, Ask) {
    let mut proxy = Proxy::new(Manners::default());
    for entry in fixture["lines"].as_array().unwrap() {
        let from = match entry["from"].as_str().unwrap() {
            "client" => Side::Client,
            "agent" => Side::Agent,
            other => panic!("from {other}"),
        };
        let step = proxy.line(from, entry["line"].to_string().as_bytes());
        assert!(step.passes && step.effects.is_empty(), "{entry}");
    }
    let step = proxy.line(Side::Agent, fixture["request"].to_string().as_bytes());
    assert!(!step.passes);
    let ask = step.effects.into_iter().find_map(|effect| {
        let Effect::Ask(ask) = effect else {
            return None;
        };
        Some(*ask)
    });
    (proxy, ask.expect("an ask"))
}

/// The option of the one answer among these effects, or the outcome where none was selected.
fn picked(effects: &[Effect]) -> Value {
    let line = effects.iter().find_map(|effect| {
        let Effect::ToAgent(line) = effect else {
            return None;
        };
        Some(line)
    });
    let answer: Value = serde_json::from_slice(line.expect("an answer")).unwrap();
    let outcome = &answer["result"]["outcome"];
    outcome
        .get("optionId")
        .unwrap_or(&outcome["outcome"])
        .clone()
}

#[test]
fn what_agents_send_becomes_the_ask_that_it_is() {
    let files = fixtures::files_below("fixtures/hosts/acp");
    assert!(files.len() >= 9, "{files:?}");
    for file in files {
        let fixture: Value = serde_json::from_slice(&fixtures::bytes(&file)).unwrap();
        let (mut proxy, ask) = proxy_after(&fixture);
        let labels: Vec<&str> = ask
            .call
            .evidence
            .iter()
            .map(|entry| entry.label.as_str())
            .collect();
        let found = json!({
            "session": ask.session, "directory": ask.directory, "tool": ask.call.tool, "input": ask.call.input,
            "in": ask.call.directory, "evidence": labels,
        });
        assert_eq!(found, fixture["ask"], "{file}: {}", fixture["what"]);
        let approved = proxy.answered(ask.number, &Ruling::Approved { for_longer: true }, "");
        assert_eq!(picked(&approved), fixture["approved"], "{file}");
        let (mut proxy, ask) = proxy_after(&fixture);
        let denied = proxy.answered(ask.number, &Ruling::Denied, "no");
        assert_eq!(picked(&denied), fixture["denied"], "{file}");
    }
}
