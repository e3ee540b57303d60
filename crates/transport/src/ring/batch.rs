//! The record of a session that is being filled: from where it is opened in the ring to where the peer may read it.

use farcall_driver::{LaneSender, RECORD_ALIGN, RUNWAY_BYTES, RecordKind};
use farcall_protocol::ring::{BatchHeader, EntryHeader, EntryKind, WORD_BYTES, padded};

use super::RingCounters;
use super::ahead::Ahead;
use super::entries::BRIEF_BYTES;
use super::records::RECORD_OVERHEAD;
use super::session::{Session, Stage, slot_of};
use crate::trace::{CallTracer, event};

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

/// Records grow to so many bytes while a turn fills one after the other. From about half of that on, they are copied into the
/// ring in a way that does not fetch the lines that the peer has read.
const GROWN_BYTES_MAX: usize = 16 << 10;

/// How many calls are under way is remembered for about so many records.
const RECENT_RECORDS: usize = 16;

/// How many requests a record has where so many calls are under way: a third, so that one is made and one answered while the
/// third is on its way; but half, where a third would be fewer than are worth a record.
fn requests_of_record(calls: usize) -> usize {
    (calls / 3).max(REQUESTS_WORTH_A_RECORD).min(calls / 2)
}

/// So many requests cost more by themselves than by the record that they are in.
const REQUESTS_WORTH_A_RECORD: usize = 8;

/// So many messages in a record are a stream, for which it does not matter when each is there.
const MANY_MESSAGES: usize = 16;

/// Messages of so many bytes, headers included, take longer to write and to read than to fetch.
const SHORT_MESSAGE_BYTES: usize = 128;

impl Batch {
    /// Whether a record is open.
    #[inline]
    pub fn is_open(&self) -> bool {
        self.used > 0
    }

    /// How many bytes the next record may have, if the first after a flush has `bytes`. Each that is published costs
    /// transfers of its first line, which the peer looks at, to and fro, and a long one is copied faster; short ones let the
    /// peer begin early. So they begin short and grow.
    #[inline]
    pub fn next_bytes(&self, bytes: usize) -> usize {
        bytes.max(self.grown)
    }

    /// There is something for which the open record, if there is one, has no room. One that was cut short by the end of the ring, or
    /// was opened for a credit, takes nothing back.
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

    /// How many bytes a record may have whose first entry is this one, if the first of a turn may have `batch_bytes`.
    ///
    /// Of requests it has room for a part of those that are under way, or were not long ago: with all of them in one record, the
    /// caller would have nothing to do while they are answered, and the peer nothing while the next are made.
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

    /// Remembers how many calls are under way, and forgets slowly how many there were.
    #[inline(always)]
    pub fn note_calls(&mut self) {
        let recent = self.recent_calls;
        self.recent_calls = self.unanswered_calls.get().max(recent - recent.div_ceil(RECENT_RECORDS));
    }

    /// Opens a record, and lists the session for the next flush.
    #[inline(always)]
    pub fn open(&mut self, offset: usize, room: usize, dirty: &mut Vec<u16>) {
        // Who only sends claims what records to come will need, too. In a conversation each line claimed is time between a
        // message and its answer: so many as this record needs, if it is as long as the last.
        let expected = if self.finds == 0 { room } else { self.batch.last.clamp(RECORD_OVERHEAD, room) };
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

    /// Opens a record of up to `bytes` bytes in which an entry of so many is the first, where nothing is in the way of it.
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
            && self.open_at_once(WORD_BYTES + BRIEF_BYTES, self.batch.next_bytes(batch_bytes), dirty)
            && self.append_brief(header, payload)
    }

    /// Publishes the open record, if there is one.
    #[inline(always)]
    pub fn publish(&mut self, tracer: &CallTracer, counters: &RingCounters, ahead: &mut Ahead) {
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
