//! The dialog on a real terminal: what a person sees, and which keys decide.

#![expect(clippy::disallowed_methods, reason = "a test takes a request away")]

use std::time::Duration;

use askrelay::clock;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::processes::Child;
use crate::support::screen::OnScreen;
use crate::support::spool::{TestSpool, age, request, until};

const ENTER: &str = "\r";
const ESCAPE: &str = "\x1b";
const DOWN: &str = "\x1b[B";

fn dialog(spool: &TestSpool) -> OnScreen {
    dialog_with(spool, &json!({}))
}

fn dialog_with(spool: &TestSpool, config: &Value) -> OnScreen {
    let screen = spool
        .serve("main")
        .config(&spool.config("main", config))
        .args(["--mode", "dialog"])
        .on_screen(80, 24);
    screen.await_text("nothing is asked");
    screen
}

fn by_dialog() -> Value {
    json!({
        "kind": "forwarded",
        "responderSessionId": "main",
        "decision": {"kind": "user", "via": "dialog"},
    })
}

#[test]
fn a_letter_pressed_twice_approves() {
    let spool = TestSpool::new();
    let mut screen = dialog(&spool);
    let child = spool.ask("main").value("rm -rf build").start();
    let shown = screen.await_question("rm -rf build");
    for part in [
        "Permission Required (Subagent)",
        "subagent",
        "scout · session child",
        "directory",
    ] {
        assert!(shown.contains(part), "{shown}");
    }
    screen.press("y");
    screen.await_text("press y again");
    screen.press("y");
    let ended = child.end();
    assert_eq!(ended.approved().json["decidedBy"], by_dialog());
    assert_eq!(ended.json["state"], "approved");
    let after = screen.await_text("approved bash \"rm -rf build\"");
    assert!(!after.contains("Permission Required"), "{after}");
}

#[test]
fn escape_denies_and_a_pasted_reason_reaches_the_child() {
    let spool = TestSpool::new();
    let mut screen = dialog(&spool);
    let child = spool.ask("main").value("make one").start();
    screen.await_question("make one");
    screen.press(ESCAPE);
    assert_eq!(child.end().denied().json["denialReason"], Value::Null);

    let child = spool.ask("main").value("make two").start();
    screen.await_question("make two");
    screen.press("r");
    screen.await_text("press r again");
    screen.press("r");
    screen.await_text("why not:");
    // Nothing is said yet.
    screen.press(ENTER);
    screen.await_text("say why");
    screen.paste("not today\r\nuse the bin");
    screen.await_question("why not: not today use the bin");
    screen.press(ENTER);
    let ended = child.end();
    assert_eq!(ended.denied().json["denialReason"], "not today use the bin");
    assert!(
        ended.stderr.contains("not today use the bin"),
        "{}",
        ended.stderr
    );
}

#[test]
fn a_grant_for_the_session_asks_for_whom() {
    let spool = TestSpool::new();
    let mut screen = dialog(&spool);
    let child = spool
        .ask("main")
        .value("git push")
        .grant("bash=git *")
        .start();
    screen.await_question("git push");
    screen.press("s");
    screen.await_text("press s again");
    screen.press("s");
    let scope = screen.await_question("Grant for whom?");
    assert!(scope.contains("This subagent only (scout)"), "{scope}");
    // Back, and again with the arrows: the dialog opens on "no".
    screen.press(ESCAPE);
    screen.await_question("› n  No");
    screen.press("k");
    screen.await_text("› s  Yes");
    screen.press(ENTER);
    screen.await_text("Grant for whom?");
    screen.press(DOWN);
    screen.await_text("› The whole session");
    screen.press(ENTER);
    child.end().approved();
    spool.ask("main").value("git pull").run().approved();
}

#[test]
fn keys_1_and_7_what_is_typed_ahead_or_sent_in_one_go_decides_nothing() {
    let spool = TestSpool::new();
    let mut screen = dialog(&spool);
    screen.send("yyyy\r\r");
    let child = spool.ask("main").value("make all").start();
    screen.await_text("make all");
    screen.send("yy\r");
    let started = clock::now();
    screen.await_question("make all");
    screen.send("yes please continue\r");
    screen.await_text("keys wake");
    screen.await_question("make all");
    screen.paste("y\ry\r");
    screen.await_text("keys wake");
    screen.await_question("make all");
    assert!(clock::now().since(started) >= askrelay::prompt::DEAD_TIME);
    assert!(spool.events("permission_request.approved").is_empty());
    screen.press("n");
    screen.await_text("press n again");
    screen.press("n");
    child.end().denied();
}

