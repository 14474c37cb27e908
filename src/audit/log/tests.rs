#![expect(
    clippy::disallowed_methods,
    reason = "the tests lay out odd files and look at what was written"
)]

use std::fs::{self, File};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::PathBuf;
use std::sync::Barrier;

use proptest::prelude::*;
use rustix::fs::{FileType, Mode};
use serde_json::Value;

use super::*;
use crate::audit::{Record, Refusal, family, read_entries};

const TORN_TAIL: &str = "review_log.torn_tail";
const DAY_MS: i64 = 86_400_000;

fn log_in(directory: &Path) -> PathBuf {
    directory.join("a/b/review.jsonl")
}

fn open(path: &Path) -> ReviewLog {
    ReviewLog::open(path, Options::default()).unwrap()
}

/// A log that is rotated before it would have more bytes than this.
fn open_small(path: &Path, max_bytes: u64) -> ReviewLog {
    let options = Options {
        max_bytes: Some(max_bytes),
        max_age: None,
        ..Options::default()
    };
    ReviewLog::open(path, options).unwrap()
}

fn events(path: &Path) -> Vec<String> {
    read_entries(path)
        .unwrap()
        .map(|record| match record.unwrap() {
            Record::Entry(entry) => entry["event"].as_str().unwrap().to_owned(),
            Record::Torn { line, bytes } => format!("torn {line} {bytes}"),
        })
        .collect()
}

fn refusal(path: &Path) -> Refusal {
    match ReviewLog::open(path, Options::default()) {
        Err(AuditError::Refused { reason, .. }) => reason,
        other => panic!("{other:?}"),
    }
}

/// The lines of all files of a log, oldest first, with what stands at the end of the last one without a newline.
fn lines(path: &Path) -> Vec<Vec<u8>> {
    let mut files: Vec<PathBuf> = family::list(path)
        .unwrap()
        .into_iter()
        .map(|rotated| rotated.path)
        .collect();
    files.extend(path.exists().then(|| path.to_owned()));
    let mut lines = Vec::new();
    for file in files {
        let bytes = fs::read(file).unwrap();
        let mut of_file: Vec<Vec<u8>> = bytes
            .split(|byte| *byte == b'\n')
            .map(<[u8]>::to_vec)
            .collect();
        if of_file.last().is_some_and(Vec::is_empty) {
            of_file.pop();
        }
        lines.extend(of_file);
    }
    lines
}

/// Fails unless every line is chained to the one before it, and gives the records. A line that is no record is one that was
/// torn, or older than the chain.
#[track_caller]
fn whole_chain(path: &Path) -> Vec<Value> {
    let mut before: Option<Vec<u8>> = None;
    let mut entries = Vec::new();
    for line in lines(path) {
        if let Ok(entry) = serde_json::from_slice::<Value>(&line)
            && let Some(chain) = entry.get("chain")
        {
            let expected = before.as_ref().map_or(Value::Null, |line| {
                blake3::hash(line).to_hex().as_str().into()
            });
            assert_eq!(*chain, expected, "{entry}");
            let end = match chain.as_str() {
                Some(hash) => format!(",\"chain\":\"{hash}\"}}"),
                None => ",\"chain\":null}".to_owned(),
            };
            assert!(line.ends_with(end.as_bytes()), "{entry}");
            entries.push(entry);
        }
        before = Some(line);
    }
    entries
}

fn names_of(entries: &[Value]) -> Vec<&str> {
    entries
        .iter()
        .map(|entry| entry["event"].as_str().unwrap())
        .collect()
}

/// A lock that somebody else holds.
fn hold(path: &Path) -> File {
    let file = File::open(path).unwrap();
    fs2::FileExt::lock_exclusive(&file).unwrap();
    file
}

fn hash_of(line: &[u8]) -> String {
    blake3::hash(line).to_hex().to_string()
}

#[test]
fn records_are_appended_and_read_back() {
    let directory = tempfile::tempdir().unwrap();
    let path = log_in(directory.path());
    let log = open(&path);
    log.append(0, &Entry::test("one").with("requestId", "r"))
        .unwrap();
    log.append_all(1, &[Entry::test("two"), Entry::test("three")])
        .unwrap();
    log.append_all(1, &[]).unwrap();
    open(&path).append(2, &Entry::test("four")).unwrap();
    log.append_durably(3, &[Entry::test("five")], Unwritten::Refused)
        .unwrap();
    assert_eq!(events(&path), ["one", "two", "three", "four", "five"]);
    assert_eq!(whole_chain(&path).len(), 5);
    assert!(log.is_enabled());
    assert_eq!(log.path(), Some(path.as_path()));
    assert_eq!(log.failure(), None);
}

