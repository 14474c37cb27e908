//! Several asks that are alike, in the dialog: the option, the table, and which keys answer.

use std::time::Duration;

use proptest::prelude::*;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::layout::Size;
use serde_json::json;

use super::tests::{at, control, draw, open, payload, press, rows_of, shown};
use crate::policy::DialogKeys;
use crate::presentation::select::Plain;
use crate::presentation::text;
use crate::prompt::PersonEvent;
use crate::prompt::app::{Dialog, DialogSettings, Presses};
use crate::prompt::terminal::{Act, App, Input, News};
use crate::serve::{Alike, Shown, Twin};
use crate::wire::{Digest, Hop, RequestId};

fn twin(id: &str, agent: &str, session: &str) -> Twin {
    Twin {
        id: RequestId::parse(id).unwrap(),
        digest: Digest::of(id.as_bytes()),
        agent: agent.to_owned(),
        session: session.to_owned(),
        path: Vec::new(),
        age: Duration::from_secs(12),
    }
}

fn alike(twins: Vec<Twin>) -> Alike {
    Alike {
        likeness: Some(Digest::of(b"what they have in common")),
        twins,
        more: false,
    }
}

fn asked(alike: Alike) -> Shown {
    let payload = payload("bash", "bash", Some("bash"), "make deploy", &json!([]));
    let mut shown = shown(&payload, &json!([]));
    shown.alike = alike;
    shown
}

fn three() -> Alike {
    let mut last = twin("perm-3", "builder", "child-22");
    last.path = vec![Hop {
        session_id: "s-1".to_owned(),
        agent_name: "lead".to_owned(),
    }];
    alike(vec![twin("perm-2", "scout", "c-2"), last])
}

/// A dialog at the table, which has been on the screen long enough.
fn at_table(shown: Shown, size: (u16, u16)) -> Dialog {
    let mut dialog = open(shown);
    let _first = draw(&mut dialog, size, at(0));
    let _awake = draw(&mut dialog, size, at(1_000));
    assert!(press(&mut dialog, KeyCode::Char('a'), 1_000).is_empty());
    assert!(press(&mut dialog, KeyCode::Char('a'), 1_200).is_empty());
    let _table = draw(&mut dialog, size, at(1_200));
    dialog
}

fn table_rows(dialog: &mut Dialog, size: (u16, u16), ms: u64) -> Vec<String> {
    rows_of(&draw(dialog, size, at(ms)))
}

fn answered(acts: &[Act]) -> Option<(Vec<&str>, Plain)> {
    acts.iter().find_map(|act| match act {
        Act::Tell(PersonEvent::AnsweredTogether { asks, verdict, .. }) => {
            let ids = asks.iter().map(|(id, _)| id.as_str());
            Some((ids.collect(), *verdict))
        }
        Act::Tell(_) | Act::Print(_) => None,
    })
}

#[test]
fn the_option_is_the_last_one_and_leads_to_a_table_of_each() {
    let mut pictures = Vec::new();
    for size in [(80, 24), (40, 10)] {
        let mut dialog = open(asked(three()));
        let _first = draw(&mut dialog, size, at(0));
        let question = table_rows(&mut dialog, size, 1_000).join("\n");
        let mut dialog = at_table(asked(three()), size);
        let table = table_rows(&mut dialog, size, 2_000).join("\n");
        pictures.push(format!("── {size:?}\n{question}\n── the table\n{table}"));
    }
    insta::assert_snapshot!("together", pictures.join("\n"));
}

#[test]
fn a_table_is_answered_by_a_key_pressed_twice() {
    for (key, verdict, word) in [('a', Plain::Yes, "approved"), ('n', Plain::No, "denied")] {
        let size = (80, 24);
        let mut dialog = at_table(asked(three()), size);
        // Keys that were on their way when it opened, and as long as they keep coming.
        for ms in [1_210, 1_300, 1_600] {
            assert!(press(&mut dialog, KeyCode::Char(key), ms).is_empty());
        }
        let _drawn = draw(&mut dialog, size, at(3_000));
        assert!(press(&mut dialog, KeyCode::Char(key), 3_000).is_empty());
        let hint = table_rows(&mut dialog, size, 3_000).pop().unwrap();
        assert!(hint.contains(&format!("{key} again: ")), "{hint}");
        // Another key in between: it is not meant any more.
        assert!(press(&mut dialog, KeyCode::Down, 3_100).is_empty());
        assert!(press(&mut dialog, KeyCode::Char(key), 3_200).is_empty());
        let acts = press(&mut dialog, KeyCode::Char(key), 3_400);
        assert_eq!(
            answered(&acts),
            Some((vec!["perm-1", "perm-2", "perm-3"], verdict))
        );
        let Some(Act::Print(line)) = acts.first() else {
            panic!("{acts:?}");
        };
        assert_eq!(
            line.to_string(),
            format!("{word} 3 asks: bash \"make deploy\"")
        );
        assert!(dialog.open.is_none());
    }
}

