//! In: messages that receives wait for, which need no trace and no place: the way of nearly all.

use farcall_protocol::matching::{Source, Tag, lines, lines_max};
use farcall_protocol::session::SessionId;
use farcall_protocol::wire::Batch;

use super::OVERRUN;
use crate::burst::{TOGETHER_MAX, Taken, Together};
use crate::library::outbound::{Outbound, live};
use crate::library::seam::Library;
use crate::{Envelope, Incoming, Matched, MessageId, Short, ShortMessage, Sink};

impl<L: Library> Outbound<L> {
    /// Hands a message that came for itself to the receive that waits for it; false when none does. It is not traced.
    #[inline]
    pub fn give_expected(
        &mut self,
        id: SessionId,
        tag: Tag,
        payload: &Incoming<'_>,
        sink: &mut dyn Sink,
    ) -> Result<bool, &'static str> {
        let Some(channel) = live(&mut self.channels, id) else { return Ok(false) };
        let Some(receive) = self.mail.take_receive(channel.tagged.mail.source, tag) else { return Ok(false) };
        let (session, bytes) = (crate::SessionId(id.0), payload.as_slice().len());
        let lines = lines(bytes).min(lines_max(self.unexpected_lines));
        channel.tagged.mail.pass(Taken { messages: 1, lines }).map_err(|_| OVERRUN)?;
        self.counters.messages_received.increment();
        self.patience = self.patience.after_a_receive();
        if !matches!(payload, Incoming::Borrowed(message) if sink.received_at_once(receive, session, tag, message))
        {
            sink.received(self, receive, Envelope { session, tag, bytes }, payload);
        }
        Ok(true)
    }

    /// Hands messages of a batch to the receives that wait for them, up to one that none waits for, or that breaks a rule. They
    /// are not traced. Says how many there were.
    #[inline]
    pub fn read_expected(
        &mut self,
        id: SessionId,
        batch: &mut Batch<'_>,
        sink: &mut dyn Sink,
    ) -> Result<u16, &'static str> {
        let Some(channel) = live(&mut self.channels, id) else { return Ok(0) };
        let (session, source) = (crate::SessionId(id.0), channel.tagged.mail.source);
        // Where one message cannot be taken at once, the next most likely cannot.
        let (mut taken, mut at_once) = (Taken::default(), true);
        loop {
            if self.matches_ahead {
                self.read_together(session, source, batch, &mut taken, sink);
            }
            if !self.mail.expects_messages() {
                break;
            }
            let Some((receive, message)) = self.next_expected(source, batch, &mut taken) else { break };
            let ShortMessage { tag, payload } = message;
            at_once = at_once && sink.received_at_once(receive, session, tag, payload);
            if !at_once {
                let envelope = Envelope { session, tag, bytes: payload.len() };
                sink.received(self, receive, envelope, &Incoming::Borrowed(payload));
                self.matches_ahead = payload.len() <= Short::BYTES_MAX;
            }
        }
        // None of them was kept, so that it is early enough to look at the window now.
        if let Some(channel) = live(&mut self.channels, id) {
            channel.tagged.mail.pass(taken).map_err(|_| OVERRUN)?;
        }
        self.counters.messages_received.add(u64::from(taken.messages));
        Ok(taken.messages)
    }

    /// Takes the next message of a batch, if a receive waits for it.
    #[inline(always)]
    fn next_expected<'b>(
        &mut self,
        source: Source,
        batch: &mut Batch<'b>,
        taken: &mut Taken,
    ) -> Option<(MessageId, ShortMessage<'b>)> {
        if taken.messages == u16::MAX {
            return None;
        }
        let next = take_next(batch, usize::MAX, |tag| self.mail.take_receive(source, tag))?;
        taken.messages += 1;
        taken.lines += lines(next.1.payload.len()).min(lines_max(self.unexpected_lines));
        Some(next)
    }

    /// Hands short messages on by the dozen, as long as more than one at a time is expected.
    #[inline(never)]
    fn read_together(
        &mut self,
        session: crate::SessionId,
        source: Source,
        batch: &mut Batch<'_>,
        taken: &mut Taken,
        sink: &mut dyn Sink,
    ) {
        let mut together = Together::new();
        loop {
            self.match_together(source, batch, taken, &mut together);
            match together.as_slice() {
                [] => return,
                // What is prepared for several would be for nothing.
                [Matched { receive, tag, payload }] => {
                    // It was not asked what it is for: the next is offered by itself again.
                    self.matches_ahead = false;
                    let envelope = Envelope { session, tag: *tag, bytes: payload.len() };
                    sink.received(self, *receive, envelope, &Incoming::Borrowed(payload));
                }
                several => self.matches_ahead = sink.received_together(self, session, several),
            }
            if batch.unread() == 0 || !self.mail.expects_messages() {
                return;
            }
            together.clear();
        }
    }

    /// Finds the receives for the next messages, if these are short, as many as there is room for.
    ///
    /// A function by itself, which has its registers for this.
    #[inline(never)]
    fn match_together<'b>(
        &mut self,
        source: Source,
        batch: &mut Batch<'b>,
        taken: &mut Taken,
        together: &mut Together<'b>,
    ) {
        // What is more than can be counted is left to who takes messages one by one, and to the next poll.
        if taken.messages > u16::MAX - TOGETHER_MAX as u16 {
            return;
        }
        let (mut unread, mut lines) = (*batch, taken.lines);
        let lines_max = lines_max(self.unexpected_lines);
        let lines_of = |payload: &[u8]| self::lines(payload.len()).min(lines_max);
        if let Some(mut receives) = self.mail.exact_receives(source) {
            while !together.is_full()
                && let Some((receive, ShortMessage { tag, payload })) =
                    take_next(&mut unread, Short::BYTES_MAX, |tag| receives.take(tag).map(MessageId))
            {
                lines += lines_of(payload);
                together.push(Matched { receive, tag, payload });
            }
            receives.were_taken(together.len() as u32);
        } else if let Some((receive, ShortMessage { tag, payload })) =
            take_next(&mut unread, Short::BYTES_MAX, |tag| self.mail.take_receive(source, tag))
        {
            lines += lines_of(payload);
            together.push(Matched { receive, tag, payload });
        }
        *batch = unread;
        taken.messages += together.len() as u16;
        taken.lines = lines;
    }
}

/// Takes the next message of a batch, if it has at most so many bytes and `receive_for` a receive for it.
#[inline(always)]
fn take_next<'b>(
    batch: &mut Batch<'b>,
    bytes_max: usize,
    receive_for: impl FnOnce(Tag) -> Option<MessageId>,
) -> Option<(MessageId, ShortMessage<'b>)> {
    let mut ahead = *batch;
    let (tag, payload) = ahead.next()?.ok()?;
    if payload.len() > bytes_max {
        return None;
    }
    let receive = receive_for(tag)?;
    *batch = ahead;
    Some((receive, ShortMessage { tag, payload }))
}
