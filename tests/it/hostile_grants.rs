//! A tool of the same user among the files of grants: what it puts there, changes or takes away grants nothing.
#![expect(
    clippy::disallowed_methods,
    reason = "tests play the tool that changes the files"
)]

use std::fs;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _, symlink};

use rustix::fs::{FlockOperation, flock};
use serde_json::{Value, json};

use crate::support::grants::SESSION;
use crate::support::processes::Server;
use crate::support::spool::{TestSpool, names, read_json, request, until};

fn granting(spool: &TestSpool) -> Server {
    let mut server = spool.serve_select("P", &json!({}));
    spool.grant(&mut server, ("C", "r1"), ("make one", "make *"), SESSION);
    server
}

/// Asks, and fails unless the person is asked.
#[track_caller]
fn is_asked(spool: &TestSpool, server: &mut Server, id: &str, value: &str) {
    let child = spool.ask("P").from("D").id(id).value(value).start();
    server.answer(value, "No");
    child.end().denied();
}

/// A file as the server would write it, for everything.
fn forged(spool: &TestSpool, id: u64) -> Value {
    let mut grant = read_json(&spool.grant_path("P", "1.json")).unwrap();
    grant["id"] = json!(id);
    grant["pattern"] = json!("*");
    grant
}

#[test]
fn a_forged_file_grants_nothing_and_is_moved_aside() {
    let spool = TestSpool::new();
    let mut server = granting(&spool);
    let grant = forged(&spool, 7);
    let path = spool.grant_path("P", "7.json");
    spool.put(&path, grant.to_string());
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    is_asked(&spool, &mut server, "r2", "rm x");
    until("the forged file aside", || !path.exists());
    until("the record of it", || {
        let refused = spool.events("grant.refused");
        refused
            .first()
            .is_some_and(|refused| refused["file"] == "7.json")
    });
    spool
        .ask("P")
        .from("D")
        .id("r3")
        .value("make x")
        .run()
        .approved();
}

#[test]
fn an_edited_file_grants_nothing_more_and_what_it_stood_for_is_over() {
    for in_place in [true, false] {
        let spool = TestSpool::new();
        let mut server = granting(&spool);
        let path = spool.grant_path("P", "1.json");
        let grant = forged(&spool, 1).to_string();
        if in_place {
            fs::write(&path, grant).unwrap();
        } else {
            spool.put(&path, grant);
        }
        is_asked(&spool, &mut server, "r2", "rm x");
        is_asked(&spool, &mut server, "r3", "make x");
        let revoked = &spool.events("grant.revoked")[0];
        assert_eq!(revoked["reason"], "its file was changed by somebody else");
    }
}

#[test]
fn a_file_that_is_put_back_after_its_revocation_grants_nothing() {
    let spool = TestSpool::new();
    let mut server = granting(&spool);
    let path = spool.grant_path("P", "1.json");
    let kept = spool.below("kept");
    // The very file, so that nothing about it differs. A second link to it keeps nobody from taking it back.
    fs::hard_link(&path, &kept).unwrap();
    let (code, stdout, _) = spool.revoke(&["1"]);
    assert_eq!(code, 0);
    assert!(
        stdout.contains("it has more than one hard link"),
        "{stdout}"
    );
    is_asked(&spool, &mut server, "r2", "make x");
    fs::rename(&kept, &path).unwrap();
    is_asked(&spool, &mut server, "r3", "make x");
}

#[test]
fn a_link_in_the_place_of_the_directory_ends_the_grants_and_hides_no_revocation() {
    let spool = TestSpool::new();
    let mut server = granting(&spool);
    let place = spool.root().join("grants/P");
    let moved = spool.below("moved");
    fs::rename(&place, &moved).unwrap();
    symlink(&moved, &place).unwrap();
    // Nobody is told that something was taken back where it was not.
    let (code, stdout, _) = spool.revoke(&["1", "--session", "P"]);
    assert_ne!(code, 0, "{stdout}");
    is_asked(&spool, &mut server, "r2", "make x");
    // The next grant has a directory of its own again.
    spool.grant(&mut server, ("C", "r3"), ("cook one", "cook *"), SESSION);
    assert!(!fs::symlink_metadata(&place).unwrap().is_symlink());
    spool
        .ask("P")
        .from("D")
        .id("r4")
        .value("cook x")
        .run()
        .approved();
}

