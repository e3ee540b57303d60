//! How many messages of a kind are said: a few of each period. Knows no clock and no process.

use core::time::Duration;
use std::time::Instant;

/// The time for which messages of a kind are counted together.
pub const PERIOD: Duration = Duration::from_secs(10);
/// The messages of a kind that are said in a period.
pub const MESSAGES_OF_PERIOD: u32 = 5;

/// What becomes of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admitted {
    /// It is said; before it how many were left out of the period before, if nobody has said that.
    Said { left_out: Option<u64> },
    /// It is counted. Of the first of a period somebody is to say the number when it is over.
    LeftOut { is_first: bool },
}

/// The messages of a kind in the period that runs.
#[derive(Debug)]
pub struct Limiter {
    /// Whose messages: a forked child has those of its parent, which says their number itself.
    process: u32,
    begun: Option<Instant>,
    said: u32,
    left_out: u64,
}

impl Limiter {
    pub const fn new() -> Self {
        Self { process: 0, begun: None, said: 0, left_out: 0 }
    }

    /// A message of a process at `now`, which is not before the last one.
    pub fn admit(&mut self, process: u32, now: Instant) -> Admitted {
        if self.process != process {
            *self = Self { process, ..Self::new() };
        }
        let left_out = self.end(now);
        self.begun.get_or_insert(now);
        if self.said < MESSAGES_OF_PERIOD {
            self.said += 1;
            return Admitted::Said { left_out };
        }
        self.left_out += 1;
        Admitted::LeftOut { is_first: self.left_out == 1 }
    }

    /// Ends the period if it is over at `now`: how many were left out, if there were any.
    pub fn end(&mut self, now: Instant) -> Option<u64> {
        self.ends_at().filter(|&end| end <= now)?;
        let left_out = self.left_out;
        *self = Self { process: self.process, ..Self::new() };
        (left_out > 0).then_some(left_out)
    }

    /// Whether the period that runs has left something out.
    pub fn has_left_out(&self) -> bool {
        self.left_out > 0
    }

    /// When the period that runs is over.
    pub fn ends_at(&self) -> Option<Instant> {
        self.begun.map(|begun| begun + PERIOD)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn flood(limiter: &mut Limiter, at: Instant, messages: usize) -> (usize, usize, Vec<u64>) {
        let (mut said, mut reminders, mut numbers) = (0, 0, Vec::new());
        for _ in 0..messages {
            match limiter.admit(1, at) {
                Admitted::Said { left_out } => {
                    said += 1;
                    numbers.extend(left_out);
                }
                Admitted::LeftOut { is_first } => reminders += usize::from(is_first),
            }
        }
        (said, reminders, numbers)
    }

    #[test]
    fn a_flood_is_a_few_lines_and_one_number_a_period() {
        let (mut limiter, begin) = (Limiter::new(), Instant::now());
        assert_eq!(flood(&mut limiter, begin, 1000), (5, 1, vec![]));
        assert_eq!(flood(&mut limiter, begin + 9 * SECOND, 2000), (0, 0, vec![]));
        assert_eq!(limiter.end(begin + 9 * SECOND), None, "it is not over");
        assert_eq!(limiter.end(begin + PERIOD), Some(2995));
        assert_eq!(limiter.end(begin + 2 * PERIOD), None, "it was said");
        assert_eq!(flood(&mut limiter, begin + 2 * PERIOD, 6), (5, 1, vec![]));
    }

    #[test]
    fn a_message_after_a_period_that_nobody_ended_says_the_number_first() {
        let (mut limiter, begin) = (Limiter::new(), Instant::now());
        assert_eq!(flood(&mut limiter, begin, 8), (5, 1, vec![]));
        assert_eq!(flood(&mut limiter, begin + PERIOD, 1), (1, 0, vec![3]));
    }

    #[test]
    fn a_forked_child_says_its_own_messages_and_not_the_numbers_of_its_parent() {
        let (mut limiter, begin) = (Limiter::new(), Instant::now());
        assert_eq!(flood(&mut limiter, begin, 1000), (5, 1, vec![]));
        assert_eq!(limiter.admit(2, begin), Admitted::Said { left_out: None });
        assert!(!limiter.has_left_out());
        assert_eq!(limiter.end(begin + PERIOD), None, "the parent says it");
    }

    #[test]
    fn rare_messages_are_all_said_and_need_no_reminder() {
        let (mut limiter, begin) = (Limiter::new(), Instant::now());
        for second in 0..100 {
            assert_eq!(flood(&mut limiter, begin + 3 * SECOND * second, 1), (1, 0, vec![]));
        }
        assert_eq!(limiter.end(begin + 1000 * SECOND), None);
    }
}
