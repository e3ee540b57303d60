//! Short messages that came together.

use arrayvec::ArrayVec;
use farcall_driver::{FETCH_BYTES_MAX, Words};
use farcall_protocol::matching::{Source, Tag, payload_lines};
use farcall_protocol::ring::{ENTRY_LENGTH_MAX, EntryHeader};

use super::entries::{Entries, Unread};
use crate::mail::Mail;
use crate::{MessageId, Short};

/// Short messages of one session, in the order in which they were sent.
#[derive(Clone, Copy)]
pub struct MessageBurst<'a> {
    entries: Entries<'a>,
    /// What the payloads of the messages that were taken count in the window of their session.
    payload_lines: u32,
    /// The most bytes of a message.
    bytes_max: usize,
}

/// A burst of which each message is for the receive that waits for it, up to one that nobody waits for.
pub struct MatchedBurst<'a, 'm> {
    pub(crate) burst: &'m mut MessageBurst<'a>,
    pub(crate) mail: &'m mut Mail,
    pub(crate) source: Source,
}

/// A message, and the receive that it is for.
#[derive(Clone, Copy, Debug)]
pub struct Matched<'a> {
    /// The receive.
    pub receive: MessageId,
    /// The tag of the message.
    pub tag: Tag,
    pub(crate) payload: &'a [u8],
}

impl<'a> Matched<'a> {
    /// How many bytes the message has.
    #[inline(always)]
    pub fn payload_bytes(&self) -> usize {
        self.payload.len()
    }

    /// The bytes of the message.
    ///
    /// Always fewer than 4 GiB. To say so has their length taken by itself: a load of place and length at once would wait for the two
    /// stores by which they were written a moment ago.
    #[inline(always)]
    pub fn payload(&self) -> &'a [u8] {
        &self.payload[..self.payload.len().min(u32::MAX as usize)]
    }
}

/// Messages that were matched together, as many as are at most, for a sink that ends their receives one by one.
pub(crate) type Together<'a> = ArrayVec<Matched<'a>, TOGETHER_MAX>;

/// The most messages that are matched together.
pub(crate) const TOGETHER_MAX: usize = 16;

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

/// What changes when messages are taken out of a burst.
#[derive(Clone, Copy)]
struct UnreadMessages<'a> {
    unread: Unread<'a>,
    /// As [`MessageBurst::payload_lines`].
    payload_lines: u32,
}

impl<'a> UnreadMessages<'a> {
    /// The next message, and what comes behind it.
    #[inline(always)]
    fn peek(&self, bytes_max: usize) -> Option<(ShortMessage<'a>, Words<'a>)> {
        let (tag, payload, rest) = self.unread.peek(|word| EntryHeader::tagged_message(word, bytes_max))?;
        Some((ShortMessage { tag: Tag(tag), payload }, rest))
    }

    /// The message that was looked at is taken.
    #[inline(always)]
    fn advance(&mut self, message: ShortMessage<'_>, rest: Words<'a>) {
        self.unread.advance(rest);
        self.payload_lines += payload_lines(message.payload.len());
    }

    /// Takes the next message, if a receive waits for it.
    #[inline(always)]
    fn take_matched<R>(
        &mut self,
        bytes_max: usize,
        receive_for: impl FnOnce(Tag) -> Option<R>,
    ) -> Option<(R, ShortMessage<'a>)> {
        let (message, rest) = self.peek(bytes_max)?;
        let receive = receive_for(message.tag)?;
        self.advance(message, rest);
        Some((receive, message))
    }
}

impl<'a> MessageBurst<'a> {
    /// Those of these entries that are messages, of at most so many bytes each.
    #[inline(always)]
    pub(crate) fn new(entries: Entries<'a>, bytes_max: usize) -> Self {
        Self { entries, payload_lines: 0, bytes_max: bytes_max.min(ENTRY_LENGTH_MAX) }
    }

