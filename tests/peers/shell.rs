//! Our reading of command lines held against the peer's own: ours may be stricter, never weaker.
//!
//! Also on a file of command lines, one a line, that `ASKRELAY_BASH_CORPUS` names.

use std::collections::BTreeMap;
use std::path::Path;

use askrelay::shell::{self, Floor, Reading};
use serde_json::Value;

use crate::support::{Process, TempSpool};

/// How a unit of the peer, and the floor that it has, is found in our reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Found {
    /// It is a unit of ours.
    AsUnit,
    /// It is a construct, or a command with its redirections; its parts are units of ours.
    AsWhole,
    /// It stands in a unit of ours that has more words.
    InUnit,
    /// Our whole line is asked.
    InFlooredLine,
    /// Its floor is ours too.
    WithItsFloor,
    /// It has another floor here.
    WithAnotherFloor,
    /// Nowhere: ours is weaker.
    Missing,
}

fn unit_found(reading: &Reading<'_>, text: &str) -> Found {
    let text = text.trim_end();
    if reading.units.iter().any(|unit| unit.text == text) {
        Found::AsUnit
    } else if reading.wholes.contains(&text) {
        Found::AsWhole
    } else if reading.floor.is_some_and(Floor::hides_commands) {
        Found::InFlooredLine
    } else if reading.units.iter().any(|unit| unit.text.contains(text)) {
        Found::InUnit
    } else {
        Found::Missing
    }
}

fn floor_found(reading: &Reading<'_>, text: &str, floor: &str) -> Found {
    let text = text.trim_end();
    let ours = reading.units.iter().filter(|unit| unit.text.contains(text));
    let floors: Vec<Floor> = ours.clone().filter_map(|unit| unit.floor).collect();
    if floors.iter().any(|ours| ours.sentinel() == floor) {
        Found::WithItsFloor
    } else if floors.iter().any(|ours| ours.hides_commands())
        || reading.floor.is_some_and(Floor::hides_commands)
    {
        Found::WithAnotherFloor
    } else {
        Found::Missing
    }
}

/// Compares all lines; gives how often what was found, and what is weaker.
fn compare(peer: &mut Process, lines: &[String]) -> (BTreeMap<Found, usize>, Vec<String>) {
    let mut counts = BTreeMap::new();
    let mut weaker = Vec::new();
    for line in lines {
        peer.say(&Value::from(line.as_str()).to_string());
        let theirs = peer.json();
        let reading = shell::read(line);
        for unit in theirs.as_array().unwrap() {
            let text = unit["text"].as_str().unwrap();
            let mut found = vec![unit_found(&reading, text)];
            if let Some(floor) = unit["floor"].as_str() {
                found.push(floor_found(&reading, text, floor));
            }
            if found.contains(&Found::Missing) {
                weaker.push(format!("{line:?}: {unit} is not in {reading:?}"));
            }
            for found in found {
                *counts.entry(found).or_default() += 1;
            }
        }
    }
    (counts, weaker)
}

fn fixture_lines() -> Vec<String> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/shell");
    let mut lines = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        let document: Value = serde_json::from_str(&text).unwrap();
        let cases = document["cases"].as_array().unwrap();
        lines.extend(
            cases
                .iter()
                .map(|case| case["line"].as_str().unwrap().to_owned()),
        );
    }
    lines
}

#[test]
fn no_unit_and_no_floor_of_the_peer_is_lost() {
    let spool = TempSpool::new();
    let mut peer = spool.their_reader();
    let lines = fixture_lines();
    let (counts, weaker) = compare(&mut peer, &lines);
    assert!(weaker.is_empty(), "{}", weaker.join("\n"));
    assert!(counts[&Found::AsUnit] > 500, "{counts:?}");
}

#[test]
fn nor_on_the_corpus_that_the_environment_names() {
    let Some(path) = std::env::var_os("ASKRELAY_BASH_CORPUS") else {
        return;
    };
    let text = std::fs::read_to_string(path).unwrap();
    let lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let spool = TempSpool::new();
    let mut peer = spool.their_reader();
    let (counts, weaker) = compare(&mut peer, &lines);
    eprintln!("{} lines: {counts:#?}", lines.len());
    assert!(
        weaker.is_empty(),
        "{} are weaker:\n{}",
        weaker.len(),
        weaker.join("\n")
    );
}
