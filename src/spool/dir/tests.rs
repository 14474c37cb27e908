#![expect(
    clippy::disallowed_methods,
    reason = "tests lay out odd files and look at what became of them"
)]

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};

use super::*;
use crate::spool::testing::{Odd, Place, is_root, mode, names, published};

fn secret_of(place: &Place) -> PathBuf {
    place.beside("secret")
}

#[test]
fn what_is_published_is_whole_and_the_owners_alone() {
    let place = Place::new();
    let dir = place.dir("d");
    for replace in [Replace::Never, Replace::Always] {
        let name = format!("{replace:?}.json");
        let file = published(dir.publish(&name, b"whole", replace));
        assert_eq!(fs::read(place.at("d").join(&name)).unwrap(), b"whole");
        assert_eq!(mode(&place.at("d").join(&name)), 0o600);
        let named = fs::metadata(place.at("d").join(&name)).unwrap();
        assert_eq!(file.metadata().unwrap().ino(), named.ino());
    }
    assert_eq!(mode(&place.at("d")), 0o700);
    assert_eq!(names(&place.at("d")), ["Always.json", "Never.json"]);
}

#[test]
fn the_first_writer_wins_by_rename_and_by_link() {
    let place = Place::new();
    let dir = place.dir("d");
    let by_link = |name: &str, bytes: &'static [u8]| {
        dir.publish_by(
            &dir,
            name,
            |file| file.write_all(bytes),
            |dir, from| link_without_replacing(dir, from, dir, name),
        )
    };
    drop(published(dir.publish("a.json", b"first", Replace::Never)));
    let mut linked = published(by_link("b.json", b"first"));
    for again in [
        dir.publish("a.json", b"second", Replace::Never),
        by_link("a.json", b"second"),
        dir.publish("b.json", b"second", Replace::Never),
        by_link("b.json", b"second"),
    ] {
        assert!(matches!(again.unwrap(), PublishOutcome::AlreadyThere));
    }
    for name in ["a.json", "b.json"] {
        let path = place.at("d").join(name);
        assert_eq!(fs::read(&path).unwrap(), b"first");
        assert_eq!(fs::metadata(&path).unwrap().nlink(), 1, "{name}");
    }
    assert_eq!(
        names(&place.at("d")),
        ["a.json", "b.json"],
        "no temporary name stays"
    );
    // What is handed out is the file itself, whichever way it got its name.
    linked.write_all(b", more").unwrap();
    assert_eq!(fs::read(place.at("d/b.json")).unwrap(), b"first, more");
}

#[test]
fn a_name_that_is_taken_by_anything_is_taken() {
    for odd in Odd::ALL {
        let place = Place::new();
        let dir = place.dir("d");
        if !odd.make(&place.at("d/x.json"), &secret_of(&place)) {
            continue;
        }
        let outcome = dir.publish("x.json", b"bytes", Replace::Never).unwrap();
        assert!(matches!(outcome, PublishOutcome::AlreadyThere), "{odd:?}");
        assert_eq!(names(&place.at("d")), ["x.json"], "{odd:?}");
        assert_eq!(fs::read(secret_of(&place)).unwrap(), b"a secret", "{odd:?}");
    }
}

#[test]
fn what_cannot_be_published_leaves_nothing() {
    let place = Place::new();
    let dir = place.dir("d");
    let error = dir
        .publish_into(&dir, "a.json", Replace::Never, |file| {
            file.write_all(b"half")?;
            Err(io::ErrorKind::StorageFull.into())
        })
        .unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    assert_eq!(names(&place.at("d")), [""; 0]);
    fs::create_dir(place.at("d/b.json")).unwrap();
    let error = dir.publish("b.json", b"x", Replace::Always).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::IsADirectory);
    assert_eq!(names(&place.at("d")), ["b.json"]);
}

#[test]
fn nothing_is_published_in_a_directory_that_is_gone() {
    let place = Place::new();
    let dir = place.dir("d");
    fs::remove_dir(place.at("d")).unwrap();
    let error = dir.publish("a.json", b"x", Replace::Never).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::NotFound);
    assert!(!place.at("d").exists());
}

