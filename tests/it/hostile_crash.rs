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

/// What the server does with a person's decision, in this order.
const DECISION_STEPS: [&str; 7] = [
    "decided",
    "log/written",
    "log/synced",
    "recorded",
    "responses/written",
    "responses/renamed",
    "requests/removed",
];

/// Only where a file was just being written does anything of it stay, under a name that nobody looks at.
#[track_caller]
fn nothing_but_temporary_files(field: &Field, step: &str) {
    let left: Vec<String> = ["main", "middle"]
        .iter()
        .flat_map(|session| {
            ["requests", "responses"].map(|kind| format!("spool/sessions/{session}/{kind}"))
        })
        .flat_map(|directory| names(&field.at(&directory)))
        .collect();
    let most = usize::from(step.ends_with("/written"));
    assert!(left.len() <= most, "{step}: {left:?}");
    assert!(
        left.iter().all(|name| name.ends_with(".tmp")),
        "{step}: {left:?}"
    );
}

/// What a person types, and what comes of it.
const CHOICES: [(&[&str], &str); 3] = [
    (&["1"], "approved"),
    (&["3"], "denied"),
    (&["4", "use make all"], "denied_with_reason"),
];

/// A child that asks a person; what they type ends the server at `step`. The child stands still, so that whatever is found is
/// found by the next server.
#[track_caller]
fn ends_while_it_answers(field: &Field, step: &str, typed: &[&str]) -> Run {
    let mut first = field.serve_with_fault("select", Some(step));
    first.await_serving();
    let ask = field.start_ask("make all", &[&["--id", "r1"][..], &PATIENT].concat());
    await_questions(field, 1);
    ask.freeze();
    for line in typed {
        first.type_line(line);
    }
    await_abort(&mut first, step);
    ask
}

#[track_caller]
fn await_questions(field: &Field, count: usize) {
    until("a question", || {
        field.logged_of("permission_request.waiting", "r1") == count
    });
}

#[track_caller]
fn await_settled(field: &Field) {
    until("a settled request", || {
        !field.requests().join("r1.json").exists()
    });
}

/// The ends that the serving side recorded for the ask.
fn ends(field: &Field) -> Vec<Value> {
    ["approved", "denied"]
        .iter()
        .flat_map(|end| field.logged(&format!("forwarded_permission.{end}")))
        .filter(|entry| entry["requestId"] == "r1")
        .collect()
}

/// The server ends somewhere between a person's decision and its delivery. Once it is recorded, the next server gives it out as it
/// was made; before that, nothing was decided, and the person is asked once more.
#[test]
fn a_person_is_not_asked_again_about_what_was_recorded() {
    for step in DECISION_STEPS {
        for (typed, state) in CHOICES {
            let field = Field::new();
            let ask = ends_while_it_answers(&field, step, typed);
            let mut second = field.serve("select");
            let mut questions = 1;
            if step == "decided" {
                questions = 2;
                await_questions(&field, questions);
                for line in typed {
                    second.type_line(line);
                }
            }
            await_settled(&field);
            ask.signal(rustix::process::Signal::CONT);
            let answer = ask.answer();
            assert_eq!(answer.json["state"], state, "{step}: {answer:?}");
            let decider = &answer.json["decidedBy"]["decision"]["kind"];
            assert_eq!(decider, "user", "{step}: {answer:?}");
            if typed.len() > 1 {
                assert_eq!(answer.json["denialReason"], typed[1], "{step}");
            }
            let asked = field.logged_of("permission_request.waiting", "r1");
            assert_eq!(asked, questions, "{step}");
            // One end, by the person, and how it came to be delivered.
            let ends = ends(&field);
            assert_eq!(ends.len(), 1, "{step}: {ends:#?}");
            assert_eq!(ends[0]["decidedBy"]["kind"], "user", "{step}");
            let recalled = field.logged("forwarded_permission.decision_recalled");
            let is_recalled = !matches!(step, "decided" | "responses/renamed" | "requests/removed");
            assert_eq!(recalled.len(), usize::from(is_recalled), "{step}");
            for entry in recalled {
                assert_eq!(entry["recordedAt"], ends[0]["timestamp"], "{step}");
                assert_eq!(entry["requestDigest"], ends[0]["requestDigest"], "{step}");
            }
            second.stop();
            only_documented_leftovers(&field, step);
            nothing_but_temporary_files(&field, step);
        }
    }
}

