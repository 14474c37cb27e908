#![expect(
    clippy::disallowed_methods,
    reason = "tests lay out odd files and look at what became of them"
)]

use std::fs;

use super::*;
use crate::spool::testing::{Odd, Place, picture};

fn requests_of(place: &Place, session: &str) -> Vec<RequestView> {
    let mut views = Vec::new();
    place
        .spool
        .each_request(session, |view| views.push(view))
        .unwrap();
    views
}

#[test]
fn nothing_odd_keeps_the_rest_from_being_seen_and_nothing_is_changed() {
    let place = Place::new();
    for odd in Odd::ALL {
        for at in [
            format!("sessions/{odd:?}"),
            format!("sessions/in-{odd:?}/requests"),
            format!("sessions/both-{odd:?}/responses"),
            format!("sessions/main/requests/{odd:?}.json"),
            format!("serving/{odd:?}.json"),
            format!("serving/lock-{odd:?}.lock"),
            format!("quarantine/{odd:?}"),
        ] {
            let path = place.at(&at);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            let _made = odd.make(&path, &place.beside("secret"));
        }
    }
    place.write("sessions/main/requests/broken.json", "{");
    place.write("sessions/main/requests/empty.json", "");
    place.write("sessions/main/requests/note.txt", "");
    place.write("serving/main.json", "");
    let before = picture(place.spool.path());

    let sessions = place.spool.sessions().unwrap();
    let main = sessions.iter().find(|view| view.name == "main").unwrap();
    assert!(matches!(main.heartbeat, HeartbeatView::Bad(_)));
    assert_eq!(main.lock, LockState::Absent);
    assert!(main.requests.is_some_and(|count| count >= 10));
    for odd in Odd::ALL {
        let directory = matches!(odd, Odd::Directory | Odd::FullDirectory);
        let Some(view) = sessions.iter().find(|view| view.name == format!("{odd:?}")) else {
            continue;
        };
        assert_eq!(view.requests, None, "{odd:?}");
        if place
            .at(&format!("serving/{odd:?}.json"))
            .symlink_metadata()
            .is_ok()
        {
            assert!(matches!(view.heartbeat, HeartbeatView::Bad(_)), "{odd:?}");
        }
        // An inbox that is none is shown itself, as bad; one that is not there yet is nothing to show.
        let inbox = format!("in-{odd:?}");
        if place
            .at(&format!("sessions/{inbox}/requests"))
            .symlink_metadata()
            .is_err()
        {
            continue;
        }
        for name in [format!("{odd:?}"), inbox] {
            let views = requests_of(&place, &name);
            let bad = views.iter().filter(|view| view.content.is_err()).count();
            match odd {
                Odd::Directory => assert_eq!(bad, 0, "{name}"),
                Odd::FullDirectory => assert!(bad <= 1, "{name}"),
                Odd::Fifo
                | Odd::Link
                | Odd::DanglingLink
                | Odd::LinkLoop
                | Odd::Socket
                | Odd::Device
                | Odd::SecondName
                | Odd::Strangers
                | Odd::TenGigabytes => {
                    assert_eq!((views.len(), bad), (1, 1), "{name}");
                    assert_eq!(views[0].name, "requests");
                }
            }
        }
        assert!(!directory || view.responses.is_none());
    }
    let views = requests_of(&place, "main");
    assert!(views.len() >= 10);
    for view in &views {
        let reason = view.content.as_ref().err().unwrap();
        assert!(!reason.is_empty(), "{}", view.name);
        assert_eq!(view.life, RequesterLife::Unknown);
    }
    assert!(place.spool.quarantined().unwrap() >= 9);
    assert!(!place.spool.inboxes().unwrap().is_empty());
    assert_eq!(requests_of(&place, "no-such-session").len(), 0);
    assert_eq!(picture(place.spool.path()), before);
}

#[test]
fn an_empty_spool_has_nothing_to_show() {
    let place = Place::new();
    assert_eq!(place.spool.sessions().unwrap().len(), 0);
    assert_eq!(place.spool.inboxes().unwrap(), [""; 0]);
    assert_eq!(place.spool.quarantined().unwrap(), 0);
    assert_eq!(requests_of(&place, "main").len(), 0);
    assert_eq!(picture(place.spool.path()).len(), 1);
}

#[test]
fn reasons_do_not_count_as_what_is_aside() {
    let place = Place::new();
    place.write("quarantine/1-0-x.json", "");
    place.write("quarantine/1-0-x.json.reason.json", "{}");
    place.write("quarantine/.0123456789.tmp", "{");
    assert_eq!(place.spool.quarantined().unwrap(), 1);
}

#[test]
fn the_first_sessions_with_a_living_server_are_named_and_nothing_else_of_them_is_read() {
    let place = Place::new();
    assert_eq!(place.spool.served(3).unwrap(), []);
    let own = std::process::id();
    for (name, pid) in [
        ("a", own),
        ("b", 4_194_303),
        ("c", own),
        ("d", own),
        ("e", own),
    ] {
        let record = format!(r#"{{"sessionId":"{name}","pid":{pid},"updatedAt":1}}"#);
        place.write(&format!("serving/{name}.json"), record);
    }
    place.write("serving/0-garbage.json", "{");
    place.write("serving/0.lock", "");
    let named = |most| {
        let served = place.spool.served(most).unwrap();
        let names = served.iter().map(|session| session.as_str().to_owned());
        names.collect::<Vec<_>>()
    };
    assert_eq!(named(3), ["a", "c", "d"]);
    assert_eq!(named(32), ["a", "c", "d", "e"]);
}
