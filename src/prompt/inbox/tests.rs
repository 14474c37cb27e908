use proptest::prelude::*;

use super::*;
use crate::prompt::keys::DEAD_TIME;
use crate::prompt::paint::Place;
use crate::serve::{Outcome, Resolution};
use crate::wire::{ForwardedPermissionRequest, PayloadKind};

/// Half past ten at the start of the clock.
const SETTINGS: i64 = (10 * 60 + 30) * 60_000;

fn id(text: &str) -> RequestId {
    RequestId::parse(text).unwrap()
}

fn digest(of: &str) -> Digest {
    Digest::of(of.as_bytes())
}

/// An ask whose payload is this one.
fn shown(name: &str, payload: &serde_json::Value) -> Shown {
    let bytes = serde_json::json!({
        "id": name, "createdAt": 1, "requesterSessionId": "child-1", "targetSessionId": "main",
        "requesterAgentName": "scout", "surface": payload["request"]["surface"],
        "value": payload["request"]["value"], "payload": payload,
        "accessIntent": {
            "surface": payload["request"]["surface"], "matchValues": [], "boundaryValue": null,
            "requesterCwd": "/home/me/project", "principal": {"sessionId": "child-1", "agentName": "scout"},
        },
    })
    .to_string();
    let request = ForwardedPermissionRequest::from_json(bytes.as_bytes()).unwrap();
    assert!(request.payload.is_some(), "{bytes}");
    Shown {
        request,
        digest: digest(name),
        asked_because: Some("rm *".to_owned()),
        annotations: Vec::new(),
        with_chain: None,
        in_line: crate::serve::InLine {
            waiting: 1,
            put_off: 0,
        },
        time_left: None,
        age: Duration::from_secs(7),
        alike: crate::serve::Alike::default(),
    }
}

fn payload(kind: &str, surface: &str, tool: Option<&str>, value: &str) -> serde_json::Value {
    serde_json::json!({
        "kind": kind,
        "request": {
            "requester": {"agentName": null, "forwarded": true, "sessionId": null},
            "surface": surface, "toolName": tool, "invokedToolName": null, "value": value,
            "matchedPattern": null, "commandContext": null, "executedUnit": null,
        },
        "evidence": [],
        "annotations": [],
    })
}

fn with_evidence(mut payload: serde_json::Value, label: &str, text: &str) -> serde_json::Value {
    payload["evidence"] = serde_json::json!([{"label": label, "text": text, "detail": null}]);
    payload
}

fn numbered(word: &str, count: usize) -> String {
    let lines: Vec<String> = (0..count).map(|number| format!("{word}{number}")).collect();
    lines.join("\n")
}

fn bash() -> serde_json::Value {
    payload("bash", "bash", Some("bash"), "rm -rf build && make")
}

fn listed(name: &str, agent: &str, state: ListedState) -> ListedAsk {
    ListedAsk {
        id: id(name),
        digest: digest(name),
        agent: agent.to_owned(),
        session: format!("session of {agent}"),
        kind: PayloadKind::Bash,
        since: Moment::default(),
        age_then: Duration::from_secs(50),
        state,
        with_chain: None,
        alike: 1,
    }
}

fn listing(names: &[&str]) -> Listing {
    Listing {
        asks: names
            .iter()
            .map(|name| listed(name, "scout", ListedState::Waiting))
            .collect(),
        ..Listing::default()
    }
}

/// An inbox on a screen, and a clock.
struct Desk {
    inbox: Inbox,
    size: Size,
    ms: u64,
    told: Vec<PersonEvent>,
}

impl Desk {
    fn new(columns: u16, rows: u16) -> Self {
        let settings = InboxSettings {
            session: "main".to_owned(),
            clock_start_ms: SETTINGS,
        };
        let mut desk = Self {
            inbox: Inbox::new(settings),
            size: Size::new(columns, rows),
            ms: 0,
            told: Vec::new(),
        };
        desk.draw();
        desk
    }

    fn now(&self) -> Moment {
        Moment::from_start(Duration::from_millis(self.ms))
    }

