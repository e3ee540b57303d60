//! Large payloads in shared memory: ours, which we lend, and those that peers lent us.
//!
//! A process has one block memory for all peers, which they map read-only. A block that was lent comes home when the
//! peer says so, or when the peer lets go of the connection, whichever is first.

use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use farcall_driver::{Block, BlockDescriptor, BlockHome, LaneFault, LaneId, Loan, LoanError, LoanHome};

use crate::buddy::{Buddy, Holder};
use crate::conductor::Link;
use crate::segment::Mapping;

/// Bytes that one read brings into the cache.
const LINE_BYTES: usize = 64;

/// The memory that this process lends.
#[derive(Debug)]
pub struct OwnBlocks {
    mapping: Mapping,
    buddy: Mutex<Buddy>,
}

impl OwnBlocks {
    /// All of `mapping`, free.
    pub fn new(mapping: Mapping) -> Self {
        let buddy = Mutex::new(Buddy::new(mapping.len()));
        Self { mapping, buddy }
    }

    /// The longest loan: a quarter, so that one loan cannot starve all others.
    pub fn loan_bytes_max(&self) -> usize {
        self.mapping.len() / 4
    }

    /// Lends `bytes` bytes to this process.
    pub fn loan(self: &Arc<Self>, home: &Arc<dyn LoanHome>, bytes: usize) -> Result<Loan, LoanError> {
        let bytes_max = self.loan_bytes_max();
        if bytes > bytes_max {
            return Err(LoanError::TooLong { bytes, bytes_max });
        }
        let offset = self.lock().allocate(bytes).ok_or(LoanError::Exhausted)?;
        let descriptor = BlockDescriptor { offset: offset as u64, length: bytes as u64 };
        // SAFETY: the allocator gives the range to nobody else before it is freed, which the loan's drop or the
        // return by the peer does; shared memory starts as zeros; `home` keeps the mapping.
        Ok(unsafe { Loan::from_raw(self.mapping.at(offset, bytes), descriptor, Arc::clone(home)) })
    }

    /// Notes that the peer of `lane` now holds the block.
    pub fn lend(&self, block: BlockDescriptor, lane: LaneId) {
        self.lock().lend(block.offset as usize, lane.0);
    }

    /// Frees a block that the peer of `lane` gave back.
    pub fn take_back(&self, block: BlockDescriptor, lane: LaneId) -> Result<(), LaneFault> {
        if self.lock().free(block.offset, Holder::Peer(lane.0)) {
            return Ok(());
        }
        Err(LaneFault::Corrupt { what: "the return of a block that was not lent" })
    }

    /// Frees everything that the peer of `lane` had: it cannot read it any more.
    pub fn take_all_back(&self, lane: LaneId) {
        self.lock().free_all(Holder::Peer(lane.0));
    }

    fn lock(&self) -> MutexGuard<'_, Buddy> {
        // A panic while it is locked can only be a broken invariant of the allocator, which `expect`s report there.
        self.buddy.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LoanHome for OwnBlocks {
    fn reclaim(&self, descriptor: BlockDescriptor) {
        let was_local = self.lock().free(descriptor.offset, Holder::Local);
        debug_assert!(was_local, "a loan is dropped once and only while it is local");
    }
}

/// The block memory of one peer, and which of its blocks are due for return.
#[derive(Debug)]
pub struct PeerBlocks {
    mapping: Mapping,
    /// Keeps the connection half open: the peer reuses its memory only when we have let go of this.
    _link: Arc<Link>,
    due: Mutex<Vec<BlockDescriptor>>,
    any_due: AtomicBool,
}

impl PeerBlocks {
    /// The memory that the peer at the other end of `link` lends from.
    pub fn new(mapping: Mapping, link: Arc<Link>) -> Self {
        Self { mapping, _link: link, due: Mutex::new(Vec::new()), any_due: AtomicBool::new(false) }
    }

    /// The block that `descriptor` names, readable in place.
    pub fn borrow(self: &Arc<Self>, descriptor: BlockDescriptor) -> Result<Block, LaneFault> {
        let bytes = self.find(descriptor)?;
        let home: Arc<dyn BlockHome> = Arc::clone(self) as _;
        // SAFETY: the range is inside the mapping (`find` checks it), which `home` keeps.
        Ok(unsafe { Block::from_raw(bytes, descriptor, home) })
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
        if !self.any_due.load(Ordering::Relaxed) {
            return None;
        }
        let mut due = self.due.lock().unwrap_or_else(PoisonError::into_inner);
        let block = due.pop();
        self.any_due.store(!due.is_empty(), Ordering::Relaxed);
        block
    }
}

impl BlockHome for PeerBlocks {
    fn give_back(&self, descriptor: BlockDescriptor) {
        let mut due = self.due.lock().unwrap_or_else(PoisonError::into_inner);
        due.push(descriptor);
        self.any_due.store(true, Ordering::Relaxed);
    }
}
