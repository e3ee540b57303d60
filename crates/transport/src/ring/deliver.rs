//! The entries of a record, to the sink: requests, responses and messages that follow each other in batches,
//! single ones and what is in blocks alone; and messages to the receives that ask for them.
//!
//! A message that no receive waits for is deferred: it stays in the ring until the next poll, because the
//! receiver may be about to post receives, and what is given to them from the ring is not copied twice. After
//! that it is copied, so that it holds up nothing else for longer than a poll.

use farcall_driver::{LaneDriver, Record};
use farcall_protocol::matching::{Source, Tag, lines};
use farcall_protocol::ring::{EntryHeader, EntryKind, Violation, WORD_BYTES, padded};

use super::Ring;
use super::flow::{CUT_SHORT, descriptor, overrun};
use super::receive::Next;
use super::session::{Reader, Reading, Session, Stage, reason_of};
use crate::batch::{Entries, MatchSource, MessageEntries, Taken, Unanswered};
use crate::matcher::{Deferral, Deferred, MatchOutcome, Matcher, Unexpected};
use crate::trace::event;
use crate::{
    Arrived, CallId, Deliver, DownReason, Envelope, Incoming, Matched, MatchedBatch, Message, MessageBatch,
    MessageId, Origin, Payload, Posted, RequestBatch, RequestId, Response, ResponseBatch, Service, SessionId,
    Sink, Status,
};

const TOO_LONG: Violation = Violation("a message over the agreed limit");

/// A sender of messages of this length may wait for each block: it is notified of those that were read before
/// the next is.
const TOLD_AT_ONCE_BYTES_MIN: usize = 256 << 10;

/// A peer that was found to have published something in this many polls in a row is ahead of its reader.
/// Close behind it, a core that fetches on by itself takes lines away that are being written.
const FINDS_OF_ONE_AHEAD: u64 = 16;

impl<D: LaneDriver> Ring<D> {
    /// Gives requests for one service, or responses, to the sink that begin with this entry: as many as
    /// follow each other and as it takes, or one alone, if it is alone in its record or traced.
    #[inline]
    pub(super) fn deliver_calls(
        &mut self,
        slot: usize,
        reader: &Reader<D::Receiver>,
        record: Record<'_>,
        entry: EntryHeader,
        reading: &mut Reading,
        sink: &mut dyn Sink,
    ) -> Result<Next, DownReason> {
        let is_alone = reading.entries == 1;
        if !is_alone {
            // Many follow: what they lead to goes together.
            self.sessions[slot].tx.place = None;
        }
        if !is_alone && !self.shared.tracer.is_on() {
            let entries = Entries::new(record, reading.at, reading.unread());
            let (at, taken) = match entry.kind {
                EntryKind::Request => self.deliver_requests(slot, Service(entry.selector), entries, sink),
                _ => self.deliver_responses(slot, entries, &reader.unanswered, sink),
            };
            if taken > 0 {
                reading.pass_batch(at, taken);
                return Ok(Next::Entry);
            }
        }
        let payload = inline_payload(record, entry, reading)?;
        if payload.len() > self.sessions[slot].message_bytes_max {
            return Err(TOO_LONG.into());
        }
        self.deliver_call(slot, entry, &Incoming::Borrowed(payload), sink)?;
        if is_alone {
            self.sessions[slot].publish(&mut self.shared);
        }
        reading.pass(entry);
        Ok(Next::Entry)
    }

    /// Gives the call or response of a record with nothing else to the sink, with its credit.
    #[inline]
    pub(super) fn deliver_single_call(
        &mut self,
        slot: usize,
        record: Record<'_>,
        released_lines: u32,
        entry: EntryHeader,
        payload: &[u8],
        sink: &mut dyn Sink,
    ) -> Result<(), DownReason> {
        let session = &mut self.sessions[slot];
        session.tx.producer.credit(released_lines)?;
        if payload.len() > session.message_bytes_max {
            return Err(TOO_LONG.into());
        }
        if session.tx.place.is_none() {
            session.prepare_place();
        }
        self.deliver_call(slot, entry, &Incoming::Borrowed(payload), sink)?;
        // What is left to do here and in the rest of the poll need not lie between a message and its
        // response. The doorbell is rung at the end, for all.
        let session = &mut self.sessions[slot];
        session.publish(&mut self.shared);
        self.shared.counters.records_received.increment();
        session.rx.close_record(record)?;
        session.prepare_place();
        session.return_credit_if_due(&mut self.shared);
        Ok(())
    }