    fn draw(&mut self) -> Vec<String> {
        let now = self.now();
        let frame = self.inbox.draw(self.size, now);
        self.inbox.drawn(now);
        assert_eq!(frame.place, Place::Full);
        let cells = frame.cells;
        assert_eq!(
            (cells.area.width, cells.area.height),
            (self.size.width, self.size.height)
        );
        (0..cells.area.height)
            .map(|y| {
                let mut covered = 0;
                let mut row = String::new();
                for x in 0..cells.area.width {
                    if x >= covered {
                        let symbol = cells[(x, y)].symbol();
                        covered = x + u16::try_from(text::width(symbol)).unwrap();
                        row.push_str(symbol);
                    }
                }
                row.trim_end().to_owned()
            })
            .collect()
    }

    fn news(&mut self, news: News) {
        let acts = self.inbox.news(news, self.now());
        self.perform(acts);
    }

    fn perform(&mut self, acts: Vec<Act>) {
        for act in acts {
            if let Act::Tell(event) = act {
                self.told.push(event);
            }
        }
        self.draw();
    }

    fn list(&mut self, names: &[&str]) {
        self.news(News::List(Box::new(listing(names))));
    }

    fn open(&mut self, name: &str, payload: &serde_json::Value) {
        self.news(News::Show(Box::new(shown(name, payload))));
    }

    /// A key, pressed when the person has had time to look.
    fn key(&mut self, code: KeyCode) {
        self.ms += 1_000;
        self.draw();
        self.key_now(code, KeyModifiers::NONE);
    }

    fn key_now(&mut self, code: KeyCode, modifiers: KeyModifiers) {
        let key = Input::Key(KeyEvent::new(code, modifiers));
        let acts = self.inbox.input(key, self.now());
        self.perform(acts);
    }

    fn approve(&mut self) {
        self.ms += 1_000;
        self.draw();
        self.key_now(KeyCode::Char('a'), KeyModifiers::CONTROL);
    }

    fn take(&mut self) -> Vec<PersonEvent> {
        std::mem::take(&mut self.told)
    }

    fn is_silent(&mut self) -> bool {
        self.take().is_empty()
    }

    /// The choice that was made about this ask.
    fn chosen(&mut self, name: &str) -> Option<Choice> {
        let told = self.take();
        told.into_iter().find_map(|event| match event {
            PersonEvent::Chosen {
                id: chosen,
                digest: of,
                choice,
                by: Answerer::Person(_),
            } if chosen == id(name) && of == digest(name) => Some(choice),
            _ => None,
        })
    }
}

fn desk() -> Desk {
    Desk::new(80, 24)
}

// What is to be seen.

const SIZES: [(u16, u16); 4] = [(80, 24), (40, 10), (20, 5), (1, 12)];

/// Each of the sizes, the single column laid on its side.
fn at_all_sizes(prepare: impl Fn(&mut Desk)) -> String {
    let at = SIZES.map(|(columns, rows)| {
        let mut desk = Desk::new(columns, rows);
        prepare(&mut desk);
        desk.ms += 1_000;
        let separator = if columns == 1 { "|" } else { "\n" };
        let shown = desk.draw().join(separator);
        format!("── {columns}x{rows}\n{shown}\n")
    });
    at.concat()
}

#[test]
fn the_list_at_every_size() {
    let list = Listing {
        asks: vec![
            listed(
                "perm-2d45bb13-9016-43c0-8e0a-3da00217a8a9",
                "scout",
                ListedState::Waiting,
            ),
            ListedAsk {
                kind: PayloadKind::BashExternalDirectory,
                age_then: Duration::from_mins(4),
                ..listed(
                    "perm-2",
                    "build\n[y] allow   (approved by policy)",
                    ListedState::Open,
                )
            },
            ListedAsk {
                agent: String::new(),
                kind: PayloadKind::Mcp,
                age_then: Duration::from_hours(3),
                ..listed("perm-3", "你好", ListedState::Answering)
            },
        ],
        resolutions: [Outcome::Denied, Outcome::Approved, Outcome::Expired]
            .into_iter()
            .zip(1..)
            .map(|(outcome, ago)| Resolution {
                id: id(&format!("perm-done-{ago}")),
                agent: "scout".to_owned(),
                kind: PayloadKind::Tool,
                outcome,
                at: Moment::from_start(Duration::from_secs(60 - 10 * ago)),
            })
            .collect(),
        refused: 2,
    };
    insta::assert_snapshot!(at_all_sizes(|desk| {
        desk.news(News::List(Box::new(list.clone())));
    }));
    insta::assert_snapshot!("an_empty_list", at_all_sizes(|_| {}));
}

