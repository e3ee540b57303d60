//! Prefetching memory that is read soon, so that the transfers of its lines overlap.

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
