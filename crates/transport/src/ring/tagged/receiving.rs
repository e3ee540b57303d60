//! In: to who waits for a message, or kept.
//!
//! A message that nobody expects is left where it lies until the next poll: the receiver may be about to post receives,
//! and what is given to them from the ring is not copied twice. After that it is kept, so that it holds up nothing else
//! for longer than a turn.

use farcall_driver::LaneDriver;
use farcall_protocol::matching::{Tag, lines};
use farcall_protocol::ring::{EntryHeader, EntryKind, WORD_BYTES};

use super::overrun;
use crate::batch::{MatchSource, MessageEntries};
use crate::mail::{Claimed, Mail, Verdict};
use crate::ring::Ring;
use crate::ring::session::Stage;
use crate::trace::event;
use crate::{
    Arrived, Deliver, DownReason, Envelope, Incoming, Matched, MatchedBatch, Message, MessageBatch,
    MessageId, Origin, Posted, SessionId, Sink,
};

impl<D: LaneDriver> Ring<D> {
    /// As [`Outbox::post`] where something is in the way of posting at once, or may be.
    #[inline(never)]
    pub(in crate::ring) fn post_otherwise(
        &mut self,
        receive: MessageId,
        from: Option<Origin>,
        tag: Option<Tag>,
        in_place_bytes_max: usize,
        deliver: &mut Deliver<'_>,
    ) -> Posted {
        let is_down = from.is_some_and(|origin| self.slot_of(origin.session).is_none());
        if let (Some(from), Some(tag)) = (from, tag) {
            if self.deliver_deferred(from.source, tag, in_place_bytes_max, deliver) {
                return Posted::Delivered;
            }
            self.receives_from = (!is_down).then_some(from.session);
        }
        match self.mail.post(receive, from, tag, is_down) {
            Ok(Claimed { envelope, payload, lines, number }) => {
                self.consumed(envelope.session, lines);
                self.tracer.mark_taken(number, envelope.session);
                deliver(self, envelope.session, envelope.tag, Arrived::Kept(payload));
                Posted::Delivered
            }
            Err(posted) => posted,
        }
    }

    /// A message came; `leave` says whether it may wait where it lies.
    #[inline]
    pub(in crate::ring) fn arrive(
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
                let matched = Matched { receive, tag, payload: *payload };
                sink.received(&mut MatchedBatch::single(self, envelope.session, matched));
                self.tracer.mark(event::MESSAGE_COMPLETED, number, envelope.session);
            }
            Verdict::HandOn => self.hand_on(number, envelope, payload, sink),
        }
        self.counters.messages_received.increment();
        Ok(verdict)
    }

    /// Hands messages of a record to the receives that wait for them, until one comes that no receive waits for, or to a sink
    /// that takes all; says where the next entry is, and how many there were. They are not traced.
    #[inline(always)]
    pub(in crate::ring) fn hand_on_messages(
        &mut self,
        slot: usize,
        entries: MessageEntries<'_>,
        sink: &mut dyn Sink,
    ) -> Result<(usize, u16), DownReason> {
        let (at, taken) = if self.mail.only_hands_on() {
            let mut batch = MessageBatch::new(self.sessions[slot].id, entries);
            sink.messages(self, &mut batch);
            let (at, taken) = batch.end();
            self.counters.message_batches.add(u64::from(taken.messages > 1));
            (at, taken)
        } else {
            let (id, source) = (self.sessions[slot].id, self.sessions[slot].mail.source);
            let mut batch = MatchedBatch::of_entries(self, id, source, entries);
            sink.received(&mut batch);
            let (at, taken) = batch.entries_end();
            self.counters.matched_batches.add(u64::from(taken.messages > 1));
            (at, taken)
        };
        // None of them was kept, so that it is early enough to look at the window now.
        self.sessions[slot].mail.pass(taken).map_err(overrun)?;
        self.counters.messages_received.add(u64::from(taken.messages));
        Ok((at, taken.messages))
    }

    /// Hands the messages that waited to a sink that takes all.
    #[inline(never)]
    pub(in crate::ring) fn hand_on_kept(&mut self, sink: &mut dyn Sink) -> usize {
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
        let message = Message { tag: envelope.tag, payload: *payload };
        sink.messages(self, &mut MessageBatch::single(envelope.session, message));
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
    pub(in crate::ring) fn return_message_credit_if_due(&mut self, slot: usize) {
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

impl<D: LaneDriver> MatchSource for Ring<D> {
    #[inline]
    fn mail(&mut self) -> &mut Mail {
        &mut self.mail
    }
}