#[test]
fn the_review_of_each_kind_at_every_size() {
    let diff = "--- a/src/main.rs\n+++ b/src/main.rs\n@@ -1,3 +1,3 @@\n fn main() {\n-    run()\n+    run(\"你好\")\n }";
    let mut units = payload("bash", "bash", Some("bash"), "cd /t &&\n\trm -rf \u{202E}x");
    units["request"]["invokedToolName"] = "zsh".into();
    units["request"]["executedUnit"] = "rm -rf \u{202E}x".into();
    units["request"]["commandContext"] = "subshell".into();
    units["annotations"] = serde_json::json!([{"source": "judge", "text": "removes a tree"}]);
    for (name, payload) in [
        (
            "bash",
            with_evidence(units, "full command", "cd /t &&\n\t(rm -rf \u{202E}x)"),
        ),
        (
            "mcp",
            with_evidence(
                payload("mcp", "mcp", Some("mcp"), "github:create_issue"),
                "input",
                "{\n  \"title\": \"x\"\n}",
            ),
        ),
        (
            "tool",
            with_evidence(payload("tool", "edit", Some("edit"), "edit"), "diff", diff),
        ),
        (
            "path",
            payload("path", "path_write", Some("write"), "/etc/passwd"),
        ),
        (
            "external_directory",
            payload(
                "external_directory",
                "external_directory_read",
                Some("read"),
                "/srv/data",
            ),
        ),
        (
            "bash_external_directory",
            with_evidence(
                payload(
                    "bash_external_directory",
                    "external_directory",
                    Some("bash"),
                    "cat /srv/x",
                ),
                "external path",
                "/srv/x",
            ),
        ),
        ("skill", payload("skill", "skill", None, "deploy")),
        (
            "skill_read",
            payload("skill_read", "skill", Some("read"), "deploy"),
        ),
        (
            "forwarded",
            with_evidence(
                payload("forwarded", "bash", None, "ls"),
                "message",
                "May I?",
            ),
        ),
    ] {
        let kind = payload["kind"].as_str().unwrap().to_owned();
        assert_eq!(kind, name);
        insta::assert_snapshot!(
            format!("review_{name}"),
            at_all_sizes(|desk| {
                desk.list(&["perm-1", "perm-2"]);
                desk.open("perm-1", &payload);
            })
        );
    }
}

#[test]
fn a_screen_of_any_size_is_drawn_and_without_one_nothing_is_approved() {
    for (columns, rows) in [(0, 0), (0, 5), (5, 0), (1, 1), (2, 2), (15, 3), (300, 80)] {
        let mut desk = Desk::new(columns, rows);
        desk.list(&["a", "b"]);
        desk.open("a", &bash());
        if columns == 0 || rows == 0 {
            desk.approve();
            assert!(desk.is_silent(), "{columns}x{rows}");
        }
        desk.key(KeyCode::Esc);
        assert_eq!(desk.chosen("a"), Some(Choice::Deny));
    }
}

#[test]
fn a_review_that_appears_is_no_answer_to_keys_that_are_on_their_way() {
    let mut desk = desk();
    desk.list(&["a"]);
    desk.open("a", &bash());
    desk.ms += 1_000;
    desk.draw();
    desk.size = Size::ZERO;
    desk.ms += 1_000;
    desk.draw();
    desk.size = Size::new(80, 24);
    desk.draw();
    desk.ms += 100;
    desk.key_now(KeyCode::Char('a'), KeyModifiers::CONTROL);
    assert!(desk.is_silent());
    desk.approve();
    assert_eq!(desk.chosen("a"), Some(Choice::Once));
}

// What keys do.

#[test]
fn ctrl_a_approves_once_what_is_open_and_nothing_follows() {
    let mut desk = desk();
    desk.list(&["a", "b"]);
    desk.key(KeyCode::Enter);
    assert!(matches!(desk.take().as_slice(), [PersonEvent::Review(asked)] if *asked == id("a")));
    desk.open("a", &bash());
    desk.approve();
    assert_eq!(desk.chosen("a"), Some(Choice::Once));
    desk.list(&["b"]);
    desk.approve();
    desk.approve();
    assert!(desk.is_silent());
}

