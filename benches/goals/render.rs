//! A megabyte of evidence before a person: how long until it is on the screen, and how long a key takes then.

use std::hint::black_box;
use std::time::Instant;

use askrelay::presentation::fit::{Budget, Labels, fit};
use askrelay::presentation::review::{Form, Review};
use askrelay::presentation::select::{Ask, Question};
use askrelay::presentation::text;
use askrelay::wire::{Evidence, PayloadKind, PromptPayload, Requester};

use super::figures::{Goal, Line, Unit};
use super::{in_turn, place::Place};

/// Size of the evidence, in bytes.
const BYTES: usize = 1_000_000;

/// A screen.
const COLUMNS: usize = 80;
const ROWS: usize = 24;

/// Keys that are pressed in a measurement of one.
const KEYS: u32 = 1_000;

fn payload(line: &str) -> PromptPayload {
    let requester = Requester {
        agent_name: Some("scout".to_owned()),
        forwarded: true,
        session_id: Some("child".to_owned()),
    };
    let mut payload = PromptPayload::degraded(
        requester,
        Some("edit".to_owned()),
        Some("src/x".to_owned()),
        None,
    );
    payload.kind = PayloadKind::Path;
    payload.evidence = vec![Evidence {
        label: "diff".to_owned(),
        text: format!(
            "--- a/x\n+++ b/x\n@@ -0,0 +1 @@\n{}",
            line.repeat(BYTES / line.len())
        ),
        detail: None,
    }];
    payload
}

fn ask(payload: &PromptPayload) -> Ask<'_> {
    Ask {
        payload,
        path: &[],
        grants: &[],
        directory: Some("/srv/app"),
        asked_because: None,
        with_chain: None,
        waiting: 0,
    }
}

fn first_screen(payload: &PromptPayload) {
    let question = Question::decide(&ask(payload));
    let budget = Budget::default();
    black_box(fit(
        &question.core,
        &question.evidence,
        budget,
        COLUMNS,
        Labels::Aligned,
    ));
}

fn whole(payload: &PromptPayload) -> Review {
    let mut review = Review::new(&ask(payload));
    review.lay_out(COLUMNS, Form::Full, [0]);
    review
}

fn timed(work: impl FnOnce()) -> f64 {
    let started = Instant::now();
    work();
    started.elapsed().as_secs_f64()
}

/// The floor: one pass that looks at each byte and counts lines.
fn lines(text: &str) -> f64 {
    timed(|| {
        black_box(text.bytes().filter(|byte| *byte == b'\n').count());
    })
}

pub(crate) fn render(_: &Place) {
    let kinds = [
        (
            "+let total = items.iter().map(|item| item.price).sum();\n",
            "1 MB of evidence to its first screen",
            "1 MB of evidence laid out whole",
        ),
        (
            "+\u{4f60}\u{597d}\u{202E}caf\u{e9}\tx\n",
            "the same, with text that has to be looked at closely",
            "laid out whole",
        ),
    ];
    for (line, first, all) in kinds {
        let payload = payload(line);
        let text = payload.evidence[0].text.clone();
        for (what, work) in [
            (first, &(|| first_screen(&payload)) as &dyn Fn()),
            (all, &|| drop(black_box(whole(&payload)))),
        ] {
            let (floor, product) = in_turn(|| lines(&text), || timed(work));
            print(what, floor, product, Goal::AtMost(0.020));
        }
    }
    let payload = payload(kinds[0].0);
    let mut review = whole(&payload);
    let rows = review.rows();
    let page = |at: usize| {
        for row in at..at + ROWS {
            black_box(review.row(row).map(|row| text::width(row.text)));
        }
    };
    let (_, product) = in_turn(
        || 0.0,
        || timed(|| (0..KEYS as usize).for_each(|key| page(key * 7_919 % rows))) / f64::from(KEYS),
    );
    print(
        "a key in 1 MB of evidence: its page of rows",
        None,
        product,
        Goal::AtMost(0.001),
    );
    let (_, product) = in_turn(
        || 0.0,
        || {
            timed(|| {
                black_box(review.search("not there"));
            })
        },
    );
    print(
        "a search through 1 MB of evidence",
        None,
        product,
        Goal::AtMost(0.020),
    );
}

fn print(what: &'static str, floor: Option<f64>, product: Option<f64>, goal: Goal) {
    Line {
        what,
        unit: Unit::Seconds,
        floor,
        product,
        goal,
    }
    .print();
}