/// The second server ends as well, before it has given out what the first one was told.
#[test]
fn a_decision_survives_more_than_one_crash() {
    for step in ["log/written", "recorded"] {
        let field = Field::new();
        let ask = ends_while_it_answers(&field, step, &["1"]);
        for again in ["decided", "recorded", "responses/written"] {
            await_abort(&mut field.serve_with_fault("select", Some(again)), again);
        }
        let last = field.serve("select");
        await_settled(&field);
        ask.signal(rustix::process::Signal::CONT);
        let answer = ask.answer();
        assert_eq!(answer.json["state"], "approved", "{step}: {answer:?}");
        assert_eq!(field.logged_of("permission_request.waiting", "r1"), 1);
        assert_eq!(ends(&field).len(), 1);
        last.stop();
        only_documented_leftovers(&field, step);
    }
}

/// The decision is for the bytes that the person saw.
#[test]
fn a_recorded_decision_does_not_hold_for_what_was_put_there_since() {
    let field = Field::new();
    let ask = ends_while_it_answers(&field, "recorded", &["1"]);
    field.put_request("r1.json", request("r1", "make clean").to_string());
    let mut second = field.serve("select");
    await_questions(&field, 2);
    assert!(!field.responses().join("r1.json").exists());
    second.type_line("3");
    assert_eq!(field.await_response("r1")["approved"], false);
    second.stop();
    assert_eq!(
        field.logged_of("forwarded_permission.decision_recalled", "r1"),
        0
    );
    ask.signal(rustix::process::Signal::CONT);
    // What it gets is for other bytes than it asked.
    let answer = ask.answer();
    assert_eq!(answer.json["approved"], false, "{answer:?}");
}

/// A record that a crash of the machine cut off was not synced, so the decision was not given out.
#[test]
fn what_was_not_recorded_whole_is_asked_again() {
    let field = Field::new();
    let ask = ends_while_it_answers(&field, "log/written", &["1"]);
    let log = fs::read(field.at("review.jsonl")).unwrap();
    fs::write(field.at("review.jsonl"), &log[..log.len() - 30]).unwrap();
    let mut second = field.serve("select");
    await_questions(&field, 2);
    assert!(!field.responses().join("r1.json").exists());
    second.type_line("3");
    await_settled(&field);
    ask.signal(rustix::process::Signal::CONT);
    let answer = ask.answer();
    assert_eq!(answer.json["state"], "denied", "{answer:?}");
    assert_eq!(field.logged("review_log.torn_tail").len(), 1);
    assert_eq!(ends(&field).len(), 1);
    second.stop();
    only_documented_leftovers(&field, "torn");
}

/// Without the log nobody knows what was decided; and what it says cannot be an approval where it cannot be read.
#[test]
fn without_the_log_a_person_is_asked_again() {
    for hide in [true, false] {
        let field = Field::new();
        let ask = ends_while_it_answers(&field, "recorded", &["1"]);
        let log = field.at("review.jsonl");
        fs::rename(&log, field.at("old.jsonl")).unwrap();
        if hide {
            std::os::unix::fs::symlink(field.at("old.jsonl"), &log).unwrap();
        }
        let mut second = field.serve_with_fault("select", None);
        second.await_serving();
        until("a question", || {
            second.stderr().contains("make all") || second.stdout().contains("make all")
        });
        second.type_line("3");
        await_settled(&field);
        ask.signal(rustix::process::Signal::CONT);
        let answer = ask.answer();
        assert_eq!(answer.json["state"], "denied", "{answer:?}");
        second.stop();
    }
}

/// What a relaying session does with an ask and its parent's answer, in this order, and whether the person of the parent has then
/// decided something that the relay has recorded.
const RELAY_STEPS: [(&str, bool); 10] = [
    ("requests/read", false),
    ("requests/written", false),
    ("requests/renamed", false),
    ("responses/read", false),
    ("responses/removed", false),
    ("decided", false),
    ("recorded", true),
    ("responses/written", true),
    ("responses/renamed", true),
    ("requests/removed", true),
];

/// A relay of session `middle`, whose parent is `main`, with a log of its own.
fn relay(field: &Field, step: Option<&str>) -> Run {
    let mut command = field.relay();
    command.args(["serve", "--session", "middle", "--mode", "headless"]);
    command.env("ASKRELAY_PARENT_SESSION", "main");
    command.env("ASKRELAY_LOG", field.at("middle.jsonl"));
    command.envs(step.map(|step| ("ASKRELAY_TEST_FAULT", step)));
    Run::start(field, &mut command)
}

/// How many questions a session has put, whole.
fn put(session: &Run) -> usize {
    session.stdout().matches("  4) ").count()
}