#[test]
fn enter_and_letters_decide_nothing_in_a_review() {
    let mut desk = desk();
    desk.list(&["a"]);
    desk.open("a", &bash());
    for code in "yYadnoA1".chars().map(KeyCode::Char) {
        desk.key(code);
    }
    desk.key(KeyCode::Enter);
    for modifiers in [KeyModifiers::ALT, KeyModifiers::ALT | KeyModifiers::CONTROL] {
        desk.ms += 1_000;
        desk.key_now(KeyCode::Char('a'), modifiers);
    }
    assert!(desk.is_silent());
    desk.key(KeyCode::Esc);
    assert_eq!(desk.chosen("a"), Some(Choice::Deny));
}

#[test]
fn a_review_is_left_undecided_with_q() {
    for code in [KeyCode::Char('q'), KeyCode::Backspace] {
        let mut desk = desk();
        desk.list(&["a"]);
        desk.open("a", &bash());
        desk.key(code);
        assert!(matches!(desk.take().as_slice(), [PersonEvent::Close(left)] if *left == id("a")));
        // What the session says to that is nothing new.
        let said = desk.inbox.message.clone();
        assert!(
            said.as_deref()
                .is_some_and(|said| said.starts_with("not now: bash"))
        );
        desk.news(News::Withdraw {
            id: id("a"),
            why: "it was left undecided".to_owned(),
        });
        assert_eq!(desk.inbox.message, said);
    }
}

#[test]
fn keys_1_keys_are_dead_for_a_while_and_as_long_as_they_keep_coming() {
    let dead = u64::try_from(DEAD_TIME.as_millis()).unwrap();
    let mut desk = desk();
    desk.list(&["a"]);
    desk.open("a", &bash());
    for _ in 0..5 {
        desk.ms += dead - 1;
        desk.key_now(KeyCode::Char('a'), KeyModifiers::CONTROL);
        desk.key_now(KeyCode::Esc, KeyModifiers::NONE);
    }
    assert!(desk.is_silent());
    // Looking around works all the time, and makes the others wait.
    desk.key_now(KeyCode::Char('/'), KeyModifiers::NONE);
    assert!(desk.inbox.open.as_ref().unwrap().reader.is_searching());
    desk.key_now(KeyCode::Esc, KeyModifiers::NONE);
    desk.ms += dead - 1;
    desk.key_now(KeyCode::Esc, KeyModifiers::NONE);
    assert!(desk.is_silent());
    desk.ms += dead;
    desk.key_now(KeyCode::Esc, KeyModifiers::NONE);
    assert_eq!(desk.chosen("a"), Some(Choice::Deny));
}

#[test]
fn keys_5_what_is_pasted_decides_nothing() {
    let mut desk = desk();
    desk.list(&["a"]);
    desk.open("a", &bash());
    desk.ms += 1_000;
    let acts = desk
        .inbox
        .input(Input::Paste("\u{1}\u{1B}y\n".to_owned()), desk.now());
    desk.perform(acts);
    desk.key_now(KeyCode::Char('a'), KeyModifiers::CONTROL);
    assert!(desk.is_silent());
    // A terminal without bracketed paste: the keys come faster than fingers do.
    desk.ms += 2_000;
    desk.key_now(KeyCode::Char('x'), KeyModifiers::NONE);
    for code in [KeyCode::Char('a'), KeyCode::Char('a')] {
        desk.key_now(code, KeyModifiers::CONTROL);
    }
    desk.key_now(KeyCode::Esc, KeyModifiers::NONE);
    assert!(desk.is_silent());
}

#[test]
fn nothing_is_approved_before_every_fact_was_on_the_screen() {
    let long = numbered("line ", 50);
    let mut desk = desk();
    desk.list(&["a"]);
    desk.open("a", &payload("bash", "bash", Some("bash"), &long));
    desk.approve();
    assert!(desk.is_silent());
    desk.key(KeyCode::End);
    desk.approve();
    assert!(desk.is_silent(), "the middle was not seen");
    desk.key(KeyCode::Home);
    for _ in 0..3 {
        desk.key(KeyCode::PageDown);
    }
    assert!(desk.draw().last().unwrap().contains("^A approves once"));
    desk.approve();
    assert_eq!(desk.chosen("a"), Some(Choice::Once));
}

