//! A record where its reader finds it: in memory that somebody else can write to.

use core::marker::PhantomData;
use core::ptr::slice_from_raw_parts;

use crate::prefetch_lines;

const WORD_BYTES: usize = size_of::<u64>();

/// A published record without the lane's own header, read in the memory that the peer wrote.
///
/// A hostile peer can still write there, unless the driver has copied the record. So it is known by a
/// pointer, not by a reference: words are read exactly once, by volatile loads, and whatever decides about
/// bounds must be such a word, checked afterwards. Only payloads are given out as references, at the edge, to
/// code that reads them in place; see [`Record::slice`].
#[derive(Clone, Copy)]
pub struct Record<'a> {
    /// A multiple of eight.
    start: *const u8,
    bytes: usize,
    memory: PhantomData<&'a [u8]>,
}

impl<'a> Record<'a> {
    /// Wraps the bytes of a record that nobody writes to; their address must be a multiple of eight
    /// (checked).
    pub fn new(bytes: &'a [u8]) -> Self {
        assert!(bytes.as_ptr().addr().is_multiple_of(WORD_BYTES), "records are aligned");
        Self { start: bytes.as_ptr(), bytes: bytes.len(), memory: PhantomData }
    }

    /// A record in memory that a peer may write to.
    ///
    /// # Safety
    /// `start` is a multiple of eight, and the `bytes` bytes from there on are readable as long as `'a`.
    #[inline]
    #[expect(unsafe_code, reason = "the driver promises what its memory is")]
    pub unsafe fn from_raw(start: *const u8, bytes: usize) -> Self {
        debug_assert!(start.addr().is_multiple_of(WORD_BYTES), "records are aligned");
        Self { start, bytes, memory: PhantomData }
    }

    /// Bytes in the record.
    #[inline]
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Whether the record has no bytes at all.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// The eight bytes at `at` as a little-endian number, read exactly once; `None` past the end.
    ///
    /// # Panics
    /// When `at` is not a multiple of eight.
    #[inline(always)]
    #[expect(unsafe_code, reason = "a volatile read is the only one that the compiler may not repeat")]
    pub fn word(&self, at: usize) -> Option<u64> {
        assert!(at.is_multiple_of(WORD_BYTES), "words are aligned");
        if at.checked_add(WORD_BYTES)? > self.bytes {
            return None;
        }
        // SAFETY: the eight bytes are inside the record (checked), and aligned, as the record is.
        Some(u64::from_le(unsafe { self.start.add(at).cast::<u64>().read_volatile() }))
    }

    /// What begins at `at`, to be read from its front; nothing past the end, or between two words.
    #[inline]
    pub fn rest(&self, at: usize) -> Words<'a> {
        let (start, memory) = (self.start.wrapping_add(at), PhantomData);
        let bytes = if at.is_multiple_of(WORD_BYTES) { self.bytes.saturating_sub(at) } else { 0 };
        Words { start, bytes, memory }
    }

    /// The `length` bytes at `at`, in place; `None` past the end.
    ///
    /// The compiler takes what a reference leads to for unchanging, and a hostile peer may change it. It can
    /// only garble its own message: no bound is read from there.
    #[inline]
    #[expect(unsafe_code, reason = "payloads are read in place")]
    pub fn slice(&self, at: usize, length: usize) -> Option<&'a [u8]> {
        let end = at.checked_add(length)?;
        // SAFETY: inside the record (checked), which is readable as long as `'a`.
        (end <= self.bytes).then(|| unsafe { core::slice::from_raw_parts(self.start.add(at), length) })
    }

    /// Starts to fetch the lines of a part of the record, as far as it is there.
    #[inline]
    pub fn prefetch(&self, part: core::ops::Range<usize>) {
        let end = part.end.min(self.bytes);
        if part.start < end {
            prefetch_lines(slice_from_raw_parts(self.start.wrapping_add(part.start), end - part.start));
        }
    }
}

/// The rest of a record, to be read from its front: one bound for each part, where places in a [`Record`]
/// have two or three.
#[derive(Clone, Copy)]
pub struct Words<'a> {
    /// A multiple of eight, if there are any bytes.
    start: *const u8,
    bytes: usize,
    memory: PhantomData<&'a [u8]>,
}

