//! Which keys are meant: a guard against keys that were typed for something else.
//!
//! A person who types when an ask appears did not mean to answer it, and what a paste or another program sends comes faster than
//! fingers do. The guard swallows both: it is up for a while after the ask on screen changed, each key that it swallows keeps it up
//! as long again, and keys that come in a burst raise it.
//!
//! It does not know what keys mean, and has no clock: times are handed in.
//!
//! Invariants: no key counts that came before its ask was drawn; of a burst only the first key counts, and what that key has armed
//! is disarmed by whoever asks [`Guard::take`].

use std::time::Duration;

use crate::clock::Moment;

/// How long keys are dead after the ask on screen has changed.
pub const DEAD_TIME: Duration = Duration::from_millis(400);

/// Keys closer together than this were not pressed by a person.
const BURST: Duration = Duration::from_millis(40);

/// Tells keys that are meant from keys that are not.
#[derive(Debug, Default)]
pub(super) struct Guard {
    state: Up,
    last_key: Option<Moment>,
}

#[derive(Debug, Clone, Copy, Default)]
enum Up {
    /// Keys count.
    #[default]
    No,
    /// Until what changed has been drawn.
    UntilDrawn,
    /// Until then.
    Until(Moment),
}

/// What a key is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(super) enum Meant {
    /// The person means it.
    Yes,
    /// It came too soon for an answer.
    TooSoon,
    /// It came with others, faster than anybody presses keys: what those before it have begun is not meant either.
    Burst,
}

impl Guard {
    /// What is on screen changes with the next frame.
    pub(super) fn raise(&mut self) {
        self.state = Up::UntilDrawn;
    }

    /// The frame is on the screen.
    pub(super) fn drawn(&mut self, now: Moment) {
        self.state = match self.state {
            Up::UntilDrawn => Up::Until(now.after(DEAD_TIME)),
            Up::Until(until) if now >= until => Up::No,
            as_before @ (Up::No | Up::Until(_)) => as_before,
        };
    }

    /// A key went into a line that is being written.
    pub(super) fn typed(&mut self, now: Moment) {
        self.last_key = Some(now);
    }

    /// Keys that are not keys, such as a paste, have come.
    pub(super) fn disturbed(&mut self, now: Moment) {
        self.last_key = Some(now);
        if !matches!(self.state, Up::UntilDrawn) {
            self.state = Up::Until(now.after(DEAD_TIME));
        }
    }

    /// Takes a key.
    pub(super) fn take(&mut self, now: Moment) -> Meant {
        let burst = self.last_key.is_some_and(|last| now.since(last) < BURST);
        self.last_key = Some(now);
        let dead = match self.state {
            Up::No => false,
            Up::UntilDrawn => return Meant::TooSoon,
            Up::Until(until) => now < until,
        };
        if dead || burst {
            self.state = Up::Until(now.after(DEAD_TIME));
            return if burst { Meant::Burst } else { Meant::TooSoon };
        }
        self.state = Up::No;
        Meant::Yes
    }

    /// Whether a key would be swallowed now.
    pub(super) fn is_up(&self, now: Moment) -> bool {
        match self.state {
            Up::No => false,
            Up::UntilDrawn => true,
            Up::Until(until) => now < until,
        }
    }

    /// When it falls by itself.
    pub(super) fn falls_at(&self) -> Option<Moment> {
        match self.state {
            Up::Until(until) => Some(until),
            Up::No | Up::UntilDrawn => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Moment {
        Moment::from_start(Duration::from_millis(ms))
    }

    #[test]
    fn keys_are_dead_from_the_first_draw_for_a_while() {
        let mut guard = Guard::default();
        guard.raise();
        assert_eq!(guard.take(at(5_000)), Meant::TooSoon);
        guard.drawn(at(6_000));
        assert!(guard.is_up(at(6_399)) && !guard.is_up(at(6_400)));
        assert_eq!(guard.falls_at(), Some(at(6_400)));
        assert_eq!(guard.take(at(6_400)), Meant::Yes);
        // Drawing the same thing again changes nothing.
        guard.drawn(at(6_500));
        assert_eq!(guard.take(at(6_600)), Meant::Yes);
    }

    #[test]
    fn keys_1_each_swallowed_key_keeps_the_guard_up() {
        let mut guard = Guard::default();
        guard.raise();
        guard.drawn(at(0));
        for ms in (0..2_000).step_by(390) {
            assert_eq!(guard.take(at(ms)), Meant::TooSoon, "{ms}");
        }
        assert_eq!(guard.take(at(1_950 + 400)), Meant::Yes);
    }

    #[test]
    fn of_a_burst_only_the_first_key_counts() {
        let mut guard = Guard::default();
        let taken: Vec<Meant> = (0..5).map(|ms| guard.take(at(1_000 + ms))).collect();
        assert_eq!(taken[0], Meant::Yes);
        assert!(taken[1..].iter().all(|meant| *meant == Meant::Burst));
        assert_eq!(guard.take(at(1_300)), Meant::TooSoon);
        assert_eq!(guard.take(at(1_800)), Meant::Yes);
        guard.disturbed(at(2_000));
        assert_eq!(guard.take(at(2_200)), Meant::TooSoon);
    }
}
