#![expect(
    clippy::disallowed_methods,
    reason = "tests lay out odd files and look at what became of them"
)]

use std::fs;
use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::spool::lock::LockState;
use crate::spool::testing::{Odd, Place, id, mode, names, session};

fn outbox(place: &Place) -> Outbox {
    Outbox::new(&place.spool, &session())
}

#[track_caller]
fn submit(outbox: &mut Outbox, name: &str) -> Submission {
    match outbox.submit(&id(name), |_| Ok("{}")).unwrap() {
        SubmitOutcome::Written(submission) => submission,
        SubmitOutcome::IdTaken => panic!("{name} is taken"),
    }
}

fn lock_of(place: &Place, name: &str) -> LockState {
    let path = place.at("sessions/main/requests").join(name);
    lock::probe_file(&File::open(path).unwrap())
}

#[test]
fn a_request_is_locked_before_anybody_sees_it_and_for_as_long_as_it_waits() {
    let place = Place::new();
    let mut outbox = outbox(&place);
    let mut told = None;
    let written = outbox.submit(&id("r1"), |held| {
        told = Some(held);
        let seen = names(&place.at("sessions/main/requests"));
        assert!(seen.iter().all(|name| name.ends_with(".tmp")), "{seen:?}");
        Ok("{\"a\":1}")
    });
    let SubmitOutcome::Written(submission) = written.unwrap() else {
        panic!("taken");
    };
    assert_eq!(told, Some(Held::Locked));
    let path = place.at("sessions/main/requests/r1.json");
    assert_eq!(fs::read(&path).unwrap(), b"{\"a\":1}");
    assert_eq!((submission.path(), submission.id()), (&path, &id("r1")));
    assert_eq!(mode(&path), 0o600);
    for dir in [
        "sessions",
        "sessions/main",
        "sessions/main/requests",
        "sessions/main/responses",
    ] {
        assert_eq!(mode(&place.at(dir)), 0o700, "{dir}");
    }
    assert_eq!(lock_of(&place, "r1.json"), LockState::Held);
    assert!(place.at("sessions/main/requests/r1.json").exists());
    drop(submission);
    assert_eq!(lock_of(&place, "r1.json"), LockState::Free);
}

#[test]
fn an_id_is_taken_by_a_request_or_by_anything_in_place_of_its_response() {
    let place = Place::new();
    let mut outbox = outbox(&place);
    let first = submit(&mut outbox, "r1");
    place.write("sessions/main/responses/r2.json", "{}");
    symlink("nowhere", place.at("sessions/main/responses/r3.json")).unwrap();
    fs::create_dir(place.at("sessions/main/responses/r4.json")).unwrap();
    symlink("nowhere", place.at("sessions/main/requests/r5.json")).unwrap();
    for taken in ["r1", "r2", "r3", "r4", "r5"] {
        let outcome = outbox.submit(&id(taken), |_| Ok("other")).unwrap();
        assert!(matches!(outcome, SubmitOutcome::IdTaken), "{taken}");
    }
    assert_eq!(fs::read(first.path()).unwrap(), b"{}");
    assert_eq!(
        names(&place.at("sessions/main/requests")),
        ["r1.json", "r5.json"]
    );
}

#[test]
fn a_request_that_cannot_be_written_leaves_nothing() {
    let place = Place::new();
    let mut outbox = outbox(&place);
    let error = outbox
        .submit(&id("r1"), |_| -> io::Result<&str> {
            Err(io::ErrorKind::StorageFull.into())
        })
        .unwrap_err();
    assert!(
        matches!(&error, SpoolError::Io { source, .. } if source.kind() == io::ErrorKind::StorageFull)
    );
    assert!(error.to_string().contains("r1.json"), "{error}");
    outbox.clean().unwrap();
    assert_eq!(names(&place.at("sessions")), [""; 0]);
}

#[test]
fn an_answer_is_consumed_whole_response_first() {
    let place = Place::new();
    let mut outbox = outbox(&place);
    let submission = submit(&mut outbox, "r1");
    assert!(matches!(
        outbox.look(&id("r1"), Freshness::ByPath).unwrap(),
        Consumed::NotYet
    ));
    place.write("sessions/main/responses/r1.json", "answer");
    assert_eq!(outbox.list_responses().unwrap(), [id("r1")]);
    let Consumed::Bytes(bytes, _) = outbox.look(&id("r1"), Freshness::ByPath).unwrap() else {
        panic!("it lies there");
    };
    assert_eq!(bytes, b"answer");
    outbox.finish(submission).unwrap();
    assert_eq!(names(&place.at("sessions")), [""; 0]);
}

#[test]
fn a_request_taken_back_leaves_an_answer_alone() {
    let place = Place::new();
    let mut outbox = outbox(&place);
    let submission = submit(&mut outbox, "r1");
    place.write("sessions/main/responses/r1.json", "late");
    outbox.withdraw(submission).unwrap();
    assert_eq!(names(&place.at("sessions/main")), ["responses"]);
    assert_eq!(names(&place.at("sessions/main/responses")), ["r1.json"]);
}