#[test]
fn an_ask_is_denied_from_the_list_by_pressing_twice() {
    let mut desk = desk();
    desk.list(&["a", "b"]);
    desk.key(KeyCode::Char('j'));
    desk.key(KeyCode::Char('d'));
    assert!(desk.is_silent());
    assert!(
        desk.draw()
            .last()
            .unwrap()
            .starts_with("d again denies · b")
    );
    desk.key(KeyCode::Char('d'));
    assert!(
        matches!(desk.take().as_slice(), [PersonEvent::Denied { id: denied, digest: of, .. }]
        if *denied == id("b") && *of == digest("b"))
    );
    // Something else in between, a held key, another ask in its place: not meant.
    desk.key(KeyCode::Char('d'));
    desk.key(KeyCode::Char('k'));
    desk.key(KeyCode::Char('d'));
    desk.ms += 10;
    desk.key_now(KeyCode::Char('d'), KeyModifiers::NONE);
    desk.key(KeyCode::Char('d'));
    desk.list(&["b"]);
    desk.ms += 100;
    desk.key_now(KeyCode::Char('d'), KeyModifiers::NONE);
    assert!(desk.is_silent());
    // Other bytes under the same id.
    desk.key(KeyCode::Char('d'));
    let mut other = listing(&["b"]);
    other.asks[0].digest = digest("something else");
    desk.news(News::List(Box::new(other)));
    desk.key(KeyCode::Char('d'));
    assert!(desk.is_silent());
}

#[test]
fn another_ask_can_be_denied_while_a_review_stays_open() {
    let mut desk = desk();
    desk.list(&["a", "b"]);
    desk.open("a", &bash());
    desk.key(KeyCode::Tab);
    desk.key(KeyCode::Down);
    desk.key(KeyCode::Enter);
    assert!(desk.is_silent(), "one review at a time");
    desk.key(KeyCode::Char('d'));
    desk.key(KeyCode::Char('d'));
    assert!(
        matches!(desk.take().as_slice(), [PersonEvent::Denied { id: denied, .. }] if *denied == id("b"))
    );
    desk.list(&["a"]);
    desk.key(KeyCode::Tab);
    assert_eq!(desk.inbox.screen, Screen::Review);
    // The open one as well: then there is no review to go back to.
    desk.key(KeyCode::Tab);
    desk.key(KeyCode::Char('d'));
    desk.key(KeyCode::Char('d'));
    assert!(
        matches!(desk.take().as_slice(), [PersonEvent::Denied { id: denied, .. }] if *denied == id("a"))
    );
    desk.news(News::Withdraw {
        id: id("a"),
        why: "it was denied from the list".to_owned(),
    });
    assert_eq!(desk.inbox.message.as_deref(), Some("denying a"));
    desk.key(KeyCode::Tab);
    assert_eq!(desk.inbox.screen, Screen::List);
}

fn twin(name: &str, agent: &str) -> crate::serve::Twin {
    crate::serve::Twin {
        id: id(name),
        digest: digest(name),
        agent: agent.to_owned(),
        session: format!("child-of-{agent}"),
        path: Vec::new(),
        age: Duration::from_secs(50),
    }
}

fn like(twins: Vec<crate::serve::Twin>) -> Alike {
    Alike {
        likeness: Some(digest("what they have in common")),
        twins,
        more: false,
    }
}

/// A desk with the review of an ask that two others are like.
fn desk_of_three(columns: u16, rows: u16) -> Desk {
    let mut desk = Desk::new(columns, rows);
    let mut listing = listing(&["a", "b", "c", "d"]);
    for ask in listing.asks.iter_mut().take(3) {
        ask.alike = 3;
    }
    desk.news(News::List(Box::new(listing)));
    let mut shown = shown("a", &bash());
    shown.alike = like(vec![twin("b", "scout"), twin("c", "builder")]);
    desk.news(News::Show(Box::new(shown)));
    desk
}

#[test]
fn what_is_alike_is_marked_in_the_list_and_named_in_a_table() {
    let mut pictures = Vec::new();
    for (columns, rows) in [(80, 24), (40, 10)] {
        let mut desk = desk_of_three(columns, rows);
        desk.ms += 1_000;
        let review = desk.draw().join("\n");
        desk.key(KeyCode::Char('t'));
        desk.ms += 1_000;
        desk.draw();
        let table = desk.draw().join("\n");
        desk.key(KeyCode::Esc);
        desk.key(KeyCode::Char('q'));
        let list = desk.draw().join("\n");
        pictures.push(format!(
            "── {columns}x{rows}\n{review}\n── the table\n{table}\n── the list\n{list}"
        ));
    }
    insta::assert_snapshot!("together", pictures.join("\n"));
}

