//! Logs that were changed, and those that merely went through something.
#![expect(
    clippy::disallowed_methods,
    reason = "the tests lay out logs and change them"
)]

use std::fs;

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::*;

/// A log in memory, written by the rules of the chain.
#[derive(Clone, Default)]
struct Log(Vec<Vec<u8>>);

fn hex(line: &[u8]) -> String {
    blake3::hash(line).to_hex().to_string()
}

impl Log {
    fn of(lines: usize) -> Self {
        let mut log = Self::default();
        for n in 0..lines {
            log.push("x.y", &json!({"n": n}));
        }
        log
    }

    fn push(&mut self, event: &str, details: &Value) {
        let chain = self.0.last().map(|line| hex(line));
        let mut line: Map<String, Value> = serde_json::from_value(
            json!({"timestamp": "2026-11-30T13:00:00.000Z", "extension": "askrelay", "stream": "review", "event": event}),
        )
        .unwrap();
        line.extend(details.as_object().unwrap().clone());
        line.insert("chain".to_owned(), json!(chain));
        self.0.push(Value::Object(line).to_string().into_bytes());
    }

    fn at(&self, line: usize) -> u64 {
        self.0[..line]
            .iter()
            .map(|line| line.len() as u64 + 1)
            .sum()
    }

    /// A piece that a crash left, and the record of it.
    fn tear(&mut self, piece: &[u8]) {
        let (at, after) = (self.at(self.0.len()), self.0.last().map(|line| hex(line)));
        self.0.push(piece.to_vec());
        self.push(
            TORN_TAIL,
            &json!({"atByte": at, "bytes": piece.len(), "after": after}),
        );
    }

    fn bytes(&self) -> Vec<u8> {
        self.0
            .iter()
            .flat_map(|line| [line, b"\n".as_slice()].concat())
            .collect()
    }
}

fn check(files: &[(&str, Vec<u8>)], heads: &[blake3::Hash]) -> Checked {
    let directory = tempfile::tempdir().unwrap();
    for (name, bytes) in files {
        fs::write(directory.path().join(name), bytes).unwrap();
    }
    verify(&directory.path().join("review.jsonl"), Access::Own, heads)
        .unwrap()
        .unwrap()
}

fn check_one(log: &Log) -> Checked {
    check(&[("review.jsonl", log.bytes())], &[])
}

/// The line that does not fit, and what is wrong with it.
#[track_caller]
fn broken(checked: &Checked) -> (u64, Fault) {
    let broken = checked.broken.as_ref().expect("a break");
    assert!(!checked.holds());
    assert_eq!(checked.head, None);
    (broken.spot.line, broken.fault.clone())
}

#[track_caller]
fn holds(checked: &Checked) {
    assert!(checked.holds(), "{:?}", checked.broken);
}

#[test]
fn a_log_that_nobody_changed_holds() {
    let log = Log::of(5);
    let checked = check_one(&log);
    holds(&checked);
    assert_eq!((checked.files, checked.lines, checked.unchained), (1, 5, 0));
    assert_eq!(checked.bytes, log.bytes().len() as u64);
    assert_eq!(checked.head, Some(blake3::hash(&log.0[4])));
    assert_eq!(checked.unfinished, None);
    holds(&check(&[("review.jsonl", Vec::new())], &[]));
    let nowhere = tempfile::tempdir().unwrap();
    let path = nowhere.path().join("review.jsonl");
    assert!(verify(&path, Access::Own, &[]).unwrap().is_none());
}

#[test]
fn lines_of_an_older_version_stand_before_the_chain() {
    let mut log = Log(vec![b"{\"event\":\"old\"}".to_vec(), b"{\"ev".to_vec()]);
    log.push("new", &json!({}));
    log.push("new", &json!({}));
    let checked = check_one(&log);
    holds(&checked);
    assert_eq!((checked.lines, checked.unchained), (4, 2));
    // An old line that is changed shows from the last of them on only.
    log.0[1] = b"{}".to_vec();
    assert_eq!(broken(&check_one(&log)), (3, Fault::Unlinked));
}

#[test]
fn a_changed_line_is_found_by_the_next() {
    let mut log = Log::of(5);
    log.0[2] = String::from_utf8(log.0[2].clone())
        .unwrap()
        .replace("\"n\":2", "\"n\":7")
        .into_bytes();
    let checked = check_one(&log);
    assert_eq!(broken(&checked), (4, Fault::Unlinked));
    let found = checked.broken.unwrap();
    assert_eq!(found.spot.at, log.at(3));
    assert_eq!(found.before.unwrap().line, 3);
}

