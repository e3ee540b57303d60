//! A record where its reader finds it: in memory that somebody else can write to.

use crate::prefetch_lines;

/// A published record without the lane's own header, read in the memory that the peer wrote.
///
/// A hostile peer can still write there. Whatever decides about bounds must be read with [`Record::word`],
/// which reads memory exactly once, and then be checked.
#[derive(Clone, Copy)]
pub struct Record<'a> {
    bytes: &'a [u8],
}

impl<'a> Record<'a> {
    /// Wraps the bytes of a record; their address must be a multiple of eight (checked).
    pub fn new(bytes: &'a [u8]) -> Self {
        assert!(bytes.as_ptr().addr().is_multiple_of(8), "records are aligned");
        Self { bytes }
    }

    /// Bytes in the record.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether the record has no bytes at all.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The eight bytes at `at` as a little-endian number, read exactly once; `None` past the end.
    ///
    /// # Panics
    /// When `at` is not a multiple of eight.
    #[inline(always)]
    pub fn word(&self, at: usize) -> Option<u64> {
        assert!(at.is_multiple_of(8), "words are aligned");
        self.rest(at).split_word().map(|(word, _)| word)
    }

    /// What begins at `at`, to be read from its front; nothing past the end, or between two words.
    #[inline]
    pub fn rest(&self, at: usize) -> Words<'a> {
        let bytes = if at.is_multiple_of(8) { self.bytes.get(at..) } else { None };
        Words { bytes: bytes.unwrap_or(&[]) }
    }

    /// The `length` bytes at `at`, in place; `None` past the end.
    #[inline]
    pub fn slice(&self, at: usize, length: usize) -> Option<&'a [u8]> {
        self.bytes.get(at..at.checked_add(length)?)
    }
}

/// The rest of a record, to be read from its front: one bound for each part, where places in a [`Record`]
/// have two or three.
#[derive(Clone, Copy)]
pub struct Words<'a> {
    /// Begins at a multiple of eight, or is empty.
    bytes: &'a [u8],
}

impl<'a> Words<'a> {
    /// How many bytes there are.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether there is nothing.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Starts to fetch so many bytes, or what there is.
    #[inline(always)]
    pub fn prefetch(&self, bytes: usize) {
        prefetch_lines(&self.bytes[..bytes.min(self.bytes.len())]);
    }

    /// The first word as a little-endian number, read exactly once, and what comes behind it.
    #[inline(always)]
    #[expect(unsafe_code, reason = "a volatile read is the only one that the compiler may not repeat")]
    pub fn split_word(self) -> Option<(u64, Self)> {
        let (first, bytes) = self.bytes.split_first_chunk::<8>()?;
        // SAFETY: the eight bytes are inside the slice, and aligned because it is.
        let word = unsafe { first.as_ptr().cast::<u64>().read_volatile() };
        Some((u64::from_le(word), Self { bytes }))
    }

    /// So many bytes in place, and what comes behind the words that they are in; `None` when those are not
    /// all there.
    #[inline(always)]
    #[expect(unsafe_code, reason = "the second of two bounds, which the first one implies")]
    pub fn split_bytes(self, length: usize) -> Option<(&'a [u8], Self)> {
        let (bytes, rest) = self.bytes.split_at_checked(length.checked_add(7)? & !7)?;
        // SAFETY: a length that was rounded up is none the less, and the sum did not wrap.
        let bytes = unsafe { bytes.get_unchecked(..length) };
        Some((bytes, Self { bytes: rest }))
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
