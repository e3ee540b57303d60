//! Large payloads in shared memory: those that we lend, and those that peers lent us.
//!
//! A process has one block memory for all peers that it trusts, which they map read-only. A peer that is not
//! trusted has a memory of its own, in which the blocks that it is lent lie at the same places; and what it
//! lends is copied before it is looked at. A block that was lent is returned when the peer says so, or when
//! it drops the connection, whichever is first.

use core::ptr::NonNull;
use core::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::Arc;

use farcall_driver::{Block, BlockDescriptor, BlockHome, LaneFault, LoanMemory, Returns};

use crate::conductor::Link;
use crate::segment::Mapping;

/// Bytes that one read brings into the cache.
const LINE_BYTES: usize = 64;

const WORD_BYTES: usize = size_of::<u64>();

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
    /// Bytes of its blocks that are copied here now; `None` for a peer whose blocks are read in place.
    copied_bytes: Option<AtomicUsize>,
    /// Keeps the connection half open: the peer reuses its memory only when we have let go of this.
    _link: Arc<Link>,
    due: Returns,
}

impl PeerBlocks {
    /// The memory that the peer at the other end of `link` lends from.
    pub fn new(mapping: Mapping, link: Arc<Link>, copies: bool) -> Self {
        let copied_bytes = copies.then(AtomicUsize::default);
        Self { mapping, copied_bytes, _link: link, due: Returns::default() }
    }

    /// The block that `descriptor` names, readable in place and at home in this memory.
    #[inline]
    pub fn borrow(self: Arc<Self>, descriptor: BlockDescriptor) -> Result<Block, LaneFault> {
        if self.copied_bytes.is_some() {
            return self.copy(descriptor);
        }
        let bytes = self.find(descriptor)?;
        // SAFETY: the range is inside the mapping (`find` checks it), which the home keeps.
        Ok(unsafe { Block::from_raw(bytes, descriptor, self) })
    }

    /// A copy of the block, which the peer cannot change any more. It is returned when the copy is dropped,
    /// so that copies are never longer than the peer's memory, all together.
    fn copy(self: Arc<Self>, descriptor: BlockDescriptor) -> Result<Block, LaneFault> {
        let from = self.find(descriptor)?.cast::<AtomicU64>();
        if !descriptor.offset.is_multiple_of(WORD_BYTES as u64) {
            return Err(LaneFault::Corrupt { what: "a block that begins within a word" });
        }
        let length = descriptor.length as usize;
        let copied_bytes = self.copied_bytes.as_ref().expect("a peer that is not trusted");
        if copied_bytes.fetch_add(length, Ordering::Relaxed) + length > self.mapping.len() {
            copied_bytes.fetch_sub(length, Ordering::Relaxed);
            return Err(LaneFault::Corrupt { what: "more blocks than its memory holds" });
        }
        let words = length / WORD_BYTES;
        let mut copy = Vec::with_capacity(words + 1);
        // SAFETY: the words are inside the mapping (`find` checks all bytes), which lives as long as `self`,
        // and aligned (checked above); they are only read here, as atomics.
        let word = |at: usize| unsafe { from.add(at).as_ref() }.load(Ordering::Relaxed);
        copy.extend((0..words).map(word));
        let mut rest = [0; WORD_BYTES];
        for (at, byte) in rest.iter_mut().enumerate().take(length % WORD_BYTES) {
            // SAFETY: as above; the byte is within the block.
            let place = unsafe { from.add(words).cast::<AtomicU8>().add(at).as_ref() };
            *byte = place.load(Ordering::Relaxed);
        }
        copy.push(u64::from_ne_bytes(rest));
        let home = Arc::new(Copied { words: copy.into(), peer: self });
        let bytes = NonNull::from(&home.words[..]).cast();
        // SAFETY: the words hold all bytes of the block, and live as long as the home.
        Ok(unsafe { Block::from_raw(bytes, descriptor, home) })
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

/// The copy of a block.
struct Copied {
    /// As many as hold its bytes, and a part of one more.
    words: Box<[u64]>,
    peer: Arc<PeerBlocks>,
}

impl BlockHome for Copied {
    fn give_back(&self, descriptor: BlockDescriptor) {
        if let Some(copied_bytes) = &self.peer.copied_bytes {
            copied_bytes.fetch_sub(descriptor.length as usize, Ordering::Relaxed);
        }
        self.peer.give_back(descriptor);
    }
}

/// Copies a block to its place in the memory of its own that a peer reads.
pub fn copy_for_peer(from: &Mapping, to: &Mapping, block: BlockDescriptor) {
    let (offset, length) = (block.offset as usize, block.length as usize);
    // SAFETY: both ranges are inside their mappings (`at` checks it), which are two. The block is lent, so
    // nobody writes to it; the copy's place is the same peer's since the block is, and only this process
    // can write there.
    unsafe { to.at(offset, length).copy_from_nonoverlapping(from.at(offset, length), length) };
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
