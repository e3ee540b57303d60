//! The readings of the clock that deadlines were computed from, and how late each of them was.
//!
//! The clock is read once for many operations, and an operation is given its deadline from the last reading, which may be long ago
//! where a caller does something else between two polls. The next reading says how long. That is kept here, by reading, and added when
//! a deadline is looked at: an operation costs no more than the number of its reading.

use farcall_protocol::Instant;

/// Readings that are told apart at a time.
const CYCLE: usize = 256;

/// A shorter gap between two readings is none.
const SLACK_NANOS: u64 = 1000;

/// The number of a reading: a cycle in the upper half, its place there in the lower.
type Number = u16;

/// The last readings.
pub struct Readings {
    current: Number,
    /// By place in the cycle: nanoseconds from that reading to the next, or 0.
    gaps: [u64; CYCLE],
    any_gap: bool,
}

impl Default for Readings {
    fn default() -> Self {
        Self { current: CYCLE as Number, gaps: [0; CYCLE], any_gap: false }
    }
}

impl Readings {
    /// The number of no reading, for deadlines that are settled: cycles begin with 1.
    pub const SETTLED: Number = 0;

    /// The number for operations that begin now.
    #[inline(always)]
    pub fn current(&self) -> Number {
        self.current
    }

    /// A deadline that was computed from a reading, as it would be had the clock been read when the next reading was due.
    #[inline]
    pub fn settled(&self, deadline: Instant, reading: Number) -> Instant {
        let gap = if cycle(reading) == cycle(self.current) { self.gaps[place(reading)] } else { 0 };
        Instant::from_nanos(deadline.as_nanos().saturating_add(gap))
    }

    /// The clock was read, `last` before and `now` this time, and operations were added between. True where all deadlines have to be
    /// settled now, before [`Readings::begin_cycle`].
    pub fn next(&mut self, last: Instant, now: Instant) -> bool {
        let gap = now.as_nanos().saturating_sub(last.as_nanos());
        if gap > SLACK_NANOS {
            self.gaps[place(self.current)] = gap;
            self.any_gap = true;
        }
        if place(self.current) < CYCLE - 1 {
            self.current += 1;
            return false;
        }
        if self.any_gap || self.current == Number::MAX {
            return true;
        }
        self.current += 1;
        false
    }

    /// All deadlines are settled, and those of all operations have [`Readings::SETTLED`].
    pub fn begin_cycle(&mut self) {
        self.gaps.fill(0);
        self.any_gap = false;
        self.current = self.current.checked_add(1).unwrap_or(CYCLE as Number);
    }
}

fn cycle(reading: Number) -> usize {
    usize::from(reading) / CYCLE
}

fn place(reading: Number) -> usize {
    usize::from(reading) % CYCLE
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }

    /// Deadlines that are computed from a clock which is read seldom, beside those from one that is always right.
    #[test]
    fn no_deadline_is_earlier_than_its_operation_asked_for() {
        let mut readings = Readings::default();
        let mut now = 0;
        // When each operation began, its deadline, its reading, and the gap that the next reading showed.
        let mut operations: Vec<(u64, Instant, Number)> = Vec::new();
        for round in 0..200_000_u64 {
            // Mostly short, sometimes long, and long for a whole time.
            let gap = if round % 1000 < 20 || round % 77 == 0 { 5000 + round % 300_000 } else { 10 };
            operations.push((now + gap, at(now + 1_000_000), readings.current()));
            if readings.next(at(now), at(now + gap)) {
                for (_, deadline, reading) in &mut operations {
                    (*deadline, *reading) = (readings.settled(*deadline, *reading), Readings::SETTLED);
                }
                readings.begin_cycle();
            }
            now += gap;
            if round % 100 == 0 {
                // Some stay long.
                let keep = |begun: &u64| now - begun < 2_000_000 || begun.is_multiple_of(1024);
                operations.retain(|(begun, ..)| keep(begun));
            }
            for &(begun, deadline, reading) in operations.iter().rev().take(3) {
                let exact = begun + 1_000_000;
                let settled = readings.settled(deadline, reading).as_nanos();
                assert!(
                    (exact - SLACK_NANOS..=exact).contains(&settled),
                    "round {round}: {settled} for {exact}"
                );
            }
        }
        for (begun, deadline, reading) in operations {
            let exact = begun + 1_000_000;
            let settled = readings.settled(deadline, reading).as_nanos();
            assert!((exact - SLACK_NANOS..=exact).contains(&settled), "{settled} for {exact} at the end");
        }
    }
}
