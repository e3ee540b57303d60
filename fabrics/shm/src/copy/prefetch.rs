//! Prefetching lines that are written soon.
//!
//! A store to a line that another core has read waits until this core has exclusive ownership, and stores
//! become visible in order: one such line holds up all that follow. Lines that were prefetched for ownership
//! are there when they are written.

/// Bytes in a cache line.
const LINE_BYTES: usize = 64;

/// Prefetches the lines of `bytes` for ownership. Costs little, promises nothing.
#[inline]
pub fn prefetch_for_ownership(bytes: *const [u8]) {
    let mut at = 0;
    while at < bytes.len() {
        let line = bytes.cast::<u8>().wrapping_add(at);
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a prefetch has no effect that a program can see, whatever the address, and every 64-bit
        // processor takes the instruction (at worst as a no-op). The intrinsic asks for a shared copy, which
        // does not help.
        unsafe {
            core::arch::asm!("prefetchw [{}]", in(reg) line, options(nostack, preserves_flags));
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = line;
        at += LINE_BYTES;
    }
}
