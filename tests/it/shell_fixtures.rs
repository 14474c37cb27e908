//! The fixtures of the shell reader: command lines and the commands that they would run.

use std::fmt::Write as _;

use askrelay::shell::{self, Reading, Unit};
use proptest::prelude::*;
use serde_json::{Map, Value};

use crate::support::fixtures;

/// Every case of every file, with the file's name.
fn cases() -> Vec<(String, Value)> {
    let mut cases = Vec::new();
    for path in fixtures::files_below("fixtures/shell") {
        let document: Value = serde_json::from_str(&fixtures::text(&path)).expect(&path);
        let all = document["cases"].as_array().expect("cases");
        cases.extend(all.iter().map(|case| (path.clone(), case.clone())));
    }
    cases
}

fn line_of(case: &Value) -> &str {
    case["line"].as_str().expect("a line")
}

/// A unit as the fixtures write it: its text, and what else there is to say.
fn written(unit: &Unit<'_>) -> Value {
    let mut fields = Map::new();
    fields.insert("text".into(), unit.text.into());
    if unit.command != unit.text {
        fields.insert("command".into(), unit.command.as_ref().into());
    }
    if let Some(context) = unit.context {
        let name = serde_json::to_value(context).expect("a name");
        fields.insert("context".into(), name);
    }
    if !unit.through.is_empty() {
        fields.insert("through".into(), unit.through.join(" ").into());
    }
    if unit.remote {
        fields.insert("remote".into(), true.into());
    }
    if let Some(floor) = unit.floor {
        fields.insert("floor".into(), floor.sentinel().into());
    }
    if fields.len() == 1 {
        unit.text.into()
    } else {
        fields.into()
    }
}

fn case_of(line: &str, reading: &Reading<'_>) -> Value {
    let mut case = Map::new();
    case.insert("line".into(), line.into());
    case.insert("units".into(), reading.units.iter().map(written).collect());
    if let Some(floor) = reading.floor {
        case.insert("floor".into(), floor.sentinel().into());
    }
    case.into()
}

#[test]
fn every_line_has_its_units() {
    let cases = cases();
    let mut failures = String::new();
    for (path, case) in &cases {
        let line = line_of(case);
        let found = case_of(line, &shell::read(line));
        if found != *case {
            let _ = writeln!(failures, "{path}\n  wanted {case}\n  found  {found}");
        }
    }
    assert!(failures.is_empty(), "\n{failures}");
    assert!(cases.len() >= 600, "only {} cases", cases.len());
}

#[test]
fn no_line_stands_there_twice() {
    let mut lines: Vec<String> = cases()
        .iter()
        .map(|(_, case)| line_of(case).to_owned())
        .collect();
    let count = lines.len();
    lines.sort();
    lines.dedup();
    assert_eq!(lines.len(), count);
}

/// A line with a part taken out, doubled, or replaced by a part of another.
fn mutated() -> impl Strategy<Value = String> {
    let lines: Vec<String> = cases()
        .iter()
        .map(|(_, case)| line_of(case).to_owned())
        .filter(|line| line.len() < 500)
        .collect();
    let line = proptest::sample::select(lines);
    (line.clone(), line, any::<[prop::sample::Index; 3]>(), 0..3).prop_map(
        |(line, other, at, how)| {
            let line: Vec<char> = line.chars().collect();
            let other: Vec<char> = other.chars().collect();
            let mut ends = [at[0].index(line.len() + 1), at[1].index(line.len() + 1)];
            ends.sort_unstable();
            let [start, end] = ends;
            let (before, part, after) = (&line[..start], &line[start..end], &line[end..]);
            let middle = match how {
                0 => Vec::new(),
                1 => [part, part].concat(),
                _ => other[at[2].index(other.len() + 1)..].to_vec(),
            };
            [before, &middle, after].concat().into_iter().collect()
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn any_line_that_was_changed_can_be_read(line in mutated()) {
        let reading = shell::read(&line);
        for unit in &reading.units {
            prop_assert_eq!(line.get(unit.range.clone()), Some(unit.text));
        }
    }
}
