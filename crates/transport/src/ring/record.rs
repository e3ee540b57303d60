//! Records: opened in the ring at the first entry for a peer, filled, and published at the next flush or when
//! full, so that what a poll produces for one peer costs few publications and one doorbell.
//!
//! Most payloads are a word or two. Written in place, without the call of a function that copies, they leave
//! their callers nothing to come back to, so that these keep no registers.
//!
//! In a conversation each record holds one message, and its peer has nothing else to do but to wait for it.
//! The next message after such a record was found is not put together first: it is written to a place in the
//! ring that was looked for while the peer had the turn ([`Session::keep_place`]). Only the next: what else
//! is made goes into records as ever, or small records would keep the batches small.

use farcall_driver::{
    BlockDescriptor, LaneDriver, LaneSender, RECORD_ALIGN, RECORD_HEADER_BYTES, RUNWAY_BYTES, RecordKind,
};
use farcall_protocol::ring::{BatchHeader, EntryHeader, EntryKind, Reservation, WORD_BYTES, padded};

use super::blocks::Ahead;
use super::session::{DESCRIPTOR_BYTES, Message, Session, Stage, encode_descriptor, slot_of};
use super::{Ring, RingCounters};
use crate::trace::{CallTracer, event};

/// Bytes of a record before its first entry: the lane's header and the batch header.
pub const RECORD_OVERHEAD: usize = RECORD_HEADER_BYTES + WORD_BYTES;

/// The most bytes in a record: its header counts entries in 16 bits, and an entry has at least a word.
pub const BATCH_BYTES_MAX: usize = u16::MAX as usize * WORD_BYTES;

impl<D: LaneDriver> Ring<D> {
    /// Publishes all open records, after what waits has been given its chance.
    #[inline(always)]
    pub(super) fn publish_all(&mut self) {
        if self.blocked > 0 || !self.dirty.is_empty() {
            self.publish_dirty();
        }
    }

    #[inline(never)]
    fn publish_dirty(&mut self) {
        if self.blocked > 0 {
            self.retry_blocked();
        }
        let mut index = 0;
        while let Some(&slot) = self.dirty.get(index) {
            let session = &mut self.sessions[usize::from(slot)];
            session.publish(&self.tracer, &self.counters, &mut self.ahead);
            session.batch.grown = 0;
            if session.sender.as_mut().expect("listed sessions are up").ring_doorbell() {
                session.batch.listed = false;
                self.dirty.swap_remove(index);
            } else {
                index += 1;
            }
        }
    }

    /// Returns credits with a record of their own when no other record is about to carry them.
    #[inline]
    pub(super) fn return_credit_if_due(&mut self, slot: usize) {
        if self.sessions[slot].must_return_credit() {
            self.return_credit(slot);
        }
    }

    #[inline(never)]
    pub(super) fn return_credit(&mut self, slot: usize) {
        let session = &mut self.sessions[slot];
        // A full ring is no loss: the peer has an earlier return of ours yet to read, and will answer it.
        if let Reservation::At { offset, .. } = session.producer.reserve_credit_return() {
            session.open(offset, RECORD_OVERHEAD, &mut self.dirty);
            self.counters.credit_records_sent.increment();
        }
    }

    /// Writes an entry for which `make_room` has found room.
    #[inline]
    pub(super) fn append(&mut self, slot: usize, header: EntryHeader, payload: &[u8]) {
        let has_room = self.sessions[slot].append(header.to_word(), payload);
        debug_assert!(has_room, "`make_room` was asked");
    }

    /// As [`Ring::append`], for an entry whose payload is the name of a block.
    #[inline]
    pub(super) fn append_descriptor(
        &mut self,
        slot: usize,
        kind: EntryKind,
        call: u32,
        selector: u16,
        block: BlockDescriptor,
    ) {
        let header = EntryHeader { kind, call, selector, length: DESCRIPTOR_BYTES as u32 };
        let has_room = self.sessions[slot].append_brief(header.to_word(), &encode_descriptor(block));
        debug_assert!(has_room, "`make_room` was asked");
    }

    /// Writes a message with its payload into a record, unless it is too long, others wait, or there is no
    /// room. Always inlined, so that the header becomes a word where its kind is known.
    #[inline(always)]
    pub(super) fn append_at_once(&mut self, slot: usize, message: Message, payload: &[u8]) -> bool {
        let session = &mut self.sessions[slot];
        if !session.may_append(payload) {
            return false;
        }
        let header = message.inline_header(payload.len()).to_word();
        session.append_brief(header, payload) || self.append_to_record(slot, header, payload)
    }

