//! What holds of the source tree itself: imports point inward, and no test file is forgotten. A rule about code that no lint
//! can state belongs here.

use std::collections::BTreeSet;

use crate::support::fixtures;
use crate::support::rust::{paths, test_modules, tokens, without_tests};

/// A ring of the crate: its modules, and the paths that code in it may not name.
struct Ring {
    modules: &'static [&'static str],
    forbidden: &'static [&'static str],
}

/// The rings from the inside out; see the crate page. A module may name its own ring and those further in.
const RINGS: [Ring; 4] = [
    Ring {
        modules: &["wire", "policy", "presentation", "shell", "identity"],
        forbidden: &[
            "std::fs",
            "std::net",
            "std::os::unix::fs",
            "std::os::unix::net",
            "std::process",
            "std::env",
            "std::thread",
            "std::io::stdin",
            "std::io::stdout",
            "std::io::stderr",
            "std::time::SystemTime",
            "std::time::Instant",
            "anyhow",
            "clap",
            "crossterm",
            "fs2",
            "getrandom",
            "notify",
            "ratatui",
            "rustix",
            "tempfile",
            "tokio",
        ],
    },
    Ring {
        modules: &["spool", "audit", "process", "clock"],
        forbidden: &["std::env", "anyhow", "clap", "crossterm", "ratatui"],
    },
    Ring {
        modules: &["ask", "serve", "prompt", "act", "host", "program"],
        forbidden: &[
            "std::env", "std::fs", "anyhow", "clap", "fs2", "notify", "tempfile",
        ],
    },
    Ring {
        modules: &["cli"],
        forbidden: &[],
    },
];

/// What one file may name in spite of its ring, and why.
const EXCEPTIONS: [(&str, &str, &str); 1] = [(
    "presentation/evidence/diff.rs",
    "std::time::Instant::now",
    "the comparison of two texts settles for less than the shortest diff after a time, and takes that as a time of the clock",
)];

/// Which ring the module of this name belongs to.
fn ring_of(module: &str) -> Option<usize> {
    RINGS.iter().position(|ring| ring.modules.contains(&module))
}

/// Faults of one file: what it names and may not. `path` is relative to `src`, such as `wire/json.rs`.
fn faults(path: &str, source: &str) -> Vec<String> {
    let module = module_of(path);
    let Some(top) = module.first() else {
        // The crate page and `main.rs` belong to the outermost ring.
        return Vec::new();
    };
    let Some(ring) = ring_of(top) else {
        return vec![format!(
            "module {top} is in no ring: name it in the crate page and in RINGS"
        )];
    };
    let mut faults = BTreeSet::new();
    for (from, named) in paths(&module, &without_tests(&tokens(source))) {
        let Some(absolute) = absolute(&from, &named) else {
            faults.insert(format!("{} leads out of the crate", named.join("::")));
            continue;
        };
        let text = absolute.join("::");
        let outward = match absolute.first().map(String::as_str) {
            Some("crate" | "askrelay") => match absolute.get(1).map(String::as_str) {
                // The crate under another name, or all of it at once, would hide what is used.
                None | Some("*") => true,
                // What is no module of a ring would be something that the crate page hands on.
                Some(other) => ring_of(other).is_none_or(|other| other > ring),
            },
            Some("std" | "core" | "alloc") => {
                let whole = matches!(absolute.get(1).map(String::as_str), None | Some("*"));
                whole || is_forbidden(ring, &absolute)
            }
            _ => is_forbidden(ring, &absolute),
        };
        let is_excepted = EXCEPTIONS
            .iter()
            .any(|(file, named, _)| *file == path && *named == text);
        if outward && !is_excepted {
            faults.insert(text);
        }
    }
    faults.into_iter().collect()
}

/// Whether `path` lies at or below a forbidden one, or takes in everything above one.
fn is_forbidden(ring: usize, path: &[String]) -> bool {
    RINGS[ring].forbidden.iter().any(|forbidden| {
        let forbidden: Vec<&str> = forbidden.split("::").collect();
        match path.split_last() {
            Some((last, above)) if last == "*" => {
                above.len() < forbidden.len() && forbidden.starts_with(&as_strs(above))
                    || as_strs(above).starts_with(&forbidden)
            }
            _ => as_strs(path).starts_with(&forbidden),
        }
    })
}

fn as_strs(path: &[String]) -> Vec<&str> {
    path.iter().map(String::as_str).collect()
}

/// Module path of a file: `wire/json.rs` is `wire::json`, `wire/mod.rs` is `wire`, `lib.rs` is the crate.
fn module_of(path: &str) -> Vec<String> {
    let stem = path.strip_suffix(".rs").expect("a Rust file");
    let mut parts: Vec<String> = stem.split('/').map(str::to_owned).collect();
    if matches!(
        parts.last().map(String::as_str),
        Some("mod" | "lib" | "main")
    ) {
        parts.pop();
    }
    parts
}

/// `path` without `self` and `super` in front, seen from `module`.
fn absolute(module: &[String], path: &[String]) -> Option<Vec<String>> {
    if !matches!(
        path.first().map(String::as_str),
        Some("self" | "super" | "Self")
    ) {
        return Some(path.to_vec());
    }
    let mut base = module.to_vec();
    let mut rest = path;
    while let Some((first, after)) = rest.split_first() {
        match first.as_str() {
            "self" | "Self" => {}
            "super" => drop(base.pop()?),
            _ => break,
        }
        rest = after;
    }
    let mut all = vec!["crate".to_owned()];
    all.extend(base);
    all.extend_from_slice(rest);
    Some(all)
}

