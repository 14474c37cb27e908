//! Times of other processes are shown and never trusted; ages are told by the file system alone.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::processes::run;
use crate::support::spool::{TestSpool, age, is_there, request, until};

const HOUR: Duration = Duration::from_hours(1);

#[test]
fn the_time_that_a_request_claims_changes_nothing() {
    let spool = TestSpool::new();
    let rules = json!({"bash": {"ls *": "allow"}});
    let mut server = spool.serve_select("P", &rules);
    for (n, created_at) in [
        json!(0),
        json!(-9_000_000_000_000_000_i64),
        json!(9_000_000_000_000_000_i64),
        json!(1.5e300),
    ]
    .into_iter()
    .enumerate()
    {
        for (id, value) in [(format!("auto{n}"), "ls x"), (format!("asked{n}"), "make")] {
            let mut request = request(&id, "P", "bash", value);
            request["createdAt"] = created_at.clone();
            spool.put_request("P", &request);
            if value == "make" {
                server.answer("make", "Yes");
            }
            let answer = spool.await_response("P", &id);
            assert_eq!(answer["approved"], true, "{created_at}: {answer}");
        }
    }
    assert!(
        spool
            .events("forwarded_permission.request_expired")
            .is_empty()
    );
}

#[test]
fn an_old_request_of_a_requester_that_claims_no_lock_expires_unseen() {
    let spool = TestSpool::new();
    let old = request("old", "P", "bash", "ls x");
    spool.put_request("P", &old);
    age(&spool.request_path("P", "old"), HOUR);
    let mut server = spool.serve_select("P", &json!({"bash": {"ls *": "allow"}}));
    let entry = spool.await_event("forwarded_permission.request_expired", "old");
    assert!(entry["ageMs"].as_u64().unwrap() >= 3_600_000, "{entry}");
    until("it to be moved aside", || spool.quarantined().len() == 1);
    assert!(!is_there(&spool.request_path("P", "old")));
    // It is younger than what it will wait for, whatever the default says.
    let mut patient = request("patient", "P", "bash", "ls x");
    patient["relay"] = json!({"v": 1, "timeoutMs": 7_200_000});
    let path = spool.request_path("P", "patient");
    let aside = spool.root().join("patient.json");
    spool.put(&aside, patient.to_string());
    age(&aside, HOUR);
    rename(&aside, &path);
    assert_eq!(spool.await_response("P", "patient")["approved"], true);
    // And this one is past it, by more than the minute that is allowed for.
    let mut impatient = request("impatient", "P", "bash", "ls x");
    impatient["relay"] = json!({"v": 1, "timeoutMs": 1_000});
    let path = spool.request_path("P", "impatient");
    spool.put(&aside, impatient.to_string());
    age(&aside, Duration::from_secs(62));
    rename(&aside, &path);
    spool.await_event("forwarded_permission.request_expired", "impatient");

    assert_eq!(server.stop(), 0);
    for id in ["old", "impatient"] {
        assert!(!is_there(&spool.response_path("P", id)), "{id}");
        assert!(spool.ends_of(id).is_empty(), "{id}");
    }
    assert!(!server.running.stdout().contains("ls x"));
}

#[expect(
    clippy::disallowed_methods,
    reason = "tests play the other side of the spool, which is files"
)]
fn rename(from: &std::path::Path, to: &std::path::Path) {
    std::fs::rename(from, to).unwrap();
}

#[test]
fn the_age_at_which_a_request_expires_is_a_setting() {
    let spool = TestSpool::new();
    spool.put_request("P", &request("r1", "P", "bash", "ls x"));
    age(&spool.request_path("P", "r1"), Duration::from_mins(10));
    let config = json!({"permission": {"bash": {"ls *": "allow"}}, "requestMaxAgeMs": 300_000});
    let _server = spool.serve("P").config(&spool.config("P", &config)).start();
    spool.await_event("forwarded_permission.request_expired", "r1");
}

#[test]
fn a_file_time_in_the_future_expires_nothing() {
    let spool = TestSpool::new();
    let aside = spool.root().join("r1.json");
    spool.put(&aside, request("r1", "P", "bash", "ls x").to_string());
    set_far_ahead(&aside);
    let _server = spool.serve_headless("P", &json!({"bash": {"ls *": "allow"}}));
    rename(&aside, &spool.request_path("P", "r1"));
    assert_eq!(spool.await_response("P", "r1")["approved"], true);
}

#[expect(
    clippy::disallowed_methods,
    reason = "tests play the other side of the spool, which is files"
)]
fn set_far_ahead(path: &std::path::Path) {
    let file = std::fs::File::options().write(true).open(path).unwrap();
    let ahead = file.metadata().unwrap().modified().unwrap() + HOUR * 24;
    file.set_modified(ahead).unwrap();
}

#[test]
fn the_request_of_a_child_that_died_before_the_server_came_is_removed_unseen() {
    let spool = TestSpool::new();
    let mut child = spool.ask("P").value("make").id("r1").start();
    spool.await_request("P", "r1");
    child.running.kill();
    let mut server = spool.serve_select("P", &json!({"bash": "allow"}));
    spool.await_event("forwarded_permission.requester_gone", "r1");
    until("the request to go", || spool.waiting("P").is_empty());
    assert!(spool.ends_of("r1").is_empty());
    assert!(!is_there(&spool.response_path("P", "r1")));
    assert_eq!(server.stop(), 0);
}

#[test]
fn the_age_that_is_listed_is_that_of_the_file() {
    let spool = TestSpool::new();
    let mut old = request("r1", "P", "bash", "make");
    old["createdAt"] = json!(9_000_000_000_000_000_i64);
    spool.put_request("P", &old);
    age(&spool.request_path("P", "r1"), HOUR);
    let (code, stdout, _) = run(spool.relay().args(["ls", "--json"]));
    assert_eq!(code, 0);
    let line: Value = serde_json::from_str(&stdout).unwrap();
    let age = line["ageMs"].as_u64().unwrap();
    assert!((3_600_000..7_200_000).contains(&age), "{line}");
    assert_eq!(line["createdAt"], 9_000_000_000_000_000_i64);
}