#[test]
fn two_asks_are_shown_one_after_the_other() {
    let spool = TestSpool::new();
    let mut screen = dialog(&spool);
    let first = spool.ask("main").value("make first").id("a-1").start();
    screen.await_question("make first");
    let second = spool
        .ask("main")
        .from("other")
        .value("make second")
        .id("a-2")
        .start();
    screen.await_text("1 more waiting");
    screen.press("y");
    screen.await_text("press y again");
    screen.press("y");
    first.end().approved();
    // The second press of a hasty hand is no answer to the next one.
    screen.send("y");
    let shown = screen.await_question("make second");
    assert!(!shown.contains("more waiting"), "{shown}");
    screen.press(ESCAPE);
    second.end().denied();
}

#[test]
fn an_ask_that_is_put_off_waits_behind_the_next_one_and_comes_back() {
    let spool = TestSpool::new();
    let mut screen = dialog(&spool);
    let mut first = spool.ask("main").value("make first").id("a-1").start();
    screen.await_question("make first");
    screen.press("\t");
    screen.await_text("not now: bash \"make first\"; it waits on");
    screen.await_text("1 put off · Tab shows it now");
    assert!(!first.running.has_ended());
    let second = spool
        .ask("main")
        .from("other")
        .value("make second")
        .id("a-2")
        .start();
    let shown = screen.await_question("make second");
    assert!(shown.contains("1 more waiting, 1 put off"), "{shown}");
    screen.press(ESCAPE);
    second.end().denied();
    screen.await_text("1 put off");
    screen.press("\t");
    screen.await_question("› n  No");
    screen.press("y");
    screen.await_text("press y again");
    screen.press("y");
    first.end().approved();
    let deferred = spool.events_of("permission_request.deferred", "a-1");
    assert_eq!(deferred.len(), 1);
    assert_eq!(deferred[0]["via"], "dialog");
    assert_eq!(
        spool.events_of("permission_request.waiting", "a-1").len(),
        1
    );
    assert_eq!(spool.ends_of("a-1").len(), 1);
}

/// Three children of two sessions that want the same, in the order of their ids.
fn three_alike(spool: &TestSpool) -> [Child; 3] {
    [("a-1", "child-1"), ("a-2", "child-2"), ("a-3", "child-1")].map(|(id, session)| {
        let ask = spool.ask("main").from(session).value("make deploy").id(id);
        let child = ask.start();
        spool.await_event("forwarded_permission.prompted", id);
        child
    })
}

/// Opens the table of asks that are alike.
fn open_table(screen: &mut OnScreen) -> String {
    screen.await_question("a  Yes, for these 3 asks");
    screen.press("a");
    screen.await_text("press a again");
    screen.press("a");
    screen.await_question("a a: yes to all 3")
}

#[test]
fn conc_3_asks_that_are_alike_are_answered_together_each_once_after_each_was_named() {
    let spool = TestSpool::new();
    let mut screen = dialog(&spool);
    let children = three_alike(&spool);
    let other = spool.ask("main").value("make clean").id("b-1").start();
    spool.await_event("forwarded_permission.prompted", "b-1");
    let table = open_table(&mut screen);
    for part in [
        "command   │ make deploy",
        "a-1",
        "a-2",
        "a-3",
        "child-1",
        "child-2",
    ] {
        assert!(table.contains(part), "{part}: {table}");
    }
    assert!(!table.contains("b-1"), "{table}");
    screen.press("a");
    screen.await_text("a again: yes to all 3");
    screen.press("a");
    for (child, id) in children.into_iter().zip(["a-1", "a-2", "a-3"]) {
        let ended = child.end();
        assert_eq!(ended.approved().json["decidedBy"], by_dialog());
        assert_eq!(ended.json["state"], "approved");
        for event in [
            "permission_request.approved",
            "forwarded_permission.approved",
        ] {
            let entries = spool.events_of(event, id);
            assert_eq!(entries.len(), 1, "{event} of {id}");
            assert_eq!(entries[0]["batch"], json!({"first": "a-1", "count": 3}));
        }
        assert_eq!(spool.ends_of(id).len(), 1, "{id}");
    }
    screen.await_text("approved 3 asks: bash \"make deploy\"");
    // The one that is not like them is asked as ever.
    screen.await_question("make clean");
    screen.press(ESCAPE);
    other.end().denied();
    assert!(
        spool.events_of("permission_request.denied", "b-1")[0]
            .get("batch")
            .is_none()
    );
}

