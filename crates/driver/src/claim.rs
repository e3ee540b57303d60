//! Fetching memory before it is read or written.
//!
//! A store to a line that another core has read waits until that core has let go of it, and stores become visible in
//! order: one such line holds up all that follow. Lines that were claimed before are there when they are written.

/// Bytes in a cache line.
const LINE_BYTES: usize = 64;

/// What is worth fetching at once: more lines than a core can have under way are of no use.
pub const FETCH_BYTES_MAX: usize = 16 * LINE_BYTES;

/// Starts to fetch the lines of `bytes` for writing. Costs little, promises nothing.
#[inline]
#[cfg_attr(
    target_arch = "x86_64",
    expect(unsafe_code, reason = "the prefetch intrinsics ask for a shared copy, which does not help")
)]
pub fn claim_lines(bytes: *const [u8]) {
    let mut at = 0;
    while at < bytes.len() {
        let line = bytes.cast::<u8>().wrapping_add(at);
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a prefetch has no effect that a program can see, whatever the address, and every 64-bit processor takes the
        // instruction (at worst as a no-op).
        unsafe {
            core::arch::asm!("prefetchw [{}]", in(reg) line, options(nostack, preserves_flags));
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = line;
        at += LINE_BYTES;
    }
}

/// Starts to fetch the lines of `bytes` for reading: their transfers overlap instead of following each other. Costs little, promises
/// nothing.
#[inline(always)]
pub fn prefetch_lines(bytes: *const [u8]) {
    let mut at = 0;
    while at < bytes.len() {
        prefetch_line(bytes.cast::<u8>().wrapping_add(at));
        at += LINE_BYTES;
    }
}

/// Starts to fetch the line of a byte for reading.
#[inline(always)]
#[cfg_attr(target_arch = "x86_64", expect(unsafe_code, reason = "prefetching is an intrinsic"))]
pub fn prefetch_line(byte: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch has no effect that a program can see, whatever the address.
    unsafe {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(byte.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = byte;
}
