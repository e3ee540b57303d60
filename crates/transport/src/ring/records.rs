//! Records into rings.
//!
//! A record is opened at the first message for a peer and published at the next flush or when it is full, so that
//! what a turn of the poll loop produces for one peer costs few publications and one doorbell.

use farcall_driver::{BlockDescriptor, LaneDriver, LaneSender, RECORD_HEADER_BYTES, RecordKind};
use farcall_protocol::ring::{BatchHeader, EntryHeader, EntryKind, Reservation, WORD_BYTES, padded};

use super::Ring;
use super::session::{DESCRIPTOR_BYTES, Message, Stage, encode_descriptor};

/// Bytes of a record before its first entry: the lane's header and the batch header.
pub const RECORD_OVERHEAD: usize = RECORD_HEADER_BYTES + WORD_BYTES;

/// The most bytes in a record: its header counts entries in 16 bits, and an entry has at least a word.
pub const BATCH_BYTES_MAX: usize = u16::MAX as usize * WORD_BYTES;

impl<D: LaneDriver> Ring<D> {
    /// Publishes all open records, after what waits has been given its chance.
    #[inline(always)]
    pub(super) fn publish_all(&mut self) {
        if self.needy > 0 || !self.dirty.is_empty() {
            self.publish_dirty();
        }
    }

    #[inline(never)]
    fn publish_dirty(&mut self) {
        if self.needy > 0 {
            self.serve_the_needy();
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

    /// Writes a message with its payload into a record, unless it is too long, others wait, or there is no room. Always
    /// inlined, so that the header becomes a word where its kind is known.
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

    /// Opens a record of up to `bytes_max` bytes, of which the first entry has so many, after the open one is published.
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
