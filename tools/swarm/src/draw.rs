//! Drawing from a seed.
//!
//! Each part of a scenario draws from a sequence of its own, so that a change to how one part is drawn leaves
//! the others as they were.

use core::time::Duration;

use farcall_base::Random;

/// A sequence of draws.
#[derive(Clone, Debug)]
pub struct Draw(Random);

impl Draw {
    /// The sequence of a seed for one part of a scenario.
    pub fn new(seed: u64, part: &str) -> Self {
        // FNV-1a of the part's name keeps the sequences of one seed apart.
        let hash = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        let part = part.bytes().fold(0xcbf2_9ce4_8422_2325, hash);
        Self(Random::new(part ^ seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
    }

    /// A number from `least` to `most`, both included.
    pub fn between(&mut self, least: usize, most: usize) -> usize {
        least + self.0.below((most - least + 1) as u64) as usize
    }

    /// True in so many of a hundred cases.
    pub fn percent(&mut self, cases: usize) -> bool {
        self.0.below(100) < cases as u64
    }

    /// One of these.
    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.0.below(choices.len() as u64) as usize]
    }

    /// A time from `least` to `most`, to the microsecond.
    pub fn time(&mut self, least: Duration, most: Duration) -> Duration {
        Duration::from_micros(self.between(least.as_micros() as usize, most.as_micros() as usize) as u64)
    }

    /// Some of the hosts, at least one and at most `most`, in no order.
    pub fn some_hosts(&mut self, hosts: u32, most: usize) -> Vec<u32> {
        let mut all: Vec<u32> = (0..hosts).collect();
        // Fisher and Yates.
        for last in (1..all.len()).rev() {
            all.swap(last, self.0.below(last as u64 + 1) as usize);
        }
        let count = self.between(1, most.min(all.len()));
        all.truncate(count);
        all
    }
}
