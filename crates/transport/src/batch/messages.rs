//! Messages of a record, and those that no receive waits for.

use farcall_driver::{FETCH_BYTES_MAX, Words};
use farcall_protocol::matching::{Tag, payload_lines};
use farcall_protocol::ring::{ENTRY_LENGTH_MAX, EntryHeader};

use super::entries::{Entries, Unread};
use crate::{Incoming, SessionId};

/// A message that no receive waits for.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    /// Its tag.
    pub tag: Tag,
    /// Its bytes.
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
    /// Whether what comes behind a message is worth fetching ahead.
    fetches: bool,
}

/// What a loop that takes messages keeps in registers.
#[derive(Clone, Copy)]
pub(super) struct UnreadMessages<'a> {
    unread: Unread<'a>,
    payload_lines: u32,
    bytes_max: usize,
}

impl<'a> UnreadMessages<'a> {
    /// The next message, and what comes behind it.
    #[inline(always)]
    pub fn peek(&self) -> Option<(Tag, &'a [u8], Words<'a>)> {
        let (tag, payload, rest) =
            self.unread.peek(|word| EntryHeader::tagged_message(word, self.bytes_max))?;
        Some((Tag(tag), payload, rest))
    }

    /// The message that was looked at is taken.
    #[inline(always)]
    pub fn advance(&mut self, payload: &[u8], rest: Words<'a>) {
        self.unread.advance(rest);
        self.payload_lines += payload_lines(payload.len());
    }
}

impl<'a> MessageEntries<'a> {
    /// Those of these entries that are messages, of at most this many bytes each.
    #[inline]
    pub fn new(entries: Entries<'a>, bytes_max: usize, fetches: bool) -> Self {
        Self { entries, payload_lines: 0, bytes_max: bytes_max.min(ENTRY_LENGTH_MAX), fetches }
    }

    /// Starts to fetch the next message, most likely one of this many bytes, while something is done with
    /// those that were taken.
    #[inline]
    pub fn fetch_next(&self, bytes: usize) {
        if self.fetches {
            self.entries.unread.fetch(bytes.min(FETCH_BYTES_MAX));
        }
    }

    /// Where the next entry is, and what was taken.
    #[inline]
    pub fn end(&self) -> (usize, Taken) {
        let messages = self.entries.taken();
        let taken = Taken { messages, lines: u32::from(messages) + self.payload_lines };
        (self.entries.offset(), taken)
    }

    #[inline(always)]
    pub(super) fn unread(&self) -> UnreadMessages<'a> {
        let &Self { entries: Entries { unread, .. }, payload_lines, bytes_max, .. } = self;
        UnreadMessages { unread, payload_lines, bytes_max }
    }

    /// What is not in `rest` was taken.
    #[inline(always)]
    pub(super) fn read_up_to(&mut self, rest: UnreadMessages<'a>) {
        self.entries.unread = rest.unread;
        self.payload_lines = rest.payload_lines;
    }
}

/// What a loop keeps in registers. What it has taken is taken when it ends, be that with a panic.
struct Lent<'s, 'a> {
    unread: UnreadMessages<'a>,
    from: &'s mut MessageEntries<'a>,
}

impl Drop for Lent<'_, '_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.from.read_up_to(self.unread);
    }
}

impl<'a> MessageBatch<'a> {
    /// A message alone.
    #[inline]
    pub fn single(session: SessionId, message: Message<'a>) -> Self {
        Self { session, messages: Messages::Single(Some(message)) }
    }

    #[inline]
    pub(crate) fn new(session: SessionId, entries: MessageEntries<'a>) -> Self {
        Self { session, messages: Messages::Entries(entries) }
    }

    /// Where they came from.
    #[inline]
    pub fn session(&self) -> SessionId {
        self.session
    }

    /// They count as those of this session.
    #[inline]
    pub(crate) fn renumber(&mut self, session: SessionId) {
        self.session = session;
    }

    /// Takes messages, up to one after which `take` says that this is enough.
    ///
    /// Always inlined, so that one loop does everything and keeps what it needs in registers.
    #[inline(always)]
    pub fn take_while(&mut self, mut take: impl FnMut(Message<'a>) -> bool) {
        match &mut self.messages {
            Messages::Single(single) => _ = single.take().map(take),
            Messages::Entries(entries) => {
                let mut lent = Lent { unread: entries.unread(), from: entries };
                while let Some((tag, payload, rest)) = lent.unread.peek() {
                    lent.unread.advance(payload, rest);
                    if !take(Message { tag, payload: Incoming::Borrowed(payload) }) {
                        break;
                    }
                }
            }
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
    #[inline]
    pub(crate) fn end(&self) -> (usize, Taken) {
        match &self.messages {
            Messages::Entries(entries) => entries.end(),
            Messages::Single(_) => (0, Taken::default()),
        }
    }
}
