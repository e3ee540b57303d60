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
mod resting;
mod returns;
mod spare_loans;

pub use block::{Block, BlockDescriptor, BlockHome};
pub use block_memory::{BlockMemory, LoanMemory};
pub use buddy::BLOCK_BYTES_MIN;
pub use copying::copy_to_hot;
pub use heap_loan::HeapLoans;
pub use loan::{Loan, LoanError, LoanHome};
pub use returns::Returns;

/// Bytes in a cache line.
const LINE_BYTES: usize = 64;

/// What is worth prefetching at once: more lines than a core can have in flight are of no use.
pub const FETCH_BYTES_MAX: usize = 16 * LINE_BYTES;

/// Prefetches the lines of `bytes`. Costs little, promises nothing.
#[inline(always)]
pub fn prefetch_lines(bytes: *const [u8]) {
    let mut at = 0;
    while at < bytes.len() {
        prefetch_line(bytes.cast::<u8>().wrapping_add(at));
        at += LINE_BYTES;
    }
}

/// Prefetches the line of a byte.
#[inline(always)]
#[cfg_attr(target_arch = "x86_64", expect(unsafe_code, reason = "prefetching is an intrinsic"))]
fn prefetch_line(byte: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch has no effect that a program can see, whatever the address.
    unsafe {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(byte.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = byte;
}
