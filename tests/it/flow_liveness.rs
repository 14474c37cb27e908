//! One side goes away, or only seems to: nobody waits for the dead, and nobody gives up the living.

use std::time::Duration;

use askrelay::clock::{Moment, now};
use askrelay::process::{own_mark, own_pid};
use askrelay::spool::LivenessProbe;
use askrelay::wire::{Liveness, SessionId};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::processes::{Running, run};
use crate::support::spool::{
    TestSpool, eventually, is_there, names, pass, read_json, request, response, until,
};

/// Far above the three seconds that are promised, for a machine that is busy with other tests.
const SOON: Duration = Duration::from_secs(30);

#[test]
fn an_inbox_that_nobody_reads_is_given_up_within_seconds() {
    let spool = TestSpool::new();
    let started = now();
    let ended = spool
        .ask("P")
        .value("make")
        .id("r1")
        .args(["--timeout", "600s"])
        .run();
    assert!(now().since(started) < SOON);
    ended.unruled();
    assert_eq!(ended.json["abandoned"], "not_serving");
    assert_eq!(ended.json["resolution"], "confirmation_unavailable");
    assert!(ended.json["waitedMs"].as_u64().unwrap() >= 2_000);
    for text in [ended.json["denialReason"].as_str().unwrap(), &ended.stderr] {
        assert!(text.contains("nobody serves session \"P\""), "{text}");
        assert!(text.contains("no heartbeat"), "{text}");
    }
    let entry = spool.await_event("forwarded_permission.no_serving_session", "r1");
    assert_eq!(entry["servingChannel"], "heartbeat");
    assert_eq!(entry["servingState"], "absent");
    assert_eq!(entry["targetSessionId"], "P");
    assert_eq!(names(&spool.root().join("sessions")), [""; 0]);
}

#[test]
fn a_child_whose_server_is_killed_ends_soon_and_is_told_so() {
    let spool = TestSpool::new();
    let mut server = spool.serve_select("P", &json!({}));
    let child = spool.ask("P").value("make").id("r1").start();
    let _question = server.question();
    server.running.kill();
    let killed = now();
    let ended = child.end();
    assert!(now().since(killed) < SOON);
    ended.unruled();
    assert_eq!(ended.json["abandoned"], "not_serving");
    let reason = ended.json["denialReason"].as_str().unwrap();
    assert!(reason.contains("ended without taking leave"), "{reason}");
    let entry = spool.await_event("forwarded_permission.no_serving_session", "r1");
    assert_eq!(entry["servingState"], Liveness::LockFree.name());
    assert!(spool.waiting("P").is_empty());
}

#[test]
fn a_killed_server_is_followed_without_cleaning_up_after_it() {
    let spool = TestSpool::new();
    let mut first = spool.serve_select("P", &json!({}));
    let child = spool.ask("P").value("make").id("r1").start();
    let _question = first.question();
    first.running.kill();
    // What was asked of the first is asked again by the second: the child still waits.
    let mut second = spool.serve_select("P", &json!({}));
    second.answer("make", "Yes");
    child.end().approved();
    assert_eq!(spool.ends_of("r1").len(), 1);
}

#[test]
fn a_second_server_of_a_session_is_refused_with_the_pid_of_the_first() {
    let spool = TestSpool::new();
    let mut first = spool.serve_select("P", &json!({}));
    let mut second = spool.serve("P").spawn();
    assert_eq!(second.exit_code(), 3);
    let pid = first.running.pid().to_string();
    let stderr = second.stderr();
    assert!(
        stderr.contains(&pid) && stderr.contains("hint:"),
        "{stderr}"
    );
    // The first has noticed nothing, and its record is its own.
    let record = read_json(&spool.heartbeat_path("P")).unwrap();
    assert_eq!(record["pid"], first.running.pid());
    let child = spool.ask("P").value("make").start();
    first.answer("make", "Yes");
    child.end().approved();
}

