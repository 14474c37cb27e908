#![expect(
    clippy::disallowed_methods,
    reason = "tests lay out odd files and look at what became of them"
)]

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::spool::dir::Refusal;
use crate::spool::testing::{Odd, Place, id, mode, names, session};
use crate::spool::{Outbox, Submission, SubmitOutcome};

const REQUESTS_PATH: &str = "sessions/main/requests";
const RESPONSES_PATH: &str = "sessions/main/responses";

fn open(place: &Place) -> Inbox {
    Inbox::open(&place.spool, &session()).unwrap()
}

fn request(place: &Place, name: &str) -> Submission {
    let mut outbox = Outbox::new(&place.spool, &session());
    match outbox.submit(&id(name), |_| Ok("{}")).unwrap() {
        SubmitOutcome::Written(submission) => submission,
        SubmitOutcome::IdTaken => panic!("{name} is taken"),
    }
}

#[track_caller]
fn listed(inbox: &mut Inbox, effort: Effort) -> Vec<Candidate> {
    match inbox.scan(effort).unwrap() {
        Scan::Listed(candidates) => candidates,
        other @ (Scan::Unchanged | Scan::Replaced) => panic!("{other:?}"),
    }
}

fn stamp_of(inbox: &Inbox, name: &str) -> FileStamp {
    match inbox.read(&Candidate::of(&id(name)).name).0 {
        FileRead::Content { stamp, .. } => stamp,
        other @ (FileRead::Missing | FileRead::Refused(_) | FileRead::Failed(_)) => {
            panic!("{other:?}")
        }
    }
}

#[test]
fn names_sort_by_utf16_unit() {
    let mut names = ["a", "B", "9", "10", "\u{ff5e}", "\u{1f600}"];
    names.sort_by(|a, b| in_utf16_order(a.as_bytes(), b.as_bytes()));
    assert_eq!(names, ["10", "9", "B", "a", "\u{1f600}", "\u{ff5e}"]);
}

proptest! {
    #![proptest_config(proptest::test_runner::Config {
        failure_persistence: None,
        ..proptest::test_runner::Config::with_cases(256)
    })]

    #[test]
    fn the_order_of_names_is_that_of_their_utf16_units(a in ".*", b in ".*") {
        let expected = a.encode_utf16().cmp(b.encode_utf16());
        prop_assert_eq!(in_utf16_order(a.as_bytes(), b.as_bytes()), expected);
    }

    #[test]
    fn names_of_any_bytes_have_an_order(mut names in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..6), 0..20)) {
        // A sort panics where the order contradicts itself.
        names.sort_by(|a, b| in_utf16_order(a, b));
        for pair in names.windows(2) {
            prop_assert!(in_utf16_order(&pair[0], &pair[1]).is_le());
        }
    }
}

#[test]
fn fsobj_9_every_json_name_is_a_candidate_and_only_a_safe_one_has_an_id() {
    let place = Place::new();
    let mut inbox = open(&place);
    let odd: [(&[u8], Option<&str>); 14] = [
        (b"r1.json", Some("r1")),
        (b".json", None),
        (b"..json", None),
        (b"...json", None),
        (b".hidden.json", Some(".hidden")),
        (b"-rf.json", Some("-rf")),
        (b"a b.json", None),
        (b"\x1b[2J.json", None),
        (b"a\nb.json", None),
        (b"\xff.json", None),
        ("é.json".as_bytes(), None),
        (b"r2.json.json", Some("r2.json")),
        (b"%2e%2e%2fx.json", None),
        (b"~.json", None),
    ];
    let others: [&[u8]; 6] = [
        b"r3.JSON",
        b"r4.json~",
        b"r5.json.tmp",
        b"json",
        b"r6",
        b"r7.json ",
    ];
    let all = odd.iter().map(|(name, _)| *name).chain(others);
    for name in all {
        fs::write(place.at(REQUESTS_PATH).join(OsStr::from_bytes(name)), "").unwrap();
    }
    let long = format!("{}.json", "x".repeat(201));
    place.write(&format!("{REQUESTS_PATH}/{long}"), "");
    let found = listed(&mut inbox, Effort::Full);
    assert_eq!(found.len(), odd.len() + 1);
    for (name, expected) in odd {
        let candidate = found
            .iter()
            .find(|found| found.name.0.to_bytes() == name)
            .unwrap();
        assert_eq!(
            candidate.id.as_ref().map(RequestId::as_str),
            expected,
            "{name:?}"
        );
        assert_eq!(candidate.name.as_str().is_none(), name == b"\xff.json");
    }
    assert!(
        found
            .iter()
            .any(|found| found.name.as_str() == Some(&long) && found.id.is_none())
    );
}