#[test]
fn a_disabled_log_takes_everything_and_keeps_nothing() {
    let log = ReviewLog::disabled();
    log.append(0, &Entry::test("one")).unwrap();
    log.append_durably(0, &[Entry::test("one")], Unwritten::Refused)
        .unwrap();
    assert!(!log.is_enabled());
    assert_eq!(log.path(), None);
}

#[test]
fn lines_of_before_the_chain_are_what_it_begins_with() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("review.jsonl");
    fs::write(&path, "{\"event\":\"first\"}\n{\"event\":\"second\"}\n").unwrap();
    open(&path).append(0, &Entry::test("third")).unwrap();
    assert_eq!(events(&path), ["first", "second", "third"]);
    let chained = whole_chain(&path);
    assert_eq!(chained[0]["chain"], hash_of(br#"{"event":"second"}"#));
}

#[test]
fn audit_1_a_torn_tail_costs_itself_only() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("review.jsonl");
    fs::write(&path, "{\"event\":\"first\"}\n{\"ts\":1,\"ev").unwrap();
    let log = open(&path);
    log.append(5, &Entry::test("good")).unwrap();
    log.append(5, &Entry::test("better")).unwrap();
    assert_eq!(
        events(&path),
        ["first", "torn 2 11", TORN_TAIL, "good", "better"]
    );
    let torn = &whole_chain(&path)[0];
    assert_eq!(torn["atByte"], 18);
    assert_eq!(torn["bytes"], 11);
    assert_eq!(torn["after"], hash_of(br#"{"event":"first"}"#));
    // It is recorded once.
    open(&path).append(6, &Entry::test("last")).unwrap();
    assert_eq!(events(&path).len(), 6);
}

proptest! {
    /// Wherever a crash cuts a log off, what follows is whole, and the piece is recorded with its place, length and predecessor.
    #[test]
    fn audit_1_a_log_that_was_cut_anywhere_goes_on(cut in 0_u64..900) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("review.jsonl");
        let text = "x".repeat(60);
        let log = open(&path);
        for n in 0..4 {
            log.append(0, &Entry::test("e").with("n", n).with("text", text.as_str())).unwrap();
        }
        drop(log);
        let file = File::options().write(true).open(&path).unwrap();
        let cut = cut.min(file.metadata().unwrap().len());
        file.set_len(cut).unwrap();
        let left = fs::read(&path).unwrap();
        open(&path).append(1, &Entry::test("next")).unwrap();
        let entries = whole_chain(&path);
        let is_torn = left.last().is_some_and(|byte| *byte != b'\n');
        let torn: Vec<&Value> = entries.iter().filter(|entry| entry["event"] == TORN_TAIL).collect();
        prop_assert_eq!(torn.len(), usize::from(is_torn));
        prop_assert_eq!(&entries.last().unwrap()["event"], "next");
        prop_assert!(fs::read(&path).unwrap().starts_with(&left));
        if let Some(torn) = torn.first() {
            let start = left.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
            prop_assert_eq!(&torn["atByte"], start);
            prop_assert_eq!(&torn["bytes"], left.len() - start);
            let after = left[..start].split(|byte| *byte == b'\n').rev().nth(1).map(hash_of);
            prop_assert_eq!(torn["after"].as_str(), after.as_deref());
        }
    }
}

#[test]
fn a_record_that_was_glued_to_a_torn_piece_is_found() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("review.jsonl");
    let good = r#"{"timestamp":"t","event":"good","nested":{"timestamp":"x"}}"#;
    fs::write(&path, format!("{{\"ts\":1,\"ev{good}\n\n\u{FFFD}\n{good}")).unwrap();
    assert_eq!(events(&path), ["torn 1 11", "good", "torn 3 3", "good"]);
}

#[test]
fn lines_without_end_and_bad_bytes_stop_no_reader() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("review.jsonl");
    let mut bytes = vec![b'x'; 17 << 20];
    bytes.extend_from_slice(b"\n\xff\xfe\n[1]\n{\"event\":\"good\"}");
    fs::write(&path, bytes).unwrap();
    assert_eq!(
        events(&path),
        ["torn 1 17825792", "torn 2 2", "torn 3 3", "good"]
    );
}

