//! Blocks that lie in a loan of this process: read where they landed, or where a lender of the same process
//! wrote them.
//!
//! The loan stays as long as anybody reads it, whatever becomes of the lane and of both drivers.

use core::ptr::NonNull;
use std::sync::Arc;

use crate::{Block, BlockDescriptor, BlockHome, Loan, Returns};

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
        // SAFETY: the loan's bytes are `descriptor.length` many (checked above). Their memory lives as long
        // as the loan, which the home keeps, and nobody writes there, because a loan that is shared cannot be
        // written.
        #[expect(unsafe_code, reason = "the loan of a driver's memory is what this type is for")]
        unsafe {
            Self::from_raw(bytes, descriptor, home)
        }
    }
}
