//! The part of a record that was not read.

use farcall_driver::{Record, Words};

/// Entries to be taken from the front. They lie in the ring, where they can be read once.
#[derive(Clone, Copy)]
pub struct Entries<'a> {
    record_bytes: usize,
    at_first: u16,
    pub unread: Unread<'a>,
}

/// Those that were not taken: all that changes when one is. A loop keeps it in registers, where a copy of
/// more would be read by loads that are wider than the stores it was written by.
#[derive(Clone, Copy)]
pub struct Unread<'a> {
    rest: Words<'a>,
    /// Entries of it.
    left: u16,
}

impl<'a> Unread<'a> {
    /// What `read` finds in the header of the next entry, its payload, and what comes behind it. Entries end
    /// at any that `read` does not know, and that does not fit into the record: what is wrong with it is for
    /// others to find out.
    #[inline(always)]
    pub fn peek<H>(&self, read: impl FnOnce(u64) -> Option<(H, usize)>) -> Option<(H, &'a [u8], Words<'a>)> {
        if self.left == 0 {
            return None;
        }
        let (word, rest) = self.rest.split_word()?;
        let (header, length) = read(word)?;
        let (payload, rest) = rest.split_bytes(length)?;
        Some((header, payload, rest))
    }

    /// Starts to fetch this many bytes, or what there is.
    #[inline]
    pub fn fetch(&self, bytes: usize) {
        self.rest.prefetch(bytes);
    }

    /// The entry that was looked at is taken; behind it comes `rest`.
    #[inline(always)]
    pub fn advance(&mut self, rest: Words<'a>) {
        self.rest = rest;
        self.left -= 1;
    }
}

impl<'a> Entries<'a> {
    /// What begins with the entry at `at` and ends with the last of `entries`, or before.
    #[inline]
    pub fn new(record: Record<'a>, at: usize, entries: u16) -> Self {
        let unread = Unread { rest: record.rest(at), left: entries };
        Self { record_bytes: record.len(), at_first: entries, unread }
    }

    /// At most so many of them.
    #[inline]
    pub fn first(self, entries_max: u16) -> Self {
        let entries = self.unread.left.min(entries_max);
        Self { at_first: entries, unread: Unread { left: entries, ..self.unread }, ..self }
    }

    /// How many there are.
    #[inline]
    pub fn left(&self) -> usize {
        self.unread.left.into()
    }

    /// How many were taken.
    #[inline]
    pub fn taken(&self) -> u16 {
        self.at_first - self.unread.left
    }

    /// Where the next entry is in the record.
    #[inline]
    pub fn offset(&self) -> usize {
        self.record_bytes - self.unread.rest.len()
    }
}
