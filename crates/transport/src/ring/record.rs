//! Records: opened in the ring at the first entry for a peer, filled, and published at the next flush or when
//! full, so that what a poll produces for one peer costs few publications and one doorbell.
//!
//! In a conversation each record holds one message, and its peer has nothing else to do but to wait for it.
//! The next call or response after such a record was found is not put together first: it is written to a
//! place in the ring that was looked for meanwhile, and published by the verb itself. Only the next: what
//! else is made goes into records as ever, or small records would keep the batches small.

use farcall_driver::{
    BlockDescriptor, LaneDriver, LaneSender, RECORD_ALIGN, RECORD_HEADER_BYTES, RUNWAY_BYTES, RecordKind,
};
use farcall_protocol::ring::{BatchHeader, EntryHeader, EntryKind, Reservation, WORD_BYTES, padded};

use super::entry::{DESCRIPTOR_BYTES, encode_descriptor};
use super::session::{Session, Shared, slot_of};
use crate::trace::event;

/// Bytes of a record before its first entry: the lane's header and the batch header.
pub const RECORD_OVERHEAD: usize = RECORD_HEADER_BYTES + WORD_BYTES;

/// The most bytes in a record: its header counts entries in 16 bits, and an entry has at least a word.
pub const BATCH_BYTES_MAX: usize = u16::MAX as usize * WORD_BYTES;

/// Records grow to this many bytes while a poll fills one after the other. From about half of that on, they
/// are copied into the ring in a way that does not fetch the lines that the peer has read.
const GROWN_BYTES_MAX: usize = 16 << 10;

/// For about this many records it is remembered how many calls were in flight.
const RECENT_RECORDS: usize = 16;

/// This many requests cost more by themselves than by the record that they are in.
const REQUESTS_WORTH_A_RECORD: usize = 8;

/// From this many messages on a record is a stream, for which it does not matter when each is there.
const MANY_MESSAGES: usize = 16;

/// Messages of this many bytes, headers included, take longer to write and to read than to fetch.
const SHORT_MESSAGE_BYTES: usize = 128;

/// Bytes of a place for a message that leaves at once. Longer records are copied in other ways, and prepared
/// for.
const PLACE_BYTES: usize = RUNWAY_BYTES - RECORD_ALIGN;

/// The longest payload that leaves at once.
const PLACE_PAYLOAD_BYTES_MAX: usize = PLACE_BYTES - RECORD_OVERHEAD - WORD_BYTES;

/// The record that is being filled, and what is remembered of those before.
#[derive(Clone, Copy, Debug, Default)]
pub struct OpenRecord {
    /// Its offset in the ring.
    pub offset: usize,
    /// Bytes used so far, headers included; 0 when no record is open.
    pub used: usize,
    /// Bytes that may be used.
    pub room: usize,
    /// Entries so far.
    pub entries: u16,
    /// The number of the first tagged message in it, if there is one.
    first_message: u32,
    /// Whether the session is listed for the next flush.
    pub listed: bool,
    /// Bytes that the next record may have because others were filled since the last flush.
    pub grown: usize,
    /// Bytes of the last record.
    last: usize,
}

impl OpenRecord {
    /// Whether a record is open.
    #[inline]
    pub fn is_open(&self) -> bool {
        self.used > 0
    }

    /// How many bytes the next record may have, if the first after a flush has `bytes`. Each that is
    /// published costs transfers of its first line, which the peer looks at, to and fro, and a long one is
    /// copied faster; short ones let the peer begin early. So they begin short and grow.
    fn next_bytes(&self, bytes: usize) -> usize {
        bytes.max(self.grown)
    }

    /// There is something for which the open record, if there is one, has no room. One that was cut short by
    /// the end of the ring, or was opened for a credit, takes nothing back.
    fn note_filled(&mut self) {
        if self.is_open() {
            self.grown = self.grown.max(GROWN_BYTES_MAX.min(2 * self.room));
        }
    }

