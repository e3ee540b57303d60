//! Records into rings.
//!
//! A record is opened at the first message for a peer and published at the next flush or when it is full, so that
//! what a turn of the poll loop produces for one peer costs few publications and one doorbell.

use farcall_driver::{BlockDescriptor, LaneDriver, LaneSender, RECORD_HEADER_BYTES, RUNWAY_BYTES};
use farcall_protocol::ring::{BatchHeader, EntryHeader, EntryKind, Reservation, WORD_BYTES, padded};

use super::RingCounters;
use super::ahead::Ahead;
use super::entries::BRIEF_BYTES;
use super::outbound::Outbound;
use super::session::{Batch, DESCRIPTOR_BYTES, Message, Session, Stage, encode_descriptor, slot_of};
use crate::trace::{CallTracer, event};

/// Bytes of a record before its first entry: the lane's header and the batch header.
pub const RECORD_OVERHEAD: usize = RECORD_HEADER_BYTES + WORD_BYTES;

/// The most bytes in a record: its header counts entries in 16 bits, and an entry has at least a word.
pub const BATCH_BYTES_MAX: usize = u16::MAX as usize * WORD_BYTES;

impl<S: LaneSender> Session<S> {
    /// Whether credit has to go back, and no record is about to carry it.
    #[inline(always)]
    pub fn must_return_credit(&self) -> bool {
        !self.batch.is_open() && self.consumer.credit_is_due()
    }

