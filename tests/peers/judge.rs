//! Our judge held against the peer's own: the same rules, the same asks, the same verdicts, and the same pattern behind them.
//!
//! Rules and asks are made at random, always the same ones; `PROPTEST_RNG_SEED` makes others. What the two define differently on
//! purpose (docs/configuration.md, "Where askrelay and the peer differ") is left out by how the asks are made:
//!
//! | left out | because |
//! |---|---|
//! | directions of families (`path_read` and the like) | the published peer does not know them; there they are surfaces like any other |
//! | wildcard surfaces that begin with a `*` and end as `path` does | they would cover the bare family there, and its directions are other names here |
//! | grants | a grant beats a deny there |
//! | a key that stands twice, comments, front matter that cannot be read | the peer drops something, here it is an error |
//! | patterns with a colon in front matter | the peer cuts a line at its first colon, in quotes as well, and loses the rule |
//! | commands of more than one unit, wrappers, substitutions, redirections | there they are text, here each command is judged |
//! | quotes, doubled blanks, directories of programs in commands | here a rule for the plain spelling counts too, where it is stricter |
//! | commands that begin with a comment | the peer cuts it off, here the line is taken apart |
//! | a broken layer | here it takes the switch out of force |
//! | `piInfrastructureReadPaths` | a gate of its own there, before the rules |
//! | asks without a value | judged as `*` there |
//! | several values on a surface that is no path | the first that any rule covers there, the first one here |
//! | characters beyond U+FFFF | `?` is half of one there |
//! | surfaces and patterns that are whole numbers | they stand before all others there |
//! | examples on rules | the peer does not know them |

use std::path::Path;

use askrelay::policy::{
    AgentLayer, AgentOwner, Config, FrontMatter, LayerRules, Layers, Origin, Policy, Question,
    SessionRules, TextFidelity,
};
use askrelay::shell;
use askrelay::wire::{ForwardedAccessIntent, Principal};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::{RngSeed, TestRunner};
use serde_json::{Map, Value, json};

use crate::support::TempSpool;

/// Sets of rules, with so many asks each.
const SETS: usize = 200;
const ASKS: usize = 6;

const SURFACES: [&str; 14] = [
    "bash",
    "bash",
    "bash",
    "path",
    "path",
    "read",
    "edit",
    "external_directory",
    "mcp",
    "mcp",
    "skill",
    "web_fetch",
    "web_*",
    "*_fetch",
];

const PATTERNS: [&str; 34] = [
    "*",
    "*",
    "git *",
    "git",
    "git log*",
    "git push *",
    "git *push*",
    "g?t *",
    "?it log",
    "rm *",
    "rm",
    "* -f",
    "*x*",
    "make",
    "make *",
    "~/w/*",
    "$HOME/w/a.env",
    "~",
    "*.env",
    "/srv/*",
    "/srv/?",
    "/srv/a/*",
    "*/a/*",
    "src/*",
    "exa:*",
    "exa:search",
    "mcp_*",
    "mcp_status",
    "mcp",
    "docs.r*",
    "[a]+(b|c)^$",
    "a.b",
    "\u{e4}*",
    "**",
];

const COMMANDS: [&str; 14] = [
    "git",
    "git log",
    "git log -3",
    "git push",
    "git push -f",
    "got x",
    "rm",
    "rm -f x",
    "make",
    "make x",
    "make -f x",
    "mkdir a",
    "true",
    "xx",
];

const PATHS: [&str; 12] = [
    "@/w/a",
    "@/w/a.env",
    "@",
    "/srv/a",
    "/srv/a/b",
    "/srv/.env",
    "src/a",
    "src/a/b.env",
    "a.b",
    "\u{e4}b",
    "/",
    "x",
];

const OTHERS: [&str; 12] = [
    "exa:search",
    "exa:x",
    "mcp_status",
    "mcp_describe",
    "mcp_call",
    "mcp",
    "docs.rs",
    "docs",
    "[a]+(b|c)^$",
    "a.b",
    "axb",
    "\u{e4}",
];

fn verdict() -> impl Strategy<Value = Value> {
    select(&["allow", "ask", "deny"][..]).prop_map(Value::from)
}

/// What stands behind a pattern.
fn said() -> impl Strategy<Value = Value> {
    let reason = option::of(select(&["by hand", "no: never"][..]));
    prop_oneof![
        5 => verdict(),
        1 => reason.prop_map(|reason| match reason {
            Some(reason) => json!({"action": "deny", "reason": reason}),
            None => json!({"action": "deny"}),
        }),
    ]
}

/// An object in the order in which it is made, no key twice.
fn object(members: Vec<(String, Value)>) -> Value {
    let mut object = Map::new();
    for (key, value) in members {
        object.entry(key).or_insert(value);
    }
    Value::Object(object)
}