#[test]
fn conc_3_one_that_is_withdrawn_while_the_table_is_open_is_not_answered_and_that_is_said() {
    let spool = TestSpool::new();
    let mut screen = dialog(&spool);
    let [first, mut second, third] = three_alike(&spool);
    let _table = open_table(&mut screen);
    second.running.signal(Signal::INT);
    assert_eq!(second.running.exit_code(), 130);
    screen.await_question("1 of them gone meanwhile");
    // One that comes now is no part of it either.
    let late = spool
        .ask("main")
        .from("child-3")
        .value("make deploy")
        .id("a-4")
        .start();
    spool.await_event("forwarded_permission.prompted", "a-4");
    screen.press("a");
    screen.await_text("a again: yes to all 3");
    screen.press("a");
    first.end().approved();
    third.end().approved();
    screen.await_text("not answered with the others: a-2");
    assert!(
        spool
            .events_of("forwarded_permission.approved", "a-2")
            .is_empty()
    );
    screen.await_question("session child-3");
    screen.press(ESCAPE);
    late.end().denied();
}

#[test]
fn the_picture_of_a_table_in_the_documentation_is_what_is_to_be_seen() {
    let spool = TestSpool::new();
    let mut screen = dialog(&spool);
    let asks = [
        ("perm-1", "worker-1", "builder"),
        ("perm-2", "worker-2", "builder"),
        ("perm-3", "worker-7", "reviewer"),
    ];
    for (id, session, agent) in asks {
        let mut ask = request(id, "main", "bash", "cargo test --workspace");
        ask["requesterSessionId"] = session.into();
        ask["requesterAgentName"] = agent.into();
        ask["payload"]["request"]["matchedPattern"] = "cargo *".into();
        // It is as old as that when it appears.
        let elsewhere = spool.below(id);
        spool.put(&elsewhere, ask.to_string());
        age(&elsewhere, Duration::from_mins(3));
        spool.rename(&elsewhere, &spool.request_path("main", id));
        spool.await_event("forwarded_permission.prompted", id);
    }
    let _table = open_table(&mut screen);
    screen.press("a");
    screen.await_text("a again: yes to all 3");
    screen.assert_picture(
        "together",
        "asks that are alike",
        "A table of three asks that are alike, before they are answered together",
    );
}

#[test]
fn everything_of_an_ask_is_one_key_away_and_a_withdrawal_closes_it() {
    let spool = TestSpool::new();
    let mut screen = dialog(&spool);
    let diff: String = (1..=2_000).fold(
        "--- a/x\n+++ b/x\n@@ -1,0 +1,2000 @@".to_owned(),
        |diff, n| diff + &format!("\n+line {n}"),
    );
    let mut ask = request("perm-1", "main", "edit", "src/x");
    ask["payload"]["evidence"] = json!([{"label": "diff", "text": diff, "detail": null}]);
    spool.put_request("main", &ask);
    screen.await_question("… ^O shows all");
    screen.press("\x0f");
    screen.await_text("+line 1");
    screen.press("\x1b[F");
    screen.await_text("+line 2000");
    screen.press("/");
    screen.send("line 1234");
    screen.await_text("/line 1234");
    screen.press(ENTER);
    screen.await_text("1 found");
    screen.await_text("+line 1234");
    // Back: the same question, undecided, and the scrollback as it was.
    screen.press(ESCAPE);
    let back = screen.await_question("› n  No");
    assert!(back.contains("serving session main"), "{back}");
    screen.press("\x0f");
    screen.await_text("+line 1");
    std::fs::remove_file(spool.request_path("main", "perm-1")).unwrap();
    let text = screen.await_text("closed edit \"src/x\"");
    assert!(text.contains("nothing is asked"), "{text}");
    assert!(spool.events("permission_request.denied").is_empty());
}

#[test]
fn a_withdrawn_ask_leaves_the_screen_with_a_word() {
    let spool = TestSpool::new();
    let screen = dialog(&spool);
    let mut child = spool.ask("main").value("make gone").start();
    screen.await_question("make gone");
    child.running.signal(Signal::INT);
    assert_eq!(child.running.exit_code(), 130);
    let text = screen.await_text("closed bash \"make gone\"");
    assert!(text.contains("you decided nothing"), "{text}");
    screen.await_text("nothing is asked");
}

