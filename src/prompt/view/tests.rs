//! The dialog as cells: every kind of ask at every size, and what may never be seen.

use std::time::Duration;

use proptest::prelude::*;
use ratatui::buffer::Buffer;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::layout::Size;
use ratatui::style::{Color, Modifier};
use serde_json::{Value, json};

use super::*;
use crate::clock::Moment;
use crate::policy::DialogKeys;
use crate::prompt::PersonEvent;
use crate::prompt::app::DialogSettings;
use crate::prompt::terminal::{Act, App, Input, News};
use crate::serve::Shown;
use crate::wire::{Digest, ForwardedPermissionRequest, UserSurface};

/// The four sizes that every ask is looked at in.
const SIZES: [(u16, u16); 4] = [(80, 24), (40, 10), (20, 5), (1, 24)];

fn settings() -> DialogSettings {
    DialogSettings {
        session: "main".to_owned(),
        budget: Budget::default(),
        keys: DialogKeys::default(),
        presses: Presses::Two,
    }
}

pub(super) fn at(ms: u64) -> Moment {
    Moment::from_start(Duration::from_millis(ms))
}

pub(super) fn shown(payload: &Value, grants: &Value) -> Shown {
    let bytes = json!({
        "id": "perm-1", "createdAt": 1, "requesterSessionId": "c-1", "targetSessionId": "main",
        "requesterAgentName": "scout", "payload": payload, "sessionApproval": {"grants": grants},
        "accessIntent": {
            "surface": payload["request"]["surface"], "matchValues": [payload["request"]["value"]],
            "boundaryValue": null, "requesterCwd": "/srv/app",
            "principal": {"sessionId": "c-1", "agentName": "scout"},
        },
    })
    .to_string();
    Shown {
        request: ForwardedPermissionRequest::from_json(bytes.as_bytes()).unwrap(),
        digest: Digest::of(bytes.as_bytes()),
        asked_because: None,
        annotations: Vec::new(),
        with_chain: None,
        in_line: crate::serve::InLine::default(),
        time_left: None,
        age: Duration::from_secs(7),
        alike: crate::serve::Alike::default(),
    }
}

pub(super) fn payload(
    kind: &str,
    surface: &str,
    tool: Option<&str>,
    value: &str,
    evidence: &Value,
) -> Value {
    json!({
        "kind": kind,
        "request": {
            "requester": {"agentName": null, "forwarded": false, "sessionId": null},
            "surface": surface, "toolName": tool, "invokedToolName": null, "value": value,
            "matchedPattern": "ask *", "commandContext": null, "executedUnit": null,
        },
        "evidence": evidence, "annotations": [],
    })
}

pub(super) fn entry(label: &str, text: &str) -> Value {
    json!({"label": label, "text": text, "detail": null})
}

pub(super) fn open(shown: Shown) -> Dialog {
    let mut dialog = Dialog::new(settings());
    let acts = dialog.news(News::Show(Box::new(shown)), at(0));
    assert!(acts.is_empty());
    dialog
}

/// Draws, and says that it was drawn.
pub(super) fn draw(dialog: &mut Dialog, (columns, rows): (u16, u16), now: Moment) -> Buffer {
    let frame = dialog.draw(Size::new(columns, rows), now);
    dialog.drawn(now);
    assert!(frame.cells.area.height <= rows && frame.cells.area.width == columns);
    frame.cells
}

pub(super) fn rows_of(cells: &Buffer) -> Vec<String> {
    let row = |y| {
        let mut skip = 0;
        let mut row = String::new();
        for x in 0..cells.area.width {
            if skip > 0 {
                skip -= 1;
                continue;
            }
            let symbol = cells[(x, y)].symbol();
            skip = text::width(symbol).saturating_sub(1);
            row.push_str(symbol);
        }
        row.trim_end().to_owned()
    };
    (0..cells.area.height).map(row).collect()
}

fn picture(shown: &Shown) -> String {
    let mut pictures = Vec::new();
    for size in SIZES {
        let mut dialog = open(shown.clone());
        let _first = draw(&mut dialog, size, at(0));
        let rows = rows_of(&draw(&mut dialog, size, at(1_000)));
        // One column reads better from left to right.
        let rows = if size.0 == 1 {
            rows.concat()
        } else {
            rows.join("\n")
        };
        pictures.push(format!("── {}x{}\n{rows}", size.0, size.1));
    }
    pictures.join("\n")
}