    /// Gives the message of a record with nothing else to the receive that waited for it, with its credit.
    #[inline]
    pub(super) fn deliver_single_message(
        &mut self,
        slot: usize,
        record: Record<'_>,
        released_lines: u32,
        message: Matched<'_>,
        sink: &mut dyn Sink,
    ) -> Result<(), DownReason> {
        let session = &mut self.sessions[slot];
        session.tx.producer.credit(released_lines)?;
        let taken = Taken { messages: 1, lines: lines(message.payload.as_slice().len()) };
        session.rx.messages.pass(taken).map_err(overrun)?;
        let id = session.id;
        sink.received(&mut MatchedBatch::single(self, id, message));
        self.shared.counters.messages_received.increment();
        self.shared.counters.records_received.increment();
        let session = &mut self.sessions[slot];
        session.rx.close_record(record)?;
        session.return_message_credit_if_due(&mut self.shared);
        session.return_credit_if_due(&mut self.shared);
        Ok(())
    }

    #[inline]
    fn deliver_requests(
        &mut self,
        slot: usize,
        service: Service,
        entries: Entries<'_>,
        sink: &mut dyn Sink,
    ) -> (usize, u16) {
        let session = &mut self.sessions[slot];
        let (id, bytes_max) = (session.id, session.message_bytes_max);
        let may_come = session.calls_max.saturating_sub(session.unanswered_requests);
        let entries = entries.first(u16::try_from(may_come).unwrap_or(u16::MAX));
        // Before they are answered, which takes them off again.
        session.unanswered_requests += entries.left();
        let mut batch = RequestBatch::new(entries, bytes_max, id, service);
        sink.requests(self, &mut batch);
        let (at, taken) = batch.end();
        self.shared.counters.request_batches.add(u64::from(taken > 1));
        self.sessions[slot].unanswered_requests -= entries.left() - usize::from(taken);
        (at, taken)
    }

    #[inline]
    fn deliver_responses(
        &mut self,
        slot: usize,
        entries: Entries<'_>,
        unanswered: &Unanswered,
        sink: &mut dyn Sink,
    ) -> (usize, u16) {
        let Session { id, message_bytes_max, .. } = self.sessions[slot];
        let mut batch = ResponseBatch::new(entries, message_bytes_max, id, unanswered);
        sink.responses(self, &mut batch);
        let (at, taken) = batch.end();
        self.shared.counters.response_batches.add(u64::from(taken > 1));
        (at, taken)
    }

    /// Gives a request or a response alone to the sink, if there may be one.
    #[inline]
    fn deliver_call(
        &mut self,
        slot: usize,
        entry: EntryHeader,
        payload: &Incoming<'_>,
        sink: &mut dyn Sink,
    ) -> Result<(), DownReason> {
        let session = &mut self.sessions[slot];
        session.count_call(entry.kind)?;
        let id = session.id;
        if entry.kind.is_request() {
            let request = RequestId { session: id, token: u64::from(entry.call) };
            sink.requests(self, &mut RequestBatch::single(request, Service(entry.selector), *payload));
        } else {
            let status =
                Status::from_wire(entry.selector).ok_or(Violation("a response with an unknown status"))?;
            let response = Response { call: CallId(entry.call), status, payload: *payload };
            sink.responses(self, &mut ResponseBatch::single(id, response));
        }
        Ok(())
    }