#[test]
fn a_tool_that_keeps_the_lock_of_the_grants_has_the_person_asked_and_holds_up_nothing() {
    let spool = TestSpool::new();
    let mut server = granting(&spool);
    let held = fs::File::open(spool.root().join("grants/P")).unwrap();
    flock(&held, FlockOperation::LockExclusive).unwrap();
    is_asked(&spool, &mut server, "r2", "make x");
    drop(held);
    spool
        .ask("P")
        .from("D")
        .id("r3")
        .value("make x")
        .run()
        .approved();
}

#[test]
fn what_a_killed_server_leaves_is_not_in_force_and_goes_with_the_next_one() {
    let spool = TestSpool::new();
    let mut server = granting(&spool);
    server.running.kill();
    let left = spool.grants("P");
    assert_eq!(left[0]["inForce"], false);
    let mut server = spool.serve_select("P", &json!({}));
    assert!(spool.grants("P").is_empty());
    is_asked(&spool, &mut server, "r2", "make x");
}

#[test]
fn a_directory_that_was_there_first_is_no_obstacle() {
    let spool = TestSpool::new();
    let mut place = fs::DirBuilder::new();
    place.recursive(true).mode(0o700);
    place.create(spool.root().join("grants")).unwrap();
    // A file where the directory belongs is moved aside.
    fs::write(spool.root().join("grants/P"), "x").unwrap();
    let _server = granting(&spool);
    assert_eq!(spool.grants("P").len(), 1);
}

/// A server that keeps what is granted over a restart.
fn keeping(spool: &TestSpool) -> Server {
    let config = spool.config("P", &json!({"persistGrants": true}));
    spool.serve("P").select().config(&config).start()
}

/// A spool with a kept grant for `make *`, whose server has ended.
fn kept() -> TestSpool {
    let spool = TestSpool::new();
    let mut server = keeping(&spool);
    spool.grant(&mut server, ("C", "r1"), ("make one", "make *"), SESSION);
    server.stop();
    assert_eq!(spool.grants("P").len(), 1);
    spool
}

/// Starts the next server, and fails unless it refuses the grant for this reason and asks.
#[track_caller]
fn is_refused(spool: &TestSpool, reason: &str) {
    let mut server = keeping(spool);
    let refused = spool.events("grant.refused");
    let said = refused.last().unwrap()["reason"].as_str().unwrap();
    assert!(said.contains(reason), "{said}");
    assert!(spool.events("grant.taken_over").is_empty());
    assert!(spool.grants("P").is_empty());
    is_asked(spool, &mut server, "asked", "make x");
}

fn log_path(spool: &TestSpool) -> std::path::PathBuf {
    spool.below("state/askrelay/review.jsonl")
}

#[test]
fn a_kept_grant_survives_its_server_and_its_number_is_not_given_again() {
    let spool = kept();
    // However it ended.
    for round in 0..2 {
        let mut server = keeping(&spool);
        let id = format!("again{round}");
        spool
            .ask("P")
            .from("D")
            .id(&id)
            .value("make x")
            .run()
            .approved();
        assert_eq!(spool.rests_on(&id), json!([1]));
        assert_eq!(spool.grants("P")[0]["inForce"], true);
        server.running.kill();
    }
    let mut server = keeping(&spool);
    spool.revoke(&["1"]);
    is_asked(&spool, &mut server, "r2", "make x");
    server.stop();
    let mut server = keeping(&spool);
    spool.grant(&mut server, ("C", "r3"), ("cook one", "cook *"), SESSION);
    assert_eq!(spool.grants("P")[0]["id"], 2);
}

#[test]
fn a_server_that_does_not_keep_grants_takes_none_over_and_leaves_none() {
    let spool = kept();
    let mut server = spool.serve_select("P", &json!({}));
    assert!(spool.grants("P").is_empty());
    is_asked(&spool, &mut server, "r2", "make x");
    // What it granted itself is not kept by the next one, however it ended.
    spool.grant(&mut server, ("C", "r3"), ("cook one", "cook *"), SESSION);
    server.running.kill();
    is_refused(&spool, "while grants were not kept");
}

