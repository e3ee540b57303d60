//! Copying a message out of memory that another core wrote, into a buffer.

/// Replaces what is in `to` by a copy of some kilobytes from a peer, where `to` was in use a moment ago and
/// most of it lies in this core's nearest cache. C libraries copy so much by an instruction that is made for
/// memory which is in no cache (`rep movsb`); plain vectors take three quarters of its time then, and more
/// than it otherwise.
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
}
