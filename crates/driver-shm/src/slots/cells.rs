//! Cells: one message each, in memory that another process writes or reads at the same time.
//!
//! All access is by atomic words, so that whatever a hostile process does to the memory, what is read here is some
//! message, of a length that was checked.

use core::ptr::NonNull;
use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use super::SLOTS_AHEAD;
use crate::segment::Mapping;

const LINE_BYTES: usize = 64;
const WORD_BYTES: usize = 8;

/// Words of a message that share a line with its header.
const LINE_WORDS: usize = LINE_BYTES / WORD_BYTES - 1;

/// The header: the message's number, its tag, and its length in so many bits.
const LENGTH_BITS: u32 = 24;
const TAG_BITS: u32 = 8;

/// Bytes of a cell for messages of up to so many bytes: whole cache lines, of which a word is the header.
pub const fn cell_bytes(message_bytes: usize) -> usize {
    (WORD_BYTES + message_bytes).next_multiple_of(LINE_BYTES)
}

const fn header(sequence: u32, tag: u8, length: usize) -> u64 {
    (sequence as u64) << (LENGTH_BITS + TAG_BITS) | (tag as u64) << LENGTH_BITS | length as u64
}

/// A message whose length is over the limit: no correct process writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadLength;

/// What a header says of the message in its cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Published {
    /// Whatever the writer wants to say beside the message.
    pub tag: u8,
    /// Bytes of the message, at most the cell's limit.
    pub length: usize,
}

/// Memory for one message that is copied out of a cell.
#[derive(Debug)]
pub struct Copied(Box<[[u8; WORD_BYTES]]>);

impl Copied {
    /// Memory for messages of up to so many bytes.
    pub fn new(message_bytes_max: usize) -> Self {
        Self(vec![[0; WORD_BYTES]; message_bytes_max.div_ceil(WORD_BYTES).max(LINE_WORDS)].into())
    }

    /// Copies a cell's message, which has that length.
    #[inline]
    pub fn read(&mut self, cells: &Cells, cell: usize, length: usize) {
        let from = &cells.cell(cell)[1..];
        if length <= LINE_WORDS * WORD_BYTES
            && let (Some(to), Some(from)) =
                (self.0.first_chunk_mut::<LINE_WORDS>(), from.first_chunk::<LINE_WORDS>())
        {
            // All of the line, whatever of it is message: quicker than to count.
            to.iter_mut().zip(from).for_each(|(to, word)| *to = word.load(Ordering::Relaxed).to_le_bytes());
            return;
        }
        for (to, word) in self.0[..length.div_ceil(WORD_BYTES)].iter_mut().zip(from) {
            *to = word.load(Ordering::Relaxed).to_le_bytes();
        }
    }

    /// The message that was copied, of that length.
    #[inline]
    pub fn bytes(&self, length: usize) -> &[u8] {
        &self.0.as_flattened()[..length]
    }
}

/// The cells of one direction.
#[derive(Debug)]
pub struct Cells {
    /// The first word of the first cell, in the mapping.
    first: NonNull<AtomicU64>,
    message_bytes_max: usize,
    cell_bytes: usize,
    count: usize,
    /// Keeps the memory.
    _mapping: Arc<Mapping>,
}

// SAFETY: the pointer leads into memory that the mapping keeps, wherever it is used from; all access is by atomic words.
unsafe impl Send for Cells {}

impl Cells {
    /// `count` cells for messages of up to `message_bytes_max` bytes, `start` bytes into the segment.
    ///
    /// # Panics
    /// When they leave the segment, or do not start at a cache line.
    pub fn new(mapping: Arc<Mapping>, start: usize, message_bytes_max: usize, count: usize) -> Self {
        assert!(start.is_multiple_of(LINE_BYTES), "cells are whole lines");
        assert!(message_bytes_max < 1 << LENGTH_BITS, "lengths have their place in the header");
        let cell_bytes = cell_bytes(message_bytes_max);
        // Checks the end of the last cell.
        let first = mapping.at(start, count * cell_bytes).cast();
        Self { first, message_bytes_max, cell_bytes, count, _mapping: mapping }
    }

