//! Receiving: records out of rings, entries to the sink.
//!
//! Everything is read in place. What decides about bounds is read once and checked; a peer that breaks a rule loses
//! its session and nothing else.

use farcall_driver::{Block, BlockDescriptor, LaneDriver, LaneReceiver, RECORD_HEADER_BYTES, Record};
use farcall_protocol::ring::{
    BatchHeader, EntryHeader, EntryKind, PREFETCH_BYTES_MAX, Violation, WORD_BYTES, padded,
};

use super::outbound::Outbound;
use super::session::{DESCRIPTOR_BYTES, Halted, reason_of};
use crate::trace::event;
use crate::{CallId, DownReason, Incoming, RequestId, Service, Sink, Status};

/// The most records that one poll reads from one peer, so that no peer can keep the others waiting.
const RECORDS_PER_POLL: usize = 16;

const CUT_SHORT: Violation = Violation("a record with less in it than its header says");
const TOO_LONG: Violation = Violation("a message over the agreed limit");

/// What became of a record.
enum Delivery {
    /// It had a single entry.
    Turn,
    /// It had any other number of entries.
    Batch,
    /// It waits for a block, and is still there.
    Halted,
}

impl<D: LaneDriver> Outbound<D> {
    /// Hands records that a peer has published to the sink; returns how many.
    ///
    /// A record with a single entry is taken for a turn in a conversation, and nothing is looked for behind it: the
    /// line there would first have to come from the peer's cache, while an answer is ready to leave.
    #[inline]
    pub fn receive(&mut self, slot: usize, receiver: &D::Receiver, sink: &mut dyn Sink) -> usize {
        let mut records = 0;
        while records < RECORDS_PER_POLL {
            let record = match receiver.peek(self.sessions[slot].consumer.offset()) {
                Ok(None) => break,
                Ok(Some(record)) => record,
                Err(fault) => {
                    self.doom(slot, reason_of(fault));
                    return records;
                }
            };
            records += 1;
            match self.deliver(slot, record, sink) {
                Ok(Delivery::Turn) => break,
                Ok(Delivery::Batch) => {}
                Ok(Delivery::Halted) => {
                    records -= 1;
                    break;
                }
                Err(reason) => {
                    self.doom(slot, reason);
                    return records;
                }
            }
        }
        if records > 0 {
            self.counters.records_received.add(records as u64);
            self.return_credit_if_due(slot);
        }
        records
    }

    /// Hands the entries of a record to the sink, from where it was halted.
    #[inline]
    fn deliver(
        &mut self,
        slot: usize,
        record: Record<'_>,
        sink: &mut dyn Sink,
    ) -> Result<Delivery, DownReason> {
        let header = BatchHeader::from_word(record.word(0).ok_or(CUT_SHORT)?)?;
        let session = &mut self.sessions[slot];
        session.producer.credit(header.released_lines)?;
        if header.wrap {
            session.consumer.advance_to_start()?;
            return Ok(Delivery::Batch);
        }
        let Halted { entries, bytes } = core::mem::take(&mut session.halted);
        let found = self.tracer.begin();
        let mut at = WORD_BYTES + bytes;
        for index in entries..header.entries {
            let entry = EntryHeader::from_word(record.word(at).ok_or(CUT_SHORT)?)?;
            if let Some(found) = found {
                self.mark_received(slot, entry, found);
            }
            if !self.deliver_entry(slot, entry, record, at + WORD_BYTES, sink)? {
                self.sessions[slot].halted = Halted { entries: index, bytes: at - WORD_BYTES };
                return Ok(Delivery::Halted);
            }
            at += WORD_BYTES + padded(usize::from(entry.length));
        }
        let session = &mut self.sessions[slot];
        session.consumer.advance((RECORD_HEADER_BYTES + record.len()) as u64)?;
        Ok(if header.entries == 1 { Delivery::Turn } else { Delivery::Batch })
    }

