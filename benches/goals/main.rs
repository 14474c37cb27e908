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

mod chain;
mod figures;
mod floor;
mod identity;
mod judge;
mod log;
mod log_reading;
mod place;
mod process;
mod product;
mod render;
mod seal;

use std::path::PathBuf;
use std::time::Duration;

use figures::{Goal, Line, Times, Unit, median};
use place::Place;
use process::{Role, Spawned};
use product::{Product, Serving};

/// Name of a row for `--only`, and what measures and prints it.
type Row = (&'static str, fn(&Place));

const ROWS: &[Row] = &[
    ("round-trip", round_trip),
    ("key-press", key_press),
    ("chain", chain::chain),
    ("in-flight", in_flight),
    ("question", question),
    ("start", start),
    ("waiting", waiting),
    ("thousand-rules", thousand_rules),
    ("ls", ls),
    ("memory", memory),
    ("idle", idle),
    ("render", render::render),
    ("seal", seal::seal),
    ("judge", judge::judge),
    ("judge-many", judge::asks),
    ("rules-load", judge::load),
    ("identity", identity::identity),
    ("log", log::log),
    ("log-verify", log_reading::verify),
    ("log-search", log_reading::search),
    ("size", size),
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
    let names: Vec<&str> = ROWS.iter().map(|(name, _)| *name).collect();
    if let Some(only) = &only {
        assert!(
            names.contains(&only.as_str()),
            "{only:?} is not one of {names:?}"
        );
    }
    let place = Place::new(dir.as_deref());
    println!("{}", place.describe());
    Line::head();
    for (row, measure) in ROWS {
        if only.as_deref().is_none_or(|only| only == *row) {
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
    let number = |n: usize| args[n].parse::<usize>().unwrap();
    let gap = |n: usize| Duration::from_micros(args[n].parse().unwrap());
    match role {
        Role::Hello => {}
        Role::LogFloor => log::floor(&dir(), &args[1], number(2)),
        Role::LogWriter => log::writer(&dir(), &args[1], number(2)),
        Role::FloorServer => floor::server(&dir()),
        Role::FloorChild => floor::child(&dir(), &args[1], number(2), number(3), gap(4)),
        Role::FloorDrain => floor::drain_role(&dir()),
        Role::FloorList => floor::list_role(&dir()),
        Role::ProductChild => {
            product::child_role(&dir(), &args[1], &args[2], number(3), number(4), gap(5));
        }
    }
}

/// Repeats of what is quick; the middle one is reported.
const REPEATS: usize = 3;

/// The asks at the start that warm the caches are not counted.
const WARM: usize = 50;

/// A figure of the floor and one of the product, `REPEATS` times in turn, so that both see the same machine.
fn in_turn(
    mut floor: impl FnMut() -> f64,
    mut product: impl FnMut() -> f64,
) -> (Option<f64>, Option<f64>) {
    let (floors, products) = (0..REPEATS).map(|_| (floor(), product())).unzip();
    (Some(median(floors)), Some(median(products)))
}

fn warmed(mut relay: process::Relay) -> Times {
    Times::new(relay.times.split_off(WARM))
}

fn round_trip(place: &Place) {
    let gaps = [
        (
            1_000,
            Duration::ZERO,
            "round trip, policy answers, back to back: p50",
            "the same: p99",
        ),
        (
            150,
            Duration::from_millis(20),
            "round trip, processors idle in between: p50",
            "the same: p99",
        ),
    ];
    for (count, gap, p50, p99) in gaps {
        let runs: Vec<(Times, Times)> = (0..REPEATS)
            .map(|_| {
                let floor = warmed(floor::relay(place, 1, 1, count + WARM, gap));
                let product = Product::new(place);
                let _server = product.serve(Serving::Policy);
                (floor, warmed(product.relay(1, 1, count + WARM, gap)))
            })
            .collect();
        for (what, share, times) in [(p50, 0.5, 2.5), (p99, 0.99, 4.0)] {
            let floor = Some(median(
                runs.iter()
                    .map(|(floor, _)| floor.quantile(share))
                    .collect(),
            ));
            let product = Some(median(
                runs.iter()
                    .map(|(_, product)| product.quantile(share))
                    .collect(),
            ));
            Line {
                what,
                unit: Unit::Seconds,
                floor,
                product,
                goal: Goal::AtMostTimes(times),
            }
            .print();
        }
    }
}

fn key_press(place: &Place) {
    let gap = Duration::from_millis(20);
    let (floor, product) = in_turn(
        || warmed(floor::relay(place, 1, 1, 100 + WARM, gap)).quantile(0.5),
        || Times::new(product::key_press(place, 30)).quantile(0.5),
    );
    let goal = Goal::AtMostTimes(5.0);
    Line {
        what: "a person's answer to the child's exit: p50",
        unit: Unit::Seconds,
        floor,
        product,
        goal,
    }
    .print();
}

fn in_flight(place: &Place) {
    let rows = [
        (
            8,
            2_000,
            "8 in flight from 8 processes: asks",
            "the same: p50",
        ),
        (
            64,
            3_200,
            "64 in flight from 8 processes: asks",
            "the same: p50",
        ),
        (
            512,
            4_096,
            "512 in flight from 8 processes: asks",
            "the same: p50",
        ),
    ];
    for (open, count, rate, p50) in rows {
        let runs: Vec<_> = (0..REPEATS)
            .map(|_| {
                let floor = floor::relay(place, 8, open, count, Duration::ZERO);
                let product = Product::new(place);
                let _server = product.serve(Serving::Policy);
                (floor, product.relay(8, open, count, Duration::ZERO))
            })
            .collect();
        let floor = Some(median(runs.iter().map(|(floor, _)| floor.rate).collect()));
        let product = Some(median(
            runs.iter().map(|(_, product)| product.rate).collect(),
        ));
        Line {
            what: rate,
            unit: Unit::PerSecond,
            floor,
            product,
            goal: Goal::AtLeastTimes(0.5),
        }
        .print();
        let middle = |relay: process::Relay| Times::new(relay.times).quantile(0.5);
        let (floors, products) = runs
            .into_iter()
            .map(|(floor, product)| (middle(floor), middle(product)))
            .unzip();
        let goal = if open == 512 {
            Goal::AtMostTimes(1.0)
        } else {
            Goal::None
        };
        let (floor, product) = (Some(median(floors)), Some(median(products)));
        Line {
            what: p50,
            unit: Unit::Seconds,
            floor,
            product,
            goal,
        }
        .print();
    }
}

/// Here the floor is the product itself, without the open question.
fn question(place: &Place) {
    let p50 = |open| Times::new(product::beside_a_question(place, open, 500)).quantile(0.5);
    let (floor, product) = in_turn(|| p50(false), || p50(true));
    let what = "an ask that policy answers beside an open question: p50";
    Line {
        what,
        unit: Unit::Seconds,
        floor,
        product,
        goal: Goal::AtMostTimes(1.2),
    }
    .print();
}

fn start(place: &Place) {
    let (dynamic, fixed) = floor::spawn(place, 300);
    let p50 = |times| Times::new(times).quantile(0.5);
    let what = "start to exit of a static program that does nothing: p50";
    Line {
        what,
        unit: Unit::Seconds,
        floor: fixed.map(p50),
        product: None,
        goal: Goal::None,
    }
    .print();
    let product = Some(p50(product::start(place, 100)));
    let bare = p50(dynamic);
    let what = "start to exit of `askrelay ask`, policy answers: p50";
    Line {
        what,
        unit: Unit::Seconds,
        floor: Some(bare),
        product,
        goal: Goal::AtMost(0.005),
    }
    .print();
    let what = "start to verdict of `askrelay hook`, policy allows: p50";
    Line {
        what,
        unit: Unit::Seconds,
        floor: Some(bare),
        product: Some(p50(product::hook(place, 100))),
        // So much more than a bare start.
        goal: Goal::AtMost(bare + 0.008),
    }
    .print();
}

/// As many as the goals speak of.
const MANY: usize = 10_000;

fn waiting(place: &Place) {
    let (floor, product) = in_turn(
        || floor::pass(place, Role::FloorDrain, MANY),
        || product::drain(place, MANY, Serving::Policy),
    );
    let what = "10,000 requests waiting at start: all answered";
    Line {
        what,
        unit: Unit::Seconds,
        floor,
        product,
        goal: Goal::AtMostTimes(1.3),
    }
    .print();
}

fn thousand_rules(place: &Place) {
    let (one, thousand) = in_turn(
        || product::drain(place, MANY, Serving::Policy),
        || product::drain(place, MANY, Serving::ThousandRules),
    );
    Line {
        what: "10,000 requests answered by 1,000 rules; the floor is one rule",
        unit: Unit::Seconds,
        floor: one,
        product: thousand,
        goal: Goal::AtMostTimes(1.1),
    }
    .print();
}

fn ls(place: &Place) {
    let (floor, product) = in_turn(
        || floor::pass(place, Role::FloorList, MANY),
        || product::list(place, MANY),
    );
    let what = "`ls` over 10,000 pending";
    Line {
        what,
        unit: Unit::Seconds,
        floor,
        product,
        goal: Goal::AtMostTimes(1.5),
    }
    .print();
}

fn memory(place: &Place) {
    let floor = Some(floor::memory(place));
    let line = |what, product, goal| {
        Line {
            what,
            unit: Unit::Megabytes,
            floor,
            product: Some(product),
            goal: Goal::AtMost(goal),
        }
        .print();
    };

    let product = Product::new(place);
    let server = product.serve(Serving::Person);
    line("memory: server, idle", process::resident(server.id()), 6.0);
    let child = product.ask("make deploy");
    product::until("the question is open", || product.queued() == Some(1));
    line(
        "memory: `askrelay ask`, waiting",
        process::resident(child.id()),
        4.0,
    );

    let product = Product::new(place);
    product.leave_waiting("make deploy", MANY);
    let server = product.serve(Serving::Person);
    product::until("all are pending", || {
        product.queued() == u64::try_from(MANY).ok()
    });
    line(
        "memory: server, 10,000 pending",
        process::resident(server.id()),
        24.0,
    );
}

/// For how long nothing happens.
const IDLE: Duration = Duration::from_secs(20);

fn idle(place: &Place) {
    let empty = Product::new(place);
    let server = empty.serve(Serving::Policy);

    let one = Product::new(place);
    let one_server = one.serve(Serving::Person);
    let one_child = one.ask("make deploy");
    product::until("one is pending", || one.queued() == Some(1));

    let many = Product::new(place);
    let many_server = many.serve(Serving::Person);
    let mut many_child = many.child_about("make deploy", 0, 512, 512, Duration::ZERO);
    many_child.ready();
    many_child.go();
    product::until("512 are pending", || many.queued() == Some(512));

    let stray = Product::new(place);
    stray.leave_waiting("ls -l", 0);
    for n in 0..MANY {
        std::fs::write(stray.requests().join(format!("stray-{n}")), "").unwrap();
    }
    let stray_server = stray.serve(Serving::Policy);

    let watched: [(&str, &str, &Spawned); 6] = [
        ("idle: server", "the same: system calls", &server),
        (
            "idle: server, one question open",
            "the same: system calls",
            &one_server,
        ),
        (
            "idle: `askrelay ask`, waiting",
            "the same: system calls",
            &one_child,
        ),
        (
            "idle: server, 512 pending",
            "the same: system calls",
            &many_server,
        ),
        (
            "idle: one process with 512 asks waiting",
            "the same: system calls",
            &many_child,
        ),
        (
            "idle: server, 10,000 stray files in its inbox",
            "the same: system calls",
            &stray_server,
        ),
    ];
    // What starting up left to do is not idle.
    std::thread::sleep(Duration::from_secs(5));
    let before: Vec<Duration> = watched
        .iter()
        .map(|(_, _, spawned)| process::cpu(spawned.id()))
        .collect();
    std::thread::sleep(IDLE);
    let used: Vec<Duration> = watched
        .iter()
        .zip(before)
        .map(|((_, _, spawned), before)| process::cpu(spawned.id()).saturating_sub(before))
        .collect();
    let calls: Vec<Option<f64>> = std::thread::scope(|scope| {
        let traces: Vec<_> = watched
            .iter()
            .map(|(_, _, spawned)| spawned.id())
            .map(|id| scope.spawn(move || process::system_calls(id, IDLE)))
            .collect();
        traces
            .into_iter()
            .map(|trace| trace.join().unwrap())
            .collect()
    });
    for ((what, same, _), (used, calls)) in watched.iter().zip(used.into_iter().zip(calls)) {
        let cpu = used.as_secs_f64() * 1e3 * (60.0 / IDLE.as_secs_f64());
        Line {
            what,
            unit: Unit::CpuPerMinute,
            floor: Some(0.0),
            product: Some(cpu),
            goal: Goal::AtMost(5.0),
        }
        .print();
        Line {
            what: same,
            unit: Unit::PerSecond,
            floor: Some(0.0),
            product: calls,
            goal: Goal::AtMost(5.0),
        }
        .print();
    }
}

fn size(_: &Place) {
    let bytes = std::fs::metadata(env!("CARGO_BIN_EXE_askrelay"))
        .unwrap()
        .len();
    #[expect(clippy::cast_precision_loss, reason = "a few megabytes")]
    let product = Some(bytes as f64 / 1e6);
    Line {
        what: "the binary",
        unit: Unit::Megabytes,
        floor: None,
        product,
        goal: Goal::AtMost(8.0),
    }
    .print();
}