    /// Gives messages that begin with this entry to the receives that wait for them, or to a sink that takes
    /// all: as many as follow each other, or one alone, as with calls. One that no receive waits for is
    /// deferred or copied.
    #[inline]
    pub(super) fn deliver_messages(
        &mut self,
        slot: usize,
        record: Record<'_>,
        entry: EntryHeader,
        reading: &mut Reading,
        deferral: &mut Deferral,
        sink: &mut dyn Sink,
    ) -> Result<Next, DownReason> {
        if *deferral == Deferral::Once && !self.matcher.expects_messages() {
            return Ok(Next::Stop);
        }
        if reading.entries > 1 && !self.shared.tracer.is_on() {
            let session = &self.sessions[slot];
            let fetches = session.rx.consecutive_hits >= FINDS_OF_ONE_AHEAD;
            let unread = Entries::new(record, reading.at, reading.unread());
            let messages = MessageEntries::new(unread, session.message_bytes_max, fetches);
            let (at, taken) = self.deliver_message_batch(slot, messages, sink)?;
            if taken > 0 {
                reading.pass_batch(at, taken);
                *deferral = deferral.after_a_receive();
                return Ok(Next::Entry);
            }
        }
        let payload = inline_payload(record, entry, reading)?;
        if payload.len() > self.sessions[slot].message_bytes_max {
            return Err(TOO_LONG.into());
        }
        let may_defer = *deferral == Deferral::Once;
        let outcome = self.arrive(slot, Tag(entry.call), &Incoming::Borrowed(payload), may_defer, sink)?;
        if outcome == MatchOutcome::Deferred {
            return Ok(Next::Stop);
        }
        *deferral = deferral.after(outcome);
        reading.pass(entry);
        Ok(Next::Entry)
    }

    /// Gives messages of a record to the receives that wait for them, until one comes that no receive waits
    /// for, or to a sink that takes all; says where the next entry is, and how many there were. They are not
    /// traced.
    #[inline]
    fn deliver_message_batch(
        &mut self,
        slot: usize,
        entries: MessageEntries<'_>,
        sink: &mut dyn Sink,
    ) -> Result<(usize, u16), DownReason> {
        let (id, source) = (self.sessions[slot].id, self.sessions[slot].rx.messages.source);
        let (at, taken) = if self.matcher.only_hands_on() {
            let mut batch = MessageBatch::new(id, entries);
            sink.messages(self, &mut batch);
            let (at, taken) = batch.end();
            self.shared.counters.message_batches.add(u64::from(taken.messages > 1));
            (at, taken)
        } else {
            let mut batch = MatchedBatch::of_entries(self, id, source, entries);
            sink.received(&mut batch);
            let (at, taken) = batch.entries_end();
            self.shared.counters.matched_batches.add(u64::from(taken.messages > 1));
            (at, taken)
        };
        // None of them was copied, so that it is early enough to look at the window now.
        self.sessions[slot].rx.messages.pass(taken).map_err(overrun)?;
        self.shared.counters.messages_received.add(u64::from(taken.messages));
        Ok((at, taken.messages))
    }

    /// Gives what is in a block to the sink.
    #[inline(never)]
    pub(super) fn deliver_block(
        &mut self,
        slot: usize,
        record: Record<'_>,
        entry: EntryHeader,
        reading: &mut Reading,
        sink: &mut dyn Sink,
    ) -> Result<Next, DownReason> {
        let Some(block) = self.borrow(slot, entry, record, reading.at + WORD_BYTES)? else {
            return Ok(Next::Blocked);
        };
        let bytes = block.len();
        let payload = Incoming::Owned(&block);
        if entry.kind == EntryKind::MessageBlock {
            self.arrive(slot, Tag(entry.call), &payload, false, sink)?;
        } else {
            if entry.kind == EntryKind::RequestBlock {
                self.shared.tracer.mark(event::DISPATCHED, entry.call, self.sessions[slot].id);
            }
            self.deliver_call(slot, entry, &payload, sink)?;
        }
        drop(block);
        let is_awaited = match entry.kind {
            // Reading so much took long; the response leaves before the next, and takes with it what was
            // read.
            EntryKind::RequestBlock => true,
            EntryKind::MessageBlock => bytes >= TOLD_AT_ONCE_BYTES_MIN,
            _ => false,
        };
        if is_awaited {
            let session = &mut self.sessions[slot];
            session.return_blocks(&mut self.shared);
            session.publish(&mut self.shared);
        }
        reading.pass(entry);
        Ok(Next::Entry)
    }