#[test]
fn fsobj_1_nothing_but_a_plain_file_of_ours_is_read_and_nothing_blocks() {
    for odd in Odd::ALL {
        let place = Place::new();
        let dir = place.dir("d");
        if !odd.make(&place.at("d/x.json"), &secret_of(&place)) {
            continue;
        }
        let (read, file) = dir.read_open("x.json", 1024);
        assert!(file.is_none(), "{odd:?}");
        let FileRead::Refused(refusal) = read else {
            panic!("{odd:?}: {read:?}");
        };
        let right = match odd {
            Odd::Fifo | Odd::Directory | Odd::FullDirectory | Odd::Socket | Odd::Device => {
                matches!(refusal, Refusal::NotRegular(_))
            }
            Odd::Link | Odd::DanglingLink | Odd::LinkLoop => refusal == Refusal::Symlink,
            Odd::SecondName => refusal == Refusal::SecondLink,
            Odd::Strangers => matches!(refusal, Refusal::ForeignOwner(_)),
            Odd::TenGigabytes => refusal == Refusal::TooLarge(1024),
        };
        assert!(right, "{odd:?}: {refusal:?}");
    }
}

#[test]
fn fsobj_7_the_limit_is_on_the_opened_file() {
    let place = Place::new();
    let dir = place.dir("d");
    place.write("d/at.json", [b'x'; 64]);
    place.write("d/over.json", [b'x'; 65]);
    place.write("d/empty.json", "");
    let FileRead::Content { bytes, stamp } = dir.read("at.json", 64) else {
        panic!("a file of the largest size is read");
    };
    assert_eq!((bytes.len(), stamp.size), (64, 64));
    assert!(matches!(
        dir.read("over.json", 64),
        FileRead::Refused(Refusal::TooLarge(64))
    ));
    assert!(matches!(
        dir.read("empty.json", 64),
        FileRead::Content { bytes, .. } if bytes.is_empty()
    ));
    assert!(matches!(dir.read("none.json", 64), FileRead::Missing));
}

#[test]
fn a_file_that_may_not_be_read_now_may_be_another_time() {
    let place = Place::new();
    let dir = place.dir("d");
    place.write("d/x.json", "{}");
    fs::set_permissions(place.at("d/x.json"), fs::Permissions::from_mode(0o0)).unwrap();
    if is_root() {
        println!("skipped: root reads a file of any mode");
        return;
    }
    assert!(matches!(dir.read("x.json", 64), FileRead::Failed(_)));
}

#[test]
fn a_directory_is_never_reached_through_a_link() {
    let place = Place::new();
    let dir = place.dir("d");
    fs::create_dir(place.beside("elsewhere")).unwrap();
    symlink(place.beside("elsewhere"), place.at("d/link")).unwrap();
    place.write("d/file", "");
    for name in ["link", "file"] {
        let open = dir.open_dir(name).unwrap_err();
        let ensure = dir.ensure_dir(name).unwrap_err();
        for error in [open, ensure] {
            let errno = Errno::from_io_error(&error);
            assert!(
                matches!(errno, Some(Errno::NOTDIR | Errno::LOOP)),
                "{name}: {error}"
            );
        }
    }
    assert!(dir.open_dir("none").unwrap().is_none());
    assert_eq!(names(&place.beside("elsewhere")), [""; 0]);
}

#[test]
fn fsobj_9_every_name_is_listed_each_time_whatever_bytes_it_has() {
    use std::os::unix::ffi::OsStrExt as _;
    let place = Place::new();
    let dir = place.dir("d");
    let odd: [&[u8]; 5] = [
        b"\xff.json",
        b"\x1b[2J.json",
        b"a\nb.json",
        b"-rf.json",
        b" ",
    ];
    for name in odd {
        fs::write(place.at("d").join(OsStr::from_bytes(name)), "").unwrap();
    }
    for _ in 0..2 {
        let mut seen = Vec::new();
        dir.each_name(|name| seen.push(name.to_bytes().to_vec()))
            .unwrap();
        seen.sort();
        let mut expected = odd.map(<[u8]>::to_vec);
        expected.sort();
        assert_eq!(seen, expected);
    }
}

