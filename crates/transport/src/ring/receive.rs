//! Receiving: records out of rings, in one loop that says what comes next.
//!
//! Everything is read in place. What decides about bounds is read once and checked; a peer that breaks a rule
//! loses its session and nothing else.
//!
//! A record with a single entry is taken for one side of a conversation, and nothing is looked for behind it:
//! the line there would first have to come from the peer's cache, while a response is ready to leave. So the
//! response leaves before the rest of the poll. When the last poll found something too, or there are several
//! entries, messages are taken for a stream, as long as a receive waits for another. So are records that only
//! report room, as long as something waits for it: a sender that took one of these a poll might never learn
//! of all that it has. And so are requests in blocks, whose responses have left already.

use farcall_driver::{LaneDriver, LaneReceiver, Record};
use farcall_protocol::matching::{Tag, lines};
use farcall_protocol::ring::{BatchHeader, ENTRY_LENGTH_MAX, EntryHeader, EntryKind, WORD_BYTES, padded};

use super::Ring;
use super::flow::CUT_SHORT;
use super::session::{Reader, Reading};
use crate::matcher::Deferral;
use crate::trace::event;
use crate::{DownReason, Incoming, Matched, Sink};

/// The most records that one poll reads from one peer, so that no peer can keep the others waiting.
const RECORDS_PER_POLL: usize = 16;

/// After this many bytes in blocks a poll reads no more from a peer.
const BLOCK_BYTES_PER_POLL: u64 = 1 << 20;

/// Bytes that a poll may read of a record that was left; it is no rule, only what is fetched ahead.
const READ_AHEAD_BYTES: usize = 1 << 10;

/// What comes next in a peer's ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// The next entry of this record.
    Entry,
    /// The record behind this one, which has been read.
    Record,
    /// Nothing, in this poll: this record has been read, or its next message is deferred.
    Stop,
    /// Nothing before the block is here that the next entry of this record names.
    Blocked,
}

impl Reading {
    /// A record that was not read yet.
    fn of(entries: u16) -> Self {
        Self { at: WORD_BYTES, entries_read: 0, entries }
    }

    /// Entries that were not read.
    #[inline]
    pub fn unread(&self) -> u16 {
        self.entries - self.entries_read
    }

    /// The next entry, which has this header, was read.
    #[inline]
    pub fn pass(&mut self, entry: EntryHeader) {
        self.at += WORD_BYTES + padded(entry.length as usize);
        self.entries_read += 1;
    }

    /// A batch of entries was read; the next one is at `at`.
    #[inline]
    pub fn pass_batch(&mut self, at: usize, entries: u16) {
        self.at = at;
        self.entries_read += entries;
    }
}

impl<D: LaneDriver> Ring<D> {
    /// Gives records that a peer has published to the sink; returns how many. A message that no receive waits
    /// for may be deferred to the next poll, with [`Deferral::Once`].
    #[inline(always)]
    pub(super) fn receive(&mut self, slot: usize, deferral: Deferral, sink: &mut dyn Sink) -> usize {
        let rx = &mut self.sessions[slot].rx;
        let offset = rx.consumer.offset();
        let has_record = |reader: &mut Box<Reader<D::Receiver>>| reader.receiver.may_have_record(offset);
        let Some(reader) = rx.reader.take_if(has_record) else {
            rx.consecutive_hits = 0;
            return 0;
        };
        let records = self.receive_from(slot, &reader, deferral, sink);
        self.sessions[slot].rx.reader = Some(reader);
        records
    }

