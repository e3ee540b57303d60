//! Pseudo-random numbers for fault injection and tests: the same seed gives the same run on every machine.
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

    /// True with the given probability, of which anything up to 0 is never and from 1 on is always.
    pub fn chance(&mut self, probability: f64) -> bool {
        const UNIT: f64 = (1_u64 << 53) as f64;
        ((self.bits() >> 11) as f64 / UNIT) < probability
    }
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
}
