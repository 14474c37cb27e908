//! What the review log costs: an append, alone and beside 63 other processes, and the bytes of a decision.
//!
//! The floor writes lines of the same length to a file opened for appending: no JSON, no lock, no chain.

use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::time::Instant;

use askrelay::audit::{Ending, Entry, Options, ReviewLog};
use askrelay::wire::DecisionSource;
use serde_json::Value;

use crate::figures::{Goal, Line, Times, Unit, median};
use crate::place::Place;
use crate::process::{self, Relay, Role, Spawned};
use crate::product::{Product, Serving};
use crate::{REPEATS, WARM};

/// Writers at once, and how much each of them writes.
const WRITERS: usize = 64;
const EACH: usize = 500;

const ALONE: usize = 5_000;

/// A record as the serving side writes one for each decision.
fn record(me: &str, number: usize) -> Entry {
    let decided_by = DecisionSource::Rule {
        surface: "bash".to_owned(),
        pattern: Some("ls *".to_owned()),
        origin: Some("global".to_owned()),
    };
    Entry::ending(Ending::Approved, &decided_by)
        .with("requestId", format!("perm-6f0d1c52-8a3e-4b7d-9c11-{me:0>4}{number:08}"))
        .with("source", "askrelay")
        .with("requesterAgentName", "builder")
        .with("requesterSessionId", "child-7")
        .with("targetSessionId", "lead-1")
        .with("responsePath", "/home/me/.local/state/askrelay/spool/sessions/lead-1/responses/perm-6f0d1c52-8a3e-4b7d-9c11-0a5be2d4f763.json")
        .with("resolution", "approved")
        .with("denialReason", Value::Null)
}

fn await_go() {
    println!("ready");
    let mut go = [0];
    std::io::stdin().read_exact(&mut go).unwrap();
}

/// Appends records to the log of this directory.
pub(crate) fn writer(dir: &Path, me: &str, count: usize) {
    let log = ReviewLog::open(&dir.join("review.jsonl"), Options::default()).unwrap();
    let records: Vec<Entry> = (0..count).map(|number| record(me, number)).collect();
    await_go();
    report(records.iter().map(|record| {
        let started = Instant::now();
        // Whoever does not get the lock in time writes with the next.
        let _later = log.append_or_hold(1_798_700_000_000, std::slice::from_ref(record));
        started.elapsed()
    }));
}

/// Appends lines of the length of such records to a plain file.
pub(crate) fn floor(dir: &Path, me: &str, count: usize) {
    let (own, shared) = (dir.join(format!("{me}.jsonl")), dir.join("floor.log"));
    let log = ReviewLog::open(&own, Options::default()).unwrap();
    log.append(1_798_700_000_000, &record(me, 0)).unwrap();
    log.append(1_798_700_000_000, &record(me, 1)).unwrap();
    let written = fs::read(&own).unwrap();
    fs::remove_file(&own).unwrap();
    let line = written
        .split_inclusive(|byte| *byte == b'\n')
        .nth(1)
        .unwrap();
    let mut file = fs::File::options()
        .create(true)
        .append(true)
        .open(shared)
        .unwrap();
    await_go();
    report((0..count).map(|_| {
        let started = Instant::now();
        file.write_all(line).unwrap();
        started.elapsed()
    }));
}

/// Prints when all is done: what is measured is no pipe.
fn report(times: impl Iterator<Item = std::time::Duration>) {
    let times: Vec<_> = times.collect();
    for time in times {
        println!("{}", time.as_nanos());
    }
}

fn race(place: &Place, role: Role, writers: usize, each: usize) -> Relay {
    let dir = place.fresh();
    let children = (0..writers)
        .map(|me| {
            let (me, each) = (me.to_string(), each.to_string());
            Spawned::role(role, &[dir.path().as_ref(), me.as_ref(), each.as_ref()])
        })
        .collect();
    process::race(children)
}

pub(crate) fn log(place: &Place) {
    let p50 = |relay: Relay| Times::new(relay.times).quantile(0.5);
    let alone = |role| {
        let mut relay = race(place, role, 1, ALONE + WARM);
        relay.times.drain(..WARM);
        p50(relay)
    };
    let (floor, product) = crate::in_turn(|| alone(Role::LogFloor), || alone(Role::LogWriter));
    print(
        "log: an append by one process: p50",
        Unit::Seconds,
        floor,
        product,
    );

    let runs: Vec<(Relay, Relay)> = (0..REPEATS)
        .map(|_| {
            let floor = race(place, Role::LogFloor, WRITERS, EACH);
            (floor, race(place, Role::LogWriter, WRITERS, EACH))
        })
        .collect();
    let rates = |rate: fn(&(Relay, Relay)) -> f64| Some(median(runs.iter().map(rate).collect()));
    print(
        "log: 64 processes that append at once: records",
        Unit::PerSecond,
        rates(|(floor, _)| floor.rate),
        rates(|(_, product)| product.rate),
    );
    let (floors, products) = runs
        .into_iter()
        .map(|(floor, product)| (p50(floor), p50(product)))
        .unzip();
    print(
        "the same: p50",
        Unit::Seconds,
        Some(median(floors)),
        Some(median(products)),
    );
    growth(place);
}

/// The bytes that one decision of policy adds to the log, on both sides, with and without who decided and the chain.
fn growth(place: &Place) {
    const ASKS: usize = 100;
    let product = Product::new(place);
    let server = product.serve(Serving::Policy);
    product.relay(1, 1, ASKS, std::time::Duration::ZERO);
    drop(server);
    let mut with = 0;
    let mut without_decider = 0;
    let mut without_chain = 0;
    for file in product.logs() {
        let text = fs::read_to_string(file).unwrap();
        for line in text.lines() {
            let Value::Object(mut record) = serde_json::from_str(line).unwrap() else {
                panic!("{line}")
            };
            let id = record.get("requestId");
            if id.is_none() {
                continue;
            }
            let length = |record: &serde_json::Map<String, Value>| {
                serde_json::to_string(record).unwrap().len() + 1
            };
            with += length(&record);
            let mut unchained = record.clone();
            unchained.shift_remove("chain");
            without_chain += length(&unchained);
            record.shift_remove("decidedBy");
            without_decider += length(&record);
        }
    }
    #[expect(clippy::cast_precision_loss, reason = "some kilobytes")]
    let each = |bytes: usize| Some(bytes as f64 / ASKS as f64);
    let what = "log: bytes of a decision, both sides; without its decider";
    print(what, Unit::Bytes, each(without_decider), each(with));
    let what = "the same; without the chain";
    print(what, Unit::Bytes, each(without_chain), each(with));
}

fn print(what: &'static str, unit: Unit, floor: Option<f64>, product: Option<f64>) {
    Line {
        what,
        unit,
        floor,
        product,
        goal: Goal::None,
    }
    .print();
}