/// Eight writers with descriptors of their own stand in for eight processes; `audit_logs` has real ones.
#[test]
fn audit_2_records_of_several_writers_are_never_mixed() {
    const WRITERS: usize = 8;
    const RECORDS: usize = 500;
    let directory = tempfile::tempdir().unwrap();
    let path = log_in(directory.path());
    let start = Barrier::new(WRITERS);
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (path, start) = (&path, &start);
            scope.spawn(move || {
                let options = Options {
                    field_max_width: 10_000,
                    max_bytes: Some(1 << 20),
                    ..Options::default()
                };
                let log = ReviewLog::open(path, options).unwrap();
                start.wait();
                for record in 0..RECORDS {
                    let text = "x".repeat(3000 + (writer * 7919 + record * 104_729) % 6000);
                    let entry = Entry::test("e")
                        .with("writer", writer)
                        .with("record", record)
                        .with("text", text);
                    // On a machine under load the lock may be had too late; then it is held until the next.
                    let _later = log.append_or_hold(0, &[entry]);
                }
            });
        }
    });
    let mut next = [0; WRITERS];
    for entry in whole_chain(&path) {
        if entry["event"] == "e" {
            let writer = usize::try_from(entry["writer"].as_u64().unwrap()).unwrap();
            assert_eq!(entry["record"], next[writer]);
            next[writer] += 1;
        }
    }
    assert_eq!(next, [RECORDS; WRITERS]);
    let rotated = family::list(&path).unwrap().len();
    assert!((20..=30).contains(&rotated), "{rotated}");
    assert!(!names_of(&whole_chain(&path)).contains(&"review_log.changed"));
}

#[test]
fn a_log_that_is_large_goes_on_in_a_new_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("review.jsonl");
    let log = open_small(&path, 1000);
    let other = open_small(&path, 1000);
    for n in 0..10 {
        log.append(n, &Entry::test("e").with("text", "x".repeat(300)))
            .unwrap();
        other.append(n, &Entry::test("o")).unwrap();
    }
    let rotated = family::list(&path).unwrap();
    let numbers: Vec<u64> = rotated.iter().map(|rotated| rotated.number).collect();
    assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>());
    assert!(numbers.len() > 3);
    for rotated in &rotated {
        let length = fs::metadata(&rotated.path).unwrap().len();
        assert!(length <= 1000, "{length}");
    }
    let entries = whole_chain(&path);
    let count = |event| {
        let named = |entry: &&Value| entry["event"] == event;
        entries.iter().filter(named).count()
    };
    assert_eq!((count("e"), count("o")), (10, 10));
    assert_eq!(count("review_log.rotated"), numbers.len());
    assert_eq!(entries.len(), 20 + numbers.len());
    let first = read_entries(&path).unwrap().next().unwrap().unwrap();
    let Record::Entry(first) = first else {
        panic!("{first:?}")
    };
    assert_eq!(first["event"], "review_log.rotated");
    assert_eq!(first["previous"], rotated.last().unwrap().name());
}

#[test]
fn a_line_that_is_longer_than_a_file_should_be_stands_in_one_of_its_own() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("review.jsonl");
    let log = open_small(&path, 1000);
    for _ in 0..3 {
        let entry = Entry::test("e").with("texts", vec!["x".repeat(900); 4]);
        log.append(0, &entry).unwrap();
    }
    assert_eq!(family::list(&path).unwrap().len(), 2);
    assert_eq!(whole_chain(&path).len(), 5);
}

#[test]
fn a_log_that_is_old_goes_on_in_a_new_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("review.jsonl");
    let log = open(&path);
    log.append(0, &Entry::test("first")).unwrap();
    // A clock that was set back makes nothing old.
    log.append(-90 * DAY_MS, &Entry::test("before")).unwrap();
    log.append(30 * DAY_MS - 1, &Entry::test("young")).unwrap();
    assert_eq!(family::list(&path).unwrap().len(), 0);
    open(&path)
        .append(30 * DAY_MS, &Entry::test("old"))
        .unwrap();
    assert_eq!(family::list(&path).unwrap().len(), 1);
    log.append(30 * DAY_MS, &Entry::test("last")).unwrap();
    assert_eq!(events(&path), ["review_log.rotated", "old", "last"]);
    assert_eq!(whole_chain(&path).len(), 6);

    let never = Options {
        max_bytes: None,
        max_age: None,
        ..Options::default()
    };
    let log = ReviewLog::open(&path, never).unwrap();
    log.append(9000 * DAY_MS, &Entry::test("ages later"))
        .unwrap();
    assert_eq!(family::list(&path).unwrap().len(), 1);
}

