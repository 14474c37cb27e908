#![expect(
    clippy::disallowed_methods,
    reason = "tests play the tool that changes the files"
)]

use std::os::unix::fs::PermissionsExt as _;

use super::*;
use crate::spool::LockState;
use crate::spool::testing::Place;
use crate::wire::{GrantWidth, Lifetime};

fn session() -> SessionId {
    SessionId::parse("main").unwrap()
}

fn record(id: u64) -> GrantRecord {
    GrantRecord {
        id,
        session_id: "main".to_owned(),
        surface: "bash".to_owned(),
        pattern: "make *".to_owned(),
        exact: false,
        width: GrantWidth::Proven,
        subagent: None,
        lifetime: Lifetime::SessionEnd,
        uses: 0,
        given_at_ms: 1,
        expires_at_ms: None,
        given_by: "dialog".to_owned(),
        request_id: "r".to_owned(),
        log_line: None,
    }
}

fn with(place: &Place, ids: &[u64]) -> GrantFiles {
    let mut files = GrantFiles::new(&place.spool, &session());
    for id in ids {
        files.write(&record(*id)).unwrap();
    }
    files
}

#[test]
fn a_grant_has_a_file_that_only_its_owner_can_read_and_goes_with_it() {
    let place = Place::new();
    let mut files = with(&place, &[1, 2]);
    let stat = rustix::fs::stat(place.at("grants/main/1.json")).unwrap();
    assert_eq!(stat.st_mode & 0o7777, 0o600);
    let stat = rustix::fs::stat(place.at("grants/main")).unwrap();
    assert_eq!(stat.st_mode & 0o7777, 0o700);
    let listed = &place.spool.grants().unwrap()[0];
    let ids: Vec<u64> = (listed.grants.iter())
        .map(|grant| grant.record.as_ref().unwrap().id)
        .collect();
    assert_eq!((listed.name.as_str(), ids), ("main", vec![1, 2]));
    assert_eq!(listed.lock, LockState::Absent);
    files.remove(1).unwrap();
    assert_eq!(place.spool.grants().unwrap()[0].grants.len(), 1);
    files.leave().unwrap();
    assert!(place.spool.grants().unwrap().is_empty());
}

#[test]
fn what_is_gone_or_not_as_it_was_left_is_lost() {
    let place = Place::new();
    let mut files = with(&place, &[1, 2, 3]);
    assert!(files.lost_of([1, 2, 3]).is_empty());
    place.write("grants/main/2.json", b"{}");
    std::fs::remove_file(place.at("grants/main/1.json")).unwrap();
    assert_eq!(
        files.lost_of([1, 2, 3, 4]),
        [(1, Lost::Gone), (2, Lost::Changed), (4, Lost::Gone)]
    );
    assert_eq!(files.look().lost, [(1, Lost::Gone), (2, Lost::Changed)]);
    assert!(matches!(files.rewrite(&record(1)), Ok(Some(Lost::Gone))));
    assert!(matches!(files.rewrite(&record(3)), Ok(None)));
    assert!(files.lost_of([3]).is_empty());
}

#[test]
fn a_directory_in_another_place_has_lost_all_grants() {
    let place = Place::new();
    let mut files = with(&place, &[1]);
    std::fs::rename(place.at("grants/main"), place.at("elsewhere")).unwrap();
    assert_eq!(files.lost_of([1]), [(1, Lost::Gone)]);
    // A link to where it went is no directory of the session.
    std::os::unix::fs::symlink(place.at("elsewhere"), place.at("grants/main")).unwrap();
    assert_eq!(files.lost_of([1]), [(1, Lost::Gone)]);
    assert!(
        place
            .spool
            .take_back(&session(), &[1], Duration::ZERO)
            .is_err()
    );
    files.write(&record(2)).unwrap();
    assert_eq!(files.lost_of([1, 2]), [(1, Lost::Gone)]);
}

#[test]
fn what_the_server_did_not_write_is_moved_aside() {
    let place = Place::new();
    let mut files = with(&place, &[1]);
    assert!(files.look().foreign.is_empty());
    for name in ["2.json", "01.json", "x"] {
        place.write(&format!("grants/main/{name}"), b"{}");
    }
    let mut foreign = files.look().foreign;
    foreign.sort();
    assert_eq!(foreign, ["01.json", "2.json", "x"]);
    assert!(files.look().foreign.is_empty());
    assert!(files.lost_of([1]).is_empty());
}

