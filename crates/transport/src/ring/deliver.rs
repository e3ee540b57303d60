//! The entries of a record, to the sink: requests, responses and messages that follow each other in a batch,
//! what is for the transport itself singly.
//!
//! A message that no receive waits for is deferred: it stays in the ring until the next poll, because the
//! receiver may be about to post receives, and what is given to them from the ring is not copied twice. After
//! that it is kept, so that it holds up nothing else for longer than a poll.

use farcall_driver::{BlockDescriptor, LaneDriver, Record};
use farcall_protocol::matching::{Overrun, Tag, lines};
use farcall_protocol::ring::{EntryHeader, EntryKind, Violation, WORD_BYTES};

use super::Ring;
use super::receive::{CUT_SHORT, Flow, TOO_LONG};
use super::session::{DESCRIPTOR_BYTES, Reader, Session, Stage, reason_of};
use crate::batch::{Entries, MatchSource, MessageEntries, Unanswered};
use crate::mail::{Claimed, Mail, Verdict};
use crate::patience::Patience;
use crate::trace::event;
use crate::{
    Arrived, CallId, Deliver, DownReason, Envelope, Incoming, Matched, MatchedBatch, Message, MessageBatch,
    MessageId, Origin, Payload, Posted, RequestBatch, RequestId, Response, ResponseBatch, Service, SessionId,
    Sink, Status,
};

/// A sender of messages of this length may wait for each block: it is notified of those that were read before
/// the next is.
const TOLD_AT_ONCE_BYTES_MIN: usize = 256 << 10;

impl<D: LaneDriver> Ring<D> {
    /// Hands what came together with this entry to the sink, as much as it takes; says where the next entry
    /// is, and how many there were.
    #[inline(always)]
    pub(super) fn hand_on_together(
        &mut self,
        slot: usize,
        reader: &Reader<D::Receiver>,
        entry: EntryHeader,
        unread: Entries<'_>,
        sink: &mut dyn Sink,
    ) -> Result<(usize, u16), DownReason> {
        match entry.kind {
            EntryKind::Message => {
                let session = &self.sessions[slot];
                let (bytes_max, fetches) = (session.message_bytes_max, session.is_far_behind());
                let messages = MessageEntries::new(unread, bytes_max, fetches);
                self.hand_on_messages(slot, messages, sink)
            }
            EntryKind::Request | EntryKind::Response => {
                Ok(self.hand_on_calls(slot, entry, unread, &reader.unanswered, sink))
            }
            _ => Ok((unread.offset(), 0)),
        }
    }

    /// Hands an entry to the sink, unless it has to stay where it is.
    #[inline]
    pub(super) fn deliver_entry(
        &mut self,
        slot: usize,
        entry: EntryHeader,
        record: Record<'_>,
        at: usize,
        patience: &mut Patience,
        sink: &mut dyn Sink,
    ) -> Result<Flow, DownReason> {
        let payload = record.slice(at, entry.length as usize).ok_or(CUT_SHORT)?;
        match entry.kind {
            EntryKind::Request | EntryKind::Response => {
                let id = self.sessions[slot].take_inline_call(entry)?;
                self.hand_on_inline(id, entry, payload, sink)?;
            }
            EntryKind::RequestBlock => {
                let Some(block) = self.borrow(slot, entry, record, at)? else { return Ok(Flow::Halt) };
                let id = self.sessions[slot].take_call(entry)?;
                self.tracer.mark(event::DISPATCHED, entry.call, id);
                self.hand_on_call(id, entry, &Incoming::Owned(&block), sink)?;
                // Reading so much took long; the answer leaves before the next, and takes with it what was
                // read.
                drop(block);
                self.send_block_returns(slot);
                self.publish(slot);
            }
            EntryKind::ResponseBlock => {
                let Some(block) = self.borrow(slot, entry, record, at)? else { return Ok(Flow::Halt) };
                let id = self.sessions[slot].take_call(entry)?;
                self.hand_on_call(id, entry, &Incoming::Owned(&block), sink)?;
            }
            EntryKind::BlockReturn | EntryKind::MessageCredit => {
                self.apply_returned(slot, entry, record, at)?
            }
            EntryKind::Message => {
                if payload.len() > self.sessions[slot].message_bytes_max {
                    return Err(TOO_LONG.into());
                }
                let payload = Incoming::Borrowed(payload);
                let verdict =
                    self.arrive(slot, Tag(entry.call), &payload, *patience == Patience::Once, sink)?;
                if verdict == Verdict::Left {
                    return Ok(Flow::Stop);
                }
                *patience = patience.after(verdict);
            }
            EntryKind::MessageBlock => {
                let Some(block) = self.borrow(slot, entry, record, at)? else { return Ok(Flow::Halt) };
                let bytes = block.len();
                self.arrive(slot, Tag(entry.call), &Incoming::Owned(&block), false, sink)?;
                drop(block);
                if bytes >= TOLD_AT_ONCE_BYTES_MIN {
                    self.send_block_returns(slot);
                    self.publish(slot);
                }
            }
        }
        Ok(Flow::Continue)
    }