pub(super) fn press(dialog: &mut Dialog, code: KeyCode, ms: u64) -> Vec<Act> {
    dialog.input(Input::Key(KeyEvent::new(code, KeyModifiers::NONE)), at(ms))
}

pub(super) fn control(dialog: &mut Dialog, letter: char, ms: u64) -> Vec<Act> {
    let key = KeyEvent::new(KeyCode::Char(letter), KeyModifiers::CONTROL);
    dialog.input(Input::Key(key), at(ms))
}

/// TIME-4: what is left of the requester's time stands beside the question, and runs.
#[test]
fn how_long_the_requester_still_waits_runs_down_and_wakes_no_guard() {
    let mut asked = shown(
        &payload("bash", "bash", Some("bash"), "make", &json!([])),
        &json!([]),
    );
    asked.time_left = Some(Duration::from_secs(45));
    let mut dialog = open(asked);
    let size = (100, 24);
    let hint = |dialog: &mut Dialog, ms| {
        let rows = rows_of(&draw(dialog, size, at(ms)));
        rows.last().cloned().unwrap_or_default()
    };
    assert!(hint(&mut dialog, 0).contains("it waits 45s"));
    let _awake = hint(&mut dialog, 1_000);
    let due = dialog.due().unwrap();
    assert!(due > at(1_000) && due <= at(2_001), "{due:?}");
    assert!(hint(&mut dialog, 2_100).contains("it waits 42s"));
    // A frame that only tells the time swallows no key.
    assert!(!press(&mut dialog, KeyCode::Esc, 2_101).is_empty());
}

macro_rules! snapshot {
    ($name:literal, $payload:expr, $grants:expr) => {
        insta::assert_snapshot!($name, picture(&shown(&$payload, &$grants)));
    };
}

#[test]
fn a_command() {
    let mut ask = payload(
        "bash",
        "bash",
        Some("bash"),
        "make deploy",
        &json!([
            entry("full command", "cd srv && make deploy"),
            entry("why", "the user agreed")
        ]),
    );
    ask["request"]["invokedToolName"] = "exec_command".into();
    ask["request"]["commandContext"] = "subshell".into();
    ask["annotations"] = json!([{"source": "risk", "text": "deploys to production"}]);
    let grants = json!([{"surface": "bash", "pattern": "make *"}]);
    snapshot!("bash", ask, grants);
}

#[test]
fn a_call_of_a_server() {
    let ask = payload(
        "mcp",
        "mcp",
        Some("mcp"),
        "github:create_issue",
        &json!([entry(
            "input",
            "title : Crash\nbody  : It ends\n        at once"
        )]),
    );
    snapshot!("mcp", ask, json!([]));
}

#[test]
fn a_tool() {
    let ask = payload(
        "tool",
        "fetch",
        Some("fetch"),
        "fetch",
        &json!([entry("input", "url : https://example.org/")]),
    );
    snapshot!("tool", ask, json!([]));
}

#[test]
fn a_path() {
    let mut ask = payload("path", "path_read", Some("read"), "keys/id_rsa", &json!([]));
    ask["request"]["matchedSpelling"] = "/home/u/keys/id_rsa".into();
    let grants = json!([{"surface": "path_read", "pattern": "/home/u/keys/*"}]);
    snapshot!("path", ask, grants);
}

#[test]
fn a_directory_outside() {
    let evidence = json!([
        {"label": "resolves to", "text": "/etc/passwd", "detail": null},
        entry("working directory", "/srv/app"),
    ]);
    let ask = payload(
        "external_directory",
        "external_directory_read",
        Some("read"),
        "../../etc/passwd",
        &evidence,
    );
    snapshot!("external_directory", ask, json!([]));
}

#[test]
fn a_command_that_reaches_outside() {
    let evidence = json!([
        entry("working directory", "/srv/app"),
        {"label": "external path", "text": "/etc/passwd", "detail": null},
        {"label": "external path", "text": "~/x", "detail": "/home/u/x"},
    ]);
    let ask = payload(
        "bash_external_directory",
        "external_directory_read",
        Some("bash"),
        "cat /etc/passwd ~/x /etc/passwd.bak",
        &evidence,
    );
    snapshot!("bash_external_directory", ask, json!([]));
}