#[test]
fn nothing_is_taken_back_while_an_answer_is_published_and_nothing_is_published_meanwhile() {
    let place = Place::new();
    let files = with(&place, &[1, 2]);
    let take = |ids: &[u64]| {
        place
            .spool
            .take_back(&session(), ids, Duration::ZERO)
            .unwrap()
    };
    let GrantHold::Held(hold) = files.hold() else {
        panic!("it is not held");
    };
    // It is taken back all the same, and is said not to be certain.
    let back = take(&[1]);
    assert_eq!((back.taken, back.unlocked), (vec![1], true));
    drop(hold);
    let dir = place.spool.root.open_dir("grants/main").unwrap().unwrap();
    rustix::fs::flock(&dir, FlockOperation::NonBlockingLockExclusive).unwrap();
    assert!(matches!(files.hold(), GrantHold::Busy));
    drop(dir);
    let back = take(&[2, 7]);
    assert_eq!((back.taken, back.unknown), (vec![2], vec![7]));
    assert!(!back.unlocked);
    assert!(matches!(files.hold(), GrantHold::Held(_)));
}

#[test]
fn what_cannot_be_removed_keeps_none_of_the_others() {
    let place = Place::new();
    let mut files = with(&place, &[1, 2, 3]);
    let path = place.at("grants/main/1.json");
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    let take = |ids: &[u64]| {
        place
            .spool
            .take_back(&session(), ids, Duration::ZERO)
            .unwrap()
    };
    let back = take(&[1, 2]);
    assert_eq!(back.taken, [2]);
    assert_eq!(back.failed[0].0, 1);
    // The same where the server takes leave.
    files.leave().unwrap_err();
    assert!(!place.at("grants/main/3.json").exists());
}

#[test]
fn a_file_that_was_away_between_two_looks_is_lost() {
    let place = Place::new();
    let files = with(&place, &[1, 2, 3]);
    let (one, two) = (
        place.at("grants/main/1.json"),
        place.at("grants/main/2.json"),
    );
    // The file system's clock goes in steps of milliseconds; what happens within one cannot be told apart by it.
    let written = rustix::fs::stat(place.at("grants/main/3.json")).unwrap();
    loop {
        std::fs::write(place.at("probe"), "").unwrap();
        let now = rustix::fs::stat(place.at("probe")).unwrap();
        if (now.st_mtime, now.st_mtime_nsec) != (written.st_ctime, written.st_ctime_nsec) {
            break;
        }
    }
    // The very file, taken back and put back before anybody looks.
    std::fs::hard_link(&one, place.at("kept")).unwrap();
    let back = place.spool.take_back(&session(), &[1], Duration::ZERO);
    assert_eq!(back.unwrap().taken, [1]);
    std::fs::rename(place.at("kept"), &one).unwrap();
    // And hidden for a moment from whoever would take it back.
    std::fs::rename(&two, place.at("hidden")).unwrap();
    std::fs::rename(place.at("hidden"), &two).unwrap();
    let lost = files.lost_of([1, 2, 3]);
    assert_eq!(lost, [(1, Lost::Changed), (2, Lost::Changed)]);
}

#[test]
fn a_crowd_of_foreign_files_is_moved_aside_a_few_at_a_time() {
    let place = Place::new();
    let mut files = with(&place, &[1]);
    for n in 0..MOST_ASIDE + 5 {
        std::fs::write(place.at(&format!("grants/main/x{n}")), "").unwrap();
    }
    assert_eq!(files.look().foreign.len(), MOST_ASIDE);
    assert_eq!(files.look().foreign.len(), 5);
    assert!(files.look().foreign.is_empty());
}

#[test]
fn what_lies_there_at_the_start_is_told_with_what_is_wrong_with_it() {
    let place = Place::new();
    drop(with(&place, &[1, 2, 3]));
    let open = std::fs::Permissions::from_mode(0o644);
    std::fs::set_permissions(place.at("grants/main/2.json"), open).unwrap();
    place.write("grants/main/x.json", b"{");
    let mut files = GrantFiles::new(&place.spool, &session());
    let found = files.found().unwrap();
    let names: Vec<&str> = found.iter().map(|found| found.name.as_str()).collect();
    assert_eq!(names, ["1.json", "2.json", "3.json", "x.json"]);
    assert!(found[0].read.is_ok() && found[2].read.is_ok());
    assert_eq!(
        found[1].read.as_ref().unwrap_err(),
        "its mode is 0644, not 0600"
    );
    files.set_aside("2.json", "for a test").unwrap();
    files.sweep("x.json").unwrap();
    assert_eq!(files.found().unwrap().len(), 2);
    let mut other = GrantFiles::new(&place.spool, &SessionId::parse("other").unwrap());
    assert!(other.found().unwrap().is_empty());
}
