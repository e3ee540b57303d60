//! In: messages that receives wait for, which need no trace and no place: the way of nearly all.

use farcall_protocol::matching::{Source, Tag, lines, lines_max};
use farcall_protocol::session::SessionId;
use farcall_protocol::wire::Batch;

use super::OVERRUN;
use crate::burst::{Taken, Together};
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
        let mut taken = Taken::default();
        // Where one message cannot be taken at once, the next most likely cannot.
        let mut at_once = !self.matches_ahead;
        while let Some((receive, message)) = self.next_expected(source, batch, &mut taken) {
            let ShortMessage { tag, payload } = message;
            at_once = at_once && sink.received_at_once(receive, session, tag, payload);
            if at_once {
                continue;
            }
            if payload.len() <= Short::BYTES_MAX {
                let mut together = Together::new();
                together.push(Matched::new(receive, tag, payload));
                self.read_together(&mut together, session, source, batch, &mut taken, sink);
            } else {
                let envelope = Envelope { session, tag, bytes: payload.len() };
                sink.received(self, receive, envelope, &Incoming::Borrowed(payload));
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
        let mut ahead = *batch;
        let (tag, payload) = ahead.next().filter(|_| taken.messages < u16::MAX)?.ok()?;
        let receive = self.mail.take_receive(source, tag)?;
        *batch = ahead;
        taken.messages += 1;
        taken.lines += lines(payload.len()).min(lines_max(self.unexpected_lines));
        Some((receive, ShortMessage { tag, payload }))
    }

    /// Hands the message on that is there, together with those behind it, as many as are expected.
    #[inline(never)]
    fn read_together<'b>(
        &mut self,
        together: &mut Together<'b>,
        session: crate::SessionId,
        source: Source,
        batch: &mut Batch<'b>,
        taken: &mut Taken,
        sink: &mut dyn Sink,
    ) {
        while !together.is_full()
            && let Some((receive, ShortMessage { tag, payload })) = self.next_expected(source, batch, taken)
        {
            together.push(Matched::new(receive, tag, payload));
        }
        match together.as_slice() {
            // What is prepared for several would be for nothing.
            [one] => {
                // It was not asked what it is for: the next is offered by itself again.
                self.matches_ahead = false;
                let envelope = Envelope { session, tag: one.tag, bytes: one.payload().as_slice().len() };
                sink.received(self, one.receive, envelope, one.payload());
            }
            several => self.matches_ahead = sink.received_together(self, session, several),
        }
    }
}
