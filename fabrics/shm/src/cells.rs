//! Cells: memory for one message each, which one process writes and another reads.
//!
//! A cell is a header word and the bytes of the message, in whole cache lines. The header has the number of
//! the message, a tag and the length, and is stored last. All access is by atomic words: whatever a hostile
//! process does to the memory, what is read here is some message, of a length that was checked. So the
//! interface is safe.
//!
//! ```
//! use std::sync::Arc;
//! use farcall_shm::cells::{CellCopy, Cells};
//! use farcall_shm::segment::{PeerAccess, Segment};
//!
//! let (_segment, mapping) = Segment::create("example", 4096, PeerAccess::Write)?;
//! let cells = Cells::new(Arc::new(mapping), 0, 100, 4);
//! cells.cell(2).publish(1, 7, b"hello");
//! let header = cells.cell(2).published(1).expect("a correct length").expect("message 1 is there");
//! let mut copy = CellCopy::new(100);
//! cells.cell(2).read(header, &mut copy);
//! assert_eq!((header.tag, copy.bytes(header.length)), (7, &b"hello"[..]));
//! # Ok::<(), std::io::Error>(())
//! ```

use core::ptr::NonNull;
use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use crate::segment::{Mapping, PeerAccess};

const WORD_BYTES: usize = 8;

/// Words of a message that share a line with its header, which is one more.
const LINE_WORDS: usize = 7;

/// The longest message that shares a line with its header, in bytes.
pub const SHORT_BYTES_MAX: usize = LINE_WORDS * WORD_BYTES;

const WORDS_PER_LINE: usize = 1 + LINE_WORDS;
const LINE_BYTES: usize = WORDS_PER_LINE * WORD_BYTES;

/// The header, from its upper end: the message's number (32 bits), its tag, and its length.
const LENGTH_BITS: u32 = 24;
const TAG_BITS: u32 = 8;

/// Bytes of a cell for messages of up to `message_bytes` bytes: whole cache lines, of which a word is the
/// header.
pub const fn cell_bytes(message_bytes: usize) -> usize {
    (WORD_BYTES + message_bytes).next_multiple_of(LINE_BYTES)
}

const fn header(sequence: u32, tag: u8, length: usize) -> u64 {
    (sequence as u64) << (LENGTH_BITS + TAG_BITS) | (tag as u64) << LENGTH_BITS | length as u64
}

/// The length in a header is over the limit of the cell: no correct process writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadLength;

/// What a header says of the message in its cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CellHeader {
    /// A byte for the users of the cells.
    pub tag: u8,
    /// Bytes of the message, at most the cell's limit.
    pub length: usize,
}

/// Memory for one message that is copied out of a cell.
#[derive(Debug)]
pub struct CellCopy(Box<[[u8; WORD_BYTES]]>);

impl CellCopy {
    /// Memory for messages of up to `message_bytes_max` bytes.
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

    /// The message that was copied.
    ///
    /// # Panics
    /// When `length` is over the limit that this memory was made for.
    #[inline]
    pub fn bytes(&self, length: usize) -> &[u8] {
        &self.0.as_flattened()[..length]
    }
}

/// A message of at most [`SHORT_BYTES_MAX`] bytes. It is copied with the rest of its line, whatever its
/// length: a loop that counts is a branch that processors guess wrong when lengths change.
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
    fn words(&self) -> &[[u8; WORD_BYTES]; LINE_WORDS] {
        &self.words
    }
}

/// An array of cells.
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

// SAFETY: the pointer leads into memory that the mapping keeps, wherever it is used from; all access is by
// atomic words.
unsafe impl Send for Cells {}

impl Cells {
    /// `count` cells for messages of up to `message_bytes_max` bytes, `start` bytes into the segment.
    ///
    /// # Panics
    /// When they leave the segment, do not start at a cache line, or the mapping may only be read.
    pub fn new(mapping: Arc<Mapping>, start: usize, message_bytes_max: usize, count: usize) -> Self {
        assert!(start.is_multiple_of(LINE_BYTES), "cells are whole lines");
        assert!(mapping.access() == PeerAccess::Write, "cells are written by both sides");
        assert!(message_bytes_max < 1 << LENGTH_BITS, "lengths have their place in the header");
        let cell_bytes = cell_bytes(message_bytes_max);
        // Checks the end of the last cell.
        let first = mapping.at(start, count * cell_bytes).cast();
        Self { first, message_bytes_max, cell_bytes, count, _mapping: mapping }
    }

    /// Cell number `cell`.
    ///
    /// # Panics
    /// When there is none.
    #[inline]
    pub fn cell(&self, cell: usize) -> Cell<'_> {
        let start = self.start_of(cell);
        // SAFETY: inside the mapping (all cells are, checked in `new`; this is one of them), which lives as
        // long as `self`; aligned, because mappings start at a page and cells at a line; a cell has a line at
        // least. All access to cells, from every process, is by atomic words.
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

    /// Prefetches the first line of a cell for writing: the other side has looked at it and holds it.
    #[inline]
    pub fn prefetch_for_write(&self, cell: usize) {
        let start = self.start_of(cell).as_ptr().cast::<u8>();
        crate::copy::prefetch::prefetch_for_ownership(core::ptr::slice_from_raw_parts(start, LINE_BYTES));
    }
}

/// A cell: memory for a message.
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
    /// Always inlined: a short message that was just put together is then still in registers. In memory it
    /// would have been written by shorter stores than it is read by, and reading it would wait until they are
    /// done.
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

    /// As [`publish`](Self::publish), for a message that was prepared.
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
    pub fn published(&self, sequence: u32) -> Result<Option<CellHeader>, BadLength> {
        let header = self.line[0].load(Ordering::Acquire);
        if header >> (LENGTH_BITS + TAG_BITS) != u64::from(sequence) {
            return Ok(None);
        }
        let length = header as usize & ((1 << LENGTH_BITS) - 1);
        let tag = (header >> LENGTH_BITS) as u8;
        if length <= self.message_bytes_max { Ok(Some(CellHeader { tag, length })) } else { Err(BadLength) }
    }

    /// Copies the message that [`published`](Self::published) found.
    ///
    /// # Panics
    /// When it does not fit into the copy.
    #[inline]
    pub fn read(&self, header: CellHeader, copy: &mut CellCopy) {
        copy.read(self, header.length);
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
/// A single byte, as of an answer with a code, is read as one: a word that reaches back into bytes that were
/// written with others would have to wait until they are.
#[inline(always)]
fn last_word(message: &[u8], rest: &[u8]) -> u64 {
    match (rest, message.last_chunk::<WORD_BYTES>()) {
        ([byte], _) => u64::from(*byte),
        (_, Some(last)) => u64::from_le_bytes(*last) >> (8 * (WORD_BYTES - rest.len())),
        (_, None) => rest.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)),
    }
}
