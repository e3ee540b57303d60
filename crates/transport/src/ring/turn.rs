//! Requests, responses and messages on their way to the sink.
//!
//! In a conversation, and where few messages are under way, each record has one of them and nothing else. It takes a way of
//! its own, on which nothing has to be kept for entries to come.

use core::mem::ManuallyDrop;

use farcall_driver::{LaneDriver, RECORD_HEADER_BYTES, Record};
use farcall_protocol::matching::{Tag, lines};
use farcall_protocol::ring::{
    BatchHeader, ENTRY_LENGTH_MAX, EntryHeader, EntryKind, Violation, WORD_BYTES, padded,
};

use super::inbound::{CUT_SHORT, TOO_LONG};
use super::outbound::Outbound;
use super::tagged::overrun;
use crate::burst::Taken;
use crate::{CallId, DownReason, Envelope, Incoming, RequestId, Service, Sink, Status};

impl<D: LaneDriver> Outbound<D> {
    /// Hands a record to the sink whose only entry is a request or a response with its payload. False when it is anything
    /// else; then nothing has happened.
    #[inline(always)]
    pub fn take_turn(&mut self, slot: usize, record: Record<'_>, sink: &mut dyn Sink) -> bool {
        let header = record.word(0).and_then(BatchHeader::of_single_entry);
        let entry = record.word(WORD_BYTES).and_then(EntryHeader::of_call);
        let (Some(released_lines), Some(entry)) = (header, entry) else { return false };
        let Some(payload) = record.slice(2 * WORD_BYTES, usize::from(entry.length)) else { return false };
        if self.sessions[slot].reading.is_some() {
            return false;
        }
        if let Some(found) = self.tracer.begin_found() {
            self.mark_received(slot, entry, found, true);
        }
        if let Err(reason) = self.deliver_turn(slot, released_lines, entry, payload, record.len(), sink) {
            self.doom(slot, reason);
        }
        true
    }

    #[inline(always)]
    fn deliver_turn(
        &mut self,
        slot: usize,
        released_lines: u32,
        entry: EntryHeader,
        payload: &[u8],
        record_bytes: usize,
        sink: &mut dyn Sink,
    ) -> Result<(), DownReason> {
        self.sessions[slot].producer.credit(released_lines)?;
        // Borrowed bytes have nothing that would have to be dropped, which the compiler does not see.
        let payload = ManuallyDrop::new(self.inline(slot, payload)?);
        match entry.kind {
            EntryKind::Request => self.deliver_request(slot, entry, &payload, sink)?,
            _ => self.deliver_response(slot, entry, &payload, sink)?,
        }
        // What is left to do here and in the rest of the poll need not lie between a message and its answer. The doorbell is
        // rung at the end, for all.
        self.publish(slot);
        self.counters.records_received.increment();
        let session = &mut self.sessions[slot];
        session.consumer.advance((RECORD_HEADER_BYTES + record_bytes) as u64)?;
        if session.must_return_credit() {
            self.return_credit(slot);
        }
        Ok(())
    }

    /// Hands a record to the sink, untraced, whose only entry is a message with its payload that a receive waits for. False
    /// when it is anything else; then it can be taken in any other way.
    #[inline(always)]
    pub fn take_message(
        &mut self,
        slot: usize,
        record: Record<'_>,
        sink: &mut dyn Sink,
    ) -> Result<bool, DownReason> {
        let session = &mut self.sessions[slot];
        let bytes_max = session.message_bytes_max.min(ENTRY_LENGTH_MAX);
        let header = record.word(0).and_then(BatchHeader::of_single_entry);
        let entry = record.word(WORD_BYTES).and_then(|word| EntryHeader::tagged_message(word, bytes_max));
        let (Some(released_lines), Some((tag, length))) = (header, entry) else { return Ok(false) };
        let Some(payload) = record.slice(2 * WORD_BYTES, length) else { return Ok(false) };
        if session.reading.is_some() || self.tracer.is_on() {
            return Ok(false);
        }
        // Taken a second time, in another way, it gives nothing.
        session.producer.credit(released_lines)?;
        let (id, tag) = (session.id, Tag(tag));
        let Some(receive) = self.mail.take_receive(session.mail.source, tag) else { return Ok(false) };
        if !sink.received_at_once(receive, id, tag, payload) {
            let envelope = Envelope { session: id, tag, bytes: length };
            sink.received(self, receive, envelope, &Incoming::Borrowed(payload));
        }
        self.counters.messages_received.increment();
        self.sessions[slot].mail.pass(Taken { messages: 1, lines: lines(length) }).map_err(overrun)?;
        self.close_record_of_peer(slot, record)?;
        Ok(true)
    }

    /// Hands requests and responses to the sink, as many as follow each other, untraced; says where the next entry is, and how
    /// many there were.
    #[inline(never)]
    pub fn deliver_calls(
        &mut self,
        slot: usize,
        record: Record<'_>,
        mut at: usize,
        entries: u16,
        sink: &mut dyn Sink,
    ) -> Result<(usize, u16), DownReason> {
        let mut taken = 0;
        while taken < entries
            && let Some(entry) = record.word(at).and_then(EntryHeader::of_call)
        {
            let payload = record.slice(at + WORD_BYTES, usize::from(entry.length)).ok_or(CUT_SHORT)?;
            let payload = ManuallyDrop::new(self.inline(slot, payload)?);
            match entry.kind {
                EntryKind::Request => self.deliver_request(slot, entry, &payload, sink)?,
                _ => self.deliver_response(slot, entry, &payload, sink)?,
            }
            at += WORD_BYTES + padded(payload.as_slice().len());
            taken += 1;
        }
        Ok((at, taken))
    }

    #[inline(always)]
    pub fn deliver_request(
        &mut self,
        slot: usize,
        entry: EntryHeader,
        payload: &Incoming<'_>,
        sink: &mut dyn Sink,
    ) -> Result<(), DownReason> {
        let session = &mut self.sessions[slot];
        if session.unanswered_requests >= session.calls_max {
            return Err(Violation("more unanswered calls than agreed").into());
        }
        session.unanswered_requests += 1;
        self.counters.requests_received.increment();
        let request = RequestId { session: session.id, token: u64::from(entry.call) };
        sink.request(self, request, Service(entry.selector), payload);
        Ok(())
    }

    #[inline(always)]
    pub fn deliver_response(
        &mut self,
        slot: usize,
        entry: EntryHeader,
        payload: &Incoming<'_>,
        sink: &mut dyn Sink,
    ) -> Result<(), DownReason> {
        let status =
            Status::from_wire(entry.selector).ok_or(Violation("a response with an unknown status"))?;
        let session = &mut self.sessions[slot];
        let Some(unanswered) = session.unanswered_calls.checked_sub(1) else {
            return Err(Violation("a response to no call").into());
        };
        session.unanswered_calls = unanswered;
        self.counters.responses_received.increment();
        let id = session.id;
        sink.response(self, id, CallId(entry.call), status, payload);
        Ok(())
    }

    /// A payload inside a record, if it is not longer than agreed.
    #[inline(always)]
    pub fn inline<'r>(&self, slot: usize, payload: &'r [u8]) -> Result<Incoming<'r>, DownReason> {
        if payload.len() > self.sessions[slot].message_bytes_max {
            return Err(TOO_LONG.into());
        }
        Ok(Incoming::Borrowed(payload))
    }
}