    /// Opens a record, and lists the session for the next flush.
    #[inline(always)]
    fn open(&mut self, offset: usize, room: usize, dirty: &mut Vec<u16>) {
        // Who only sends claims what records to come will need, too. In a conversation each line claimed is time between a
        // message and its answer: so many as this record needs, if it is as long as the last.
        let expected = if self.finds == 0 { room } else { self.batch.last.clamp(RECORD_OVERHEAD, room) };
        self.sender.as_mut().expect("sessions with room are up").claim(offset, expected);
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
            ..self.batch
        };
    }

    /// Opens a record in which an entry of so many bytes is the first, where nothing is in the way of it.
    #[inline(always)]
    fn open_at_once(&mut self, entry_bytes: usize, batch_bytes: usize, dirty: &mut Vec<u16>) -> bool {
        let room = self.batch.next_bytes(batch_bytes).max(RECORD_OVERHEAD + entry_bytes);
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

    /// Writes an entry into a record that is opened for it, where nothing is in the way of that, and without the call of a function
    /// that copies: false also when the payload is too long for that.
    #[inline(always)]
    pub fn append_brief_to_new(
        &mut self,
        header: u64,
        payload: &[u8],
        batch_bytes: usize,
        dirty: &mut Vec<u16>,
    ) -> bool {
        payload.len() <= BRIEF_BYTES
            && self.open_at_once(WORD_BYTES + BRIEF_BYTES, batch_bytes, dirty)
            && self.append_brief(header, payload)
    }

    /// Publishes the open record, if there is one.
    #[inline(always)]
    fn publish(&mut self, tracer: &CallTracer, counters: &RingCounters, ahead: &mut Ahead) {
        // Each by itself: entries were counted a moment ago, and a load of all at once would wait for those stores.
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
        let sender = self.sender.as_mut().expect("sessions with an open record are up");
        let header = BatchHeader { released_lines: self.consumer.take_credit(), entries, wrap: false };
        sender.record(offset, used)[..WORD_BYTES].copy_from_slice(&header.to_word().to_le_bytes());
        let next_offset = self.producer.advance(used as u64);
        sender.publish(offset, used, next_offset);
        if let Some(now) = now {
            // The peer need not wait for it.
            self.mark_transmitted(offset, used, entries, tracer, now);
        }
        if used > RUNWAY_BYTES {
            ahead.expect_record(slot_of(self.id), next_offset, used);
        }
        counters.records_sent.increment();
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
            at += WORD_BYTES + padded(usize::from(entry.length));
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

impl<D: LaneDriver> Outbound<D> {
    /// Publishes all open records, after what waits has been given its chance.
    #[inline(always)]
    pub fn flush(&mut self) {
        if self.needy > 0 || !self.dirty.is_empty() {
            self.flush_all();
        }
    }

    #[inline(never)]
    fn flush_all(&mut self) {
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
    pub fn return_credit_if_due(&mut self, slot: usize) {
        if self.sessions[slot].must_return_credit() {
            self.return_credit(slot);
        }
    }

    #[inline(never)]
    pub fn return_credit(&mut self, slot: usize) {
        let session = &mut self.sessions[slot];
        // A full ring is no loss: the peer has an earlier return of ours yet to read, and will answer it.
        if let Reservation::At { offset, .. } = session.producer.reserve_credit_return() {
            session.open(offset, RECORD_OVERHEAD, &mut self.dirty);
            self.counters.credit_records_sent.increment();
        }
    }

    /// Writes an entry for which `make_room` has found room.
    #[inline]
    pub fn append(&mut self, slot: usize, header: EntryHeader, payload: &[u8]) {
        let has_room = self.sessions[slot].append(header.to_word(), payload);
        debug_assert!(has_room, "`make_room` was asked");
    }

    /// As [`Outbound::append`], for an entry whose payload is the name of a block.
    #[inline]
    pub fn append_descriptor(
        &mut self,
        slot: usize,
        kind: EntryKind,
        call: u32,
        selector: u16,
        block: BlockDescriptor,
    ) {
        let header = EntryHeader { kind, call, selector, length: DESCRIPTOR_BYTES as u16 };
        let has_room = self.sessions[slot].append_brief(header.to_word(), &encode_descriptor(block));
        debug_assert!(has_room, "`make_room` was asked");
    }

    /// Writes a message with its payload into a record, unless it is too long, others wait, or there is no room. Always
    /// inlined, so that the header becomes a word where its kind is known.
    #[inline(always)]
    pub fn append_at_once(&mut self, slot: usize, message: Message, payload: &[u8]) -> bool {
        let session = &mut self.sessions[slot];
        if !session.may_append(payload) {
            return false;
        }
        let header = message.inline_header(payload.len()).to_word();
        session.append_brief(header, payload) || self.append_to_record(slot, header, payload)
    }

    /// Writes an entry into the open record, or into one that is opened for it; false when there is no room.
    #[inline(never)]
    pub fn append_to_record(&mut self, slot: usize, header: u64, payload: &[u8]) -> bool {
        let session = &mut self.sessions[slot];
        if session.append(header, payload) {
            return true;
        }
        let entry_bytes = WORD_BYTES + padded(payload.len());
        if session.open_at_once(entry_bytes, self.config.batch_bytes, &mut self.dirty) {
            return session.append(header, payload);
        }
        self.append_to_another(slot, header, payload)
    }

    #[inline(never)]
    fn append_to_another(&mut self, slot: usize, header: u64, payload: &[u8]) -> bool {
        self.sessions[slot].stage == Stage::Up
            && self.open_record(slot, WORD_BYTES + padded(payload.len()))
            && self.sessions[slot].append(header, payload)
    }

    /// Whether the open record has room for `bytes` more, opening another one if need be.
    #[inline]
    pub fn make_room(&mut self, slot: usize, bytes: usize) -> bool {
        let batch = &self.sessions[slot].batch;
        batch.used + bytes <= batch.room || self.open_record(slot, bytes)
    }

    #[inline(never)]
    fn open_record(&mut self, slot: usize, entry_bytes: usize) -> bool {
        let batch = &mut self.sessions[slot].batch;
        batch.note_filled();
        let bytes_max = batch.next_bytes(self.config.batch_bytes);
        self.publish(slot);
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
        sender.publish(offset, RECORD_OVERHEAD, 0);
        session.producer.advance_to_start();
        self.counters.records_sent.increment();
        self.counters.wrap_records_sent.increment();
    }

    /// Publishes the open record of a session, if there is one.
    #[inline(never)]
    pub fn publish(&mut self, slot: usize) {
        self.sessions[slot].publish(&self.tracer, &self.counters, &mut self.ahead);
    }
}
