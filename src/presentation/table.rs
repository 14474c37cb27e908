//! A table that names each of several asks that are alike: who asks, and nothing else, for in nothing else they differ.
//!
//! ```text
//! 1 │ scout    child-1  12s  perm-7f3a…
//! 2 │ builder  child-2   9s  perm-81c0…  asked by lead (s-1)
//! ```
//!
//! Invariants: each ask is one line, whatever its names hold: every text of an asker went through [`super::text`], and stands in
//! quotes where it holds anything that could pass for a column; nothing of it is left out; no number is an asker's.

use std::time::Duration;

use super::dialog::{self, Fact};
use super::text;
use crate::wire::{Hop, RequestId};

/// Widest column of names. A longer name is shown whole, but does not push the others aside.
const MAX_COLUMNS: usize = 24;

/// One of the asks.
#[derive(Debug, Clone, Copy)]
pub struct Asker<'a> {
    /// Id of the ask.
    pub id: &'a RequestId,
    /// Agent that asks, empty where it has no name.
    pub agent: &'a str,
    /// Session that asks.
    pub session: &'a str,
    /// The sessions that it came through.
    pub path: &'a [Hop],
    /// How old the ask is.
    pub age: Duration,
}

/// A fact for each ask: its number, and who asks.
pub fn rows(askers: &[Asker<'_>]) -> Vec<Fact> {
    let cells: Vec<[String; 3]> = askers
        .iter()
        .map(|asker| {
            [
                dialog::agent(asker.agent).into_owned(),
                dialog::name(asker.session).into_owned(),
                span(asker.age),
            ]
        })
        .collect();
    let [agents, sessions, ages] = [0, 1, 2].map(|column| {
        let widths = cells.iter().filter_map(|cells| cells.get(column));
        let widths = widths.map(|cell| text::width(cell));
        let fitting = widths.filter(|width| *width <= MAX_COLUMNS);
        fitting.max().unwrap_or(0)
    });
    (1_usize..)
        .zip(askers)
        .zip(&cells)
        .map(|((number, asker), [agent, session, age])| {
            let mut row = padded(agent, agents);
            row.push_str("  ");
            row.push_str(&padded(session, sessions));
            row.push_str("  ");
            row.extend(std::iter::repeat_n(' ', ages.saturating_sub(age.len())));
            row.push_str(age);
            row.push_str("  ");
            row.push_str(asker.id.as_str());
            if !asker.path.is_empty() {
                row.push_str("  asked by ");
                row.push_str(&dialog::hops(asker.path));
            }
            Fact::shown(&number.to_string(), row)
        })
        .collect()
}

/// What stands above the rows.
pub fn head(count: usize) -> Fact {
    let line = format!("{count} asks, alike but for this:");
    Fact::shown("who asks", line)
}

/// What stands below the rows, where there are more asks like these.
pub fn beyond() -> Fact {
    let line = "more asks like these wait; they are not answered with these".to_owned();
    Fact::shown("beyond", line)
}

fn padded(shown: &str, columns: usize) -> String {
    let mut padded = shown.to_owned();
    let missing = columns.saturating_sub(text::width(shown));
    padded.extend(std::iter::repeat_n(' ', missing));
    padded
}

/// A time span in one unit.
fn span(time: Duration) -> String {
    match time.as_secs() {
        seconds @ ..60 => format!("{seconds}s"),
        seconds @ 60..3_600 => format!("{}m", seconds / 60),
        seconds => format!("{}h", seconds / 3_600),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn id(text: &str) -> RequestId {
        RequestId::parse(text).unwrap()
    }

    fn hop(session: &str, agent: &str) -> Hop {
        Hop {
            session_id: session.to_owned(),
            agent_name: agent.to_owned(),
        }
    }

    fn lines(askers: &[Asker<'_>]) -> Vec<String> {
        let facts = rows(askers).into_iter();
        facts
            .map(|fact| {
                assert_eq!(fact.lines.len(), 1, "{fact:?}");
                format!("{} | {}", fact.label, fact.lines[0])
            })
            .collect()
    }

    #[test]
    fn each_ask_is_a_row_of_aligned_columns() {
        let ids = [id("perm-1"), id("perm-22"), id("x")];
        let path = [hop("s-1", "lead"), hop("s 2", "")];
        let asker = |n: usize, agent, session, seconds| Asker {
            id: &ids[n],
            agent,
            session,
            path: if n == 1 { &path } else { &[] },
            age: Duration::from_secs(seconds),
        };
        let askers = [
            asker(0, "scout", "child-1", 9),
            asker(1, "", "c", 700),
            asker(2, "a b", "child-10", 7_300),
        ];
        assert_eq!(
            lines(&askers),
            [
                "1 | scout    child-1    9s  perm-1",
                "2 | unknown  c         11m  perm-22  asked by lead (s-1) → unknown (\"s 2\")",
                "3 | \"a b\"    child-10   2h  x",
            ]
        );
    }

    #[test]
    fn no_name_makes_a_second_row_or_a_column_of_its_own() {
        let one = id("perm-1");
        for hostile in [
            "a\nyes) Yes, to each of these",
            "scout  child-2  1s  perm-2",
            "x\r\n2 │ admin",
            "\u{1b}[2J\u{1b}[1;1H",
            "\u{202e}nimda",
            "2\u{2028}admin",
            "zero\u{200b}width",
            "\u{9b}31m",
            &"n".repeat(4_096),
        ] {
            let asker = Asker {
                id: &one,
                agent: hostile,
                session: hostile,
                path: &[hop(hostile, hostile)],
                age: Duration::ZERO,
            };
            let shown = lines(&[asker]).remove(0);
            assert!(
                !shown.chars().any(|c| c.is_control() || text::is_hidden(c)),
                "{shown}"
            );
            // Blanks that are an asker's own stand in quotes.
            let outside: String = shown.split('"').step_by(2).collect();
            assert!(
                !outside.contains("Yes") && !outside.contains("perm-2"),
                "{outside}"
            );
        }
    }

    proptest! {
        #[test]
        fn whatever_names_hold_each_ask_is_one_line_and_keeps_its_number(
            names in prop::collection::vec((".{0,40}", ".{0,40}"), 1..12)
        ) {
            let one = id("perm-1");
            let askers: Vec<Asker<'_>> = names
                .iter()
                .map(|(agent, session)| Asker { id: &one, agent, session, path: &[], age: Duration::ZERO })
                .collect();
            let shown = lines(&askers);
            prop_assert_eq!(shown.len(), names.len());
            for (number, line) in (1..).zip(&shown) {
                let start = format!("{number} | ");
                prop_assert!(line.starts_with(&start));
                prop_assert!(!line.contains('\n') && line.ends_with("perm-1"));
            }
        }
    }
}