    /// Writes an entry into the open record, or into one that is opened for it; false when there is no room.
    #[inline(never)]
    pub(super) fn append_to_record(&mut self, slot: usize, header: u64, payload: &[u8]) -> bool {
        let session = &mut self.sessions[slot];
        if session.append(header, payload) {
            return true;
        }
        session.batch.note_filled();
        let entry_bytes = WORD_BYTES + padded(payload.len());
        let bytes = session.record_bytes(header, entry_bytes, self.config.batch_bytes);
        if session.open_at_once(entry_bytes, bytes, &mut self.dirty) {
            return session.append(header, payload);
        }
        self.append_to_another(slot, header, payload, bytes)
    }

    #[inline(never)]
    fn append_to_another(&mut self, slot: usize, header: u64, payload: &[u8], bytes: usize) -> bool {
        self.sessions[slot].stage == Stage::Up
            && self.open_record(slot, WORD_BYTES + padded(payload.len()), bytes)
            && self.sessions[slot].append(header, payload)
    }

    /// Whether the open record has room for `bytes` more, opening another one if need be.
    #[inline]
    pub(super) fn make_room(&mut self, slot: usize, bytes: usize) -> bool {
        let batch = &self.sessions[slot].batch;
        batch.used + bytes <= batch.room || self.open_any_record(slot, bytes)
    }

    /// Opens a record for an entry of any kind, as long as the turn lets it be.
    #[inline(never)]
    fn open_any_record(&mut self, slot: usize, entry_bytes: usize) -> bool {
        let session = &mut self.sessions[slot];
        session.batch.note_filled();
        let bytes = session.batch.next_bytes(self.config.batch_bytes);
        self.open_record(slot, entry_bytes, bytes)
    }

    /// Opens a record of up to `bytes_max` bytes, of which the first entry has so many, after the open one is
    /// published.
    #[inline(never)]
    fn open_record(&mut self, slot: usize, entry_bytes: usize, bytes_max: usize) -> bool {
        self.publish(slot);
        self.sessions[slot].batch.is_kept = false;
        let bytes_min = RECORD_OVERHEAD + entry_bytes;
        loop {
            let session = &mut self.sessions[slot];
            match session.producer.reserve(bytes_min as u64) {
                Reservation::At { offset, bytes } => {
                    let room = bytes.min(bytes_max.max(bytes_min));
                    session.open(offset, room, &mut self.dirty);
                    return true;
                }
                Reservation::WrapAt { offset } => self.wrap(slot, offset),
                Reservation::Full if self.learn_of_room(slot) => {}
                Reservation::Full => return false,
            }
        }
    }

    #[cold]
    fn wrap(&mut self, slot: usize, offset: usize) {
        let session = &mut self.sessions[slot];
        let sender = session.sender.as_mut().expect("sessions with room are up");
        let header = BatchHeader { released_lines: session.consumer.take_credit(), entries: 0, wrap: true };
        sender.record(offset, RECORD_OVERHEAD)[..WORD_BYTES].copy_from_slice(&header.to_word().to_le_bytes());
        sender.publish(RecordKind::Conversation, offset, RECORD_OVERHEAD, 0);
        session.producer.advance_to_start();
        self.counters.records_sent.increment();
        self.counters.wrap_records_sent.increment();
    }

    /// Publishes the open record of a session, if there is one.
    #[inline(never)]
    pub(super) fn publish(&mut self, slot: usize) {
        self.sessions[slot].publish(&self.tracer, &self.counters, &mut self.ahead);
    }
}

/// The record that is being filled.
#[derive(Clone, Copy, Debug, Default)]
pub struct Batch {
    /// Offset in the ring: of the record that is open, or of the place that is kept for the next.
    pub offset: usize,
    /// Bytes used so far, headers included; 0 when no record is open.
    pub used: usize,
    /// Bytes that may be used.
    pub room: usize,
    /// Entries so far.
    pub entries: u16,
    /// The number of the first tagged message in it, if there is one.
    pub first_message: u32,
    /// Whether the session is listed for the next flush.
    pub listed: bool,
    /// Bytes that the next record may have because others were filled since the last flush.
    pub grown: usize,
    /// Bytes of the last record.
    pub last: usize,
    /// Whether the offset is that of a place which is kept for an answer. Not while a record is open.
    pub is_kept: bool,
}

