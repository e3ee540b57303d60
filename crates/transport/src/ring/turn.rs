//! Records with a single message, on its way to the sink.
//!
//! In a conversation, and where few messages are under way, each record has one of them and nothing else. It takes a way of
//! its own, on which nothing has to be kept for entries to come.

use farcall_driver::{LaneDriver, RECORD_HEADER_BYTES, Record};
use farcall_protocol::matching::{Tag, lines};
use farcall_protocol::ring::{BatchHeader, ENTRY_LENGTH_MAX, EntryHeader, WORD_BYTES};

use super::Ring;
use super::session::Session;
use super::tagged::overrun;
use crate::batch::Taken;
use crate::{DownReason, Incoming, Matched, MatchedBatch, SessionId, Sink};

impl<D: LaneDriver> Ring<D> {
    /// Hands a record to the sink whose only entry is a request or a response with its payload. False when it is anything
    /// else; then nothing has happened.
    #[inline(always)]
    pub(super) fn take_turn(
        &mut self,
        slot: usize,
        record: Record<'_>,
        released_lines: u32,
        sink: &mut dyn Sink,
    ) -> bool {
        let Some(entry) = record.word(WORD_BYTES).and_then(EntryHeader::of_call) else { return false };
        let Some(payload) = record.slice(2 * WORD_BYTES, entry.length as usize) else { return false };
        let found = self.tracer.begin_found();
        let session = &mut self.sessions[slot];
        let taken = session.take_turn(released_lines, entry);
        if !session.batch.is_kept {
            session.keep_place();
        }
        if let Some(found) = found {
            self.mark_received(slot, entry, found, true);
        }
        let delivered = taken.and_then(|id| self.deliver_turn(slot, id, entry, payload, record.len(), sink));
        if let Err(reason) = delivered {
            self.doom(slot, reason);
        }
        true
    }

    #[inline(always)]
    fn deliver_turn(
        &mut self,
        slot: usize,
        id: SessionId,
        entry: EntryHeader,
        payload: &[u8],
        record_bytes: usize,
        sink: &mut dyn Sink,
    ) -> Result<(), DownReason> {
        self.hand_on_inline(id, entry, payload, sink)?;
        // What is left to do here and in the rest of the poll need not lie between a message and its answer. The doorbell is
        // rung at the end, for all.
        let session = &mut self.sessions[slot];
        session.publish(&self.tracer, &self.counters, &mut self.ahead);
        self.counters.records_received.increment();
        session.consumer.advance((RECORD_HEADER_BYTES + record_bytes) as u64)?;
        session.keep_place();
        if session.must_return_credit() {
            self.return_credit(slot);
        }
        Ok(())
    }

    /// Hands a record to the sink, untraced, whose only entry is a message with its payload that a receive waits for. False
    /// when it is anything else; then it can be taken in any other way.
    #[inline(always)]
    pub(super) fn take_message(
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
        if self.tracer.is_on() {
            return Ok(false);
        }
        // Taken a second time, in another way, it gives nothing.
        session.producer.credit(released_lines)?;
        let (id, tag) = (session.id, Tag(tag));
        let Some(receive) = self.mail.take_receive(session.mail.source, tag) else { return Ok(false) };
        let matched = Matched { receive, tag, payload: Incoming::Borrowed(payload) };
        sink.received(&mut MatchedBatch::single(self, id, matched));
        self.counters.messages_received.increment();
        self.sessions[slot].mail.pass(Taken { messages: 1, lines: lines(length) }).map_err(overrun)?;
        self.close_record_of_peer(slot, record)?;
        Ok(true)
    }
}

impl<S> Session<S> {
    /// Counts the only entry of a record, and the credit that came with it.
    #[inline(always)]
    fn take_turn(&mut self, released_lines: u32, entry: EntryHeader) -> Result<SessionId, DownReason> {
        self.producer.credit(released_lines)?;
        Ok(self.take_inline_call(entry)?)
    }
}
