#![expect(
    clippy::disallowed_methods,
    reason = "tests lay out odd files and look at what became of them"
)]

use std::fs;

use super::*;
use crate::spool::testing::{Odd, Place, names, session};
use crate::spool::{LockOutcome, ServingLock};
use crate::wire::{HeartbeatRelay, ProcessMark};

const PATH: &str = "serving/main.json";

fn second(seconds: u64) -> Moment {
    Moment::from_start(Duration::from_secs(seconds))
}

/// A record as the peer writes it, from this process.
fn peers() -> Heartbeat {
    Heartbeat {
        session_id: "main".into(),
        pid: process::own_pid(),
        updated_at_ms: 1_700_000_000_000,
        relay: None,
    }
}

/// A record as we write it, from this process.
fn ours(held: bool) -> Heartbeat {
    Heartbeat {
        relay: Some(HeartbeatRelay {
            held,
            process: process::own_mark().clone(),
            ..HeartbeatRelay::default()
        }),
        ..peers()
    }
}

fn with_mark(mark: ProcessMark) -> Heartbeat {
    let mut record = ours(false);
    if let Some(relay) = &mut record.relay {
        relay.process = mark;
    }
    record
}

/// Writes a record as a server does: beside, then renamed.
fn put(place: &Place, record: &Heartbeat) {
    place.write("serving/.x.tmp", record.to_json().unwrap());
    fs::rename(place.at("serving/.x.tmp"), place.at(PATH)).unwrap();
}

fn probe(place: &Place) -> LivenessProbe {
    LivenessProbe::new(place.spool.clone(), session())
}

fn look(probe: &mut LivenessProbe, at: Moment) -> Liveness {
    probe.look(at).liveness
}

fn lock_of(place: &Place) -> ServingLock {
    match ServingLock::take(&place.spool, &session(), 0).unwrap() {
        LockOutcome::Taken(lock) => lock,
        other @ (LockOutcome::Busy(_) | LockOutcome::Unsupported) => panic!("{other:?}"),
    }
}

/// A pid that no process has any more.
fn dead_pid() -> u32 {
    let mut child = std::process::Command::new("true").spawn().unwrap();
    let pid = child.id();
    child.wait().unwrap();
    pid
}

#[test]
fn live_2_without_a_usable_record_nobody_serves() {
    let place = Place::new();
    let mut probe = probe(&place);
    assert_eq!(
        look(&mut probe, second(0)),
        Liveness::Absent,
        "no directory"
    );
    place.dir(SERVING);
    assert_eq!(look(&mut probe, second(0)), Liveness::Absent, "no file");
    let long = format!(
        r#"{{"sessionId":"main","pid":1,"updatedAt":1,"x":"{}"}}"#,
        "x".repeat(17_000)
    );
    for bytes in [
        "",
        "{}",
        "null",
        "[]",
        "{",
        "\u{feff}{\"sessionId\":\"main\",\"pid\":1,\"updatedAt\":1}",
        r#"{"sessionId":"main","pid":1,"pid":2,"updatedAt":1}"#,
        r#"{"sessionId":"main","pid":0,"updatedAt":1}"#,
        r#"{"sessionId":"main","pid":-1,"updatedAt":1}"#,
        r#"{"sessionId":"","pid":1,"updatedAt":1}"#,
        r#"{"sessionId":"main","pid":1,"updatedAt":1}{}"#,
        &long,
    ] {
        place.write(PATH, bytes);
        assert_eq!(look(&mut probe, second(0)), Liveness::Absent, "{bytes:?}");
        assert!(probe.record().is_none());
    }
}

#[test]
fn fsobj_1_an_odd_record_is_no_record_and_holds_nobody_up() {
    for odd in Odd::ALL {
        let place = Place::new();
        place.dir(SERVING);
        if odd.make(&place.at(PATH), &place.beside("secret")) {
            assert_eq!(
                look(&mut probe(&place), second(0)),
                Liveness::Absent,
                "{odd:?}"
            );
        }
    }
}

#[test]
fn route_2_a_record_of_another_session_does_not_count() {
    let place = Place::new();
    put(
        &place,
        &Heartbeat {
            session_id: "other".into(),
            ..ours(false)
        },
    );
    assert_eq!(look(&mut probe(&place), second(0)), Liveness::Absent);
}

