//! An ask through a chain of three programs, against starting these three one after another with the same pipes.

use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::figures::{Goal, Line, Times, Unit};
use crate::place::Place;
use crate::product::{Product, Serving, request};

/// What the three say, in this order.
const VERDICTS: [&str; 3] = ["defer", "defer", "allow"];

/// A program that reads what it is asked, and says this.
fn command(verdict: &str) -> [String; 3] {
    let script = format!(r#"read -r asked; echo '{{"verdict":"{verdict}"}}'"#);
    ["/bin/sh".to_owned(), "-c".to_owned(), script]
}

/// The part of a configuration that names them.
pub(crate) fn config() -> (Value, Value) {
    let names: Vec<String> = (0..VERDICTS.len()).map(|n| format!("link-{n}")).collect();
    let programs: serde_json::Map<String, Value> = names
        .iter()
        .zip(VERDICTS)
        .map(|(name, verdict)| (name.clone(), json!({ "command": command(verdict) })))
        .collect();
    (json!(names), programs.into())
}

/// Starts the three, each when the one before has ended.
fn floor() -> Duration {
    let asked = request("w-1", "ls -l");
    let started = Instant::now();
    for verdict in VERDICTS {
        let [program, flag, script] = command(verdict);
        let mut child = Command::new(program)
            .args([flag, script])
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(&asked).unwrap();
        let mut said = String::new();
        let mut stdout = child.stdout.take().unwrap();
        stdout.read_to_string(&mut said).unwrap();
        assert!(child.wait().unwrap().success() && said.contains(verdict));
    }
    started.elapsed()
}

pub(crate) fn chain(place: &Place) {
    const ASKS: usize = 100;
    let product = Product::new(place);
    let _server = product.serve(Serving::Chain);
    let (mut floors, mut asks) = (Vec::new(), Vec::new());
    // In turns, so that both see the same machine.
    for _ in 0..4 {
        floors.extend((0..ASKS / 4).map(|_| floor()));
        asks.extend(product.relay(1, 1, ASKS / 4, Duration::ZERO).times);
    }
    let (floors, asks) = (Times::new(floors), Times::new(asks));
    for (what, share, goal) in [
        (
            "an ask through a chain of three programs: p50",
            0.5,
            Goal::AtMostTimes(1.5),
        ),
        ("the same: p90", 0.9, Goal::None),
    ] {
        Line {
            what,
            unit: Unit::Seconds,
            floor: Some(floors.quantile(share)),
            product: Some(asks.quantile(share)),
            goal,
        }
        .print();
    }
}