#[test]
fn imports_point_inward() {
    let files: Vec<String> = fixtures::files_below("src")
        .into_iter()
        .filter(|path| path.strip_suffix(".rs").is_some())
        .collect();
    assert!(files.len() > 10, "only {files:?} were found");
    let mut for_tests = BTreeSet::new();
    for path in &files {
        let directory = path
            .strip_suffix("/mod.rs")
            .or_else(|| path.strip_suffix("/lib.rs"))
            .unwrap_or(path.trim_end_matches(".rs"));
        for module in test_modules(&tokens(&fixtures::text(path))) {
            for_tests.insert(format!("{directory}/{module}.rs"));
            for_tests.insert(format!("{directory}/{module}/mod.rs"));
        }
    }
    let faults: Vec<String> = files
        .iter()
        .filter(|path| !for_tests.contains(*path))
        .flat_map(|path| {
            let relative = path.strip_prefix("src/").unwrap_or(path);
            faults(relative, &fixtures::text(path))
                .into_iter()
                .map(move |fault| format!("{path}: {fault}"))
        })
        .collect();
    assert!(
        faults.is_empty(),
        "not for this ring:\n{}",
        faults.join("\n")
    );
}

/// Sources made up for the test below: the file they would stand in, and what must be found in them.
#[rustfmt::skip]
const CASES: [(&str, &str, &[&str]); 25] = [
    // Ring 0.
    ("wire/json.rs", "use std::fs;", &["std::fs"]),
    ("wire/mod.rs", "use std::{fmt, fs::{self, File}};", &["std::fs", "std::fs::File"]),
    ("wire/mod.rs", "fn f() { ::std::env::var(\"x\"); }", &["std::env::var"]),
    ("wire/mod.rs", "use std::time::{Duration, Instant};", &["std::time::Instant"]),
    ("wire/mod.rs", "use std::time::*;", &["std::time::*"]),
    ("wire/mod.rs", "use std as s; use std::*;", &["std", "std::*"]),
    ("policy/judge.rs", "use crate::{wire::Digest, spool::Spool};", &["crate::spool::Spool"]),
    ("policy/a/b.rs", "use super::super::super::serve;", &["crate::serve"]),
    ("policy/mod.rs", "use crate as c; use askrelay::cli::run;", &["askrelay::cli::run", "crate"]),
    ("presentation/fit.rs", "pub use tokio::time as t;", &["tokio::time"]),
    ("presentation/fit.rs", "impl rustix::X for Y { type A = notify::Z; }", &["notify::Z", "rustix::X"]),
    ("shell/mod.rs", "extern crate tempfile;", &["tempfile"]),
    ("identity.rs", "/// text\nfn f<'a>(x: &'a str) -> char { r#std::thread::yield_now(); '\"' }", &["std::thread::yield_now"]),
    ("wire/mod.rs", "mod a { use super::b; use super::super::spool; } use self::c; use super::Spool;", &["crate::Spool", "crate::spool"]),
    ("wire/mod.rs", "#[cfg(unix)] mod tests { use std::fs; }", &["std::fs"]),
    // Ring 1.
    ("spool/layout.rs", "use clap::Parser; use std::fs; use crate::wire::trim;", &["clap::Parser"]),
    ("clock.rs", "use crate::process::Pid; use crate::ask::x; use anyhow::Result;", &["anyhow::Result", "crate::ask::x"]),
    // Ring 2.
    ("serve/run.rs", "use std::fs; use tokio::select; use crate::spool::Spool; use std::env;", &["std::env", "std::fs"]),
    ("ask/wait.rs", "use anyhow::Context as _; use crate::cli::exit;", &["anyhow::Context", "crate::cli::exit"]),
    // The edge, and what is no import at all.
    ("cli/env.rs", "use std::env; use anyhow::Result; use clap::Parser;", &[]),
    ("main.rs", "fn main() { askrelay::cli::run(); }", &[]),
    ("wire/mod.rs", "//! std::fs\n/* use std::fs; /* */ */ const A: &str = \"std::fs\"; const B: &str = r#\"\"std::fs\"#;", &[]),
    ("wire/mod.rs", "#[cfg(test)] #[expect(x)] mod tests { use std::fs; } use std::fmt;", &[]),
    ("wire/mod.rs", "use std::time::Duration; use super::policy::Rule; fn fs() { notify(); }", &[]),
    ("extra/mod.rs", "", &["module extra is in no ring: name it in the crate page and in RINGS"]),
];

#[test]
fn an_outward_import_is_found() {
    for (path, source, expected) in CASES {
        assert_eq!(faults(path, source), expected, "{path}: {source}");
    }
    assert_eq!(
        test_modules(&tokens("#[cfg(test)]\nmod tests;\nmod other;")),
        ["tests"]
    );
}

/// Modules that the entry file of a test binary declares.
fn declared(tokens: &[String]) -> Vec<String> {
    tokens
        .windows(3)
        .filter(|window| window[0] == "mod" && window[2] == ";")
        .map(|window| window[1].clone())
        .collect()
}

#[test]
fn no_test_file_is_forgotten() {
    let declared = declared(&tokens(&fixtures::text("tests/it/main.rs")));
    let mut sorted = declared.clone();
    sorted.sort();
    assert_eq!(declared, sorted, "the list in tests/it/main.rs is sorted");
    let lying_there: BTreeSet<String> = fixtures::files_below("tests/it")
        .iter()
        .filter_map(|path| path.strip_prefix("tests/it/"))
        .filter(|path| *path != "main.rs" && path.strip_suffix(".rs").is_some())
        .filter_map(|path| path.split('/').next())
        .map(|name| name.trim_end_matches(".rs").to_owned())
        .collect();
    assert_eq!(
        declared.into_iter().collect::<BTreeSet<_>>(),
        lying_there,
        "every file of tests/it is a module of its main.rs"
    );
}