    /// With one fast branch in front of the loop: a record of a conversation, untraced, whose only entry is a
    /// call, a response, or a message that a receive waits for. In the loop something has to be kept for
    /// entries to come.
    #[inline(never)]
    fn receive_from(
        &mut self,
        slot: usize,
        reader: &Reader<D::Receiver>,
        deferral: Deferral,
        sink: &mut dyn Sink,
    ) -> usize {
        let rx = &mut self.sessions[slot].rx;
        if rx.reading.is_none()
            && !self.shared.tracer.is_on()
            && let Ok(Some(record)) = reader.record(rx.consumer.offset(), 0..READ_AHEAD_BYTES)
            && let Some(released_lines) = record.word(0).and_then(BatchHeader::of_single_entry)
            && let Some(header) = record.word(WORD_BYTES)
        {
            if let Some(entry) = EntryHeader::of_call(header)
                && let Some(payload) = record.slice(2 * WORD_BYTES, entry.length as usize)
            {
                rx.consecutive_hits += 1;
                let delivered = self.deliver_single_call(slot, record, released_lines, entry, payload, sink);
                if let Err(reason) = delivered {
                    self.shared.close_later(slot, reason);
                }
                return 1;
            }
            if let Some(message) = self.expected_message(slot, record, (released_lines, header)) {
                self.sessions[slot].rx.consecutive_hits += 1;
                return match self.deliver_single_message(slot, record, released_lines, message, sink) {
                    Ok(()) if self.may_be_followed(slot) => {
                        self.receive_records(slot, reader, deferral.after_a_receive(), 1, sink)
                    }
                    Ok(()) => 1,
                    Err(reason) => {
                        self.shared.close_later(slot, reason);
                        1
                    }
                };
            }
        }
        self.receive_records(slot, reader, deferral, 0, sink)
    }