    /// The words of a cell, of which the first is the header.
    #[inline]
    fn cell(&self, cell: usize) -> &[AtomicU64] {
        assert!(cell < self.count, "a cell that there is");
        // SAFETY: inside the mapping (all cells are, checked in `new`; this is one of them), which lives as long as `self`;
        // aligned, because mappings start at a page and cells at a line. All access to cells, from every process, is by
        // atomic words.
        unsafe {
            let words = self.first.byte_add(cell * self.cell_bytes);
            core::slice::from_raw_parts(words.as_ptr(), self.cell_bytes / WORD_BYTES)
        }
    }

    /// Writes message number `sequence` into a cell and makes it visible.
    ///
    /// Always inlined: a short message that was just put together is then still in registers. In memory it would have
    /// been written by shorter stores than it is read by, and reading it would wait until they are done.
    ///
    /// # Panics
    /// When the message is over the limit.
    #[inline(always)]
    pub fn publish(&self, cell: usize, sequence: u32, tag: u8, message: &[u8]) {
        assert!(message.len() <= self.message_bytes_max, "a message over the limit of its cell");
        let cell = self.cell(cell);
        let (words, rest) = message.as_chunks::<WORD_BYTES>();
        for (to, word) in cell[1..].iter().zip(words) {
            to.store(u64::from_le_bytes(*word), Ordering::Relaxed);
        }
        if !rest.is_empty() {
            cell[1 + words.len()].store(last_word(message, rest), Ordering::Relaxed);
        }
        // Release: whoever sees the header also sees the message.
        cell[0].store(header(sequence, tag, message.len()), Ordering::Release);
    }

    /// Tag and length of message number `sequence`, once it is in the cell.
    #[inline]
    pub fn published(&self, cell: usize, sequence: u32) -> Result<Option<Published>, BadLength> {
        let header = self.cell(cell)[0].load(Ordering::Acquire);
        if header >> (LENGTH_BITS + TAG_BITS) != u64::from(sequence) {
            return Ok(None);
        }
        let length = header as usize & ((1 << LENGTH_BITS) - 1);
        let tag = (header >> LENGTH_BITS) as u8;
        if length <= self.message_bytes_max { Ok(Some(Published { tag, length })) } else { Err(BadLength) }
    }

    /// Publishes a message that claims a length, as no correct process does.
    #[cfg(test)]
    pub fn claim_length(&self, cell: usize, sequence: u32, length: usize) {
        self.cell(cell)[0].store(header(sequence, 0, length), Ordering::Release);
    }

    /// The cell whose line is to be fetched while this one is worked on.
    #[inline]
    fn ahead_of(&self, cell: usize) -> *const AtomicU64 {
        let ahead = cell + SLOTS_AHEAD;
        let ahead = if ahead < self.count { ahead } else { ahead - self.count };
        // With so few cells that there is none ahead, it is this one.
        self.cell(if ahead < self.count { ahead } else { cell }).as_ptr()
    }

    /// Starts to fetch the first line of the cell that is worked on a little later, for reading.
    #[inline]
    pub fn prefetch_ahead_of(&self, cell: usize) {
        let header = self.ahead_of(cell);
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a prefetch of any address is harmless, and this one is inside the mapping.
        unsafe {
            use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            _mm_prefetch::<_MM_HINT_T0>(header.cast());
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = header;
    }

    /// The same for writing: the other side has looked at the line and holds it.
    #[inline]
    pub fn claim_ahead_of(&self, cell: usize) {
        let line = core::ptr::slice_from_raw_parts(self.ahead_of(cell).cast::<u8>(), LINE_BYTES);
        farcall_driver::claim_lines(line);
    }
}

/// The last bytes of a message, fewer than a word, as the word that they begin.
#[inline]
fn last_word(message: &[u8], rest: &[u8]) -> u64 {
    match message.last_chunk::<WORD_BYTES>() {
        Some(last) => u64::from_le_bytes(*last) >> (8 * (WORD_BYTES - rest.len())),
        None => rest.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)),
    }
}
