//! What it costs to tell what of a prompt may be inherited: long prompts of several kinds, against one pass that counts their lines.

use std::hint::black_box;
use std::time::Instant;

use askrelay::identity::{Directories, inherit};

use super::figures::{Goal, Line, Unit, median};
use super::{in_turn, place::Place};

/// Length of a prompt.
const BYTES: usize = 10_000_000;

/// A prompt as the host writes it, with this text as its project context.
fn assembled(context: &str) -> Vec<u8> {
    let lines = context.repeat(BYTES / context.len());
    format!(
        "You are a bench.\n\n<tools>\n- a\n</tools>\n\n<rules>\n- r\n</rules>\n\n<docs>\nD\n</docs>\n\n<project_context>\n\
         Project-specific instructions and guidelines:\n\n{lines}\n</project_context>\n\n<cwd>\n/srv/bench\n</cwd>"
    )
    .into_bytes()
}

const PROSE: &str =
    "Some words about a project, of the length that a line of such a file has, more or less.\n";

pub(super) fn identity(_: &Place) {
    let cases: [(&'static str, Vec<u8>); 6] = [
        (
            "identity of 10 MB, a project context of prose",
            assembled(PROSE),
        ),
        ("the same, of short lines", assembled("- a\n")),
        (
            "the same, of lines that are nearly anchors",
            assembled("<cwd>\n/srv/bench2\n</cwd>\n<tools>\n"),
        ),
        (
            "the same, of openings that are none",
            assembled("<project_context>\nx\ny\n"),
        ),
        (
            "the same, of lead-ins that open nothing",
            assembled("Project-specific instructions and guidelines:\n"),
        ),
        (
            "10 MB in which nothing is recognised",
            PROSE.repeat(BYTES / PROSE.len()).into_bytes(),
        ),
    ];
    for (what, prompt) in cases {
        let directories = Directories {
            parent: b"/srv/bench",
            child: b"/srv/elsewhere",
        };
        let (floor, product) = in_turn(
            || timed(|| memchr::memchr_iter(b'\n', black_box(&prompt)).count()),
            || timed(|| inherit(black_box(&prompt), &directories).len()),
        );
        Line {
            what,
            unit: Unit::Seconds,
            floor,
            product,
            goal: Goal::AtMostTimes(5.0),
        }
        .print();
    }
}

/// The middle of some runs, in seconds.
fn timed<T>(run: impl Fn() -> T) -> f64 {
    let once = || {
        let started = Instant::now();
        black_box(run());
        started.elapsed().as_secs_f64()
    };
    median((0..9).map(|_| once()).collect())
}