#[test]
fn time_1_only_a_change_of_the_record_counts_not_what_it_says() {
    for updated_at_ms in [0, i64::from(i32::MAX), 9_000_000_000_000_000] {
        let place = Place::new();
        let record = Heartbeat {
            updated_at_ms,
            ..peers()
        };
        put(&place, &record);
        let mut probe = probe(&place);
        assert_eq!(look(&mut probe, second(100)), Liveness::Alive);
        assert_eq!(look(&mut probe, second(104)), Liveness::Alive);
        assert_eq!(look(&mut probe, second(105)), Liveness::Stale);
        // The same words in a new file are a sign of life.
        put(&place, &record);
        assert_eq!(look(&mut probe, second(1_000)), Liveness::Alive);
        assert_eq!(look(&mut probe, second(1_004)), Liveness::Alive);
        assert_eq!(look(&mut probe, second(1_005)), Liveness::Stale);
        // The own clock does not run backwards, and nothing breaks where it would.
        assert_eq!(look(&mut probe, second(10)), Liveness::Alive);
    }
}

#[test]
fn a_dead_process_is_only_known_where_pids_compare() {
    let mark = process::own_mark().clone();
    let elsewhere = ProcessMark {
        pid_ns: Some("pid:[1]".into()),
        ..mark.clone()
    };
    let before = ProcessMark {
        boot_id: Some("another".into()),
        ..mark.clone()
    };
    for (mark, expected) in [
        (mark, Liveness::DeadPid),
        (elsewhere, Liveness::Alive),
        (before, Liveness::Alive),
        (ProcessMark::default(), Liveness::Alive),
    ] {
        let place = Place::new();
        let record = Heartbeat {
            pid: dead_pid(),
            ..with_mark(mark.clone())
        };
        put(&place, &record);
        let mut probe = probe(&place);
        assert_eq!(look(&mut probe, second(0)), expected, "{mark:?}");
        assert_eq!(look(&mut probe, second(5)), Liveness::Stale, "{mark:?}");
    }
}

#[test]
fn a_reused_pid_is_a_dead_server() {
    let place = Place::new();
    let mark = ProcessMark {
        pid_start: Some("1".into()),
        ..process::own_mark().clone()
    };
    put(&place, &with_mark(mark));
    assert_eq!(look(&mut probe(&place), second(0)), Liveness::DeadPid);
}

#[test]
fn a_claimed_lock_says_at_once_whether_it_is_true() {
    let place = Place::new();
    put(&place, &ours(true));
    let mut probe = probe(&place);
    assert_eq!(
        look(&mut probe, second(0)),
        Liveness::LockFree,
        "no lock file"
    );
    let lock = lock_of(&place);
    for now in 0..3 {
        let seen = probe.look(second(now));
        assert_eq!((seen.liveness, seen.lock_held), (Liveness::Alive, true));
    }
    // Holding a lock is no sign of work: a frozen server is stale as well.
    assert_eq!(look(&mut probe, second(6)), Liveness::Stale);
    put(&place, &ours(true));
    assert_eq!(look(&mut probe, second(7)), Liveness::Alive);
    drop(lock);
    let seen = probe.look(second(8));
    assert_eq!((seen.liveness, seen.lock_held), (Liveness::LockFree, false));
    // A server that takes no locks says so, and is judged by its record alone.
    put(&place, &ours(false));
    assert_eq!(look(&mut probe, second(9)), Liveness::Alive);
}

#[test]
fn a_lock_file_that_was_swapped_under_the_name_fools_nobody_for_long() {
    let place = Place::new();
    put(&place, &ours(true));
    let lock = lock_of(&place);
    let mut seen_before = probe(&place);
    assert_eq!(look(&mut seen_before, second(0)), Liveness::Alive);
    fs::remove_file(place.at("serving/main.lock")).unwrap();
    // Who has the true file open still sees it held; who comes anew sees that the name proves nothing.
    assert_eq!(look(&mut seen_before, second(1)), Liveness::Alive);
    assert_eq!(look(&mut probe(&place), second(1)), Liveness::LockFree);
    let again = lock_of(&place);
    assert_eq!(look(&mut probe(&place), second(1)), Liveness::Alive);
    drop((lock, again));
    assert_eq!(look(&mut seen_before, second(1)), Liveness::LockFree);
}

#[test]
fn a_replaced_directory_is_looked_into_anew() {
    let place = Place::new();
    put(&place, &peers());
    let mut probe = probe(&place);
    assert_eq!(look(&mut probe, second(0)), Liveness::Alive);
    fs::remove_dir_all(place.at(SERVING)).unwrap();
    assert_eq!(look(&mut probe, second(1)), Liveness::Absent);
    put(&place, &peers());
    assert_eq!(look(&mut probe, second(2)), Liveness::Alive);
}

