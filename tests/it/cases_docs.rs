//! What `docs/cases.md` names is there. A test of that page belongs here.

use crate::support::fixtures;

/// The tests that the page names.
fn named(page: &str) -> Vec<String> {
    let rows = page.lines().filter(|line| line.starts_with("| "));
    rows.filter_map(|row| row.trim_end_matches(" |").rsplit_once("| "))
        .flat_map(|(_, tests)| tests.split('`'))
        .filter(|text| text.contains("::"))
        .map(str::to_owned)
        .collect()
}

/// Where a test of this path may be written.
fn homes(path: &str) -> Vec<String> {
    let mut parts: Vec<&str> = path.split("::").collect();
    parts.pop();
    let last = parts.pop().unwrap_or_default();
    if parts.is_empty() {
        return vec![format!("tests/it/{last}.rs")];
    }
    if parts == ["peers"] {
        return vec![format!("tests/peers/{last}.rs")];
    }
    let room = parts.join("/");
    vec![
        format!("src/{room}.rs"),
        format!("src/{room}/mod.rs"),
        format!("src/{room}/{last}.rs"),
    ]
}

#[test]
fn every_test_that_is_named_is_there() {
    let page = fixtures::text("docs/cases.md");
    let named = named(&page);
    assert!(named.len() > 90, "only {}", named.len());
    let mut files = fixtures::files_below("src");
    files.extend(fixtures::files_below("tests/it"));
    let missing: Vec<&String> = named
        .iter()
        .filter(|path| {
            let name = path.rsplit("::").next().unwrap_or_default();
            let is_there = |home: &String| {
                // What is installed beside the tests of the peers is too much to go through.
                home.starts_with("tests/peers/") && fixtures::is_there(home) || files.contains(home)
            };
            let is_in = |home: &String| {
                is_there(home) && fixtures::text(home).contains(&format!("fn {name}("))
            };
            !homes(path).iter().any(is_in)
        })
        .collect();
    assert!(missing.is_empty(), "{missing:#?}");
}

#[test]
fn every_row_has_a_case_a_sentence_and_a_test() {
    let page = fixtures::text("docs/cases.md");
    for row in page.lines().filter(|line| line.starts_with("| ")) {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").collect();
        assert_eq!(cells.len(), 3, "{row}");
        assert!(cells.iter().all(|cell| !cell.trim().is_empty()), "{row}");
    }
}
