//! Cells: one message each, in memory that another process writes or reads at the same time.
//!
//! All access is by atomic words, so that whatever a hostile process does to the memory, what is read here is some
//! message, of a length that was checked.

use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use crate::segment::Mapping;

const LINE_BYTES: usize = 64;
const WORD_BYTES: usize = 8;

/// Bytes of a cell for messages of up to so many bytes: whole cache lines, of which a word is the header.
pub const fn cell_bytes(message_bytes: usize) -> usize {
    (WORD_BYTES + message_bytes).next_multiple_of(LINE_BYTES)
}

/// A message whose length is over the limit: no correct process writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadLength;

/// The cells of one direction.
#[derive(Debug)]
pub struct Cells {
    mapping: Arc<Mapping>,
    start: usize,
    message_bytes_max: usize,
    count: usize,
}

impl Cells {
    /// `count` cells for messages of up to `message_bytes_max` bytes, `start` bytes into the segment.
    ///
    /// # Panics
    /// When they leave the segment, or do not start at a cache line.
    pub fn new(mapping: Arc<Mapping>, start: usize, message_bytes_max: usize, count: usize) -> Self {
        assert!(start.is_multiple_of(LINE_BYTES), "cells are whole lines");
        // Checks the end of the last cell.
        mapping.at(start, count * cell_bytes(message_bytes_max));
        Self { mapping, start, message_bytes_max, count }
    }

    #[inline]
    fn word(&self, cell: usize, word: usize) -> &AtomicU64 {
        let bytes = cell_bytes(self.message_bytes_max);
        assert!(cell < self.count && word < bytes / WORD_BYTES, "a word of a cell");
        let at = self.start + cell * bytes + word * WORD_BYTES;
        // SAFETY: inside the mapping (all cells are, checked in `new`; this one and its word were just now), which lives
        // as long as `self`; aligned, because mappings start at a page, cells at a line, and words are eight bytes. All
        // access to cells, from every process, is by atomic words.
        unsafe { self.mapping.at(0, 0).add(at).cast().as_ref() }
    }

    /// Writes message number `sequence` into a cell and makes it visible.
    ///
    /// # Panics
    /// When the message is over the limit.
    #[inline]
    pub fn publish(&self, cell: usize, sequence: u32, message: &[u8]) {
        assert!(message.len() <= self.message_bytes_max, "a message over the limit of its cell");
        let (words, rest) = message.as_chunks::<WORD_BYTES>();
        for (place, word) in words.iter().enumerate() {
            self.word(cell, 1 + place).store(u64::from_le_bytes(*word), Ordering::Relaxed);
        }
        if !rest.is_empty() {
            let mut word = [0; WORD_BYTES];
            word[..rest.len()].copy_from_slice(rest);
            self.word(cell, 1 + words.len()).store(u64::from_le_bytes(word), Ordering::Relaxed);
        }
        let header = u64::from(sequence) << 32 | message.len() as u64;
        // Release: whoever sees the header also sees the message.
        self.word(cell, 0).store(header, Ordering::Release);
    }

    /// The length of message number `sequence`, once it is in the cell.
    #[inline]
    pub fn published(&self, cell: usize, sequence: u32) -> Result<Option<usize>, BadLength> {
        let header = self.word(cell, 0).load(Ordering::Acquire);
        if header >> 32 != u64::from(sequence) {
            return Ok(None);
        }
        let length = header as u32 as usize;
        if length <= self.message_bytes_max { Ok(Some(length)) } else { Err(BadLength) }
    }

    /// Copies the first bytes of a cell's message out; as many as `to` has.
    #[inline]
    pub fn read(&self, cell: usize, to: &mut [u8]) {
        for (place, bytes) in to.chunks_mut(WORD_BYTES).enumerate() {
            let word = self.word(cell, 1 + place).load(Ordering::Relaxed).to_le_bytes();
            bytes.copy_from_slice(&word[..bytes.len()]);
        }
    }

    /// Publishes a message that claims a length, as no correct process does.
    #[cfg(test)]
    pub fn claim_length(&self, cell: usize, sequence: u32, length: usize) {
        self.word(cell, 0).store(u64::from(sequence) << 32 | length as u64, Ordering::Release);
    }

    /// Starts to fetch the first line of a cell for reading.
    #[inline]
    pub fn prefetch(&self, cell: usize) {
        let header: *const AtomicU64 = self.word(cell % self.count, 0);
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a prefetch of any address is harmless, and this one is inside the mapping.
        unsafe {
            use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            _mm_prefetch::<_MM_HINT_T0>(header.cast());
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = header;
    }

    /// Starts to fetch the first line of a cell for writing: the other side has looked at it and holds it.
    #[inline]
    pub fn claim(&self, cell: usize) {
        let header: *const AtomicU64 = self.word(cell % self.count, 0);
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a prefetch has no effect that a program can see, and every 64-bit processor takes the instruction (at
        // worst as a no-op). The intrinsic asks for a shared copy, which does not help.
        unsafe {
            core::arch::asm!("prefetchw [{}]", in(reg) header, options(nostack, preserves_flags));
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = header;
    }
}