#[test]
fn without_a_log_nothing_is_kept_and_that_is_said() {
    let spool = TestSpool::new();
    let config = json!({"persistGrants": true, "permissionReviewLog": false});
    let config = spool.config("P", &config);
    let mut server = spool.serve("P").select().config(&config).start();
    let said = server.running.stderr();
    assert!(
        said.contains("\"persistGrants\" is on, and no review log"),
        "{said}"
    );
    spool.grant(&mut server, ("C", "r1"), ("make one", "make *"), SESSION);
    server.stop();
    assert!(spool.grants("P").is_empty());
}

#[test]
fn a_kept_grant_that_was_edited_is_refused() {
    for (key, value, reason) in [
        ("pattern", json!("*"), "not what the review log says"),
        ("surface", json!("write"), "not what the review log says"),
        (
            "lifetime",
            json!({"kind": "for", "ms": 1}),
            "not what the review log says",
        ),
        ("sessionId", json!("Q"), "not what the review log says"),
        ("logLine", json!("0".repeat(64)), "no line that granted it"),
        ("logLine", json!(null), "names no line"),
        ("scope", json!({"kind": "all"}), "field \"scope\""),
    ] {
        let spool = kept();
        let path = spool.grant_path("P", "1.json");
        let mut grant = read_json(&path).unwrap();
        grant[key] = value;
        fs::write(&path, grant.to_string()).unwrap();
        is_refused(&spool, reason);
        assert_eq!(spool.quarantined().len(), 1);
    }
}

#[test]
fn a_kept_grant_that_others_can_reach_is_refused() {
    let spool = kept();
    let path = spool.grant_path("P", "1.json");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    is_refused(&spool, "its mode is 0644");
    let spool = kept();
    fs::hard_link(spool.grant_path("P", "1.json"), spool.below("second")).unwrap();
    is_refused(&spool, "more than one hard link");
    let spool = kept();
    let path = spool.grant_path("P", "1.json");
    fs::rename(&path, spool.below("moved")).unwrap();
    symlink(spool.below("moved"), &path).unwrap();
    is_refused(&spool, "symbolic link");
}

#[test]
fn a_kept_grant_that_was_taken_back_is_refused_wherever_it_was_kept_meanwhile() {
    for serving in [true, false] {
        let spool = kept();
        let server = serving.then(|| keeping(&spool));
        let path = spool.grant_path("P", "1.json");
        let bytes = fs::read(&path).unwrap();
        let (code, stdout, _) = spool.revoke(&["1"]);
        assert_eq!(code, 0);
        assert_eq!(stdout.contains("no server held it"), !serving, "{stdout}");
        drop(server);
        spool.put(&path, bytes);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        let before = spool.events("grant.taken_over").len();
        let mut server = keeping(&spool);
        let refused = spool.events("grant.refused");
        let said = refused.last().unwrap()["reason"].as_str().unwrap();
        assert!(said.contains("taken back"), "{said}");
        assert_eq!(spool.events("grant.taken_over").len(), before);
        is_asked(&spool, &mut server, "r2", "make x");
    }
}

#[test]
fn a_log_that_was_edited_or_put_away_bears_no_grant_out() {
    let spool = kept();
    let text = fs::read_to_string(log_path(&spool)).unwrap();
    fs::write(
        log_path(&spool),
        text.replace("\"approved\"", "\"approvex\""),
    )
    .unwrap();
    is_refused(&spool, "not whole");
    let spool = kept();
    fs::remove_file(log_path(&spool)).unwrap();
    is_refused(&spool, "no line that granted it");
}

/// A server that keeps what is granted, and ends at this step.
fn ending_at(spool: &TestSpool, step: &str) -> Server {
    let config = spool.config("P", &json!({"persistGrants": true}));
    let serve = spool.serve("P").select().config(&config);
    serve.env("ASKRELAY_TEST_FAULT", step).start()
}

