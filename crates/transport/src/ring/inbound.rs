//! Receiving: records out of rings, entries to the sink.
//!
//! Everything is read in place. What decides about bounds is read once and checked; a peer that breaks a rule loses
//! its session and nothing else.

use core::ops::Range;

use farcall_driver::{LaneDriver, LaneReceiver, Record};
use farcall_protocol::ring::{BatchHeader, EntryHeader, EntryKind, Violation, WORD_BYTES, padded};

use super::Ring;
use super::flow::{Flow, Last};
use super::session::{Reader, Reading, reason_of};
use crate::batch::Entries;
use crate::mail::Verdict;
use crate::patience::Patience;
use crate::{DownReason, Sink};

/// The most records that one poll reads from one peer, so that no peer can keep the others waiting: so many with a single message,
/// and so many of all kinds behind them.
const RECORDS_PER_POLL: usize = 16;

/// Bytes that a poll may read of a record that was left; it is no rule, only what is fetched ahead.
const READ_AHEAD_BYTES: usize = 1 << 10;

/// After so many bytes in blocks a poll reads no more from a peer.
const BLOCK_BYTES_PER_POLL: u64 = 1 << 20;

pub const CUT_SHORT: Violation = Violation("a record with less in it than its header says");
pub const TOO_LONG: Violation = Violation("a message over the agreed limit");

impl<D: LaneDriver> Ring<D> {
    /// Hands records that a peer has published to the sink; returns how many. A message that nobody expects may be left
    /// for the next poll, with [`Patience::Once`].
    ///
    /// A record with a single entry is taken for a turn in a conversation, and nothing is looked for behind it: the
    /// line there would first have to come from the peer's cache, while an answer is ready to leave. When the last poll found
    /// something too, or there are several, messages are taken for a stream, as long as somebody waits for another. So are
    /// records that only tell of room, as long as something waits for it: a sender that took one of these a poll might never
    /// learn of all that it has. And so are requests in blocks, whose answers have left already.
    #[inline(always)]
    pub(super) fn receive(&mut self, slot: usize, patience: Patience, sink: &mut dyn Sink) -> usize {
        let session = &mut self.sessions[slot];
        let offset = session.consumer.offset();
        let has_record = |reader: &mut Box<Reader<D::Receiver>>| reader.receiver.may_have_record(offset);
        let Some(reader) = self.readers[slot].take_if(has_record) else {
            session.finds = 0;
            return 0;
        };
        let records = self.receive_from(slot, &reader, patience, sink);
        self.readers[slot] = Some(reader);
        records
    }

    #[inline(never)]
    fn receive_from(
        &mut self,
        slot: usize,
        reader: &Reader<D::Receiver>,
        patience: Patience,
        sink: &mut dyn Sink,
    ) -> usize {
        if let Some(reading) = self.sessions[slot].reading {
            self.sessions[slot].finds += 1;
            let bytes = reading.at..reading.at + READ_AHEAD_BYTES;
            return match self.record_at(slot, reader, bytes) {
                Some(record) => self.receive_left(slot, reader, record, reading, patience, sink),
                None => 0,
            };
        }
        let Some(record) = self.next_record(slot, reader) else { return 0 };
        let session = &mut self.sessions[slot];
        session.finds += 1;
        let Some(released_lines) = record.word(0).and_then(BatchHeader::of_single_entry) else {
            // Many follow: what they lead to goes together.
            session.batch.is_kept = false;
            return self.receive_records(slot, reader, record, patience, sink);
        };
        if self.take_turn(slot, record, released_lines, sink) {
            return 1;
        }
        self.receive_single_messages(slot, reader, record, patience, sink)
    }

