//! Large payloads: memory that a peer reads in place.
//!
//! A [`Loan`] is memory that this process may write and a driver can send without a copy. A [`Block`] is a payload
//! that arrived and is read where the sender wrote it. Both are owned values: whoever holds one may use it, and
//! dropping it gives the memory back to whoever lent it, from any thread.
//!
//! The types know nothing of fabrics. A driver makes them from a [`LoanHome`] or [`BlockHome`] of its own, which
//! keeps the memory mapped and learns of the drop.

use core::fmt;
use core::mem::ManuallyDrop;
use core::ops::{Deref, DerefMut};
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

/// Where a loan's memory lives. Implemented by drivers.
pub trait LoanHome: Send + Sync {
    /// The loan at `descriptor` was dropped unsent.
    fn reclaim(&self, descriptor: BlockDescriptor);
}

/// Where a received block's memory lives. Implemented by drivers.
pub trait BlockHome: Send + Sync {
    /// The block at `descriptor` is not read any more.
    fn give_back(&self, descriptor: BlockDescriptor);
}

/// Memory on loan from a driver: writable here, and sent without a copy.
pub struct Loan {
    bytes: NonNull<u8>,
    descriptor: BlockDescriptor,
    home: Arc<dyn LoanHome>,
}

// SAFETY: a loan is the only way to its bytes in this process (promised to `from_raw`), and its home is `Send + Sync`.
#[expect(unsafe_code, reason = "the loan of a driver's memory is what this type is for")]
unsafe impl Send for Loan {}

// SAFETY: shared access gives only `&[u8]`.
#[expect(unsafe_code, reason = "the loan of a driver's memory is what this type is for")]
unsafe impl Sync for Loan {}

impl Loan {
    /// Lends the memory that `descriptor` names.
    ///
    /// # Safety
    /// `bytes` must be readable and writable for `descriptor.length` bytes, initialised, and reachable in this
    /// process through this loan only, until it is sent or dropped; `home` must keep it mapped.
    #[expect(unsafe_code, reason = "the loan of a driver's memory is what this type is for")]
    pub unsafe fn from_raw(bytes: NonNull<u8>, descriptor: BlockDescriptor, home: Arc<dyn LoanHome>) -> Self {
        Self { bytes, descriptor, home }
    }

    /// Shortens the loan to its first `length` bytes: what will be sent.
    ///
    /// # Panics
    /// When it is shorter than that already.
    pub fn truncate(&mut self, length: usize) {
        assert!(length as u64 <= self.descriptor.length, "a loan cannot grow");
        self.descriptor.length = length as u64;
    }

    /// Where it lies; for drivers.
    pub fn descriptor(&self) -> BlockDescriptor {
        self.descriptor
    }

    /// Whether the memory is of the given home; for drivers.
    pub fn is_of(&self, home: &Arc<dyn LoanHome>) -> bool {
        Arc::ptr_eq(&self.home, home)
    }

    /// Ends the loan without giving the memory back, which the driver lends on to a peer.
    pub(crate) fn into_parts(self) -> (BlockDescriptor, Arc<dyn LoanHome>) {
        let this = ManuallyDrop::new(self);
        // SAFETY: `this` is never dropped or used again, so the home is moved out exactly once, here.
        #[expect(unsafe_code, reason = "the loan of a driver's memory is what this type is for")]
        let home = unsafe { core::ptr::read(&this.home) };
        (this.descriptor, home)
    }
}

impl Deref for Loan {
    type Target = [u8];

    #[expect(unsafe_code, reason = "the loan of a driver's memory is what this type is for")]
    fn deref(&self) -> &[u8] {
        // SAFETY: promised to `from_raw`.
        unsafe { core::slice::from_raw_parts(self.bytes.as_ptr(), self.descriptor.length as usize) }
    }
}

impl DerefMut for Loan {
    #[expect(unsafe_code, reason = "the loan of a driver's memory is what this type is for")]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: promised to `from_raw`; `&mut self` makes the access exclusive.
        unsafe { core::slice::from_raw_parts_mut(self.bytes.as_ptr(), self.descriptor.length as usize) }
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        self.home.reclaim(self.descriptor);
    }
}

impl fmt::Debug for Loan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Loan({} bytes)", self.descriptor.length)
    }
}

/// A received payload, read where its sender wrote it; clones share it.
///
/// The sender could still write to it. A correct one does not before the block is given back, when the last clone is
/// dropped; code that does not trust its peers must copy the bytes before it draws conclusions from them twice.
#[derive(Clone)]
pub struct Block(Arc<Borrowed>);

struct Borrowed {
    bytes: NonNull<u8>,
    descriptor: BlockDescriptor,
    home: Arc<dyn BlockHome>,
}

// SAFETY: a block is read-only, its memory outlives it (promised to `from_raw`), and its home is `Send + Sync`.
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
        // `Arc::new` makes its value on the stack, word by word, and moves it by longer words. Those can only be loaded when
        // the words have left the store buffer, which they do behind the answer to the last block: on its way to a far peer.
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

/// Why no loan could be given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoanError {
    /// Longer than the driver lends at all: send the payload as a slice, or in pieces.
    #[error("a loan of {bytes} bytes is over the limit of {bytes_max}")]
    TooLong {
        /// What was asked for.
        bytes: usize,
        /// The driver's limit.
        bytes_max: usize,
    },
    /// All memory is lent out: wait for peers to give blocks back, or raise the memory of the driver.
    #[error("no memory to lend is left; wait for loans to come back or raise the driver's block memory")]
    Exhausted,
}
