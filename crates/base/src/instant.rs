//! Points in time, as nanoseconds in a newtype.
//!
//! The protocols receive every time as an argument. On a real machine it comes from a calibrated cycle
//! counter, in a simulation from the event queue; neither is visible from here.

use core::ops::{Add, AddAssign, Sub};
use core::time::Duration;

/// A point on a monotonic clock, in nanoseconds since an origin that the clock chose.
///
/// Instants of one clock can be compared and subtracted; nothing else about the origin is promised.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(u64);

impl Instant {
    /// The clock's origin.
    pub const ZERO: Self = Self(0);
    /// Later than every time that a clock can show: "no deadline".
    pub const NEVER: Self = Self(u64::MAX);

    /// The point `nanos` nanoseconds after the origin.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the origin.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// The time from `earlier` to `self`; zero when `earlier` is in fact later.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// Saturates at [`Instant::NEVER`], so that an endless time-out stays endless.
impl Add<Duration> for Instant {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        Self(self.0.saturating_add(nanos))
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, duration: Duration) {
        *self = *self + duration;
    }
}

impl Sub for Instant {
    type Output = Duration;

    fn sub(self, earlier: Self) -> Duration {
        self.since(earlier)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endless_timeout_stays_endless() {
        assert_eq!(Instant::from_nanos(5) + Duration::MAX, Instant::NEVER);
        assert_eq!(Instant::NEVER + Duration::from_nanos(1), Instant::NEVER);
    }

    #[test]
    fn the_span_to_a_later_time_is_zero() {
        assert_eq!(Instant::from_nanos(5) - Instant::from_nanos(9), Duration::ZERO);
        assert_eq!(Instant::from_nanos(9) - Instant::from_nanos(5), Duration::from_nanos(4));
    }
}