    /// The short message in the only entry of a record, if a receive waits for it, which then waits no
    /// longer, and if its record breaks no rule: for the loop to say, before a receive is taken.
    #[inline]
    fn expected_message<'r>(
        &mut self,
        slot: usize,
        record: Record<'r>,
        (released_lines, header): (u32, u64),
    ) -> Option<Matched<'r>> {
        let session = &self.sessions[slot];
        if session.rx.messages.is_refused {
            return None;
        }
        let bytes_max = session.message_bytes_max.min(ENTRY_LENGTH_MAX);
        let (tag, bytes) = EntryHeader::tagged_message(header, bytes_max)?;
        let payload = Incoming::Borrowed(record.slice(2 * WORD_BYTES, bytes)?);
        let messages = &session.rx.messages;
        if !session.tx.producer.admits(released_lines) || !messages.window.admits(lines(bytes)) {
            return None;
        }
        let receive = self.matcher.take_receive(session.rx.messages.source, Tag(tag))?;
        Some(Matched { receive, tag: Tag(tag), payload })
    }

    /// Whether to look for another record behind one with a single message.
    #[inline]
    fn may_be_followed(&self, slot: usize) -> bool {
        self.sessions[slot].rx.consecutive_hits > 1 && self.matcher.expects_messages()
    }

    /// Reads on behind as many `records` of this poll.
    #[inline(never)]
    fn receive_records(
        &mut self,
        slot: usize,
        reader: &Reader<D::Receiver>,
        deferral: Deferral,
        mut records: usize,
        sink: &mut dyn Sink,
    ) -> usize {
        if let Err(reason) = self.read_records(slot, reader, deferral, &mut records, sink) {
            self.shared.close_later(slot, reason);
            return records + 1;
        }
        if records > 0 {
            let session = &mut self.sessions[slot];
            session.return_message_credit_if_due(&mut self.shared);
            session.return_credit_if_due(&mut self.shared);
        }
        records
    }

    /// Reads records until nothing is there, or enough was read for this poll.
    #[inline]
    fn read_records(
        &mut self,
        slot: usize,
        reader: &Reader<D::Receiver>,
        mut deferral: Deferral,
        records: &mut usize,
        sink: &mut dyn Sink,
    ) -> Result<(), DownReason> {
        self.sessions[slot].rx.block_bytes_read = 0;
        loop {
            let rx = &mut self.sessions[slot].rx;
            let at = rx.reading.map_or(0, |reading| reading.at);
            let found = reader.record(rx.consumer.offset(), at..at + READ_AHEAD_BYTES)?;
            let Some(record) = found else { return Ok(()) };
            rx.consecutive_hits += u64::from(*records == 0);
            match self.read_record(slot, reader, record, &mut deferral, sink)? {
                Next::Blocked => return Ok(()),
                Next::Entry | Next::Stop => {
                    *records += 1;
                    return Ok(());
                }
                Next::Record => *records += 1,
            }
            let is_enough = self.sessions[slot].rx.block_bytes_read >= BLOCK_BYTES_PER_POLL;
            if is_enough || *records == RECORDS_PER_POLL {
                return Ok(());
            }
        }
    }

    /// Gives the entries of a record to the sink, from where the last poll left it.
    #[inline]
    fn read_record(
        &mut self,
        slot: usize,
        reader: &Reader<D::Receiver>,
        record: Record<'_>,
        deferral: &mut Deferral,
        sink: &mut dyn Sink,
    ) -> Result<Next, DownReason> {
        let session = &mut self.sessions[slot];
        let mut reading = match session.rx.reading.take() {
            Some(reading) => {
                *deferral = deferral.spent();
                reading
            }
            None => match session.open_record_of_peer(record)? {
                Some(entries) => Reading::of(entries),
                None => {
                    self.shared.counters.records_received.increment();
                    return Ok(Next::Record);
                }
            },
        };
        let (found, first, mut last) = (self.shared.tracer.begin_found(), reading.entries_read, None);
        while reading.unread() > 0 {
            let entry = EntryHeader::from_word(record.word(reading.at).ok_or(CUT_SHORT)?)?;
            if let Some(found) = found {
                self.mark_received(slot, entry, found, reading.entries_read == first);
            }
            last = Some(entry.kind);
            let next = match entry.kind {
                EntryKind::Request | EntryKind::Response => {
                    self.deliver_calls(slot, reader, record, entry, &mut reading, sink)?
                }
                EntryKind::Message | EntryKind::MessageBlock
                    if self.sessions[slot].rx.messages.is_refused =>
                {
                    return Err(DownReason::NotAllowed);
                }
                EntryKind::Message => {
                    self.deliver_messages(slot, record, entry, &mut reading, deferral, sink)?
                }
                EntryKind::RequestBlock | EntryKind::ResponseBlock | EntryKind::MessageBlock => {
                    self.deliver_block(slot, record, entry, &mut reading, sink)?
                }
                EntryKind::BlockReturn | EntryKind::MessageCredit => {
                    let at = reading.at + WORD_BYTES;
                    self.sessions[slot].take_returned(entry, record, at, &mut self.shared)?;
                    reading.pass(entry);
                    Next::Entry
                }
            };
            if next != Next::Entry {
                self.leave(slot, record, reading, reading.entries_read - first);
                return Ok(next);
            }
        }
        self.sessions[slot].rx.close_record(record)?;
        self.shared.counters.records_received.increment();
        Ok(self.next_behind(slot, reading.entries, last, *deferral))
    }

    /// Whether to look for more behind a record that was read.
    #[inline]
    fn next_behind(&self, slot: usize, entries: u16, last: Option<EntryKind>, deferral: Deferral) -> Next {
        let session = &self.sessions[slot];
        let may_be_more = match (entries, last) {
            (0, _) => session.tx.waits_for_room(),
            (1, Some(kind)) if kind.reports_room() => session.tx.waits_for_room(),
            (1, Some(EntryKind::RequestBlock)) => true,
            (1, _) => self.may_be_followed(slot),
            // What comes next would only be looked at to be deferred.
            (_, Some(EntryKind::Message)) => deferral != Deferral::Once || self.matcher.expects_messages(),
            _ => true,
        };
        if may_be_more { Next::Record } else { Next::Stop }
    }

    /// Leaves a record in the middle, after `entries` that this poll read of it.
    #[inline]
    fn leave(&mut self, slot: usize, record: Record<'_>, reading: Reading, entries: u16) {
        let session = &mut self.sessions[slot];
        session.rx.reading = Some(reading);
        self.deferred.note(entries, || session.message_at(record, reading.at));
        if self.deferred.is_any() {
            self.receives_from = None;
        }
    }

    /// All entries of a record are there when the first is; the others' turn comes after what is done with
    /// those before.
    #[cold]
    fn mark_received(&self, slot: usize, entry: EntryHeader, found: u64, is_first: bool) {
        let (tracer, session) = (&self.shared.tracer, &self.sessions[slot]);
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
            // The next to be received. One that is deferred will be marked again.
            EntryKind::Message | EntryKind::MessageBlock => {
                mark(event::MESSAGE_RECEIVED, session.rx.messages.received);
            }
            EntryKind::BlockReturn | EntryKind::MessageCredit => {}
        }
    }
}
