//! Memory on loan: what this process may write and a driver can send without a copy.

use core::fmt;
use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;
use std::sync::Arc;

use crate::BlockDescriptor;

/// Where a loan's memory lives. Implemented by drivers.
pub trait LoanHome: Send + Sync {
    /// The loan at `descriptor` was dropped unsent.
    fn reclaim(&self, descriptor: BlockDescriptor);
}

/// Memory on loan from a driver: writable here, and sent without a copy.
///
/// A pointer: a short message feels what is moved about word by word, because it is read back by wider loads,
/// with a wait.
pub struct Loan(
    /// Nothing once it is lent on.
    Option<Box<Lent>>,
);

struct Lent {
    bytes: NonNull<u8>,
    descriptor: BlockDescriptor,
    /// How much memory there is, of which the descriptor may name a part.
    room_bytes: usize,
    home: Arc<dyn LoanHome>,
}

/// What is left of a loan that was lent on: where to put the next one, of the same home.
pub(crate) struct LoanRecord(Box<Lent>);

// SAFETY: a loan is the only way to its bytes in this process (promised to `from_raw`), and its home is
// `Send + Sync`.
#[expect(unsafe_code, reason = "the loan of a driver's memory is what this type is for")]
unsafe impl Send for Lent {}

// SAFETY: shared access gives only `&[u8]`.
#[expect(unsafe_code, reason = "the loan of a driver's memory is what this type is for")]
unsafe impl Sync for Lent {}

impl Loan {
    /// Lends the memory that `descriptor` names.
    ///
    /// # Safety
    /// `bytes` must be readable and writable for `descriptor.length` bytes, initialised, and reachable in
    /// this process through this loan only, until it is sent or dropped; `home` must keep it mapped.
    #[expect(unsafe_code, reason = "the loan of a driver's memory is what this type is for")]
    pub unsafe fn from_raw(bytes: NonNull<u8>, descriptor: BlockDescriptor, home: Arc<dyn LoanHome>) -> Self {
        Self(Some(Box::new(Lent { bytes, descriptor, room_bytes: descriptor.length as usize, home })))
    }

    /// As [`Loan::from_raw`] with the home of a loan that was lent on.
    ///
    /// # Safety
    /// As of [`Loan::from_raw`].
    #[expect(unsafe_code, reason = "the loan of a driver's memory is what this type is for")]
    pub(crate) unsafe fn from_raw_in(
        record: LoanRecord,
        bytes: NonNull<u8>,
        descriptor: BlockDescriptor,
    ) -> Self {
        let LoanRecord(mut lent) = record;
        (lent.bytes, lent.descriptor, lent.room_bytes) = (bytes, descriptor, descriptor.length as usize);
        Self(Some(lent))
    }

    /// Shortens the loan to its first `length` bytes: what will be sent.
    ///
    /// # Panics
    /// When it is shorter than that already.
    pub fn truncate(&mut self, length: usize) {
        let lent = self.lent_mut();
        assert!(length as u64 <= lent.descriptor.length, "a loan cannot grow");
        lent.descriptor.length = length as u64;
    }

    /// How much memory there is, however much of it will be sent.
    #[inline]
    pub(crate) fn room_bytes(&self) -> usize {
        self.lent().room_bytes
    }

    /// Begins the loan anew, with so many bytes of its memory.
    #[inline]
    pub(crate) fn renew(&mut self, bytes: usize) {
        let lent = self.lent_mut();
        assert!(bytes <= lent.room_bytes, "a loan has no more memory than it was given");
        lent.descriptor.length = bytes as u64;
    }

    /// Where it lies; for drivers.
    pub fn descriptor(&self) -> BlockDescriptor {
        self.lent().descriptor
    }

    /// Whether the memory is of the given home; for drivers.
    #[inline]
    pub fn is_of(&self, home: &Arc<dyn LoanHome>) -> bool {
        Arc::ptr_eq(&self.lent().home, home)
    }

    /// Ends the loan without giving the memory back, which the driver lends on to a peer.
    pub(crate) fn lend_on(mut self) -> (BlockDescriptor, LoanRecord) {
        let lent = self.0.take().expect(LENT_ON_ONCE);
        (lent.descriptor, LoanRecord(lent))
    }

    #[inline]
    fn lent(&self) -> &Lent {
        self.0.as_deref().expect(LENT_ON_ONCE)
    }

    #[inline]
    fn lent_mut(&mut self) -> &mut Lent {
        self.0.as_deref_mut().expect(LENT_ON_ONCE)
    }
}

const LENT_ON_ONCE: &str = "a loan is there until it is lent on";

impl Deref for Loan {
    type Target = [u8];

    #[inline]
    #[expect(unsafe_code, reason = "the loan of a driver's memory is what this type is for")]
    fn deref(&self) -> &[u8] {
        let lent = self.lent();
        // SAFETY: promised to `from_raw`, for at least as many bytes.
        unsafe { core::slice::from_raw_parts(lent.bytes.as_ptr(), lent.descriptor.length as usize) }
    }
}

impl DerefMut for Loan {
    #[inline]
    #[expect(unsafe_code, reason = "the loan of a driver's memory is what this type is for")]
    fn deref_mut(&mut self) -> &mut [u8] {
        let lent = self.lent_mut();
        // SAFETY: promised to `from_raw`, for at least as many bytes; `&mut self` makes the access exclusive.
        unsafe { core::slice::from_raw_parts_mut(lent.bytes.as_ptr(), lent.descriptor.length as usize) }
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        if let Some(lent) = &self.0 {
            lent.home.reclaim(lent.descriptor);
        }
    }
}

impl fmt::Debug for Loan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Loan({} bytes)", self.len())
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
