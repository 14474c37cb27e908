//! Either side ends itself at each step of an exchange; what holds afterwards.
//!
//! A debug build aborts where `ASKRELAY_TEST_FAULT` says. The server is started again and the child sees its ask through, or
//! asks anew: exactly one true answer, no approval without an allow, no second question about what was settled, and nothing
//! but the documented leftovers in the end.
#![expect(
    clippy::disallowed_methods,
    reason = "tests lay out files and look at what a crash left behind"
)]

use std::fs;

use serde_json::Value;

use crate::support::hostile::{Answer, Field, Run, names, request, skipped};
use crate::support::spool::until;

/// What the server does with a good request, in this order.
const SERVER_STEPS: [&str; 6] = [
    "requests/read",
    "recorded",
    "responses/written",
    "responses/renamed",
    "requests/removed",
    // The first heartbeat comes before all of them: the server ends while it starts.
    "serving/renamed",
];

/// What a child does, in this order.
const CHILD_STEPS: [&str; 4] = [
    "requests/written",
    "requests/renamed",
    "responses/read",
    "responses/removed",
];

/// Long enough for a restart on a machine under load; whoever is answered does not wait for it.
const PATIENT: [&str; 2] = ["--timeout", "100s"];

#[track_caller]
fn await_abort(run: &mut Run, step: &str) {
    use std::os::unix::process::ExitStatusExt as _;
    let status = run.await_end();
    assert_eq!(
        status.signal(),
        Some(6),
        "{step}: {status:?}, {}",
        run.stderr()
    );
}

/// What may lie in a spool after both sides have ended: no request, no heartbeat, no answer but one that nobody came for.
#[track_caller]
fn only_documented_leftovers(field: &Field, step: &str) {
    assert_eq!(
        names(&field.at("spool/serving"))
            .iter()
            .filter(|name| name.ends_with(".json"))
            .count(),
        0,
        "{step}"
    );
    assert_eq!(field.aside(), [], "{step}");
    for name in names(&field.requests()) {
        // A temporary file of a writer that was killed: for the operator's clean-up.
        assert!(name.ends_with(".tmp"), "{step}: {name}");
    }
}

/// An answer that the server gave is the rule's, and nobody else's.
#[track_caller]
fn is_rules(answer: &Answer, approved: bool, step: &str) {
    assert_eq!(answer.json["approved"], approved, "{step}: {answer:?}");
    assert_eq!(
        answer.code,
        Some(i32::from(!approved)),
        "{step}: {answer:?}"
    );
    assert_eq!(
        answer.json["decidedBy"]["kind"], "forwarded",
        "{step}: {answer:?}"
    );
    assert_ne!(
        answer.json["decidedBy"]["decision"]["kind"], "user",
        "{step}: {answer:?}"
    );
}

#[test]
fn a_server_that_ends_at_any_step_loses_no_ask_and_invents_no_answer() {
    for step in SERVER_STEPS {
        for (value, approved) in [("ls -la", true), ("rm -rf x", false)] {
            let field = Field::new();
            let mut first = field.serve_with_fault("headless", Some(step));
            if step == "serving/renamed" {
                // It ends before it serves anybody; a child is not needed to see that.
                await_abort(&mut first, step);
            }
            let ask = field.start_ask(value, &[&["--id", "r1"][..], &PATIENT].concat());
            if step != "serving/renamed" {
                await_abort(&mut first, step);
            }
            let second = field.serve("headless");
            let answer = ask.answer();
            if answer.json["abandoned"] == "not_serving" {
                // It saw nobody serving for longer than its patience: denied, and by nobody.
                assert_eq!(answer.code, Some(3), "{step}");
                skipped(&format!(
                    "{step}: the restart took longer than the child waits for it"
                ));
            } else {
                is_rules(&answer, approved, step);
            }
            // A fresh ask is served as if nothing had been.
            is_rules(&field.ask(value, &PATIENT), approved, step);
            second.stop();
            only_documented_leftovers(&field, step);
            let approvals = field.logged("forwarded_permission.approved");
            assert!(approved || approvals.is_empty(), "{step}: {approvals:#?}");
        }
    }
}