/// Records grow to this many bytes while a turn fills one after the other. From about half of that on, they
/// are copied into the ring in a way that does not fetch the lines that the peer has read.
const GROWN_BYTES_MAX: usize = 16 << 10;

/// How many calls are in flight is remembered for about so many records.
const RECENT_RECORDS: usize = 16;

/// How many requests a record has where so many calls are in flight: a third, so that one is made and one
/// answered while the third is on its way; but half, where a third would be fewer than are worth a record.
fn requests_of_record(calls: usize) -> usize {
    (calls / 3).max(REQUESTS_WORTH_A_RECORD).min(calls / 2)
}

/// So many requests cost more by themselves than by the record that they are in.
const REQUESTS_WORTH_A_RECORD: usize = 8;

/// So many messages in a record are a stream, for which it does not matter when each is there.
const MANY_MESSAGES: usize = 16;

/// Messages of this many bytes, headers included, take longer to write and to read than to fetch.
const SHORT_MESSAGE_BYTES: usize = 128;

impl Batch {
    /// Whether a record is open.
    #[inline]
    pub fn is_open(&self) -> bool {
        self.used > 0
    }

    /// How many bytes the next record may have, if the first after a flush has `bytes`. Each that is
    /// published costs transfers of its first line, which the peer looks at, to and fro, and a long one is
    /// copied faster; short ones let the peer begin early. So they begin short and grow.
    #[inline]
    pub fn next_bytes(&self, bytes: usize) -> usize {
        bytes.max(self.grown)
    }

    /// There is something for which the open record, if there is one, has no room. One that was cut short by
    /// the end of the ring, or was opened for a credit, takes nothing back.
    #[inline]
    pub fn note_filled(&mut self) {
        if self.is_open() {
            self.grown = self.grown.max(GROWN_BYTES_MAX.min(2 * self.room));
        }
    }

    /// No record is open any more; the rest is of the last one.
    #[inline]
    pub fn close(&mut self) {
        (self.last, self.used, self.room) = (self.used, 0, 0);
    }
}

impl<S: LaneSender> Session<S> {
    /// Whether credit has to go back, and no record is about to carry it.
    #[inline(always)]
    pub fn must_return_credit(&self) -> bool {
        !self.batch.is_open() && self.consumer.credit_is_due()
    }

    /// How many bytes a record may have whose first entry is this one, if the first of a turn may have
    /// `batch_bytes`.
    ///
    /// Of requests it has room for a part of those that are in flight, or were not long ago: with all of them
    /// in one record, the caller would have nothing to do while they are answered, and the peer nothing while
    /// the next are made.
    #[inline(always)]
    pub fn record_bytes(&mut self, header: u64, entry_bytes: usize, batch_bytes: usize) -> usize {
        let bytes = self.batch.next_bytes(batch_bytes);
        match EntryHeader::of_call(header) {
            Some(EntryHeader { kind: EntryKind::Request, .. }) => {
                self.note_calls();
                bytes.min(RECORD_OVERHEAD + requests_of_record(self.recent_calls) * entry_bytes)
            }
            _ => bytes,
        }
    }

    /// Remembers how many calls are in flight, and forgets slowly how many there were.
    #[inline(always)]
    pub fn note_calls(&mut self) {
        let recent = self.recent_calls;
        self.recent_calls = self.unanswered_calls.get().max(recent - recent.div_ceil(RECENT_RECORDS));
    }

    /// Opens a record, and lists the session for the next flush.
    #[inline(always)]
    pub fn open(&mut self, offset: usize, room: usize, dirty: &mut Vec<u16>) {
        // A one-way sender begins what records to come will need, too. In a conversation each line prefetched
        // is time between a message and its answer: so many as this record needs, if it is as long as the
        // last.
        let expected =
            if self.consecutive_hits == 0 { room } else { self.batch.last.clamp(RECORD_OVERHEAD, room) };
        self.sender.as_mut().expect("sessions with room are up").begin(offset, expected);
        if !self.batch.listed {
            dirty.push(slot_of(self.id) as u16);
        }
        let first_message = self.mail.sent;
        self.batch = Batch {
            offset,
            used: RECORD_OVERHEAD,
            room,
            entries: 0,
            first_message,
            listed: true,
            is_kept: false,
            ..self.batch
        };
    }