    /// The block that an entry names; `None` when it is not here yet.
    fn borrow(
        &mut self,
        slot: usize,
        entry: EntryHeader,
        record: Record<'_>,
        at: usize,
    ) -> Result<Option<Payload>, DownReason> {
        let block = descriptor(entry, record, at)?;
        let session = &mut self.sessions[slot];
        let bytes = block.length;
        if bytes > session.message_bytes_max as u64 {
            return Err(TOO_LONG.into());
        }
        let borrowed = self.shared.driver.borrow(session.lane, block).map_err(reason_of)?;
        let Some(block) = borrowed else { return Ok(None) };
        session.rx.block_bytes_read += bytes;
        session.rx.borrowed_blocks += 1;
        self.shared.mark_blocked();
        self.shared.counters.blocks_received.increment();
        Ok(Some(block.into()))
    }

    /// A message came; `may_defer` says whether it may stay in place.
    #[inline]
    fn arrive(
        &mut self,
        slot: usize,
        tag: Tag,
        payload: &Incoming<'_>,
        may_defer: bool,
        sink: &mut dyn Sink,
    ) -> Result<MatchOutcome, DownReason> {
        let session = &mut self.sessions[slot];
        let bytes = payload.as_slice().len();
        let counted = match payload {
            Incoming::Borrowed(_) => lines(bytes),
            Incoming::Owned(_) => lines(0),
        };
        let envelope = Envelope { session: session.id, tag, bytes };
        let number = session.rx.messages.received;
        let outcome = self.matcher.arrive(&mut session.rx.messages, envelope, payload, counted, may_defer);
        let outcome = outcome.map_err(overrun)?;
        match outcome {
            MatchOutcome::Deferred => return Ok(outcome),
            MatchOutcome::Unexpected => {
                self.shared.counters.unexpected.increment();
                if !session.rx.messages.notices.is_idle() {
                    self.shared.mark_blocked();
                }
            }
            MatchOutcome::Matched(receive) => {
                self.shared.tracer.mark(event::MESSAGE_MATCHED, number, envelope.session);
                let matched = Matched { receive, tag, payload: *payload };
                sink.received(&mut MatchedBatch::single(self, envelope.session, matched));
                self.shared.tracer.mark(event::MESSAGE_COMPLETED, number, envelope.session);
            }
            MatchOutcome::HandedOn => self.hand_on(number, envelope, payload, sink),
        }
        self.shared.counters.messages_received.increment();
        Ok(outcome)
    }

    /// Gives the messages of the unexpected queue to a sink that takes all.
    #[cold]
    pub(super) fn deliver_unexpected(&mut self, sink: &mut dyn Sink) -> usize {
        let mut handed_on = 0;
        while let Some(Unexpected { envelope, payload, lines, number }) = self.matcher.take_for_sink() {
            self.consumed(envelope.session, lines);
            self.hand_on(number, envelope, &payload.as_incoming(), sink);
            handed_on += 1;
        }
        handed_on
    }

    fn hand_on(&mut self, number: u32, envelope: Envelope, payload: &Incoming<'_>, sink: &mut dyn Sink) {
        self.shared.tracer.mark(event::MESSAGE_MATCHED, number, envelope.session);
        let message = Message { tag: envelope.tag, payload: *payload };
        sink.messages(self, &mut MessageBatch::single(envelope.session, message));
        self.shared.tracer.mark(event::MESSAGE_COMPLETED, number, envelope.session);
    }

    /// A message of the unexpected queue was consumed.
    fn consumed(&mut self, session: SessionId, lines: u32) {
        if let Some(slot) = self.slot_of(session) {
            let session = &mut self.sessions[slot];
            session.rx.messages.window.consume(lines);
            session.return_message_credit_if_due(&mut self.shared);
        }
    }

    /// As [`Outbox::post`](crate::Outbox::post) where something is in the way of posting at once, or may be.
    #[inline(never)]
    pub(super) fn post_otherwise(
        &mut self,
        receive: MessageId,
        from: Option<Origin>,
        tag: Option<Tag>,
        in_place_bytes_max: usize,
        deliver: &mut Deliver<'_>,
    ) -> Posted {
        let is_down = from.is_some_and(|origin| self.slot_of(origin.session()).is_none());
        if let (Some(origin), Some(tag)) = (from, tag) {
            if self.deliver_deferred(origin.source(), tag, in_place_bytes_max, deliver) {
                return Posted::Delivered;
            }
            self.receives_from = from.filter(|_| !is_down);
        }
        match self.matcher.post(receive, from, tag, is_down) {
            Ok(Unexpected { envelope, payload, lines, number }) => {
                self.consumed(envelope.session, lines);
                self.shared.tracer.mark_taken(number, envelope.session);
                deliver(self, envelope.session, envelope.tag, Arrived::Kept(payload));
                Posted::Delivered
            }
            Err(posted) => {
                if let (Posted::Waiting, Some(tag)) = (posted, tag) {
                    self.note_wanted(from.map(Origin::source), tag);
                }
                posted
            }
        }
    }