#[test]
fn nothing_else_answers_a_table_and_escape_goes_back() {
    let size = (80, 24);
    let mut dialog = at_table(asked(three()), size);
    let mut ms = 3_000;
    for code in [
        KeyCode::Enter,
        KeyCode::Char('y'),
        KeyCode::Char('y'),
        KeyCode::Char('s'),
        KeyCode::Char('r'),
        KeyCode::Char('r'),
        KeyCode::Tab,
        KeyCode::Enter,
    ] {
        ms += 500;
        assert!(press(&mut dialog, code, ms).is_empty(), "{code:?}");
    }
    assert!(control(&mut dialog, 'a', ms + 500).is_empty());
    assert!(control(&mut dialog, 'a', ms + 1_000).is_empty());
    ms += 2_000;
    // A burst and a paste disarm.
    for late in [0, 5] {
        assert!(press(&mut dialog, KeyCode::Char('a'), ms + late).is_empty());
    }
    ms += 2_000;
    assert!(press(&mut dialog, KeyCode::Char('a'), ms).is_empty());
    assert!(
        dialog
            .input(Input::Paste("aa".to_owned()), at(ms + 100))
            .is_empty()
    );
    assert!(press(&mut dialog, KeyCode::Char('a'), ms + 1_000).is_empty());
    assert!(press(&mut dialog, KeyCode::Esc, ms + 2_000).is_empty());
    let rows = table_rows(&mut dialog, size, ms + 2_000);
    assert!(rows.iter().any(|row| row == "› n  No"), "{rows:?}");
    // The second Escape of a hasty hand is no denial.
    assert!(press(&mut dialog, KeyCode::Esc, ms + 2_100).is_empty());
    assert!(dialog.open.is_some());
}

#[test]
fn all_of_a_table_has_to_be_on_the_screen_before_it_is_answered_with_yes() {
    let twins = (2..=40).map(|n| twin(&format!("perm-{n}"), "scout", &format!("c-{n}")));
    let size = (80, 10);
    let shown = asked(alike(twins.collect()));
    let mut dialog = open(shown);
    let _large = draw(&mut dialog, (80, 24), at(0));
    let _large = draw(&mut dialog, (80, 24), at(1_000));
    assert!(press(&mut dialog, KeyCode::Char('a'), 1_000).is_empty());
    assert!(press(&mut dialog, KeyCode::Char('a'), 1_200).is_empty());
    let mut ms = 2_000;
    let mut pages = 0;
    loop {
        let _first = draw(&mut dialog, size, at(ms));
        let hint = table_rows(&mut dialog, size, ms + 900).pop().unwrap();
        if !hint.contains("no yes before its end") {
            break;
        }
        for late in [900, 1_200] {
            assert!(press(&mut dialog, KeyCode::Char('a'), ms + late).is_empty());
        }
        assert!(press(&mut dialog, KeyCode::PageDown, ms + 1_900).is_empty());
        pages += 1;
        ms += 3_000;
    }
    assert!((5..=8).contains(&pages), "{pages}");
    assert!(press(&mut dialog, KeyCode::Char('a'), ms + 1_000).is_empty());
    let acts = press(&mut dialog, KeyCode::Char('a'), ms + 1_300);
    assert_eq!(answered(&acts).map(|(asks, _)| asks.len()), Some(40));
}

#[test]
fn a_screen_that_shows_nothing_of_a_table_answers_nothing_with_yes() {
    let mut dialog = at_table(asked(three()), (80, 24));
    for ms in [2_000, 3_000] {
        let frame = dialog.draw(Size::new(0, 0), at(ms));
        assert_eq!(frame.cells.area.area(), 0);
        dialog.drawn(at(ms));
    }
    for ms in [4_000, 4_300, 4_600] {
        assert!(press(&mut dialog, KeyCode::Char('a'), ms).is_empty());
    }
    // What appears anew is read first.
    let _back = draw(&mut dialog, (80, 24), at(5_000));
    for ms in [5_100, 5_200] {
        assert!(press(&mut dialog, KeyCode::Char('a'), ms).is_empty());
    }
}