#[test]
fn anything_is_moved_without_being_opened_and_never_over_something() {
    for odd in Odd::ALL {
        let place = Place::new();
        let (from, to) = (place.dir("from"), place.dir("to"));
        if !odd.make(&place.at("from/x.json"), &secret_of(&place)) {
            continue;
        }
        let before = fs::symlink_metadata(place.at("from/x.json")).unwrap().ino();
        place.write("to/taken", "here first");
        let taken = from.move_to(c"x.json", &to, "taken").unwrap();
        assert_eq!(taken, MoveOutcome::NameTaken, "{odd:?}");
        let moved = from.move_to(c"x.json", &to, "free").unwrap();
        assert_eq!(moved, MoveOutcome::Moved, "{odd:?}");
        let gone = from.move_to(c"x.json", &to, "again").unwrap();
        assert_eq!(gone, MoveOutcome::Gone, "{odd:?}");
        let after = fs::symlink_metadata(place.at("to/free")).unwrap().ino();
        assert_eq!(before, after, "{odd:?}");
        assert_eq!(fs::read(place.at("to/taken")).unwrap(), b"here first");
        assert_eq!(fs::read(secret_of(&place)).unwrap(), b"a secret", "{odd:?}");
    }
}

#[test]
fn a_removal_says_what_it_found() {
    let place = Place::new();
    let dir = place.dir("d");
    place.write("d/x/y", "");
    assert_eq!(dir.remove_dir("x").unwrap(), DirRemoval::NotEmpty);
    assert_eq!(dir.remove_dir("none").unwrap(), DirRemoval::Gone);
    fs::remove_file(place.at("d/x/y")).unwrap();
    assert_eq!(dir.remove_dir("x").unwrap(), DirRemoval::Gone);
    place.write("d/y", "");
    assert_eq!(dir.remove("y").unwrap(), Removal::Removed);
    assert_eq!(dir.remove("y").unwrap(), Removal::AlreadyGone);
    symlink(secret_of(&place), place.at("d/link")).unwrap();
    fs::write(secret_of(&place), "a secret").unwrap();
    assert_eq!(dir.remove("link").unwrap(), Removal::Removed);
    assert!(
        secret_of(&place).exists(),
        "a link is removed, not what it leads to"
    );
}

#[test]
fn a_lock_file_is_a_plain_file_and_is_never_emptied() {
    for odd in Odd::ALL.into_iter().filter(|odd| *odd != Odd::TenGigabytes) {
        let place = Place::new();
        let dir = place.dir("d");
        if odd.make(&place.at("d/x.lock"), &secret_of(&place)) {
            assert!(dir.open_lock("x.lock").is_err(), "{odd:?}");
            assert_eq!(fs::read(secret_of(&place)).unwrap(), b"a secret", "{odd:?}");
        }
    }
    let place = Place::new();
    let dir = place.dir("d");
    drop(dir.open_lock("x.lock").unwrap());
    assert_eq!(mode(&place.at("d/x.lock")), 0o600);
    place.write("d/x.lock", "1 2\n");
    drop(dir.open_lock("x.lock").unwrap());
    assert_eq!(fs::read(place.at("d/x.lock")).unwrap(), b"1 2\n");
}

#[test]
fn a_stamp_tells_a_file_from_another_and_from_itself_changed() {
    let place = Place::new();
    let dir = place.dir("d");
    drop(published(dir.publish("x.json", b"one", Replace::Always)));
    let first = dir.stat("x.json").unwrap().unwrap();
    assert_eq!(dir.stat("x.json").unwrap(), Some(first));
    let mut file = fs::File::options()
        .append(true)
        .open(place.at("d/x.json"))
        .unwrap();
    file.write_all(b", more").unwrap();
    let grown = dir.stat("x.json").unwrap().unwrap();
    assert!(grown != first && grown.same_file(&first));
    drop(published(dir.publish("x.json", b"one", Replace::Always)));
    // The old file is still open, so its number cannot have been given away.
    assert!(!dir.stat("x.json").unwrap().unwrap().same_file(&first));
    assert_eq!(dir.stat("none").unwrap(), None);
}