#[test]
fn a_record_is_withdrawn_by_its_owner_alone() {
    let place = Place::new();
    let mut file = HeartbeatFile::new(&place.spool, &session()).unwrap();
    file.withdraw().unwrap();
    let stamp = file.publish(&ours(true).to_json().unwrap()).unwrap();
    let named = place.dir(SERVING).stat("main.json").unwrap().unwrap();
    assert_eq!(stamp, named);
    file.withdraw().unwrap();
    assert!(!place.at(PATH).exists());
    put(&place, &Heartbeat { pid: 1, ..peers() });
    file.withdraw().unwrap();
    assert!(place.at(PATH).exists(), "another process serves by now");
    place.write(PATH, "{}");
    file.withdraw().unwrap();
    assert!(place.at(PATH).exists(), "it is nobody's");
}

#[test]
fn a_record_is_written_whatever_became_of_its_place() {
    let place = Place::new();
    let mut file = HeartbeatFile::new(&place.spool, &session()).unwrap();
    let record = ours(false).to_json().unwrap();
    // Whoever writes looks after the place first, by the lock that lies beside it.
    fs::remove_dir(place.at(SERVING)).unwrap();
    file.keep_place().unwrap();
    file.publish(&record).unwrap();
    assert_eq!(look(&mut probe(&place), second(0)), Liveness::Alive);
    fs::rename(place.at(SERVING), place.at("moved")).unwrap();
    file.keep_place().unwrap();
    file.publish(&record).unwrap();
    assert_eq!(look(&mut probe(&place), second(0)), Liveness::Alive);
    fs::remove_file(place.at(PATH)).unwrap();
    assert!(Odd::FullDirectory.make(&place.at(PATH), &place.beside("secret")));
    file.publish(&record).unwrap();
    assert_eq!(look(&mut probe(&place), second(0)), Liveness::Alive);
    assert_eq!(
        names(&place.at("quarantine")).len(),
        2,
        "the directory and its reason"
    );
}

#[test]
fn the_sweep_takes_the_provably_dead_and_nothing_else() {
    let place = Place::new();
    let mut file = HeartbeatFile::new(&place.spool, &session()).unwrap();
    let now = file.publish(&ours(false).to_json().unwrap()).unwrap();
    let later = FileStamp {
        mtime_ns: now.mtime_ns + 60_000_000_000,
        ..now
    };
    let dead = dead_pid();
    let write = |name: &str, record: &Heartbeat| {
        let record = Heartbeat {
            session_id: name.into(),
            ..record.clone()
        };
        place.write(&format!("serving/{name}.json"), record.to_json().unwrap());
    };
    let by_dead = |record: Heartbeat| Heartbeat {
        pid: dead,
        ..record
    };
    write("dead-marked", &by_dead(ours(false)));
    write("dead-peer", &by_dead(peers()));
    write(
        "dead-elsewhere",
        &by_dead(with_mark(ProcessMark::default())),
    );
    write("living-peer", &peers());
    write("living", &ours(false));
    write("lock-free", &ours(true));
    write("lock-held", &by_dead(ours(true)));
    place.write("serving/broken.json", "{");
    place.write("serving/note.txt", "");
    place.write("serving/lock-free.lock", "");
    let other = SessionId::parse("lock-held").unwrap();
    let held = ServingLock::take(&place.spool, &other, 0).unwrap();
    let odd = [Odd::Fifo, Odd::Directory, Odd::DanglingLink];
    for odd in odd {
        assert!(odd.make(
            &place.at(&format!("serving/{odd:?}.json")),
            &place.beside("s")
        ));
    }
    // Records of a pid alone, and those that nobody can read, must also have gone unrefreshed.
    let mut swept = file.sweep_dead(now);
    swept.sort();
    assert_eq!(swept, ["dead-marked.json", "lock-free.json"]);
    let mut swept = file.sweep_dead(later);
    swept.sort();
    assert_eq!(
        swept,
        ["broken.json", "dead-elsewhere.json", "dead-peer.json"]
    );
    drop(held);
    for kept in [
        "main",
        "living-peer",
        "living",
        "lock-held",
        "Fifo",
        "Directory",
    ] {
        assert!(place.at(&format!("serving/{kept}.json")).exists(), "{kept}");
    }
    assert!(place.at("serving/note.txt").exists());
}
