//! Messages that are given to the receive that asks for them, without a poll: out of the record that the last
//! poll left.

use farcall_driver::{LaneDriver, LaneReceiver, Record};
use farcall_protocol::matching::{Source, Tag, lines};
use farcall_protocol::ring::{ENTRY_LENGTH_MAX, EntryHeader, WORD_BYTES, padded};

use super::Ring;
use super::counters::RingCounters;
use super::deliver::overrun;
use super::session::{Reader, Reading, Session, Stage, reason_of};
use crate::batch::Taken;
use crate::unclaimed::{Left, Unclaimed};
use crate::{Arrived, Deliver, DownReason};

impl<D: LaneDriver> Ring<D> {
    /// Takes note of what a record was left for.
    #[inline]
    pub(super) fn note_left(&mut self, slot: usize, record: Record<'_>, reading: Reading) {
        let session = &self.sessions[slot];
        self.unclaimed.note(reading.read_last, || next_of(session, slot, record, reading.at));
        if self.unclaimed.is_any() {
            self.receives_from = None;
        }
    }

    /// The message that a receive for this one would get, before any other receive and any other message, if
    /// it was left.
    fn find_left(&self, from: Source, tag: Tag, bytes_max: usize) -> Option<Left<u16>> {
        let left = self.unclaimed.find(from, tag, bytes_max)?;
        (self.mail.is_idle() && !self.tracer.is_on()).then_some(*left)
    }

    /// Gives `deliver` the message that a receive would get which is posted now, if it was left where it lies
    /// and has at most this many bytes; says whether it did.
    pub(super) fn deliver_deferred(
        &mut self,
        from: Source,
        tag: Tag,
        bytes_max: usize,
        deliver: &mut Deliver<'_>,
    ) -> bool {
        let Some(left) = self.find_left(from, tag, bytes_max) else { return false };
        let slot = usize::from(left.place);
        // It is elsewhere while a record of this peer is being read, as it is here.
        let Some(reader) = self.readers[slot].take() else { return false };
        let given = self.give(left, &reader, deliver);
        self.readers[slot] = Some(reader);
        self.settle(left, given)
    }

    #[inline(always)]
    fn give(
        &mut self,
        left: Left<u16>,
        reader: &Reader<D::Receiver>,
        deliver: &mut Deliver<'_>,
    ) -> Result<bool, DownReason> {
        let slot = usize::from(left.place);
        let session = &mut self.sessions[slot];
        let Some(claim) = Claim::of(session, reader, left)? else { return Ok(false) };
        let id = session.id;
        deliver(self, id, left.tag, Arrived::InPlace(claim.message));
        claim.pass(&mut self.sessions[slot], &mut self.unclaimed, &self.counters)?;
        Ok(true)
    }

    /// Whether a message was claimed; if so, tells the peer of room when that is due.
    #[inline(always)]
    fn settle(&mut self, left: Left<u16>, claimed: Result<bool, DownReason>) -> bool {
        let slot = usize::from(left.place);
        match claimed {
            Ok(false) => return false,
            Ok(true) => {}
            Err(reason) => {
                self.close_later(slot, reason);
                return false;
            }
        }
        if self.sessions[slot].reading.is_none() {
            self.return_credit_if_due(slot);
        }
        if self.sessions[slot].mail.receive_window.credit_is_due() {
            self.return_message_credit_if_due(slot);
        }
        true
    }
}

/// A message that is claimed, in its record.
struct Claim<'r> {
    record: Record<'r>,
    message: &'r [u8],
    left: Left<u16>,
    reading: Reading,
}

impl<'r> Claim<'r> {
    /// `None` when it was taken since it was left.
    #[inline(always)]
    fn of<S, R: LaneReceiver>(
        session: &mut Session<S>,
        reader: &'r Reader<R>,
        left: Left<u16>,
    ) -> Result<Option<Self>, DownReason> {
        // The place of the session may have been taken by another, too.
        let is_its = session.stage == Stage::Up && session.mail.source == left.source;
        let Some(reading) = session.reading.filter(|_| is_its) else { return Ok(None) };
        let bytes = reading.at..reading.at + WORD_BYTES + left.bytes;
        let record = reader.receiver.peek(session.consumer.offset(), bytes).map_err(reason_of)?;
        let Some(record) = record else { return Ok(None) };
        // Its header was read when it was left, and is not again: a peer could have written another one
        // meanwhile. Nothing has been read behind it since, or what is left would have been noted again.
        let Some(message) = record.slice(reading.at + WORD_BYTES, left.bytes) else { return Ok(None) };
        session.mail.pass(Taken { messages: 1, lines: lines(left.bytes) }).map_err(overrun)?;
        Ok(Some(Self { record, message, left, reading }))
    }

    /// It has been read: leaves what is behind it.
    #[inline(always)]
    fn pass<S>(
        self,
        session: &mut Session<S>,
        unclaimed: &mut Unclaimed<u16>,
        counters: &RingCounters,
    ) -> Result<(), DownReason> {
        let Self { record, left, reading, .. } = self;
        counters.messages_received.increment();
        counters.received_in_place.increment();
        let (at, entries_read) = (reading.at + WORD_BYTES + padded(left.bytes), reading.entries_read + 1);
        if entries_read < reading.entries {
            session.reading = Some(Reading { at, entries_read, ..reading });
            unclaimed.follow(next_of(session, usize::from(left.place), record, at));
            return Ok(());
        }
        session.reading = None;
        unclaimed.forget();
        counters.records_received.increment();
        Ok(session.close_record(record)?)
    }
}

/// The message at `at` in a record of the session in a slot.
#[inline(always)]
fn next_of<S>(session: &Session<S>, slot: usize, record: Record<'_>, at: usize) -> Option<Left<u16>> {
    let bytes_max = session.message_bytes_max.min(ENTRY_LENGTH_MAX);
    let (tag, bytes) = EntryHeader::tagged_message(record.word(at)?, bytes_max)?;
    Some(Left { source: session.mail.source, tag: Tag(tag), bytes, place: slot as u16 })
}