    /// No record is open any more; the rest is of the last one.
    #[inline]
    fn close(&mut self) {
        (self.last, self.used, self.room) = (self.used, 0, 0);
    }
}

impl<D: LaneDriver> Session<D> {
    /// Looks where the next record will be, for one call or response that leaves at once.
    #[inline]
    pub fn prepare_place(&mut self) {
        if !self.tx.record.is_open() {
            self.tx.place = self.tx.producer.reserve_at_once(PLACE_BYTES as u64);
            self.note_calls();
        }
    }

    /// Publishes a call or a response in the place that was prepared, or writes it as [`Session::append`]
    /// does.
    #[inline(never)]
    pub fn publish_or_append(&mut self, header: u64, payload: &[u8], shared: &mut Shared<D>) -> bool {
        if let Some(offset) = self.tx.place
            && payload.len() <= PLACE_PAYLOAD_BYTES_MAX
            && !shared.tracer.is_on()
        {
            self.publish_at(offset, header, payload, shared);
            return true;
        }
        self.append(header, payload, shared)
    }

    /// Publishes a record of a single entry. What must go before it has left: nothing waits, and no record is
    /// open.
    #[inline]
    fn publish_at(&mut self, offset: usize, header: u64, payload: &[u8], shared: &mut Shared<D>) {
        let bytes = RECORD_OVERHEAD + WORD_BYTES + padded(payload.len());
        let batch = BatchHeader { released_lines: self.rx.consumer.take_credit(), entries: 1, wrap: false };
        let next_offset = self.tx.producer.advance(bytes as u64);
        let sender = self.tx.sender.as_mut().expect("sessions with a place for a record are up");
        sender.begin(offset, bytes);
        let record = sender.record(offset, bytes);
        let (words, place) = record.split_at_mut(2 * WORD_BYTES);
        words.copy_from_slice([batch.to_word(), header].map(u64::to_le_bytes).as_flattened());
        place[..payload.len()].copy_from_slice(payload);
        sender.publish(RecordKind::Conversation, offset, bytes, next_offset);
        // The peer need not wait for the rest.
        self.tx.place = None;
        self.tx.record.last = bytes;
        shared.counters.records_sent.increment();
        self.list(shared);
    }

    /// Lists the session for the next flush.
    #[inline]
    fn list(&mut self, shared: &mut Shared<D>) {
        if !self.tx.record.listed {
            self.tx.record.listed = true;
            shared.dirty.push(slot_of(self.id) as u16);
        }
    }

    /// Writes an entry into the open record, or into one that is opened for it; false when there is no room.
    #[inline(never)]
    pub fn append(&mut self, header: u64, payload: &[u8], shared: &mut Shared<D>) -> bool {
        self.tx.put(header, payload)
            || self.open_for(header, payload.len(), shared) && self.tx.put(header, payload)
    }

    /// Writes an entry that names a block, and for which `make_room` has found room.
    pub fn append_descriptor(&mut self, header: u64, block: BlockDescriptor) {
        let has_room = self.tx.put_brief(header, &encode_descriptor(block));
        debug_assert!(has_room, "`make_room` was asked");
    }

    /// Whether the open record has room for a block's descriptor, opening another record if need be.
    pub fn make_room_for_descriptor(&mut self, shared: &mut Shared<D>) -> bool {
        let open = &self.tx.record;
        let bytes = WORD_BYTES + DESCRIPTOR_BYTES;
        open.used + bytes <= open.room || {
            self.tx.record.note_filled();
            let bytes_max = self.tx.record.next_bytes(shared.config.batch_bytes);
            self.open_record(bytes, bytes_max, shared)
        }
    }

    /// Opens a record for an entry with this header.
    fn open_for(&mut self, header: u64, payload_bytes: usize, shared: &mut Shared<D>) -> bool {
        self.tx.record.note_filled();
        let entry_bytes = WORD_BYTES + padded(payload_bytes);
        let bytes_max = self.record_bytes(header, entry_bytes, shared.config.batch_bytes);
        self.open_record(entry_bytes, bytes_max, shared)
    }

