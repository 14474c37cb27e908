//! The inbox on a real terminal: a list, one review at a time, and which keys decide.

use std::path::PathBuf;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::processes::Child;
use crate::support::screen::OnScreen;
use crate::support::spool::{TestSpool, age, request, until};

const ENTER: &str = "\r";
const ESCAPE: &str = "\x1b";
const UP: &str = "\x1b[A";
const DOWN: &str = "\x1b[B";
const PAGE_DOWN: &str = "\x1b[6~";
const CTRL_A: &str = "\x01";

fn inbox_of_size(spool: &TestSpool, config: Option<PathBuf>, columns: u16, rows: u16) -> OnScreen {
    let serve = spool.serve("main").args(["--mode", "inbox"]);
    let serve = match config {
        Some(config) => serve.config(&config),
        None => serve,
    };
    serve.on_screen(columns, rows)
}

fn inbox(spool: &TestSpool) -> OnScreen {
    let screen = inbox_of_size(spool, None, 80, 24);
    screen.await_text("nothing waits");
    screen
}

fn ask(spool: &TestSpool, id: &str, value: &str) -> Child {
    let child = spool.ask("main").id(id).value(value).start();
    spool.await_event("permission_request.waiting", id);
    child
}

/// Opens the review of the selected ask, and waits until keys count there.
fn review(screen: &mut OnScreen, value: &str) -> String {
    screen.await_question("Enter reviews");
    screen.press(ENTER);
    screen.await_text(value);
    screen.await_question("Esc denies")
}

/// Presses keys that change nothing in a review, and waits until they have been read: keys that pile up count as a burst.
fn press_in_vain(screen: &mut OnScreen, keys: &[&str]) {
    for key in keys {
        screen.press(key);
    }
    screen.press("/");
    until("a line to write into", || screen.text().ends_with("\n/"));
    screen.press(ESCAPE);
    screen.await_question("Esc denies");
}

fn is_selected(screen: &OnScreen, id: &str) -> bool {
    let text = screen.text();
    text.lines()
        .any(|row| row.starts_with("› ") && row.ends_with(id))
}

fn outcome(spool: &TestSpool, id: &str) -> Value {
    spool.await_event("permission_request.resolved", id)["outcome"].clone()
}

#[test]
fn asks_wait_in_a_list_until_one_is_opened_and_ctrl_a_approves_that_one() {
    let spool = TestSpool::new();
    let mut screen = inbox(&spool);
    let first = ask(&spool, "a-1", "make first");
    let mut second = ask(&spool, "a-2", "make second");
    let list = screen.await_text("2 waiting");
    for part in [
        "age", "agent", "session", "kind", "state", "scout", "bash", "waiting", "a-1", "a-2",
    ] {
        assert!(list.contains(part), "{part}: {list}");
    }
    assert!(!list.contains("make"), "nothing opens by itself: {list}");
    let shown = review(&mut screen, "make first");
    assert!(shown.contains("^A approves once"), "{shown}");
    assert!(shown.contains("1 more"), "{shown}");
    // Neither Enter nor a letter decides.
    press_in_vain(&mut screen, &[ENTER, "y", "a"]);
    assert!(spool.events("permission_request.approved").is_empty());
    screen.press(CTRL_A);
    let ended = first.end();
    assert_eq!(
        ended.approved().json["decidedBy"]["decision"],
        json!({"kind": "user", "via": "dialog"})
    );
    assert_eq!(ended.json["state"], "approved");
    assert_eq!(outcome(&spool, "a-1"), "approved");
    // No next review: the same keys once more decide nothing.
    let list = screen.await_text("settled lately");
    assert!(
        list.contains("1 waiting") && list.contains("approved"),
        "{list}"
    );
    for _ in 0..3 {
        screen.press(CTRL_A);
    }
    screen.await_question("Enter reviews");
    assert!(!second.running.has_ended());
    assert_eq!(spool.events("permission_request.approved").len(), 1);
    second.running.signal(Signal::INT);
    assert_eq!(outcome(&spool, "a-2"), "cancelled");
}

#[test]
fn escape_denies_and_q_leaves_undecided() {
    let spool = TestSpool::new();
    let mut screen = inbox(&spool);
    let child = ask(&spool, "a-1", "make it");
    review(&mut screen, "make it");
    screen.press("q");
    let list = screen.await_question("Enter reviews");
    assert!(list.contains("waiting"), "{list}");
    review(&mut screen, "make it");
    screen.press(ESCAPE);
    child.end().denied();
    assert_eq!(outcome(&spool, "a-1"), "denied");
    screen.await_text("nothing waits");
}