#[test]
fn watch_7_a_directory_that_was_swapped_is_noticed_and_opened_anew() {
    type Way<'a> = &'a dyn Fn(&std::path::Path);
    let place = Place::new();
    let mut inbox = open(&place);
    let swap = |by: Way<'_>| {
        fs::rename(place.at(REQUESTS_PATH), place.at("old")).unwrap();
        by(&place.at(REQUESTS_PATH));
        fs::remove_dir_all(place.at("old")).unwrap();
    };
    let outside = place.beside("outside");
    fs::create_dir(&outside).unwrap();
    let ways: [(&str, Way<'_>); 4] = [
        ("gone", &|_| {}),
        ("new", &|path| fs::create_dir(path).unwrap()),
        ("a file", &|path| fs::write(path, "").unwrap()),
        ("a link", &|path| symlink(&outside, path).unwrap()),
    ];
    for (what, by) in ways {
        for effort in [Effort::Full, Effort::IfChanged] {
            swap(by);
            let scan = inbox.scan(effort).unwrap();
            assert!(
                matches!(scan, Scan::Replaced),
                "{what}, {effort:?}: {scan:?}"
            );
            inbox.reopen().unwrap();
            drop(request(&place, "r1"));
            assert_eq!(
                listed(&mut inbox, effort),
                [Candidate::of(&id("r1"))],
                "{what}"
            );
            fs::remove_file(place.at(REQUESTS_PATH).join("r1.json")).unwrap();
        }
    }
    assert_eq!(names(&outside), [""; 0]);
    // The whole session, too.
    fs::rename(place.at("sessions/main"), place.at("moved")).unwrap();
    assert!(matches!(
        inbox.scan(Effort::IfChanged).unwrap(),
        Scan::Replaced
    ));
    inbox.reopen().unwrap();
    assert_eq!(listed(&mut inbox, Effort::IfChanged), []);
}

#[test]
fn a_settled_inbox_is_not_listed_again_until_something_changes() {
    let place = Place::new();
    let mut inbox = open(&place);
    let settle = |inbox: &mut Inbox| {
        crate::spool::testing::until("a settled inbox", || {
            matches!(inbox.scan(Effort::IfChanged).unwrap(), Scan::Unchanged)
        });
    };
    settle(&mut inbox);
    let submission = request(&place, "r1");
    assert_eq!(listed(&mut inbox, Effort::IfChanged).len(), 1);
    settle(&mut inbox);
    drop(submission);
    fs::remove_file(place.at(REQUESTS_PATH).join("r1.json")).unwrap();
    assert_eq!(listed(&mut inbox, Effort::IfChanged).len(), 0);
    settle(&mut inbox);
    assert_eq!(listed(&mut inbox, Effort::Full).len(), 0, "full means full");
}

