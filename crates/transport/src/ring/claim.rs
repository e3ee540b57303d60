//! Messages that are given to who asks for them, without a poll: out of the record that the last poll left.

use farcall_driver::{LaneDriver, Record};
use farcall_protocol::matching::{Source, Tag, lines};
use farcall_protocol::ring::{ENTRY_LENGTH_MAX, EntryHeader, WORD_BYTES, padded};

use super::outbound::Outbound;
use super::session::{Reading, Stage};
use super::tagged::overrun;
use crate::burst::Taken;
use crate::unclaimed::Left;
use crate::{DownReason, MessageId, Origin, Outbox, TakeLeft};

impl<D: LaneDriver> Outbound<D> {
    /// Takes note of what a record was left for.
    #[inline]
    pub fn note_left(&mut self, slot: usize, record: Record<'_>, reading: Reading) {
        let session = &self.sessions[slot];
        let (source, bytes_max) = (session.mail.source, session.message_bytes_max.min(ENTRY_LENGTH_MAX));
        self.unclaimed.note(reading.read_last, || {
            let (tag, bytes) = EntryHeader::tagged_message(record.word(reading.at)?, bytes_max)?;
            Some(Left { source, tag: Tag(tag), bytes, place: slot as u16 })
        });
        if self.unclaimed.is_any() {
            self.receives_from = None;
        }
    }

    /// Posts a receive for a message of another session than the last one, or after a message was left, unless it is to be given
    /// what was left. The last thing that its caller does, who so has no register to keep.
    #[inline(never)]
    pub fn receive_anew(&mut self, receive: MessageId, from: Origin, tag: Tag, bytes_max: usize) -> bool {
        self.find_left(from.source, tag, bytes_max).is_none() && self.receive_at_once(receive, from, tag)
    }

    /// The message that a receive for this one would get, before any other receive and any other message, if it was left.
    fn find_left(&self, from: Source, tag: Tag, bytes_max: usize) -> Option<Left<u16>> {
        let left = self.unclaimed.find(from, tag, bytes_max)?;
        (self.mail.is_idle() && !self.tracer.is_on()).then_some(*left)
    }

    /// Takes a message out of the record in which it was left: the message that a receive would get which is posted now.
    pub fn claim_left(&mut self, from: Source, tag: Tag, bytes_max: usize, take: &mut TakeLeft<'_>) -> bool {
        let Some(left) = self.find_left(from, tag, bytes_max) else { return false };
        let slot = usize::from(left.place);
        // What was left may have been taken since, and the place of the session by another.
        let session = &self.sessions[slot];
        let is_its = session.stage == Stage::Up && session.mail.source == from;
        let Some(reading) = session.reading.filter(|_| is_its) else { return false };
        // Not while a record of this peer is being read.
        let Some(reader) = self.readers.get_mut(slot).and_then(Option::take) else { return false };
        let record = self.record_again(slot, &reader, reading.at..reading.at + WORD_BYTES + left.bytes);
        let claimed = record.map_or(Ok(false), |record| self.claim_of(slot, record, reading, left, take));
        self.readers[slot] = Some(reader);
        claimed.unwrap_or_else(|reason| {
            self.doom(slot, reason);
            false
        })
    }

    #[inline]
    fn claim_of(
        &mut self,
        slot: usize,
        record: Record<'_>,
        reading: Reading,
        left: Left<u16>,
        take: &mut TakeLeft<'_>,
    ) -> Result<bool, DownReason> {
        let Reading { at, entries_read, entries, read_last } = reading;
        let entry = record.word(at).and_then(|word| EntryHeader::tagged_message(word, left.bytes));
        let Some((_, length)) = entry.filter(|&(tag, _)| Tag(tag) == left.tag) else { return Ok(false) };
        let Some(payload) = record.slice(at + WORD_BYTES, length) else { return Ok(false) };
        let session = &mut self.sessions[slot];
        session.mail.pass(Taken { messages: 1, lines: lines(length) }).map_err(overrun)?;
        take(session.id, payload);
        self.counters.messages_received.increment();
        let (at, entries_read) = (at + WORD_BYTES + padded(length), entries_read + 1);
        if entries_read < entries {
            self.leave(slot, record, Reading { at, entries_read, entries, read_last });
        } else {
            self.unclaimed.forget();
            self.sessions[slot].reading = None;
            self.close_record_of_peer(slot, record)?;
            self.counters.records_received.increment();
            self.return_credit_if_due(slot);
        }
        self.return_message_credit_if_due(slot);
        Ok(true)
    }
}
