//! The two ways to copy a chunk into memory that another core reads: by cached and by non-temporal stores.

/// Above some length the C library fetches every line before it overwrites it, although another core has it.
const PIECE_BYTES: usize = 64 << 10;

/// Copies by cached stores.
pub(crate) fn copy_cached(to: &mut [u8], from: &[u8]) {
    for (to, from) in to.chunks_mut(PIECE_BYTES).zip(from.chunks(PIECE_BYTES)) {
        to.copy_from_slice(from);
    }
}

/// Copies by non-temporal stores, where the processor has them; what is stored afterwards is seen after it.
#[cfg(target_arch = "x86_64")]
#[expect(unsafe_code, reason = "non-temporal stores are intrinsics")]
pub(crate) fn copy_nontemporal(to: &mut [u8], from: &[u8]) {
    use core::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_sfence, _mm_stream_si128};

    assert_eq!(to.len(), from.len(), "all is copied");
    let head_bytes = to.as_ptr().align_offset(size_of::<[__m128i; 4]>()).min(to.len());
    let (head, to) = to.split_at_mut(head_bytes);
    head.copy_from_slice(&from[..head_bytes]);
    let (lines, tail) = to.as_chunks_mut::<{ size_of::<[__m128i; 4]>() }>();
    let (from_lines, from_tail) = from[head_bytes..].as_chunks::<{ size_of::<[__m128i; 4]>() }>();
    for (to, from) in lines.iter_mut().zip(from_lines) {
        let (to, from): (*mut __m128i, *const __m128i) = (to.as_mut_ptr().cast(), from.as_ptr().cast());
        // SAFETY: a line has four words, `to` is aligned, since the head ends where a line begins, and every
        // x86-64 processor has the instructions.
        unsafe {
            let words = [0, 1, 2, 3].map(|word| _mm_loadu_si128(from.add(word)));
            words.into_iter().enumerate().for_each(|(word, value)| _mm_stream_si128(to.add(word), value));
        }
    }
    tail.copy_from_slice(from_tail);
    // SAFETY: it only waits. Such stores are in no order with later ones otherwise.
    unsafe { _mm_sfence() };
}

/// Copies by cached stores, which are all that is known of this processor.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn copy_nontemporal(to: &mut [u8], from: &[u8]) {
    copy_cached(to, from);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_is_copied_and_nothing_else_wherever_it_begins_and_ends() {
        let from: Vec<u8> = (0..200_000_u32).map(|at| (at % 251) as u8 + 1).collect();
        for copy in [copy_cached, copy_nontemporal] {
            for (begin, bytes) in [(0, 0), (1, 1), (15, 63), (63, 64), (64, 65), (65, 4096), (7, 150_000)] {
                let mut to = vec![0; bytes + 200];
                copy(&mut to[begin..begin + bytes], &from[..bytes]);
                assert!(to[begin..begin + bytes] == from[..bytes], "{bytes} at {begin}");
                assert_eq!(to.iter().filter(|&&byte| byte == 0).count(), 200, "{bytes} at {begin}");
            }
        }
    }
}