    /// What the peer has published next; a lane with a fault costs the session.
    #[inline(always)]
    pub(super) fn next_record<'r>(
        &mut self,
        slot: usize,
        reader: &'r Reader<D::Receiver>,
    ) -> Option<Record<'r>> {
        self.record_at(slot, reader, 0..READ_AHEAD_BYTES)
    }

    /// The record that is next to be read, or in which reading was left, for a caller that reads these bytes of it now.
    #[inline(always)]
    fn record_at<'r>(
        &mut self,
        slot: usize,
        reader: &'r Reader<D::Receiver>,
        bytes: Range<usize>,
    ) -> Option<Record<'r>> {
        let offset = self.sessions[slot].consumer.offset();
        reader.receiver.peek(offset, bytes).unwrap_or_else(|fault| {
            self.doom(slot, reason_of(fault));
            None
        })
    }

    /// Hands records to the sink that have one message each, as long as they follow each other, and then what else follows.
    #[inline(never)]
    fn receive_single_messages(
        &mut self,
        slot: usize,
        reader: &Reader<D::Receiver>,
        first: Record<'_>,
        mut patience: Patience,
        sink: &mut dyn Sink,
    ) -> usize {
        let (mut records, mut record) = (0, first);
        loop {
            match self.take_message(slot, record, sink) {
                Ok(true) => {}
                Ok(false) => return records + self.receive_records(slot, reader, record, patience, sink),
                Err(reason) => {
                    self.doom(slot, reason);
                    return records + 1;
                }
            }
            self.counters.records_received.increment();
            records += 1;
            patience = patience.after_a_receive();
            self.return_message_credit_if_due(slot);
            self.return_credit_if_due(slot);
            if self.flow_behind(slot, 1, Last::Expected) == Flow::Stop || records == RECORDS_PER_POLL {
                return records;
            }
            let Some(next) = self.next_record(slot, reader) else {
                return records;
            };
            record = next;
        }
    }

    /// Hands this record to the sink, and those behind it; with [`Patience::Waited`] from where the last poll left it.
    #[inline(never)]
    pub(super) fn receive_records(
        &mut self,
        slot: usize,
        reader: &Reader<D::Receiver>,
        first: Record<'_>,
        patience: Patience,
        sink: &mut dyn Sink,
    ) -> usize {
        let records = self.deliver_records(slot, reader, first, patience, sink);
        if records > 0 {
            self.counters.records_received.add(records as u64);
            self.return_message_credit_if_due(slot);
            self.return_credit_if_due(slot);
        }
        records
    }

    #[inline(always)]
    fn deliver_records(
        &mut self,
        slot: usize,
        reader: &Reader<D::Receiver>,
        first: Record<'_>,
        mut patience: Patience,
        sink: &mut dyn Sink,
    ) -> usize {
        let (mut records, mut record) = (0, first);
        self.block_bytes_read = 0;
        loop {
            match self.deliver(slot, reader, record, &mut patience, sink) {
                Ok(Flow::Halt) => return records,
                Ok(Flow::Stop) => return records + 1,
                Ok(Flow::Continue) => records += 1,
                Err(reason) => {
                    self.doom(slot, reason);
                    return records + 1;
                }
            }
            if records == RECORDS_PER_POLL || self.block_bytes_read >= BLOCK_BYTES_PER_POLL {
                return records;
            }
            let Some(next) = self.next_record(slot, reader) else {
                return records;
            };
            record = next;
        }
    }

    /// Hands the entries of a record to the sink, from where the last poll left it.
    #[inline]
    fn deliver(
        &mut self,
        slot: usize,
        reader: &Reader<D::Receiver>,
        record: Record<'_>,
        patience: &mut Patience,
        sink: &mut dyn Sink,
    ) -> Result<Flow, DownReason> {
        let (mut at, mut entries_read, entries) = match self.sessions[slot].reading.take() {
            Some(Reading { at, entries_read, entries, .. }) => (at, entries_read, entries),
            None => match self.open_record_of_peer(slot, record)? {
                Some(entries) => (WORD_BYTES, 0, entries),
                None => return Ok(Flow::Continue),
            },
        };
        let (found, first) = (self.tracer.begin_found(), entries_read);
        let mut last = Last::Other;
        while entries_read < entries {
            let entry = EntryHeader::from_word(record.word(at).ok_or(CUT_SHORT)?)?;
            let may_be_left = entry.kind == EntryKind::Message && *patience == Patience::Once;
            if last == Last::Expected && may_be_left && !self.mail.expects_messages() {
                let read_last = entries_read - first;
                self.leave(slot, record, Reading { at, entries_read, entries, read_last });
                return Ok(Flow::Stop);
            }
            if let Some(found) = found {
                self.mark_received(slot, entry, found, entries_read == first);
            } else {
                let unread = Entries::new(record, at, entries - entries_read);
                let (end, taken) = self.hand_on_together(slot, reader, entry, unread, sink)?;
                if taken > 0 {
                    (at, entries_read) = (end, entries_read + taken);
                    if entry.kind == EntryKind::Message {
                        *patience = patience.after(Verdict::HandOn);
                        last = Last::Expected;
                    } else {
                        last = Last::Other;
                    }
                    continue;
                }
            }
            last = Last::Entry(entry.kind);
            let flow = self.deliver_entry(slot, entry, record, at + WORD_BYTES, patience, sink)?;
            if flow != Flow::Continue {
                let read_last = entries_read - first;
                self.leave(slot, record, Reading { at, entries_read, entries, read_last });
                return Ok(flow);
            }
            at += WORD_BYTES + padded(entry.length as usize);
            entries_read += 1;
        }
        self.close_record_of_peer(slot, record)?;
        Ok(self.flow_behind(slot, entries, last))
    }

    /// Takes the header of a record; gives the number of its entries, or `None` if it was a wrap.
    #[inline]
    pub(super) fn open_record_of_peer(
        &mut self,
        slot: usize,
        record: Record<'_>,
    ) -> Result<Option<u16>, DownReason> {
        let header = BatchHeader::from_word(record.word(0).ok_or(CUT_SHORT)?)?;
        let session = &mut self.sessions[slot];
        session.producer.credit(header.released_lines)?;
        if header.wrap {
            session.consumer.advance_to_start()?;
            return Ok(None);
        }
        Ok(Some(header.entries))
    }

    /// The record was read.
    #[inline]
    pub(super) fn close_record_of_peer(&mut self, slot: usize, record: Record<'_>) -> Result<(), DownReason> {
        Ok(self.sessions[slot].close_record(record)?)
    }
}