    /// How many bytes a record may have whose first entry is this one, if the first of a poll may have
    /// `batch_bytes`.
    ///
    /// Of requests it has room for a part of those that are in flight, or were not long ago: with all of them
    /// in one record, the caller would have nothing to do while they are answered, and the peer nothing while
    /// the next are made. A third, so that one is made and one answered while the third is on its way; but
    /// half, where a third would be fewer than are worth a record.
    fn record_bytes(&mut self, header: u64, entry_bytes: usize, batch_bytes: usize) -> usize {
        let bytes = self.tx.record.next_bytes(batch_bytes);
        match EntryHeader::of_call(header) {
            Some(EntryHeader { kind: EntryKind::Request, .. }) => {
                let calls = self.note_calls();
                let requests = (calls / 3).max(REQUESTS_WORTH_A_RECORD).min(calls / 2);
                bytes.min(RECORD_OVERHEAD + requests * entry_bytes)
            }
            _ => bytes,
        }
    }

    /// Remembers how many calls are in flight, and forgets slowly how many there were.
    fn note_calls(&mut self) -> usize {
        let recent = self.tx.recent_calls;
        self.tx.recent_calls = self.unanswered_calls.get().max(recent - recent.div_ceil(RECENT_RECORDS));
        self.tx.recent_calls
    }

    /// Opens a record of up to `bytes_max` bytes, of which the first entry has `entry_bytes`, after the open
    /// one is published.
    fn open_record(&mut self, entry_bytes: usize, bytes_max: usize, shared: &mut Shared<D>) -> bool {
        if self.tx.sender.is_none() {
            return false;
        }
        self.publish(shared);
        let bytes_min = RECORD_OVERHEAD + entry_bytes;
        let room = bytes_max.max(bytes_min);
        let mut place = self.tx.producer.reserve_at_once(room as u64);
        if place.is_none() && self.tx.producer.goes_on_for(room as u64) {
            self.make_lap_ready();
            place = self.tx.producer.reserve_at_once(room as u64);
        }
        if let Some(offset) = place {
            self.open(offset, room, shared);
            return true;
        }
        loop {
            match self.tx.producer.reserve(bytes_min as u64) {
                Reservation::At { offset, bytes } => {
                    self.make_lap_ready();
                    self.open(offset, bytes.min(room), shared);
                    return true;
                }
                Reservation::WrapAt { offset } => self.wrap(offset, shared),
                Reservation::Full if self.learn_of_room(shared) => {}
                Reservation::Full => return false,
            }
        }
    }

    /// Opens a record, and lists the session for the next flush.
    #[inline]
    fn open(&mut self, offset: usize, room: usize, shared: &mut Shared<D>) {
        let tx = &mut self.tx;
        // A one-way sender begins what records to come will need, too. In a conversation each line prefetched
        // is time between a message and its response: as many as this record needs, if it is as long as the
        // last.
        let expected = match self.rx.consecutive_hits {
            0 => room,
            _ => tx.record.last.clamp(RECORD_OVERHEAD, room),
        };
        tx.sender.as_mut().expect("sessions with room are up").begin(offset, expected);
        tx.place = None;
        let open = &mut tx.record;
        (open.offset, open.used, open.room, open.entries) = (offset, RECORD_OVERHEAD, room, 0);
        open.first_message = tx.messages.sent;
        self.list(shared);
    }

    #[cold]
    fn wrap(&mut self, offset: usize, shared: &mut Shared<D>) {
        let sender = self.tx.sender.as_mut().expect("sessions with room are up");
        let header = BatchHeader { released_lines: self.rx.consumer.take_credit(), entries: 0, wrap: true };
        sender.record(offset, RECORD_OVERHEAD)[..WORD_BYTES].copy_from_slice(&header.to_word().to_le_bytes());
        sender.publish(RecordKind::Conversation, offset, RECORD_OVERHEAD, 0);
        self.tx.producer.advance_to_start();
        self.tx.place = None;
        shared.counters.records_sent.increment();
        shared.counters.wrap_records_sent.increment();
    }

