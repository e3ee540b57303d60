//! When messages are due, whatever becomes of them: by a Poisson process, or as they were recorded.
//!
//! Times are computed from the seed alone. A client that comes late to a message does not shift the next
//! ones, and its lateness counts as the message's: otherwise a stall would hide the very messages that it
//! delays (coordinated omission).

use farcall::Instant;

use super::mix::{Draw, SizeClass};
use super::recorded::Replayed;
use farcall_base::Random;

/// A message that is due.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Arrival {
    /// When.
    pub(super) at: Instant,
    /// The number of its length's class.
    pub(super) class: usize,
    /// Which of the receivers it is for.
    pub(super) receiver: usize,
}

/// The messages of one client, one after the other.
#[derive(Clone, Debug)]
pub(super) enum Arrivals {
    Drawn(Drawn),
    Replayed(Replayed),
}

impl Arrivals {
    /// The next message.
    pub(super) fn next(&mut self) -> Arrival {
        match self {
            Self::Drawn(drawn) => drawn.next(),
            Self::Replayed(replayed) => replayed.next(),
        }
    }
}

/// The messages of a Poisson process.
#[derive(Clone, Debug)]
pub(super) struct Drawn {
    random: Random,
    draw: Draw,
    receivers: usize,
    mean_gap_nanos: f64,
    begun: Instant,
    /// Since then, to a fraction of a nanosecond, so that short gaps add up to the right rate.
    elapsed_nanos: f64,
}

impl Drawn {
    /// Messages from `begun` on, to receivers that are drawn evenly.
    pub(super) fn new(
        classes: &[SizeClass],
        receivers: usize,
        mean_gap_nanos: f64,
        seed: u64,
        begun: Instant,
    ) -> Self {
        let (random, draw) = (Random::new(seed), Draw::new(classes));
        Self { random, draw, receivers, mean_gap_nanos, begun, elapsed_nanos: 0.0 }
    }

    /// The next message.
    pub(super) fn next(&mut self) -> Arrival {
        self.elapsed_nanos += self.random.exponential(self.mean_gap_nanos);
        Arrival {
            at: Instant::from_nanos(self.begun.as_nanos() + self.elapsed_nanos as u64),
            class: self.draw.class(&mut self.random),
            receiver: self.random.index(self.receivers),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLASSES: [SizeClass; 2] = [
        SizeClass { bytes: 10, weight: 9_000, decile: 0 },
        SizeClass { bytes: 1_000, weight: 1_000, decile: 9 },
    ];

    fn arrivals(seed: u64) -> Drawn {
        Drawn::new(&CLASSES, 4, 250.5, seed, Instant::from_nanos(1_000_000))
    }

    #[test]
    fn gaps_are_exponential_with_the_mean_that_was_asked_for() {
        let mut arrivals = arrivals(5);
        let times: Vec<u64> = (0..40_000).map(|_| arrivals.next().at.as_nanos()).collect();
        let mean = (times[39_999] - 1_000_000) as f64 / 40_000.0;
        assert!((mean / 250.5 - 1.0).abs() < 0.02, "{mean}");
        let longer = times.windows(2).filter(|pair| pair[1] - pair[0] > 250).count() as f64 / 40_000.0;
        assert!((longer - (-1.0_f64).exp()).abs() < 0.01, "{longer} of the gaps are longer than the mean");
    }

    #[test]
    fn receivers_are_drawn_evenly_and_everything_follows_the_seed() {
        let (mut one, mut same, mut other) = (arrivals(5), arrivals(5), arrivals(6));
        let mut counts = [0; 4];
        let mut differ = false;
        for _ in 0..8_000 {
            let arrival = one.next();
            counts[arrival.receiver] += 1;
            assert_eq!(arrival, same.next());
            differ |= arrival != other.next();
        }
        assert!(differ && counts.iter().all(|count| (1_850..2_150).contains(count)), "{counts:?}");
    }
}