#[test]
fn a_log_that_cannot_be_rotated_is_written_on_and_says_so_once() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("review.jsonl");
    // No number comes behind this one that is still a name of the family.
    let last = family::rotated(&path, 999_999_999_999_999_999).path;
    let log = open_small(&path, 500);
    log.append(0, &Entry::test("first")).unwrap();
    fs::write(&last, "").unwrap();
    assert!(family::newest(&path).unwrap().is_some());
    for n in 0..4 {
        log.append(n * 50_000, &Entry::test("e").with("text", "x".repeat(300)))
            .unwrap();
    }
    let entries = whole_chain(&path);
    assert_eq!(
        names_of(&entries),
        ["first", "review_log.not_rotated", "e", "e", "e", "e"]
    );
    fs::remove_file(&last).unwrap();
    log.append(300_000, &Entry::test("e")).unwrap();
    assert_eq!(family::list(&path).unwrap().len(), 1);
    assert_eq!(whole_chain(&path).len(), 8);
}

#[test]
fn a_crash_between_two_steps_of_a_rotation_is_made_up_for_by_the_next_writer() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("review.jsonl");
    open(&path).append(0, &Entry::test("first")).unwrap();
    // Renamed away, and nothing more.
    fs::rename(&path, family::rotated(&path, 1).path).unwrap();
    open(&path).append(0, &Entry::test("second")).unwrap();
    // Renamed away, and the new file is empty.
    fs::rename(&path, family::rotated(&path, 2).path).unwrap();
    fs::write(&path, "").unwrap();
    open(&path).append(0, &Entry::test("third")).unwrap();
    let entries = whole_chain(&path);
    assert_eq!(
        names_of(&entries),
        [
            "first",
            "review_log.rotated",
            "second",
            "review_log.rotated",
            "third"
        ]
    );
    assert_eq!(entries[3]["previous"], "review.000002.jsonl");
}

#[test]
fn a_stranger_among_the_rotated_files_breaks_the_chain_and_stops_no_log() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("review.jsonl");
    symlink("/etc/hostname", family::rotated(&path, 7).path).unwrap();
    open(&path).append(0, &Entry::test("first")).unwrap();
    let first = &whole_chain_of_current(&path)[0];
    assert_eq!(first["event"], "review_log.rotated");
    assert_eq!(first["chain"], Value::Null);
    let why = first["unreadable"].as_str().unwrap();
    assert!(why.contains("symbolic link"), "{why}");
}

fn whole_chain_of_current(path: &Path) -> Vec<Value> {
    fs::read_to_string(path)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn what_is_cut_off_or_edited_behind_our_back_is_recorded_once() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("review.jsonl");
    let log = open(&path);
    log.append(0, &Entry::test("first")).unwrap();
    let kept = fs::read(&path).unwrap();
    log.append(0, &Entry::test("forwarded_permission.denied"))
        .unwrap();
    let last = lines(&path).pop().unwrap();

    // A line is cut off: what is left is a log that no chain can object to.
    fs::write(&path, &kept).unwrap();
    log.append(1, &Entry::test("next")).unwrap();
    log.append(1, &Entry::test("after")).unwrap();
    let entries = whole_chain(&path);
    assert_eq!(
        names_of(&entries),
        ["first", "review_log.changed", "next", "after"]
    );
    assert_eq!(entries[1]["atByte"], kept.len());
    assert_eq!(entries[1]["expected"], hash_of(&last));
    assert_eq!(entries[1]["how"], "cut");

    // The last line is replaced by a longer one.
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace("\"after\"", "\"afterwards\"")).unwrap();
    log.append(2, &Entry::test("next")).unwrap();
    let entries = whole_chain(&path);
    assert_eq!(entries[4]["event"], "review_log.changed");
    assert_eq!(entries[4]["how"], "edited");

    // The whole log goes, and another lies in its place.
    fs::remove_file(&path).unwrap();
    log.append(3, &Entry::test("next")).unwrap();
    let entries = whole_chain(&path);
    assert_eq!(names_of(&entries), ["review_log.changed", "next"]);
    assert_eq!(entries[0]["how"], "gone");

    // What another writer adds is no change.
    open(&path).append(4, &Entry::test("other")).unwrap();
    log.append(5, &Entry::test("next")).unwrap();
    assert_eq!(whole_chain(&path).len(), 4);
}