    #[inline(always)]
    fn unread(&self) -> UnreadMessages<'a> {
        UnreadMessages { unread: self.entries.unread, payload_lines: self.payload_lines }
    }

    /// What is not in `rest` was taken.
    #[inline(always)]
    fn read_up_to(&mut self, rest: UnreadMessages<'a>) {
        self.entries.unread = rest.unread;
        self.payload_lines = rest.payload_lines;
    }

    /// Takes the next message.
    #[inline(always)]
    pub fn take(&mut self) -> Option<ShortMessage<'a>> {
        self.take_matched(|_| Some(())).map(|((), message)| message)
    }

    /// Takes the next message, if a receive waits for it.
    #[inline(always)]
    pub(crate) fn take_matched<R>(
        &mut self,
        receive_for: impl FnOnce(Tag) -> Option<R>,
    ) -> Option<(R, ShortMessage<'a>)> {
        let mut unread = self.unread();
        let taken = unread.take_matched(self.bytes_max, receive_for)?;
        self.read_up_to(unread);
        Some(taken)
    }

    /// Takes messages that fit a [`Short`] and for which there is a receive, as long as `end` ends those; gives the one that it
    /// did not end, whose message is the next one.
    #[inline(always)]
    fn take_short_while(
        &mut self,
        mut receive_for: impl FnMut(Tag) -> Option<MessageId>,
        mut end: impl FnMut(MessageId, ShortMessage<'a>) -> bool,
    ) -> Option<MessageId> {
        let mut unread = self.unread();
        let bytes_max = self.bytes_max.min(Short::BYTES_MAX);
        let mut not_ended = None;
        while let Some((message, rest)) = unread.peek(bytes_max)
            && let Some(receive) = receive_for(message.tag)
        {
            if !end(receive, message) {
                not_ended = Some(receive);
                break;
            }
            unread.advance(message, rest);
        }
        self.read_up_to(unread);
        not_ended
    }

    /// Starts to fetch the next message, most likely one of so many bytes, while something is done with those that were taken.
    #[inline(always)]
    pub(crate) fn fetch_next(&self, bytes: usize) {
        self.entries.unread.fetch(bytes.min(FETCH_BYTES_MAX));
    }

    /// How many messages were taken.
    #[inline]
    pub fn taken(&self) -> usize {
        self.entries.taken().into()
    }

    /// Whether nothing comes behind the messages that were taken.
    #[inline]
    pub(crate) fn is_at_end(&self) -> bool {
        self.entries.left() == 0
    }

    /// Where the next entry is, and what was taken.
    #[inline]
    pub(crate) fn end(&self) -> (usize, Taken) {
        let messages = self.entries.taken();
        let taken = Taken { messages, lines: u32::from(messages) + self.payload_lines };
        (self.entries.offset(), taken)
    }
}

impl<'a> MatchedBurst<'a, '_> {
    /// Takes messages that fit a [`Short`], as long as `end` ends the receives that they are for, which it says; gives the one
    /// that it did not end, whose message is the next one.
    ///
    /// Always inlined, so that one loop does everything and keeps what it needs in registers.
    #[inline(always)]
    pub fn take_short_while(
        &mut self,
        end: impl FnMut(MessageId, ShortMessage<'a>) -> bool,
    ) -> Option<MessageId> {
        let Self { burst, mail, source } = self;
        if let Some(mut receives) = mail.exact_receives(*source) {
            let before = burst.taken();
            let not_ended = burst.take_short_while(|tag| receives.take(tag).map(MessageId), end);
            let ended = burst.taken() - before;
            receives.were_taken(ended as u32 + u32::from(not_ended.is_some()));
            return not_ended;
        }
        self.take_seldom(end)
    }

    /// Takes the next message, which is for `first` if there is that, and those behind it for which there is a receive, as many as
    /// there is room for.
    ///
    /// A function by itself, which has its registers for this.
    #[inline(never)]
    pub(crate) fn take_together(&mut self, first: Option<MessageId>, together: &mut Together<'a>) {
        let (mut unread, bytes_max) = (self.burst.unread(), self.burst.bytes_max);
        if let Some(receive) = first
            && let Some((_, ShortMessage { tag, payload })) =
                unread.take_matched(bytes_max, |_| Some(receive))
        {
            together.push(Matched { receive, tag, payload });
        }
        let before = together.len();
        if let Some(mut receives) = self.mail.exact_receives(self.source) {
            while !together.is_full()
                && let Some((receive, ShortMessage { tag, payload })) =
                    unread.take_matched(bytes_max, |tag| receives.take(tag).map(MessageId))
            {
                together.push(Matched { receive, tag, payload });
            }
            receives.were_taken((together.len() - before) as u32);
        } else if let Some((receive, ShortMessage { tag, payload })) =
            unread.take_matched(bytes_max, |tag| self.mail.take_receive(self.source, tag))
        {
            together.push(Matched { receive, tag, payload });
        }
        self.burst.read_up_to(unread);
    }

    /// As [`MatchedBurst::take_short_while`], where receives wait that leave the source or the tag open.
    #[inline(never)]
    fn take_seldom(&mut self, end: impl FnMut(MessageId, ShortMessage<'a>) -> bool) -> Option<MessageId> {
        let Self { burst, mail, source } = self;
        burst.take_short_while(|tag| mail.take_receive(*source, tag), end)
    }

    /// How many messages were taken.
    #[inline]
    pub fn taken(&self) -> usize {
        self.burst.taken()
    }
}
