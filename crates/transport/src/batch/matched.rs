//! Messages that receives have.
//!
//! They are matched while they are taken: for a future, one loop finds the receive of a message and ends it.
//! A sink that needs the outbox for what it does, as for callbacks, has the messages behind the first matched
//! before it begins.

use arrayvec::ArrayVec;
use farcall_driver::Words;
use farcall_protocol::matching::{Source, Tag, lines};
use farcall_protocol::wire::Batch;

use super::messages::{MessageEntries, Taken, UnreadMessages};
use crate::matcher::Matcher;
use crate::{Incoming, MessageId, Outbox, SessionId};

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

/// Messages that were matched together.
pub type Together<'a> = ArrayVec<Matched<'a>, MATCHED_MAX>;

/// The most messages that are matched together.
const MATCHED_MAX: usize = 16;

/// Messages of one session, in the order in which they were sent, each with the receive that has it, up to
/// one that no receive waits for.
pub struct MatchedBatch<'t, 'a> {
    session: SessionId,
    messages: Messages<'t, 'a>,
}

pub(crate) enum Messages<'t, 'a> {
    Single(&'t mut dyn Outbox, Option<Matched<'a>>),
    Entries(&'t mut dyn MatchSource, Source, MessageEntries<'a>),
    Packet(&'t mut dyn MatchSource, Source, MessagePacket<'a>),
}

/// A transport whose messages are matched while they are taken.
pub(crate) trait MatchSource: Outbox {
    fn matcher(&mut self) -> &mut Matcher;
}

/// The messages of a library's packet that were not taken.
#[derive(Clone, Copy)]
pub(crate) struct MessagePacket<'a> {
    pub rest: Batch<'a>,
    pub taken: Taken,
    /// The most that a message counts in the window of its session.
    pub lines_max: u32,
}

/// Messages that can be looked at one after the other. What changes is copied by a loop, which keeps it in
/// registers.
trait Unread<'a> {
    type Rest;

    /// The next message, and what comes behind it.
    fn peek(&self) -> Option<(Tag, &'a [u8], Self::Rest)>;

    /// The message that was looked at is taken.
    fn advance(&mut self, payload: &[u8], rest: Self::Rest);
}

impl<'a> Unread<'a> for UnreadMessages<'a> {
    type Rest = Words<'a>;

    #[inline(always)]
    fn peek(&self) -> Option<(Tag, &'a [u8], Words<'a>)> {
        self.peek()
    }

    #[inline(always)]
    fn advance(&mut self, payload: &[u8], rest: Words<'a>) {
        self.advance(payload, rest);
    }
}

impl<'a> Unread<'a> for MessagePacket<'a> {
    type Rest = Batch<'a>;

    /// What is more than can be counted is left to the next batch.
    #[inline(always)]
    fn peek(&self) -> Option<(Tag, &'a [u8], Batch<'a>)> {
        let mut rest = self.rest;
        let (tag, payload) = rest.next()?.ok()?;
        (self.taken.messages < u16::MAX).then_some((tag, payload, rest))
    }

    #[inline(always)]
    fn advance(&mut self, payload: &[u8], rest: Batch<'a>) {
        self.rest = rest;
        self.taken.messages += 1;
        self.taken.lines += lines(payload.len()).min(self.lines_max);
    }
}

impl<'t, 'a> MatchedBatch<'t, 'a> {
    /// A message alone, of a transport whose receives it came over.
    #[inline]
    pub fn single(outbox: &'t mut dyn Outbox, session: SessionId, matched: Matched<'a>) -> Self {
        Self { session, messages: Messages::Single(outbox, Some(matched)) }
    }

    #[inline]
    pub(crate) fn of_entries(
        transport: &'t mut dyn MatchSource,
        session: SessionId,
        source: Source,
        entries: MessageEntries<'a>,
    ) -> Self {
        Self { session, messages: Messages::Entries(transport, source, entries) }
    }

    #[inline]
    pub(crate) fn of_packet(
        transport: &'t mut dyn MatchSource,
        session: SessionId,
        source: Source,
        packet: MessagePacket<'a>,
    ) -> Self {
        Self { session, messages: Messages::Packet(transport, source, packet) }
    }

    /// What it is made of, for a transport that lends it on with another outbox.
    #[inline]
    pub(crate) fn parts(&mut self) -> &mut Messages<'t, 'a> {
        &mut self.messages
    }

