//! In: to who waits for a message, or kept.
//!
//! A message that nobody expects is left where it lies until the next poll: the receiver may be about to post receives,
//! and what is given to them from the ring is not copied twice. After that it is kept, so that it holds up nothing else
//! for longer than a turn.

use farcall_driver::LaneDriver;
use farcall_protocol::matching::{Source, Tag, lines};
use farcall_protocol::ring::{EntryHeader, EntryKind, WORD_BYTES};

use super::overrun;
use crate::burst::Together;
use crate::mail::{Claimed, Verdict};
use crate::ring::outbound::Outbound;
use crate::ring::session::Stage;
use crate::trace::event;
use crate::{
    DownReason, Envelope, Incoming, MatchedBurst, MessageBurst, MessageId, Origin, ReceiveProgress,
    SessionId, Short, ShortMessage, Sink,
};

impl<D: LaneDriver> Outbound<D> {
    #[inline]
    pub fn post_receive(
        &mut self,
        receive: MessageId,
        from: Option<Origin>,
        tag: Option<Tag>,
    ) -> ReceiveProgress {
        let is_down = from.is_some_and(|origin| self.slot_of(origin.session).is_none());
        match self.mail.post(receive, from, tag, is_down) {
            Ok(Claimed { envelope, payload, lines, number }) => {
                self.consumed(envelope.session, lines);
                self.tracer.mark_taken(number, envelope.session);
                ReceiveProgress::Arrived(envelope, payload)
            }
            Err(progress) => progress,
        }
    }

    /// A message came; `leave` says whether it may wait where it lies.
    #[inline]
    pub fn arrive(
        &mut self,
        slot: usize,
        tag: Tag,
        payload: &Incoming<'_>,
        leave: bool,
        sink: &mut dyn Sink,
    ) -> Result<Verdict, DownReason> {
        let session = &mut self.sessions[slot];
        let bytes = payload.as_slice().len();
        let counted = match payload {
            Incoming::Borrowed(_) => lines(bytes),
            Incoming::Owned(_) => lines(0),
        };
        let envelope = Envelope { session: session.id, tag, bytes };
        let number = session.mail.received;
        let verdict = self.mail.arrive(&mut session.mail, envelope, payload, counted, leave);
        let verdict = verdict.map_err(overrun)?;
        match verdict {
            Verdict::Left => return Ok(verdict),
            Verdict::Kept => self.counters.unexpected.increment(),
            Verdict::Receive(receive) => {
                self.tracer.mark(event::MESSAGE_MATCHED, number, envelope.session);
                sink.received(self, receive, envelope, payload);
                self.tracer.mark(event::MESSAGE_COMPLETED, number, envelope.session);
            }
            Verdict::HandOn => self.hand_on(number, envelope, payload, sink),
        }
        self.counters.messages_received.increment();
        Ok(verdict)
    }

    /// Hands messages of a burst to those who wait for them, until one comes that nobody waits for; says where the next
    /// entry is, and how many there were. They are not traced.
    #[inline(always)]
    pub fn hand_on_burst(
        &mut self,
        slot: usize,
        mut burst: MessageBurst<'_>,
        sink: &mut dyn Sink,
    ) -> Result<(usize, u16), DownReason> {
        let session = &self.sessions[slot];
        let (id, source) = (session.id, session.mail.source);
        if self.mail.only_hands_on() {
            // A copy, so that the other way has its own in registers.
            let mut lent = burst;
            sink.messages(self, id, &mut lent);
            burst = lent;
        } else {
            let mut matched = MatchedBurst { burst: &mut burst, mail: &mut self.mail, source };
            let next = if self.matches_ahead { None } else { sink.received_burst(id, &mut matched) };
            self.hand_on_rest(slot, &mut burst, next, sink);
        }
        let (at, taken) = burst.end();
        // None of them was kept, so that it is early enough to look at the window now.
        self.sessions[slot].mail.pass(taken).map_err(overrun)?;
        self.counters.messages_received.add(u64::from(taken.messages));
        Ok((at, taken.messages))
    }

