//! Messages that are given to who asks for them, without a poll.
//!
//! Who asks for one message after the other, while a record lies here that was left because nobody expected what comes next, is
//! given that: a poll for each would cost more than the message. It is what a receive would get that is posted now, so nothing may
//! wait that could have a claim to it, and nothing that came before.

use farcall_driver::{LaneDriver, Record};
use farcall_protocol::matching::{Source, Tag, lines};
use farcall_protocol::ring::{EntryHeader, WORD_BYTES, padded};

use super::outbound::Outbound;
use super::session::{Reading, Stage};
use super::tagged::overrun;
use crate::burst::Taken;
use crate::{DownReason, MessageId, Origin, Outbox, SessionId, Short};

/// When so many polls in a row found one message that was expected and others behind it, who receives has one receive under way,
/// and more than one only by chance before. Several take less time in a poll.
const SINGLE_MESSAGES_MIN: u32 = 4;

impl<D: LaneDriver> Outbound<D> {
    /// Takes note of what a record was left for, if it is a short message that is worth a claim.
    #[inline]
    pub fn note_left(&mut self, slot: usize, record: Record<'_>, reading: Reading) {
        self.single_messages =
            if reading.read_last == 1 { self.single_messages.saturating_add(1) } else { 0 };
        if self.single_messages < SINGLE_MESSAGES_MIN {
            return self.left = None;
        }
        let source = self.sessions[slot].mail.source;
        let next =
            record.word(reading.at).and_then(|word| EntryHeader::tagged_message(word, Short::BYTES_MAX));
        self.left = next.map(|(tag, _)| (source, Tag(tag), slot as u16));
        self.receives_from = None;
    }

    /// Posts a receive for a message of another session than the last one, or after a message was left, unless it is to be given
    /// what was left. The last thing that its caller does, who so has no register to keep.
    #[inline(never)]
    pub fn receive_anew(&mut self, receive: MessageId, from: Origin, tag: Tag) -> bool {
        !self.has_left(from.source, tag) && self.receive_at_once(receive, from, tag)
    }

    /// Whether a message was left that a receive for this one would get, before any other receive and any other message.
    fn has_left(&self, from: Source, tag: Tag) -> bool {
        self.left.is_some_and(|(source, left, _)| (source, left) == (from, tag))
            && self.mail.is_idle()
            && !self.tracer.is_on()
    }

    /// Takes a short message out of the record in which it was left: the message that a receive would get which is posted now.
    pub fn claim_left(&mut self, from: Source, tag: Tag) -> Option<(SessionId, Short)> {
        let (_, _, slot) = self.left.filter(|_| self.has_left(from, tag))?;
        let slot = usize::from(slot);
        // What was left may have been taken since, and the place of the session by another.
        let session = &self.sessions[slot];
        let is_its = session.stage == Stage::Up && session.mail.source == from;
        let (id, reading) = (session.id, session.reading.filter(|_| is_its)?);
        // Not while a record of this peer is being read.
        let reader = self.readers.get_mut(slot)?.take()?;
        let claimed = match self.next_record(slot, &reader) {
            Some(record) => self.claim_of(slot, record, reading, tag),
            None => Ok(None),
        };
        self.readers[slot] = Some(reader);
        let claimed = claimed.unwrap_or_else(|reason| {
            self.doom(slot, reason);
            None
        });
        claimed.map(|short| (id, short))
    }

    fn claim_of(
        &mut self,
        slot: usize,
        record: Record<'_>,
        reading: Reading,
        wanted: Tag,
    ) -> Result<Option<Short>, DownReason> {
        let Reading { at, entries_read, entries, read_last } = reading;
        let bytes_max = self.sessions[slot].message_bytes_max.min(Short::BYTES_MAX);
        let entry = record.word(at).and_then(|word| EntryHeader::tagged_message(word, bytes_max));
        let Some((_, length)) = entry.filter(|&(tag, _)| Tag(tag) == wanted) else { return Ok(None) };
        let Some(short) = record.slice(at + WORD_BYTES, length).and_then(Short::new) else { return Ok(None) };
        self.counters.messages_received.increment();
        self.sessions[slot].mail.pass(Taken { messages: 1, lines: lines(length) }).map_err(overrun)?;
        let (at, entries_read) = (at + WORD_BYTES + padded(length), entries_read + 1);
        if entries_read < entries {
            self.leave(slot, record, Reading { at, entries_read, entries, read_last });
        } else {
            (self.left, self.sessions[slot].reading) = (None, None);
            self.close_record_of_peer(slot, record)?;
            self.counters.records_received.increment();
            self.return_credit_if_due(slot);
        }
        self.return_message_credit_if_due(slot);
        Ok(Some(short))
    }
}
