//! The clock: on a real fabric the processor's cycle counter, calibrated once against the system's monotonic
//! clock; on a simulated one the host's own time.
//!
//! A system call or vDSO read of the clock costs a good part of a shared-memory round trip; a cycle counter
//! read costs about ten nanoseconds. Times are those of `CLOCK_MONOTONIC`, so that processes of one machine
//! agree about them. To be either kind of clock costs the real one a branch that always goes the same way.

use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use farcall_base::Instant;
use rustix::time::{ClockId, clock_gettime};

/// How long the calibration watches both clocks. The error of the rate is the reading error over this.
const CALIBRATION_NANOS: u64 = 5_000_000;

/// Readings from which the steps of the counter are told. Where it moves by one, a few dozen have no other
/// divisor.
const STEP_READINGS: usize = 1000;

/// `nanos = origin_nanos + (cycles - origin_cycles) * nanos_per_cycle_q32 >> 32`.
#[derive(Clone, Copy, Debug)]
struct Scale {
    origin_cycles: u64,
    origin_nanos: u64,
    nanos_per_cycle_q32: u64,
}

/// A handle to a clock: cheap to clone and to read, never goes back on one core.
#[derive(Clone, Debug)]
pub struct Clock {
    source: Source,
}

#[derive(Clone, Debug)]
enum Source {
    Cycles(Scale),
    Simulated(Arc<AtomicU64>),
}

impl Clock {
    /// The process's clock; the first call takes about 5 ms to calibrate.
    pub fn new() -> Self {
        static SCALE: OnceLock<Scale> = OnceLock::new();
        Self { source: Source::Cycles(*SCALE.get_or_init(calibrate)) }
    }

    /// A clock that shows what somebody else writes into `nanos`.
    pub fn simulated(nanos: Arc<AtomicU64>) -> Self {
        Self { source: Source::Simulated(nanos) }
    }

    /// The time now as the counter behind the clock shows it: the fastest way to note a time that is read
    /// later. On one machine all processes see the same counter, so that notes of several processes compare
    /// to the tick.
    #[inline]
    pub fn ticks(&self) -> u64 {
        match &self.source {
            Source::Cycles(_) => read_cycles(),
            Source::Simulated(nanos) => nanos.load(Ordering::Relaxed),
        }
    }

    /// As [`Clock::ticks`], and not before the loads that come before it: a processor that guesses what a
    /// load will bring reads its counter while it still waits.
    #[inline]
    pub fn ticks_after_loads(&self) -> u64 {
        #[cfg(target_arch = "x86_64")]
        #[expect(unsafe_code, reason = "the fence is an intrinsic")]
        // SAFETY: every x86-64 processor has the instruction; it only waits.
        unsafe {
            core::arch::x86_64::_mm_lfence();
        }
        self.ticks()
    }

    /// Whether it shows what somebody else writes.
    #[inline]
    pub fn is_simulated(&self) -> bool {
        matches!(self.source, Source::Simulated(_))
    }

    /// The time of a tick of this machine, or of this simulated host.
    pub fn time_of(&self, ticks: u64) -> Instant {
        match &self.source {
            Source::Cycles(scale) => scale.time_of(ticks),
            Source::Simulated(_) => Instant::from_nanos(ticks),
        }
    }

    /// The steps in which the counter behind the clock moves, in nanoseconds. On some processors they are
    /// some ten nanoseconds, and every time between two readings is a multiple of them.
    pub fn step_nanos(&self) -> f64 {
        match &self.source {
            Source::Cycles(scale) => {
                static STEP_CYCLES: OnceLock<u64> = OnceLock::new();
                let readings = || step_of((0..STEP_READINGS).map(|_| read_cycles()));
                *STEP_CYCLES.get_or_init(readings) as f64 * scale.nanos_per_cycle()
            }
            Source::Simulated(_) => 1.0,
        }
    }

    /// The time now.
    #[inline]
    pub fn now(&self) -> Instant {
        match &self.source {
            Source::Cycles(scale) => scale.now(),
            // Whoever simulates runs on the reader's thread, or hands it over with more than this word.
            Source::Simulated(nanos) => Instant::from_nanos(nanos.load(Ordering::Relaxed)),
        }
    }
}

impl Scale {
    #[inline]
    fn now(&self) -> Instant {
        let cycles = read_cycles().wrapping_sub(self.origin_cycles);
        let nanos = (u128::from(cycles) * u128::from(self.nanos_per_cycle_q32)) >> 32;
        Instant::from_nanos(self.origin_nanos.wrapping_add(nanos as u64))
    }

    fn nanos_per_cycle(&self) -> f64 {
        self.nanos_per_cycle_q32 as f64 / (1_u64 << 32) as f64
    }