#[test]
fn all_of_a_table_are_answered_by_a_key_pressed_twice_and_nothing_follows() {
    for (letter, modifiers, verdict) in [
        ('a', KeyModifiers::CONTROL, Plain::Yes),
        ('d', KeyModifiers::NONE, Plain::No),
    ] {
        let mut desk = desk_of_three(80, 24);
        desk.key(KeyCode::Char('t'));
        // What was on its way, Enter, letters and what approves one.
        desk.key_now(KeyCode::Char(letter), modifiers);
        desk.key_now(KeyCode::Char(letter), modifiers);
        for code in [
            KeyCode::Enter,
            KeyCode::Char('a'),
            KeyCode::Char('y'),
            KeyCode::Char('n'),
        ] {
            desk.key(code);
            desk.key(code);
        }
        assert!(desk.is_silent());
        for _ in 0..2 {
            desk.ms += 1_000;
            desk.draw();
            desk.key_now(KeyCode::Char(letter), modifiers);
        }
        let told = desk.take();
        let [
            PersonEvent::AnsweredTogether {
                asks,
                likeness,
                verdict: said,
                ..
            },
        ] = &told[..]
        else {
            panic!("{told:?}");
        };
        assert_eq!(
            (*said, *likeness),
            (verdict, digest("what they have in common"))
        );
        let named: Vec<&str> = asks.iter().map(|(id, _)| id.as_str()).collect();
        assert_eq!(named, ["a", "b", "c"]);
        assert!(asks.iter().all(|(id, bytes)| *bytes == digest(id.as_str())));
        assert_eq!(desk.inbox.screen, Screen::List);
        desk.approve();
        desk.approve();
        assert!(desk.is_silent());
    }
}

#[test]
fn escape_leads_from_a_table_to_its_review_and_a_second_one_is_too_soon_to_deny() {
    let mut desk = desk_of_three(80, 24);
    desk.key(KeyCode::Char('t'));
    desk.key(KeyCode::Esc);
    desk.ms += 200;
    desk.key_now(KeyCode::Esc, KeyModifiers::NONE);
    assert!(desk.is_silent() && desk.inbox.open.is_some());
    // Nobody is like it any more: there is no table.
    let alike = Box::new(Alike::default());
    desk.news(News::Alike { id: id("a"), alike });
    desk.key(KeyCode::Char('t'));
    desk.key(KeyCode::Esc);
    assert_eq!(desk.chosen("a"), Some(Choice::Deny));
}

#[test]
fn the_link_that_an_ask_waits_for_is_named_in_the_list_and_in_the_review() {
    let mut desk = Desk::new(80, 24);
    let mut listing = listing(&["a", "b"]);
    listing.asks[0].with_chain = Some("jud\nge".to_owned());
    desk.news(News::List(Box::new(listing)));
    let rows = desk.draw().join("\n");
    assert!(rows.contains("thinking  a"), "{rows}");
    assert!(
        rows.contains("authorizer \"jud<LF>ge\" is thinking about it; you can decide first"),
        "{rows}"
    );
    let mut shown = shown("a", &with_evidence(bash(), "diff", &numbered("line ", 60)));
    shown.with_chain = Some("judge".to_owned());
    desk.news(News::Show(Box::new(shown)));
    desk.key(KeyCode::Down);
    desk.key(KeyCode::Down);
    let before = desk.draw();
    assert!(
        before
            .join("\n")
            .contains("waits for │ authorizer judge; you can decide first")
    );
    desk.news(News::Thinking {
        id: id("a"),
        link: None,
    });
    // It stands where it stood, and nobody loses their place.
    let after = desk.draw();
    let differing: Vec<_> = before
        .iter()
        .zip(&after)
        .filter(|(before, after)| before != after)
        .collect();
    assert_eq!(differing.len(), 1, "{differing:?}");
    assert!(
        differing[0]
            .1
            .ends_with("│ you alone: no authorizer has decided")
    );
    assert!(desk.inbox.open.as_ref().unwrap().reader.has_shown_core());
}

