//! Short messages that came together: what a record has of them between two entries of another kind.
//!
//! Whoever takes a whole burst looks up what its messages have in common once, and not for each of them.

use farcall_driver::Record;
use farcall_protocol::matching::{Source, Tag, lines};
use farcall_protocol::ring::{EntryHeader, WORD_BYTES, padded};

use crate::MessageId;
use crate::mail::Mail;

/// Short messages of one session, in the order in which they were sent. They lie in the ring, where they can be read once.
#[derive(Clone, Copy)]
pub struct Burst<'a> {
    record: Record<'a>,
    /// Where the next entry is.
    at: usize,
    /// Entries that were not read.
    entries: u16,
    /// The most bytes of a message.
    bytes_max: usize,
    taken: Taken,
}

/// A burst of which each message is for the receive that waits for it, up to one that nobody waits for.
pub struct MatchedBurst<'a, 'm> {
    pub(crate) burst: Burst<'a>,
    pub(crate) mail: &'m mut Mail,
    pub(crate) source: Source,
}

/// What was taken out of a burst.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Taken {
    pub messages: u16,
    /// What they count in the window of their session.
    pub lines: u32,
}

/// A message of a burst.
#[derive(Clone, Copy, Debug)]
pub struct ShortMessage<'a> {
    /// Its tag.
    pub tag: Tag,
    /// Its bytes.
    pub payload: &'a [u8],
}

impl<'a> Burst<'a> {
    /// What begins with the entry at `at` and ends with the last of `entries`, or before.
    #[inline(always)]
    pub(crate) fn new(record: Record<'a>, at: usize, entries: u16, bytes_max: usize) -> Self {
        Self { record, at, entries, bytes_max, taken: Taken::default() }
    }

    /// The next message. The burst ends at any entry that is none, or breaks a rule: that is for others to find out.
    #[inline(always)]
    pub(crate) fn peek(&self) -> Option<ShortMessage<'a>> {
        if self.entries == 0 {
            return None;
        }
        let (tag, length) = EntryHeader::tagged_message(self.record.word(self.at)?)?;
        if length > self.bytes_max {
            return None;
        }
        let payload = self.record.slice(self.at + WORD_BYTES, length)?;
        Some(ShortMessage { tag: Tag(tag), payload })
    }

    /// The message that was looked at is taken.
    #[inline(always)]
    pub(crate) fn advance(&mut self, message: ShortMessage<'_>) {
        let length = message.payload.len();
        self.at += WORD_BYTES + padded(length);
        self.entries -= 1;
        self.taken.messages += 1;
        self.taken.lines += lines(length);
    }

    /// Takes the next message.
    #[inline(always)]
    pub fn take(&mut self) -> Option<ShortMessage<'a>> {
        let message = self.peek()?;
        self.advance(message);
        Some(message)
    }

    /// Takes the next message, if a receive waits for it.
    #[inline(always)]
    pub(crate) fn take_matched(
        &mut self,
        mail: &mut Mail,
        source: Source,
    ) -> Option<(MessageId, ShortMessage<'a>)> {
        let message = self.peek()?;
        let receive = mail.take_receive(source, message.tag)?;
        self.advance(message);
        Some((receive, message))
    }

    /// How many messages were taken.
    #[inline]
    pub fn taken(&self) -> usize {
        usize::from(self.taken.messages)
    }

    /// Where the next entry is, and what was taken.
    #[inline]
    pub(crate) fn end(&self) -> (usize, Taken) {
        (self.at, self.taken)
    }
}

impl<'a> MatchedBurst<'a, '_> {
    /// Takes messages as long as `end` ends the receives that they are for, which it says; gives the one that it did not end.
    ///
    /// Always inlined, so that one loop does everything and keeps what it needs in registers.
    #[inline(always)]
    pub fn take_while(
        &mut self,
        mut end: impl FnMut(MessageId, ShortMessage<'a>) -> bool,
    ) -> Option<(MessageId, ShortMessage<'a>)> {
        // A copy, for the same reason.
        let mut burst = self.burst;
        let mut not_ended = None;
        while let Some((receive, message)) = burst.take_matched(self.mail, self.source) {
            if !end(receive, message) {
                not_ended = Some((receive, message));
                break;
            }
        }
        self.burst = burst;
        not_ended
    }

    /// How many messages were taken.
    #[inline]
    pub fn taken(&self) -> usize {
        self.burst.taken()
    }
}
