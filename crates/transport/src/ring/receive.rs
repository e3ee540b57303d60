//! Receiving: records out of rings, in a loop that says what comes next.
//!
//! Everything is read in place. What decides about bounds is read once and checked; a peer that breaks a rule
//! loses its session and nothing else. Records with a single entry, and those that the last poll left in the
//! middle, take ways of their own, on which nothing has to be kept for entries to come.

use core::ops::Range;

use farcall_driver::{LaneDriver, LaneReceiver, RECORD_HEADER_BYTES, Record};
use farcall_protocol::matching::{Tag, lines};
use farcall_protocol::ring::{
    BatchHeader, ENTRY_LENGTH_MAX, EntryHeader, EntryKind, Violation, WORD_BYTES, padded,
};

use super::Ring;
use super::deliver::overrun;
use super::session::{Reader, Reading, Session, reason_of};
use crate::batch::{Entries, Taken};
use crate::mail::Verdict;
use crate::patience::Patience;
use crate::{DownReason, Incoming, Matched, MatchedBatch, SessionId, Sink};

/// The most records that one poll reads from one peer, so that no peer can keep the others waiting: so many
/// with a single message, and so many of all kinds behind them.
const RECORDS_PER_POLL: usize = 16;

/// Bytes that a poll may read of a record that was left; it is no rule, only what is fetched ahead.
const READ_AHEAD_BYTES: usize = 1 << 10;

/// After this many bytes in blocks a poll reads no more from a peer.
const BLOCK_BYTES_PER_POLL: u64 = 1 << 20;

pub const CUT_SHORT: Violation = Violation("a record with less in it than its header says");
pub const TOO_LONG: Violation = Violation("a message over the agreed limit");

impl<D: LaneDriver> Ring<D> {
    /// Hands records that a peer has published to the sink; returns how many. A message that nobody expects
    /// may be left for the next poll, with [`Patience::Once`].
    ///
    /// A record with a single entry is taken for a turn in a conversation, and nothing is looked for behind
    /// it: the line there would first have to come from the peer's cache, while an answer is ready to leave.
    /// When the last poll found something too, or there are several, messages are taken for a stream, as long
    /// as somebody waits for another. So are records that only report room, as long as something waits for
    /// it: a sender that took one of these a poll might never learn of all that it has. And so are requests
    /// in blocks, whose answers have left already.
    #[inline(always)]
    pub(super) fn receive(&mut self, slot: usize, patience: Patience, sink: &mut dyn Sink) -> usize {
        let session = &mut self.sessions[slot];
        let offset = session.consumer.offset();
        let has_record = |reader: &mut Box<Reader<D::Receiver>>| reader.receiver.may_have_record(offset);
        let Some(reader) = self.readers[slot].take_if(has_record) else {
            session.consecutive_hits = 0;
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
            self.sessions[slot].consecutive_hits += 1;
            let bytes = reading.at..reading.at + READ_AHEAD_BYTES;
            return match self.record_at(slot, reader, bytes) {
                Some(record) => self.receive_left(slot, reader, record, reading, patience, sink),
                None => 0,
            };
        }
        let Some(record) = self.next_record(slot, reader) else { return 0 };
        let session = &mut self.sessions[slot];
        session.consecutive_hits += 1;
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

    /// The record that is next to be read, or in which reading was left, for a caller that reads these bytes
    /// of it now.
    #[inline(always)]
    fn record_at<'r>(
        &mut self,
        slot: usize,
        reader: &'r Reader<D::Receiver>,
        bytes: Range<usize>,
    ) -> Option<Record<'r>> {
        let offset = self.sessions[slot].consumer.offset();
        reader.receiver.peek(offset, bytes).unwrap_or_else(|fault| {
            self.close_later(slot, reason_of(fault));
            None
        })
    }

    /// Hands records to the sink that have one message each, as long as they follow each other, and then what
    /// else follows.
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
                    self.close_later(slot, reason);
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

    /// Hands this record to the sink, and those behind it; with [`Patience::Waited`] from where the last poll
    /// left it.
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
                    self.close_later(slot, reason);
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

impl<D: LaneDriver> Ring<D> {
    /// Hands a record to the sink whose only entry is a request or a response with its payload. False when it
    /// is anything else; then nothing has happened.
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
            self.close_later(slot, reason);
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
        // What is left to do here and in the rest of the poll need not lie between a message and its answer.
        // The doorbell is rung at the end, for all.
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

