//! The two clocks: a wall clock that is only shown, and a monotonic one that every wait runs on.
//!
//! No other module asks for the time. What has to be decided from time takes a [`Moment`] as a value, so that a test or a
//! simulation can hand in any.

#![expect(
    clippy::disallowed_methods,
    reason = "this is the module that may ask for the time"
)]

use std::sync::LazyLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A point on this process's monotonic clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Moment(Duration);

impl Moment {
    /// The point this long after the start of the clock.
    pub const fn from_start(since: Duration) -> Self {
        Self(since)
    }

    /// How long after the start of the clock this is.
    pub const fn since_start(self) -> Duration {
        self.0
    }

    /// How long ago `earlier` was; zero if it lies ahead.
    pub fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }

    /// The next point whose distance from the start of the clock is a multiple of `step`. Whoever waits for such points wakes
    /// together with all others in the process that do.
    #[must_use]
    pub fn next_multiple(self, step: Duration) -> Self {
        let step = step.as_nanos().max(1);
        let next = (self.0.as_nanos() / step)
            .saturating_add(1)
            .saturating_mul(step);
        Self(Duration::from_nanos(
            u64::try_from(next).unwrap_or(u64::MAX),
        ))
    }

    /// The point `wait` later.
    #[must_use]
    pub fn after(self, wait: Duration) -> Self {
        Self(self.0.saturating_add(wait))
    }
}

static START: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Now, on the monotonic clock.
pub fn now() -> Moment {
    Moment(START.elapsed())
}

/// The instant of the standard library at which `moment` is.
pub fn instant(moment: Moment) -> Instant {
    *START + moment.0
}

/// How long the machine has slept since it was started. The monotonic clock stands still meanwhile; where there is no other that goes
/// on, this is nothing.
pub(crate) fn slept() -> Duration {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    {
        use rustix::time::{ClockId, Timespec, clock_gettime};
        let of = |time: Timespec| {
            let seconds = Duration::from_secs(u64::try_from(time.tv_sec).unwrap_or(0));
            seconds.saturating_add(Duration::from_nanos(
                u64::try_from(time.tv_nsec).unwrap_or(0),
            ))
        };
        // In this order no time that passes in between counts as slept.
        let all = of(clock_gettime(ClockId::Boottime));
        all.saturating_sub(of(clock_gettime(ClockId::Monotonic)))
    }
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    Duration::ZERO
}

/// Now, in epoch milliseconds of the wall clock.
pub fn wall_ms() -> i64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// Now, in epoch nanoseconds of the wall clock, the unit of file times.
pub(crate) fn wall_ns() -> i128 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    i128::try_from(since.as_nanos()).unwrap_or(i128::MAX)
}
