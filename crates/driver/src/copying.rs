//! Copying a long payload into memory that another core reads, and out of it.
//!
//! A core that writes a line first wins it back from the cache of the core that read it last, and the reader fetches it from the
//! writer's cache again. Where two cores are far from one another, that is a tenth of what they could pass through memory,
//! to which a core can also write past its caches: no line is fetched, and no other core is asked for more than to forget
//! what it has. Who copies out of it has to fetch every line in any case; where the copy goes is what makes a difference there.

/// Above some length the C library copies by instructions that fetch every line before they overwrite it, although another
/// core has it.
const COPY_BYTES_MAX: usize = 64 << 10;

/// Copies through this core's caches. Inlined, so that a short copy is no more than that.
///
/// # Panics
/// When the lengths differ.
#[inline]
pub fn copy_through_caches(mut to: &mut [u8], mut from: &[u8]) {
    while from.len() > COPY_BYTES_MAX {
        let (piece, rest) = to.split_at_mut(COPY_BYTES_MAX);
        piece.copy_from_slice(&from[..COPY_BYTES_MAX]);
        (to, from) = (rest, &from[COPY_BYTES_MAX..]);
    }
    to.copy_from_slice(from);
}

/// Copies to memory, past all caches, where the processor can; what is stored afterwards is seen after it. The lines at both
/// ends are not copied so, unless all of them is overwritten.
///
/// # Panics
/// When the lengths differ.
pub fn copy_past_caches(to: &mut [u8], from: &[u8]) {
    assert_eq!(to.len(), from.len(), "all is copied");
    #[cfg(target_arch = "x86_64")]
    {
        let (head, to) = to.split_at_mut(to.as_ptr().align_offset(LINE_BYTES).min(to.len()));
        let (from_head, from) = from.split_at(head.len());
        head.copy_from_slice(from_head);
        let (lines, tail) = to.as_chunks_mut();
        let (from_lines, from_tail) = from.as_chunks();
        stream_lines(lines, from_lines);
        tail.copy_from_slice(from_tail);
    }
    #[cfg(not(target_arch = "x86_64"))]
    copy_through_caches(to, from);
}

/// Bytes in a cache line.
#[cfg(target_arch = "x86_64")]
const LINE_BYTES: usize = 64;

/// Copies aligned lines by stores that go past the caches. What is stored afterwards is seen after them.
#[cfg(target_arch = "x86_64")]
#[expect(unsafe_code, reason = "stores past the caches are intrinsics")]
fn stream_lines(to: &mut [[u8; LINE_BYTES]], from: &[[u8; LINE_BYTES]]) {
    use core::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_sfence, _mm_stream_si128};

    assert!(to.is_empty() || to.as_ptr().addr().is_multiple_of(LINE_BYTES), "whole lines are written");
    // The fence below comes before anything that could tell others of what is written.
    for (to, from) in to.iter_mut().zip(from) {
        let (to, from) = (to.as_mut_ptr().cast::<__m128i>(), from.as_ptr().cast::<__m128i>());
        // SAFETY: a line has four words, `to` is aligned (checked above), and every x86-64 processor has the instructions.
        unsafe {
            let words = [0, 1, 2, 3].map(|word| _mm_loadu_si128(from.add(word)));
            for (word, value) in words.into_iter().enumerate() {
                _mm_stream_si128(to.add(word), value);
            }
        }
    }
    // SAFETY: it only waits. Such stores are in no order with later ones otherwise.
    unsafe { _mm_sfence() };
}

/// Replaces what is in `to` by a copy of some kilobytes from a peer, where `to` was in use a moment ago and most of it lies in this
/// core's nearest cache. C libraries copy so much by an instruction that is made for memory which is in no cache (`rep movsb`); plain
/// vectors take three quarters of its time then, and more than it otherwise.
pub fn copy_to_hot(to: &mut Vec<u8>, from: &[u8]) {
    to.clear();
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx") {
        to.reserve(from.len());
        // SAFETY: the processor has what the function was compiled for.
        #[expect(unsafe_code, reason = "the widest vectors are not everywhere")]
        return unsafe { append_by_vectors(to, from) };
    }
    to.extend_from_slice(from);
}

