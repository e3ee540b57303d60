//! A message that was left where it lies, for the caller that asks for it next.
//!
//! Who has one receive in flight at a time takes a message a poll out of what a faster sender has filled, and
//! a poll for each costs more than the message. So a receive is given the message itself that would be next
//! for it: nothing may wait that could have a claim to it, and nothing that came before.

use farcall_protocol::matching::{Source, Tag};

/// When this many polls in a row found one message that was expected and others behind it, who receives has
/// one receive in flight, and more than one only by chance before. Several take less time in a poll.
const SINGLE_MESSAGES_MIN: u32 = 4;

/// The message that the last poll left, if it is worth a claim; with the place where it lies.
#[derive(Debug)]
pub struct Unclaimed<P> {
    next: Option<Left<P>>,
    /// Polls in a row that left something after a single message.
    single_messages: u32,
}

/// A message that was left.
#[derive(Clone, Copy, Debug)]
pub struct Left<P> {
    pub source: Source,
    pub tag: Tag,
    pub bytes: usize,
    pub place: P,
}

impl<P> Default for Unclaimed<P> {
    fn default() -> Self {
        Self { next: None, single_messages: 0 }
    }
}

impl<P: Copy> Unclaimed<P> {
    /// A message was left, after so many that were expected.
    #[inline]
    pub fn note(&mut self, messages: u16, next: impl FnOnce() -> Option<Left<P>>) {
        self.single_messages = if messages == 1 { self.single_messages.saturating_add(1) } else { 0 };
        self.next = if self.single_messages >= SINGLE_MESSAGES_MIN { next() } else { None };
    }

    /// What was left has been claimed, and this is what comes behind it: with a claim for each, one receive
    /// is in flight at a time.
    #[inline]
    pub fn follow(&mut self, next: Option<Left<P>>) {
        self.next = next;
    }

    /// There is none any more.
    #[inline]
    pub fn forget(&mut self) {
        self.next = None;
    }

    #[inline]
    pub fn is_any(&self) -> bool {
        self.next.is_some()
    }

    /// The message, if it is that one, and has no more bytes.
    #[inline]
    pub fn find(&self, from: Source, tag: Tag, bytes_max: usize) -> Option<&Left<P>> {
        let is_it = |left: &&Left<P>| left.tag == tag && left.source == from && left.bytes <= bytes_max;
        self.next.as_ref().filter(is_it)
    }
}
