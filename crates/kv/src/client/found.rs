//! What reads bring home.

use core::fmt;

use farcall::Payload;

/// An object as it was when it was read.
#[derive(Clone)]
pub struct FoundObject {
    version: u64,
    /// The whole answer, of which the value is a part.
    answer: Payload,
    value: core::ops::Range<usize>,
}

impl FoundObject {
    /// The object whose value is a part of an answer.
    pub(super) fn new(version: u64, answer: Payload, value: core::ops::Range<usize>) -> Self {
        Self { version, answer, value }
    }

    /// Its version.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Its value.
    pub fn value(&self) -> &[u8] {
        &self.answer[self.value.clone()]
    }
}

impl fmt::Debug for FoundObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FoundObject(version {}, {} bytes)", self.version, self.value.len())
    }
}
