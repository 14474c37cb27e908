//! What is kept in memory while a log cannot be written.

use super::{AuditError, describe};
use crate::presentation::text;

/// Most bytes that are held.
const MOST_HELD: usize = 1 << 20;

/// Most UTF-16 units of what is told of a failure.
const FAILURE_UNITS: usize = 300;

/// What becomes of records that cannot be written now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unwritten {
    /// They are held in memory, and go first with the next records that can be written.
    Held,
    /// Nothing: they never stand in the log. For decisions that count only once they are recorded.
    Refused,
}

/// Records that could not be written, as bodies of lines.
#[derive(Debug, Default)]
pub(super) struct Held {
    /// They.
    pub(super) bodies: Vec<Vec<u8>>,
    /// Their length.
    pub(super) bytes: usize,
    /// How many more there were for which there was no room.
    pub(super) lost: u64,
}

/// Since when the log cannot be written, and why.
#[derive(Debug)]
pub(super) struct Failure {
    /// When it failed first.
    pub(super) since_ms: i64,
    /// How it failed last, in one line.
    pub(super) text: String,
    /// How many records were refused since then, and stand nowhere.
    pub(super) refused: u64,
}

impl Held {
    /// Takes in more, as far as there is room.
    pub(super) fn add(&mut self, bodies: Vec<Vec<u8>>) {
        for body in bodies {
            // Once one is lost, so are those behind it: what is missing is one stretch.
            if self.lost > 0 || self.bytes + body.len() > MOST_HELD {
                self.lost += 1;
            } else {
                self.bytes += body.len();
                self.bodies.push(body);
            }
        }
    }

    /// Takes in again what was written and is taken out of the log; it is older than what is held.
    pub(super) fn add_before(&mut self, older: Self) {
        let newer = std::mem::replace(self, older);
        self.add(newer.bodies);
        self.lost += newer.lost;
    }
}

impl Failure {
    /// A failure at this time.
    pub(super) fn of(since_ms: i64, error: &AuditError) -> Self {
        Self {
            since_ms,
            text: text::clip_utf16(&describe(error), FAILURE_UNITS).into_owned(),
            refused: 0,
        }
    }

    /// Goes back to one from before, the end of which is not recorded after all.
    pub(super) fn go_on_from(&mut self, older: &Self) {
        self.since_ms = older.since_ms;
        self.refused += older.refused;
    }
}
