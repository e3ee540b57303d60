//! Blocks that lie in a loan of this process: read where they landed, or where a lender of the same process wrote them.
//!
//! The loan stays as long as anybody reads it, whatever becomes of the lane and of both drivers.

use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, Ordering};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use crate::{Block, BlockDescriptor, BlockHome, Loan};

/// Blocks of one lane that were dropped here and whose lender must be told.
#[derive(Debug, Default)]
pub struct Returns {
    due: Mutex<VecDeque<BlockDescriptor>>,
    any_due: AtomicBool,
}

impl Returns {
    /// The next one; costs one load when there is none.
    #[inline]
    pub fn next(&self) -> Option<BlockDescriptor> {
        if !self.any_due.load(Ordering::Relaxed) {
            return None;
        }
        let mut due = self.due.lock().unwrap_or_else(PoisonError::into_inner);
        let block = due.pop_front();
        self.any_due.store(!due.is_empty(), Ordering::Relaxed);
        block
    }

    /// Adds one.
    pub fn add(&self, block: BlockDescriptor) {
        let mut due = self.due.lock().unwrap_or_else(PoisonError::into_inner);
        due.push_back(block);
        self.any_due.store(true, Ordering::Relaxed);
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
        self.returns.add(descriptor);
    }
}

impl Block {
    /// The block that its lender calls `descriptor` and that lies in `loan`; its drop is noted in `returns`.
    ///
    /// # Panics
    /// When the loan is not as long as the block.
    pub fn of_loan(loan: Arc<Loan>, descriptor: BlockDescriptor, returns: Arc<Returns>) -> Self {
        assert_eq!(loan.len() as u64, descriptor.length, "a block is the whole of a loan");
        let bytes = NonNull::from(&loan[..]).cast();
        let home = Arc::new(Borrowed { _loan: loan, returns });
        // SAFETY: the loan's bytes are `descriptor.length` many (checked above). Their memory lives as long as the loan,
        // which the home keeps, and nobody writes there, because a loan that is shared cannot be written.
        #[expect(unsafe_code, reason = "the loan of a driver's memory is what this type is for")]
        unsafe {
            Self::from_raw(bytes, descriptor, home)
        }
    }
}