#[test]
fn a_removed_line_is_found_by_the_next() {
    let mut log = Log::of(5);
    log.0.remove(2);
    assert_eq!(broken(&check_one(&log)), (3, Fault::Unlinked));
}

#[test]
fn lines_in_another_order_are_told_from_changed_ones() {
    let mut log = Log::of(6);
    log.0.swap(2, 3);
    let (line, fault) = broken(&check_one(&log));
    assert_eq!(line, 3);
    assert!(
        matches!(&fault, Fault::Reordered(spot) if spot.line == 4),
        "{fault:?}"
    );
}

#[test]
fn lines_that_were_put_in_are_told_from_changed_ones() {
    let mut log = Log::of(4);
    let mut forged = Log(log.0[..2].to_vec());
    forged.push("x.y", &json!({"n": "forged"}));
    log.0.insert(2, forged.0[2].clone());
    let (line, fault) = broken(&check_one(&log));
    assert_eq!(line, 4);
    assert!(
        matches!(&fault, Fault::Inserted(spot) if spot.line == 2),
        "{fault:?}"
    );
}

#[test]
fn a_log_without_its_beginning_does_not_hold() {
    let mut log = Log::of(4);
    log.0.drain(..2);
    assert_eq!(broken(&check_one(&log)), (1, Fault::Headless));
}

#[test]
fn a_line_that_does_not_chain_is_a_break() {
    let mut log = Log::of(3);
    log.0.insert(2, b"{\"event\":\"x\"}".to_vec());
    assert_eq!(broken(&check_one(&log)), (3, Fault::NoChain));
    let mut log = Log::of(3);
    log.0.insert(2, b"\x1b[2J\0\xff".to_vec());
    assert_eq!(broken(&check_one(&log)), (3, Fault::NotAnEntry));
    let mut log = Log::of(3);
    log.0.push(b"[1]".to_vec());
    assert_eq!(broken(&check_one(&log)), (4, Fault::NotAnEntry));
    // The first of several is named.
    let mut log = Log::of(3);
    log.0.extend([b"a".to_vec(), b"b".to_vec(), b"c".to_vec()]);
    assert_eq!(broken(&check_one(&log)), (4, Fault::NotAnEntry));
    log.push("x.y", &json!({}));
    assert_eq!(broken(&check_one(&log)), (4, Fault::NotAnEntry));
    let mut log = Log::of(3);
    log.0.push(Vec::new());
    assert_eq!(broken(&check_one(&log)), (4, Fault::NotAnEntry));
    let mut log = Log::of(2);
    log.0.extend(Log::of(2).0);
    assert_eq!(broken(&check_one(&log)), (3, Fault::NewStart));
}

#[test]
fn a_piece_that_was_recorded_is_a_note() {
    let mut log = Log::of(3);
    log.tear(b"{\"timestamp\":\"2026-11");
    log.push("x.y", &json!({}));
    let checked = check_one(&log);
    holds(&checked);
    assert_eq!(checked.notes.len(), 1);
    assert_eq!(checked.notes[0].kind, NoteKind::Repaired);
    assert_eq!(checked.notes[0].spot.line, 5);

    // A crash while that was recorded.
    let mut log = Log::of(3);
    log.0.push(b"{\"timest".to_vec());
    log.tear(b"{\"timestamp\":\"2026-11-30T13:00:00.0");
    holds(&check_one(&log));

    // Only the newline was missing.
    let mut log = Log::of(2);
    let (at, last) = (log.at(1), log.0[1].clone());
    log.push(
        TORN_TAIL,
        &json!({"atByte": at, "bytes": last.len(), "after": hex(&log.0[0])}),
    );
    holds(&check_one(&log));
}

#[test]
fn a_piece_that_is_not_the_recorded_one_is_a_break() {
    for (details, piece) in [
        (json!({"bytes": 8}), "{\"timest"),
        (json!({"after": null}), "{\"timest"),
        (json!({"atByte": 1}), "{\"timest"),
    ] {
        let mut log = Log::of(2);
        let mut right = json!({"atByte": log.at(2), "bytes": piece.len(), "after": hex(&log.0[1])});
        log.0.push(piece.as_bytes().to_vec());
        let mut same = log.clone();
        same.push(TORN_TAIL, &right);
        holds(&check_one(&same));
        for (key, value) in details.as_object().unwrap() {
            right[key] = if key == "bytes" {
                json!(7)
            } else {
                value.clone()
            };
        }
        log.push(TORN_TAIL, &right);
        assert_eq!(
            broken(&check_one(&log)),
            (3, Fault::OtherPiece),
            "{details}"
        );
    }
}

