//! Memory for large data that is accessed everywhere: one range of addresses, in huge pages where the system
//! has them.
//!
//! Random accesses to ordinary pages pay for the translation of the address as well as for the line, and on
//! virtual machines for the translation of the translation.

use core::ops::{Deref, DerefMut, Range};
use core::ptr::NonNull;
use std::io;

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

/// Bytes of a huge page. The start is a multiple of it, or the system could not use any.
const HUGE_PAGE_BYTES: usize = 2 << 20;

/// Private memory of zero bytes. The system provides a page when something is first written to it.
#[derive(Debug)]
pub struct Reserve {
    /// What was mapped: so much that an aligned range lies in it.
    mapped: NonNull<u8>,
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the memory belongs to this value alone, and is reached by the rules of references only.
#[expect(unsafe_code, reason = "memory of our own from the system")]
unsafe impl Send for Reserve {}
// SAFETY: as above.
#[expect(unsafe_code, reason = "memory of our own from the system")]
unsafe impl Sync for Reserve {}

impl Reserve {
    /// This many bytes of zero; an error when the system says that it will not have them.
    pub fn new(bytes: usize) -> io::Result<Self> {
        let mapped_bytes = bytes.checked_add(HUGE_PAGE_BYTES).ok_or(io::ErrorKind::OutOfMemory)?;
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a fresh private mapping at an address of the kernel's choice touches no memory of ours.
        #[expect(unsafe_code, reason = "memory of our own from the system")]
        let mapped =
            unsafe { mmap_anonymous(core::ptr::null_mut(), mapped_bytes, protection, MapFlags::PRIVATE)? };
        let mapped =
            NonNull::new(mapped.cast::<u8>()).ok_or_else(|| io::Error::other("mapped at address zero"))?;
        let offset = mapped.align_offset(HUGE_PAGE_BYTES);
        // SAFETY: the offset is less than a huge page, by which the mapping is longer.
        #[expect(unsafe_code, reason = "memory of our own from the system")]
        let start = unsafe { mapped.add(offset) };
        let reserve = Self { mapped, start, bytes };
        // Systems without huge pages say so here; ordinary pages do as well.
        let _refused = reserve.advise(0..bytes, Advice::LinuxHugepage);
        Ok(reserve)
    }

    /// Gives the memory of a range back to the system until it is next written to. What it holds is lost.
    ///
    /// # Panics
    /// When the range leaves the memory, or is not of whole pages.
    pub fn give_back(&mut self, range: Range<usize>) {
        const PAGE_BYTES: usize = 4096;
        assert!(range.start.is_multiple_of(PAGE_BYTES) && range.end.is_multiple_of(PAGE_BYTES));
        let _refused = self.advise(range, Advice::LinuxDontNeed);
    }

    fn advise(&self, range: Range<usize>, advice: Advice) -> rustix::io::Result<()> {
        let part = &self[range];
        // SAFETY: the range is our own private memory. Neither kind of advice given here makes any of it
        // inaccessible; that it is not needed makes it zero, while it is borrowed by `give_back` alone.
        #[expect(unsafe_code, reason = "advice about memory of our own")]
        unsafe {
            madvise(part.as_ptr().cast_mut().cast(), part.len(), advice)
        }
    }
}

impl Deref for Reserve {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: that many bytes from `start` on are mapped until the drop, initialised by the system with
        // zeros, and written through `deref_mut` only.
        #[expect(unsafe_code, reason = "memory of our own from the system")]
        unsafe {
            core::slice::from_raw_parts(self.start.as_ptr(), self.bytes)
        }
    }
}

impl DerefMut for Reserve {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`; the memory is borrowed as this value is.
        #[expect(unsafe_code, reason = "memory of our own from the system")]
        unsafe {
            core::slice::from_raw_parts_mut(self.start.as_ptr(), self.bytes)
        }
    }
}

impl Drop for Reserve {
    fn drop(&mut self) {
        // SAFETY: the range is ours since `new`, and nothing borrows from it any more.
        #[expect(unsafe_code, reason = "memory of our own from the system")]
        let outcome = unsafe { munmap(self.mapped.as_ptr().cast(), self.bytes + HUGE_PAGE_BYTES) };
        debug_assert!(outcome.is_ok(), "unmapping a mapping of ours cannot fail");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_zero_keeps_what_is_written_and_forgets_what_is_given_back() {
        let bytes = HUGE_PAGE_BYTES + 3 * 4096;
        let mut memory = Reserve::new(bytes).expect("some memory");
        assert!(memory.len() == bytes && memory.as_ptr().addr().is_multiple_of(HUGE_PAGE_BYTES));
        assert!(memory.iter().all(|&byte| byte == 0));
        memory.fill(7);
        memory.give_back(4096..8192);
        assert!(memory[..4096].iter().chain(&memory[8192..]).all(|&byte| byte == 7));
        memory[4096..8192].fill(8);
        assert!(memory[4096..8192].iter().all(|&byte| byte == 8));
    }

    #[test]
    fn more_than_addresses_reach_is_an_error() {
        assert!(Reserve::new(usize::MAX).is_err() && Reserve::new(1 << 60).is_err());
    }
}
