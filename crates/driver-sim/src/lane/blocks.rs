//! Blocks: loans of a peer, read where it wrote them.
//!
//! All hosts are in one process, so a block is the lender's own memory. It stays as long as anybody reads it, whatever
//! becomes of the lane and the lender.

use core::ptr::NonNull;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use farcall_driver::{Block, BlockDescriptor, BlockHome, Loan};

/// Blocks of one lane that were dropped here and whose lender must be told.
#[derive(Debug, Default)]
pub struct Returns {
    due: Mutex<VecDeque<BlockDescriptor>>,
}

impl Returns {
    /// The next one.
    pub fn next(&self) -> Option<BlockDescriptor> {
        self.due.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }
}

/// What a block needs while somebody reads it.
struct Borrowed {
    /// Keeps the memory.
    _loan: Arc<Loan>,
    returns: Arc<Returns>,
}

impl BlockHome for Borrowed {
    fn give_back(&self, descriptor: BlockDescriptor) {
        self.returns.due.lock().unwrap_or_else(PoisonError::into_inner).push_back(descriptor);
    }
}

/// The block that a lent loan is for its reader.
pub fn borrow(loan: Arc<Loan>, descriptor: BlockDescriptor, returns: Arc<Returns>) -> Block {
    assert_eq!(loan.len() as u64, descriptor.length, "a block is the whole of a loan");
    let bytes = NonNull::from(&loan[..]).cast();
    let home = Arc::new(Borrowed { _loan: loan, returns });
    // SAFETY: the loan's bytes are `descriptor.length` many (checked above). Their memory lives as long as the loan, which
    // the home keeps, and nobody writes there, because a loan that is shared cannot be written.
    #[expect(unsafe_code, reason = "a block is made of raw memory")]
    unsafe {
        Block::from_raw(bytes, descriptor, home)
    }
}
