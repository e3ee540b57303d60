//! Pseudo-random numbers for faults, arrivals, orders and tests: the same seed gives the same run on every
//! machine.
//!
//! SplitMix64 (Steele, Lea and Flood, 2014): one addition and a mix per number, and every seed is a good one.

/// A generator of pseudo-random numbers. Not for secrets.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The sequence of `seed`.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number from 0 to `bound - 1`; 0 when `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(bound)) >> 64) as u64
    }

    /// A place in a sequence of `length` items; 0 when there is none.
    pub fn index(&mut self, length: usize) -> usize {
        self.below(length as u64) as usize
    }

    /// A number from 0 up to but not including 1, in steps of 2^-53.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// True with the given probability, of which anything up to 0 is never and from 1 on is always.
    pub fn chance(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    /// A number from an exponential distribution of this mean.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (-self.unit()).ln_1p()
    }

    /// Puts the items in random order (Fisher and Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.index(last + 1));
        }
    }
}

/// The seed of one of many sequences that are to be unrelated, and all decided by `seed`.
pub fn seed_of_stream(seed: u64, stream: u64) -> u64 {
    // Seeds that are one apart give unrelated draws.
    seed.wrapping_mul(0x1_0000_0001).wrapping_add(stream)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sequence_is_that_of_the_published_algorithm() {
        let mut random = Random::new(1_234_567);
        let first = [random.bits(), random.bits(), random.bits()];
        assert_eq!(first, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }

    #[test]
    fn chances_and_bounds_are_kept() {
        let mut random = Random::new(7);
        let hits = (0..10_000).filter(|_| random.chance(0.25)).count();
        assert!((2_300..2_700).contains(&hits), "{hits} of 10000 at a quarter");
        assert!((0..1_000).all(|_| random.below(7) < 7 && !random.chance(0.0) && random.chance(1.0)));
        assert_eq!(random.below(0), 0);
    }

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
            counts[random.index(10)] += 1;
        }
        assert!(counts.iter().all(|count| (850..1150).contains(count)), "{counts:?}");
    }
}