    /// Returns credit with a record of its own when no other record is about to carry it.
    #[inline]
    pub fn return_credit_if_due(&mut self, shared: &mut Shared<D>) {
        if !self.tx.record.is_open() && self.rx.consumer.credit_is_due() {
            self.return_credit(shared);
        }
    }

    /// Returns credit with a record of its own.
    #[cold]
    pub fn return_credit(&mut self, shared: &mut Shared<D>) {
        // A full ring is no loss: the peer has an earlier return of ours yet to read, and will answer it.
        if let Reservation::At { offset, .. } = self.tx.producer.reserve_credit_return() {
            self.open(offset, RECORD_OVERHEAD, shared);
            shared.counters.credit_records_sent.increment();
        }
    }

    /// Publishes the open record, if there is one.
    #[inline]
    pub fn publish(&mut self, shared: &mut Shared<D>) {
        if self.tx.record.is_open() {
            self.publish_open(shared);
        }
    }

    fn publish_open(&mut self, shared: &mut Shared<D>) {
        // Each by itself: entries were counted a moment ago, and a load of all at once would wait for those
        // stores.
        let OpenRecord { offset, used, entries, .. } = self.tx.record;
        self.tx.record.close();
        // It was opened for a message for which there was no block memory.
        if entries == 0 && !self.rx.consumer.keeps_from_rest() {
            return;
        }
        let now = shared.tracer.begin_shared();
        let messages = self.tx.messages.sent.wrapping_sub(self.tx.record.first_message) as usize;
        let sender = self.tx.sender.as_mut().expect("sessions with an open record are up");
        let header = BatchHeader { released_lines: self.rx.consumer.take_credit(), entries, wrap: false };
        sender.record(offset, used)[..WORD_BYTES].copy_from_slice(&header.to_word().to_le_bytes());
        let next_offset = self.tx.producer.advance(used as u64);
        let are_many = messages >= MANY_MESSAGES && messages * SHORT_MESSAGE_BYTES >= used;
        let kind = if are_many { RecordKind::Stream } else { RecordKind::Conversation };
        sender.publish(kind, offset, used, next_offset);
        if let Some(now) = now {
            // The peer need not wait for it.
            self.mark_transmitted(offset, used, entries, shared, now);
        }
        // With the flag behind it, it is longer than the longest runway.
        if used > RUNWAY_BYTES - RECORD_ALIGN {
            shared.ahead.expect(slot_of(self.id), used);
        }
        shared.counters.records_sent.increment();
        shared.counters.messages_sent.add(messages as u64);
    }

    /// Marks the messages in the record just published, which its entries name.
    #[cold]
    fn mark_transmitted(&mut self, offset: usize, used: usize, entries: u16, shared: &Shared<D>, now: u64) {
        let tracer = &shared.tracer;
        tracer.mark_held_reply(now);
        let (id, first_message) = (self.id, self.tx.record.first_message);
        let record = self.tx.sender.as_mut().expect("open records have a sender").record(offset, used);
        let (mut at, mut message) = (WORD_BYTES, first_message);
        for _ in 0..entries {
            let word = record.get(at..).and_then(|rest| rest.first_chunk()).copied().map(u64::from_le_bytes);
            let Some(Ok(entry)) = word.map(EntryHeader::from_word) else { return };
            at += WORD_BYTES + padded(entry.length as usize);
            let (event, number) = match entry.kind {
                EntryKind::Request | EntryKind::RequestBlock => (event::REQUEST_TRANSMITTED, entry.call),
                EntryKind::Response | EntryKind::ResponseBlock => (event::RESPONSE_TRANSMITTED, entry.call),
                EntryKind::Message | EntryKind::MessageBlock => {
                    message = message.wrapping_add(1);
                    (event::MESSAGE_TRANSMITTED, message.wrapping_sub(1))
                }
                _ => continue,
            };
            tracer.mark_at(now, event, number, id);
        }
    }
}
