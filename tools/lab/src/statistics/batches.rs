//! How sure a mean is: by means of batches, because one slow call makes its neighbours slow.
//!
//! The variance of single calls would call a mean too sure whenever calls are not independent of each other.
//! Means of long enough batches of neighbours are nearly independent (Conway, "Some tactical problems in
//! digital simulation", 1963). Batches grow with the number of calls, so that nothing has to be known of it.

use serde::{Deserialize, Serialize};

use crate::explain::analysis::normal::student_95;

/// The most batches of one client: when they are full, neighbours are put together.
const BATCHES_MAX: usize = 32;

/// The fewest batches of which an interval is said.
const BATCHES_MIN: usize = 6;

/// Latencies in batches of calls that began one after the other.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Batches {
    /// The binary logarithm of the calls of a batch.
    shift: u32,
    sums: Vec<Batch>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Batch {
    calls: u64,
    nanos: u64,
}

impl Batches {
    /// Records the latency of the call that `ordinal` others of its client began before.
    #[inline]
    pub fn record(&mut self, ordinal: u64, nanos: u64) {
        let mut index = (ordinal >> self.shift) as usize;
        while index >= self.sums.len() {
            self.make_room();
            index = (ordinal >> self.shift) as usize;
        }
        let batch = &mut self.sums[index];
        batch.calls += 1;
        batch.nanos += nanos;
    }

    fn make_room(&mut self) {
        if self.sums.is_empty() {
            return self.sums.resize(BATCHES_MAX, Batch::default());
        }
        self.shift += 1;
        let both = |pair: &[Batch]| Batch {
            calls: pair.iter().map(|batch| batch.calls).sum(),
            nanos: pair.iter().map(|batch| batch.nanos).sum(),
        };
        self.sums = self.sums.chunks(2).map(both).collect();
        self.sums.resize(BATCHES_MAX, Batch::default());
    }

    /// These batches and those of another client or block, which were made apart.
    pub fn and(mut self, other: &Self) -> Self {
        self.sums.extend(other.sums.iter().filter(|batch| batch.calls > 0));
        self
    }

    /// How far the mean of all calls may be off, as a part of it, with 95 %; `None` with too few batches.
    pub fn relative_error(&self) -> Option<f64> {
        let batches: Vec<&Batch> = self.sums.iter().filter(|batch| batch.calls > 0).collect();
        let count = batches.len() as f64;
        if batches.len() < BATCHES_MIN {
            return None;
        }
        let calls: u64 = batches.iter().map(|batch| batch.calls).sum();
        let nanos: u64 = batches.iter().map(|batch| batch.nanos).sum();
        let mean = nanos as f64 / calls as f64;
        // Of a ratio of sums, because the last batch of a client is shorter than the others.
        let squares: f64 =
            batches.iter().map(|batch| (batch.nanos as f64 - mean * batch.calls as f64).powi(2)).sum();
        let error = (squares * count / (count - 1.0)).sqrt() / nanos as f64;
        Some(student_95(batches.len() - 1)? * error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farcall_base::Random;

    fn of(latencies: impl IntoIterator<Item = u64>) -> Batches {
        let mut batches = Batches::default();
        latencies.into_iter().enumerate().for_each(|(at, nanos)| batches.record(at as u64, nanos));
        batches
    }

    #[test]
    fn every_call_is_in_one_batch_however_many_there_are() {
        for calls in [1, 31, 32, 33, 1_000, 100_000] {
            let batches = of((0..calls).map(|_| 7));
            assert!(batches.sums.len() <= BATCHES_MAX);
            assert_eq!(batches.sums.iter().map(|batch| batch.calls).sum::<u64>(), calls);
            assert_eq!(batches.sums.iter().map(|batch| batch.nanos).sum::<u64>(), 7 * calls);
        }
    }

    #[test]
    fn calls_may_end_in_another_order_than_they_began() {
        let mut turned = Batches::default();
        (0..100).rev().for_each(|ordinal| turned.record(ordinal, ordinal));
        assert_eq!(turned, of(0..100));
    }

    #[test]
    fn few_batches_say_nothing_and_steady_ones_are_sure() {
        assert_eq!(of([100; 5]).relative_error(), None);
        assert_eq!(of([100; 5_000]).relative_error(), Some(0.0));
    }

    /// One call in a hundred is slow, as where packets are lost.
    #[test]
    fn the_interval_holds_the_mean_in_about_19_of_20_runs() {
        let mut random = Random::new(3);
        let (slow, fast) = (100_000, 1_000);
        let mean = 0.01 * slow as f64 + 0.99 * fast as f64;
        let holds = (0..400).filter(|_| {
            let latencies = (0..10_000).map(|_| if random.chance(0.01) { slow } else { fast });
            let latencies: Vec<u64> = latencies.collect();
            let found = latencies.iter().sum::<u64>() as f64 / latencies.len() as f64;
            let error = of(latencies).relative_error().expect("enough batches");
            (found / mean - 1.0).abs() <= error * found / mean
        });
        let holds = holds.count();
        assert!((365..=395).contains(&holds), "{holds} of 400");
    }
}