    /// Hands on what the sink did not take in its loop, where it most likely does not take the next one either, up to a message
    /// that nobody waits for.
    #[inline(always)]
    fn hand_on_rest(
        &mut self,
        slot: usize,
        burst: &mut MessageBurst<'_>,
        not_ended: Option<MessageId>,
        sink: &mut dyn Sink,
    ) {
        let session = &self.sessions[slot];
        let (id, source, fetches) = (session.id, session.mail.source, session.is_far_behind());
        if self.matches_ahead || not_ended.is_some() {
            self.hand_on_matched(id, source, burst, not_ended, sink);
        }
        // Long messages, and those of who asks for a message with each that it gets.
        while self.mail.expects_messages()
            && let Some((receive, ShortMessage { tag, payload })) =
                burst.take_matched(|tag| self.mail.take_receive(source, tag))
        {
            if fetches {
                burst.fetch_next(payload.len());
            }
            // Short ones were offered together, or most likely are for callbacks.
            if payload.len() <= Short::BYTES_MAX || !sink.received_at_once(receive, id, tag, payload) {
                let envelope = Envelope { session: id, tag, bytes: payload.len() };
                sink.received(self, receive, envelope, &Incoming::Borrowed(payload));
            }
        }
    }

    /// Hands `first`, if there is that, and the messages behind it on by the dozen, as long as more than one at a time is expected. A
    /// function by itself, which has its registers for this.
    #[inline(never)]
    fn hand_on_matched(
        &mut self,
        id: SessionId,
        source: Source,
        burst: &mut MessageBurst<'_>,
        mut first: Option<MessageId>,
        sink: &mut dyn Sink,
    ) {
        let mut together = Together::new();
        loop {
            let mut matched = MatchedBurst { burst, mail: &mut self.mail, source };
            matched.take_together(first.take(), &mut together);
            if !together.is_empty() {
                self.matches_ahead = sink.received_together(self, id, &together);
            }
            if together.len() <= 1 || burst.is_at_end() || !self.mail.expects_messages() {
                return;
            }
            together.clear();
        }
    }

    /// Hands the messages that waited to a sink that takes all.
    #[inline(never)]
    pub fn hand_on_kept(&mut self, sink: &mut dyn Sink) -> usize {
        let mut handed_on = 0;
        while let Some(Claimed { envelope, payload, lines, number }) = self.mail.claim_for_sink() {
            self.consumed(envelope.session, lines);
            self.hand_on(number, envelope, &payload.as_incoming(), sink);
            handed_on += 1;
        }
        handed_on
    }

    #[inline]
    fn hand_on(&mut self, number: u32, envelope: Envelope, payload: &Incoming<'_>, sink: &mut dyn Sink) {
        self.tracer.mark(event::MESSAGE_MATCHED, number, envelope.session);
        sink.message(self, envelope, payload);
        self.tracer.mark(event::MESSAGE_COMPLETED, number, envelope.session);
    }

    /// An unexpected message was consumed.
    fn consumed(&mut self, session: SessionId, lines: u32) {
        if let Some(slot) = self.slot_of(session) {
            self.sessions[slot].mail.receive_window.consume(lines);
            self.return_message_credit_if_due(slot);
        }
    }

    /// Widens the peer's window when enough was consumed. Without room in the ring the need stays.
    #[inline(always)]
    pub fn return_message_credit_if_due(&mut self, slot: usize) {
        if self.sessions[slot].mail.receive_window.credit_is_due() {
            self.return_message_credit(slot);
        }
    }

    #[inline(never)]
    fn return_message_credit(&mut self, slot: usize) {
        if self.sessions[slot].stage != Stage::Up || !self.make_room(slot, WORD_BYTES) {
            return self.note_need();
        }
        let consumed = self.sessions[slot].mail.receive_window.take_credit();
        let header = EntryHeader { kind: EntryKind::MessageCredit, call: consumed, selector: 0, length: 0 };
        self.append(slot, header, &[]);
    }
}