#[test]
fn a_skill() {
    snapshot!(
        "skill",
        payload("skill", "skill", None, "deploy", &json!([])),
        json!([])
    );
}

#[test]
fn the_file_of_a_skill() {
    let ask = payload(
        "skill_read",
        "skill",
        None,
        "deploy",
        &json!([entry("read path", "/skills/deploy/SKILL.md")]),
    );
    snapshot!("skill_read", ask, json!([]));
}

#[test]
fn an_ask_without_a_payload() {
    let mut ask = shown(&Value::Null, &json!([]));
    ask.request.surface = Some("bash".to_owned());
    ask.request.value = Some("ls -l".to_owned());
    insta::assert_snapshot!("forwarded", picture(&ask));
}

#[test]
fn view_1_a_long_script_leaves_the_options_in_sight_and_says_how_to_see_the_rest() {
    let script = "echo one more line\n".repeat(300);
    let ask = payload(
        "bash",
        "bash",
        Some("bash"),
        "sh",
        &json!([entry("full command", &script)]),
    );
    for size in [(80, 24), (40, 10), (20, 5)] {
        let mut dialog = open(shown(&ask, &json!([])));
        let all = rows_of(&draw(&mut dialog, size, at(0))).join("\n");
        assert!(all.contains('…') && all.contains("^O"), "{size:?}\n{all}");
        for key in ["y", "n", "r"] {
            assert!(all.contains(key), "{size:?}\n{all}");
        }
    }
}

#[test]
fn view_2_everything_is_one_key_away_and_nothing_is_decided_there() {
    let script: String = (1..=300).fold(String::new(), |script, n| script + &format!("echo {n}\n"));
    let ask = payload(
        "bash",
        "bash",
        Some("bash"),
        "make",
        &json!([entry("input", &script)]),
    );
    let mut dialog = open(shown(&ask, &json!([])));
    let small = (40, 10);
    let _drawn = draw(&mut dialog, small, at(0));
    assert!(control(&mut dialog, 'o', 1_000).is_empty());
    let first = rows_of(&draw(&mut dialog, small, at(1_500)));
    assert!(first[0].contains("rows 1"), "{first:#?}");
    let _end = press(&mut dialog, KeyCode::End, 2_000);
    let last = rows_of(&draw(&mut dialog, small, at(2_500))).join("\n");
    assert!(last.contains("echo 300"), "{last}");
    // Searching: the letters are text, those that decide as well.
    for (ms, key) in (3_000..).step_by(500).zip("/echo 17\n".chars()) {
        let code = if key == '\n' {
            KeyCode::Enter
        } else {
            KeyCode::Char(key)
        };
        assert!(press(&mut dialog, code, ms).is_empty());
    }
    let found = rows_of(&draw(&mut dialog, small, at(9_000))).join("\n");
    assert!(
        found.contains("\n│ echo 17\n") && !found.contains("echo 16\n"),
        "{found}"
    );
    for (ms, letter) in (10_000..).step_by(500).zip("yynnrrss".chars()) {
        assert!(press(&mut dialog, KeyCode::Char(letter), ms).is_empty());
    }
    assert!(press(&mut dialog, KeyCode::Enter, 15_000).is_empty());
    // Back to the question, undecided; the key that led there is not followed by one that decides.
    assert!(press(&mut dialog, KeyCode::Esc, 16_000).is_empty());
    let back = rows_of(&draw(&mut dialog, small, at(16_100))).join("\n");
    assert!(
        back.contains("Permission Required") && back.contains("› n"),
        "{back}"
    );
    assert!(press(&mut dialog, KeyCode::Esc, 16_200).is_empty());
    assert!(!press(&mut dialog, KeyCode::Esc, 17_000).is_empty());
}