    /// What was not taken of a message alone.
    #[inline]
    pub(crate) fn into_single(self) -> Option<Matched<'a>> {
        match self.messages {
            Messages::Single(_, single) => single,
            Messages::Entries(..) | Messages::Packet(..) => None,
        }
    }

    /// What was not taken of a record.
    #[inline]
    pub(crate) fn into_entries(self) -> Option<MessageEntries<'a>> {
        match self.messages {
            Messages::Entries(.., entries) => Some(entries),
            Messages::Single(..) | Messages::Packet(..) => None,
        }
    }

    /// Where they came from.
    #[inline]
    pub fn session(&self) -> SessionId {
        self.session
    }

    /// The transport that they came over.
    #[inline]
    pub fn outbox(&mut self) -> &mut dyn Outbox {
        match &mut self.messages {
            Messages::Single(outbox, _) => *outbox,
            Messages::Entries(transport, ..) | Messages::Packet(transport, ..) => &mut **transport,
        }
    }

    /// Takes messages, as long as `end` ends the receives that have them, which it says; gives the one that
    /// it did not end. Its receive waits no longer.
    ///
    /// Always inlined, so that one loop does everything and keeps what it needs in registers.
    #[inline(always)]
    pub fn take_while(&mut self, mut end: impl FnMut(&Matched<'a>) -> bool) -> Option<Matched<'a>> {
        match &mut self.messages {
            Messages::Single(_, single) => single.take().filter(|matched| !end(matched)),
            Messages::Entries(transport, source, entries) => {
                let mut unread = entries.unread();
                let other = take_while(&mut unread, transport.matcher(), *source, end);
                entries.read_up_to(unread);
                if let Some(matched) = &other {
                    entries.fetch_next(matched.payload.as_slice().len());
                }
                other
            }
            Messages::Packet(transport, source, packet) => {
                let mut unread = *packet;
                let other = take_while(&mut unread, transport.matcher(), *source, end);
                *packet = unread;
                other
            }
        }
    }

    /// `first`, which was taken, and the next messages, taken with it: as many as there is room for.
    ///
    /// A function by itself, which has its registers for this.
    #[inline(never)]
    pub fn take_behind(&mut self, first: Matched<'a>) -> Together<'a> {
        let mut together = Together::new();
        together.push(first);
        self.take_while(|matched| {
            together.push(*matched);
            !together.is_full()
        });
        together
    }

    /// How many messages were taken.
    #[inline]
    pub fn taken(&self) -> usize {
        match &self.messages {
            Messages::Single(_, single) => usize::from(single.is_none()),
            Messages::Entries(.., entries) => entries.end().1.messages.into(),
            Messages::Packet(.., packet) => packet.taken.messages.into(),
        }
    }

    /// Where the next entry is, and what was taken.
    #[inline]
    pub(crate) fn entries_end(&self) -> (usize, Taken) {
        match &self.messages {
            Messages::Entries(.., entries) => entries.end(),
            Messages::Single(..) | Messages::Packet(..) => (0, Taken::default()),
        }
    }

    /// What is left of a packet, and what was taken.
    #[inline]
    pub(crate) fn packet_end(&self) -> Option<MessagePacket<'a>> {
        match &self.messages {
            Messages::Packet(.., packet) => Some(*packet),
            Messages::Single(..) | Messages::Entries(..) => None,
        }
    }
}

#[inline(always)]
fn take_while<'a>(
    unread: &mut impl Unread<'a>,
    matcher: &mut Matcher,
    source: Source,
    mut end: impl FnMut(&Matched<'a>) -> bool,
) -> Option<Matched<'a>> {
    let Some(mut receives) = matcher.exact_receives(source) else {
        // Receives wait that leave the source or the tag open.
        return take_each(unread, |tag| matcher.take_receive(source, tag), end);
    };
    let mut taken = 0;
    let other = take_each(
        unread,
        |tag| receives.take(tag).map(MessageId),
        |matched| {
            taken += 1;
            end(matched)
        },
    );
    receives.were_taken(taken);
    other
}

#[inline(always)]
fn take_each<'a>(
    unread: &mut impl Unread<'a>,
    mut receive_for: impl FnMut(Tag) -> Option<MessageId>,
    mut end: impl FnMut(&Matched<'a>) -> bool,
) -> Option<Matched<'a>> {
    while let Some((tag, payload, rest)) = unread.peek()
        && let Some(receive) = receive_for(tag)
    {
        unread.advance(payload, rest);
        let matched = Matched { receive, tag, payload: Incoming::Borrowed(payload) };
        if !end(&matched) {
            return Some(matched);
        }
    }
    None
}
