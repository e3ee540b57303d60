//! Memory from which a driver lends large payloads, and who has which part of it.
//!
//! A block that was lent comes home when the peer says so, or when the peer cannot read it any more,
//! whichever is first.

use core::ptr::NonNull;
use std::sync::Arc;

use crate::memory::buddy::{Buddy, Holder, block_bytes_for};
use crate::memory::loan::LoanRecord;
use crate::memory::resting::{Rested, Resting};
use crate::memory::spare_loans::SpareLoans;
use crate::{BlockDescriptor, LaneFault, LaneId, Loan, LoanError, LoanHome, Returns};

/// Memory that can be lent in parts.
///
/// # Safety
/// All of it must be initialised, readable and writable at fixed addresses as long as the value lives, and
/// written in this process through loans only.
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
///
/// Only the driver's thread lends and takes back, and it locks nothing for that: a locked instruction waits
/// until everything written before it has left for the caches, a payload just copied among it. Other threads
/// only leave word of loans that they drop.
pub struct BlockMemory<M> {
    buddy: Buddy,
    resting: Resting,
    spares: SpareLoans,
    dropped: Arc<Dropped<M>>,
    /// The same as what loans keep.
    home: Arc<dyn LoanHome>,
    /// What is left of the loan that was lent on last.
    record: Option<LoanRecord>,
}

