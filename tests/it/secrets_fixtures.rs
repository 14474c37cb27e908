//! The fixtures of the masking of secrets: command lines, and what the review log shows of them.
//!
//! Also a file of command lines, one a line, that `ASKRELAY_BASH_CORPUS` names.
#![expect(
    clippy::disallowed_methods,
    reason = "the environment names a file that is no part of a spool"
)]

use std::borrow::Cow;
use std::fmt::Write as _;

use askrelay::presentation::secrets::masked;
use serde_json::Value;

use crate::support::fixtures;

/// The cases of every file below a directory, with the file's name.
fn cases(directory: &str) -> Vec<(String, Value)> {
    let mut cases = Vec::new();
    for path in fixtures::files_below(directory) {
        let document: Value = serde_json::from_str(&fixtures::text(&path)).expect(&path);
        let all = document["cases"].as_array().expect("cases");
        cases.extend(all.iter().map(|case| (path.clone(), case.clone())));
    }
    cases
}

/// Masks a line and checks what is promised of every line.
fn checked(line: &str) -> Cow<'_, str> {
    let once = masked(line);
    assert_eq!(once == line, matches!(once, Cow::Borrowed(_)), "{line:?}");
    assert_eq!(masked(&once), once, "{line:?}");
    once
}

#[test]
fn every_line_shows_what_is_no_secret() {
    let cases = cases("fixtures/secrets");
    let mut failures = String::new();
    for (path, case) in &cases {
        let line = case["line"].as_str().expect("a line");
        let wanted = case["masked"].as_str().unwrap_or(line);
        let found = checked(line);
        if found != wanted {
            let _ = writeln!(
                failures,
                "{path}\n  line   {line}\n  wanted {wanted}\n  found  {found}"
            );
        }
    }
    assert!(failures.is_empty(), "\n{failures}");
    assert!(cases.len() >= 180, "only {} cases", cases.len());
}

/// None of the lines that the reader of command lines is held to has a secret in it.
#[test]
fn lines_without_secrets_are_shown_as_they_are() {
    for (path, case) in cases("fixtures/shell") {
        let line = case["line"].as_str().expect("a line");
        assert_eq!(checked(line), line, "{path}");
    }
}

#[test]
fn the_corpus_that_the_environment_names_is_masked_once() {
    let Some(path) = std::env::var_os("ASKRELAY_BASH_CORPUS") else {
        return;
    };
    let text = std::fs::read_to_string(path).unwrap();
    let lines = text.lines().map(|line| (line, checked(line)));
    let changed: Vec<_> = lines.filter(|(line, masked)| line != masked).collect();
    for (line, masked) in &changed {
        eprintln!("{line}\n  {masked}");
    }
    eprintln!(
        "{} of {} lines hold a secret",
        changed.len(),
        text.lines().count()
    );
}