#[test]
fn an_edit_of_a_file_that_another_process_rotated_away_is_recorded() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("review.jsonl");
    let log = open(&path);
    log.append(0, &Entry::test("first")).unwrap();
    let rotating = open_small(&path, 100);
    rotating.append(0, &Entry::test("second")).unwrap();
    let away = family::rotated(&path, 1).path;
    let text = fs::read_to_string(&away).unwrap();
    fs::write(&away, text.replace("first", "other")).unwrap();
    log.append(1, &Entry::test("third")).unwrap();
    let current = whole_chain_of_current(&path);
    assert_eq!(
        names_of(&current),
        [
            "review_log.rotated",
            "second",
            "review_log.changed",
            "third"
        ]
    );
}

#[test]
fn a_held_lock_costs_one_wait_and_no_decision() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("review.jsonl");
    let log = open(&path);
    log.append(0, &Entry::test("first")).unwrap();
    let lock = hold(&path);
    for n in 0..20 {
        let refused = log.append(1, &Entry::test("refused").with("n", n));
        assert!(
            matches!(refused, Err(AuditError::Busy { .. })),
            "{refused:?}"
        );
        let held = log.append_or_hold(2, &[Entry::test("held").with("n", n)]);
        assert!(matches!(held, Err(AuditError::Busy { .. })), "{held:?}");
    }
    assert!(log.failure().unwrap().contains("locked by another process"));
    assert_eq!(events(&path), ["first"]);
    drop(lock);
    log.append(3, &Entry::test("next")).unwrap();
    assert_eq!(log.failure(), None);
    let entries = whole_chain(&path);
    assert_eq!(entries.len(), 23);
    assert_eq!(entries[20]["event"], "held");
    assert_eq!(entries[20]["timestamp"], "1970-01-01T00:00:00.002Z");
    assert_eq!(entries[21]["event"], "review_log.recovered");
    assert_eq!(entries[21]["since"], "1970-01-01T00:00:00.001Z");
    assert_eq!(entries[21]["refused"], 20);
    assert_eq!(entries[22]["event"], "next");
}

#[test]
fn what_is_held_is_bounded_and_what_is_lost_is_counted() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("review.jsonl");
    let log = open(&path);
    log.append(0, &Entry::test("first")).unwrap();
    let lock = hold(&path);
    for n in 0..1500 {
        let entry = Entry::test("e").with("n", n).with("text", "x".repeat(900));
        assert!(log.append_or_hold(0, &[entry]).is_err());
    }
    drop(lock);
    log.catch_up(1).unwrap();
    log.catch_up(2).unwrap();
    let entries = whole_chain(&path);
    let held = entries.iter().filter(|entry| entry["event"] == "e").count();
    assert!((900..1100).contains(&held), "{held}");
    let lost = &entries[1 + held];
    assert_eq!(lost["event"], "review_log.lost");
    assert_eq!(lost["entries"], 1500 - held);
    assert_eq!(entries.len(), held + 3);
    assert_eq!(entries[held]["n"], held - 1);
}

#[test]
fn what_is_held_is_written_at_the_end_at_the_latest() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("review.jsonl");
    let log = open(&path);
    let lock = hold(&path);
    assert!(log.append_or_hold(7, &[Entry::test("held")]).is_err());
    drop(lock);
    drop(log);
    assert_eq!(events(&path), ["held", "review_log.recovered"]);
}

/// Who did not wait before, for the lock was not to be had, waits once more at the end.
#[test]
fn the_last_try_waits_for_a_lock_that_is_about_to_be_freed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("review.jsonl");
    let log = open(&path);
    let lock = hold(&path);
    assert!(log.append_or_hold(7, &[Entry::test("held")]).is_err());
    let (ends, ending) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            ending.recv().unwrap();
            drop(lock);
        });
        ends.send(()).unwrap();
        drop(log);
    });
    assert_eq!(events(&path), ["held", "review_log.recovered"]);
}

