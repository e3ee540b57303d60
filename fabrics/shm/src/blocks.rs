//! Large payloads in shared memory: those that we lend, and those that peers lent us.
//!
//! A process has one block memory for all peers, which they map read-only. A block that was lent comes home
//! when the peer says so, or when the peer lets go of the connection, whichever is first.

use core::ptr::NonNull;
use std::sync::Arc;

use farcall_driver::{Block, BlockDescriptor, BlockHome, LaneFault, LoanMemory, Returns};

use crate::conductor::Link;
use crate::segment::Mapping;

/// Bytes that one read brings into the cache.
const LINE_BYTES: usize = 64;

// SAFETY: the mapping is shared memory of this process's own, writable, zero at first, and mapped as long as
// it lives; peers map it read-only.
unsafe impl LoanMemory for Mapping {
    fn bytes(&self) -> usize {
        self.len()
    }

    fn at(&self, offset: usize, bytes: usize) -> NonNull<u8> {
        Mapping::at(self, offset, bytes)
    }
}

/// The block memory of one peer, and which of its blocks are due for return.
#[derive(Debug)]
pub struct PeerBlocks {
    mapping: Mapping,
    /// Keeps the connection half open: the peer reuses its memory only when we have let go of this.
    _link: Arc<Link>,
    due: Returns,
}

impl PeerBlocks {
    /// The memory that the peer at the other end of `link` lends from.
    pub fn new(mapping: Mapping, link: Arc<Link>) -> Self {
        Self { mapping, _link: link, due: Returns::default() }
    }

    /// The block that `descriptor` names, readable in place and at home in this memory.
    #[inline]
    pub fn borrow(self: Arc<Self>, descriptor: BlockDescriptor) -> Result<Block, LaneFault> {
        let bytes = self.find(descriptor)?;
        // SAFETY: the range is inside the mapping (`find` checks it), which the home keeps.
        Ok(unsafe { Block::from_raw(bytes, descriptor, self) })
    }

    /// Brings bytes into this core's cache, if they are of this memory. Reading them does more than a
    /// prefetch would: it maps their pages, too.
    pub fn fetch(&self, descriptor: BlockDescriptor) {
        let Ok(start) = self.find(descriptor) else { return };
        for at in (0..descriptor.length as usize).step_by(LINE_BYTES) {
            // SAFETY: inside the mapping (`find` checks it), which lives as long as `self`. What is read goes
            // nowhere.
            unsafe { start.add(at).read_volatile() };
        }
    }

    /// Where the bytes are that `descriptor` names.
    #[inline]
    fn find(&self, descriptor: BlockDescriptor) -> Result<NonNull<u8>, LaneFault> {
        let end = descriptor.offset.checked_add(descriptor.length);
        if end.is_none_or(|end| end > self.mapping.len() as u64) {
            return Err(LaneFault::Corrupt { what: "a block outside the peer's memory" });
        }
        Ok(self.mapping.at(descriptor.offset as usize, descriptor.length as usize))
    }

    /// The next block that was dropped here since it was borrowed.
    #[inline]
    pub fn due_return(&self) -> Option<BlockDescriptor> {
        self.due.next()
    }
}

impl BlockHome for PeerBlocks {
    fn give_back(&self, descriptor: BlockDescriptor) {
        self.due.add(descriptor);
    }
}

#[cfg(test)]
mod tests {
    use farcall_driver::{BlockMemory, LaneId, LoanError};

    use super::*;
    use crate::segment::{PeerAccess, Segment};

    const LANE: LaneId = LaneId(0);
    const MEMORY_BYTES: usize = 1 << 20;
    /// An eighth of the memory rests: eight of these.
    const BLOCK_BYTES: usize = 16 << 10;
    const RESTING: usize = 8;
    /// No power of two: of one, a batch that came back would be free as a single piece.
    const BATCH: usize = 3;

    fn memory() -> BlockMemory<Mapping> {
        let (_, mapping) = Segment::create("farcall-test", MEMORY_BYTES, PeerAccess::Read).expect("memfd");
        BlockMemory::read_in_place(mapping)
    }

    fn lend(memory: &mut BlockMemory<Mapping>, bytes: usize) -> Result<BlockDescriptor, LoanError> {
        memory.loan(bytes).map(|loan| memory.lend(loan, LANE).expect("it is of this memory"))
    }

    /// Lends so many blocks, a batch at a time, which comes back as a whole; gives where they begin.
    fn stream(memory: &mut BlockMemory<Mapping>, batches: usize) -> Vec<u64> {
        let mut offsets = Vec::new();
        for _ in 0..batches {
            let batch = [(); BATCH].map(|()| lend(memory, BLOCK_BYTES - 100).expect("memory"));
            batch.iter().for_each(|&block| memory.take_back(block, LANE).expect("it was lent"));
            offsets.extend(batch.map(|block| block.offset));
        }
        offsets
    }

    #[test]
    fn blocks_that_are_lent_on_and_on_stay_in_the_order_of_their_addresses() {
        let offsets = stream(&mut memory(), 100);
        // A round is what rests and what is in flight. Where it begins anew, a block may come later than one
        // behind it.
        let rounds = offsets.len().div_ceil(RESTING + BATCH);
        let turns_back = offsets.windows(2).filter(|pair| pair[1] < pair[0]).count();
        assert!(turns_back <= 2 * rounds, "{turns_back} in {rounds} rounds");
    }

    #[test]
    fn what_rests_is_there_for_blocks_of_another_length() {
        let mut memory = memory();
        stream(&mut memory, 100);
        let four: Vec<_> = (0..4).map(|_| lend(&mut memory, MEMORY_BYTES / 4).expect("a quarter")).collect();
        assert_eq!(lend(&mut memory, 1).err(), Some(LoanError::Exhausted));
        four.into_iter().for_each(|block| memory.take_back(block, LANE).expect("it was lent"));
        assert_eq!(stream(&mut memory, 100).len(), 100 * BATCH);
    }

    #[test]
    fn where_all_is_lent_the_block_that_came_back_first_is_lent_first() {
        let mut memory = memory();
        let all: Vec<_> = (0..MEMORY_BYTES / BLOCK_BYTES)
            .map(|_| lend(&mut memory, BLOCK_BYTES).expect("memory"))
            .collect();
        assert_eq!(lend(&mut memory, BLOCK_BYTES).err(), Some(LoanError::Exhausted));
        let back = [7, 6, 20, 21, 5].map(|number| all[number]);
        back.iter().for_each(|&block| memory.take_back(block, LANE).expect("it was lent"));
        assert_eq!(back.map(|_| lend(&mut memory, BLOCK_BYTES).expect("memory")), back);
        assert_eq!(lend(&mut memory, BLOCK_BYTES).err(), Some(LoanError::Exhausted));
    }
}
