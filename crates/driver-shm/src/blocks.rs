//! Large payloads in shared memory: those that we lend, and those that peers lent us.
//!
//! A process has one block memory for all peers, which they map read-only. A block that was lent comes home when the
//! peer says so, or when the peer lets go of the connection, whichever is first.

use core::ptr::NonNull;
use std::sync::Arc;

use farcall_driver::{Block, BlockDescriptor, BlockHome, LaneFault, LoanMemory, Returns};

use crate::conductor::Link;
use crate::segment::Mapping;

/// Bytes that one read brings into the cache.
const LINE_BYTES: usize = 64;

// SAFETY: the mapping is shared memory of this process's own, writable, zero at first, and mapped as long as it lives;
// peers map it read-only.
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

    /// Brings bytes into this core's cache. Reading them does more than a prefetch would: it maps their pages, too.
    pub fn prefetch(&self, descriptor: BlockDescriptor) -> Result<(), LaneFault> {
        let start = self.find(descriptor)?;
        for at in (0..descriptor.length as usize).step_by(LINE_BYTES) {
            // SAFETY: inside the mapping (`find` checks it), which lives as long as `self`. What is read goes nowhere.
            unsafe { start.add(at).read_volatile() };
        }
        Ok(())
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
