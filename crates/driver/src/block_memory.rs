//! Memory from which a driver lends large payloads, and who has which part of it.
//!
//! A block that was lent comes home when the peer says so, or when the peer cannot read it any more, whichever is first.

use core::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::buddy::{Buddy, Holder};
use crate::{BlockDescriptor, LaneFault, LaneId, Loan, LoanError, LoanHome};

/// Memory that can be lent in parts.
///
/// # Safety
/// All of it must be initialised, readable and writable at fixed addresses as long as the value lives, and written in this
/// process through loans only.
#[expect(unsafe_code, reason = "the implementor promises what its memory is")]
pub unsafe trait LoanMemory: Send + Sync {
    /// How much there is, in bytes; a power of two.
    fn bytes(&self) -> usize;

    /// Where byte `offset` lies.
    ///
    /// # Panics
    /// When fewer than `bytes` bytes follow it.
    fn at(&self, offset: usize, bytes: usize) -> NonNull<u8>;
}

/// Memory that a driver lends, to its own process and through it to peers.
#[derive(Debug)]
pub struct BlockMemory<M> {
    memory: M,
    buddy: Mutex<Buddy>,
}

impl<M: LoanMemory> BlockMemory<M> {
    /// All of `memory`, free.
    pub fn new(memory: M) -> Self {
        let buddy = Mutex::new(Buddy::new(memory.bytes()));
        Self { memory, buddy }
    }

    /// The memory itself.
    pub fn memory(&self) -> &M {
        &self.memory
    }

    /// The longest loan: a quarter, so that one loan cannot starve all others.
    pub fn loan_bytes_max(&self) -> usize {
        self.memory.bytes() / 4
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
        // return by the peer does; the memory is initialised and stays (`LoanMemory`) while `home`, which is this, does.
        #[expect(unsafe_code, reason = "a loan is made of raw memory")]
        let loan = unsafe { Loan::from_raw(self.memory.at(offset, bytes), descriptor, Arc::clone(home)) };
        Ok(loan)
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

impl<M: LoanMemory> LoanHome for BlockMemory<M> {
    fn reclaim(&self, descriptor: BlockDescriptor) {
        let was_local = self.lock().free(descriptor.offset, Holder::Local);
        debug_assert!(was_local, "a loan is dropped once and only while it is local");
    }
}
