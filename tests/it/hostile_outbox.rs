//! What lies in place of a response that is none, and that the true one still gets through.
#![expect(
    clippy::disallowed_methods,
    reason = "tests lay out odd files and look at what became of them"
)]

use std::fs;
use std::io::Write as _;
use std::time::Duration;

use rustix::process::Signal;

use crate::support::hostile::{Field, Odd, approval, names, skipped};
use crate::support::spool::{pass, until};

/// Waits until the person is asked about `id`.
#[track_caller]
fn await_question(field: &Field, id: &str) {
    until("a question", || {
        field.logged_of("permission_request.waiting", id) == 1
    });
}

const WRONG: &str = "blake3:0000000000000000000000000000000000000000000000000000000000000000";

#[test]
fn a_response_for_other_bytes_or_from_others_is_refused_and_the_true_one_counts() {
    let field = Field::new();
    let mut server = field.serve("select");
    let ask = field.start_ask("make all", &["--id", "r1"]);
    await_question(&field, "r1");
    for (number, planted) in [
        approval("main", Some(WRONG)),
        approval("other", None),
        approval("Main", Some(WRONG)),
    ]
    .iter()
    .enumerate()
    {
        field.put_response("r1", planted.to_string());
        until("a refusal", || {
            field.logged_of("forwarded_permission.response_refused", "r1") == number + 1
        });
        assert!(!field.responses().join("r1.json").exists());
    }
    server.type_line("1");
    let answer = ask.answer();
    assert_eq!(answer.json["approved"], true, "{answer:?}");
    assert_eq!(answer.json["state"], "approved");
    assert_eq!(field.logged_of("permission_request.waiting", "r1"), 1);
    server.stop();
    assert_eq!(names(&field.at("spool/sessions")), [""; 0]);
}

#[test]
fn race_3_what_was_planted_before_the_answer_is_moved_aside_and_the_true_one_delivered() {
    let secret = "a secret";
    let planted: [(&str, Option<Odd>); 6] = [
        ("approval", None),
        ("rubbish", None),
        ("directory", Some(Odd::Directory)),
        ("fifo", Some(Odd::Fifo)),
        ("link", Some(Odd::Link)),
        ("second-name", Some(Odd::SecondName)),
    ];
    let field = Field::new();
    fs::write(field.at("secret"), secret).unwrap();
    let mut server = field.serve("select");
    for (id, odd) in planted {
        let ask = field.start_ask("make all", &["--id", id]);
        await_question(&field, id);
        // The child must not be the one who finds it.
        ask.freeze();
        match odd {
            Some(odd) => assert!(odd.make(
                &field.responses().join(format!("{id}.json")),
                &field.at("secret")
            )),
            None if id == "rubbish" => field.put_response(id, "{"),
            None => field.put_response(id, approval("main", Some(WRONG)).to_string()),
        }
        server.type_line("3");
        until("an answer", || {
            !field.requests().join(format!("{id}.json")).exists()
        });
        ask.signal(Signal::CONT);
        let answer = ask.answer();
        assert_eq!(answer.code, Some(1), "{id}: {answer:?}");
        assert_eq!(answer.json["approved"], false);
        assert_eq!(
            answer.json["decidedBy"]["decision"]["kind"], "user",
            "{id}: {answer:?}"
        );
        assert_eq!(
            field.logged_of("forwarded_permission.response_refused", id),
            1,
            "{id}"
        );
        assert_eq!(field.logged_of("permission_request.waiting", id), 1, "{id}");
        assert_eq!(
            field.logged_of("forwarded_permission.denied", id),
            1,
            "{id}"
        );
    }
    server.stop();
    let aside = field.aside();
    assert_eq!(aside.len(), planted.len());
    for (name, note) in aside {
        assert!(
            note["from"].as_str().unwrap().contains("/responses/"),
            "{name}: {note}"
        );
    }
    assert_eq!(fs::read(field.at("secret")).unwrap(), secret.as_bytes());
    assert_eq!(names(&field.at("spool/sessions")), [""; 0]);
}