/// LIVE-6: the word is there until a key comes that was pressed after it could be read.
#[test]
fn why_an_ask_went_stays_until_it_can_have_been_read() {
    let mut desk = desk();
    desk.list(&["a"]);
    desk.open("a", &bash());
    desk.news(News::Withdraw {
        id: id("a"),
        why: "the rules were read again, and allow it".to_owned(),
    });
    desk.news(News::Notice("and something else".to_owned()));
    // Keys that were on their way to the review.
    for code in [KeyCode::Esc, KeyCode::Down, KeyCode::Char('q')] {
        desk.ms += 100;
        desk.key_now(code, KeyModifiers::NONE);
    }
    let rows = desk.draw().join("\n");
    for part in [
        "closed bash",
        "the rules were read again, and allow it",
        "you decided nothing",
        "and something else",
    ] {
        let found = rows.replace('\n', " ").contains(part);
        assert!(found, "{part}: {rows}");
    }
    desk.key(KeyCode::Down);
    assert_eq!(desk.inbox.message, None);
}

#[test]
fn an_ask_that_goes_away_leaves_the_screen_with_a_line_that_says_why() {
    let mut desk = desk();
    desk.list(&["a", "b"]);
    desk.open("a", &bash());
    desk.news(News::Withdraw {
        id: id("b"),
        why: "other".to_owned(),
    });
    assert_eq!(desk.inbox.screen, Screen::Review);
    desk.news(News::Withdraw {
        id: id("a"),
        why: "its requester is gone".to_owned(),
    });
    let rows = desk.draw().join("\n");
    assert!(
        rows.contains("closed bash \"rm -rf build && make\": its requester is gone; you"),
        "{rows}"
    );
    desk.approve();
    assert!(desk.is_silent());
    // One that was asked for and does not open says so as well, and another can be opened then.
    desk.key(KeyCode::Enter);
    desk.news(News::Withdraw {
        id: id("a"),
        why: "policy allows it by now".to_owned(),
    });
    assert!(
        desk.draw()
            .join("\n")
            .contains("a does not open: policy allows it by now")
    );
    desk.key(KeyCode::Down);
    desk.key(KeyCode::Enter);
    assert!(
        matches!(desk.take().as_slice(), [PersonEvent::Review(_), PersonEvent::Review(asked)] if *asked == id("b"))
    );
}

#[test]
fn a_review_is_scrolled_and_searched() {
    let lines = numbered("+line ", 2_000);
    let mut desk = desk();
    desk.list(&["a"]);
    desk.open("a", &with_evidence(bash(), "diff", &lines));
    let top = |desk: &Desk| desk.inbox.open.as_ref().unwrap().reader.top();
    desk.key(KeyCode::End);
    let end = top(&desk);
    assert!(desk.draw().iter().any(|row| row.contains("line 1999")));
    desk.key(KeyCode::Down);
    assert_eq!(top(&desk), end);
    desk.key(KeyCode::PageUp);
    assert_eq!(top(&desk), end - 21);
    desk.key(KeyCode::Home);
    assert_eq!(top(&desk), 0);
    desk.key(KeyCode::Char('/'));
    for character in "LINE 100".chars() {
        desk.key(KeyCode::Char(character));
    }
    assert_eq!(desk.draw().last().unwrap(), "/LINE 100");
    desk.key(KeyCode::Enter);
    assert!(desk.draw()[1].ends_with("+line 100"));
    assert!(desk.draw().last().unwrap().contains("n/N: 11 found"));
    desk.key(KeyCode::Char('n'));
    assert!(desk.draw()[1].ends_with("+line 1000"));
    desk.key(KeyCode::Char('N'));
    assert!(desk.draw()[1].ends_with("+line 100"));
    assert!(desk.is_silent());
}

#[test]
fn ages_are_shown_anew_once_a_second_and_only_while_something_waits() {
    let mut desk = desk();
    desk.ms = 100;
    desk.draw();
    assert_eq!(desk.inbox.due(), None);
    desk.list(&["a"]);
    desk.ms = 900;
    desk.draw();
    assert_eq!(desk.inbox.due(), Some(Moment::from_start(TICK)));
    desk.open("a", &bash());
    desk.ms = 5_000;
    desk.draw();
    desk.draw();
    assert_eq!(desk.inbox.due(), None, "a review shows no age");
}