#[test]
fn servers_that_start_at_once_end_up_as_one() {
    let spool = TestSpool::new();
    let mut starting: Vec<_> = (0..4).map(|_| spool.serve("P").spawn()).collect();
    let ended = |starting: &mut Vec<Running>| {
        starting
            .iter_mut()
            .map(Running::has_ended)
            .filter(|ended| *ended)
            .count()
    };
    until("three that are refused", || ended(&mut starting) == 3);
    let mut serving = starting
        .iter_mut()
        .filter_map(|server| (!server.has_ended()).then(|| server.pid()));
    let pid = serving.next().unwrap();
    until("the record of the one", || {
        read_json(&spool.heartbeat_path("P")).is_some_and(|record| record["pid"] == pid)
    });
}

#[test]
fn a_killed_child_takes_its_open_question_with_it() {
    let spool = TestSpool::new();
    let mut server = spool.serve_select("P", &json!({}));
    let mut child = spool.ask("P").value("make one").id("r1").start();
    let question = server.question();
    child.running.kill();
    server.await_text("the process that asked has ended");
    let entry = spool.await_event("forwarded_permission.requester_gone", "r1");
    assert_eq!(entry["requesterSessionId"], "child");
    until("the request to go", || spool.waiting("P").is_empty());
    assert!(!is_there(&spool.response_path("P", "r1")));

    // The answer to what is gone decides nothing, and not the next question either.
    server.choose(&question, "Yes");
    server.await_text("the line was not used");
    let child = spool.ask("P").value("make two").id("r2").start();
    server.answer("make two", "No");
    child.end().denied();
    assert_eq!(spool.ends_of("r1").len(), 0);
}

#[test]
fn an_interrupted_child_withdraws_its_ask() {
    let spool = TestSpool::new();
    let mut server = spool.serve_select("P", &json!({}));
    for (signal, id) in [
        (Signal::INT, "r1"),
        (Signal::TERM, "r2"),
        (Signal::HUP, "r3"),
    ] {
        let child = spool.ask("P").value("make").id(id).start();
        let question = server.question();
        child.running.signal(signal);
        let ended = child.end();
        assert_eq!(ended.code, 130, "{}", ended.stderr);
        assert_eq!(ended.json, Value::Null);
        server.await_text("taken it back");
        spool.await_event("forwarded_permission.request_withdrawn", id);
        until("the request to go", || spool.waiting("P").is_empty());
        // The reading of input waits for a line to the closed question.
        server.choose(&question, "Yes");
        server.await_text("the line was not used");
        assert!(spool.ends_of(id).is_empty());
    }
}

#[test]
fn a_queued_ask_whose_child_is_killed_is_never_shown() {
    let spool = TestSpool::new();
    let mut server = spool.serve_select("P", &json!({}));
    let first = spool.ask("P").value("make one").id("r1").start();
    let question = server.question();
    let mut second = spool.ask("P").value("make two").id("r2").start();
    spool.await_event("forwarded_permission.prompted", "r2");
    second.running.kill();
    spool.await_event("forwarded_permission.requester_gone", "r2");
    server.choose(&question, "Yes");
    first.end().approved();
    assert_eq!(server.stop(), 0);
    assert!(!server.running.stdout().contains("make two"));
}

#[test]
fn a_stopped_child_still_waits_and_takes_its_answer_when_it_goes_on() {
    let spool = TestSpool::new();
    let mut server = spool.serve_select("P", &json!({}));
    let child = spool.ask("P").value("make").id("r1").start();
    let question = server.question();
    child.running.freeze();
    server.choose(&question, "Yes");
    let answer = spool.await_response("P", "r1");
    assert_eq!(answer["approved"], true);
    child.running.thaw();
    child.end().approved();
    assert!(
        spool
            .events("forwarded_permission.requester_gone")
            .is_empty()
    );
}

#[test]
fn a_child_that_sleeps_past_its_deadline_looks_one_last_time() {
    let spool = TestSpool::new();
    let mut server = spool.serve_select("P", &json!({}));
    let child = spool
        .ask("P")
        .value("make")
        .id("r1")
        .args(["--timeout", "8s"])
        .start();
    let question = server.question();
    child.running.freeze();
    server.choose(&question, "Yes");
    spool.await_response("P", "r1");
    // The deadline is the child's own clock: put the whole of it behind.
    pass(Duration::from_secs(9));
    child.running.thaw();
    child.end().approved();
}