#[test]
fn render_5_the_terminal_is_given_back_at_every_end() {
    for signal in [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT] {
        let spool = TestSpool::new();
        let mut screen = dialog(&spool);
        let child = spool.ask("main").value("make it").start();
        screen.await_question("make it");
        assert!(!screen.is_cooked());
        screen.signal(signal);
        assert_eq!(screen.exit_code(), 0, "{signal:?}");
        assert!(screen.is_cooked(), "{signal:?}");
        // No pastes, and a cursor again.
        for sequence in ["\x1b[?2004l", "\x1b[?25h"] {
            until("the terminal's modes", || {
                screen.written().contains(sequence)
            });
        }
        // To leave a screen that was not entered puts the cursor where it was some time ago.
        assert!(!screen.written().contains("\x1b[?1049l"), "{signal:?}");
        child.end().unruled();
    }
    // A key that means the same.
    let spool = TestSpool::new();
    let mut screen = dialog(&spool);
    screen.send("\x03");
    assert_eq!(screen.exit_code(), 0);
    assert!(screen.is_cooked());
}

/// Run on a terminal by the test below: a dialog is open, and another thread's fault ends the process.
#[test]
#[ignore = "needs a terminal, which the test below gives it"]
fn panics_with_a_dialog_open() {
    let (events, _person) = tokio::sync::mpsc::unbounded_channel();
    let settings = askrelay::prompt::DialogSettings {
        session: "main".to_owned(),
        budget: askrelay::presentation::fit::Budget::default(),
        keys: askrelay::policy::DialogKeys::default(),
        presses: askrelay::prompt::Presses::Two,
    };
    let colours = askrelay::prompt::Colours::Plain;
    let prompter = askrelay::prompt::TerminalPrompter::dialog(settings, colours, events).unwrap();
    // Nothing but the panic itself can give the terminal back.
    let _never_dropped = Box::leak(Box::new(prompter));
    panic!("a fault");
}

#[test]
fn render_5_the_terminal_is_given_back_by_a_panic() {
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    command.args([
        "--exact",
        "screen_dialog::panics_with_a_dialog_open",
        "--ignored",
        "--nocapture",
    ]);
    let mut screen = OnScreen::start(&command, 80, 24);
    screen.await_text("a fault");
    assert_ne!(screen.exit_code(), 0);
    assert!(screen.is_cooked());
    until("a cursor again", || screen.written().contains("\x1b[?25h"));
}

#[test]
fn render_3_a_screen_of_another_size_shows_the_ask_anew() {
    let spool = TestSpool::new();
    let mut screen = dialog(&spool);
    let child = spool.ask("main").value("make wide").start();
    screen.await_question("make wide");
    for (columns, rows) in [(40, 10), (200, 50), (20, 5), (1, 1), (3, 2)] {
        screen.resize(columns, rows);
        until("a frame of that size", || !screen.text().trim().is_empty());
    }
    // Too small to show it: nothing is allowed.
    screen.await_text("An");
    screen.press("y");
    screen.press("y");
    screen.press(ENTER);
    screen.resize(80, 24);
    screen.await_question("make wide");
    assert!(spool.events("permission_request.approved").is_empty());
    screen.press("y");
    screen.await_text("press y again");
    screen.press("y");
    child.end().approved();
}

#[test]
fn keys_3_a_terminal_that_hangs_up_is_no_answer() {
    let spool = TestSpool::new();
    let screen = dialog(&spool);
    let child = spool.ask("main").value("make it").start();
    screen.await_question("make it");
    drop(screen);
    child.end().unruled();
}

#[test]
fn the_picture_in_the_documentation_is_what_is_to_be_seen() {
    let spool = TestSpool::new();
    let note = json!({"text": "changes the production host"}).to_string();
    let screen = dialog_with(
        &spool,
        &json!({
            "annotatorChain": ["risk"],
            "annotators": {"risk": {"command": ["/bin/echo", note], "timeoutMs": 60_000}},
        }),
    );
    let mut ask = request("perm-1", "main", "bash", "cd srv && sudo make deploy");
    ask["payload"]["request"]["matchedPattern"] = "make *".into();
    ask["sessionApproval"] = json!({"grants": [{"surface": "bash", "pattern": "make deploy*"}]});
    spool.put_request("main", &ask);
    screen.await_question("make deploy");
    screen.assert_picture(
        "dialog",
        "Permission Required",
        "The dialog: who asks, what would run, and four answers",
    );
}
