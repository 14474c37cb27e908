//! What `docs/log.md` promises is what the log is: its events, its schema. A test of a sentence in that page belongs here.

use std::collections::BTreeSet;

use askrelay::audit::{DeciderKind, Ending, Event};
use askrelay::wire::SchemaName;
use serde_json::{Value, json};

use crate::support::fixtures;
use crate::support::schema::faults;
use crate::support::spool::TestSpool;

const PAGE: &str = "docs/log.md";

/// The names of events that stand in the first cells of the tables. One that begins with a dot goes on from the one before it.
fn events_on(page: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for row in page.lines().filter(|line| line.starts_with("| `")) {
        let cell = row.split(" | ").next().unwrap();
        let mut group = String::new();
        for name in cell.split('`').skip(1).step_by(2) {
            let name = match name.strip_prefix('.') {
                Some(last) => format!("{group}.{last}"),
                None => name.to_owned(),
            };
            if let Some((before, _)) = name.rsplit_once('.') {
                before.clone_into(&mut group);
            }
            found.insert(name);
        }
    }
    found
}

#[test]
fn every_event_has_its_row() {
    let on_page = events_on(&fixtures::text(PAGE));
    let names = Event::ALL
        .iter()
        .map(|event| event.name())
        .chain(Ending::ALL.iter().map(|ending| ending.name()));
    for name in names {
        assert!(on_page.contains(name), "{name} is not on the page");
    }
    // And none that there is not.
    for name in on_page {
        let is_event = name.starts_with("forwarded_permission.")
            || name.starts_with("permission_")
            || name.starts_with("review_log.");
        assert!(
            !is_event || Event::from_name(&name).is_some() || Ending::from_name(&name).is_some(),
            "{name} is no event"
        );
    }
}

#[test]
fn every_decider_and_every_member_of_the_schema_is_on_the_page() {
    let page = fixtures::text(PAGE);
    let schema: Value = serde_json::from_str(SchemaName::from_name("log").unwrap().text()).unwrap();
    let members = schema["properties"].as_object().unwrap();
    for name in members
        .keys()
        .map(String::as_str)
        .chain(DeciderKind::ALL.map(DeciderKind::name))
    {
        assert!(
            page.contains(&format!("`{name}`")),
            "{name} is not on the page"
        );
    }
}

/// The lines of a session with its child fit the schema, and have the members that the page lists.
#[test]
fn every_line_fits_the_schema_and_the_page() {
    let spool = TestSpool::new();
    let page = fixtures::text(PAGE);
    let mut server = spool.serve_select("P", &json!({"bash": {"ls *": "allow", "rm *": "deny"}}));
    spool.ask("P").value("ls -l").run().approved();
    spool.ask("P").value("rm x").run().denied();
    let child = spool.ask("P").value("make").start();
    server.answer("make", "Yes");
    child.end().approved();
    spool.ask("nobody").value("make").run().unruled();
    server.stop();
    let schema: Value = serde_json::from_str(SchemaName::from_name("log").unwrap().text()).unwrap();
    let log = spool.log();
    assert!(log.len() > 12, "{log:?}");
    for line in &log {
        assert_eq!(faults(&schema, line), Vec::<String>::new(), "{line}");
        let members = line.as_object().unwrap();
        assert_eq!(members.keys().next_back().unwrap(), "chain", "{line}");
        for member in members.keys() {
            assert!(
                page.contains(&format!("`{member}`")),
                "{member} of {} is not on the page",
                line["event"]
            );
        }
    }
}

/// The anchors of a page: its headings, as they are linked to.
fn anchors(page: &str) -> BTreeSet<String> {
    page.lines()
        .filter(|line| line.starts_with('#'))
        .map(|line| {
            line.trim_start_matches('#')
                .trim()
                .chars()
                .filter_map(|character| match character {
                    ' ' => Some('-'),
                    '-' | '_' => Some(character),
                    _ => character
                        .is_alphanumeric()
                        .then(|| character.to_ascii_lowercase()),
                })
                .collect()
        })
        .collect()
}

#[test]
fn what_the_pages_of_the_log_refer_to_is_there() {
    for name in ["log.md", "provenance.md", "operations.md"] {
        let page = fixtures::text(&format!("docs/{name}"));
        for link in page.split("](").skip(1) {
            let link = link.split(')').next().unwrap();
            let Some((file, anchor)) = link.split_once('#') else {
                continue;
            };
            if file.contains(':') {
                continue;
            }
            let file = if file.is_empty() { name } else { file };
            let there = anchors(&fixtures::text(&format!("docs/{file}")));
            assert!(there.contains(anchor), "{name}: {link}");
        }
    }
}

/// The fields of an event that is told of on both pages are the same ones.
#[test]
fn a_recalled_decision_has_its_fields_on_both_pages() {
    let row = |page: &str, name: &str| -> Vec<String> {
        let page = fixtures::text(page);
        let row = page.lines().find(|line| line.starts_with(name)).unwrap();
        let fields = row.split(" | ").last().unwrap().trim_end_matches(" |");
        let fields = fields.split(':').next().unwrap();
        fields
            .split(", ")
            .map(|field| field.trim_matches('`').to_owned())
            .collect()
    };
    assert_eq!(
        row("docs/provenance.md", "| `decision_recalled` |"),
        row(PAGE, "| `forwarded_permission.decision_recalled` |")
    );
}