#[test]
fn what_was_read_to_the_end_of_its_core_can_be_allowed_on_a_small_screen() {
    let ask = payload("bash", "bash", Some("bash"), &"x".repeat(380), &json!([]));
    let mut dialog = open(shown(&ask, &json!([])));
    let _drawn = draw(&mut dialog, (40, 10), at(0));
    let _whole = control(&mut dialog, 'o', 1_000);
    let _drawn = draw(&mut dialog, (40, 10), at(1_000));
    let _end = press(&mut dialog, KeyCode::PageDown, 2_000);
    let _drawn = draw(&mut dialog, (40, 10), at(2_000));
    let _end = press(&mut dialog, KeyCode::PageDown, 3_000);
    let _drawn = draw(&mut dialog, (40, 10), at(3_000));
    let _back = press(&mut dialog, KeyCode::Esc, 4_000);
    let _drawn = draw(&mut dialog, (40, 10), at(4_000));
    assert!(press(&mut dialog, KeyCode::Char('y'), 5_000).is_empty());
    assert!(!press(&mut dialog, KeyCode::Char('y'), 6_000).is_empty());
}

#[test]
fn a_diff_has_colours() {
    let diff = "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-old\n+new";
    let ask = payload(
        "path",
        "path_write",
        Some("edit"),
        "x",
        &json!([entry("diff", diff)]),
    );
    let mut dialog = open(shown(&ask, &json!([])));
    for whole in [false, true] {
        if whole {
            let _whole = control(&mut dialog, 'o', 1_000);
        }
        let cells = draw(&mut dialog, (80, 24), at(1_000));
        let rows = rows_of(&cells);
        for (line, colour) in [
            ("-old", Color::Red),
            ("+new", Color::Green),
            ("@@ -1", Color::Blue),
        ] {
            let y = rows.iter().position(|row| row.contains(line)).unwrap();
            let x = text::width(rows[y].split(line).next().unwrap());
            let cell = &cells[(u16::try_from(x).unwrap(), u16::try_from(y).unwrap())];
            assert_eq!(cell.fg, colour, "{line}");
        }
    }
}

#[test]
fn nothing_is_allowed_before_the_whole_core_was_on_the_screen() {
    let ask = payload("bash", "bash", Some("bash"), &"x".repeat(380), &json!([]));
    let mut dialog = open(shown(&ask, &json!([])));
    let small = rows_of(&draw(&mut dialog, (40, 10), at(0))).join("\n");
    assert!(small.contains("no yes before that"), "{small}");
    for ms in [1_000, 2_000, 3_000] {
        assert!(press(&mut dialog, KeyCode::Char('y'), ms).is_empty());
    }
    assert!(press(&mut dialog, KeyCode::Enter, 4_000).is_empty());
    // It is a screen that was too small, not an ask that cannot be allowed.
    let _seen = draw(&mut dialog, (80, 24), at(5_000));
    let _small_again = draw(&mut dialog, (40, 10), at(5_500));
    assert!(!press(&mut dialog, KeyCode::Enter, 6_000).is_empty());
}

#[test]
fn keys_and_presses_are_the_configurations() {
    let ask = payload("bash", "bash", Some("bash"), "make", &json!([]));
    let mut dialog = Dialog::new(DialogSettings {
        keys: DialogKeys {
            approve: '1',
            deny_with_reason: 'w',
            ..DialogKeys::default()
        },
        presses: Presses::One,
        ..settings()
    });
    let _shown = dialog.news(News::Show(Box::new(shown(&ask, &json!([])))), at(0));
    let rows = rows_of(&draw(&mut dialog, (80, 24), at(0))).join("\n");
    assert!(
        rows.contains("  1  Yes") && rows.contains("  w  No, provide"),
        "{rows}"
    );
    assert!(!rows.contains("twice"), "{rows}");
    assert!(press(&mut dialog, KeyCode::Char('y'), 1_000).is_empty());
    let [Act::Print(_), Act::Tell(told)] = &press(&mut dialog, KeyCode::Char('1'), 2_000)[..]
    else {
        panic!("it is not decided")
    };
    assert!(format!("{told:?}").contains("Once"), "{told:?}");
}

