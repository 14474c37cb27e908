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
use crate::support::spool::{TestSpool, read_json, until};

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
    let refused = &spool.events("grant.refused")[0];
    assert_eq!(refused["file"], "7.json");
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
