#![expect(
    clippy::disallowed_methods,
    reason = "tests lay out odd files and look at what became of them"
)]

use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, symlink};

use super::*;
use crate::spool::testing::{Odd, Place, mode, names, picture};

fn note(place: &Place, name: &str) -> serde_json::Value {
    let bytes = fs::read(place.at("quarantine").join(format!("{name}.reason.json"))).unwrap();
    serde_json::from_slice(&bytes).unwrap()
}

#[test]
fn poison_7_each_object_is_moved_as_it_is_with_its_reason_beside_it() {
    for odd in Odd::ALL {
        let place = Place::new();
        let dir = place.dir("d");
        let path = place.at("d/x.json");
        if !odd.make(&path, &place.beside("secret")) {
            continue;
        }
        let before = fs::symlink_metadata(&path).unwrap().ino();
        let moved = take(&place.spool, &dir, c"x.json", "a reason", 42).unwrap();
        assert_eq!(moved.as_deref(), Some("42-0-x.json"), "{odd:?}");
        let aside = place.at("quarantine/42-0-x.json");
        assert_eq!(
            fs::symlink_metadata(aside).unwrap().ino(),
            before,
            "{odd:?}"
        );
        assert_eq!(
            note(&place, "42-0-x.json"),
            serde_json::json!({
                "file": "42-0-x.json",
                "from": path.to_str().unwrap(),
                "reason": "a reason",
                "movedAt": 42,
            })
        );
        assert_eq!(names(&place.at("d")), [""; 0], "{odd:?}");
        assert_eq!(fs::read(place.beside("secret")).unwrap(), b"a secret");
        assert_eq!(mode(&place.at("quarantine")), 0o700);
        assert_eq!(mode(&place.at("quarantine/42-0-x.json.reason.json")), 0o600);
        let again = take(&place.spool, &dir, c"x.json", "a reason", 43).unwrap();
        assert_eq!(again, None, "{odd:?}");
    }
}

#[test]
fn what_is_aside_is_never_replaced() {
    let place = Place::new();
    let dir = place.dir("d");
    for round in 0..3 {
        place.write("d/x.json", format!("{round}"));
        let moved = take(&place.spool, &dir, c"x.json", "r", 42)
            .unwrap()
            .unwrap();
        assert_eq!(moved, format!("42-{round}-x.json"));
        let bytes = fs::read(place.at("quarantine").join(moved)).unwrap();
        assert_eq!(bytes, round.to_string().as_bytes());
    }
    // With every name taken it stays where it is.
    for attempt in 0..TRIES {
        place.write(&format!("quarantine/7-{attempt}-x.json"), "");
    }
    place.write("d/x.json", "stays");
    assert!(take(&place.spool, &dir, c"x.json", "r", 7).is_err());
    assert_eq!(fs::read(place.at("d/x.json")).unwrap(), b"stays");
}

#[test]
fn fsobj_9_names_aside_are_short_and_harmless() {
    let place = Place::new();
    let dir = place.dir("d");
    let long = "é".repeat(120) + ".json";
    let odd: [&[u8]; 5] = [
        b"\x1b[2J\n.json",
        b"-rf ..json",
        b"\xff\xfe.json",
        b"'\"$(x)`.json",
        long.as_bytes(),
    ];
    for name in odd {
        fs::write(place.at("d").join(std::ffi::OsStr::from_bytes(name)), "").unwrap();
        let name = CString::new(name).unwrap();
        let moved = take(&place.spool, &dir, &name, "r", 1).unwrap().unwrap();
        assert!(moved.len() < 120, "{moved}");
        let harmless = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        assert!(
            moved.starts_with("1-") && moved.chars().all(harmless),
            "{moved}"
        );
        note(&place, &moved);
    }
    assert_eq!(names(&place.at("d")), [""; 0]);
}

#[test]
fn a_quarantine_that_is_no_directory_of_ours_is_an_error_and_leads_nowhere() {
    let place = Place::new();
    let dir = place.dir("d");
    fs::create_dir(place.beside("elsewhere")).unwrap();
    symlink(place.beside("elsewhere"), place.at("quarantine")).unwrap();
    place.write("d/x.json", "{}");
    let before = picture(place.spool.path());
    assert!(take(&place.spool, &dir, c"x.json", "r", 1).is_err());
    assert_eq!(picture(place.spool.path()), before);
    assert_eq!(names(&place.beside("elsewhere")), [""; 0]);
}

#[test]
fn what_is_in_the_way_of_our_own_files_and_directories_makes_room() {
    for odd in Odd::ALL {
        let place = Place::new();
        let dir = place.dir("d");
        if !odd.make(&place.at("d/x"), &place.beside("secret")) {
            continue;
        }
        let published = publish_over(&place.spool, &dir, "x", b"ours").unwrap();
        assert!(matches!(published, PublishOutcome::Published(_)));
        assert_eq!(fs::read(place.at("d/x")).unwrap(), b"ours", "{odd:?}");
        assert_eq!(
            fs::read(place.beside("secret")).unwrap(),
            b"a secret",
            "{odd:?}"
        );

        if !odd.make(&place.at("d/y"), &place.beside("secret")) {
            continue;
        }
        let opened = ensure_dir_over(&place.spool, &dir, "y").unwrap();
        drop(opened.publish("z", b"ours", Replace::Never).unwrap());
        assert_eq!(fs::read(place.at("d/y/z")).unwrap(), b"ours", "{odd:?}");
    }
}