#[test]
fn an_arrow_that_is_held_down_moves_and_decides_nothing() {
    let ask = payload("bash", "bash", Some("bash"), "make", &json!([]));
    let mut dialog = open(shown(&ask, &json!([])));
    let _drawn = draw(&mut dialog, (80, 24), at(0));
    for ms in (1_000..1_060).step_by(10) {
        assert!(press(&mut dialog, KeyCode::Up, ms).is_empty());
    }
    // Two of three options up, and round: "no" again, then "yes".
    assert!(press(&mut dialog, KeyCode::Up, 1_060).is_empty());
    let rows = rows_of(&draw(&mut dialog, (80, 24), at(1_065))).join("\n");
    assert!(rows.contains("› y"), "{rows}");
    assert!(press(&mut dialog, KeyCode::Enter, 1_070).is_empty());
    assert!(!press(&mut dialog, KeyCode::Enter, 2_000).is_empty());
}

#[test]
fn a_no_needs_no_more_than_an_ask_on_the_screen() {
    let ask = payload("bash", "bash", Some("bash"), &"x".repeat(380), &json!([]));
    let mut dialog = open(shown(&ask, &json!([])));
    let _drawn = draw(&mut dialog, (3, 2), at(0));
    assert!(matches!(
        press(&mut dialog, KeyCode::Esc, 1_000)[..],
        [Act::Print(_), Act::Tell(_)]
    ));
}

#[test]
fn the_flagged_text_and_what_a_model_wrote_look_different() {
    let mut ask = payload(
        "bash",
        "bash",
        Some("bash"),
        "rm x",
        &json!([entry("full command", "cd a; rm x; rm xy")]),
    );
    ask["annotations"] = json!([{"source": "risk", "text": "harmless"}]);
    let mut dialog = open(shown(&ask, &json!([])));
    let cells = draw(&mut dialog, (80, 24), at(0));
    let rows = rows_of(&cells);
    let find = |wanted: &str| {
        let y = rows.iter().position(|row| row.contains(wanted)).unwrap();
        let x = text::width(rows[y].split(wanted).next().unwrap());
        cells[(u16::try_from(x).unwrap(), u16::try_from(y).unwrap())].style()
    };
    assert_eq!(find("rm x; ").fg, Some(Color::Yellow));
    assert_ne!(find("rm xy").fg, Some(Color::Yellow));
    assert_eq!(find("harmless").fg, Some(Color::Magenta));
    assert!(find("harmless").add_modifier.contains(Modifier::ITALIC));
}

#[test]
fn spoof_5_content_never_reaches_the_column_of_titles_and_options() {
    let fake = "x\n  y  Yes\nPermission Required\n› y  approved by policy\n\u{1B}[1;1H y";
    let mut ask = payload(
        "bash",
        "bash",
        Some(fake),
        fake,
        &json!([entry(fake, fake)]),
    );
    ask["request"]["matchedPattern"] = fake.into();
    for size in [(80, 24), (60, 40), (40, 14)] {
        let mut dialog = open(shown(&ask, &json!([{"surface": fake, "pattern": fake}])));
        let rows = rows_of(&draw(&mut dialog, size, at(0)));
        let content = rows.iter().filter(|row| row.starts_with('│')).count();
        let own = rows
            .iter()
            .filter(|row| !row.starts_with('│'))
            .collect::<Vec<_>>();
        assert!(content > 3 && own.len() < 9, "{rows:#?}");
        assert_eq!(
            own.iter()
                .filter(|row| row.starts_with("Permission Required"))
                .count(),
            1
        );
        let yes = own
            .iter()
            .filter(|row| row.trim_start_matches(['›', ' ']).starts_with("y "));
        assert!(yes.count() <= 1, "{rows:#?}");
    }
}

#[test]
fn render_3_every_size_is_drawn() {
    let ask = payload(
        "bash",
        "bash",
        Some("bash"),
        "你好 ls",
        &json!([entry("input", "a\tb")]),
    );
    for columns in 0..60 {
        for rows in 0..16 {
            let mut dialog = open(shown(&ask, &json!([{"surface": "bash", "pattern": "你*"}])));
            let _drawn = draw(&mut dialog, (columns, rows), at(0));
            let _armed = press(&mut dialog, KeyCode::Char('s'), 1_000);
            let _scope = press(&mut dialog, KeyCode::Char('s'), 2_000);
            let _drawn = draw(&mut dialog, (columns, rows), at(2_000));
            let _back = press(&mut dialog, KeyCode::Esc, 3_000);
            let mut dialog = open(shown(&ask, &json!([])));
            let _drawn = draw(&mut dialog, (columns, rows), at(0));
            let _armed = press(&mut dialog, KeyCode::Char('r'), 1_000);
            let _reason = press(&mut dialog, KeyCode::Char('r'), 2_000);
            let _drawn = draw(&mut dialog, (columns, rows), at(2_000));
        }
    }
}

