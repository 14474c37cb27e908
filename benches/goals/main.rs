//! The goals in numbers: each row measures its own floor beside the product, in the same run.
//!
//! `cargo bench --bench goals` prints the table; `-- --only ROW` one row of it, `-- --dir DIR` measures below another directory, for
//! example `/dev/shm`. Nothing here passes or fails: a goal that is missed is marked.
#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a bench reads files and clocks itself, prints, and stops at the first surprise"
)]

mod figures;
mod floor;
mod place;
mod process;

use std::path::PathBuf;
use std::time::Duration;

use figures::{Goal, Line, Times, Unit, median};
use place::Place;
use process::Role;

/// The rows that `--only` takes.
const ROWS: [(&str, fn(&Place)); 6] = [
    ("round-trip", round_trip),
    ("in-flight", in_flight),
    ("start", start),
    ("waiting", waiting),
    ("ls", ls),
    ("memory", memory),
];

fn main() {
    let mut args = std::env::args().skip(1);
    let mut only = None;
    let mut dir = None;
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--role" => return play(&args.next().unwrap(), &args.collect::<Vec<_>>()),
            "--only" => only = args.next(),
            "--dir" => dir = args.next().map(PathBuf::from),
            // Cargo says this to every bench.
            "--bench" => {}
            other => panic!("{other:?} is not --only ROW or --dir DIR"),
        }
    }
    let place = Place::new(dir.as_deref());
    println!("{}", place.describe());
    Line::head();
    for (row, measure) in ROWS {
        if only.as_deref().is_none_or(|only| only == row) {
            measure(&place);
        }
    }
}

fn play(name: &str, args: &[String]) {
    let role = Role::ALL
        .into_iter()
        .find(|role| role.name() == name)
        .unwrap();
    let dir = || PathBuf::from(&args[0]);
    match role {
        Role::Hello => {}
        Role::FloorServer => floor::server(&dir()),
        Role::FloorChild => {
            let numbers: Vec<u64> = args[2..].iter().map(|arg| arg.parse().unwrap()).collect();
            let [count, in_flight] = [numbers[0], numbers[1]].map(|n| usize::try_from(n).unwrap());
            floor::child(
                &dir(),
                &args[1],
                count,
                in_flight,
                Duration::from_micros(numbers[2]),
            );
        }
        Role::FloorDrain => floor::drain_role(&dir()),
        Role::FloorList => floor::list_role(&dir()),
    }
}

/// Repeats of everything; the middle one is reported.
const REPEATS: usize = 3;

/// The asks at the start that warm the caches are not counted.
const WARM: usize = 50;

fn round_trip(place: &Place) {
    let gaps = [
        (
            1_000,
            Duration::ZERO,
            [
                "round trip, back to back: p50",
                "round trip, back to back: p99",
            ],
        ),
        (
            150,
            Duration::from_millis(20),
            [
                "round trip, processors idle in between: p50",
                "round trip, processors idle in between: p99",
            ],
        ),
    ];
    for (count, gap, names) in gaps {
        let floors: Vec<Times> = (0..REPEATS)
            .map(|_| {
                Times::new(
                    floor::relay(place, 1, 1, count + WARM, gap)
                        .times
                        .split_off(WARM),
                )
            })
            .collect();
        let rows = [(names[0], 0.5, 2.5), (names[1], 0.99, 4.0)];
        for (what, share, times) in rows {
            let floor = median(floors.iter().map(|run| run.quantile(share)).collect());
            Line {
                what,
                unit: Unit::Seconds,
                floor: Some(floor),
                product: None,
                goal: Goal::AtMostTimes(times),
            }
            .print();
        }
    }
}

fn in_flight(place: &Place) {
    let rows = [
        (8, 2_000, ["8 in flight: asks", "8 in flight: p50"]),
        (64, 3_200, ["64 in flight: asks", "64 in flight: p50"]),
        (512, 4_096, ["512 in flight: asks", "512 in flight: p50"]),
    ];
    for (open, count, names) in rows {
        let floors: Vec<_> = (0..REPEATS)
            .map(|_| floor::relay(place, 8, open, count, Duration::ZERO))
            .collect();
        let rate = median(floors.iter().map(|run| run.rate).collect());
        let p50 = median(
            floors
                .into_iter()
                .map(|run| Times::new(run.times).quantile(0.5))
                .collect(),
        );
        let goal = if open == 512 {
            Goal::AtMostTimes(1.0)
        } else {
            Goal::None
        };
        Line {
            what: names[0],
            unit: Unit::PerSecond,
            floor: Some(rate),
            product: None,
            goal: Goal::AtLeastTimes(0.5),
        }
        .print();
        Line {
            what: names[1],
            unit: Unit::Seconds,
            floor: Some(p50),
            product: None,
            goal,
        }
        .print();
    }
}

fn start(place: &Place) {
    let (dynamic, fixed) = floor::spawn(place, 300);
    let p50 = |times| Times::new(times).quantile(0.5);
    let fixed = fixed.map(p50);
    Line {
        what: "start to exit of a static program that does nothing: p50",
        unit: Unit::Seconds,
        floor: fixed,
        product: None,
        goal: Goal::None,
    }
    .print();
    let floor = Some(p50(dynamic));
    Line {
        what: "start to exit of `askrelay ask`, policy answers: p50",
        unit: Unit::Seconds,
        floor,
        product: None,
        goal: Goal::AtMost(0.005),
    }
    .print();
}

fn waiting(place: &Place) {
    let floor = median(
        (0..REPEATS)
            .map(|_| floor::pass(place, Role::FloorDrain, 10_000))
            .collect(),
    );
    Line {
        what: "10,000 requests waiting at start: all answered",
        unit: Unit::Seconds,
        floor: Some(floor),
        product: None,
        goal: Goal::AtMostTimes(1.3),
    }
    .print();
}

fn ls(place: &Place) {
    let floor = median(
        (0..REPEATS)
            .map(|_| floor::pass(place, Role::FloorList, 10_000))
            .collect(),
    );
    Line {
        what: "`ls` over 10,000 pending",
        unit: Unit::Seconds,
        floor: Some(floor),
        product: None,
        goal: Goal::AtMostTimes(1.5),
    }
    .print();
}

fn memory(place: &Place) {
    let floor = Some(floor::memory(place));
    Line {
        what: "memory of an idle server",
        unit: Unit::Megabytes,
        floor,
        product: None,
        goal: Goal::AtMost(6.0),
    }
    .print();
}