    /// Gives `deliver` the deferred head, if a receive that is posted now would get it, before any other
    /// receive and any other message, and if it has at most this many bytes; says whether it did.
    #[inline]
    fn deliver_deferred(
        &mut self,
        from: Source,
        tag: Tag,
        bytes_max: usize,
        deliver: &mut Deliver<'_>,
    ) -> bool {
        let Some(&head) = self.deferred.find(from, tag, bytes_max) else { return false };
        if !self.matcher.is_idle() || self.shared.tracer.is_on() {
            return false;
        }
        // It is elsewhere while a record of this peer is being read, as it is here.
        let slot = usize::from(head.place);
        let Some(reader) = self.sessions[slot].rx.reader.take() else { return false };
        let given = self.deliver_in_place(slot, head, &reader, deliver);
        let session = &mut self.sessions[slot];
        session.rx.reader = Some(reader);
        let given = given.unwrap_or_else(|reason| {
            self.shared.close_later(slot, reason);
            false
        });
        if given {
            if session.rx.reading.is_none() {
                session.return_credit_if_due(&mut self.shared);
            }
            session.return_message_credit_if_due(&mut self.shared);
        }
        given
    }

    /// Gives `deliver` a message out of the record that was left; false when it was taken since.
    #[inline]
    fn deliver_in_place(
        &mut self,
        slot: usize,
        head: Deferred<u16>,
        reader: &Reader<D::Receiver>,
        deliver: &mut Deliver<'_>,
    ) -> Result<bool, DownReason> {
        let session = &mut self.sessions[slot];
        // The place of the session may have been taken by another, too.
        let is_its = session.stage == Stage::Up && session.rx.messages.source == head.source;
        let Some(mut reading) = session.rx.reading.filter(|_| is_its) else { return Ok(false) };
        let bytes = reading.at..reading.at + WORD_BYTES + head.bytes;
        let record = reader.record(session.rx.consumer.offset(), bytes)?;
        let Some(record) = record else { return Ok(false) };
        // Its header was read when it was deferred, and is not again: a peer could have written another one
        // meanwhile. Nothing has been read behind it since, or what is left would have been noted again.
        let Some(message) = record.slice(reading.at + WORD_BYTES, head.bytes) else { return Ok(false) };
        session.rx.messages.pass(Taken { messages: 1, lines: lines(head.bytes) }).map_err(overrun)?;
        let id = session.id;
        deliver(self, id, head.tag, Arrived::InPlace(message));
        self.shared.counters.messages_received.increment();
        self.shared.counters.received_in_place.increment();
        reading.pass_batch(reading.at + WORD_BYTES + padded(head.bytes), 1);
        self.pass_deferred(slot, record, reading)?;
        Ok(true)
    }

    /// The deferred head was read: defers what is behind it, or closes the record.
    #[inline]
    fn pass_deferred(&mut self, slot: usize, record: Record<'_>, reading: Reading) -> Result<(), DownReason> {
        let session = &mut self.sessions[slot];
        if reading.unread() > 0 {
            session.rx.reading = Some(reading);
            self.deferred.follow(session.message_at(record, reading.at));
            return Ok(());
        }
        session.rx.reading = None;
        self.deferred.forget();
        self.shared.counters.records_received.increment();
        Ok(session.rx.close_record(record)?)
    }
}

/// The payload of the next entry.
#[inline]
fn inline_payload<'r>(
    record: Record<'r>,
    entry: EntryHeader,
    reading: &Reading,
) -> Result<&'r [u8], DownReason> {
    Ok(record.slice(reading.at + WORD_BYTES, entry.length as usize).ok_or(CUT_SHORT)?)
}

impl<D: LaneDriver> MatchSource for Ring<D> {
    #[inline]
    fn matcher(&mut self) -> &mut Matcher {
        &mut self.matcher
    }
}
