//! Files that come, go and change at the wrong moment: no answer is lost, none is given twice, and nobody is asked again.
#![expect(
    clippy::disallowed_methods,
    reason = "tests play the other side of the spool, which is files"
)]

use std::fs;
use std::time::Duration;

use serde_json::json;

use crate::support::spool::{TestSpool, age, is_there, names, read_json, request, response, until};

#[test]
fn an_answer_is_written_although_its_directory_was_removed() {
    let spool = TestSpool::new();
    let mut server = spool.serve_select("P", &json!({}));
    let child = spool.ask("P").value("make").id("r1").start();
    let question = server.question();
    fs::remove_dir(spool.session_dir("P").join("responses")).unwrap();
    server.choose(&question, "Yes");
    child.end().approved();
    assert_eq!(spool.events_of("permission_request.waiting", "r1").len(), 1);
}

#[test]
fn an_answer_that_cannot_be_written_is_tried_again_and_nobody_is_asked_twice() {
    let spool = TestSpool::new();
    let mut server = spool.serve_select("P", &json!({}));
    let child = spool.ask("P").value("make").id("r1").start();
    let question = server.question();
    // A file stands where the directory should be, and nothing can be moved aside: no write can work, for root neither.
    let responses = spool.session_dir("P").join("responses");
    let quarantine = spool.root().join("quarantine");
    fs::write(&quarantine, "in the way").unwrap();
    fs::remove_dir(&responses).unwrap();
    fs::write(&responses, "in the way").unwrap();
    server.choose(&question, "No");
    let error = spool.await_event("permission_forwarding.error", "r1");
    assert!(error["message"].as_str().unwrap().contains("tried again"));
    // The request is kept, and other asks are still read meanwhile.
    assert!(is_there(&spool.request_path("P", "r1")));
    fs::remove_file(&responses).unwrap();
    child.end().denied();
    assert_eq!(spool.events_of("permission_request.waiting", "r1").len(), 1);
    assert_eq!(spool.ends_of("r1").len(), 1);
    assert_eq!(
        spool.events_of("permission_forwarding.error", "r1").len(),
        1
    );
}

#[test]
fn what_lies_where_answers_go_is_moved_aside_and_nobody_is_asked_twice() {
    let spool = TestSpool::new();
    let mut server = spool.serve_select("P", &json!({}));
    let child = spool.ask("P").value("make").id("r1").start();
    let question = server.question();
    let responses = spool.session_dir("P").join("responses");
    fs::remove_dir(&responses).unwrap();
    fs::write(&responses, "in the way").unwrap();
    server.choose(&question, "No");
    child.end().denied();
    assert_eq!(spool.events_of("permission_request.waiting", "r1").len(), 1);
    assert_eq!(spool.ends_of("r1").len(), 1);
    assert_eq!(spool.quarantined().len(), 1);
}

#[test]
fn a_request_that_is_only_touched_under_an_open_question_is_not_asked_again() {
    let spool = TestSpool::new();
    let mut server = spool.serve_select("P", &json!({}));
    let whole = request("r1", "P", "bash", "make");
    spool.put_request("P", &whole);
    let question = server.question();
    age(&spool.request_path("P", "r1"), Duration::from_secs(5));
    server.choose(&question, "Yes");
    assert_eq!(spool.await_response("P", "r1")["approved"], true);

    // The same bytes in another file are the same ask as well.
    spool.put_request("P", &request("r2", "P", "bash", "make"));
    let question = server.question();
    spool.put_request("P", &request("r2", "P", "bash", "make"));
    server.choose(&question, "Yes");
    assert_eq!(spool.await_response("P", "r2")["approved"], true);
    for id in ["r1", "r2"] {
        assert_eq!(spool.events_of("permission_request.waiting", id).len(), 1);
        assert_eq!(spool.ends_of(id).len(), 1);
    }
}

#[test]
fn a_grant_given_to_an_ask_that_was_swapped_is_not_in_force() {
    let spool = TestSpool::new();
    let mut server = spool.serve_select("P", &json!({}));
    let with_grant = |id: &str, value: &str| {
        let mut request = request(id, "P", "bash", value);
        request["sessionApproval"] = json!({"grants": [{"surface": "bash", "pattern": "make *"}]});
        request
    };
    spool.put_request("P", &with_grant("r1", "make one"));
    let question = server.question();
    server.choose(&question, "Yes, for this session");
    let scope = server.question();
    spool.put_request("P", &with_grant("r1", "make two"));
    server.choose(&scope, "The whole session, parent and all subagents");
    // What is there now was never seen: it is asked, and so is whatever the grant would have covered.
    server.answer("make two", "No");
    assert_eq!(spool.await_response("P", "r1")["approved"], false);
    spool.put_request("P", &with_grant("r2", "make three"));
    server.answer("make three", "No");
    assert!(
        spool
            .events("forwarded_permission.session_recorded")
            .is_empty()
    );
}

