//! When the clock is read.
//!
//! A reading takes as long as two polls that find nothing, and delays what comes meanwhile. A poll that finds
//! something may take much longer, so that the clock must not be left alone for as many of those.

/// How many polls that find nothing count as one that finds something.
const IDLE_POLLS: i32 = 16;

/// Counts polls, from one reading to the next and in all.
pub struct ClockPace {
    /// In polls that find nothing; 0 where each poll has a reading of its own.
    per_reading: i32,
    left: i32,
    polls: u64,
    /// As of the last reading.
    shown: Polls,
    /// What was left then.
    left_then: i32,
}

/// How many polls there were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Polls {
    pub all: u64,
    /// Those that found something.
    pub busy: u64,
}

impl ClockPace {
    /// A reading for each N polls that find something, the first of which is due at once.
    pub fn new(polls_per_reading: u32) -> Self {
        let per_reading = match i32::try_from(polls_per_reading) {
            Ok(1) => 0,
            Ok(polls) => polls.saturating_mul(IDLE_POLLS),
            Err(_) => i32::MAX,
        };
        Self { per_reading, left: 0, polls: 0, shown: Polls::default(), left_then: 0 }
    }

    /// Whether the clock is to be read before the next poll.
    #[inline]
    pub fn is_due(&self) -> bool {
        self.left <= 0
    }

    /// The clock is to be read before the next poll, however few there were.
    pub fn read_next(&mut self) {
        self.begin(0);
    }

    /// The clock was read. Says how many polls there were.
    #[inline]
    pub fn was_read(&mut self) -> Polls {
        self.begin(self.per_reading);
        self.shown
    }

    /// How many found something can be seen from how much they took, so that nothing counts them one by one.
    #[inline]
    fn begin(&mut self, left: i32) {
        let (polls, taken) = (self.polls - self.shown.all, i64::from(self.left_then) - i64::from(self.left));
        let busy = (taken as u64 - polls) / (IDLE_POLLS as u64 - 1);
        self.shown = Polls { all: self.polls, busy: self.shown.busy + busy };
        (self.left, self.left_then) = (left, left);
    }

    /// There was a poll.
    #[inline]
    pub fn polled(&mut self, is_busy: bool) {
        self.left -= if is_busy { IDLE_POLLS } else { 1 };
        self.polls += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many polls pass between two readings.
    fn polls_between(pace: &mut ClockPace, mut is_busy: impl FnMut(u64) -> bool) -> u64 {
        assert!(pace.is_due(), "the last reading was followed by enough");
        pace.was_read();
        for polls in 0.. {
            pace.polled(is_busy(polls));
            if pace.is_due() {
                return polls + 1;
            }
        }
        unreachable!("that would take for ever")
    }

    #[test]
    fn polls_that_find_nothing_count_a_sixteenth() {
        let mut pace = ClockPace::new(16);
        assert_eq!(polls_between(&mut pace, |_| true), 16);
        assert_eq!(polls_between(&mut pace, |_| false), 256);
        assert_eq!(polls_between(&mut pace, |poll| poll % 2 == 0), 31);
        pace.was_read();
        pace.polled(false);
        assert!(!pace.is_due());
        pace.read_next();
        assert!(pace.is_due(), "who is about to wait looks at once");
    }

    #[test]
    fn where_each_poll_needs_the_time_each_has_it() {
        let mut pace = ClockPace::new(1);
        for is_busy in [true, false, false] {
            assert_eq!(polls_between(&mut pace, |_| is_busy), 1);
        }
        assert_eq!(pace.was_read(), Polls { all: 3, busy: 1 });
    }

    #[test]
    fn all_polls_are_counted_and_those_that_found_something() {
        let mut pace = ClockPace::new(16);
        let mut expected = Polls::default();
        for poll in 0..10_000_u64 {
            if pace.is_due() {
                assert_eq!(pace.was_read(), expected, "before poll {poll}");
            }
            let is_busy = poll % 7 == 0 || poll % 1000 > 900;
            pace.polled(is_busy);
            expected.all += 1;
            expected.busy += u64::from(is_busy);
            if poll % 321 == 0 {
                pace.read_next();
            }
        }
        assert_eq!(pace.was_read(), expected);
    }
}