impl<M: LoanMemory + 'static> BlockMemory<M> {
    /// All of `memory`, free; peers have it copied to them.
    pub fn new(memory: M) -> Self {
        Self::with(memory, Resting::in_memory_of(0))
    }

    /// All of `memory`, free; peers read it in place, through caches, so that blocks that come back rest for
    /// a while.
    pub fn read_in_place(memory: M) -> Self {
        let resting = Resting::in_memory_of(memory.bytes());
        Self::with(memory, resting)
    }

    fn with(memory: M, resting: Resting) -> Self {
        let buddy = Buddy::new(memory.bytes());
        let dropped = Arc::new(Dropped { memory: Arc::new(memory), loans: Returns::default() });
        let home = Arc::clone(&dropped) as _;
        Self { buddy, resting, spares: SpareLoans::default(), dropped, home, record: None }
    }

    /// The memory itself.
    pub fn memory(&self) -> &Arc<M> {
        &self.dropped.memory
    }

    /// The longest loan: a quarter, so that one loan cannot starve all others.
    pub fn loan_bytes_max(&self) -> usize {
        self.memory().bytes() / 4
    }

    /// Lends `bytes` bytes to this process.
    pub fn loan(&mut self, bytes: usize) -> Result<Loan, LoanError> {
        let bytes_max = self.loan_bytes_max();
        if bytes > bytes_max {
            return Err(LoanError::TooLong { bytes, bytes_max });
        }
        if let Some(loan) = self.spares.take(bytes) {
            return Ok(loan);
        }
        let mut loan = self.new_loan(bytes)?;
        loan.truncate(bytes);
        Ok(loan)
    }

    /// A loan of a whole block, of at least `bytes` bytes.
    fn new_loan(&mut self, bytes: usize) -> Result<Loan, LoanError> {
        let block_bytes = block_bytes_for(bytes);
        let offset = self.block(block_bytes).ok_or(LoanError::Exhausted)?;
        let descriptor = BlockDescriptor { offset: offset as u64, length: block_bytes as u64 };
        // SAFETY: the allocator gives the range to nobody else before it is freed, which follows the loan's
        // drop or the return by the peer; the memory is initialised and stays (`LoanMemory`) while the home,
        // which holds it, does.
        #[expect(unsafe_code, reason = "a loan is made of raw memory")]
        let loan = unsafe {
            let bytes = self.memory().at(offset, block_bytes);
            match self.record.take() {
                Some(record) => Loan::from_raw_in(record, bytes, descriptor),
                None => Loan::from_raw(bytes, descriptor, Arc::clone(&self.home)),
            }
        };
        Ok(loan)
    }

    /// Where a block of that length is, which is nobody's any more.
    ///
    /// Of those that rest it is the one that has rested longest. So blocks that are lent on and on stay in
    /// the order of their addresses: a peer's core fetches ahead what it reads forwards, also from one block
    /// to the next. What is free is in another order soon.
    fn block(&mut self, block_bytes: usize) -> Option<usize> {
        let rested = self.resting.next_rested();
        if let Some(offset) = rested.and_then(|block| self.lend_again(block, block_bytes)) {
            return Some(offset);
        }
        self.free_dropped();
        if let Some(offset) = self.buddy.allocate(block_bytes) {
            return Some(offset);
        }
        // Better one that is slow to write than none.
        let resting = self.resting.next();
        resting
            .and_then(|block| self.lend_again(block, block_bytes))
            .or_else(|| self.free_all_spare().buddy.allocate(block_bytes))
    }

    /// Lends a block that rested, if it has that length; otherwise it is free, as are all others whose rest
    /// is over.
    fn lend_again(&mut self, block: Rested, block_bytes: usize) -> Option<usize> {
        if block.bytes == block_bytes {
            self.buddy.take_rested(block.offset);
            return Some(block.offset);
        }
        self.free_rested(block);
        while let Some(block) = self.resting.next_rested() {
            self.free_rested(block);
        }
        None
    }

    /// Takes a loan whose bytes were copied, for the next of about its length. One of other memory is dropped.
    pub fn recycle(&mut self, loan: Loan) {
        if loan.is_of(&self.home) {
            self.spares.keep(loan);
        }
    }

    /// Passes a loan on to the peer of `lane`; one of other memory is given back.
    pub fn lend(&mut self, loan: Loan, lane: LaneId) -> Result<BlockDescriptor, Loan> {
        if !loan.is_of(&self.home) {
            return Err(loan);
        }
        let (block, record) = loan.lend_on();
        self.record = Some(record);
        self.buddy.lend(block.offset as usize, lane.0);
        Ok(block)
    }

    /// Takes a block that the peer of `lane` gave back.
    pub fn take_back(&mut self, block: BlockDescriptor, lane: LaneId) -> Result<(), LaneFault> {
        let Some(bytes) = self.buddy.take_back(block.offset, lane.0) else {
            return Err(LaneFault::Corrupt { what: "the return of a block that was not lent" });
        };
        let block = Rested { offset: block.offset as usize, bytes };
        if !self.resting.add(block) {
            self.free_rested(block);
        }
        Ok(())
    }

    /// Frees everything that the peer of `lane` had: it cannot read it any more.
    pub fn take_all_back(&mut self, lane: LaneId) {
        self.buddy.free_all(Holder::Peer(lane.0));
    }

    /// Frees the loans that are kept for the next ones, and all blocks that rest.
    #[cold]
    fn free_all_spare(&mut self) -> &mut Self {
        self.spares.clear();
        self.free_dropped();
        while let Some(block) = self.resting.next() {
            self.free_rested(block);
        }
        self
    }

    fn free_rested(&mut self, block: Rested) {
        let rested = self.buddy.free(block.offset as u64, Holder::Resting);
        debug_assert!(rested, "a block is freed once after its rest");
    }

    fn free_dropped(&mut self) {
        while let Some(loan) = self.dropped.loans.next() {
            let was_local = self.buddy.free(loan.offset, Holder::Local);
            debug_assert!(was_local, "a loan is dropped once and only while it is local");
        }
    }
}

/// Loans that were dropped unsent, by whatever thread.
struct Dropped<M> {
    /// Stays as long as any loan does.
    memory: Arc<M>,
    loans: Returns,
}

impl<M: LoanMemory> LoanHome for Dropped<M> {
    fn reclaim(&self, descriptor: BlockDescriptor) {
        self.loans.add(descriptor);
    }
}
