//! Messages that are given to who asks for them, without a poll: out of the batch that the last poll left.

use farcall_protocol::matching::{Source, Tag, lines, lines_max};
use farcall_protocol::session::SessionId;
use farcall_protocol::wire::Batch;

use super::outbound::{Outbound, live};
use super::seam::{Arrival, Library};
use super::tagged::OVERRUN;
use crate::TakeLeft;
use crate::burst::Taken;
use crate::unclaimed::Left;

impl<L: Library> Outbound<L> {
    /// Takes note of what a batch was left for, after so many messages that were expected.
    #[inline]
    pub fn note_left(&mut self, id: SessionId, messages: u16, unread: Batch<'_>) {
        if let Some(channel) = live(&mut self.channels, id) {
            let source = channel.tagged.mail.source;
            self.unclaimed.note(messages, || next_of(source, unread));
        }
    }

    /// Whether a message was left that a receive for this one would get, before any other receive and any other message.
    #[inline]
    pub fn has_left(&self, from: Source, tag: Tag, bytes_max: usize) -> bool {
        self.unclaimed.find(from, tag, bytes_max).is_some() && self.mail.is_idle() && !self.tracer.is_on()
    }

    /// Takes a message out of the batch in which it was left: the message that a receive would get which is posted now.
    pub fn claim_left(&mut self, from: Source, tag: Tag, bytes_max: usize, take: &mut TakeLeft<'_>) -> bool {
        self.has_left(from, tag, bytes_max) && self.claim(from, tag, take).is_some()
    }

    fn claim(&mut self, from: Source, tag: Tag, take: &mut TakeLeft<'_>) -> Option<()> {
        let held = self.held.as_mut()?;
        let id = held.rest.id;
        let channel = live(&mut self.channels, id)?;
        let payload = held.arrival.payload();
        let bytes = payload.as_slice();
        let mut batch = held.rest.unread(bytes)?;
        let message = match batch.next()? {
            Ok((next, message)) if next == tag => message,
            _ => return None,
        };
        let lines = lines(message.len()).min(lines_max(self.unexpected_lines));
        if channel.tagged.mail.pass(Taken { messages: 1, lines }).is_err() {
            self.violated(id, OVERRUN);
            return None;
        }
        take(crate::SessionId(id.0), message);
        held.rest.read_up_to(bytes.len() - batch.unread());
        self.counters.messages_received.increment();
        let is_over = batch.unread() == 0 && !channel.tagged.has_early();
        self.unclaimed.note(1, || next_of(from, batch));
        if is_over {
            self.release_held();
        }
        self.return_credit_if_due(id);
        Some(())
    }
}

/// The next message, which is of `source`.
#[inline]
fn next_of(source: Source, mut unread: Batch<'_>) -> Option<Left<()>> {
    let (tag, message) = unread.next()?.ok()?;
    Some(Left { source, tag, bytes: message.len(), place: () })
}
