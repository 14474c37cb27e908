//! The review log read back: checked, and searched for one ask. The floors are a program that hashes each line of the same file, and one
//! that only reads it.
//!
//! The logs are made for the run: a million lines of the kinds that a relayed ask leaves, and a gigabyte of them.

use std::fs::File;
use std::io::{BufWriter, Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::figures::{Goal, Line, Unit};
use crate::in_turn;
use crate::place::Place;

const LINES: u64 = 1_000_000;
const BYTES: u64 = 1_000_000_000;

/// How much is read at once; more is not faster.
const CHUNK: usize = 256 << 10;

/// Writes whole asks of five lines each until `is_enough` of their lines and bytes.
fn generate(path: &Path, is_enough: impl Fn(u64, u64) -> bool) -> u64 {
    let mut out = BufWriter::with_capacity(1 << 20, File::create(path).unwrap());
    let (mut lines, mut bytes, mut chain) = (0, 0, "null".to_owned());
    while !is_enough(lines, bytes) {
        let id = id_of(lines / 5);
        let head = |event| {
            format!(
                r#"{{"timestamp":"2026-11-30T13:{:02}:{:02}.{:03}Z","extension":"askrelay","stream":"review","event":"{event}""#,
                lines / 60_000 % 60,
                lines / 1_000 % 60,
                lines % 1_000
            )
        };
        let decider =
            r#""decidedBy":{"kind":"rule","surface":"bash","pattern":"ls *","origin":"global"}"#;
        let hop = format!(
            r#""requestId":"{id}","source":"primary","requesterAgentName":"builder","requesterSessionId":"worker-{}","targetSessionId":"main""#,
            lines % 32
        );
        let file =
            |kind| format!("/home/me/.local/state/askrelay/spool/sessions/main/{kind}/{id}.json");
        for body in [
            format!(
                r#"{},{hop},"requestPath":"{}","responsePath":"{}""#,
                head("forwarded_permission.request_created"),
                file("requests"),
                file("responses")
            ),
            format!(
                r#"{},{decider},{hop},"requestPath":"{}""#,
                head("forwarded_permission.auto_approved"),
                file("requests")
            ),
            format!(
                r#"{},{decider},{hop},"responsePath":"{}","resolution":"approved","denialReason":null"#,
                head("forwarded_permission.approved"),
                file("responses")
            ),
            format!(
                r#"{},"requestId":"{id}","source":"tool_call","agentName":"builder","surface":"bash","toolName":"bash","command":"ls -l src/{lines}""#,
                head("permission_request.waiting"),
            ),
            format!(
                r#"{},"decidedBy":{{"kind":"forwarded","responderSessionId":"main","decision":{{"kind":"user","via":"dialog"}}}},"requestId":"{id}","approved":true"#,
                head("forwarded_permission.response_received"),
            ),
        ] {
            let line = format!("{body},\"chain\":{chain}}}");
            chain = format!("\"{}\"", blake3::hash(line.as_bytes()).to_hex());
            out.write_all(line.as_bytes()).unwrap();
            out.write_all(b"\n").unwrap();
            lines += 1;
            bytes += line.len() as u64 + 1;
        }
    }
    out.flush().unwrap();
    lines
}

/// The id of the ask that is the `number`th: none of them is the beginning of another.
fn id_of(number: u64) -> String {
    let digest = blake3::hash(&number.to_le_bytes()).to_hex();
    format!("perm-{}", &digest[..32])
}

/// Reads a file in pieces.
fn read(path: &Path, mut see: impl FnMut(&[u8])) {
    let mut file = File::open(path).unwrap();
    let mut buffer = vec![0; CHUNK];
    loop {
        match file.read(&mut buffer).unwrap() {
            0 => return,
            count => see(&buffer[..count]),
        }
    }
}

fn timed(work: impl FnOnce()) -> f64 {
    let started = Instant::now();
    work();
    started.elapsed().as_secs_f64()
}

/// Reads a file and hashes each line, and nothing more.
fn hash_lines(path: &Path) {
    let mut left = Vec::new();
    let mut last = None;
    read(path, |bytes| {
        let mut rest = bytes;
        while let Some(end) = memchr::memchr(b'\n', rest) {
            let (line, behind) = rest.split_at(end);
            rest = &behind[1..];
            last = Some(if left.is_empty() {
                blake3::hash(line)
            } else {
                left.extend_from_slice(line);
                let hash = blake3::hash(&left);
                left.clear();
                hash
            });
        }
        left.extend_from_slice(rest);
    });
    assert!(last.is_some());
}

fn askrelay(log: &Path, args: &[&str]) -> String {
    let ended = Command::new(env!("CARGO_BIN_EXE_askrelay"))
        .arg("log")
        .args(args)
        .arg("--log")
        .arg(log)
        .stderr(Stdio::inherit())
        .output()
        .unwrap();
    assert!(ended.status.success());
    String::from_utf8(ended.stdout).unwrap()
}

pub(crate) fn verify(place: &Place) {
    let dir = place.fresh();
    let log = dir.path().join("review.jsonl");
    let lines = generate(&log, |lines, _| lines >= LINES);
    let product = || {
        timed(|| {
            let told = askrelay(&log, &["verify"]);
            assert!(
                told.contains(&format!("the chain holds: {lines} lines")),
                "{told}"
            );
        })
    };
    let (floor, figure) = in_turn(|| timed(|| hash_lines(&log)), product);
    Line {
        what: "`log verify` over 1,000,000 lines; floor: read, hash each",
        unit: Unit::Seconds,
        floor,
        product: figure,
        goal: Goal::AtMostTimes(1.3),
    }
    .print();
    let whole = || {
        let mut hasher = blake3::Hasher::new();
        read(&log, |bytes| {
            hasher.update(bytes);
        });
        assert_ne!(hasher.finalize(), blake3::hash(b""));
    };
    let (floor, figure) = in_turn(|| timed(whole), product);
    Line {
        what: "the same; floor: read, one hash over all bytes",
        unit: Unit::Seconds,
        floor,
        product: figure,
        goal: Goal::None,
    }
    .print();
}

pub(crate) fn search(place: &Place) {
    let dir = place.fresh();
    let log = dir.path().join("review.jsonl");
    let lines = generate(&log, |_, bytes| bytes >= BYTES);
    let floor = || {
        timed(|| {
            let mut bytes = 0;
            read(&log, |piece| bytes += piece.len() as u64);
            assert!(bytes >= BYTES);
        })
    };
    let search = |args: &[&str], found: usize| {
        let told = askrelay(&log, args);
        assert_eq!(told.lines().count(), found, "{args:?}");
    };
    let id = id_of(lines / 10);
    let (read, product) = in_turn(floor, || timed(|| search(&["--json", "--request", &id], 5)));
    Line {
        what: "`log --request` in 1 GB; floor: one plain read",
        unit: Unit::Seconds,
        floor: read,
        product,
        goal: Goal::AtMostTimes(1.5),
    }
    .print();
    let (read, product) = in_turn(floor, || {
        timed(|| {
            let told = askrelay(&log, &["story", &id]);
            assert!(told.contains("Approved by a person"), "{told}");
        })
    });
    Line {
        what: "`log story` in 1 GB; floor: one plain read",
        unit: Unit::Seconds,
        floor: read,
        product,
        goal: Goal::AtMostTimes(1.5),
    }
    .print();
    let (read, product) = in_turn(floor, || {
        timed(|| search(&["--json", "--since", "2027-01-01"], 0))
    });
    Line {
        what: "`log --since` in 1 GB, which looks at each line",
        unit: Unit::Seconds,
        floor: read,
        product,
        goal: Goal::None,
    }
    .print();
    let (read, product) = in_turn(floor, || timed(|| drop(askrelay(&log, &["stats"]))));
    Line {
        what: "`log stats` in 1 GB, which reads each entry",
        unit: Unit::Seconds,
        floor: read,
        product,
        goal: Goal::None,
    }
    .print();
}
