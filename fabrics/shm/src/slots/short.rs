//! Messages that share a cache line with their header.

pub(super) const WORD_BYTES: usize = 8;

/// Words of a message that share a line with its header, which is one more.
pub(super) const LINE_WORDS: usize = 7;

/// The longest message that shares a line with its header, in bytes.
pub const SHORT_BYTES_MAX: usize = LINE_WORDS * WORD_BYTES;

/// A message of at most [`SHORT_BYTES_MAX`] bytes. It is copied with the rest of its line, whatever its length: a loop
/// that counts is a branch that processors guess wrong when lengths change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ShortMessage {
    words: [[u8; WORD_BYTES]; LINE_WORDS],
    length: u8,
}

impl ShortMessage {
    /// A message with these bytes; `None` when they are too many.
    pub fn new(bytes: &[u8]) -> Option<Self> {
        let mut words = [[0; WORD_BYTES]; LINE_WORDS];
        words.as_flattened_mut().get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(Self { words, length: bytes.len() as u8 })
    }

    /// The bytes.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.words.as_flattened()[..self.length.into()]
    }

    /// The words of its line, of which some may be no message.
    #[inline]
    pub(super) fn words(&self) -> &[[u8; WORD_BYTES]; LINE_WORDS] {
        &self.words
    }
}
