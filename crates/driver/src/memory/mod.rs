//! Memory on loan between a driver and its user: loans to write into, blocks to read, and where both are
//! returned to.
//!
//! A loan or block may be dropped on any thread, and only its drop gives the memory back: nothing that a
//! device or a peer may still touch is freed earlier.

mod block;
mod block_memory;
mod buddy;
mod copying;
mod heap_loan;
mod landed;
mod loan;
mod prefetch;
mod resting;
mod returns;
mod spare_loans;

pub use block::{Block, BlockDescriptor, BlockHome};
pub use block_memory::{BlockMemory, LoanMemory};
pub use buddy::BLOCK_BYTES_MIN;
pub use copying::copy_to_hot;
pub use heap_loan::HeapLoans;
pub use loan::{Loan, LoanError, LoanHome};
pub use prefetch::{FETCH_BYTES_MAX, prefetch_lines};
pub use returns::Returns;