    /// Opens a record of up to `bytes` bytes in which an entry of so many is the first, where nothing is in
    /// the way of it.
    #[inline(always)]
    pub fn open_at_once(&mut self, entry_bytes: usize, bytes: usize, dirty: &mut Vec<u16>) -> bool {
        let room = bytes.max(RECORD_OVERHEAD + entry_bytes);
        // A list that grows is left to a way which may keep more registers.
        let may_open = self.stage == Stage::Up
            && !self.batch.is_open()
            && (self.batch.listed || dirty.len() < dirty.capacity());
        let Some(offset) = self.producer.reserve_at_once(room as u64).filter(|_| may_open) else {
            return false;
        };
        self.open(offset, room, dirty);
        true
    }

    /// Writes an entry into a record that is opened for it, where nothing is in the way of that, and without
    /// the call of a function that copies: false also when the payload is too long for that.
    #[inline(always)]
    pub fn append_brief_to_new(
        &mut self,
        header: u64,
        payload: &[u8],
        batch_bytes: usize,
        dirty: &mut Vec<u16>,
    ) -> bool {
        payload.len() <= BRIEF_BYTES
            && self.open_at_once(WORD_BYTES + BRIEF_BYTES, self.batch.next_bytes(batch_bytes), dirty)
            && self.append_brief(header, payload)
    }

    /// Publishes the open record, if there is one.
    #[inline(always)]
    pub fn publish(&mut self, tracer: &CallTracer, counters: &RingCounters, ahead: &mut Ahead) {
        // Each by itself: entries were counted a moment ago, and a load of all at once would wait for those
        // stores.
        let Batch { offset, used, entries, .. } = self.batch;
        if used == 0 {
            return;
        }
        self.batch.close();
        // It was opened for a message for which there was no block memory.
        if entries == 0 && !self.consumer.credit_is_due() {
            return;
        }
        let now = tracer.begin_shared();
        let messages = self.mail.sent.wrapping_sub(self.batch.first_message) as usize;
        let sender = self.sender.as_mut().expect("sessions with an open record are up");
        let header = BatchHeader { released_lines: self.consumer.take_credit(), entries, wrap: false };
        sender.record(offset, used)[..WORD_BYTES].copy_from_slice(&header.to_word().to_le_bytes());
        let next_offset = self.producer.advance(used as u64);
        let are_many = messages >= MANY_MESSAGES && messages * SHORT_MESSAGE_BYTES >= used;
        let kind = if are_many { RecordKind::Stream } else { RecordKind::Conversation };
        sender.publish(kind, offset, used, next_offset);
        if let Some(now) = now {
            // The peer need not wait for it.
            self.mark_transmitted(offset, used, entries, tracer, now);
        }
        // With the flag behind it, it is longer than the longest runway.
        if used > RUNWAY_BYTES - RECORD_ALIGN {
            ahead.expect(slot_of(self.id), used);
        }
        counters.records_sent.increment();
        counters.messages_sent.add(messages as u64);
    }