const TEN_TIMES: &str = "The whole session, 10 times";

/// Has `make *` granted for ten uses.
#[track_caller]
fn give_ten_uses(spool: &TestSpool, server: &mut Server) {
    let ask = spool.ask("P").from("C").id("r1").value("make one");
    let child = ask.grant("bash=make *").start();
    server.answer("make one", "Yes, for this session");
    let question = server.question();
    server.choose(&question, TEN_TIMES);
    child.end().approved();
}

/// Asks `count` times and is allowed, and then once more and is asked.
#[track_caller]
fn has_left(spool: &TestSpool, server: &mut Server, count: usize) {
    for n in 0..count {
        let ask = spool.ask("P").from("D").id(&format!("left{n}"));
        ask.value("make x").run().approved();
    }
    is_asked(spool, server, "over", "make x");
}

#[test]
fn a_server_that_ends_while_it_gives_a_grant_gave_it_whole_or_not_at_all() {
    for (step, is_given) in [("P/written", false), ("P/renamed", true)] {
        let spool = TestSpool::new();
        let mut server = ending_at(&spool, step);
        give_ten_uses(&spool, &mut server);
        until("the end of the server", || server.running.has_ended());
        let mut server = keeping(&spool);
        assert_eq!(spool.grants("P").len(), usize::from(is_given), "{step}");
        assert_eq!(spool.ends_of("r1").len(), 1, "{step}");
        has_left(&spool, &mut server, if is_given { 10 } else { 0 });
        // Nobody is told of a file that was half written.
        assert_eq!(spool.quarantined(), [""; 0], "{step}");
        let left = names(&spool.root().join("grants/P"));
        assert!(left.is_empty(), "{step}: {left:?}");
    }
}

#[test]
fn a_server_that_ends_while_it_counts_a_use_gives_none_back() {
    for step in ["P/written", "P/renamed"] {
        let spool = TestSpool::new();
        let mut server = keeping(&spool);
        give_ten_uses(&spool, &mut server);
        spool.await_grants("P", |grants| grants.len() == 1);
        server.stop();
        let mut server = ending_at(&spool, step);
        let ask = spool.ask("P").from("D").id("r2").value("make x");
        ask.run().approved();
        until("the end of the server", || server.running.has_ended());
        let mut server = keeping(&spool);
        assert_eq!(spool.grants("P")[0]["usesLeft"], 9, "{step}");
        has_left(&spool, &mut server, 9);
    }
}

#[test]
fn a_server_that_ends_while_a_grant_ends_does_not_bring_it_back() {
    let spool = TestSpool::new();
    let mut server = ending_at(&spool, "P/removed");
    give_ten_uses(&spool, &mut server);
    for n in 0..10 {
        let ask = spool.ask("P").from("D").id(&format!("use{n}"));
        ask.value("make x").run().approved();
    }
    until("the end of the server", || server.running.has_ended());
    let mut server = keeping(&spool);
    assert!(spool.grants("P").is_empty());
    is_asked(&spool, &mut server, "r2", "make x");
}

#[test]
fn many_children_at_once_use_a_grant_no_more_often_than_it_was_given_for() {
    let spool = TestSpool::new();
    let mut server = spool.serve_select("P", &json!({}));
    give_ten_uses(&spool, &mut server);
    spool.await_grants("P", |grants| grants.len() == 1);
    std::thread::scope(|scope| {
        for n in 0..20 {
            let spool = &spool;
            scope.spawn(move || {
                let id = format!("many{n}");
                let mut request = request(&id, "P", "bash", &format!("make {n}"));
                request["requesterSessionId"] = json!(format!("child{n}"));
                spool.put_request("P", &request);
            });
        }
    });
    until("all of them in the log", || {
        let prompted = spool.events("forwarded_permission.prompted");
        prompted.len() == 11
    });
    assert_eq!(spool.events("forwarded_permission.auto_approved").len(), 10);
    let responses = spool.session_dir("P").join("responses");
    assert_eq!(names(&responses).len(), 10);
    assert_eq!(spool.events("grant.used_up").len(), 1);
    assert!(spool.grants("P").is_empty());
}