/// Types the answer to the next question of the parent. What is typed before it stands there whole is not used.
#[track_caller]
fn answer_next(parent: &mut Run, asked: &mut usize, typed: &str) {
    until("a question", || put(parent) > *asked);
    *asked += 1;
    parent.type_line(typed);
}

/// A relay that ends at any step: its child gets one answer, and the person of the parent is its decider. The parent is asked anew
/// as long as the relay has not recorded what it was told; then never again.
#[test]
fn a_relay_that_ends_at_any_step_gives_out_what_the_person_of_its_parent_decided() {
    for (step, is_recorded) in RELAY_STEPS {
        for (typed, state) in [("1", "approved"), ("3", "denied")] {
            let field = Field::new();
            let mut parent = field.serve("select");
            let mut first = relay(&field, Some(step));
            first.await_serving();
            let mut command = field.relay();
            command.args([
                "ask",
                "--json",
                "--session",
                "middle",
                "--from",
                "leaf",
                "--id",
                "r1",
            ]);
            command.args(["--value", "make all"]).args(PATIENT);
            let ask = Run::start(&field, &mut command);
            let requests = field.at("spool/sessions/middle/requests");
            until("a request, or its end", || {
                requests.join("r1.json").exists()
                    || field.logged_of("permission_request.waiting", "r1") > 0
            });
            ask.freeze();
            let mut asked = 0;
            let before_the_question = matches!(
                step,
                "requests/read" | "requests/written" | "requests/renamed"
            );
            if !before_the_question {
                answer_next(&mut parent, &mut asked, typed);
            }
            await_abort(&mut first, step);
            if step == "requests/renamed" {
                // The parent may have asked its person already; that question goes with the one who asked.
                until("no request at the parent", || {
                    !field.requests().join("r1.json").exists()
                });
                asked = field.logged_of("permission_request.waiting", "r1");
                until("the end of that question", || {
                    parent.stdout().matches("This ask is closed").count() == asked
                });
                // A line is still read for it, and used for nothing.
                for _ in 0..asked {
                    parent.type_line(typed);
                }
                until("the end of that line", || {
                    parent.stdout().matches("the line was not used").count() == asked
                });
            }
            let mut second = relay(&field, None);
            second.await_serving();
            if !is_recorded {
                answer_next(&mut parent, &mut asked, typed);
            }
            until("a settled request", || !requests.join("r1.json").exists());
            ask.signal(rustix::process::Signal::CONT);
            let answer = ask.answer();
            assert_eq!(answer.json["state"], state, "{step}: {answer:?}");
            let decider = &answer.json["decidedBy"]["decision"]["decision"]["kind"];
            assert_eq!(decider, "user", "{step}: {answer:?}");
            let all = field.logged("permission_request.waiting").len();
            assert_eq!(all, asked, "{step}: a question too many");
            second.stop();
            parent.stop();
            only_documented_leftovers(&field, step);
            if step == "responses/read" {
                // The answer to the relay that ended; the next one asked under another id.
                assert_eq!(names(&field.responses()), ["r1.json"]);
            } else {
                nothing_but_temporary_files(&field, step);
            }
        }
    }
}

/// A child that ends with a person's answer in its hands leaves nothing that is asked again, or that another could take.
#[test]
fn a_child_that_ends_with_a_persons_answer_has_used_it_up() {
    for step in ["responses/read", "responses/removed"] {
        let field = Field::new();
        let mut server = field.serve("select");
        let mut command = field.ask_command("make all", &["--id", "r1"]);
        command.env("ASKRELAY_TEST_FAULT", step);
        let mut child = Run::start(&field, &mut command);
        await_questions(&field, 1);
        server.type_line("1");
        await_abort(&mut child, step);
        assert_eq!(child.stdout(), "", "{step}");
        await_settled(&field);
        server.signal(rustix::process::Signal::KILL);
        let _killed = server.await_end();
        // Another ask of that name is asked by itself.
        let mut second = field.serve("select");
        let ask = field.start_ask("make all", &[&["--id", "r1"][..], &PATIENT].concat());
        // Under an id of its own, where an answer that nobody took still has the name.
        until("a question", || {
            field.logged("permission_request.waiting").len() == 2
        });
        second.type_line("3");
        let answer = ask.answer();
        assert_eq!(answer.json["state"], "denied", "{step}: {answer:?}");
        assert_eq!(
            field.logged_of("forwarded_permission.decision_recalled", "r1"),
            0
        );
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
