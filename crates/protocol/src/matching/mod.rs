//! Tag matching: which receive gets which message.
//!
//! A message has a source and a [`Tag`]; a receive asks for both, or leaves either open. A message goes to
//! the oldest receive that wants it, a receive gets the oldest message that it wants, and so messages with
//! the same source and tag are received in the order in which they were sent. Of a receive and a message that
//! fit, one waits here and never both: [`Matching`] holds the receives that were posted and the messages that
//! nobody expected.
//!
//! All questions are answered in constant time, whatever waits: receives lie in queues by what they ask for,
//! messages in one queue for each way in which they can be asked for. (The technique is that of the hashed
//! match queues of MPI libraries, see Flajslik, Dinan and Underwood: *Mitigating MPI Message Matching
//! Misery*, 2016.)
//!
//! Memory is bounded by two windows a peer: [`SendWindow`] keeps a sender from sending what would not find
//! room among the unexpected messages of [`ReceiveWindow`]. Messages that a receive waits for pass a window
//! that is full of others: see [`Notice`]. [`Sequencer`] puts messages in order over fabrics that do not.

mod ends;
mod hashed;
mod lists;
mod notice;
mod page;
mod pattern;
mod posted;
mod sequencer;
mod table;
mod unexpected;
mod window;

use farcall_base::SipKey;

pub use notice::{ANNOUNCED_MAX, Announcing, Granting, Notice};
pub use pattern::{Pattern, Source, Tag};
pub use posted::ExactReceives;
use posted::Posted;
pub use sequencer::{OutOfRange, Sequencer};
use unexpected::Unexpected;
pub use window::{
    Overrun, ReceiveWindow, SendWindow, WINDOW_LINE_BYTES, lines, lines_max, message_bytes_max, payload_lines,
};

/// The receives and messages of one endpoint that wait for each other. `M` is what is kept of an unexpected
/// message.
#[derive(Debug)]
pub struct Matching<M> {
    posted: Posted,
    unexpected: Unexpected<M>,
}

/// A message that was unexpected when it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expected<M> {
    /// Where it came from.
    pub source: Source,
    /// Its tag.
    pub tag: Tag,
    /// What was kept of it.
    pub message: M,
}

impl<M> Matching<M> {
    /// Nothing waits. `secret`, which is for this alone and is never shown, keeps peers from choosing tags
    /// that are slow to find.
    pub fn new(secret: SipKey) -> Self {
        Self { posted: Posted::new(secret), unexpected: Unexpected::new(secret) }
    }

    /// A receive asks for a message: gets the oldest that fits, or waits for the next one.
    ///
    /// Receives are named by their caller. The low 16 bits of a name must be different for all that wait.
    #[inline]
    pub fn post(&mut self, receive: u32, pattern: Pattern) -> Option<Expected<M>> {
        if !self.unexpected.is_empty()
            && let Some(expected) = self.unexpected.take(pattern)
        {
            return Some(expected);
        }
        self.posted.push(receive, pattern);
        None
    }

    /// As [`Matching::post`] of a receive that asks for a source and a tag, when no message waits at all and
    /// there are a place and a queue for it to wait; false otherwise, and then nothing has happened.
    #[inline(always)]
    pub fn post_at_once(&mut self, receive: u32, source: Source, tag: Tag) -> bool {
        self.unexpected.is_empty() && self.posted.push_at_once(receive, source, tag)
    }

    /// A message came: the receive that gets it, which waits no longer, if there is one.
    #[inline(always)]
    pub fn arrive(&mut self, source: Source, tag: Tag) -> Option<u32> {
        self.posted.take(source, tag)
    }

    /// To find the receives for messages of one source that come together; `None` where any leaves the source
    /// or the tag open.
    #[inline(always)]
    pub fn exact_receives(&mut self, source: Source) -> Option<ExactReceives<'_>> {
        self.posted.exact_receives(source)
    }

    /// Keeps a message that [`Matching::arrive`] had no receive for.
    pub fn keep(&mut self, source: Source, tag: Tag, message: M) {
        self.unexpected.push(source, tag, message);
    }

    /// Takes the oldest unexpected message that fits.
    pub fn take(&mut self, pattern: Pattern) -> Option<Expected<M>> {
        self.unexpected.take(pattern)
    }

    /// Whether a receive waits for such a message.
    pub fn wants(&self, source: Source, tag: Tag) -> bool {
        self.posted.wants(source, tag)
    }

    /// A receive does not wait any longer. False when it did not wait.
    pub fn withdraw(&mut self, receive: u32) -> bool {
        self.posted.remove(receive)
    }

    /// Drops the unexpected messages of a source of which `is_forgotten` says so.
    pub fn forget(&mut self, source: Source, is_forgotten: impl FnMut(&M) -> bool) {
        self.unexpected.forget(source, is_forgotten);
    }

    /// Whether no receive waits.
    #[inline]
    pub fn has_no_receives(&self) -> bool {
        self.posted.is_empty()
    }

    /// Whether no message waits.
    #[inline]
    pub fn has_no_messages(&self) -> bool {
        self.unexpected.is_empty()
    }

    /// Whether nothing waits.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.posted.is_empty() && self.unexpected.is_empty()
    }

    /// How many receives wait.
    pub fn posted(&self) -> usize {
        self.posted.len()
    }

    /// How many unexpected messages wait.
    pub fn unexpected(&self) -> usize {
        self.unexpected.len()
    }

    /// How many pages the tables have, and places for queues that are in none.
    #[cfg(test)]
    fn pages_and_places(&self) -> (usize, usize) {
        self.posted.pages_and_places()
    }
}

#[cfg(test)]
mod tests;