#[test]
fn an_answer_that_somebody_else_put_there_first_makes_room_for_the_true_one() {
    let spool = TestSpool::new();
    let mut server = spool.serve_select("P", &json!({}));
    spool.put_request("P", &request("r1", "P", "bash", "make"));
    let question = server.question();
    spool.put(
        &spool.response_path("P", "r1"),
        response("P", "approved").to_string(),
    );
    server.choose(&question, "No");
    until("the true answer", || {
        read_json(&spool.response_path("P", "r1")).is_some_and(|answer| answer["approved"] == false)
    });
    spool.await_event("forwarded_permission.response_refused", "r1");
    assert_eq!(spool.quarantined().len(), 1);
    assert_eq!(spool.events_of("permission_request.waiting", "r1").len(), 1);
}

#[test]
fn a_child_refuses_the_answer_of_another_session_and_waits_on() {
    let spool = TestSpool::new();
    let mut server = spool.serve_select("P", &json!({}));
    let child = spool.ask("P").value("make").id("r1").start();
    let question = server.question();
    spool.put(
        &spool.response_path("P", "r1"),
        response("Q", "approved").to_string(),
    );
    spool.await_event("forwarded_permission.response_refused", "r1");
    until("it to be removed", || {
        !is_there(&spool.response_path("P", "r1"))
    });
    server.choose(&question, "No");
    child.end().denied();
}

#[test]
fn a_child_refuses_the_answer_to_other_bytes_and_waits_on() {
    let spool = TestSpool::new();
    let mut server = spool.serve_select("P", &json!({}));
    let child = spool.ask("P").value("make").id("r1").start();
    let question = server.question();
    let mut replayed = response("P", "approved");
    replayed["relay"] = json!({"v": 1, "requestDigest": format!("blake3:{}", "0".repeat(64))});
    spool.put(&spool.response_path("P", "r1"), replayed.to_string());
    spool.await_event("forwarded_permission.response_refused", "r1");
    server.choose(&question, "No");
    child.end().denied();
}

#[test]
fn an_answer_that_is_none_or_contradicts_itself_is_no_approval() {
    let spool = TestSpool::new();
    let _server = spool.serve_select("P", &json!({}));
    let contradiction = |approved: bool, state: &str| {
        let mut response = response("P", state);
        response["approved"] = json!(approved);
        response.to_string()
    };
    for (id, bytes) in [
        ("maybe", contradiction(true, "maybe")),
        ("refused", contradiction(true, "denied")),
        ("granted", contradiction(false, "approved_for_session")),
        ("list", "[]".to_owned()),
    ] {
        let child = spool.ask("P").value("make").id(id).start();
        spool.await_request("P", id);
        spool.put(&spool.response_path("P", id), bytes);
        let ended = child.end();
        ended.unruled();
        assert_eq!(ended.json["abandoned"], "unreadable_response", "{id}");
        assert!(!is_there(&spool.response_path("P", id)), "{id}");
        assert!(!is_there(&spool.request_path("P", id)), "{id}");
    }
}

#[test]
fn a_torn_answer_is_waited_for_until_it_is_whole() {
    let spool = TestSpool::new();
    let _server = spool.serve_select("P", &json!({}));
    let child = spool.ask("P").value("make").id("r1").start();
    spool.await_request("P", "r1");
    child.running.freeze();
    let path = spool.response_path("P", "r1");
    fs::write(&path, "{\"approved\":tr").unwrap();
    child.running.thaw();
    fs::write(&path, response("P", "approved").to_string()).unwrap();
    child.end().approved();
}

#[test]
fn a_request_that_is_swapped_under_an_open_question_is_asked_anew() {
    let spool = TestSpool::new();
    let mut server = spool.serve_select("P", &json!({}));
    spool.put_request("P", &request("r1", "P", "bash", "make harmless"));
    let question = server.question();
    spool.put_request("P", &request("r1", "P", "bash", "rm everything"));
    server.choose(&question, "Yes");
    let question = server.question();
    assert!(question.text.contains("rm everything"), "{}", question.text);
    assert!(!is_there(&spool.response_path("P", "r1")));
    server.choose(&question, "No");
    assert_eq!(spool.await_response("P", "r1")["approved"], false);
}

#[test]
fn the_directories_of_a_served_session_outlive_each_child_and_go_with_the_server() {
    let spool = TestSpool::new();
    let mut server = spool.serve_select("P", &json!({"bash": {"ls *": "allow"}}));
    let other = spool.ask("P").value("make").id("r1").start();
    let question = server.question();
    for _ in 0..3 {
        spool.ask("P").value("ls x").run().approved();
        for directory in ["requests", "responses"] {
            assert!(is_there(&spool.session_dir("P").join(directory)));
        }
    }
    server.choose(&question, "Yes");
    other.end().approved();
    assert!(is_there(&spool.session_dir("P").join("requests")));
    assert_eq!(server.stop(), 0);
    assert!(!is_there(&spool.session_dir("P")));
}