#[test]
fn asks_that_are_alike_are_answered_from_a_table_that_a_review_opens() {
    let spool = TestSpool::new();
    let mut screen = inbox(&spool);
    let mut children = Vec::new();
    for (id, session) in [("a-1", "child-1"), ("a-2", "child-2")] {
        let child = spool
            .ask("main")
            .from(session)
            .id(id)
            .value("make deploy")
            .start();
        spool.await_event("permission_request.waiting", id);
        children.push(child);
    }
    let other = ask(&spool, "b-1", "make clean");
    screen.await_text("3 waiting");
    let list = screen.await_text("×2 bash");
    assert_eq!(list.matches("×2 bash").count(), 2, "{list}");
    while !is_selected(&screen, "a-1") {
        screen.press(UP);
    }
    review(&mut screen, "make deploy");
    screen.press("t");
    let table = screen.await_question("^A ^A: yes to all 2");
    for part in ["make deploy", "a-1", "a-2", "child-2"] {
        assert!(table.contains(part), "{part}: {table}");
    }
    screen.press(CTRL_A);
    screen.await_text("^A again: yes to all 2");
    screen.press(CTRL_A);
    for child in children {
        child.end().approved();
    }
    assert_eq!(outcome(&spool, "a-2"), "approved");
    let list = screen.await_text("approved 2 asks");
    assert!(list.contains("1 waiting"), "{list}");
    for id in ["a-1", "a-2"] {
        let entries = spool.events_of("forwarded_permission.approved", id);
        assert_eq!(entries.len(), 1, "{id}");
        assert_eq!(entries[0]["batch"], json!({"first": "a-1", "count": 2}));
    }
    drop(other);
}

#[test]
fn a_review_that_is_left_waits_on_and_that_is_recorded_each_time() {
    let spool = TestSpool::new();
    let mut screen = inbox(&spool);
    let child = ask(&spool, "a-1", "make it");
    for _ in 0..2 {
        review(&mut screen, "make it");
        screen.press("q");
        screen.await_text("not now: bash \"make it\"; it waits on");
        screen.await_question("Enter reviews");
    }
    let deferred = spool.events_of("permission_request.deferred", "a-1");
    assert_eq!(deferred.len(), 2);
    review(&mut screen, "make it");
    screen.press(CTRL_A);
    child.end().approved();
}

#[test]
fn an_ask_is_denied_by_its_id_while_another_is_open() {
    let spool = TestSpool::new();
    let mut screen = inbox(&spool);
    let mut first = ask(&spool, "a-1", "make first");
    let second = ask(&spool, "a-2", "make second");
    review(&mut screen, "make first");
    screen.press("\t");
    screen.await_question("Tab: the open review");
    screen.press(DOWN);
    until("a-2 to be chosen", || is_selected(&screen, "a-2"));
    screen.press("d");
    screen.await_text("d again denies · a-2");
    screen.press("d");
    second.end().denied();
    screen.await_question("1 waiting");
    screen.press("\t");
    screen.await_question("make first");
    assert!(!first.running.has_ended());
    screen.press(CTRL_A);
    first.end().approved();
}

#[test]
fn an_ask_that_is_withdrawn_while_it_is_open_leaves_the_screen_with_a_word() {
    let spool = TestSpool::new();
    let mut screen = inbox(&spool);
    let mut child = ask(&spool, "a-1", "make gone");
    review(&mut screen, "make gone");
    child.running.signal(Signal::INT);
    assert_eq!(child.running.exit_code(), 130);
    let list = screen.await_text("closed bash \"make gone\"");
    assert!(list.contains("you decided nothing"), "{list}");
    screen.await_text("nothing waits");
    assert_eq!(outcome(&spool, "a-1"), "cancelled");
}

#[test]
fn a_full_inbox_refuses_and_an_ask_that_waited_too_long_is_denied_as_unavailable() {
    let spool = TestSpool::new();
    let inbox = json!({"inbox": {"maxPending": 1, "expireMs": 700, "retain": 5}});
    let config = spool.config("inbox", &inbox);
    let screen = inbox_of_size(&spool, Some(config), 80, 24);
    screen.await_text("nothing waits");
    let first = ask(&spool, "a-1", "make first");
    let refused = spool.ask("main").id("a-2").value("make second").run();
    let reason = refused.unruled().json["denialReason"].as_str().unwrap();
    assert_eq!(
        reason,
        "the inbox of session \"main\" is full: inbox.maxPending is 1"
    );
    screen.await_text("1 refused: it was full");
    let ended = first.end();
    let reason = ended.unruled().json["denialReason"].as_str().unwrap();
    assert_eq!(
        reason,
        "it expired: nobody in session \"main\" decided it within 0.7 s"
    );
    assert_eq!(outcome(&spool, "a-1"), "expired");
    screen.await_text("expired");
}

