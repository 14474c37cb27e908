//! What `docs/wire.md` promises is what the fixtures, the schemas and the limits say. A test of a sentence in that page belongs
//! here.

use std::collections::BTreeSet;

use askrelay::wire::{
    MAX_DEPTH, MAX_HEARTBEAT_BYTES, MAX_HOPS, MAX_REQUEST_BYTES, MAX_RESPONSE_BYTES, SchemaName,
};
use serde_json::Value;

use crate::support::fixtures;

const PAGE: &str = "docs/wire.md";

/// The samples of a page: the fixture that a comment names, and the text of the block below it.
fn samples(page: &str) -> Vec<(&str, &str)> {
    page.split("```json\n")
        .collect::<Vec<_>>()
        .windows(2)
        .map(|pair| {
            let name = pair[0]
                .trim_end()
                .rsplit_once("<!-- ")
                .and_then(|(_, comment)| comment.strip_suffix(" -->"))
                .unwrap_or("no fixture is named above this sample");
            let (text, _) = pair[1].split_once("\n```").expect("a closed block");
            (name, text)
        })
        .collect()
}

#[test]
fn every_sample_is_a_fixture() {
    let page = fixtures::text(PAGE);
    let samples = samples(&page);
    assert!(samples.len() >= 6, "{samples:?}");
    for (name, text) in samples {
        assert!(name.starts_with("fixtures/wire/"), "{name}: {text}");
        assert_eq!(fixtures::text(name), text, "{name}");
    }
}

/// Names of all members that a schema describes.
fn members(schema: &Value, names: &mut BTreeSet<String>) {
    match schema {
        Value::Object(keywords) => {
            for (keyword, value) in keywords {
                if let ("properties", Value::Object(properties)) = (keyword.as_str(), value) {
                    names.extend(properties.keys().cloned());
                }
                members(value, names);
            }
        }
        Value::Array(values) => values.iter().for_each(|value| members(value, names)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[test]
fn every_member_of_a_schema_is_on_the_page() {
    let page = fixtures::text(PAGE);
    // A line of the log has a page of its own.
    for name in SchemaName::names()
        .into_iter()
        .filter(|name| *name != "log")
    {
        let schema = SchemaName::from_name(name).unwrap();
        let mut names = BTreeSet::new();
        members(&serde_json::from_str(schema.text()).unwrap(), &mut names);
        assert!(names.len() > 3, "{name}: {names:?}");
        for member in names {
            assert!(
                page.contains(&format!("`{member}`")) || page.contains(&format!(".{member}`")),
                "{name}: {member} is not on the page"
            );
        }
    }
}

#[test]
fn the_limits_on_the_page_are_the_limits() {
    let page = fixtures::text(PAGE);
    let grouped = |number: usize| {
        let digits = number.to_string();
        let groups: Vec<&[u8]> = digits.as_bytes().rchunks(3).rev().collect();
        groups
            .iter()
            .map(|group| String::from_utf8_lossy(group).into_owned())
            .collect::<Vec<_>>()
            .join(",")
    };
    for (document, limit) in [
        ("request", MAX_REQUEST_BYTES),
        ("response", MAX_RESPONSE_BYTES),
        ("heartbeat", MAX_HEARTBEAT_BYTES),
    ] {
        let row = page
            .lines()
            .find(|line| line.starts_with(&format!("| {document} | ")) && line.contains("bytes"))
            .unwrap_or_else(|| panic!("no limit of a {document}"));
        assert!(
            row.contains(&format!("({} bytes)", grouped(limit))),
            "{row}"
        );
    }
    assert!(page.contains(&format!("| {MAX_DEPTH} levels")));
    assert!(page.contains(&format!("array of at most {MAX_HOPS} objects")));
}
