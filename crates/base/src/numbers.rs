//! Which numbers a transport gives to its sessions.
//!
//! Several transports may belong to one endpoint. Each then takes its numbers from a part of all, so that a
//! number names one session and says which transport has it, without a table.

/// The numbers that one transport gives to its sessions: a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionNumbers {
    first: u32,
    last: u32,
}

/// The numbers that are divided: the highest bit is left out, because sources of messages have it.
const DIVIDED_BITS: u32 = 31;

impl SessionNumbers {
    /// All there are: for a transport that is an endpoint's only one.
    pub const ALL: Self = Self { first: 0, last: u32::MAX };
    /// The most parts there can be, in bits.
    pub const PART_BITS_MAX: u32 = 2;

    /// One of `1 << bits` equal parts.
    ///
    /// # Panics
    /// When there is no such part, or there are too many.
    pub const fn part(index: u32, bits: u32) -> Self {
        assert!(bits <= Self::PART_BITS_MAX && index < 1 << bits, "there is such a part");
        let first = index << (DIVIDED_BITS - bits);
        Self { first, last: first + ((1 << (DIVIDED_BITS - bits)) - 1) }
    }

    /// The part that a number is of, where there are `1 << bits`.
    #[inline]
    pub const fn part_of(number: u32, bits: u32) -> usize {
        (number >> (DIVIDED_BITS - bits)) as usize
    }

    /// The first number.
    pub const fn first(self) -> u32 {
        self.first
    }

    /// The number that is `step` behind another one; `None` behind the last.
    pub const fn behind(self, number: u32, step: u32) -> Option<u32> {
        match number.checked_add(step) {
            Some(next) if next <= self.last => Some(next),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_share_no_number_and_name_themselves() {
        for bits in 0..=SessionNumbers::PART_BITS_MAX {
            let mut expected = 0;
            for index in 0..1 << bits {
                let part = SessionNumbers::part(index, bits);
                assert_eq!(part.first(), expected, "they follow each other");
                for number in [part.first, part.last] {
                    assert_eq!(SessionNumbers::part_of(number, bits), index as usize);
                }
                assert_eq!(part.behind(part.last, 1), None);
                expected = part.last + 1;
            }
        }
        assert_eq!(SessionNumbers::ALL.behind(u32::MAX - 1, 1), Some(u32::MAX));
    }
}