#[test]
fn a_server_that_stands_still_for_a_moment_is_no_dead_one() {
    let spool = TestSpool::new();
    let mut server = spool.serve_select("P", &json!({}));
    let child = spool.ask("P").value("make").id("r1").start();
    let question = server.question();
    server.running.freeze();
    server.running.thaw();
    server.choose(&question, "Yes");
    child.end().approved();
}

#[test]
fn a_server_that_stands_still_is_given_up_and_finds_the_request_gone() {
    let spool = TestSpool::new();
    let mut server = spool.serve_select("P", &json!({}));
    let child = spool.ask("P").value("make").id("r1").start();
    let question = server.question();
    server.running.freeze();
    let ended = child.end();
    ended.unruled();
    assert_eq!(ended.json["abandoned"], "not_serving");
    let reason = ended.json["denialReason"].as_str().unwrap();
    assert!(reason.contains("heartbeat has stopped"), "{reason}");
    // A key pressed while it stood still must not decide for a child that has given up.
    server.choose(&question, "Yes");
    server.running.thaw();
    until("the way to be clear", || {
        !spool
            .events_of("forwarded_permission.request_withdrawn", "r1")
            .is_empty()
            || !spool
                .events_of("forwarded_permission.answer_unclaimed", "r1")
                .is_empty()
    });
    assert!(!is_there(&spool.response_path("P", "r1")));
    // It serves on.
    let child = spool.ask("P").value("make two").start();
    server.answer("make two", "Yes");
    child.end().approved();
}

#[test]
fn a_key_pressed_while_the_child_died_unseen_decides_nothing() {
    let spool = TestSpool::new();
    let mut server = spool.serve_select("P", &json!({}));
    let mut child = spool.ask("P").value("make").id("r1").start();
    let question = server.question();
    server.running.freeze();
    child.running.kill();
    server.choose(&question, "Yes");
    server.running.thaw();
    spool.await_event("forwarded_permission.requester_gone", "r1");
    until("the request to go", || spool.waiting("P").is_empty());
    assert!(!is_there(&spool.response_path("P", "r1")));
    assert!(spool.ends_of("r1").is_empty());
}

#[test]
fn a_session_whose_person_thinks_is_still_served() {
    let spool = TestSpool::new();
    let mut server = spool.serve_select("P", &json!({"bash": {"ls *": "allow"}}));
    let first = spool.ask("P").value("make one").id("r1").start();
    let question = server.question();
    let beat = || read_json(&spool.heartbeat_path("P")).unwrap()["updatedAt"].clone();
    let before = beat();
    let second = spool.ask("P").value("make two").id("r2").start();
    // The record goes on being written while the question stands; five seconds without would be the end.
    until("a few more beats", || {
        beat().as_i64().unwrap() >= before.as_i64().unwrap() + 5_500
    });
    assert!(!server.has_written_more());
    server.choose(&question, "Yes");
    first.end().approved();
    server.answer("make two", "Yes");
    second.end().approved();
}

#[test]
fn a_server_that_ends_settles_all_that_wait_and_withdraws_its_heartbeat() {
    let spool = TestSpool::new();
    let mut server = spool.serve_select("P", &json!({}));
    let children: Vec<_> = ["r1", "r2", "r3"]
        .into_iter()
        .map(|id| {
            let child = spool.ask("P").value(&format!("make {id}")).id(id).start();
            spool.await_event("forwarded_permission.prompted", id);
            child
        })
        .collect();
    let question = server.question();
    assert!(question.text.contains("make r1"));
    assert_eq!(server.stop(), 0);
    assert!(!is_there(&spool.heartbeat_path("P")));
    assert_eq!(
        spool.events("forwarded_permission.serving_stopped").len(),
        1
    );
    for child in children {
        let ended = child.end();
        ended.unruled();
        assert_eq!(ended.json["responderSessionId"], "P");
        let reason = ended.json["denialReason"].as_str().unwrap();
        assert!(reason.contains("session ended"), "{reason}");
    }
    for id in ["r1", "r2", "r3"] {
        assert_eq!(spool.ends_of(id).len(), 1, "{id}");
    }
    // No question was opened in a session that ends.
    assert!(!server.running.stdout().contains("make r2"));
    assert!(!server.running.stdout().contains("make r3"));
    assert_eq!(names(&spool.root().join("sessions")), [""; 0]);
}