impl<'a> Words<'a> {
    /// How many bytes there are.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Whether there is nothing.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Starts to fetch so many bytes, or what there is.
    #[inline(always)]
    pub fn prefetch(&self, bytes: usize) {
        prefetch_lines(slice_from_raw_parts(self.start, bytes.min(self.bytes)));
    }

    /// The first word as a little-endian number, read exactly once, and what comes behind it.
    #[inline(always)]
    #[expect(unsafe_code, reason = "a volatile read is the only one that the compiler may not repeat")]
    pub fn split_word(self) -> Option<(u64, Self)> {
        let bytes = self.bytes.checked_sub(WORD_BYTES)?;
        // SAFETY: the eight bytes are there (checked), and aligned, as what is left begins at a word.
        let (word, start) = unsafe { (self.start.cast::<u64>().read_volatile(), self.start.add(WORD_BYTES)) };
        Some((u64::from_le(word), Self { start, bytes, memory: PhantomData }))
    }

    /// So many bytes in place, and what comes behind the words that they are in; `None` when those are not
    /// all there. What is said at [`Record::slice`] holds.
    #[inline(always)]
    #[expect(unsafe_code, reason = "payloads are read in place")]
    pub fn split_bytes(self, length: usize) -> Option<(&'a [u8], Self)> {
        let taken = length.checked_add(WORD_BYTES - 1)? & !(WORD_BYTES - 1);
        let bytes = self.bytes.checked_sub(taken)?;
        // SAFETY: as many bytes are there (checked); a length that was rounded up is none the less, and the
        // sum did not wrap.
        let (payload, start) =
            unsafe { (core::slice::from_raw_parts(self.start, length), self.start.add(taken)) };
        Some((payload, Self { start, bytes, memory: PhantomData }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three words and two bytes, in memory that is aligned.
    fn with_record(look: impl FnOnce(Record<'_>)) {
        #[repr(align(8))]
        struct Aligned([u8; 26]);
        let mut bytes = Aligned([0; 26]);
        for (at, byte) in bytes.0.iter_mut().enumerate() {
            *byte = at as u8;
        }
        look(Record::new(&bytes.0));
    }

    #[test]
    fn a_rest_is_read_from_its_front() {
        with_record(|record| {
            let (word, rest) = record.rest(0).split_word().expect("there is one");
            assert_eq!((Some(word), rest.len()), (record.word(0), 18));
            let (bytes, rest) = rest.split_bytes(5).expect("they are there");
            assert_eq!((bytes, rest.len()), (&[8, 9, 10, 11, 12][..], 10));
            let (word, rest) = rest.split_word().expect("there is one");
            assert_eq!((Some(word), rest.len()), (record.word(16), 2));
            assert!(rest.split_word().is_none() && !rest.is_empty());
        });
    }

    #[test]
    fn what_is_not_there_whole_is_not_there() {
        with_record(|record| {
            assert_eq!(record.rest(8).split_bytes(16).map(|(bytes, _)| bytes.len()), Some(16));
            assert!(record.rest(8).split_bytes(17).is_none(), "the third word is cut short");
            assert!(record.rest(8).split_bytes(usize::MAX).is_none());
            assert!(record.rest(24).split_word().is_none());
            assert!(record.rest(26).is_empty() && record.rest(32).is_empty());
            assert!(record.rest(4).is_empty(), "words are aligned");
        });
    }

    #[test]
    fn words_and_bytes_end_with_the_record() {
        with_record(|record| {
            assert_eq!(record.len(), 26);
            assert_eq!(record.word(16), Some(u64::from_le_bytes([16, 17, 18, 19, 20, 21, 22, 23])));
            assert_eq!((record.word(24), record.word(usize::MAX - 7)), (None, None));
            assert_eq!(record.slice(24, 2), Some(&[24, 25][..]));
            assert_eq!((record.slice(24, 3), record.slice(1, usize::MAX)), (None, None));
        });
    }
}