#[test]
fn a_log_that_could_not_be_opened_is_tried_again() {
    let directory = tempfile::tempdir().unwrap();
    let blocked = directory.path().join("a");
    let path = blocked.join("review.jsonl");
    fs::write(&blocked, "").unwrap();
    let error = ReviewLog::open(&path, Options::default()).unwrap_err();
    let log = ReviewLog::unopened(&path, Options::default(), 1, &error);
    assert!(log.failure().is_some());
    assert!(log.append_or_hold(2, &[Entry::test("held")]).is_err());
    assert!(log.append(2, &Entry::test("refused")).is_err());
    fs::remove_file(&blocked).unwrap();
    log.catch_up(3).unwrap();
    assert_eq!(events(&path), ["held", "review_log.recovered"]);
    assert_eq!(log.failure(), None);
}

#[test]
fn fsobj_8_modes_hold_under_any_umask() {
    let directory = tempfile::tempdir().unwrap();
    let path = log_in(directory.path());
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    let before = rustix::process::umask(Mode::empty());
    let log = ReviewLog::open(&path, Options::default());
    rustix::process::umask(before);
    log.unwrap().append(0, &Entry::test("one")).unwrap();
    assert_eq!(mode(&path), 0o600);
    assert_eq!(mode(&directory.path().join("a/b")), 0o700);
    assert_eq!(mode(&directory.path().join("a")), 0o700);
    // What was open to others is not any more.
    fs::set_permissions(&path, fs::Permissions::from_mode(0o664)).unwrap();
    open(&path).append(0, &Entry::test("two")).unwrap();
    assert_eq!(mode(&path), 0o600);
    open_small(&path, 100)
        .append(0, &Entry::test("three"))
        .unwrap();
    assert_eq!(mode(&path), 0o600);
    assert_eq!(mode(&family::rotated(&path, 1).path), 0o600);
}

#[test]
fn what_is_no_file_of_ours_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    fs::write(at("file"), "").unwrap();
    symlink(at("file"), at("link")).unwrap();
    symlink(at("nowhere"), at("dangling")).unwrap();
    fs::create_dir(at("directory")).unwrap();
    let owner_only = Mode::RUSR.union(Mode::WUSR);
    rustix::fs::mknodat(rustix::fs::CWD, at("pipe"), FileType::Fifo, owner_only, 0).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
    assert_eq!(refusal(&at("link")), Refusal::SymbolicLink);
    assert_eq!(refusal(&at("dangling")), Refusal::SymbolicLink);
    for name in ["directory", "pipe", "socket"] {
        assert_eq!(refusal(&at(name)), Refusal::NotRegular, "{name}");
    }
    assert!(!at("nowhere").exists());
    // Only root can give a file away.
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(at("file"), Some(12345), None).unwrap();
        assert_eq!(refusal(&at("file")), Refusal::ForeignOwner(12345));
    }
}

#[test]
fn a_link_that_takes_the_place_of_the_log_is_not_written_through() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("review.jsonl");
    let log = open(&path);
    log.append(0, &Entry::test("first")).unwrap();
    let elsewhere = directory.path().join("elsewhere");
    fs::rename(&path, &elsewhere).unwrap();
    symlink(&elsewhere, &path).unwrap();
    let refused = log.append(1, &Entry::test("second"));
    assert!(
        matches!(refused, Err(AuditError::Refused { .. })),
        "{refused:?}"
    );
    assert_eq!(events(&elsewhere), ["first"]);
    fs::remove_file(&path).unwrap();
    log.append(2, &Entry::test("third")).unwrap();
    assert_eq!(
        events(&path),
        ["review_log.changed", "review_log.recovered", "third"]
    );
}

#[test]
fn a_log_without_a_usable_end_is_an_error_and_no_wait() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("review.jsonl");
    File::create(&path).unwrap().set_len(1 << 40).unwrap();
    let log = open(&path);
    let refused = log.append(0, &Entry::test("first"));
    assert!(
        matches!(refused, Err(AuditError::Read { .. })),
        "{refused:?}"
    );
    assert!(!refused.unwrap_err().hint().is_empty());
}

#[test]
fn a_directory_that_cannot_be_made_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("review.jsonl");
    fs::write(&path, "").unwrap();
    let blocked = ReviewLog::open(&path.join("below"), Options::default()).unwrap_err();
    assert!(
        matches!(blocked, AuditError::Directory { .. }),
        "{blocked:?}"
    );
    assert!(blocked.hint().contains("--log"));
}
