//! Messages that are given to the receive that asks for them, without a poll: out of the batch that the last
//! poll left.

use farcall_protocol::matching::{Source, Tag, lines, lines_max};
use farcall_protocol::session::SessionId;
use farcall_protocol::wire::Batch;

use super::LibraryTransport;
use super::channel::Channel;
use super::outbound::{Held, live};
use super::seam::{Arrival, Library};
use super::tagged::OVERRUN;
use crate::batch::Taken;
use crate::matcher::Deferred;
use crate::{Arrived, Deliver};

impl<L: Library> LibraryTransport<L> {
    /// Takes note of what a batch was left for, after so many messages that were expected.
    #[inline]
    pub(super) fn note_left(&mut self, id: SessionId, messages: u16, unread: Batch<'_>) {
        if let Some(channel) = live(&mut self.channels, id) {
            let source = channel.tagged.matching.source;
            self.deferred.note(messages, || next_of(source, unread));
        }
    }

    /// Whether a message was left that a receive for this one would get, before any other receive and any
    /// other message.
    #[inline]
    pub(super) fn has_left(&self, from: Source, tag: Tag, bytes_max: usize) -> bool {
        self.deferred.find(from, tag, bytes_max).is_some() && self.matcher.is_idle() && !self.tracer.is_on()
    }

    /// Gives `deliver` the message that a receive would get which is posted now, if it was left where it lies
    /// and has at most so many bytes; says whether it did.
    pub(super) fn deliver_deferred(
        &mut self,
        from: Source,
        tag: Tag,
        bytes_max: usize,
        deliver: &mut Deliver<'_>,
    ) -> bool {
        if !self.has_left(from, tag, bytes_max) {
            return false;
        }
        // As in a poll, it is out of its place meanwhile.
        let Some(held) = self.held.take() else { return false };
        let id = held.rest.id;
        let claimed = claim(&mut self.channels, self.unexpected_lines, &held, tag);
        let given = claimed.map(|claimed| {
            claimed.map(|(message, unread)| {
                deliver(self, crate::SessionId(id.0), tag, Arrived::InPlace(message));
                Behind::new(from, unread)
            })
        });
        self.held = Some(held);
        self.settle(id, given)
    }

    /// Whether a message of this session was claimed; if so, what is behind it is left.
    #[inline(always)]
    fn settle(&mut self, id: SessionId, claimed: Result<Option<Behind>, &'static str>) -> bool {
        match claimed {
            Ok(None) => return false,
            Ok(Some(behind)) => self.pass_left(behind),
            Err(what) => {
                self.violated(id, what);
                return false;
            }
        }
        self.return_credit_if_due(id);
        true
    }

    #[inline(always)]
    fn pass_left(&mut self, Behind { unread, next }: Behind) {
        let Some(held) = &mut self.held else { return };
        let id = held.rest.id;
        held.rest.read_up_to(held.arrival.payload().as_slice().len() - unread);
        self.counters.messages_received.increment();
        self.deferred.note(1, || next);
        if unread == 0 && !self.channel(id).is_some_and(|channel| channel.tagged.has_early()) {
            self.release_held();
        }
    }
}

/// What is behind a message that was claimed.
struct Behind {
    /// In bytes.
    unread: usize,
    next: Option<Deferred<()>>,
}

impl Behind {
    #[inline(always)]
    fn new(source: Source, unread: Batch<'_>) -> Self {
        Self { unread: unread.unread(), next: next_of(source, unread) }
    }
}

/// The next message of what is held, if it has this tag, and what is behind it. It counts as received.
#[inline(always)]
fn claim<'h, A: Arrival>(
    channels: &mut [Option<Channel>],
    unexpected_lines: u32,
    held: &'h Held<A>,
    tag: Tag,
) -> Result<Option<(&'h [u8], Batch<'h>)>, &'static str> {
    let Some(channel) = live(channels, held.rest.id) else { return Ok(None) };
    let Some(mut batch) = held.rest.unread(held.arrival.payload().as_slice()) else { return Ok(None) };
    let message = match batch.next() {
        Some(Ok((next, message))) if next == tag => message,
        _ => return Ok(None),
    };
    let lines = lines(message.len()).min(lines_max(unexpected_lines));
    channel.tagged.matching.pass(Taken { messages: 1, lines }).map_err(|_| OVERRUN)?;
    Ok(Some((message, batch)))
}

/// The next message, which is of `source`.
#[inline]
fn next_of(source: Source, mut unread: Batch<'_>) -> Option<Deferred<()>> {
    let (tag, message) = unread.next()?.ok()?;
    Some(Deferred { source, tag, bytes: message.len(), place: () })
}