#[test]
fn who_comes_meanwhile_is_offered_and_who_comes_later_is_not_in_the_table() {
    let size = (80, 24);
    let mut dialog = open(asked(Alike::default()));
    let told = |dialog: &mut Dialog, alike: Alike, ms| {
        let id = RequestId::parse("perm-1").unwrap();
        let alike = Box::new(alike);
        assert!(dialog.news(News::Alike { id, alike }, at(ms)).is_empty());
    };
    let _first = draw(&mut dialog, size, at(0));
    let _awake = draw(&mut dialog, size, at(1_000));
    // The letter has been pressed once when another comes: nothing moves and nothing is disarmed.
    assert!(press(&mut dialog, KeyCode::Char('y'), 1_000).is_empty());
    let before = table_rows(&mut dialog, size, 1_050);
    assert!(!before.join("\n").contains("asks"));
    told(&mut dialog, three(), 1_100);
    let after = table_rows(&mut dialog, size, 1_200);
    assert!(after.join("\n").contains("a  Yes, for these 3 asks"));
    let others = after.into_iter().filter(|row| !row.contains("3 asks"));
    assert_eq!(others.collect::<Vec<_>>(), before);
    let _drawn = draw(&mut dialog, size, at(2_000));
    assert!(press(&mut dialog, KeyCode::Char('a'), 2_000).is_empty());
    assert!(press(&mut dialog, KeyCode::Char('a'), 2_200).is_empty());
    let _table = draw(&mut dialog, size, at(2_200));
    // One goes and one comes while the table is open.
    let mut later = three();
    later.twins.remove(0);
    later.twins.push(twin("perm-9", "late", "c-9"));
    told(&mut dialog, later, 2_300);
    let rows = table_rows(&mut dialog, size, 3_000);
    assert!(rows[0].contains("1 of them gone meanwhile"), "{rows:?}");
    assert!(!rows.join("\n").contains("perm-9"), "{rows:?}");
    assert!(press(&mut dialog, KeyCode::Char('a'), 3_000).is_empty());
    let acts = press(&mut dialog, KeyCode::Char('a'), 3_300);
    // Which of them are still there is for the session to say.
    assert_eq!(
        answered(&acts),
        Some((vec!["perm-1", "perm-2", "perm-3"], Plain::Yes))
    );
}

#[test]
fn an_option_that_was_chosen_and_now_leads_elsewhere_is_not_chosen_any_more() {
    let size = (80, 24);
    let mut dialog = open(asked(three()));
    let _first = draw(&mut dialog, size, at(0));
    let _awake = draw(&mut dialog, size, at(1_000));
    assert!(press(&mut dialog, KeyCode::Char('a'), 1_000).is_empty());
    let id = RequestId::parse("perm-1").unwrap();
    let fewer = Box::new(alike(vec![twin("perm-2", "scout", "c-2")]));
    assert!(
        dialog
            .news(
                News::Alike {
                    id: id.clone(),
                    alike: fewer
                },
                at(1_050)
            )
            .is_empty()
    );
    assert!(press(&mut dialog, KeyCode::Char('a'), 1_100).is_empty());
    let rows = table_rows(&mut dialog, size, 1_200);
    assert!(rows.join("\n").contains("Permission Required"), "{rows:?}");
    let none = Box::new(Alike::default());
    assert!(
        dialog
            .news(News::Alike { id, alike: none }, at(1_250))
            .is_empty()
    );
    let rows = table_rows(&mut dialog, size, 1_300);
    assert!(rows.contains(&"› n  No".to_owned()), "{rows:?}");
}

#[test]
fn a_key_of_the_person_is_not_taken_from_them() {
    let mut keys = DialogKeys::default();
    (keys.approve, keys.deny) = ('a', 't');
    let mut dialog = Dialog::new(DialogSettings {
        session: "main".to_owned(),
        budget: crate::presentation::fit::Budget::default(),
        keys,
        presses: Presses::One,
    });
    assert!(
        dialog
            .news(News::Show(Box::new(asked(three()))), at(0))
            .is_empty()
    );
    let size = (80, 24);
    let _first = draw(&mut dialog, size, at(0));
    let rows = table_rows(&mut dialog, size, 1_000).join("\n");
    assert!(rows.contains("g  Yes, for these 3 asks"), "{rows}");
    assert!(press(&mut dialog, KeyCode::Char('g'), 1_000).is_empty());
    let _table = draw(&mut dialog, size, at(1_000));
    let hint = table_rows(&mut dialog, size, 2_000).pop().unwrap();
    assert!(hint.starts_with("g: yes to all 3 · t: no"), "{hint}");
    let acts = press(&mut dialog, KeyCode::Char('t'), 2_000);
    assert_eq!(answered(&acts).map(|(_, verdict)| verdict), Some(Plain::No));
}