#[test]
fn fsobj_1_an_odd_response_is_unreadable_and_the_request_goes_all_the_same() {
    for odd in Odd::ALL {
        let place = Place::new();
        let mut outbox = outbox(&place);
        let submission = submit(&mut outbox, "r1");
        if !odd.make(
            &place.at("sessions/main/responses/r1.json"),
            &place.beside("secret"),
        ) {
            continue;
        }
        let seen = outbox.look(&id("r1"), Freshness::ByPath).unwrap();
        assert!(matches!(seen, Consumed::Unreadable(_)), "{odd:?}: {seen:?}");
        // A directory cannot be removed; everything else is.
        let finished = outbox.finish(submission);
        let stays = matches!(odd, Odd::Directory | Odd::FullDirectory);
        assert_eq!(finished.is_err(), stays, "{odd:?}");
        assert!(
            !place.at("sessions/main/requests/r1.json").exists(),
            "{odd:?}"
        );
        assert_eq!(
            fs::read(place.beside("secret")).unwrap(),
            b"a secret",
            "{odd:?}"
        );
    }
}

#[test]
fn race_1_an_answer_is_found_in_a_directory_that_was_removed_and_made_again() {
    let place = Place::new();
    let mut outbox = outbox(&place);
    let submission = submit(&mut outbox, "r1");
    fs::remove_dir(place.at("sessions/main/responses")).unwrap();
    assert!(matches!(
        outbox.look(&id("r1"), Freshness::ByPath).unwrap(),
        Consumed::NotYet
    ));
    fs::rename(place.at("sessions/main/responses"), place.at("moved")).unwrap();
    place.write("sessions/main/responses/r1.json", "answer");
    assert_eq!(outbox.list_responses().unwrap(), [id("r1")]);
    fs::remove_file(place.at("sessions/main/responses/r1.json")).unwrap();
    fs::rename(place.at("sessions/main/responses"), place.at("moved-2")).unwrap();
    place.write("sessions/main/responses/r1.json", "answer");
    assert!(matches!(
        outbox.look(&id("r1"), Freshness::ByPath).unwrap(),
        Consumed::Bytes(..)
    ));
    outbox.finish(submission).unwrap();
    assert_eq!(names(&place.at("sessions")), [""; 0]);
}

#[test]
fn a_session_that_is_no_directory_is_an_error_and_no_way_out() {
    for odd in [Odd::Fifo, Odd::Link, Odd::DanglingLink, Odd::SecondName] {
        for at in [
            "sessions",
            "sessions/main",
            "sessions/main/requests",
            "sessions/main/responses",
        ] {
            let place = Place::new();
            let path = place.at(at);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::create_dir(place.beside("elsewhere")).unwrap();
            if odd == Odd::Link {
                symlink(place.beside("elsewhere"), &path).unwrap();
            } else {
                assert!(odd.make(&path, &place.beside("secret")));
            }
            let mut outbox = outbox(&place);
            assert!(outbox.prepare().is_err(), "{odd:?} {at}");
            assert!(
                outbox.submit(&id("r1"), |_| Ok("{}")).is_err(),
                "{odd:?} {at}"
            );
            assert_eq!(names(&place.beside("elsewhere")), [""; 0], "{odd:?} {at}");
        }
    }
}

#[test]
fn race_1_no_request_is_lost_to_a_clean_up() {
    const SUBMITTERS: usize = 2;
    const EACH: usize = 250;
    let place = Place::new();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let cleaner = scope.spawn(|| {
            let mut outbox = outbox(&place);
            let mut failed = Vec::new();
            while !done.load(Ordering::Relaxed) {
                failed.extend(outbox.clean().err().map(|error| error.to_string()));
            }
            failed
        });
        let submitters: Vec<_> = (0..SUBMITTERS)
            .map(|number| {
                let place = &place;
                scope.spawn(move || {
                    let mut outbox = outbox(place);
                    for round in 0..EACH {
                        let name = format!("r{number}-{round}");
                        let submission = submit(&mut outbox, &name);
                        assert!(submission.path().exists(), "{name} was lost");
                        outbox.finish(submission).unwrap();
                    }
                })
            })
            .collect();
        let ended: Vec<_> = submitters
            .into_iter()
            .map(std::thread::ScopedJoinHandle::join)
            .collect();
        // Before anything is asserted, or the cleaner would never end.
        done.store(true, Ordering::Relaxed);
        for ended in ended {
            ended.unwrap();
        }
        assert_eq!(cleaner.join().unwrap(), [""; 0]);
    });
    outbox(&place).clean().unwrap();
    assert_eq!(names(&place.at("sessions")), [""; 0]);
}