fn permission() -> impl Strategy<Value = Value> {
    let pattern = select(&PATTERNS[..]).prop_map(str::to_owned);
    let patterns = vec((pattern, said()), 1..9).prop_map(object);
    let rules = prop_oneof![1 => verdict(), 4 => patterns];
    let surface = select(&SURFACES[..]).prop_map(str::to_owned);
    (option::of(verdict()), vec((surface, rules), 0..6)).prop_map(|(star, surfaces)| {
        let star = star.map(|verdict| ("*".to_owned(), verdict));
        object(star.into_iter().chain(surfaces).collect())
    })
}

/// The same rules as front matter.
fn front_matter(permission: &Value) -> String {
    let mut lines = vec![
        "---".to_owned(),
        "name: scout".to_owned(),
        "permission:".to_owned(),
    ];
    for (surface, rules) in permission.as_object().unwrap() {
        let Value::Object(patterns) = rules else {
            lines.push(format!("  \"{surface}\": {}", rules.as_str().unwrap()));
            continue;
        };
        lines.push(format!("  \"{surface}\":"));
        for (pattern, said) in patterns {
            if let Some(verdict) = said.as_str() {
                lines.push(format!("    \"{pattern}\": {verdict}"));
                continue;
            }
            lines.push(format!("    \"{pattern}\":"));
            lines.push("      action: deny".to_owned());
            let reason = said["reason"].as_str();
            lines.extend(reason.map(|reason| format!("      reason: \"{reason}\"")));
        }
    }
    lines.join("\n") + "\n---\n# An agent\n"
}

/// The rules that front matter can hold on both sides.
fn without_colons(mut permission: Value) -> Value {
    let surfaces = permission.as_object_mut().unwrap();
    for rules in surfaces.values_mut() {
        if let Value::Object(patterns) = rules {
            patterns.retain(|pattern, _| !pattern.contains(':'));
        }
    }
    surfaces.retain(|_, rules| {
        rules
            .as_object()
            .is_none_or(|patterns| !patterns.is_empty())
    });
    permission
}

#[derive(Debug, Clone)]
struct Ask {
    surface: String,
    values: Vec<String>,
    agent: &'static str,
}

fn ask() -> impl Strategy<Value = Ask> {
    let owned = |value: &str| vec![value.to_owned()];
    let asked = prop_oneof![
        5 => select(&COMMANDS[..]).prop_map(move |command| ("bash", owned(command))),
        4 => (
            select(&["path", "read", "edit", "external_directory", "ls"][..]),
            vec(select(&PATHS[..]).prop_map(str::to_owned), 1..4),
        ),
        4 => (
            select(&["mcp", "skill", "web_fetch", "web_search", "other"][..]),
            select(&OTHERS[..]).prop_map(owned),
        ),
    ];
    (asked, select(&["scout", "other"][..])).prop_map(|((surface, values), agent)| Ask {
        surface: surface.to_owned(),
        values,
        agent,
    })
}

#[derive(Debug, Clone)]
struct Case {
    global: Value,
    project: Option<Value>,
    scout: Option<Value>,
    yolo: bool,
    asks: Vec<Ask>,
}

fn case() -> impl Strategy<Value = Case> {
    (
        permission(),
        option::weighted(0.3, permission()),
        option::weighted(0.6, permission()),
        proptest::bool::weighted(0.2),
        vec(ask(), ASKS),
    )
        .prop_map(|(global, project, scout, yolo, asks)| Case {
            // Front matter that says nothing is no front matter.
            scout: scout
                .map(without_colons)
                .filter(|scout| scout.as_object().is_some_and(|map| !map.is_empty())),
            global,
            project,
            yolo,
            asks,
        })
}