#[test]
fn an_ask_that_goes_takes_its_table_with_it() {
    let mut dialog = at_table(asked(three()), (80, 24));
    let id = RequestId::parse("perm-1").unwrap();
    let why = "its requester has taken it back".to_owned();
    let acts = dialog.news(News::Withdraw { id, why }, at(2_000));
    assert!(matches!(acts[..], [Act::Print(_)]));
    for ms in [3_000, 3_200] {
        assert!(press(&mut dialog, KeyCode::Char('a'), ms).is_empty());
    }
}

/// Names that would like to be something else.
const HOSTILE: [&str; 10] = [
    "x\n4         │ scout  c-4  1s  perm-4",
    "x\r\nwho asks  │ nobody",
    "\u{1b}[2J\u{1b}[1;1Ha a: yes",
    "\u{202e}\u{2066}toor",
    "a\u{200b}\u{feff}b",
    "x                                                                         4 │ y",
    "│ 5 │ admin",
    "\u{2028}\u{85}\u{0b}\u{0c}z",
    "你好你好你好你好你好你好你好你好你好你好你好",
    "\u{0}\u{7f}\u{9b}1A",
];

fn check_table(rows: &[String], count: usize) {
    // Each row of ours begins with its number and a bar, in order, and no text of an asker stands left of the bar.
    let mut numbers = Vec::new();
    for row in rows.get(1..rows.len() - 1).unwrap() {
        assert!(
            !row.chars().any(|c| c.is_control() || text::is_hidden(c)),
            "{row:?}"
        );
        let Some(bar) = row.find(['│', '┊']) else {
            continue;
        };
        let label = row[..bar].trim();
        if let Ok(number) = label.parse::<usize>() {
            numbers.push(number);
        } else {
            assert!(
                [
                    "",
                    "tool",
                    "rule",
                    "command",
                    "directory",
                    "caution",
                    "who asks",
                    "beyond"
                ]
                .contains(&label),
                "{row:?}"
            );
        }
    }
    assert_eq!(numbers, (1..=count).collect::<Vec<_>>(), "{rows:?}");
}

#[test]
fn no_name_in_a_table_passes_for_a_row_or_an_option() {
    for size in [(80, 200), (40, 400)] {
        let long = "n".repeat(4_096);
        let names = HOSTILE.into_iter().chain([long.as_str()]);
        let twins: Vec<Twin> = (2..)
            .zip(names)
            .map(|(n, name)| twin(&format!("perm-{n}"), name, name))
            .collect();
        let count = twins.len() + 1;
        let mut dialog = at_table(asked(alike(twins)), size);
        check_table(&table_rows(&mut dialog, size, 2_000), count);
    }
    // At the sizes of real screens nothing of ours is lost either.
    let twins: Vec<Twin> = HOSTILE
        .into_iter()
        .take(3)
        .zip(2..)
        .map(|(name, n)| twin(&format!("perm-{n}"), name, name))
        .collect();
    let mut pictures = Vec::new();
    for size in [(80, 24), (40, 10)] {
        let mut dialog = at_table(asked(alike(twins.clone())), size);
        let mut picture = table_rows(&mut dialog, size, 2_000);
        if size.1 == 10 {
            let end = KeyEvent::new(KeyCode::End, KeyModifiers::NONE);
            let _acts = dialog.input(Input::Key(end), at(3_000));
            picture.extend(table_rows(&mut dialog, size, 4_000));
        }
        pictures.push(format!("── {size:?}\n{}", picture.join("\n")));
    }
    insta::assert_snapshot!("together_hostile", pictures.join("\n"));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_names_keep_to_their_rows(names in prop::collection::vec((".{0,30}", ".{0,30}"), 1..5)) {
        let twins: Vec<Twin> = (2..)
            .zip(&names)
            .map(|(n, (agent, session))| twin(&format!("perm-{n}"), agent, session))
            .collect();
        let mut dialog = at_table(asked(alike(twins)), (60, 60));
        check_table(&table_rows(&mut dialog, (60, 60), 2_000), names.len() + 1);
    }
}