    /// Marks the messages in the record just published, which its entries name.
    #[cold]
    fn mark_transmitted(&mut self, offset: usize, used: usize, entries: u16, tracer: &CallTracer, now: u64) {
        tracer.mark_held_reply(now);
        let (id, first_message) = (self.id, self.batch.first_message);
        let record = self.sender.as_mut().expect("open records have a sender").record(offset, used);
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

/// Payloads from this on may go to their place at once, if the driver knows that this is faster.
const LONG_BYTES_MIN: usize = 512;

/// Payloads up to this are copied in place: two words.
pub const BRIEF_BYTES: usize = 2 * WORD_BYTES;

impl<S: LaneSender> Session<S> {
    /// Whether a call or an answer with this payload goes into records, and none waits that must go before
    /// it.
    #[inline(always)]
    pub fn may_append(&self, payload: &[u8]) -> bool {
        payload.len() <= self.inline_bytes && self.backlog.is_empty()
    }

    /// Writes an entry into the open record; false when none is open, or it has no room.
    #[inline(always)]
    pub fn append(&mut self, header: u64, payload: &[u8]) -> bool {
        self.append_as::<false>(header, payload)
    }

    /// As [`Session::append`], without the call of a function that copies; false also when the payload is too
    /// long for that.
    #[inline(always)]
    pub fn append_brief(&mut self, header: u64, payload: &[u8]) -> bool {
        payload.len() <= BRIEF_BYTES && self.append_as::<true>(header, payload)
    }

    #[inline(always)]
    fn append_as<const IS_BRIEF: bool>(&mut self, header: u64, payload: &[u8]) -> bool {
        let batch = &mut self.batch;
        let end = batch.used + WORD_BYTES + padded(payload.len());
        if end > batch.room {
            return false;
        }
        let sender = self.sender.as_mut().expect("sessions with an open record are up");
        // No further than it is filled now: one bound less than of all that it may hold.
        let record = sender.record(batch.offset, end);
        let at = batch.used - RECORD_HEADER_BYTES;
        let (word, place) =
            record[at..].split_first_chunk_mut::<WORD_BYTES>().expect("it begins with its header");
        *word = header.to_le_bytes();
        if IS_BRIEF {
            copy_brief(place, payload);
        } else if payload.len() < LONG_BYTES_MIN {
            place[..payload.len()].copy_from_slice(payload);
        } else {
            sender.write_payload(batch.offset, at + WORD_BYTES, payload);
        }
        batch.used = end;
        batch.entries += 1;
        true
    }
}

/// Copies up to [`BRIEF_BYTES`] to a place of as many whole words: two pieces that are the same, or overlap,
/// or meet.
#[inline(always)]
fn copy_brief(place: &mut [u8], payload: &[u8]) {
    match payload.len() {
        0 => {}
        1..4 => {
            for at in [0, payload.len() / 2, payload.len() - 1] {
                place[at] = payload[at];
            }
        }
        4..8 => copy_ends::<4>(place, payload),
        _ => copy_ends::<8>(place, payload),
    }
}

/// Copies the first `N` bytes and the last.
#[inline(always)]
fn copy_ends<const N: usize>(place: &mut [u8], payload: &[u8]) {
    let place = &mut place[..payload.len()];
    let (Some(first), Some(last)) = (payload.first_chunk::<N>(), payload.last_chunk::<N>()) else { return };
    place[..N].copy_from_slice(first);
    place[payload.len() - N..].copy_from_slice(last);
}

/// Bytes of the place that is kept. Longer records are copied in other ways, and prepared for.
const PLACE_BYTES: usize = RUNWAY_BYTES - RECORD_ALIGN;

/// The longest payload that leaves at once.
const PAYLOAD_BYTES_MAX: usize = PLACE_BYTES - RECORD_OVERHEAD - WORD_BYTES;

impl<S: LaneSender> Session<S> {
    /// Looks where the next record will be, for one message that leaves at once.
    #[inline(always)]
    pub fn keep_place(&mut self) {
        if !self.batch.is_open()
            && let Some(offset) = self.producer.reserve_at_once(PLACE_BYTES as u64)
        {
            (self.batch.offset, self.batch.is_kept) = (offset, true);
            self.note_calls();
        }
    }

    /// Publishes a message in the place that is kept; false when none is, or the payload is too long for it.
    /// What must go before it has left: nothing waits, and no record is open while a place is kept.
    #[inline(always)]
    pub fn send_at_once(
        &mut self,
        header: u64,
        payload: &[u8],
        dirty: &mut Vec<u16>,
        counters: &RingCounters,
    ) -> bool {
        if !self.batch.is_kept || payload.len() > PAYLOAD_BYTES_MAX {
            return false;
        }
        let bytes = RECORD_OVERHEAD + WORD_BYTES + padded(payload.len());
        let offset = self.batch.offset;
        let batch = BatchHeader { released_lines: self.consumer.take_credit(), entries: 1, wrap: false };
        let next_offset = self.producer.advance(bytes as u64);
        let sender = self.sender.as_mut().expect("sessions with a place for a record are up");
        sender.begin(offset, bytes);
        let record = sender.record(offset, bytes);
        let (words, place) = record.split_at_mut(2 * WORD_BYTES);
        words.copy_from_slice([batch.to_word(), header].map(u64::to_le_bytes).as_flattened());
        place[..payload.len()].copy_from_slice(payload);
        sender.publish(RecordKind::Conversation, offset, bytes, next_offset);
        // The peer need not wait for the rest.
        (self.batch.is_kept, self.batch.last) = (false, bytes);
        counters.records_sent.increment();
        if !self.batch.listed {
            self.batch.listed = true;
            dirty.push(slot_of(self.id) as u16);
        }
        true
    }
}