    /// Hands a record to the sink, untraced, whose only entry is a message with its payload that a receive
    /// waits for. False when it is anything else; then it can be taken in any other way.
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

/// When so many messages were expected, more of them most likely are, in this poll and in the next, and those
/// are for a burst.
const MESSAGES_MAX: u16 = 4;

/// How far a record was read that had been left.
enum Progress {
    /// Nothing of it: the next entry is not expected, or no message.
    None,
    /// Messages, and there may be more for this poll.
    Some,
    /// Messages, up to one that nobody expects yet.
    UpToNextPoll,
    All,
}

impl<D: LaneDriver> Ring<D> {
    /// Hands what was left of a record to the sink, and what follows; returns how many records.
    #[inline(never)]
    pub(super) fn receive_left(
        &mut self,
        slot: usize,
        reader: &Reader<D::Receiver>,
        record: Record<'_>,
        reading: Reading,
        patience: Patience,
        sink: &mut dyn Sink,
    ) -> usize {
        let is_usual = patience == Patience::Once && !self.mail.hands_on && !self.tracer.is_on();
        let progress = match reading.read_last {
            0..=MESSAGES_MAX if is_usual => self.take_left(slot, record, reading, sink),
            _ => Ok(Progress::None),
        };
        match progress {
            Ok(Progress::None) => {
                let waited = if patience == Patience::Once { Patience::Waited } else { patience };
                return self.receive_records(slot, reader, record, waited, sink);
            }
            Ok(Progress::Some) => return self.receive_records(slot, reader, record, patience, sink),
            Ok(Progress::UpToNextPoll | Progress::All) => {}
            Err(reason) => {
                self.close_later(slot, reason);
                return 1;
            }
        }
        self.return_message_credit_if_due(slot);
        self.return_credit_if_due(slot);
        let next = match progress {
            Ok(Progress::All)
                if self.flow_behind(slot, reading.entries, Last::Expected) == Flow::Continue =>
            {
                self.next_record(slot, reader)
            }
            _ => None,
        };
        1 + next.map_or(0, |next| self.receive_records(slot, reader, next, patience, sink))
    }

    /// Hands the next messages to the receives that wait for them.
    #[inline(always)]
    fn take_left(
        &mut self,
        slot: usize,
        record: Record<'_>,
        reading: Reading,
        sink: &mut dyn Sink,
    ) -> Result<Progress, DownReason> {
        let session = &mut self.sessions[slot];
        session.reading = None;
        let bytes_max = session.message_bytes_max.min(ENTRY_LENGTH_MAX);
        let (id, source) = (session.id, session.mail.source);
        let Reading { mut at, mut entries_read, entries, .. } = reading;
        let (mut taken, mut progress) = (Taken::default(), Progress::Some);
        while taken.messages < MESSAGES_MAX && entries_read < entries {
            let entry = record.word(at).and_then(|word| EntryHeader::tagged_message(word, bytes_max));
            let Some((tag, length)) = entry else { break };
            let Some(payload) = record.slice(at + WORD_BYTES, length) else { break };
            let tag = Tag(tag);
            let Some(receive) = self.mail.take_receive(source, tag) else {
                progress = Progress::UpToNextPoll;
                break;
            };
            let matched = Matched { receive, tag, payload: Incoming::Borrowed(payload) };
            sink.received(&mut MatchedBatch::single(self, id, matched));
            taken.messages += 1;
            taken.lines += lines(length);
            at += WORD_BYTES + padded(length);
            entries_read += 1;
        }
        self.counters.messages_received.add(u64::from(taken.messages));
        self.sessions[slot].mail.pass(taken).map_err(overrun)?;
        if entries_read == entries {
            self.close_record_of_peer(slot, record)?;
            self.counters.records_received.increment();
            return Ok(Progress::All);
        }
        self.leave(slot, record, Reading { at, entries_read, entries, read_last: taken.messages });
        Ok(if taken.messages == 0 { Progress::None } else { progress })
    }

    /// Leaves a record in the middle.
    #[inline]
    pub(super) fn leave(&mut self, slot: usize, record: Record<'_>, reading: Reading) {
        self.sessions[slot].reading = Some(reading);
        self.note_left(slot, record, reading);
    }
}

/// A peer that was found to have published something in this many polls in a row is ahead of its reader.
const FINDS_OF_ONE_AHEAD: u64 = 16;

/// Whether to look for more behind an entry or a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    Continue,
    /// Not in this poll.
    Stop,
    /// Not before the block is here that the entry names.
    Halt,
}

/// What a record ended with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Last {
    /// Messages that somebody waited for.
    Expected,
    /// An entry that was looked at by itself.
    Entry(EntryKind),
    /// Calls, or nothing.
    Other,
}

impl<D: LaneDriver> Ring<D> {
    /// Whether to look for more behind a record of so many entries.
    #[inline]
    pub(super) fn flow_behind(&self, slot: usize, entries: u16, last: Last) -> Flow {
        let session = &self.sessions[slot];
        let is_stream = match (entries, last) {
            (0, _) => session.waits_for_room(),
            (1, Last::Entry(kind)) if kind.reports_room() => session.waits_for_room(),
            (1, Last::Entry(EntryKind::RequestBlock)) => true,
            (1, _) => session.consecutive_hits > 1 && self.mail.expects_messages(),
            // What comes next would only be looked at to be left.
            (_, Last::Expected) => self.mail.expects_messages(),
            _ => true,
        };
        if is_stream { Flow::Continue } else { Flow::Stop }
    }
}

impl<S> Session<S> {
    /// Whether the peer is so far ahead that what is fetched is nowhere near to what it writes. Close behind
    /// it, a core that fetches on by itself takes lines away that are being written.
    #[inline(always)]
    pub fn is_far_behind(&self) -> bool {
        self.consecutive_hits >= FINDS_OF_ONE_AHEAD
    }
}