    /// Also of ticks before the calibration: another process may be older.
    fn time_of(&self, cycles: u64) -> Instant {
        let since = i128::from(cycles) - i128::from(self.origin_cycles);
        let nanos = (since * i128::from(self.nanos_per_cycle_q32)) >> 32;
        Instant::from_nanos((i128::from(self.origin_nanos) + nanos).max(0) as u64)
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::new()
    }
}

fn monotonic_nanos() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Reads both clocks as close together as one of several tries manages.
fn read_both() -> (u64, u64) {
    (0..8)
        .map(|_| {
            let before = read_cycles();
            let nanos = monotonic_nanos();
            let after = read_cycles();
            (after - before, before + (after - before) / 2, nanos)
        })
        .min()
        .map(|(_, cycles, nanos)| (cycles, nanos))
        .expect("there were eight tries")
}

fn calibrate() -> Scale {
    let (origin_cycles, origin_nanos) = read_both();
    while monotonic_nanos() - origin_nanos < CALIBRATION_NANOS {
        core::hint::spin_loop();
    }
    let (cycles, nanos) = read_both();
    let ratio = (u128::from(nanos - origin_nanos) << 32) / u128::from(cycles - origin_cycles);
    Scale { origin_cycles, origin_nanos, nanos_per_cycle_q32: ratio as u64 }
}

/// The greatest common divisor of what lies between readings. Where one is earlier than the one before, the
/// thread has moved to another core in between, and that says nothing.
fn step_of(readings: impl Iterator<Item = u64>) -> u64 {
    let divisor = |mut a: u64, mut b: u64| {
        while b > 0 {
            (a, b) = (b, a % b);
        }
        a
    };
    let mut last = None;
    let between =
        readings.map(|reading| last.replace(reading).map_or(0, |last| reading.saturating_sub(last)));
    between.fold(0, divisor).max(1)
}

/// The counter behind clocks that are not simulated, when everything stored before can be seen by other
/// cores. For comparing how long stores take.
#[inline]
pub fn cycles_after_stores() -> u64 {
    #[cfg(target_arch = "x86_64")]
    #[expect(unsafe_code, reason = "the fences are intrinsics")]
    // SAFETY: every x86-64 processor has the instructions; they only wait, the second for the first.
    unsafe {
        core::arch::x86_64::_mm_mfence();
        core::arch::x86_64::_mm_lfence();
    }
    read_cycles()
}

/// The counter behind clocks that are not simulated, as it is now.
#[cfg(target_arch = "x86_64")]
#[inline]
#[expect(unsafe_code, reason = "the cycle counter has no safe intrinsic")]
pub fn read_cycles() -> u64 {
    // SAFETY: every x86-64 processor has the instruction; it only reads a counter.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// The counter behind clocks that are not simulated, as it is now.
#[cfg(not(target_arch = "x86_64"))]
#[inline]
pub fn read_cycles() -> u64 {
    monotonic_nanos()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_simulated_clock_shows_what_is_written() {
        let nanos = Arc::new(AtomicU64::new(5));
        let clock = Clock::simulated(nanos.clone());
        let copy = clock.clone();
        assert_eq!(clock.now(), Instant::from_nanos(5));
        nanos.store(9, Ordering::Relaxed);
        assert_eq!((clock.now(), copy.now()), (Instant::from_nanos(9), Instant::from_nanos(9)));
    }

    #[test]
    fn a_step_is_what_readings_have_in_common() {
        assert_eq!(step_of([100, 126, 178, 178, 256].into_iter()), 26);
        assert_eq!(step_of([100, 126, 131, 178].into_iter()), 1);
        assert_eq!(step_of([100, 120, 107, 127].into_iter()), 20, "the counter of another core was behind");
        assert_eq!((step_of([7, 7].into_iter()), step_of([].into_iter())), (1, 1));
        let nanos = Clock::new().step_nanos();
        assert!(nanos > 0.0 && nanos < 1000.0, "{nanos}");
        assert_eq!(Clock::simulated(Arc::default()).step_nanos(), 1.0);
    }

    #[test]
    fn ticks_are_times_also_before_the_calibration() {
        let clock = Clock::new();
        let (before, ticks, after) = (clock.now(), clock.ticks(), clock.now());
        assert!((before..=after).contains(&clock.time_of(ticks)));
        assert!(clock.time_of(ticks - (1 << 20)) < before);
        let simulated = Clock::simulated(Arc::new(AtomicU64::new(7)));
        assert_eq!(simulated.time_of(simulated.ticks()), Instant::from_nanos(7));
    }

    #[test]
    fn the_clock_agrees_with_the_system_and_does_not_go_back() {
        let clock = Clock::new();
        let mut last = clock.now();
        for _ in 0..10_000 {
            let before = monotonic_nanos();
            let now = clock.now();
            let after = monotonic_nanos();
            assert!(now >= last, "went back from {last:?} to {now:?}");
            let slack_nanos = 1_000_000;
            assert!(now.as_nanos() + slack_nanos >= before && now.as_nanos() <= after + slack_nanos);
            last = now;
        }
    }
}
