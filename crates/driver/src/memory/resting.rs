//! Blocks that came back a short while ago.
//!
//! A peer that reads a block in place has its lines in its core's own cache, and whoever writes them has to
//! fetch them from there. A while later other blocks have taken their place, and they lie in a cache that
//! cores share, or in memory. So a block rests, before it is free, until others with so many bytes have come
//! back after it.

use std::collections::VecDeque;

/// So much rests at most: about twice what a core's own cache holds.
const RESTING_BYTES_MAX: usize = 2 << 20;

/// Longer blocks do not rest: they leave the peer's cache while they are read.
const BLOCK_BYTES_MAX: usize = 256 << 10;

/// No more than this part of all memory rests.
const PART_OF_MEMORY: usize = 8;

/// A block, with the memory that it takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rested {
    /// Where it begins.
    pub offset: usize,
    /// How long it is.
    pub bytes: usize,
}

/// The blocks that rest, in the order in which they came back.
#[derive(Debug)]
pub struct Resting {
    blocks: VecDeque<Rested>,
    bytes: usize,
    bytes_max: usize,
}

impl Resting {
    /// For memory of which a peer reads so many bytes in place; with 0, nothing rests.
    pub fn in_memory_of(bytes: usize) -> Self {
        Self { blocks: VecDeque::new(), bytes: 0, bytes_max: RESTING_BYTES_MAX.min(bytes / PART_OF_MEMORY) }
    }

    /// Lets a block rest; false when it is too long for that.
    pub fn add(&mut self, block: Rested) -> bool {
        if block.bytes > BLOCK_BYTES_MAX.min(self.bytes_max) {
            return false;
        }
        self.blocks.push_back(block);
        self.bytes += block.bytes;
        true
    }

    /// The next block whose rest is over.
    pub fn next_rested(&mut self) -> Option<Rested> {
        if self.bytes > self.bytes_max { self.next() } else { None }
    }

    /// The block that rests longest, whose rest is over now.
    pub fn next(&mut self) -> Option<Rested> {
        let block = self.blocks.pop_front()?;
        self.bytes -= block.bytes;
        Some(block)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMORY_BYTES: usize = 64 << 20;

    fn block(number: usize, bytes: usize) -> Rested {
        Rested { offset: number * bytes, bytes }
    }

    #[test]
    fn a_block_rests_until_as_much_as_may_rest_has_come_back_after_it() {
        let mut resting = Resting::in_memory_of(MEMORY_BYTES);
        let all = RESTING_BYTES_MAX / BLOCK_BYTES_MAX;
        for number in 0..all {
            assert!(resting.add(block(number, BLOCK_BYTES_MAX)));
            assert_eq!(resting.next_rested(), None);
        }
        for number in all..2 * all {
            assert!(resting.add(block(number, BLOCK_BYTES_MAX)));
            assert_eq!(resting.next_rested(), Some(block(number - all, BLOCK_BYTES_MAX)), "the oldest");
            assert_eq!(resting.next_rested(), None);
        }
    }

    #[test]
    fn all_that_rests_can_be_had_before_its_time() {
        let mut resting = Resting::in_memory_of(MEMORY_BYTES);
        (0..3).for_each(|number| assert!(resting.add(block(number, 4096))));
        let all: Vec<_> = core::iter::from_fn(|| resting.next()).collect();
        assert_eq!(all, [0, 1, 2].map(|number| block(number, 4096)));
    }

    #[test]
    fn long_blocks_do_not_rest_and_nothing_does_in_memory_that_is_not_read_in_place() {
        assert!(!Resting::in_memory_of(MEMORY_BYTES).add(block(1, 2 * BLOCK_BYTES_MAX)));
        assert!(!Resting::in_memory_of(0).add(block(1, 4096)));
        assert!(!Resting::in_memory_of(1 << 16).add(block(1, 1 << 14)), "more than its part");
    }
}