#[test]
fn a_server_that_ends_while_it_sets_something_aside_does_so_once() {
    for step in [
        "requests/read",
        "responses/renamed",
        "requests/moved",
        "quarantine/renamed",
    ] {
        let field = Field::new();
        let mut first = field.serve_with_fault("headless", Some(step));
        field.make_dirs();
        until("a heartbeat", || {
            field.at("spool/serving/main.json").exists()
        });
        field.put_request("bad.json", "{}");
        await_abort(&mut first, step);
        let second = field.serve("headless");
        assert_eq!(field.await_response("bad")["approved"], false, "{step}");
        until("an empty inbox", || {
            !field.requests().join("bad.json").exists()
        });
        field.a_good_ask_is_answered();
        second.stop();
        assert_eq!(field.aside().len(), 1, "{step}");
    }
}

/// The person says no; the server ends somewhere on the way to the answer.
#[test]
fn a_person_is_not_asked_again_about_what_was_settled() {
    for step in ["responses/renamed", "requests/removed"] {
        let field = Field::new();
        let mut first = field.serve_with_fault("select", Some(step));
        first.await_serving();
        let ask = field.start_ask("make all", &[&["--id", "r1"][..], &PATIENT].concat());
        until("a question", || {
            field.logged_of("permission_request.waiting", "r1") == 1
        });
        // So that it is the new server, and not the child, that finds the request and its answer.
        ask.freeze();
        first.type_line("3");
        await_abort(&mut first, step);
        let second = field.serve("select");
        until("a settled request", || {
            !field.requests().join("r1.json").exists()
        });
        ask.signal(rustix::process::Signal::CONT);
        let answer = ask.answer();
        assert_eq!(answer.code, Some(1), "{step}: {answer:?}");
        assert_eq!(
            answer.json["decidedBy"]["decision"]["kind"], "user",
            "{step}: {answer:?}"
        );
        assert_eq!(
            field.logged_of("permission_request.waiting", "r1"),
            1,
            "{step}"
        );
        second.stop();
        only_documented_leftovers(&field, step);
        assert_eq!(names(&field.at("spool/sessions")), [""; 0], "{step}");
    }
}

/// Before the answer is published nothing is settled: the ask is put again, and an approval that was never given out counts
/// for nothing.
#[test]
fn what_was_not_published_was_not_decided() {
    for step in ["recorded", "responses/written"] {
        let field = Field::new();
        let mut first = field.serve_with_fault("select", Some(step));
        first.await_serving();
        let ask = field.start_ask("make all", &[&["--id", "r1"][..], &PATIENT].concat());
        until("a question", || {
            field.logged_of("permission_request.waiting", "r1") == 1
        });
        first.type_line("1");
        await_abort(&mut first, step);
        assert!(!field.responses().join("r1.json").exists(), "{step}");
        let mut second = field.serve("select");
        until("a question again, or an end", || {
            field.logged_of("permission_request.waiting", "r1") == 2
                || !field.requests().join("r1.json").exists()
        });
        second.type_line("3");
        let answer = ask.answer();
        assert_eq!(answer.json["approved"], false, "{step}: {answer:?}");
        assert!(matches!(answer.code, Some(1 | 3)), "{step}: {answer:?}");
        second.stop();
        only_documented_leftovers(&field, step);
    }
}

#[test]
fn a_child_that_ends_at_any_step_leaves_nothing_that_another_could_take() {
    for step in CHILD_STEPS {
        for mode in ["headless", "select"] {
            let field = Field::new();
            let mut server = field.serve(mode);
            let mut command = field.ask_command("ls -la", &["--id", "r1"]);
            command.env("ASKRELAY_TEST_FAULT", step);
            let mut child = Run::start(&field, &mut command);
            await_abort(&mut child, step);
            assert_eq!(child.stdout(), "", "{step}: nothing was decided for it");
            // The next child with the same id gets its own answer, whatever lies there.
            let answer = field.ask("rm -rf x", &["--id", "r1"]);
            is_rules(&answer, false, step);
            field.a_good_ask_is_answered();
            until("an empty inbox", || {
                names(&field.requests())
                    .iter()
                    .all(|name| !name.ends_with(".json"))
            });
            if mode == "select" {
                server.type_line("1");
            }
            server.stop();
            only_documented_leftovers(&field, step);
            // At most the answer that the dead child did not take.
            let left = names(&field.responses());
            assert!(left.len() <= 1, "{step}: {left:?}");
            assert_eq!(
                field.logged("permission_request.waiting").len(),
                0,
                "{step}"
            );
        }
    }
}