proptest! {
    #[test]
    fn nothing_unseen_is_ever_drawn_and_every_core_fact_is(
        value in "(\\PC|.|\n){0,120}",
        rule in "(\\PC|.){0,60}",
        label in "(\\PC|.){0,30}",
        columns in 16_u16..100,
        rows in 4_u16..60,
    ) {
        let mut ask = payload("bash", "bash", Some("bash"), &value, &json!([entry(&label, &value)]));
        ask["request"]["matchedPattern"] = rule.into();
        let mut dialog = open(shown(&ask, &json!([])));
        let cells = draw(&mut dialog, (columns, rows), at(0));
        let drawn = rows_of(&cells);
        for row in &drawn {
            prop_assert!(!row.chars().any(|c| c != '\u{FE0F}' && text::is_hidden(c)), "{:?}", row);
        }
        let all = drawn.join("\n");
        let seen = dialog.open.as_ref().unwrap().core_seen;
        prop_assert!(seen || (all.contains('…') && all.contains("^O")), "{}", all);
        if seen && columns > 40 {
            for label in ["subagent", "tool", "rule", "directory"] {
                prop_assert!(all.contains(label), "{}", all);
            }
        }
    }
}

#[test]
fn tab_puts_an_ask_off_once_it_can_have_been_read() {
    let asked = payload("bash", "bash", Some("bash"), "make", &json!([]));
    let mut dialog = open(shown(&asked, &json!([])));
    let size = (80, 24);
    let _first = draw(&mut dialog, size, at(0));
    // Too soon, and then in a burst: it stays.
    assert!(press(&mut dialog, KeyCode::Tab, 100).is_empty());
    let hint = rows_of(&draw(&mut dialog, size, at(1_000))).pop().unwrap();
    assert!(hint.contains("Tab not now"), "{hint}");
    let _other = press(&mut dialog, KeyCode::Char('x'), 2_000);
    assert!(press(&mut dialog, KeyCode::Tab, 2_010).is_empty());
    assert!(dialog.open.is_some());
    // Neither where a reason is written nor where the whole is read does it mean that.
    for (code, ms) in [(KeyCode::Char('r'), 3_000), (KeyCode::Char('r'), 3_100)] {
        let _acts = press(&mut dialog, code, ms);
    }
    assert!(press(&mut dialog, KeyCode::Tab, 4_000).is_empty());
    let _back = press(&mut dialog, KeyCode::Esc, 5_000);
    let _read = control(&mut dialog, 'o', 6_000);
    assert!(press(&mut dialog, KeyCode::Tab, 7_000).is_empty());
    let _back = press(&mut dialog, KeyCode::Esc, 8_000);
    let _drawn = draw(&mut dialog, size, at(8_000));
    let acts = press(&mut dialog, KeyCode::Tab, 9_000);
    let [
        Act::Print(line),
        Act::Tell(PersonEvent::PutOff { id, via, .. }),
    ] = acts.as_slice()
    else {
        panic!("{acts:?}");
    };
    assert_eq!(line.to_string(), "not now: bash \"make\"; it waits on");
    assert_eq!((id.as_str(), *via), ("perm-1", UserSurface::Dialog));
    // Nothing is open: it is told what rests, and the same key wants to see it.
    let rests = InLine {
        waiting: 2,
        put_off: 2,
    };
    assert!(dialog.news(News::Waiting(rests), at(9_100)).is_empty());
    let rows = rows_of(&draw(&mut dialog, size, at(9_100)));
    assert!(rows[0].starts_with("2 put off · Tab shows"), "{rows:?}");
    let acts = press(&mut dialog, KeyCode::Tab, 9_200);
    assert!(matches!(acts[..], [Act::Tell(PersonEvent::Resume)]));
}

