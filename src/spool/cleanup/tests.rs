#![expect(
    clippy::disallowed_methods,
    reason = "tests lay out odd files and look at what became of them"
)]

use std::fs;
use std::os::unix::fs::symlink;

use super::*;
use crate::spool::SESSIONS;
use crate::spool::testing::{Place, names};

fn place(below: &[&str]) -> Place {
    let place = Place::new();
    for path in below {
        fs::create_dir_all(place.at("sessions").join(path)).unwrap();
    }
    place
}

fn clean(place: &Place) -> io::Result<()> {
    remove_empty(&place.dir(SESSIONS), "main")
}

#[test]
fn what_is_empty_goes() {
    for below in [
        &["main/requests", "main/responses"][..],
        &["main/requests"],
        &["main/responses"],
        &["main"],
        &[],
    ] {
        let place = place(below);
        clean(&place).unwrap();
        assert_eq!(names(&place.at("sessions")), [""; 0], "{below:?}");
    }
}

#[test]
fn race_1_a_waiting_request_keeps_the_place_of_its_answer() {
    let place = place(&["main/requests", "main/responses"]);
    place.write("sessions/main/requests/r1.json", "{}");
    clean(&place).unwrap();
    assert_eq!(names(&place.at("sessions/main")), ["requests", "responses"]);
    fs::remove_file(place.at("sessions/main/requests/r1.json")).unwrap();
    // Not even a file that no reader looks at may lose its directory.
    place.write("sessions/main/requests/.x.tmp", "");
    clean(&place).unwrap();
    assert_eq!(names(&place.at("sessions/main")), ["requests", "responses"]);
}

#[test]
fn an_answer_that_nobody_has_taken_keeps_its_directory() {
    let place = place(&["main/requests", "main/responses"]);
    place.write("sessions/main/responses/r1.json", "{}");
    clean(&place).unwrap();
    assert_eq!(names(&place.at("sessions/main")), ["responses"]);
    assert!(place.at("sessions/main/responses/r1.json").exists());
}

#[test]
fn what_else_lies_there_stays_and_so_do_other_sessions() {
    let place = place(&["main/requests", "main/responses", "other/requests"]);
    place.write("sessions/main/note", "mine");
    clean(&place).unwrap();
    assert_eq!(names(&place.at("sessions/main")), ["note"]);
    assert_eq!(names(&place.at("sessions/other")), ["requests"]);
}

#[test]
fn nothing_is_removed_through_a_link() {
    let place = place(&["main"]);
    fs::create_dir_all(place.beside("elsewhere/requests")).unwrap();
    symlink(
        place.beside("elsewhere"),
        place.at("sessions/main/requests"),
    )
    .unwrap();
    assert!(clean(&place).is_err());
    fs::remove_file(place.at("sessions/main/requests")).unwrap();
    fs::remove_dir(place.at("sessions/main")).unwrap();
    symlink(place.beside("elsewhere"), place.at("sessions/main")).unwrap();
    assert!(clean(&place).is_err());
    assert_eq!(names(&place.beside("elsewhere")), ["requests"]);
}
