#![expect(
    clippy::disallowed_methods,
    reason = "tests lay out odd files and look at what became of them"
)]

use std::fs;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use super::*;
use crate::spool::testing::{Place, mode, session, until};

fn take(place: &Place) -> LockOutcome {
    ServingLock::take(&place.spool, &session(), 1_234).unwrap()
}

fn taken(place: &Place) -> ServingLock {
    match take(place) {
        LockOutcome::Taken(lock) => lock,
        other @ (LockOutcome::Busy(_) | LockOutcome::Unsupported) => panic!("{other:?}"),
    }
}

fn look(place: &Place) -> LockState {
    state(&place.dir(SERVING), &session()).unwrap()
}

/// A process that holds the lock: it has inherited the one descriptor that is locked.
fn holder(place: &Place) -> Child {
    let lock = taken(place);
    let child = Command::new("sleep")
        .arg("600")
        .stdin(Stdio::from(lock.file))
        .spawn()
        .unwrap();
    assert_eq!(look(place), LockState::Held);
    child
}

#[test]
fn race_4_the_second_server_learns_who_is_first() {
    let place = Place::new();
    let lock = taken(&place);
    let LockOutcome::Busy(owner) = take(&place) else {
        panic!("two servers of one session");
    };
    let expected = Owner {
        pid: Some(process::own_pid()),
        since_ms: Some(1_234),
    };
    assert_eq!(owner, expected);
    assert_eq!(super::owner(&place.dir(SERVING), &session()), expected);
    assert_eq!(mode(&place.at("serving/main.lock")), 0o600);
    drop(lock);
    drop(taken(&place));
}

#[test]
fn race_4_a_killed_server_leaves_a_free_lock() {
    let place = Place::new();
    let mut child = holder(&place);
    assert!(matches!(take(&place), LockOutcome::Busy(_)));
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(look(&place), LockState::Free);
    drop(taken(&place));
    assert!(
        place.at("serving/main.lock").exists(),
        "it is never unlinked"
    );
}

#[test]
fn a_look_changes_nothing_and_says_what_is_there() {
    let place = Place::new();
    assert_eq!(look(&place), LockState::Absent);
    assert!(!place.at("serving/main.lock").exists());
    let lock = taken(&place);
    for _ in 0..3 {
        assert_eq!(look(&place), LockState::Held);
    }
    drop(lock);
    assert_eq!(look(&place), LockState::Free);
}

#[test]
fn those_who_look_never_keep_a_server_out() {
    let place = Place::new();
    drop(taken(&place));
    let (done, looks) = (AtomicBool::new(false), AtomicU32::new(0));
    let outcomes: Vec<bool> = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let _state = look(&place);
                looks.fetch_add(1, Ordering::Relaxed);
            }
        });
        until("somebody who looks", || looks.load(Ordering::Relaxed) > 0);
        let outcomes = (0..100)
            .map(|_| matches!(take(&place), LockOutcome::Taken(_)))
            .collect();
        // Before anything is asserted, or the other thread would never end.
        done.store(true, Ordering::Relaxed);
        outcomes
    });
    assert!(outcomes.iter().all(|taken| *taken), "{outcomes:?}");
}

#[test]
fn a_lock_whose_name_leads_elsewhere_is_not_current() {
    let place = Place::new();
    let lock = taken(&place);
    assert!(lock.is_current(&place.spool, &session()));
    let path = place.at("serving/main.lock");
    fs::remove_file(&path).unwrap();
    assert!(!lock.is_current(&place.spool, &session()));
    fs::write(&path, "").unwrap();
    assert!(!lock.is_current(&place.spool, &session()));
    let again = taken(&place);
    assert!(again.is_current(&place.spool, &session()));
    fs::rename(place.at("serving"), place.at("moved")).unwrap();
    assert!(!again.is_current(&place.spool, &session()));
}

#[test]
fn what_a_lock_file_says_is_taken_for_what_it_is_worth() {
    for (text, pid, since_ms) in [
        (&b"12 34\n"[..], Some(12), Some(34)),
        (b"12", Some(12), None),
        (b"", None, None),
        (b"x y", None, None),
        (b"-1 5", None, Some(5)),
        (b"99999999999 7", None, Some(7)),
        (b"\xff\xfe 1", None, Some(1)),
        (b"\0\0\0", None, None),
    ] {
        assert_eq!(parse_owner(text), Owner { pid, since_ms }, "{text:?}");
    }
}

#[test]
fn a_file_that_cannot_be_a_lock_is_an_error_for_the_server_and_no_trouble_for_others() {
    use crate::spool::testing::Odd;
    for odd in [
        Odd::Fifo,
        Odd::Directory,
        Odd::Link,
        Odd::Socket,
        Odd::SecondName,
    ] {
        let place = Place::new();
        place.dir(SERVING);
        assert!(odd.make(&place.at("serving/main.lock"), &place.beside("secret")));
        let error = ServingLock::take(&place.spool, &session(), 0).unwrap_err();
        assert!(error.to_string().contains("main.lock"), "{odd:?}: {error}");
        let seen = state(&place.dir(SERVING), &session());
        assert!(!matches!(seen, Ok(LockState::Held)), "{odd:?}");
        assert_eq!(
            super::owner(&place.dir(SERVING), &session()),
            Owner::default()
        );
        assert_eq!(fs::read(place.beside("secret")).unwrap(), b"a secret");
    }
}

#[test]
fn a_lock_is_freed_by_the_last_descriptor() {
    let place = Place::new();
    let mut child = holder(&place);
    child.kill().unwrap();
    until("a free lock", || look(&place) == LockState::Free);
    child.wait().unwrap();
}