#[test]
fn a_child_that_ends_after_it_gave_up_leaves_nothing_in_line() {
    let field = Field::new();
    let mut command = field.ask_command("ls -la", &["--id", "r1"]);
    command.env("ASKRELAY_TEST_FAULT", "requests/removed");
    let mut child = Run::start(&field, &mut command);
    await_abort(&mut child, "requests/removed");
    assert_eq!(child.stdout(), "");
    assert_eq!(names(&field.requests()), [""; 0]);
    let server = field.serve("headless");
    is_rules(&field.ask("ls -la", &["--id", "r1"]), true, "again");
    server.stop();
    assert_eq!(names(&field.at("spool/sessions")), [""; 0]);
}

/// A child that asked a person and ended: the question goes, nobody is approved.
#[test]
fn a_question_of_a_child_that_ended_is_taken_away() {
    let field = Field::new();
    let mut server = field.serve("select");
    let mut command = field.ask_command("make all", &["--id", "r1"]);
    command.env("ASKRELAY_TEST_FAULT", "requests/renamed");
    let mut child = Run::start(&field, &mut command);
    await_abort(&mut child, "requests/renamed");
    until("an empty inbox", || {
        !field.requests().join("r1.json").exists()
    });
    server.type_line("1");
    field.a_good_ask_is_answered();
    assert_eq!(field.logged_of("forwarded_permission.approved", "r1"), 0);
    assert_eq!(
        field.logged_of("forwarded_permission.requester_gone", "r1"),
        1
    );
    server.stop();
    assert_eq!(names(&field.at("spool/sessions")), [""; 0]);
}

#[test]
fn both_sides_may_end() {
    for server_step in ["requests/read", "responses/renamed", "requests/removed"] {
        for child_step in ["requests/renamed", "responses/read", "responses/removed"] {
            let field = Field::new();
            let mut first = field.serve_with_fault("headless", Some(server_step));
            let mut command = field.ask_command("ls -la", &["--id", "r1"]);
            command.env("ASKRELAY_TEST_FAULT", child_step);
            let mut child = Run::start(&field, &mut command);
            // Whether each gets to its step depends on the other.
            until("an end of the child", || child.has_ended());
            if !first.has_ended() {
                first.signal(rustix::process::Signal::KILL);
            }
            let _ended = first.await_end();
            let what = format!("{server_step}, {child_step}");
            let second = field.serve("headless");
            is_rules(&field.ask("rm -rf x", &["--id", "r1"]), false, &what);
            until("an empty inbox", || {
                names(&field.requests())
                    .iter()
                    .all(|name| !name.ends_with(".json"))
            });
            second.stop();
            only_documented_leftovers(&field, &what);
        }
    }
}

/// A crash between answer and removal must not let another request in under the settled one's name.
#[test]
fn an_answer_of_before_settles_only_the_request_that_it_answers() {
    let field = Field::new();
    let mut first = field.serve_with_fault("headless", Some("responses/renamed"));
    field.make_dirs();
    until("a heartbeat", || {
        field.at("spool/serving/main.json").exists()
    });
    field.put_request("r1.json", request("r1", "ls -la").to_string());
    await_abort(&mut first, "responses/renamed");
    let before: Value = field.await_response("r1");
    assert_eq!(before["approved"], true);
    field.put_request("r1.json", request("r1", "rm -rf x").to_string());
    let second = field.serve("headless");
    until("an answer of its own", || {
        fs::read(field.responses().join("r1.json")).is_ok_and(|bytes| {
            serde_json::from_slice::<Value>(&bytes).is_ok_and(|now| now["approved"] == false)
        })
    });
    second.stop();
    assert_eq!(
        field.logged_of("forwarded_permission.answered_before", "r1"),
        0
    );
}