/// Whatever was published before a scan began is known after it, at whichever instants both happen.
#[test]
fn a_scan_never_misses_a_change() {
    const COUNT: usize = 150;
    let place = Place::new();
    let mut inbox = open(&place);
    let published = Mutex::new(Vec::new());
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // A cheap sequence of pauses from none to longer than an inbox takes to settle.
            let mut state = 12_345_u64;
            for number in 0..COUNT {
                let name = format!("r{number}.json");
                fs::write(place.at(REQUESTS_PATH).join(".x.tmp"), "{}").unwrap();
                fs::rename(
                    place.at(REQUESTS_PATH).join(".x.tmp"),
                    place.at(REQUESTS_PATH).join(&name),
                )
                .unwrap();
                published.lock().unwrap().push(name);
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                let pause = match state >> 61 {
                    0 | 1 => 0,
                    2..=5 => (state >> 40) % 3_000,
                    _ => 55_000 + (state >> 40) % 10_000,
                };
                std::thread::sleep(Duration::from_micros(pause));
            }
            done.store(true, Ordering::Release);
        });
        let mut known: HashSet<String> = HashSet::new();
        let mut unchanged = 0;
        loop {
            let last = done.load(Ordering::Acquire);
            let before = published.lock().unwrap().clone();
            match inbox.scan(Effort::IfChanged).unwrap() {
                Scan::Listed(candidates) => {
                    known = candidates.iter().map(|found| found.name.lossy()).collect();
                }
                Scan::Unchanged => unchanged += 1,
                Scan::Replaced => panic!("nobody replaced it"),
            }
            let missed: Vec<_> = before
                .iter()
                .filter(|name| !known.contains(*name))
                .collect();
            assert!(missed.is_empty(), "missed {missed:?}");
            if last {
                break;
            }
        }
        assert!(
            unchanged > 0,
            "the way that saves a listing was never taken"
        );
    });
}

#[test]
fn fsobj_1_an_odd_request_is_refused_and_not_touched() {
    for odd in Odd::ALL {
        let place = Place::new();
        let mut inbox = open(&place);
        if !odd.make(
            &place.at(REQUESTS_PATH).join("x.json"),
            &place.beside("secret"),
        ) {
            continue;
        }
        let found = listed(&mut inbox, Effort::Full);
        let (read, life) = inbox.read(&found[0].name);
        assert!(matches!(read, FileRead::Refused(_)), "{odd:?}: {read:?}");
        if odd == Odd::TenGigabytes {
            assert!(matches!(
                read,
                FileRead::Refused(Refusal::TooLarge(MAX_REQUEST_BYTES))
            ));
        }
        assert_eq!(life, RequesterLife::Unknown, "{odd:?}");
        let aside = inbox
            .quarantine(&found[0].name, &format!("{odd:?}"), 7)
            .unwrap();
        assert_eq!(aside.as_deref(), Some("7-0-x.json"), "{odd:?}");
        assert_eq!(listed(&mut inbox, Effort::Full), [], "{odd:?}");
    }
}

#[test]
fn a_request_tells_whether_its_requester_lives() {
    let place = Place::new();
    let inbox = open(&place);
    assert_eq!(inbox.requester_life(&id("r1")), RequesterLife::RequestGone);
    let submission = request(&place, "r1");
    assert_eq!(inbox.requester_life(&id("r1")), RequesterLife::Waiting);
    assert_eq!(
        inbox.read(&Candidate::of(&id("r1")).name).1,
        RequesterLife::Waiting
    );
    drop(submission);
    assert_eq!(inbox.requester_life(&id("r1")), RequesterLife::Gone);
    symlink("x", place.at(REQUESTS_PATH).join("r2.json")).unwrap();
    assert_eq!(inbox.requester_life(&id("r2")), RequesterLife::Unknown);
}

#[test]
fn an_answer_is_published_and_the_request_removed() {
    let place = Place::new();
    let mut inbox = open(&place);
    let submission = request(&place, "r1");
    let stamp = stamp_of(&inbox, "r1");
    assert_eq!(
        inbox.is_unchanged(&id("r1"), stamp).unwrap(),
        Unchanged::Same
    );
    let outcome = inbox.answer(&id("r1"), Some(stamp), b"answer").unwrap();
    assert!(matches!(outcome, AnswerOutcome::Delivered));
    assert!(!submission.path().exists());
    assert_eq!(
        fs::read(place.at(RESPONSES_PATH).join("r1.json")).unwrap(),
        b"answer"
    );
    assert_eq!(mode(&place.at(RESPONSES_PATH).join("r1.json")), 0o600);
    assert_eq!(inbox.response(&id("r1")).unwrap(), b"answer");
    assert_eq!(inbox.responses().unwrap(), [id("r1")]);
    assert_eq!(
        inbox.is_unchanged(&id("r1"), stamp).unwrap(),
        Unchanged::Gone
    );
}

