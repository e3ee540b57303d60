//! The part of a record that was not read.

use farcall_driver::{Record, Words};

/// Entries to be taken from the front. They lie in the ring, where they can be read once.
#[derive(Clone, Copy)]
pub struct Entries<'a> {
    record_bytes: usize,
    /// What was not read.
    rest: Words<'a>,
    /// Entries of it.
    left: u16,
    at_first: u16,
}

impl<'a> Entries<'a> {
    /// What begins with the entry at `at` and ends with the last of `entries`, or before.
    #[inline(always)]
    pub fn new(record: Record<'a>, at: usize, entries: u16) -> Self {
        Self { record_bytes: record.len(), rest: record.rest(at), left: entries, at_first: entries }
    }

    /// At most so many of them.
    #[inline(always)]
    pub fn first(self, entries_max: u16) -> Self {
        let entries = self.left.min(entries_max);
        Self { left: entries, at_first: entries, ..self }
    }

    /// What `read` finds in the header of the next entry, its payload, and what comes behind it. Entries end at any that `read` does
    /// not know, and that does not fit into the record: what is wrong with it is for others to find out.
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

    /// The entry that was looked at is taken; behind it comes `rest`.
    #[inline(always)]
    pub fn advance(&mut self, rest: Words<'a>) {
        self.rest = rest;
        self.left -= 1;
    }

    /// How many there are.
    #[inline(always)]
    pub fn left(&self) -> usize {
        self.left.into()
    }

    /// How many were taken.
    #[inline(always)]
    pub fn taken(&self) -> u16 {
        self.at_first - self.left
    }

    /// Where the next entry is in the record.
    #[inline(always)]
    pub fn offset(&self) -> usize {
        self.record_bytes - self.rest.len()
    }
}
