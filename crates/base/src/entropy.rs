//! Numbers that nobody can foretell: session numbers, cookies, keys of tables.
//!
//! A process fills the seed from its system's random source, once; a simulation gives a number of its own,
//! and draws the same numbers in every run. Each purpose has a generator by itself ([`Entropy::split`]), so
//! that what is shown of one says nothing about another.

use core::fmt;

use chacha20::ChaCha12Rng;
use chacha20::rand_core::{Rng, SeedableRng};

use crate::{Random, SipKey};

/// A generator of unpredictable numbers (ChaCha with twelve rounds): no output says anything about another
/// one.
pub struct Entropy(ChaCha12Rng);

impl Entropy {
    /// The numbers of a seed. As unpredictable as the seed is.
    pub fn from_seed(seed: [u8; 32]) -> Self {
        Self(ChaCha12Rng::from_seed(seed))
    }

    /// The same numbers in every run: for simulations and tests.
    pub fn repeatable(seed: u64) -> Self {
        Self::from_seed(Self::repeatable_seed(seed))
    }

    /// The seed of [`Entropy::repeatable`].
    pub fn repeatable_seed(seed: u64) -> [u8; 32] {
        let mut random = Random::new(seed);
        let mut bytes = [0; 32];
        bytes.chunks_exact_mut(8).for_each(|word| word.copy_from_slice(&random.bits().to_le_bytes()));
        bytes
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A key for hashes.
    pub fn key(&mut self) -> SipKey {
        SipKey([self.bits(), self.bits()])
    }

    /// A generator for another purpose.
    pub fn split(&mut self) -> Self {
        let mut seed = [0; 32];
        self.0.fill_bytes(&mut seed);
        Self::from_seed(seed)
    }
}

/// Shows nothing of its state.
impl fmt::Debug for Entropy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Entropy")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_always_gives_the_same_numbers_and_each_purpose_its_own() {
        let drawn = |entropy: &mut Entropy| [entropy.bits(), entropy.bits(), entropy.bits()];
        let (mut one, mut same) = (Entropy::repeatable(7), Entropy::repeatable(7));
        assert_eq!(drawn(&mut one), drawn(&mut same));
        let mut other = one.split();
        assert_eq!(drawn(&mut other), drawn(&mut same.split()));
        assert_ne!(drawn(&mut other), drawn(&mut one));
        assert_ne!(drawn(&mut Entropy::repeatable(8)), drawn(&mut Entropy::repeatable(7)));
    }
}