fn put(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

/// What the peer says.
fn theirs(
    spool: &TempSpool,
    peer: &mut crate::support::Process,
    n: usize,
    case: &Case,
) -> Vec<Value> {
    let dir = spool.home().join(format!("case-{n}"));
    let extension = "extensions/pi-permission-system/config.json";
    put(
        &dir.join("agent").join(extension),
        &json!({ "permission": case.global }).to_string(),
    );
    if let Some(project) = &case.project {
        put(
            &dir.join("project/.pi").join(extension),
            &json!({ "permission": project }).to_string(),
        );
    }
    if let Some(scout) = &case.scout {
        put(&dir.join("agent/agents/scout.md"), &front_matter(scout));
    }
    let asks: Vec<Value> = case
        .asks
        .iter()
        .map(|ask| json!({ "surface": ask.surface, "values": ask.values, "agentName": ask.agent }))
        .collect();
    let line = json!({
        "agentDir": dir.join("agent"),
        "project": case.project.as_ref().map(|_| dir.join("project")),
        "yolo": case.yolo,
        "asks": asks,
    });
    peer.say(&line.to_string());
    let answer = peer.json();
    assert_eq!(answer["issues"], json!([]), "{case:#?}");
    answer["said"].as_array().unwrap().clone()
}

/// What we say, in the words of the peer.
fn ours(policy: &Policy, ask: &Ask) -> Value {
    let intent = ForwardedAccessIntent {
        surface: ask.surface.clone(),
        match_values: ask.values.clone(),
        boundary_value: None,
        requester_cwd: String::new(),
        principal: Principal {
            session_id: "c".to_owned(),
            agent_name: ask.agent.to_owned(),
        },
        floor: None,
        asking_units: None,
    };
    let question = Question {
        intent: Some(&intent),
        text: TextFidelity::Exact,
        payload: None,
    };
    let explained = policy.explain(&question, &SessionRules::default());
    // What comes along with another rule has no pattern that anybody wrote.
    let rule = explained
        .rule
        .as_ref()
        .filter(|rule| rule.origin != Origin::Baseline);
    json!({
        "state": explained.judgement.verdict.name(),
        "matchedPattern": rule.map(|rule| rule.pattern.as_str()),
        "reason": explained.judgement.reason,
    })
}

fn compiled(case: &Case, home: &str) -> Policy {
    let read = |permission: &Value| {
        let text = json!({ "permission": permission }).to_string();
        Config::read(text.as_bytes(), "config").unwrap().permission
    };
    let (global, project) = (read(&case.global), case.project.as_ref().map(read));
    let scout = case.scout.as_ref().map(|scout| {
        FrontMatter::read(front_matter(scout).as_bytes(), "scout.md")
            .unwrap()
            .permission
            .unwrap()
    });
    Policy::from_layers(&Layers {
        global: LayerRules::Rules(&global),
        project: project
            .as_ref()
            .map_or(LayerRules::Absent, LayerRules::Rules),
        agents: scout
            .iter()
            .map(|rules| AgentLayer {
                agent: "scout",
                owner: AgentOwner::User,
                rules: LayerRules::Rules(rules),
            })
            .collect(),
        yolo: Config::read(json!({ "yoloMode": case.yolo }).to_string().as_bytes(), "")
            .unwrap()
            .yolo_mode,
        home: Some(home),
        ..Layers::default()
    })
}

#[expect(
    clippy::print_stdout,
    reason = "whoever finds a difference wants to find it again"
)]
fn tell(text: &str) {
    println!("{text}");
}

/// The same cases with every run; `PROPTEST_RNG_SEED` makes others.
fn runner() -> TestRunner {
    let config = ProptestConfig::default();
    let rng_seed = match config.rng_seed {
        RngSeed::Random => RngSeed::Fixed(1),
        fixed @ RngSeed::Fixed(_) => fixed,
    };
    tell(&format!("seed: {rng_seed:?}"));
    TestRunner::new(ProptestConfig { rng_seed, ..config })
}

#[test]
fn the_same_rules_and_asks_come_to_the_same_verdicts() {
    let spool = TempSpool::new();
    let home = spool.home().to_str().unwrap().to_owned();
    let mut peer = spool.their_judge();
    let mut runner = runner();
    let (mut pairs, mut same_pattern, mut different) = (0, 0, Vec::new());
    let mut verdicts = [0; 3];
    for n in 0..SETS {
        let mut case = case().new_tree(&mut runner).unwrap().current();
        for value in case.asks.iter_mut().flat_map(|ask| &mut ask.values) {
            *value = value.replace('@', &home);
        }
        for ask in case.asks.iter().filter(|ask| ask.surface == "bash") {
            assert!(
                shell::read(&ask.values[0]).is_one_plain_command(&ask.values[0]),
                "{ask:?}"
            );
        }
        let policy = compiled(&case, &home);
        for (ask, theirs) in case.asks.iter().zip(theirs(&spool, &mut peer, n, &case)) {
            pairs += 1;
            let ours = ours(&policy, ask);
            let both = !ours["matchedPattern"].is_null() && !theirs["matchedPattern"].is_null();
            same_pattern += usize::from(both);
            verdicts[["allow", "ask", "deny"]
                .iter()
                .position(|name| ours["state"] == *name)
                .unwrap()] += 1;
            // Where nothing matches, neither names a pattern.
            let agree = ours["state"] == theirs["state"]
                && ours["matchedPattern"] == theirs["matchedPattern"]
                && (ours["state"] != "deny" || ours["reason"] == theirs["reason"]);
            if !agree {
                different.push(format!(
                    "{ask:?}\nours   {ours}\ntheirs {theirs}\n{case:#?}"
                ));
            }
        }
    }
    tell(&format!(
        "{pairs} pairs, {same_pattern} with a pattern on both sides, allow/ask/deny {verdicts:?}"
    ));
    assert!(
        different.is_empty(),
        "{} of {pairs}:\n{}",
        different.len(),
        different[0]
    );
    assert!(
        pairs >= 500 && same_pattern >= 200,
        "{pairs} {same_pattern}"
    );
    assert!(verdicts.iter().all(|count| *count >= 50), "{verdicts:?}");
}