/// LIVE-6: an ask that goes leaves a line that says why, for good.
#[test]
fn why_an_ask_went_is_said_in_a_line_that_stays() {
    for why in [
        "a grant given just now allows it",
        "the rules were read again, and deny it",
        "its requester has taken it back",
        "the process that asked has ended",
        "something else is asked under its id",
        "it has expired: its requester waits no longer",
        "the session ends",
    ] {
        let asked = payload("bash", "bash", Some("bash"), "make", &json!([]));
        let mut dialog = open(shown(&asked, &json!([])));
        let _first = draw(&mut dialog, (80, 24), at(0));
        let acts = dialog.news(
            News::Withdraw {
                id: crate::wire::RequestId::parse("perm-1").unwrap(),
                why: why.to_owned(),
            },
            at(1_000),
        );
        let [Act::Print(line)] = acts.as_slice() else {
            panic!("{acts:?}");
        };
        let line = line.to_string();
        assert_eq!(
            line,
            format!("closed bash \"make\": {why}; you decided nothing")
        );
        // It stands above the frame that follows, on the screen of a terminal as well.
        let mut painter = crate::prompt::paint::Painter::new(crate::prompt::Colours::Plain);
        let size = Size::new(80, 24);
        let [Act::Print(printed)] = &acts[..] else {
            panic!()
        };
        painter.print(vec![printed.clone()], size);
        painter.paint(&dialog.draw(size, at(1_000)), size);
        let mut screen = vt100::Parser::new(24.try_into().unwrap(), 80.try_into().unwrap(), 0);
        screen.process(&painter.take());
        let contents = screen.screen().contents();
        let rows: Vec<&str> = contents.lines().map(str::trim_end).collect();
        let whole = rows.concat();
        assert!(whole.starts_with(&line), "{contents}");
        assert!(
            rows.iter().any(|row| row.contains("nothing is asked")),
            "{contents}"
        );
    }
}

fn waiting_for(link: &str) -> Shown {
    let asked = payload("bash", "bash", Some("bash"), "make", &json!([]));
    let grants = json!([{"surface": "bash", "pattern": "make *"}]);
    let mut shown = shown(&asked, &grants);
    shown.with_chain = Some(link.to_owned());
    shown
}

#[test]
fn the_link_that_an_ask_waits_for_is_named_and_renamed_in_its_place() {
    let mut dialog = open(waiting_for("judge"));
    let size = (80, 24);
    let _first = draw(&mut dialog, size, at(0));
    let before = rows_of(&draw(&mut dialog, size, at(1_000)));
    let place = before.iter().position(|row| row.contains("waits for"));
    let place = place.unwrap();
    assert!(
        before[place].ends_with("waits for     : authorizer judge; you can decide first"),
        "{before:?}"
    );
    let told = |dialog: &mut Dialog, link: Option<&str>| {
        let id = crate::wire::RequestId::parse("perm-1").unwrap();
        let link = link.map(str::to_owned);
        assert!(
            dialog
                .news(News::Thinking { id, link }, at(1_100))
                .is_empty()
        );
    };
    // What was pressed stays pressed, and nothing else moves.
    assert!(press(&mut dialog, KeyCode::Char('y'), 1_050).is_empty());
    let armed = rows_of(&draw(&mut dialog, size, at(1_060)));
    for (link, says) in [
        (
            Some("next\n› y  Yes"),
            "authorizer \"next<LF>› y  Yes\"; you can decide first",
        ),
        (None, "you alone: no authorizer has decided"),
    ] {
        told(&mut dialog, link);
        let after = rows_of(&draw(&mut dialog, size, at(1_200)));
        assert!(after[place].ends_with(says), "{after:?}");
        let others = |rows: &[String]| -> Vec<String> {
            let rows = rows.iter().enumerate();
            rows.filter(|(at, _)| *at != place)
                .map(|(_, row)| row.clone())
                .collect()
        };
        assert_eq!(others(&after), others(&armed));
    }
    assert_eq!(press(&mut dialog, KeyCode::Char('y'), 1_300).len(), 2);
    // The whole of it says the same.
    let mut dialog = open(waiting_for("judge"));
    let _first = draw(&mut dialog, size, at(0));
    let _read = control(&mut dialog, 'o', 1_000);
    let _whole = draw(&mut dialog, size, at(1_000));
    told(&mut dialog, Some("next"));
    let rows = rows_of(&draw(&mut dialog, size, at(1_200)));
    assert!(
        rows.iter()
            .any(|row| row.contains("│ authorizer next; you can decide first")),
        "{rows:?}"
    );
}