#[derive(Debug, Clone)]
enum Step {
    Pass(u64),
    Key(KeyCode, KeyModifiers),
    Paste,
    List(Vec<&'static str>),
    Show(&'static str),
    Withdraw(&'static str),
    Resize(u16, u16),
}

fn step() -> impl Strategy<Value = Step> {
    let name = || prop::sample::select(vec!["a", "b", "c"]);
    let code = prop::sample::select(vec![
        KeyCode::Enter,
        KeyCode::Esc,
        KeyCode::Tab,
        KeyCode::Up,
        KeyCode::Down,
        KeyCode::PageDown,
        KeyCode::End,
        KeyCode::Char('a'),
        KeyCode::Char('d'),
        KeyCode::Char('q'),
        KeyCode::Char('/'),
        KeyCode::Char('n'),
    ]);
    let modifiers = prop::sample::select(vec![
        KeyModifiers::NONE,
        KeyModifiers::NONE,
        KeyModifiers::CONTROL,
        KeyModifiers::ALT,
    ]);
    prop_oneof![
        3 => prop::sample::select(vec![1, 30, 100, 401, 1_000]).prop_map(Step::Pass),
        8 => (code, modifiers).prop_map(|(code, modifiers)| Step::Key(code, modifiers)),
        1 => Just(Step::Paste),
        2 => prop::collection::vec(name(), 0..4).prop_map(|mut names| {
            names.sort_unstable();
            names.dedup();
            Step::List(names)
        }),
        2 => name().prop_map(Step::Show),
        1 => name().prop_map(Step::Withdraw),
        1 => (0_u16..60, 0_u16..20).prop_map(|(columns, rows)| Step::Resize(columns, rows)),
    ]
}

proptest! {
    /// Whatever is pressed and told in whatever order: only what is open is decided, by its own key, and not too soon.
    #[test]
    fn only_a_meant_key_decides_and_only_what_is_open(steps in prop::collection::vec(step(), 0..60)) {
        let mut desk = Desk::new(50, 12);
        let mut open: Option<(&str, u64)> = None;
        for step in steps {
            let pressed = match &step {
                Step::Key(code, modifiers) => Some((*code, *modifiers)),
                _ => None,
            };
            match step {
                Step::Pass(ms) => {
                    desk.ms += ms;
                    desk.draw();
                }
                Step::Key(code, modifiers) => desk.key_now(code, modifiers),
                Step::Paste => {
                    let acts = desk.inbox.input(Input::Paste("x".to_owned()), desk.now());
                    desk.perform(acts);
                }
                Step::List(names) => desk.list(&names),
                Step::Show(name) if open.is_none() => {
                    open = Some((name, desk.ms));
                    desk.open(name, &bash());
                }
                Step::Show(_) => {}
                Step::Withdraw(name) => {
                    desk.news(News::Withdraw { id: id(name), why: "it went".to_owned() });
                    open = open.filter(|(open, _)| *open != name);
                }
                Step::Resize(columns, rows) => {
                    desk.size = Size::new(columns, rows);
                    desk.draw();
                }
            }
            for event in desk.take() {
                match event {
                    PersonEvent::Chosen { id: of, digest: bytes, choice, .. } => {
                        let (name, since) = open.take().unwrap();
                        prop_assert_eq!((of, bytes), (id(name), digest(name)));
                        prop_assert!(desk.ms - since >= 400);
                        let expected = match choice {
                            Choice::Once => (KeyCode::Char('a'), KeyModifiers::CONTROL),
                            _ => (KeyCode::Esc, KeyModifiers::NONE),
                        };
                        prop_assert_eq!(pressed, Some(expected));
                    }
                    PersonEvent::Close(left) => {
                        let (name, _) = open.take().unwrap();
                        prop_assert_eq!(left, id(name));
                    }
                    PersonEvent::Review(_) => prop_assert!(open.is_none()),
                    PersonEvent::Denied { .. } => {
                        prop_assert_eq!(pressed, Some((KeyCode::Char('d'), KeyModifiers::NONE)));
                    }
                    PersonEvent::Unshowable { .. }
                    | PersonEvent::PutOff { .. }
                    | PersonEvent::Resume
                    | PersonEvent::AnsweredTogether { .. }
                    | PersonEvent::Unanswered { .. }
                    | PersonEvent::Gone
                    | PersonEvent::Leave => {
                        prop_assert!(false);
                    }
                }
            }
        }
    }
}