#[test]
fn the_end_of_the_input_means_that_nobody_is_there() {
    let spool = TestSpool::new();
    let mut server = spool.serve_select("P", &json!({"bash": {"ls *": "allow"}}));
    server.running.close_stdin();
    let ended = spool.ask("P").value("make").run();
    ended.unruled();
    assert_eq!(ended.json["responderSessionId"], "P");
    // It goes on serving what policy decides, and still asks nobody.
    spool.ask("P").value("ls x").run().approved();
    spool.ask("P").value("make again").run().unruled();
}

#[test]
fn input_that_ends_under_an_open_question_settles_the_queue_as_unavailable() {
    let spool = TestSpool::new();
    let mut server = spool.serve_select("P", &json!({}));
    let first = spool.ask("P").value("make one").id("r1").start();
    let _question = server.question();
    let second = spool.ask("P").value("make two").id("r2").start();
    spool.await_event("forwarded_permission.prompted", "r2");
    server.running.close_stdin();
    first.end().unruled();
    second.end().unruled();
}

#[test]
fn a_start_over_the_records_of_the_dead_sweeps_them_and_leaves_the_living() {
    let spool = TestSpool::new();
    let mut killed = spool.serve("K").start();
    killed.running.kill();
    let _alive = spool.serve("A").start();
    assert!(!is_there(&spool.heartbeat_path("K")));
    let _third = spool.serve("B").start();
    assert!(is_there(&spool.heartbeat_path("A")));
    assert!(is_there(&spool.heartbeat_path("B")));
}

// The record itself, judged with a clock that is handed in.

/// One look after another at a record that is written in between.
struct Looks {
    spool: TestSpool,
    probe: LivenessProbe,
}

impl Looks {
    fn new() -> Self {
        let spool = TestSpool::new();
        let probe = LivenessProbe::new(spool.open(), SessionId::parse("P").unwrap());
        Self { spool, probe }
    }

    fn write(&self, record: &Value) {
        self.spool
            .put(&self.spool.heartbeat_path("P"), record.to_string());
    }

    fn at(&mut self, ms: u64) -> Liveness {
        self.probe
            .look(Moment::from_start(Duration::from_millis(ms)))
            .liveness
    }
}

fn record(pid: &Value, updated_at: i64) -> Value {
    json!({"sessionId": "P", "pid": pid, "updatedAt": updated_at})
}

#[test]
fn a_record_is_stale_after_five_unchanged_seconds_whatever_time_stands_in_it() {
    for updated_at in [0, 1_700_000_000_000, 9_000_000_000_000_000] {
        let mut looks = Looks::new();
        assert_eq!(looks.at(0), Liveness::Absent);
        looks.write(&record(&json!(own_pid()), updated_at));
        assert_eq!(looks.at(1_000), Liveness::Alive);
        assert_eq!(looks.at(5_999), Liveness::Alive);
        assert_eq!(looks.at(6_000), Liveness::Stale);
        looks.write(&record(&json!(own_pid()), updated_at));
        assert_eq!(looks.at(6_001), Liveness::Alive);
    }
}

#[test]
fn a_record_without_a_usable_pid_or_for_another_session_is_none() {
    for pid in [json!(0), json!(-5), json!(1.5), json!("7"), json!(null)] {
        let mut looks = Looks::new();
        looks.write(&record(&pid, 1));
        assert_eq!(looks.at(0), Liveness::Absent, "{pid}");
    }
    let mut looks = Looks::new();
    looks.write(&json!({"sessionId": "Q", "pid": own_pid(), "updatedAt": 1}));
    assert_eq!(looks.at(0), Liveness::Absent);
    let path = looks.spool.heartbeat_path("P");
    looks.spool.put(&path, "");
    assert_eq!(looks.at(1), Liveness::Absent);
    looks.spool.put(&path, "{\"sessionId\":");
    assert_eq!(looks.at(2), Liveness::Absent);
}

