//! The fixtures of hosts: what each host hands to its hook, and what is read of it; and what each is told, word for word. The files
//! hold the shapes that were seen, with ids and paths made up.

use askrelay::host::ToolCall;
use askrelay::host::hook::{self, Asking, Gate, Host, Input, Over, Reach, Verdict};
use askrelay::policy::is_path_surface;
use serde_json::{Value, json};

use crate::support::fixtures;

const HOSTS: [Host; 5] = [
    Host::ClaudeCode,
    Host::Codex,
    Host::Gemini,
    Host::Opencode,
    Host::Pi,
];

fn gate(gate: Gate) -> &'static str {
    match gate {
        Gate::BeforeTool => "before_tool",
        Gate::Permission => "permission",
    }
}

fn asked(asking: &Asking) -> Value {
    let Asking {
        gate: waits,
        session,
        agent_name,
        call,
        reach,
        suggestions: _,
    } = asking;
    let asked = call.asked();
    let is_outside = |path: &str| path.starts_with('/') && !path.starts_with("/srv/shop");
    let guards = call.guards(&asked, is_outside);
    let guards: Vec<Value> = guards
        .iter()
        .map(|guard| json!([guard.surface, guard.value]))
        .collect();
    let grants: Vec<Value> = call
        .grants
        .iter()
        .map(|grant| json!([grant.surface, grant.pattern]))
        .collect();
    let mut read = json!({"ask": {
        "session": session,
        "gate": gate(*waits),
        "reach": match reach {
            Reach::All => "all",
            Reach::Rules => "rules",
            Reach::RulesWithin => "rules_within",
        },
        "agentName": agent_name,
        "agent": call.agent.as_ref().map(|agent| json!([agent.id, agent.kind])),
        "surface": asked.surface,
        "kind": asked.kind,
        "value": asked.value,
        "guards": guards,
        "grants": grants,
    }});
    if let Some(floor) = call.floor() {
        read["ask"]["floor"] = json!(floor);
    }
    if !call.evidence.is_empty() {
        let entries = call.evidence.iter();
        let entries = entries.map(|entry| json!([entry.label, entry.text]));
        read["ask"]["evidence"] = entries.collect();
    }
    read
}

fn read(host: Host, stdin: &Value) -> Value {
    match hook::read(host, stdin) {
        Err(unusable) => json!({"unusable": unusable.reason, "gate": unusable.gate.map(gate)}),
        Ok(Input::Nothing) => json!("nothing"),
        Ok(Input::Ended(ended)) => json!({"ended": match ended.what {
            Over::Call(_) => "call".to_owned(),
            Over::Turn(None) => "turn".to_owned(),
            Over::Turn(Some(agent)) => format!("turn {agent}"),
            Over::Session => "session".to_owned(),
        }}),
        Ok(Input::Ask(mut asking)) => {
            let is_there = |path: &str| path != "notes'.md";
            asking.call.open_as(host, Some("/home/u"), is_there);
            asked(&asking)
        }
    }
}

#[test]
fn what_a_host_hands_to_its_hook_is_read_as_its_fixture_says() {
    let mut failures = Vec::new();
    let mut seen = 0;
    for host in HOSTS {
        for path in fixtures::files_below(&format!("fixtures/hosts/{}", host.name())) {
            if path.ends_with("answers.json") {
                continue;
            }
            seen += 1;
            let fixture: Value = serde_json::from_slice(&fixtures::bytes(&path)).unwrap();
            let found = read(host, &fixture["stdin"]);
            let expected = &fixture["read"];
            let same = match expected["unusable"].as_str() {
                Some(names) => {
                    found["unusable"]
                        .as_str()
                        .is_some_and(|why| why.contains(names))
                        && found["gate"] == expected["gate"]
                }
                None => found == *expected,
            };
            if !same {
                failures.push(format!("{path}\t{found}"));
            }
        }
    }
    assert!(failures.is_empty(), "\n{}", failures.join("\n"));
    assert!(seen >= 70, "only {seen}");
}

#[test]
fn what_a_host_is_told_is_what_its_fixture_says_word_for_word() {
    for host in HOSTS {
        let path = format!("fixtures/hosts/{}/answers.json", host.name());
        let answers: Vec<Value> = serde_json::from_slice(&fixtures::bytes(&path)).unwrap();
        for answer in answers {
            let said = &answer["verdict"];
            let verdict = match (said["allow"].as_str(), said["deny"].as_str()) {
                (Some(because), _) => Verdict::Allow {
                    because: because.to_owned(),
                    remember: said["remember"].as_array().unwrap().clone(),
                },
                (None, Some(reason)) => Verdict::Deny {
                    reason: reason.to_owned(),
                    stops: said["stops"] == true,
                },
                (None, None) => Verdict::Leave,
            };
            let waits = if answer["gate"] == "permission" {
                Gate::Permission
            } else {
                Gate::BeforeTool
            };
            let prints = hook::answer(host, waits, &verdict).unwrap_or(Value::Null);
            assert_eq!(prints, answer["prints"], "{host:?} {answer}");
        }
    }
}

#[test]
fn whatever_is_done_to_an_input_it_is_asked_refused_or_none_of_ours() {
    // Each member taken away, or of another type: what is left is never let through unasked as something harmless.
    for host in HOSTS {
        for path in fixtures::files_below(&format!("fixtures/hosts/{}", host.name())) {
            let fixture: Value = serde_json::from_slice(&fixtures::bytes(&path)).unwrap();
            let (Some(stdin), true) = (
                fixture.get("stdin").and_then(Value::as_object),
                fixture["read"].get("ask").is_some(),
            ) else {
                continue;
            };
            for key in stdin.keys() {
                for put in [
                    None,
                    Some(json!(7)),
                    Some(json!({})),
                    Some(json!("")),
                    Some(json!(null)),
                ] {
                    let mut changed = stdin.clone();
                    match put {
                        None => drop(changed.remove(key)),
                        Some(put) => drop(changed.insert(key.clone(), put)),
                    }
                    let found = hook::read(host, &Value::Object(changed));
                    assert!(
                        matches!(found, Ok(Input::Ask(_)) | Err(_)),
                        "{path} without {key}: {found:?}"
                    );
                }
            }
        }
    }
}

#[test]
fn a_path_is_asked_on_a_surface_of_paths_or_by_the_name_of_its_tool() {
    for tool in ["Read", "Write", "Edit", "Glob", "Upload", "read_file"] {
        let call = ToolCall::new(tool, json!({"path": "a", "file_path": "a"}), "/w");
        let asked = call.asked();
        assert!(
            is_path_surface(&asked.surface) || asked.surface == tool,
            "{tool}"
        );
    }
}
