//! Memory that both sides of a measurement use.

#![expect(unsafe_code, reason = "memory that two threads write in turn cannot be a Rust slice")]

use core::ptr::NonNull;
use core::sync::atomic::AtomicU64;

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

use crate::LimitError;

/// A cache line.
#[cfg(target_arch = "x86_64")]
pub(crate) const LINE_BYTES: usize = 64;

/// Lines that the prefetcher fetches together: what must not be disturbed by another word keeps this
/// distance.
pub(crate) const LINE_PAIR_BYTES: usize = 128;

/// A zeroed, page-aligned mapping, present in memory from the start and shared as between processes.
pub(crate) struct SharedMemory {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the mapping belongs to this value alone and is only reached through atomics or through raw
// pointers, whose users promise to keep the two sides apart.
unsafe impl Send for SharedMemory {}
// SAFETY: as above.
unsafe impl Sync for SharedMemory {}

impl SharedMemory {
    /// Maps at least `bytes` bytes.
    pub(crate) fn new(bytes: usize) -> Result<Self, LimitError> {
        let bytes = bytes.max(1).next_multiple_of(4096);
        let refused = |reason: String| LimitError::Memory { bytes, reason };
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a fresh mapping at an address that the kernel chooses touches no existing memory.
        let start = unsafe {
            mmap_anonymous(core::ptr::null_mut(), bytes, access, MapFlags::SHARED | MapFlags::POPULATE)
        }
        .map_err(|error| refused(error.to_string()))?;
        let start = NonNull::new(start.cast()).ok_or_else(|| refused("mapped at address zero".to_owned()))?;
        Ok(Self { start, bytes })
    }

    /// The word at `offset`, a multiple of 8.
    pub(crate) fn word(&self, offset: usize) -> &AtomicU64 {
        assert!(offset.is_multiple_of(8) && offset + 8 <= self.bytes, "the word lies in the mapping");
        // SAFETY: in bounds and aligned (just checked), zeroed by the kernel, and mapped as long as `self` is
        // borrowed.
        unsafe { AtomicU64::from_ptr(self.start.as_ptr().add(offset).cast()) }
    }

    /// The `bytes` bytes at `offset`. Using them is the caller's responsibility.
    pub(crate) fn bytes_at(&self, offset: usize, bytes: usize) -> *mut u8 {
        assert!(offset + bytes <= self.bytes, "the bytes lie in the mapping");
        // SAFETY: within the mapping, just checked.
        unsafe { self.start.as_ptr().add(offset) }
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `new` with this length, and no borrow of it is left.
        let outcome = unsafe { munmap(self.start.as_ptr().cast(), self.bytes) };
        debug_assert!(outcome.is_ok(), "a mapping of ours can be unmapped");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::sync::atomic::Ordering;

    #[test]
    fn memory_is_zeroed_and_shared_by_reference() {
        let memory = SharedMemory::new(5000).expect("memory can be mapped");
        assert_eq!(memory.word(4992).load(Ordering::Relaxed), 0);
        std::thread::scope(|scope| scope.spawn(|| memory.word(8).store(7, Ordering::Relaxed)).join())
            .expect("the thread ends");
        assert_eq!(memory.word(8).load(Ordering::Relaxed), 7);
    }

    #[test]
    #[should_panic(expected = "the word lies in the mapping")]
    fn a_word_beyond_the_mapping_is_refused() {
        SharedMemory::new(4096).expect("memory can be mapped").word(4096);
    }
}