#[test]
fn an_answer_that_was_not_read_yet_keeps_its_directory() {
    let spool = TestSpool::new();
    let mut server = spool.serve_headless("P", &json!({"bash": {"ls *": "allow"}}));
    spool.put_request("P", &request("r2", "P", "bash", "ls x"));
    assert_eq!(spool.await_response("P", "r2")["approved"], true);
    assert_eq!(server.stop(), 0);
    assert!(is_there(&spool.response_path("P", "r2")));
    assert!(!is_there(&spool.session_dir("P").join("requests")));
}

#[test]
fn an_inbox_that_is_removed_under_a_server_is_served_again() {
    let spool = TestSpool::new();
    let _server = spool.serve_headless("P", &json!({"bash": {"ls *": "allow"}}));
    for _ in 0..3 {
        fs::remove_dir_all(spool.session_dir("P")).unwrap();
        spool.ask("P").value("ls x").run().approved();
    }
}

#[test]
fn requests_written_around_the_start_of_a_server_are_all_answered() {
    let spool = TestSpool::new();
    let config = spool.config("P", &json!({"permission": {"bash": {"ls *": "allow"}}}));
    let mut server = std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for n in 0..200 {
                let id = format!("r{n:03}");
                spool.put_request("P", &request(&id, "P", "bash", &format!("ls {n}")));
            }
        });
        until("the first of them", || spool.waiting("P").len() > 20);
        let server = spool.serve("P").config(&config).start();
        writer.join().unwrap();
        server
    });
    for n in 0..200 {
        let answer = spool.await_response("P", &format!("r{n:03}"));
        assert_eq!(answer["approved"], true, "{n}");
    }
    until("the last request to go", || spool.waiting("P").is_empty());
    assert_eq!(spool.events("forwarded_permission.approved").len(), 200);
    assert_eq!(server.stop(), 0);
}

#[test]
fn a_child_that_asks_while_its_server_starts_is_answered() {
    let spool = TestSpool::new();
    for round in 0..5 {
        let session = format!("P{round}");
        let child = spool.ask(&session).value("make").id("r1").start();
        spool.await_request(&session, "r1");
        let mut server = spool.serve_select(&session, &json!({}));
        server.answer("make", "Yes");
        child.end().approved();
    }
}

#[test]
fn a_request_whose_writer_does_not_rename_is_given_time() {
    let spool = TestSpool::new();
    let _server = spool.serve_headless("P", &json!({"bash": {"ls *": "allow"}}));
    let path = spool.request_path("P", "r1");
    let whole = request("r1", "P", "bash", "ls x").to_string();
    let (head, tail) = whole.split_at(whole.len() / 2);
    fs::write(&path, head).unwrap();
    let mut file = fs::File::options().append(true).open(&path).unwrap();
    std::io::Write::write_all(&mut file, tail.as_bytes()).unwrap();
    drop(file);
    assert_eq!(spool.await_response("P", "r1")["approved"], true);
}

#[test]
fn a_request_that_never_becomes_whole_is_set_aside_once_and_answered() {
    let spool = TestSpool::new();
    let mut server = spool.serve_headless("P", &json!({"bash": {"ls *": "allow"}}));
    fs::write(spool.request_path("P", "r1"), "{\"id\":").unwrap();
    // It does not hold up what is whole.
    spool.ask("P").value("ls x").run().approved();
    let answer = spool.await_response("P", "r1");
    assert_eq!(answer["approved"], false);
    assert_eq!(answer["decidedBy"]["kind"], "gate_error");
    until("it to be moved aside", || spool.quarantined().len() == 1);
    assert!(!is_there(&spool.request_path("P", "r1")));
    assert_eq!(server.stop(), 0);
    assert_eq!(
        spool.events_of("permission_forwarding.warning", "r1").len(),
        1
    );
}

#[test]
fn many_children_that_come_and_go_leave_nothing() {
    let spool = TestSpool::new();
    let mut server = spool.serve_headless("P", &json!({"bash": {"ls *": "allow"}}));
    std::thread::scope(|scope| {
        for child in 0..4 {
            let spool = &spool;
            scope.spawn(move || {
                for n in 0..10 {
                    let ask = spool.ask("P").from(&format!("c{child}"));
                    ask.value(&format!("ls {n}")).run().approved();
                }
            });
        }
    });
    assert!(spool.waiting("P").is_empty());
    let responses = spool.session_dir("P").join("responses");
    assert_eq!(names(&responses), [""; 0]);
    assert_eq!(server.stop(), 0);
    assert_eq!(spool.quarantined(), [""; 0]);
}