#[test]
fn nobody_gets_an_answer_to_what_was_not_asked() {
    let place = Place::new();
    let mut inbox = open(&place);
    let gone = inbox.answer(&id("r0"), None, b"answer").unwrap();
    assert!(matches!(gone, AnswerOutcome::Unclaimed));
    let first = request(&place, "r1");
    let stamp = stamp_of(&inbox, "r1");
    place.write(&format!("{REQUESTS_PATH}/.x.tmp"), "{\"other\":1}");
    fs::rename(place.at(REQUESTS_PATH).join(".x.tmp"), first.path()).unwrap();
    assert_eq!(
        inbox.is_unchanged(&id("r1"), stamp).unwrap(),
        Unchanged::Changed
    );
    let changed = inbox.answer(&id("r1"), Some(stamp), b"answer").unwrap();
    assert!(matches!(changed, AnswerOutcome::RequestChanged));
    assert_eq!(names(&place.at(RESPONSES_PATH)), [""; 0]);
    assert!(first.path().exists());
}

#[test]
fn race_3_what_lies_in_place_of_an_answer_is_reported_and_not_replaced() {
    let place = Place::new();
    let mut inbox = open(&place);
    let _submission = request(&place, "r1");
    let stamp = stamp_of(&inbox, "r1");
    place.write(&format!("{RESPONSES_PATH}/r1.json"), "planted");
    let outcome = inbox.answer(&id("r1"), Some(stamp), b"answer").unwrap();
    assert!(matches!(outcome, AnswerOutcome::AlreadyThere(bytes) if bytes == b"planted"));
    inbox.publish_denial(&id("r1"), b"denial").unwrap();
    assert_eq!(
        fs::read(place.at(RESPONSES_PATH).join("r1.json")).unwrap(),
        b"planted"
    );
    let aside = inbox.quarantine_response(&id("r1"), "planted", 3).unwrap();
    assert_eq!(aside.as_deref(), Some("3-0-r1.json"));
    let outcome = inbox.answer(&id("r1"), Some(stamp), b"answer").unwrap();
    assert!(matches!(outcome, AnswerOutcome::Delivered));
}

#[test]
fn an_answer_that_lies_there_is_given_whatever_keeps_the_request_from_going() {
    let place = Place::new();
    let mut inbox = open(&place);
    // As a directory that may not be written: what has this name cannot be removed as a file.
    fs::create_dir(place.at(REQUESTS_PATH).join("r1.json")).unwrap();
    let outcome = inbox.answer(&id("r1"), None, b"answer").unwrap();
    assert!(matches!(outcome, AnswerOutcome::Left(_)), "{outcome:?}");
    let answer = fs::read(place.at(RESPONSES_PATH).join("r1.json")).unwrap();
    assert_eq!(answer, b"answer");
}

#[test]
fn race_3_not_even_something_odd_keeps_an_answer_out() {
    for odd in Odd::ALL {
        let place = Place::new();
        let mut inbox = open(&place);
        let _submission = request(&place, "r1");
        let stamp = stamp_of(&inbox, "r1");
        if !odd.make(
            &place.at(RESPONSES_PATH).join("r1.json"),
            &place.beside("secret"),
        ) {
            continue;
        }
        let outcome = inbox.answer(&id("r1"), Some(stamp), b"answer").unwrap();
        assert!(
            matches!(&outcome, AnswerOutcome::AlreadyThere(bytes) if bytes.is_empty()),
            "{odd:?}: {outcome:?}"
        );
        assert!(
            inbox
                .quarantine_response(&id("r1"), "odd", 3)
                .unwrap()
                .is_some()
        );
        let outcome = inbox.answer(&id("r1"), Some(stamp), b"answer").unwrap();
        assert!(matches!(outcome, AnswerOutcome::Delivered), "{odd:?}");
        assert_eq!(
            fs::read(place.beside("secret")).unwrap(),
            b"a secret",
            "{odd:?}"
        );
    }
}