    /// All entries of a record are there when the first is; the others' turn comes after what is done with
    /// those before.
    #[cold]
    pub(super) fn mark_received(&self, slot: usize, entry: EntryHeader, found: u64, is_first: bool) {
        let (tracer, session) = (&self.tracer, &self.sessions[slot]);
        let mark = |event, number| tracer.mark_at(found, event, number, session.id);
        tracer.share(None);
        match entry.kind {
            EntryKind::Request => {
                mark(event::REQUEST_RECEIVED, entry.call);
                let turn = if is_first { found } else { tracer.begin().unwrap_or(found) };
                tracer.mark_at(turn, event::DISPATCHED, entry.call, session.id);
                tracer.share(Some(turn));
            }
            EntryKind::RequestBlock => mark(event::REQUEST_RECEIVED, entry.call),
            EntryKind::Response => {
                mark(event::RESPONSE_RECEIVED, entry.call);
                tracer.share(is_first.then_some(found));
            }
            EntryKind::ResponseBlock => mark(event::RESPONSE_RECEIVED, entry.call),
            // The next to be received. One that has to stay where it is will be marked again.
            EntryKind::Message | EntryKind::MessageBlock => {
                mark(event::MESSAGE_RECEIVED, session.mail.received);
            }
            _ => {}
        }
    }

    fn borrow(
        &mut self,
        slot: usize,
        entry: EntryHeader,
        record: Record<'_>,
        at: usize,
    ) -> Result<Option<Payload>, DownReason> {
        let block = descriptor(entry, record, at)?;
        let session = &mut self.sessions[slot];
        if block.length > session.message_bytes_max as u64 {
            return Err(TOO_LONG.into());
        }
        let bytes = block.length;
        let Some(block) = self.driver.borrow(session.lane, block).map_err(reason_of)? else {
            return Ok(None);
        };
        self.block_bytes_read += bytes;
        session.borrowed_blocks += 1;
        self.mark_blocked();
        self.counters.blocks_received.increment();
        Ok(Some(block.into()))
    }
}

pub fn descriptor(entry: EntryHeader, record: Record<'_>, at: usize) -> Result<BlockDescriptor, DownReason> {
    if entry.length as usize != DESCRIPTOR_BYTES {
        return Err(Violation("a block descriptor of the wrong length").into());
    }
    let offset = record.word(at).ok_or(CUT_SHORT)?;
    let length = record.word(at + WORD_BYTES).ok_or(CUT_SHORT)?;
    Ok(BlockDescriptor { offset, length })
}

impl<D: LaneDriver> Ring<D> {
    /// Hands requests for one service, or answers, to the sink that begin with this entry, as many as follow
    /// each other and as it takes, untraced; says where the next entry is, and how many there were.
    #[inline(always)]
    pub(super) fn hand_on_calls(
        &mut self,
        slot: usize,
        entry: EntryHeader,
        entries: Entries<'_>,
        unanswered: &Unanswered,
        sink: &mut dyn Sink,
    ) -> (usize, u16) {
        if entry.kind.is_request() {
            self.hand_on_requests(slot, Service(entry.selector), entries, sink)
        } else {
            self.hand_on_responses(slot, entries, unanswered, sink)
        }
    }

    #[inline(always)]
    fn hand_on_requests(
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
        self.counters.request_batches.add(u64::from(taken > 1));
        self.sessions[slot].unanswered_requests -= entries.left() - usize::from(taken);
        (at, taken)
    }

    #[inline(always)]
    fn hand_on_responses(
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
        self.counters.response_batches.add(u64::from(taken > 1));
        (at, taken)
    }

    /// Hands a request or a response to the sink that the session has counted, with the payload that is in
    /// its record.
    #[inline(always)]
    pub(super) fn hand_on_inline(
        &mut self,
        id: SessionId,
        entry: EntryHeader,
        payload: &[u8],
        sink: &mut dyn Sink,
    ) -> Result<(), DownReason> {
        self.hand_on_call(id, entry, &Incoming::Borrowed(payload), sink)
    }

    /// Hands a request or a response to the sink that the session has counted.
    #[inline(always)]
    pub(super) fn hand_on_call(
        &mut self,
        id: SessionId,
        entry: EntryHeader,
        payload: &Incoming<'_>,
        sink: &mut dyn Sink,
    ) -> Result<(), DownReason> {
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
}

impl<S> Session<S> {
    /// As [`Session::take_call`], for a payload inside the record.
    #[inline(always)]
    pub fn take_inline_call(&mut self, entry: EntryHeader) -> Result<SessionId, Violation> {
        if entry.length as usize > self.message_bytes_max {
            return Err(TOO_LONG);
        }
        self.take_call(entry)
    }

    /// Counts a request or a response of the peer, if there may be one.
    #[inline(always)]
    pub fn take_call(&mut self, entry: EntryHeader) -> Result<SessionId, Violation> {
        if entry.kind.is_request() {
            if self.unanswered_requests >= self.calls_max {
                return Err(Violation("more unanswered calls than agreed"));
            }
            self.unanswered_requests += 1;
        } else if !self.unanswered_calls.take_one() {
            return Err(Violation("a response to no call"));
        }
        Ok(self.id)
    }
}

/// The peer's count is not ours.
pub fn overrun(_: Overrun) -> DownReason {
    Violation("more messages, or more credit for them, than there can be").into()
}

impl<D: LaneDriver> Ring<D> {
    /// As [`Outbox::post`] where something is in the way of posting at once, or may be.
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
    pub(super) fn arrive(
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

    /// Hands messages of a record to the receives that wait for them, until one comes that no receive waits
    /// for, or to a sink that takes all; says where the next entry is, and how many there were. They are not
    /// traced.
    #[inline(always)]
    pub(super) fn hand_on_messages(
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
    pub(super) fn hand_on_kept(&mut self, sink: &mut dyn Sink) -> usize {
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
    pub(super) fn return_message_credit_if_due(&mut self, slot: usize) {
        if self.sessions[slot].mail.receive_window.credit_is_due() {
            self.return_message_credit(slot);
        }
    }

    #[inline(never)]
    fn return_message_credit(&mut self, slot: usize) {
        if self.sessions[slot].stage != Stage::Up || !self.make_room(slot, WORD_BYTES) {
            return self.mark_blocked();
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