/// Appends `from` to `to`, which has room for it.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx")]
#[expect(
    unsafe_code,
    reason = "loads and stores of vectors are intrinsics, and the room of a vector has no bytes yet"
)]
fn append_by_vectors(to: &mut Vec<u8>, from: &[u8]) {
    use core::arch::x86_64::{__m256i, _mm256_loadu_si256, _mm256_storeu_si256};

    /// Two lines. A loop that copied one vector at a time would be taken for a `memcpy`, and become one.
    const BLOCK_BYTES: usize = 4 * size_of::<__m256i>();

    let (blocks, rest) = from.as_chunks::<BLOCK_BYTES>();
    let (room, _) = to.spare_capacity_mut().as_chunks_mut::<BLOCK_BYTES>();
    assert!(room.len() >= blocks.len(), "there is room for all");
    for (from, to) in blocks.iter().zip(room) {
        let (from, to) = (from.as_ptr().cast::<__m256i>(), to.as_mut_ptr().cast::<__m256i>());
        // SAFETY: a block has four vectors, which may lie at any address.
        unsafe {
            let (first, second) = (_mm256_loadu_si256(from), _mm256_loadu_si256(from.add(1)));
            let (third, fourth) = (_mm256_loadu_si256(from.add(2)), _mm256_loadu_si256(from.add(3)));
            _mm256_storeu_si256(to, first);
            _mm256_storeu_si256(to.add(1), second);
            _mm256_storeu_si256(to.add(2), third);
            _mm256_storeu_si256(to.add(3), fourth);
        }
    }
    // SAFETY: so many blocks were written.
    unsafe { to.set_len(to.len() + blocks.as_flattened().len()) };
    to.extend_from_slice(rest);
}

/// How bytes are copied into memory that a peer reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    ThroughCaches,
    PastCaches,
}

impl Way {
    #[inline]
    pub fn of(past_caches: bool) -> Self {
        if past_caches { Self::PastCaches } else { Self::ThroughCaches }
    }

    pub fn other(self) -> Self {
        Self::of(self == Self::ThroughCaches)
    }

    /// Copies so.
    ///
    /// # Panics
    /// When the lengths differ.
    #[inline]
    pub fn copy(self, to: &mut [u8], from: &[u8]) {
        match self {
            Self::ThroughCaches => copy_through_caches(to, from),
            Self::PastCaches => copy_past_caches(to, from),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_in_a_buffer_is_replaced_whatever_its_length_was() {
        let mut to = Vec::new();
        for bytes in [10_001, 5000, 0, 255, 256, 257, 20_000] {
            let from: Vec<u8> = (0..bytes).map(|at| (at % 251) as u8 + 1).collect();
            copy_to_hot(&mut to, &from);
            assert_eq!(to, from);
        }
    }

    #[test]
    fn all_is_copied_and_nothing_else_wherever_it_begins_and_ends() {
        let from: Vec<u8> = (0..300_000_u32).map(|at| (at % 251) as u8 + 1).collect();
        for copy in [copy_through_caches, copy_past_caches] {
            for begin in [0, 1, 15, 63, 64, 65] {
                for bytes in [0, 1, 63, 64, 65, 127, 128, 4096, 10_001, 200_000] {
                    let mut to = vec![0; bytes + 300];
                    copy(&mut to[begin..begin + bytes], &from[7..7 + bytes]);
                    assert!(to[..begin].iter().all(|&byte| byte == 0), "{begin} {bytes}");
                    assert_eq!(to[begin..begin + bytes], from[7..7 + bytes], "{begin} {bytes}");
                    assert!(to[begin + bytes..].iter().all(|&byte| byte == 0), "{begin} {bytes}");
                }
            }
        }
    }
}