#[test]
fn race_1_an_answer_finds_its_directory_made_again() {
    let place = Place::new();
    let mut inbox = open(&place);
    for round in 0..2 {
        let name = format!("r{round}");
        let submission = request(&place, &name);
        let stamp = stamp_of(&inbox, &name);
        fs::remove_dir(place.at(RESPONSES_PATH)).unwrap();
        if round == 1 {
            fs::write(place.at(RESPONSES_PATH), "in the way").unwrap();
        }
        let outcome = inbox.answer(&id(&name), Some(stamp), b"answer").unwrap();
        assert!(matches!(outcome, AnswerOutcome::Delivered));
        let mut outbox = Outbox::new(&place.spool, &session());
        outbox.finish(submission).unwrap();
    }
}

#[test]
fn an_open_inbox_outlives_every_clean_up_and_a_closed_one_goes() {
    let place = Place::new();
    let inbox = open(&place);
    let mut outbox = Outbox::new(&place.spool, &session());
    outbox.clean().unwrap();
    assert_eq!(names(&place.at("sessions/main")), ["requests", "responses"]);
    assert_eq!(inbox.watched_path(), place.at(REQUESTS_PATH));
    inbox.close().unwrap();
    assert_eq!(names(&place.at("sessions")), [""; 0]);
    // What a crash left behind is swept by the next one.
    drop(open(&place));
    assert_eq!(names(&place.at(REQUESTS_PATH)), [KEEP]);
    open(&place).close().unwrap();
    assert_eq!(names(&place.at("sessions")), [""; 0]);
}

#[test]
fn nothing_odd_under_one_of_our_own_names_stops_a_session() {
    let probe = format!("{PROBE_PREFIX}{}.tmp", crate::process::own_pid());
    for odd in Odd::ALL {
        for name in [KEEP, &probe] {
            let place = Place::new();
            fs::create_dir_all(place.at(REQUESTS_PATH)).unwrap();
            if !odd.make(&place.at(REQUESTS_PATH).join(name), &place.beside("secret")) {
                continue;
            }
            let mut inbox = open(&place);
            inbox.touch().unwrap();
            assert_eq!(listed(&mut inbox, Effort::Full), [], "{odd:?} {name}");
            inbox.close().unwrap();
            assert_eq!(names(&place.at("sessions")), [""; 0], "{odd:?} {name}");
            assert_eq!(fs::read(place.beside("secret")).unwrap(), b"a secret");
        }
        for at in ["sessions/main", REQUESTS_PATH, RESPONSES_PATH] {
            let place = Place::new();
            fs::create_dir_all(place.at(at).parent().unwrap()).unwrap();
            if matches!(odd, Odd::Directory | Odd::FullDirectory)
                || !odd.make(&place.at(at), &place.beside("secret"))
            {
                continue;
            }
            let mut inbox = open(&place);
            let _submission = request(&place, "r1");
            assert_eq!(listed(&mut inbox, Effort::Full).len(), 1, "{odd:?} {at}");
            assert_eq!(fs::read(place.beside("secret")).unwrap(), b"a secret");
        }
    }
}

#[test]
fn a_probe_tells_the_time_of_the_file_system_and_leaves_nothing() {
    let place = Place::new();
    let inbox = open(&place);
    let stamp = inbox.touch().unwrap();
    place.write(&format!("{REQUESTS_PATH}/after"), "");
    let after = place.dir(SESSIONS).open_dir("main").unwrap().unwrap();
    let after = after
        .open_dir(REQUESTS)
        .unwrap()
        .unwrap()
        .stat("after")
        .unwrap()
        .unwrap();
    assert!(stamp.mtime_ns <= after.mtime_ns);
    assert_eq!(names(&place.at(REQUESTS_PATH)), [KEEP, "after"]);
}
