//! What rules cost: one ask judged among few and among many, many asks among some, and a file of many that is read.

use std::fmt::Write as _;
use std::hint::black_box;
use std::time::Instant;

use askrelay::policy::{
    Config, LayerRules, Layers, Policy, Question, SessionRules, TextFidelity, Verdict,
};
use askrelay::wire::{ForwardedAccessIntent, Principal};

use super::figures::{Goal, Line, Unit, median};
use super::{REPEATS, in_turn, place::Place};

/// How often one ask is judged in a measurement.
const TIMES: u32 = 2_000;

/// Commands and paths in equal parts, with prefixes, suffixes and pieces from the middle, as they are written by people.
fn config(rules: usize) -> String {
    let mut text = r#"{"permission": {"bash": {"*": "ask""#.to_owned();
    let each = (rules / 2).saturating_sub(1);
    for n in 0..each {
        match n % 3 {
            0 => write!(text, ",\n    \"git -C /srv/r{n} *\": \"allow\""),
            1 => write!(text, ",\n    \"* --project=p{n}\": \"allow\""),
            _ => write!(
                text,
                ",\n    \"docker run * registry.local/i{n} *\": \"ask\""
            ),
        }
        .unwrap();
    }
    text.push_str(r#"}, "path_read": {"*": "ask""#);
    for n in 0..each {
        match n % 2 {
            0 => write!(text, ",\n    \"/srv/r{n}/*\": \"allow\""),
            _ => write!(text, ",\n    \"*/r{n}/*.env\": \"deny\""),
        }
        .unwrap();
    }
    text.push_str("}}}");
    text
}

fn policy(rules: usize) -> Policy {
    let config = Config::read(config(rules).as_bytes(), "bench").unwrap();
    compile(&config)
}

fn compile(config: &Config) -> Policy {
    Policy::from_layers(&Layers {
        global: LayerRules::Rules(&config.permission),
        ..Layers::default()
    })
}

fn intent(surface: &str, value: &str) -> ForwardedAccessIntent {
    ForwardedAccessIntent {
        surface: surface.to_owned(),
        match_values: vec![value.to_owned()],
        boundary_value: None,
        requester_cwd: "/srv".to_owned(),
        principal: Principal {
            session_id: "c".to_owned(),
            agent_name: "bench".to_owned(),
        },
        floor: None,
        asking_units: None,
    }
}

fn verdict(policy: &Policy, intent: &ForwardedAccessIntent) -> Verdict {
    let question = Question {
        intent: Some(black_box(intent)),
        text: TextFidelity::Exact,
        payload: None,
    };
    policy.judge(&question, &SessionRules::default()).verdict
}

fn each(policy: &Policy, intent: &ForwardedAccessIntent) -> f64 {
    let started = Instant::now();
    for _ in 0..TIMES {
        black_box(verdict(policy, intent));
    }
    started.elapsed().as_secs_f64() / f64::from(TIMES)
}

/// The floor is the product itself with one rule on the surface.
pub(crate) fn judge(_place: &Place) {
    let one = policy(2);
    let some = policy(1_000);
    let many = policy(100_000);
    let command = intent("bash", "git -C /srv/r333 push --force origin main");
    let path = intent("path_read", "/srv/r332/src/main.rs");
    let rows: [(&'static str, &Policy, &ForwardedAccessIntent); 4] = [
        (
            "a command judged among 1,000 rules, against 1",
            &some,
            &command,
        ),
        ("the same among 100,000 rules", &many, &command),
        ("a path judged among 1,000 rules, against 1", &some, &path),
        ("the same among 100,000 rules", &many, &path),
    ];
    for (what, policy, intent) in rows {
        assert_eq!(verdict(policy, intent), Verdict::Allow);
        let (floor, product) = in_turn(|| each(&one, intent), || each(policy, intent));
        Line {
            what,
            unit: Unit::Seconds,
            floor,
            product,
            goal: Goal::AtMostTimes(10.0),
        }
        .print();
    }
}

/// The floor is the product itself with one rule on the surface.
pub(crate) fn asks(_place: &Place) {
    let one = policy(2);
    let some = policy(1_000);
    let asks: Vec<_> = (0..10_000)
        .map(|n| match n % 2 {
            0 => intent("bash", &format!("git -C /srv/r{} log", n % 1_000)),
            _ => intent("path_read", &format!("/srv/r{}/a", n % 1_000)),
        })
        .collect();
    let all = |policy: &Policy| {
        let started = Instant::now();
        for ask in &asks {
            black_box(verdict(policy, ask));
        }
        started.elapsed().as_secs_f64()
    };
    let (floor, product) = in_turn(|| all(&one), || all(&some));
    Line {
        what: "10,000 asks judged among 1,000 rules, against 1",
        unit: Unit::Seconds,
        floor,
        product,
        goal: Goal::AtMostTimes(3.0),
    }
    .print();
}

/// Seconds of a parse, of a reading, and of a reading with what follows it.
type Run = (f64, f64, f64);

/// The floor is one parse of the same bytes into a tree.
pub(crate) fn load(_place: &Place) {
    let text = config(100_000);
    let runs: Vec<Run> = (0..REPEATS)
        .map(|_| {
            let started = Instant::now();
            black_box(serde_json::from_str::<serde_json::Value>(&text).unwrap());
            let parsed = started.elapsed().as_secs_f64();
            let started = Instant::now();
            let config = Config::read(text.as_bytes(), "bench").unwrap();
            let read = started.elapsed().as_secs_f64();
            black_box(compile(&config));
            (parsed, read, started.elapsed().as_secs_f64())
        })
        .collect();
    let middle = |of: fn(&Run) -> f64| Some(median(runs.iter().map(of).collect()));
    let rows = [
        (
            "100,000 rules read, against one parse as JSON",
            middle(|run| run.1),
        ),
        ("the same, read, merged and compiled", middle(|run| run.2)),
    ];
    for (what, product) in rows {
        Line {
            what,
            unit: Unit::Seconds,
            floor: middle(|run| run.0),
            product,
            goal: Goal::AtMostTimes(10.0),
        }
        .print();
    }
}