#[test]
fn what_a_log_says_of_itself_is_told() {
    let mut log = Log::of(1);
    log.push("review_log.lost", &json!({"entries": 3}));
    log.push("review_log.changed", &json!({}));
    log.push("x.y", &json!({"text": "\"event\":\"review_log.lost\""}));
    let checked = check_one(&log);
    holds(&checked);
    let kinds: Vec<_> = checked.notes.iter().map(|note| note.kind).collect();
    assert_eq!(kinds, [NoteKind::Warning; 2]);
    assert_eq!(checked.notes[0].entry.event(), "review_log.lost");
}

/// A log of three files.
fn rotated() -> Vec<(&'static str, Vec<u8>)> {
    let names = ["review.000001.jsonl", "review.000002.jsonl", "review.jsonl"];
    let mut log = Log::of(3);
    let mut files = vec![(names[0], log.bytes())];
    for at in 1..3 {
        let start = log.0.len();
        log.push(ROTATED, &json!({"previous": names[at - 1]}));
        log.push("x.y", &json!({}));
        files.push((names[at], Log(log.0[start..].to_vec()).bytes()));
    }
    files
}

#[test]
fn the_chain_goes_on_across_files() {
    let checked = check(&rotated(), &[]);
    holds(&checked);
    assert_eq!((checked.files, checked.lines), (3, 7));
    assert!(checked.notes.is_empty());
    // Between the renaming and the new file there is none at the log's own name.
    holds(&check(&rotated()[..2], &[]));
}

#[test]
fn a_file_that_is_missing_is_named() {
    for (gone, name) in [(0, "review.000001.jsonl"), (1, "review.000002.jsonl")] {
        let mut files = rotated();
        files.remove(gone);
        let (line, fault) = broken(&check(&files, &[]));
        assert_eq!((line, fault), (1, Fault::FileMissing(name.to_owned())));
    }
    // One that lost its end is not missing.
    let mut files = rotated();
    let end = files[1].1.len() - 10;
    files[1].1.truncate(end);
    let checked = check(&files, &[]);
    assert!(checked.broken.is_some());
}

/// What the writer leaves behind: rotations, a crash, a loss of the file.
#[test]
fn what_the_writer_writes_holds() {
    use crate::audit::{Entry, Options, ReviewLog};
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("review.jsonl");
    let options = || Options {
        max_bytes: Some(2_000),
        ..Options::default()
    };
    let append = |log: &ReviewLog, times: i64| {
        for at in 0..times {
            let entry = Entry::test("x.y").with("n", at).with("chain", "no chain");
            log.append(at, &entry).unwrap();
        }
    };
    let check = |repaired: usize, warnings: usize| {
        let checked = verify(&path, Access::Own, &[]).unwrap().unwrap();
        holds(&checked);
        let of = |kind| {
            checked
                .notes
                .iter()
                .filter(|note| note.kind == kind)
                .count()
        };
        assert_eq!(
            (of(NoteKind::Repaired), of(NoteKind::Warning)),
            (repaired, warnings)
        );
        checked
    };
    append(&ReviewLog::open(&path, options()).unwrap(), 40);
    let checked = check(0, 0);
    assert!(checked.files > 3, "{}", checked.files);
    assert!(checked.lines >= 40);

    let tear = || {
        let mut bytes = fs::read(&path).unwrap();
        bytes.truncate(bytes.len() - 20);
        fs::write(&path, bytes).unwrap();
    };
    tear();
    append(&ReviewLog::open(&path, options()).unwrap(), 1);
    check(1, 0);
    // A piece, and nothing else, in a new file.
    fs::rename(&path, directory.path().join("review.000900.jsonl")).unwrap();
    fs::write(&path, "{\"timest").unwrap();
    let log = ReviewLog::open(&path, options()).unwrap();
    append(&log, 1);
    check(2, 0);
    // Somebody else empties the file while a writer knows of it.
    fs::write(&path, "").unwrap();
    append(&log, 40);
    check(1, 1);
}

#[test]
fn the_head_of_a_file_that_was_put_away_vouches_for_it() {
    let mut files = rotated();
    let last_line = |(_, bytes): &(&str, Vec<u8>)| {
        blake3::hash(
            bytes[..bytes.len() - 1]
                .split(|byte| *byte == b'\n')
                .next_back()
                .unwrap(),
        )
    };
    let (head, other) = (last_line(&files[0]), last_line(&files[1]));
    files.remove(0);
    let checked = check(&files, &[head]);
    holds(&checked);
    assert_eq!(checked.resumed, [head]);
    assert!(check(&files, &[other]).broken.is_some());
    // Within a file it vouches for nothing.
    let mut log = Log::of(4);
    let gone = blake3::hash(&log.0.remove(1));
    assert!(
        check(&[("review.jsonl", log.bytes())], &[gone])
            .broken
            .is_some()
    );
}

