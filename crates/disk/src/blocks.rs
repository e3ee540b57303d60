//! Memory that a disk can transfer from and to: it begins at an address that is a multiple of a block.

use core::ops::{Deref, DerefMut};

use crate::BLOCK_BYTES;

/// Bytes that grow at their end, as a vector does, and begin at a multiple of [`BLOCK_BYTES`].
#[derive(Default)]
pub struct Blocks {
    /// A block longer than what it holds, so that an aligned start lies in it.
    memory: Vec<u8>,
    start: usize,
    bytes: usize,
    /// The most bytes that it has held in this memory: those behind are zero.
    held: usize,
}

impl Blocks {
    /// None yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// This many bytes of zero.
    pub fn zeroed(bytes: usize) -> Self {
        let mut blocks = Self::new();
        blocks.resize(bytes);
        blocks
    }

    /// Makes it longer, by zeros, or shorter.
    pub fn resize(&mut self, bytes: usize) {
        self.reserve(bytes);
        if let stale @ 1.. = self.held.min(bytes).saturating_sub(self.bytes) {
            let from = self.start + self.bytes;
            self.memory[from..from + stale].fill(0);
        }
        self.end_at(bytes);
    }

    fn end_at(&mut self, bytes: usize) {
        self.bytes = bytes;
        self.held = self.held.max(bytes);
    }

    /// Appends bytes.
    #[inline]
    pub fn extend_from_slice(&mut self, bytes: &[u8]) {
        let end = self.bytes + bytes.len();
        self.reserve(end);
        self.memory[self.start + self.bytes..self.start + end].copy_from_slice(bytes);
        self.end_at(end);
    }

    /// Fills the last block with zeros.
    pub fn pad(&mut self) {
        self.resize(self.bytes.next_multiple_of(BLOCK_BYTES));
    }

    /// Makes room for this many bytes in all. Memory that moves keeps its alignment.
    fn reserve(&mut self, bytes: usize) {
        if self.start + bytes <= self.memory.len() {
            return;
        }
        let capacity = bytes.next_power_of_two().max(BLOCK_BYTES);
        let mut memory = vec![0; capacity + BLOCK_BYTES];
        let start = memory.as_ptr().align_offset(BLOCK_BYTES);
        memory.truncate(start + capacity);
        memory[start..start + self.bytes].copy_from_slice(self);
        (self.memory, self.start, self.held) = (memory, start, self.bytes);
    }
}

impl Deref for Blocks {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.memory[self.start..self.start + self.bytes]
    }
}

impl DerefMut for Blocks {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.bytes]
    }
}

impl core::fmt::Debug for Blocks {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Blocks({} bytes)", self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_stay_aligned_and_keep_their_bytes_while_they_grow() {
        let (mut blocks, mut expected) = (Blocks::new(), Vec::new());
        for number in 0..3000_u32 {
            blocks.extend_from_slice(&number.to_le_bytes());
            expected.extend_from_slice(&number.to_le_bytes());
            assert!(blocks.as_ptr().addr().is_multiple_of(BLOCK_BYTES));
        }
        assert_eq!(*blocks, *expected);
        blocks.pad();
        assert_eq!(blocks.len(), 3 * BLOCK_BYTES);
        assert!(blocks[expected.len()..].iter().all(|&byte| byte == 0));
        blocks.resize(0);
        blocks.resize(expected.len());
        assert!(blocks.iter().all(|&byte| byte == 0), "what was cut off does not come back");
    }
}