#[test]
fn a_large_ask_is_scrolled_through_before_it_is_approved() {
    let spool = TestSpool::new();
    let mut screen = inbox(&spool);
    let script: Vec<String> = (0..2_000).map(|line| format!("echo {line}")).collect();
    let evidence = format!("diff={}", script.join("\n"));
    let child = spool
        .ask("main")
        .id("a-1")
        .value("sh big.sh")
        .args(["--evidence", &evidence])
        .start();
    let shown = review(&mut screen, "sh big.sh");
    assert!(shown.contains("of 20"), "{shown}");
    screen.press(PAGE_DOWN);
    screen.await_text("│ echo 30");
    screen.press("/");
    screen.send("echo 1999");
    screen.await_text("/echo 1999");
    screen.press(ENTER);
    screen.await_question("1 found");
    screen.await_text("│ echo 1999");
    screen.press(CTRL_A);
    child.end().approved();
}

#[test]
fn one_column_is_enough_to_decide() {
    let spool = TestSpool::new();
    let mut screen = inbox_of_size(&spool, None, 1, 40);
    let child = spool.ask("main").id("a-1").value("ls").start();
    spool.await_event("permission_request.waiting", "a-1");
    screen.await_text("…");
    // There is no room for words: the person waits, then opens it.
    screen.resize(30, 5);
    screen.await_question("Enter reviews");
    screen.press(ENTER);
    screen.await_text("compact view");
    screen.resize(1, 40);
    screen.await_text("c\no\nm\np\na\nc\nt");
    screen.resize(30, 5);
    screen.await_question("Esc denies");
    screen.press(ESCAPE);
    child.end().denied();
}

#[test]
fn the_terminal_of_the_inbox_is_given_back_at_every_end() {
    for signal in [Signal::TERM, Signal::HUP] {
        let spool = TestSpool::new();
        let mut screen = inbox(&spool);
        let child = ask(&spool, "a-1", "make it");
        review(&mut screen, "make it");
        assert!(!screen.is_cooked());
        screen.signal(signal);
        assert_eq!(screen.exit_code(), 0, "{signal:?}");
        assert!(screen.is_cooked(), "{signal:?}");
        for sequence in ["\x1b[?2004l", "\x1b[?1049l", "\x1b[?25h"] {
            until("the terminal's modes", || {
                screen.written().contains(sequence)
            });
        }
        child.end().unruled();
        assert_eq!(outcome(&spool, "a-1"), "retired");
    }
    // A key that means the same.
    let spool = TestSpool::new();
    let mut screen = inbox(&spool);
    screen.send("\x03");
    assert_eq!(screen.exit_code(), 0);
    assert!(screen.is_cooked());
}

#[test]
fn without_a_terminal_the_inbox_is_refused() {
    let spool = TestSpool::new();
    let mut running = spool.serve("main").args(["--mode", "inbox"]).spawn();
    assert_eq!(running.exit_code(), 2);
    assert!(
        running.stderr().contains("--mode select"),
        "{}",
        running.stderr()
    );
}

#[test]
fn the_pictures_in_the_documentation_are_what_is_to_be_seen() {
    let spool = TestSpool::new();
    let asks = [
        ("perm-1", "write", "src/main.rs", "scout", 250),
        ("perm-2", "bash", "make deploy", "builder", 130),
        ("perm-3", "bash", "git push origin main", "scout", 70),
    ];
    for (id, surface, value, agent, seconds) in asks {
        let mut ask = request(id, "main", surface, value);
        ask["requesterAgentName"] = agent.into();
        if surface == "write" {
            ask["payload"]["kind"] = "path".into();
            ask["payload"]["evidence"] = json!([{"label": "diff", "detail": null, "text": DIFF}]);
        }
        spool.put_request("main", &ask);
        age(
            &spool.request_path("main", id),
            Duration::from_secs(seconds),
        );
    }
    let mut screen = inbox_of_size(&spool, None, 80, 18);
    screen.await_question("3 waiting");
    // The oldest stands first, whichever was read first.
    while !is_selected(&screen, "perm-1") {
        let before = screen.text();
        screen.press(UP);
        until("another to be chosen", || screen.text() != before);
    }
    screen.await_question("› 4m");
    screen.await_question("Enter reviews");
    screen.assert_picture("inbox", "inbox of", "The inbox: what waits, and since when");
    review(&mut screen, "src/main.rs");
    screen.assert_picture(
        "review",
        "review of",
        "A review: the facts of an ask, and its whole change",
    );
}

const DIFF: &str = "--- a/src/main.rs\n+++ b/src/main.rs\n@@ -1,4 +1,5 @@\n fn main() {\n-    run();\n+    let config = Config::read();\n+    run(&config);\n     println!(\"done\");\n }";
