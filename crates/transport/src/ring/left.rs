//! Going on with a record of which the last poll left messages that nobody expected.
//!
//! Who receives with few under way takes a message or two a poll out of records that a faster sender has filled. They take a way of
//! their own, as records with a single message do: what a burst prepares would be for nothing.

use farcall_driver::{LaneDriver, Record};
use farcall_protocol::matching::{Tag, lines};
use farcall_protocol::ring::{ENTRY_LENGTH_MAX, EntryHeader, WORD_BYTES, padded};

use super::Ring;
use super::flow::{Flow, Last};
use super::session::{Reader, Reading};
use super::tagged::overrun;
use crate::batch::Taken;
use crate::patience::Patience;
use crate::{DownReason, Incoming, Matched, MatchedBatch, Sink};

/// When so many messages were expected, more of them most likely are, in this poll and in the next, and those are for a burst.
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
                self.doom(slot, reason);
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