#[test]
fn a_dead_pid_counts_only_where_pids_can_be_compared() {
    let mut ended = std::process::Command::new("true").spawn().unwrap();
    let dead = ended.id();
    ended.wait().unwrap();
    let mut comparable = record(&json!(dead), 1);
    comparable["relay"] = json!({
        "v": 1, "held": false, "bootId": own_mark().boot_id, "pidNs": own_mark().pid_ns,
    });
    let mut looks = Looks::new();
    looks.write(&comparable);
    assert_eq!(looks.at(0), Liveness::DeadPid);

    comparable["relay"]["bootId"] = json!("another boot");
    looks.write(&comparable);
    assert_eq!(looks.at(1), Liveness::Alive);
    // Nothing is known of where this one's pid counts.
    looks.write(&record(&json!(dead), 1));
    assert_eq!(looks.at(2), Liveness::Alive);
    assert_eq!(looks.at(5_002), Liveness::Stale);
}

#[test]
fn a_record_that_claims_a_lock_nobody_holds_is_a_dead_servers() {
    let mut looks = Looks::new();
    let mut claiming = record(&json!(own_pid()), 1);
    claiming["relay"] = json!({"v": 1, "held": true});
    looks.write(&claiming);
    assert_eq!(looks.at(0), Liveness::LockFree);
}

#[test]
fn a_peer_without_locks_is_waited_for_while_its_record_changes_and_its_answer_counts() {
    let spool = TestSpool::new();
    let beat = |n: i64| {
        spool.put(
            &spool.heartbeat_path("P"),
            record(&json!(own_pid()), n).to_string(),
        );
    };
    beat(0);
    let mut child = spool.ask("P").value("make").id("r1").start();
    spool.await_request("P", "r1");
    // Longer than a record that stands still is believed, with the grace on top.
    let started = now();
    let mut n = 0;
    until("eight seconds of beats", || {
        n += 1;
        beat(n);
        now().since(started) > Duration::from_secs(8)
    });
    assert!(!child.running.has_ended());
    spool.put(
        &spool.response_path("P", "r1"),
        response("P", "approved").to_string(),
    );
    let ended = child.end();
    ended.approved();
    assert_eq!(
        ended.json["decidedBy"],
        json!({
            "kind": "forwarded",
            "responderSessionId": "P",
            "decision": {"kind": "user", "via": "dialog"},
        })
    );
    assert!(!is_there(&spool.response_path("P", "r1")));
    assert!(!is_there(&spool.request_path("P", "r1")));
}

#[test]
fn an_answer_that_lies_there_wins_over_a_session_that_nobody_serves() {
    let spool = TestSpool::new();
    let child = spool.ask("P").value("make").id("r1").start();
    spool.await_request("P", "r1");
    child.running.freeze();
    spool.put(
        &spool.response_path("P", "r1"),
        response("P", "approved").to_string(),
    );
    // Longer than a session may look unserved.
    pass(Duration::from_millis(2_500));
    child.running.thaw();
    child.end().approved();
}

#[test]
fn an_ask_gives_up_at_its_own_deadline_on_a_living_session() {
    let spool = TestSpool::new();
    let mut server = spool.serve_select("P", &json!({}));
    let child = spool
        .ask("P")
        .value("make")
        .id("r1")
        .args(["--timeout", "1500ms"])
        .start();
    let question = server.question();
    let ended = child.end();
    ended.unruled();
    assert_eq!(ended.json["abandoned"], "timed_out");
    assert_eq!(
        ended.json["denialReason"],
        "session \"P\" did not answer within 1.5s"
    );
    spool.await_event("forwarded_permission.response_timed_out", "r1");
    server.await_text("taken it back");
    // An approval after the end has no effect.
    server.choose(&question, "Yes");
    server.await_text("the line was not used");
    assert!(!is_there(&spool.response_path("P", "r1")));
    assert!(spool.ends_of("r1").is_empty());
}

#[test]
fn the_asks_that_wait_for_a_person_who_is_away_can_be_seen_with_their_age() {
    let spool = TestSpool::new();
    let mut server = spool.serve_select("P", &json!({}));
    spool.put_request("P", &request("old", "P", "bash", "make"));
    let _question = server.question();
    let age = || {
        let (code, stdout, _) = run(spool.relay().args(["ls", "--json"]));
        assert_eq!(code, 0);
        let line: Value = serde_json::from_str(stdout.lines().next().unwrap()).unwrap();
        assert_eq!(line["requestId"], "old");
        line["ageMs"].as_u64().unwrap()
    };
    let before = age();
    eventually("it to grow older", || (age() > before).then_some(()));
}
