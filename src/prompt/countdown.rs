//! How long the one who asked will still wait, by its own word: shown while a person reads.
//!
//! It ends nothing. Who waits gives up by its own clock, and the serving session takes the question away when it has.

use std::time::Duration;

use crate::clock::Moment;

/// From when on seconds are told.
const SECONDS_BELOW: Duration = Duration::from_mins(2);

/// A time that runs out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Countdown {
    until: Moment,
}

impl Countdown {
    /// One that ends `left` from now.
    pub(super) fn new(now: Moment, left: Duration) -> Self {
        Self {
            until: now.after(left),
        }
    }

    /// What is left, in words: the child waits so long and no longer.
    pub(super) fn words(self, now: Moment) -> String {
        format!("it waits {}", span(self.until.since(now)))
    }

    /// When the words change.
    pub(super) fn changes_at(self, now: Moment) -> Option<Moment> {
        let left = self.until.since(now);
        if left.is_zero() {
            return None;
        }
        let unit = if left > SECONDS_BELOW {
            Duration::from_mins(1)
        } else {
            Duration::from_secs(1)
        };
        let over = left.as_nanos() % unit.as_nanos();
        // A whole unit is told until it is broken.
        let over = Duration::from_nanos(u64::try_from(over).unwrap_or(0));
        Some(now.after(over + Duration::from_nanos(1)))
    }
}

/// A time in words, rounded down: `2h 05m`, `9m`, `45s`.
pub(super) fn span(time: Duration) -> String {
    let seconds = time.as_secs();
    let (hours, minutes) = (seconds / 3_600, seconds / 60 % 60);
    if hours > 0 {
        format!("{hours}h {minutes:02}m")
    } else if time > SECONDS_BELOW {
        format!("{minutes}m")
    } else {
        format!("{seconds}s")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(ms: u64) -> Moment {
        Moment::from_start(Duration::from_millis(ms))
    }

    #[test]
    fn a_time_is_told_as_exactly_as_it_is_short() {
        let told = |seconds| Countdown::new(at(0), Duration::from_secs(seconds)).words(at(0));
        assert_eq!(told(7_530), "it waits 2h 05m");
        assert_eq!(told(600), "it waits 10m");
        assert_eq!(told(121), "it waits 2m");
        assert_eq!(told(120), "it waits 120s");
        assert_eq!(told(1), "it waits 1s");
        assert_eq!(told(0), "it waits 0s");
    }

    proptest! {
        /// Whoever draws again when it says so never shows what is not true any more, and rests in between.
        #[test]
        fn the_words_change_when_it_says(left in 0_u64..20_000_000, later in 0_u64..20_000_000) {
            let countdown = Countdown::new(at(0), Duration::from_millis(left));
            let now = at(later.min(left));
            match countdown.changes_at(now) {
                None => prop_assert_eq!(now, at(left)),
                Some(next) => {
                    prop_assert!(next > now);
                    prop_assert!(next.since(now) <= Duration::from_mins(1) + Duration::from_nanos(1));
                    let before = Moment::from_start(next.since_start().saturating_sub(Duration::from_nanos(2)));
                    if before >= now && now < before {
                        prop_assert_eq!(countdown.words(before), countdown.words(now));
                    }
                }
            }
        }
    }
}
