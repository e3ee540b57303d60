//! Large payloads that arrived: memory of a peer that is read in place.
//!
//! A [`Block`] is read where its sender wrote it, into a [`Loan`](crate::Loan). Both are owned values:
//! whoever holds one may use it, and dropping it gives the memory back to whoever lent it, from any thread.
//!
//! The types know nothing of fabrics. A driver makes them from a [`LoanHome`](crate::LoanHome) or
//! [`BlockHome`] of its own, which keeps the memory mapped and learns of the drop.

use core::fmt;
use core::ops::Deref;
use core::ptr::NonNull;
use std::sync::Arc;

/// Names a block between its two sides: where it lies in the lender's memory, and how long it is.
///
/// Sixteen bytes on the wire. The receiver must check it against the lender's memory before use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BlockDescriptor {
    /// Offset in the lender's block memory, in bytes.
    pub offset: u64,
    /// Bytes of payload.
    pub length: u64,
}

/// Where a received block's memory lives. Implemented by drivers.
pub trait BlockHome: Send + Sync {
    /// The block at `descriptor` is not read any more.
    fn give_back(&self, descriptor: BlockDescriptor);
}

/// A received payload, read where its sender wrote it; clones share it.
///
/// The sender could still write to it. A correct one does not before the block is given back, when the last
/// clone is dropped; code that does not trust its peers must copy the bytes before it draws conclusions from
/// them twice.
#[derive(Clone)]
pub struct Block(Arc<Borrowed>);

struct Borrowed {
    bytes: NonNull<u8>,
    descriptor: BlockDescriptor,
    home: Arc<dyn BlockHome>,
}

// SAFETY: a block is read-only, its memory outlives it (promised to `from_raw`), and its home is
// `Send + Sync`.
#[expect(unsafe_code, reason = "the loan of a driver's memory is what this type is for")]
unsafe impl Send for Borrowed {}

// SAFETY: as above; all access is shared.
#[expect(unsafe_code, reason = "the loan of a driver's memory is what this type is for")]
unsafe impl Sync for Borrowed {}

impl Block {
    /// Makes the memory that `descriptor` names readable.
    ///
    /// # Safety
    /// `bytes` must be readable for `descriptor.length` bytes for as long as `home` lives.
    #[inline]
    #[expect(unsafe_code, reason = "the loan of a driver's memory is what this type is for")]
    pub unsafe fn from_raw(
        bytes: NonNull<u8>,
        descriptor: BlockDescriptor,
        home: Arc<dyn BlockHome>,
    ) -> Self {
        // `Arc::new` makes its value on the stack, word by word, and moves it by longer words. Those can only
        // be loaded when the words have left the store buffer, which they do behind the answer to the last
        // block: on its way to a far peer.
        let place = Arc::<Borrowed>::new_uninit();
        // SAFETY: nobody else has the place yet, and it is assumed to hold a value after it was given one.
        unsafe {
            Arc::as_ptr(&place).cast_mut().cast::<Borrowed>().write(Borrowed { bytes, descriptor, home });
            Self(place.assume_init())
        }
    }
}

impl Deref for Block {
    type Target = [u8];

    #[inline]
    #[expect(unsafe_code, reason = "the loan of a driver's memory is what this type is for")]
    fn deref(&self) -> &[u8] {
        // SAFETY: promised to `from_raw`.
        unsafe { core::slice::from_raw_parts(self.0.bytes.as_ptr(), self.0.descriptor.length as usize) }
    }
}

impl Drop for Borrowed {
    fn drop(&mut self) {
        self.home.give_back(self.descriptor);
    }
}

impl fmt::Debug for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Block({} bytes)", self.len())
    }
}