/// A head vouches for files that are not here, and never for one that is.
#[test]
fn the_head_of_a_file_that_is_here_vouches_for_nothing_in_it() {
    let mut first = Log::of(4);
    let head = blake3::hash(first.0.last().unwrap());
    first.push(ROTATED, &json!({"previous": "review.000001.jsonl"}));
    first.push("x.y", &json!({}));
    let second = Log(first.0.split_off(4));
    let checked = |first: &[Vec<u8>], name| {
        let first = Log(first.to_vec()).bytes();
        check(&[(name, first), ("review.jsonl", second.bytes())], &[head])
    };
    let name = "review.000001.jsonl";
    holds(&checked(&first.0, name));
    let mut edited = first.clone();
    let last = String::from_utf8(edited.0.pop().unwrap()).unwrap();
    edited
        .0
        .push(last.replace("\"n\":3", "\"n\":7").into_bytes());
    for (first, name, fault) in [
        (&edited.0[..], name, Fault::Unlinked),
        (&first.0[..2], name, Fault::Unlinked),
        (&first.0[..0], name, Fault::Headless),
        // Nor does it help to give the file another number.
        (
            &edited.0[..],
            "review.000002.jsonl",
            Fault::FileMissing(name.to_owned()),
        ),
    ] {
        let checked = checked(first, name);
        assert_eq!(broken(&checked), (1, fault));
        assert!(checked.resumed.is_empty());
    }
}

#[test]
fn a_file_behind_one_that_could_not_be_read_starts_anew_and_is_a_warning() {
    let mut anew = Log::default();
    anew.push(
        ROTATED,
        &json!({"previous": "review.000001.jsonl", "unreadable": "it is a symbolic link"}),
    );
    anew.push("x.y", &json!({}));
    let files = [
        ("review.000001.jsonl", Log::of(2).bytes()),
        ("review.jsonl", anew.bytes()),
    ];
    let checked = check(&files, &[]);
    holds(&checked);
    assert_eq!(checked.notes.len(), 1);
    assert_eq!(checked.notes[0].kind, NoteKind::Warning);
}

#[test]
fn a_line_that_is_being_written_is_no_break() {
    let log = Log::of(3);
    let mut bytes = log.bytes();
    bytes.extend_from_slice(b"{\"timestamp\":\"20");
    let checked = check(&[("review.jsonl", bytes)], &[]);
    holds(&checked);
    assert_eq!((checked.lines, checked.unfinished), (3, Some(16)));
    assert_eq!(checked.head, Some(blake3::hash(&log.0[2])));
}

#[test]
fn a_head_that_was_noted_must_stand_in_the_log() {
    let log = Log::of(4);
    let (early, other) = (blake3::hash(&log.0[1]), blake3::hash(b"other"));
    let checked = check(&[("review.jsonl", log.bytes())], &[early]);
    holds(&checked);
    assert_eq!(checked.heads[0].1.as_ref().unwrap().line, 2);
    let checked = check(&[("review.jsonl", log.bytes())], &[early, other]);
    assert!(!checked.holds() && checked.broken.is_none());

    // Written anew as a whole, the chain holds; what was noted does not stand in it.
    let mut anew = Log::default();
    for n in 0..4 {
        anew.push("x.y", &json!({"n": n + 1}));
    }
    holds(&check_one(&anew));
    assert!(!check(&[("review.jsonl", anew.bytes())], &[early]).holds());
}

#[test]
fn a_line_beyond_all_measure_is_hashed_like_any_other() {
    let mut log = Log::of(2);
    log.push("x.y", &json!({"text": "x".repeat(17 << 20)}));
    log.push("x.y", &json!({}));
    let checked = check_one(&log);
    holds(&checked);
    assert_eq!(checked.lines, 4);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Any single byte that is changed shows, but for one in the last line, which only a head can show.
    #[test]
    fn any_change_shows(lines in 2_usize..6, at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let log = Log::of(lines);
        let head = blake3::hash(log.0.last().unwrap());
        let mut bytes = log.bytes();
        let at = at.index(bytes.len());
        prop_assume!(bytes[at] != byte);
        bytes[at] = byte;
        let checked = check(&[("review.jsonl", bytes)], &[head]);
        prop_assert!(!checked.holds(), "byte {}", at);
    }
}