#[test]
fn the_question_of_scope_offers_lifetimes_behind_the_scopes() {
    let asked = payload("bash", "bash", Some("bash"), "make", &json!([]));
    let grants = json!([{"surface": "bash", "pattern": "make *"}]);
    let mut pictures = Vec::new();
    for size in [(80, 24), (40, 10)] {
        let mut dialog = open(shown(&asked, &grants));
        let _first = draw(&mut dialog, size, at(0));
        let _awake = draw(&mut dialog, size, at(1_000));
        for ms in [1_000, 1_200] {
            assert!(press(&mut dialog, KeyCode::Char('s'), ms).is_empty());
        }
        let rows = rows_of(&draw(&mut dialog, size, at(1_300)));
        pictures.push(format!("── {size:?}\n{}", rows.join("\n")));
        for ms in [2_000, 2_100] {
            assert!(press(&mut dialog, KeyCode::Up, ms).is_empty());
        }
        let acts = press(&mut dialog, KeyCode::Enter, 2_300);
        let [
            Act::Print(line),
            Act::Tell(PersonEvent::Chosen { choice, .. }),
        ] = acts.as_slice()
        else {
            panic!("{acts:?}");
        };
        assert_eq!(
            line.to_string(),
            "approved bash \"make\" for the whole session, for 15 minutes"
        );
        let expected = crate::presentation::select::Choice::Session {
            scope: crate::presentation::select::GrantScope::ServingSession,
            width: crate::wire::GrantWidth::Proven,
            lifetime: crate::wire::Lifetime::For(Duration::from_mins(15)),
        };
        assert_eq!(*choice, expected);
    }
    insta::assert_snapshot!("scope", pictures.join("\n"));
}

/// Opens the question of scope about `make`, which the whole of the ask was seen of on a screen that is large enough.
fn at_scope() -> Dialog {
    let grants = json!([{"surface": "bash", "pattern": "make *"}]);
    let payload = payload("bash", "bash", Some("bash"), "make", &json!([]));
    let mut dialog = open(shown(&payload, &grants));
    let _first = draw(&mut dialog, (80, 24), at(0));
    let _awake = draw(&mut dialog, (80, 24), at(600));
    for ms in [1_000, 1_200] {
        assert!(press(&mut dialog, KeyCode::Char('s'), ms).is_empty());
    }
    dialog
}

#[test]
fn the_options_of_scope_are_told_apart_on_the_smallest_screen() {
    let mut pictures = Vec::new();
    for size in [(30, 10), (20, 6), (16, 4)] {
        let mut dialog = at_scope();
        let mut seen = std::collections::HashSet::new();
        for step in 0..4 {
            let rows = rows_of(&draw(&mut dialog, size, at(1_300 + step)));
            let chosen = rows.iter().find(|row| row.starts_with('›')).cloned();
            seen.insert(chosen.unwrap_or_else(|| panic!("{rows:#?}")));
            if step % 2 == 1 {
                pictures.push(format!("── {size:?}\n{}", rows.join("\n")));
            }
            assert!(press(&mut dialog, KeyCode::Down, 1_400 + step * 100).is_empty());
        }
        assert_eq!(seen.len(), 4, "{size:?}: {seen:?}");
    }
    insta::assert_snapshot!("scope_small", pictures.join("\n"));
}

#[test]
fn nothing_is_granted_on_a_screen_that_has_become_too_small() {
    let mut dialog = at_scope();
    let rows = rows_of(&draw(&mut dialog, (12, 3), at(2_000)));
    assert!(!rows.join(" ").contains("denies"), "{rows:?}");
    assert!(press(&mut dialog, KeyCode::Enter, 2_500).is_empty());
    let _again = draw(&mut dialog, (80, 24), at(3_000));
    let _awake = draw(&mut dialog, (80, 24), at(3_600));
    let acts = press(&mut dialog, KeyCode::Enter, 4_000);
    assert!(!acts.is_empty(), "the question is still there");
}
