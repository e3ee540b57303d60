//! The readings of the clock that operations are counted from.
//!
//! The clock is read once for many operations. One that begins is told the number of the reading to come, from which the time that it
//! may take is counted: so it never ends early, even where its caller did something else for long before the next poll, and it keeps
//! two bytes and no deadline.

use farcall_base::Instant;

/// Readings that are told apart at a time.
const CYCLE: usize = 8192;

/// The reading that an operation is counted from, and whether it has a timeout of its own: in the upper half of a word, where it is
/// needed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Since(u32);

impl Since {
    /// None any more: the deadline was worked out.
    pub const SETTLED: Self = Self(0);

    const FIRST: Self = Self(1 << 16);

    const OWN_TIMEOUT: u32 = 1 << 31;

    /// The same for an operation with a timeout of its own.
    pub fn with_own_timeout(self) -> Self {
        Self(self.0 | Self::OWN_TIMEOUT)
    }

    pub fn has_own_timeout(self) -> bool {
        self.0 & Self::OWN_TIMEOUT != 0
    }

    fn place(self) -> usize {
        ((self.0 & !Self::OWN_TIMEOUT) >> 16) as usize
    }

    #[inline(always)]
    pub fn in_upper_half(self) -> u32 {
        self.0
    }

    pub fn of_upper_half(word: u32) -> Self {
        Self(word & 0xffff_0000)
    }
}

/// The readings of this cycle.
pub struct Readings {
    next: Since,
    last: Instant,
    cycle_began: Instant,
    /// By place: nanoseconds from the beginning of the cycle to that reading. The first is [`Since::SETTLED`], and not used.
    offsets: Box<[u32]>,
}

impl Readings {
    pub fn new(now: Instant) -> Self {
        Self { next: Since::FIRST, last: now, cycle_began: now, offsets: vec![0; CYCLE].into() }
    }

    /// What operations are counted from that begin now.
    #[inline(always)]
    pub fn next(&self) -> Since {
        self.next
    }

    /// The time of the last reading.
    #[inline]
    pub fn last(&self) -> Instant {
        self.last
    }

    /// When a reading was; of the one to come, when it is at the earliest.
    pub fn time_of(&self, since: Since) -> Instant {
        if since.place() == self.next.place() {
            return self.last;
        }
        let offset = u64::from(self.offsets[since.place()]);
        Instant::from_nanos(self.cycle_began.as_nanos().saturating_add(offset))
    }

    /// The clock was read, and no operation is counted from this reading.
    #[inline]
    pub fn passed_over(&mut self, now: Instant) {
        self.last = now;
    }

    /// The clock was read, and operations are counted from this reading. False where all of them have to be settled now, before
    /// [`Readings::begin_cycle`].
    #[inline]
    pub fn add(&mut self, now: Instant) -> bool {
        self.last = now;
        let place = self.next.place();
        let Ok(offset) = u32::try_from(now.since(self.cycle_began).as_nanos()) else { return false };
        self.offsets[place] = offset;
        if place == CYCLE - 1 {
            return false;
        }
        self.next.0 += Since::FIRST.0;
        true
    }

    /// No operation is counted from any reading.
    pub fn begin_cycle(&mut self) {
        (self.next, self.cycle_began) = (Since::FIRST, self.last);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }

    /// Operations beside what they should be counted from: the reading behind their beginning.
    #[test]
    fn an_operation_is_counted_from_the_first_reading_behind_its_beginning() {
        let mut now = 77;
        let mut readings = Readings::new(at(now));
        let mut cycles = 0;
        let mut operations: Vec<(Since, Instant)> = Vec::new();
        for round in 0..200_000_u64 {
            // Mostly short, sometimes long, and at times longer than a cycle can be.
            now += match round {
                _ if round % 50_021 == 50_020 => 5_000_000_000,
                _ if round % 77 == 0 => 5000 + round % 300_000,
                _ => round % 13,
            };
            if round % 5 == 0 {
                readings.passed_over(at(now));
                continue;
            }
            let since = readings.next();
            assert!(readings.time_of(since) <= at(now), "at the earliest");
            operations.push((since, at(now)));
            if !readings.add(at(now)) {
                for (since, expected) in operations.drain(..) {
                    assert_eq!(readings.time_of(since), expected, "round {round}, at the end of a cycle");
                }
                readings.begin_cycle();
                cycles += 1;
            }
            for &(since, expected) in operations.iter().rev().take(3) {
                assert_eq!(readings.time_of(since), expected, "round {round}");
                assert_eq!(readings.time_of(since.with_own_timeout()), expected, "round {round}");
                assert!(since != Since::SETTLED && !since.has_own_timeout());
            }
        }
        assert!(cycles >= 200_000 / 5 * 4 / CYCLE, "{cycles}");
    }
}
