//! Cells: one message each, in memory that another process writes or reads at the same time.
//!
//! All access is by atomic words, so that whatever a hostile process does to the memory, what is read here is some
//! message, of a length that was checked.

use core::ptr::NonNull;
use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use super::short::{LINE_WORDS, SHORT_BYTES_MAX, ShortMessage, WORD_BYTES};
use crate::segment::Mapping;

const WORDS_PER_LINE: usize = 1 + LINE_WORDS;
const LINE_BYTES: usize = WORDS_PER_LINE * WORD_BYTES;

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
    fn read(&mut self, cell: &Cell<'_>, length: usize) {
        let (line, rest) = self.0.split_first_chunk_mut::<LINE_WORDS>().expect("room for a line's message");
        // All of the line, whatever of it is message: quicker than to count.
        for (to, word) in line.iter_mut().zip(&cell.line[1..]) {
            *to = word.load(Ordering::Relaxed).to_le_bytes();
        }
        if length > SHORT_BYTES_MAX {
            for (to, word) in
                rest[..(length - SHORT_BYTES_MAX).div_ceil(WORD_BYTES)].iter_mut().zip(cell.rest)
            {
                *to = word.load(Ordering::Relaxed).to_le_bytes();
            }
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

    /// A cell.
    #[inline]
    pub fn cell(&self, cell: usize) -> Cell<'_> {
        let start = self.start_of(cell);
        // SAFETY: inside the mapping (all cells are, checked in `new`; this is one of them), which lives as long as `self`;
        // aligned, because mappings start at a page and cells at a line; a cell has a line at least. All access to cells, from
        // every process, is by atomic words.
        let (line, rest) = unsafe {
            let rest = start.add(WORDS_PER_LINE).as_ptr();
            let rest = core::slice::from_raw_parts(rest, self.cell_bytes / WORD_BYTES - WORDS_PER_LINE);
            (start.cast().as_ref(), rest)
        };
        Cell { line, rest, message_bytes_max: self.message_bytes_max }
    }

    /// The first word of a cell.
    #[inline]
    fn start_of(&self, cell: usize) -> NonNull<AtomicU64> {
        assert!(cell < self.count, "a cell that there is");
        // SAFETY: inside the mapping, as all cells are.
        unsafe { self.first.byte_add(cell * self.cell_bytes) }
    }

    /// Starts to fetch the first line of a cell for writing: the other side has looked at it and holds it.
    #[inline]
    pub fn claim(&self, cell: usize) {
        let start = self.start_of(cell).as_ptr().cast::<u8>();
        farcall_driver::claim_lines(core::ptr::slice_from_raw_parts(start, LINE_BYTES));
    }
}

/// A cell, for a message.
pub struct Cell<'a> {
    /// The header, and the words of a message that share its line.
    line: &'a [AtomicU64; WORDS_PER_LINE],
    /// Words of longer messages.
    rest: &'a [AtomicU64],
    message_bytes_max: usize,
}

impl Cell<'_> {
    /// Writes message number `sequence` and makes it visible.
    ///
    /// Always inlined: a short message that was just put together is then still in registers. In memory it would have
    /// been written by shorter stores than it is read by, and reading it would wait until they are done.
    ///
    /// # Panics
    /// When the message is over the limit.
    #[inline(always)]
    pub fn publish(&self, sequence: u32, tag: u8, message: &[u8]) {
        assert!(message.len() <= self.message_bytes_max, "a message over the limit of its cell");
        let (short, long) = message.split_at(message.len().min(SHORT_BYTES_MAX));
        store(short, &self.line[1..]);
        if !long.is_empty() {
            store(long, self.rest);
        }
        self.show(header(sequence, tag, message.len()));
    }

    /// As [`publish`](Self::publish).
    #[inline]
    pub fn publish_short(&self, sequence: u32, tag: u8, message: &ShortMessage) {
        let length = message.bytes().len();
        assert!(length <= self.message_bytes_max, "a message over the limit of its cell");
        for (to, word) in self.line[1..].iter().zip(message.words()) {
            to.store(u64::from_le_bytes(*word), Ordering::Relaxed);
        }
        self.show(header(sequence, tag, length));
    }

    /// Release: whoever sees the header also sees the message.
    #[inline]
    fn show(&self, header: u64) {
        self.line[0].store(header, Ordering::Release);
    }

    /// Tag and length of message number `sequence`, once it is in the cell.
    #[inline]
    pub fn published(&self, sequence: u32) -> Result<Option<Published>, BadLength> {
        let header = self.line[0].load(Ordering::Acquire);
        if header >> (LENGTH_BITS + TAG_BITS) != u64::from(sequence) {
            return Ok(None);
        }
        let length = header as usize & ((1 << LENGTH_BITS) - 1);
        let tag = (header >> LENGTH_BITS) as u8;
        if length <= self.message_bytes_max { Ok(Some(Published { tag, length })) } else { Err(BadLength) }
    }

    /// Copies the message that was published.
    #[inline]
    pub fn read(&self, published: Published, copy: &mut Copied) {
        copy.read(self, published.length);
    }

    /// Publishes a message that claims a length, as no correct process does.
    #[cfg(test)]
    pub fn claim_length(&self, sequence: u32, length: usize) {
        self.show(header(sequence, 0, length));
    }
}

/// Stores a message, or a part of one that begins at a word, into words that have room for it.
#[inline(always)]
fn store(message: &[u8], to: &[AtomicU64]) {
    let (words, rest) = message.as_chunks::<WORD_BYTES>();
    for (to, word) in to.iter().zip(words) {
        to.store(u64::from_le_bytes(*word), Ordering::Relaxed);
    }
    if !rest.is_empty() {
        to[words.len()].store(last_word(message, rest), Ordering::Relaxed);
    }
}

/// The last bytes of a message, fewer than a word, as the word that they begin.
///
/// A single byte, as of an answer with a code, is read as one: a word that reaches back into bytes that were written with
/// others would have to wait until they are.
#[inline(always)]
fn last_word(message: &[u8], rest: &[u8]) -> u64 {
    match (rest, message.last_chunk::<WORD_BYTES>()) {
        ([byte], _) => u64::from(*byte),
        (_, Some(last)) => u64::from_le_bytes(*last) >> (8 * (WORD_BYTES - rest.len())),
        (_, None) => rest.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)),
    }
}