    /// Hands an entry to the sink; `false` when it must wait for its block.
    #[inline]
    fn deliver_entry(
        &mut self,
        slot: usize,
        entry: EntryHeader,
        record: Record<'_>,
        at: usize,
        sink: &mut dyn Sink,
    ) -> Result<bool, DownReason> {
        let payload = record.slice(at, usize::from(entry.length)).ok_or(CUT_SHORT)?;
        match entry.kind {
            EntryKind::Request => {
                let payload = self.inline(slot, payload)?;
                self.deliver_request(slot, entry, &payload, sink)?;
            }
            EntryKind::Response => {
                let payload = self.inline(slot, payload)?;
                self.deliver_response(slot, entry, &payload, sink)?;
            }
            EntryKind::RequestBlock => {
                let Some(block) = self.borrow(slot, entry, record, at)? else { return Ok(false) };
                self.deliver_request(slot, entry, &Incoming::Owned(block.into()), sink)?;
                // Reading so much took long; the answer leaves before the next.
                self.publish(slot);
            }
            EntryKind::ResponseBlock => {
                let Some(block) = self.borrow(slot, entry, record, at)? else { return Ok(false) };
                self.deliver_response(slot, entry, &Incoming::Owned(block.into()), sink)?;
            }
            EntryKind::BlockReturn => {
                let block = descriptor(entry, record, at)?;
                self.driver.take_back(self.sessions[slot].lane, block).map_err(reason_of)?;
            }
            EntryKind::PrefetchHint => {
                let bytes = descriptor(entry, record, at)?;
                // Both bound what a peer can have done for it by one record.
                if bytes.length > PREFETCH_BYTES_MAX as u64 || at + DESCRIPTOR_BYTES != record.len() {
                    return Err(Violation("a prefetch hint over the limit or not at the end").into());
                }
                self.driver.prefetch(self.sessions[slot].lane, bytes).map_err(reason_of)?;
            }
        }
        Ok(true)
    }

    /// All entries of a record are there when the first is.
    fn mark_received(&self, slot: usize, entry: EntryHeader, found: u64) {
        let event = match entry.kind {
            EntryKind::Request | EntryKind::RequestBlock => event::REQUEST_RECEIVED,
            EntryKind::Response | EntryKind::ResponseBlock => event::RESPONSE_RECEIVED,
            EntryKind::BlockReturn | EntryKind::PrefetchHint => return,
        };
        self.tracer.mark_at(found, event, entry.call, self.sessions[slot].id);
    }

    #[inline]
    fn deliver_request(
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
        self.tracer.mark_request(event::DISPATCHED, request);
        sink.request(self, request, Service(entry.selector), payload);
        Ok(())
    }

    #[inline]
    fn deliver_response(
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

    #[inline]
    fn inline<'r>(&self, slot: usize, payload: &'r [u8]) -> Result<Incoming<'r>, DownReason> {
        if payload.len() > self.sessions[slot].message_bytes_max {
            return Err(TOO_LONG.into());
        }
        Ok(Incoming::Borrowed(payload))
    }

    fn borrow(
        &mut self,
        slot: usize,
        entry: EntryHeader,
        record: Record<'_>,
        at: usize,
    ) -> Result<Option<Block>, DownReason> {
        let block = descriptor(entry, record, at)?;
        let session = &mut self.sessions[slot];
        if block.length > session.message_bytes_max as u64 {
            return Err(TOO_LONG.into());
        }
        let Some(block) = self.driver.borrow(session.lane, block).map_err(reason_of)? else {
            return Ok(None);
        };
        session.borrowed_blocks += 1;
        self.note_need();
        self.counters.blocks_received.increment();
        Ok(Some(block))
    }
}

fn descriptor(entry: EntryHeader, record: Record<'_>, at: usize) -> Result<BlockDescriptor, DownReason> {
    if usize::from(entry.length) != DESCRIPTOR_BYTES {
        return Err(Violation("a block descriptor of the wrong length").into());
    }
    let offset = record.word(at).ok_or(CUT_SHORT)?;
    let length = record.word(at + WORD_BYTES).ok_or(CUT_SHORT)?;
    Ok(BlockDescriptor { offset, length })
}
