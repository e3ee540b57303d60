//! The two kinds of stores by which a long payload is copied into memory that another core reads.
//!
//! A core that writes a line with a cached store first takes ownership of it from the core that read it
//! last, and the reader fetches it from the writer's cache again. Between cores of different L3 caches that
//! is a tenth of what they can pass through memory, to which a non-temporal store writes without fetching a
//! line.

/// Above some length the C library copies by instructions that fetch every line before they overwrite it,
/// although another core has it.
const COPY_BYTES_MAX: usize = 64 << 10;

/// Copies by cached stores. Inlined, so that a short copy is no more than that.
///
/// # Panics
/// When the lengths differ.
#[inline]
pub fn copy_cached(mut to: &mut [u8], mut from: &[u8]) {
    while from.len() > COPY_BYTES_MAX {
        let (piece, rest) = to.split_at_mut(COPY_BYTES_MAX);
        piece.copy_from_slice(&from[..COPY_BYTES_MAX]);
        (to, from) = (rest, &from[COPY_BYTES_MAX..]);
    }
    to.copy_from_slice(from);
}

/// Copies by non-temporal stores, where the processor has them; what is stored afterwards is seen after it.
/// Lines at both ends that are only overwritten in part are copied by cached stores.
///
/// # Panics
/// When the lengths differ.
pub fn copy_nontemporal(to: &mut [u8], from: &[u8]) {
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
    copy_cached(to, from);
}

/// Bytes in a cache line.
#[cfg(target_arch = "x86_64")]
const LINE_BYTES: usize = 64;

/// Copies aligned lines by non-temporal stores. What is stored afterwards is seen after them.
#[cfg(target_arch = "x86_64")]
fn stream_lines(to: &mut [[u8; LINE_BYTES]], from: &[[u8; LINE_BYTES]]) {
    use core::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_sfence, _mm_stream_si128};

    assert!(to.is_empty() || to.as_ptr().addr().is_multiple_of(LINE_BYTES), "whole lines are written");
    // The fence below comes before anything that could tell others of what is written.
    for (to, from) in to.iter_mut().zip(from) {
        let (to, from) = (to.as_mut_ptr().cast::<__m128i>(), from.as_ptr().cast::<__m128i>());
        // SAFETY: a line has four words, `to` is aligned (checked above), and every x86-64 processor has the
        // instructions.
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

/// By which stores bytes are copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stores {
    /// Cached stores.
    Cached,
    /// Non-temporal stores.
    NonTemporal,
}

impl Stores {
    /// Non-temporal ones or not.
    #[inline]
    pub fn of(nontemporal: bool) -> Self {
        if nontemporal { Self::NonTemporal } else { Self::Cached }
    }

    /// The others.
    pub fn other(self) -> Self {
        Self::of(self == Self::Cached)
    }

    /// Copies by these.
    ///
    /// # Panics
    /// When the lengths differ.
    #[inline]
    pub fn copy(self, to: &mut [u8], from: &[u8]) {
        match self {
            Self::Cached => copy_cached(to, from),
            Self::NonTemporal => copy_nontemporal(to, from),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_is_copied_and_nothing_else_wherever_it_begins_and_ends() {
        let from: Vec<u8> = (0..300_000_u32).map(|at| (at % 251) as u8 + 1).collect();
        for copy in [copy_cached, copy_nontemporal] {
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
