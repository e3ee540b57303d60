//! Simulated time in whole picoseconds, and rates as the time that one byte takes.
//!
//! A byte takes 20 ps on a link of 400 Gb/s, so nanoseconds would be too coarse; integers add up to the same
//! sum on every machine and in every order, which floating-point numbers do not.

use core::ops::{Add, AddAssign, Sub};
use core::time::Duration;

use farcall_base::Instant;

const PICOS_PER_NANO: u64 = 1000;

/// A point of simulated time, or a span of it, in picoseconds. The whole range is 213 days.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Picos(pub u64);

impl Picos {
    /// The beginning, or no time at all.
    pub const ZERO: Self = Self(0);
    /// Later than everything that happens.
    pub const NEVER: Self = Self(u64::MAX);

    /// A span of nanoseconds, to the picosecond.
    ///
    /// Negative and absurdly long ones are cut to the range.
    pub fn from_nanos_f64(nanos: f64) -> Self {
        Self((nanos * PICOS_PER_NANO as f64).round() as u64)
    }

    /// What a clock shows at this time: whole nanoseconds.
    pub const fn as_nanos(self) -> u64 {
        self.0 / PICOS_PER_NANO
    }

    /// As a point on the hosts' clocks.
    pub const fn instant(self) -> Instant {
        Instant::from_nanos(self.as_nanos())
    }

    /// The span as a number of seconds, for reports.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e12
    }

    /// This span `factor` times.
    pub const fn times(self, factor: u64) -> Self {
        Self(self.0.saturating_mul(factor))
    }

    /// The later of the two.
    pub fn max(self, other: Self) -> Self {
        Ord::max(self, other)
    }
}

/// The first picosecond at which a clock shows `instant`; [`Instant::NEVER`] is [`Picos::NEVER`].
impl From<Instant> for Picos {
    fn from(instant: Instant) -> Self {
        Self(instant.as_nanos().saturating_mul(PICOS_PER_NANO))
    }
}

impl From<Duration> for Picos {
    fn from(duration: Duration) -> Self {
        let picos = duration.as_nanos().saturating_mul(u128::from(PICOS_PER_NANO));
        Self(u64::try_from(picos).unwrap_or(u64::MAX))
    }
}

/// Saturates, so that what never happens stays there.
impl Add for Picos {
    type Output = Self;

    fn add(self, span: Self) -> Self {
        Self(self.0.saturating_add(span.0))
    }
}

impl AddAssign for Picos {
    fn add_assign(&mut self, span: Self) {
        *self = *self + span;
    }
}

/// Zero when the other is later.
impl Sub for Picos {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        Self(self.0.saturating_sub(earlier.0))
    }
}

/// The time that one byte takes, with 16 bits of fraction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PerByte {
    picos_q16: u64,
}

impl PerByte {
    /// No time.
    pub const FREE: Self = Self { picos_q16: 0 };

    /// That of a rate in gigabits (10^9) per second, which must be positive.
    pub fn at_gbps(gbps: f64) -> Self {
        Self { picos_q16: (8_000.0 * 65_536.0 / gbps).round() as u64 }
    }

    /// That of a cost in nanoseconds for each byte.
    pub fn of_nanos(nanos: f64) -> Self {
        Self { picos_q16: (nanos * 1_000.0 * 65_536.0).round() as u64 }
    }

    /// The rate, in bits per second; of no time at all the greatest number.
    pub const fn bits_per_second(self) -> u64 {
        const BIT_PICOS_Q16: u128 = 8_000_000_000_000 << 16;
        match self.picos_q16 {
            0 => u64::MAX,
            picos_q16 => (BIT_PICOS_Q16 / picos_q16 as u128) as u64,
        }
    }

    /// How long `bytes` bytes take, rounded down.
    #[inline]
    pub const fn time(self, bytes: usize) -> Picos {
        Picos(((bytes as u128 * self.picos_q16 as u128) >> 16) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_those_of_the_wire() {
        assert_eq!(PerByte::at_gbps(100.0).time(1250), Picos(100_000));
        assert_eq!(PerByte::at_gbps(400.0).time(1), Picos(20));
        let odd = PerByte::at_gbps(27.2).time(1_000_000).0 as f64;
        assert!((odd / (8e9 / 27.2) - 1.0).abs() < 1e-6, "{odd}");
        assert_eq!(PerByte::of_nanos(0.25).time(4000), Picos(1_000_000));
        assert_eq!(PerByte::FREE.time(1 << 40), Picos::ZERO);
        assert_eq!(PerByte::at_gbps(100.0).bits_per_second(), 100_000_000_000);
        assert_eq!(PerByte::FREE.bits_per_second(), u64::MAX);
    }

    #[test]
    fn clocks_show_whole_nanoseconds() {
        assert_eq!(Picos(1_999).instant(), Instant::from_nanos(1));
        assert_eq!(Picos::from(Instant::from_nanos(7)).instant(), Instant::from_nanos(7));
        assert_eq!(Picos::from(Instant::NEVER), Picos::NEVER);
        assert_eq!(Picos::from(Duration::from_micros(2)), Picos(2_000_000));
    }

    #[test]
    fn sums_do_not_wrap() {
        assert_eq!(Picos::NEVER + Picos(1), Picos::NEVER);
        assert_eq!(Picos(3) - Picos(5), Picos::ZERO);
    }
}
