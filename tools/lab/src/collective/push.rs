//! Which message gets the next chunk.

use core::fmt;
use core::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::random::Random;

/// A rule for choosing among the messages that could send a chunk now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Push {
    /// The one with the most bytes left; of equals the first in clockwise order from the own rank.
    Deterministic,
    /// Any of them.
    Random,
    /// Of two drawn at random the one with more bytes left.
    PowerOfTwo,
}

impl Push {
    /// All rules.
    pub const ALL: [Self; 3] = [Self::Deterministic, Self::Random, Self::PowerOfTwo];

    /// The rule's name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Deterministic => "deterministic",
            Self::Random => "random",
            Self::PowerOfTwo => "power-of-two",
        }
    }

    /// The place among `candidates` of the message to serve; they are given by their bytes left and their place in
    /// clockwise order. `None` when there is no candidate.
    pub(super) fn choose(self, candidates: &[Candidate], random: &mut Random) -> Option<usize> {
        if candidates.is_empty() {
            return None;
        }
        Some(match self {
            Self::Deterministic => {
                let urgency = |place: &usize| {
                    let candidate = candidates[*place];
                    (candidate.bytes_left, core::cmp::Reverse(candidate.message))
                };
                (0..candidates.len()).max_by_key(urgency)?
            }
            Self::Random => random.below(candidates.len()),
            Self::PowerOfTwo => {
                let (one, other) = (random.below(candidates.len()), random.below(candidates.len()));
                if candidates[one].bytes_left >= candidates[other].bytes_left { one } else { other }
            }
        })
    }
}

/// A message that could send a chunk now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    /// Its place in the rank's list, which is in clockwise order.
    pub(super) message: usize,
    pub(super) bytes_left: usize,
}

impl fmt::Display for Push {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Push {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let known = Self::ALL.into_iter().find(|push| push.name() == name);
        known.ok_or_else(|| format!("`{name}` is none of deterministic, random and power-of-two"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidates(bytes_left: &[usize]) -> Vec<Candidate> {
        let number = |(message, &bytes_left)| Candidate { message, bytes_left };
        bytes_left.iter().enumerate().map(number).collect()
    }

    #[test]
    fn the_longest_goes_first_and_of_equals_the_next_clockwise() {
        let mut random = Random::new(1);
        let choose =
            |left: &[usize], random: &mut Random| Push::Deterministic.choose(&candidates(left), random);
        assert_eq!(choose(&[5, 9, 9, 2], &mut random), Some(1));
        assert_eq!(choose(&[], &mut random), None);
        let swapped: Vec<Candidate> = candidates(&[7, 7]).into_iter().rev().collect();
        assert_eq!(
            Push::Deterministic.choose(&swapped, &mut random),
            Some(1),
            "order of candidates is of no matter"
        );
    }

    #[test]
    fn random_rules_reach_every_candidate_and_the_second_favours_long_ones() {
        let left = candidates(&[1, 100, 1, 1]);
        let counts = |push: Push| {
            let mut random = Random::new(3);
            let mut counts = [0_u32; 4];
            (0..4000).for_each(|_| counts[push.choose(&left, &mut random).expect("some")] += 1);
            counts
        };
        assert!(counts(Push::Random).iter().all(|count| (800..1200).contains(count)));
        let favoured = counts(Push::PowerOfTwo);
        assert!(favoured[1] > 1500 && favoured[0] > 300, "{favoured:?}");
    }
}
