//! Tagged messages that came together: those that receives have, and those that no receive waits for.

use arrayvec::ArrayVec;
use farcall_driver::{FETCH_BYTES_MAX, Words};
use farcall_protocol::matching::{Source, Tag, payload_lines};
use farcall_protocol::ring::{ENTRY_LENGTH_MAX, EntryHeader};

use super::entries::{Entries, Unread};
use crate::mail::Mail;
use crate::{Incoming, MessageId, SessionId, Short};

/// A message that no receive waits for.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    /// Its tag.
    pub tag: Tag,
    /// Its bytes.
    pub payload: Incoming<'a>,
}

/// A message, and the receive that has it.
#[derive(Clone, Copy, Debug)]
pub struct Matched<'a> {
    /// The receive.
    pub receive: MessageId,
    /// The tag of the message.
    pub tag: Tag,
    /// The bytes of the message.
    pub payload: Incoming<'a>,
}

/// Messages of one session that no receive waits for, in the order in which they were sent.
pub struct MessageBatch<'a> {
    session: SessionId,
    messages: Messages<'a>,
}

enum Messages<'a> {
    Entries(MessageEntries<'a>),
    Single(Option<Message<'a>>),
}

/// Messages that were matched together.
pub(crate) type Together<'a> = ArrayVec<Matched<'a>, MATCHED_MAX>;

/// The most messages that are matched together.
pub(crate) const MATCHED_MAX: usize = 16;

/// What was taken out of a record.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Taken {
    pub messages: u16,
    /// What they count in the window of their session.
    pub lines: u32,
}

/// Messages of a record that were not taken.
#[derive(Clone, Copy)]
pub(crate) struct MessageEntries<'a> {
    entries: Entries<'a>,
    /// What the payloads of the messages that were taken count in the window of their session.
    payload_lines: u32,
    /// The most bytes of a message.
    bytes_max: usize,
}

/// What changes when messages are taken: a loop keeps it in registers.
#[derive(Clone, Copy)]
struct UnreadMessages<'a> {
    unread: Unread<'a>,
    payload_lines: u32,
}

impl<'a> UnreadMessages<'a> {
    /// The next message, and what comes behind it.
    #[inline(always)]
    fn peek(&self, bytes_max: usize) -> Option<(Tag, &'a [u8], Words<'a>)> {
        let (tag, payload, rest) = self.unread.peek(|word| EntryHeader::tagged_message(word, bytes_max))?;
        Some((Tag(tag), payload, rest))
    }

    /// The message that was looked at is taken.
    #[inline(always)]
    fn advance(&mut self, payload: &[u8], rest: Words<'a>) {
        self.unread.advance(rest);
        self.payload_lines += payload_lines(payload.len());
    }

    /// Takes the next message, if `receive_for` has a receive for it.
    #[inline(always)]
    fn take_matched(
        &mut self,
        bytes_max: usize,
        receive_for: impl FnOnce(Tag) -> Option<MessageId>,
    ) -> Option<Matched<'a>> {
        let (tag, payload, rest) = self.peek(bytes_max)?;
        let receive = receive_for(tag)?;
        self.advance(payload, rest);
        Some(Matched { receive, tag, payload: Incoming::Borrowed(payload) })
    }
}

impl<'a> MessageEntries<'a> {
    /// Those of these entries that are messages, of at most so many bytes each.
    #[inline(always)]
    pub fn new(entries: Entries<'a>, bytes_max: usize) -> Self {
        Self { entries, payload_lines: 0, bytes_max: bytes_max.min(ENTRY_LENGTH_MAX) }
    }

    /// Matches the next messages with the receives that wait for them, as many as there is room for: short ones together, a
    /// longer one alone.
    ///
    /// A function by itself, which has its registers for this.
    #[inline(never)]
    pub fn take_matched(&mut self, mail: &mut Mail, source: Source, together: &mut Together<'a>) {
        let mut unread = self.unread();
        let short_bytes_max = self.bytes_max.min(Short::BYTES_MAX);
        let is_short = unread.peek(short_bytes_max).is_some();
        if is_short && let Some(mut receives) = mail.exact_receives(source) {
            while !together.is_full()
                && let Some(matched) =
                    unread.take_matched(short_bytes_max, |tag| receives.take(tag).map(MessageId))
            {
                together.push(matched);
            }
            receives.were_taken(together.len() as u32);
        } else if let Some(matched) =
            unread.take_matched(self.bytes_max, |tag| mail.take_receive(source, tag))
        {
            together.push(matched);
        }
        self.read_up_to(unread);
    }

    /// Starts to fetch the next message, most likely one of so many bytes, while something is done with those that were taken.
    #[inline(always)]
    pub fn fetch_next(&self, bytes: usize) {
        self.entries.unread.fetch(bytes.min(FETCH_BYTES_MAX));
    }

    /// Whether nothing comes behind the messages that were taken.
    #[inline]
    pub fn is_at_end(&self) -> bool {
        self.entries.left() == 0
    }

    /// Where the next entry is, and what was taken.
    #[inline]
    pub fn end(&self) -> (usize, Taken) {
        let messages = self.entries.taken();
        let taken = Taken { messages, lines: u32::from(messages) + self.payload_lines };
        (self.entries.offset(), taken)
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
}

impl<'a> MessageBatch<'a> {
    /// A message alone.
    #[inline]
    pub fn single(session: SessionId, message: Message<'a>) -> Self {
        Self { session, messages: Messages::Single(Some(message)) }
    }

    #[inline(always)]
    pub(crate) fn new(session: SessionId, entries: MessageEntries<'a>) -> Self {
        Self { session, messages: Messages::Entries(entries) }
    }

    /// Where they came from.
    #[inline(always)]
    pub fn session(&self) -> SessionId {
        self.session
    }

    /// Takes messages, up to one after which `take` says that this is enough.
    ///
    /// Always inlined, so that one loop does everything.
    #[inline(always)]
    pub fn take_while(&mut self, mut take: impl FnMut(Message<'a>) -> bool) {
        match &mut self.messages {
            Messages::Single(single) => _ = single.take().map(take),
            Messages::Entries(entries) => loop {
                let mut unread = entries.unread();
                let Some((tag, payload, rest)) = unread.peek(entries.bytes_max) else { break };
                unread.advance(payload, rest);
                entries.read_up_to(unread);
                if !take(Message { tag, payload: Incoming::Borrowed(payload) }) {
                    break;
                }
            },
        }
    }

    /// How many messages were taken.
    #[inline]
    pub fn taken(&self) -> usize {
        match &self.messages {
            Messages::Single(single) => usize::from(single.is_none()),
            Messages::Entries(entries) => entries.entries.taken().into(),
        }
    }

    /// Where the next entry is, and what was taken.
    #[inline(always)]
    pub(crate) fn end(&self) -> (usize, Taken) {
        match &self.messages {
            Messages::Entries(entries) => entries.end(),
            Messages::Single(_) => (0, Taken::default()),
        }
    }
}
