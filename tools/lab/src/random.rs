//! Seeded random numbers for orders, arrivals and resampling: the same seed gives the same experiment.

/// The SplitMix64 generator (Steele, Lea and Flood, 2014): small, fast, and good enough for shuffles.
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
}

/// The seed of one of many sequences that are to be unrelated, and all decided by `seed`.
pub(crate) fn seed_of_stream(seed: u64, stream: u64) -> u64 {
    // Seeds that are one apart give unrelated draws.
    seed.wrapping_mul(0x1_0000_0001).wrapping_add(stream)
}

impl Random {
    /// The generator of a seed.
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// A number below `bound`, which is not zero. The bias of at most `bound / 2^64` does not matter here.
    pub fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.next()) * bound as u128) >> 64) as usize
    }

    /// Puts the items in random order (Fisher and Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }

    /// A number from an exponential distribution of this mean.
    pub(crate) fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (-self.unit()).ln_1p()
    }

    /// A number from 0 up to but not including 1, in steps of 2^-53.
    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// The seed of something that is to be independent of what this generator gives next.
    pub(crate) fn seed(&mut self) -> u64 {
        self.next()
    }

    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shuffle_keeps_the_items_and_reaches_every_place() {
        let mut random = Random::new(1);
        let mut seen = [[false; 4]; 4];
        for _ in 0..200 {
            let mut items = [0, 1, 2, 3];
            random.shuffle(&mut items);
            for (place, &item) in items.iter().enumerate() {
                seen[item][place] = true;
            }
            items.sort_unstable();
            assert_eq!(items, [0, 1, 2, 3]);
        }
        assert_eq!(seen, [[true; 4]; 4]);
    }

    #[test]
    fn numbers_are_spread_evenly() {
        let mut random = Random::new(7);
        let mut counts = [0; 10];
        for _ in 0..10_000 {
            counts[random.below(10)] += 1;
        }
        assert!(counts.iter().all(|count| (850..1150).contains(count)), "{counts:?}");
    }
}