#[test]
fn race_1_an_answer_finds_its_way_although_its_directory_was_removed() {
    let field = Field::new();
    let mut server = field.serve("select");
    for round in 0..2 {
        let id = format!("r{round}");
        let ask = field.start_ask("make all", &["--id", &id]);
        await_question(&field, &id);
        if round == 0 {
            fs::remove_dir(field.responses()).unwrap();
        } else {
            fs::rename(field.responses(), field.at("spool/moved")).unwrap();
        }
        server.type_line("1");
        let answer = ask.answer();
        assert_eq!(answer.code, Some(0), "{round}: {answer:?}");
        assert_eq!(field.logged_of("permission_request.waiting", &id), 1);
    }
    server.stop();
}

/// An ask for which the test itself answers: the oldest generation expects no heartbeat.
fn unserved(field: &Field, id: &str, more: &[&str]) -> crate::support::hostile::Run {
    field.make_dirs();
    let mut args = vec!["--id", id, "--peer", "g1"];
    args.extend(more);
    let ask = field.start_ask("make all", &args);
    field.await_request(id);
    ask
}

#[test]
fn write_4_a_response_that_is_no_document_is_never_an_approval() {
    for (id, bytes) in [
        ("empty", ""),
        ("null", "null"),
        ("array", "[]"),
        ("object", "{}"),
        ("torn", "{\"approved\":true,\"state\":\"approved\""),
        (
            "at-odds",
            r#"{"approved":true,"state":"denied","responderSessionId":"main"}"#,
        ),
        (
            "twice",
            r#"{"approved":false,"approved":true,"state":"approved","responderSessionId":"main"}"#,
        ),
        (
            "two",
            r#"{"approved":true,"state":"approved","responderSessionId":"main"}{}"#,
        ),
        (
            "bom",
            "\u{feff}{\"approved\":true,\"state\":\"approved\",\"responderSessionId\":\"main\"}",
        ),
    ] {
        let field = Field::new();
        let ask = unserved(&field, id, &[]);
        field.put_response(id, bytes);
        let answer = ask.answer();
        assert_eq!(answer.code, Some(3), "{id}: {answer:?}");
        assert_eq!(answer.json["approved"], false, "{id}");
        assert_eq!(answer.json["abandoned"], "unreadable_response", "{id}");
        assert_eq!(names(&field.at("spool/sessions")), [""; 0], "{id}");
    }
}

#[test]
fn fsobj_1_an_odd_response_is_never_an_approval_and_holds_nobody_up() {
    for odd in Odd::ALL {
        let field = Field::new();
        // What a link leads to would be an approval.
        let secret = field.at("secret");
        let ask = unserved(&field, "r1", &[]);
        fs::write(&secret, approval("main", None).to_string()).unwrap();
        if !odd.make(&field.responses().join("r1.json"), &secret) {
            continue;
        }
        let answer = ask.answer();
        assert_eq!(answer.code, Some(3), "{odd:?}: {answer:?}");
        assert_eq!(answer.json["abandoned"], "unreadable_response", "{odd:?}");
        assert!(secret.exists(), "{odd:?}");
        assert!(!field.requests().join("r1.json").exists(), "{odd:?}");
    }
}

#[test]
fn write_1_a_response_that_is_still_growing_is_waited_for() {
    let field = Field::new();
    let ask = unserved(&field, "r1", &[]);
    let text = approval("main", None).to_string();
    let (first, rest) = text.split_at(40);
    let mut file = fs::File::create(field.responses().join("r1.json")).unwrap();
    file.write_all(first.as_bytes()).unwrap();
    // A slow writer is what this is about.
    pass(Duration::from_millis(600));
    file.write_all(rest.as_bytes()).unwrap();
    drop(file);
    let answer = ask.answer();
    if answer.json["abandoned"] == "unreadable_response" {
        skipped("this machine is too slow for a writer that takes half a second");
        return;
    }
    assert_eq!(answer.code, Some(0), "{answer:?}");
}

#[test]
fn write_4_an_empty_heartbeat_serves_nobody() {
    let field = Field::new();
    field.make_dirs();
    fs::create_dir(field.at("spool/serving")).unwrap();
    fs::write(field.at("spool/serving/main.json"), "").unwrap();
    let answer = field.ask("ls -la", &[]);
    assert_eq!(answer.code, Some(3), "{answer:?}");
    assert_eq!(answer.json["abandoned"], "not_serving");
    assert_eq!(names(&field.at("spool/sessions")), [""; 0]);
}
