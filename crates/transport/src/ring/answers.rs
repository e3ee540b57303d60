//! A request or an answer that leaves at once, in a record of its own.
//!
//! In a conversation each record holds one message, and whoever waits for it has nothing else to do. The next message after such a
//! record was found is not put together first, to be published when its maker has returned: it is written to its place in the ring,
//! which was looked for while the peer had the turn. Only the next: what else is made goes into records as ever, or many small
//! ones would never become a long one again.

use farcall_driver::{LaneSender, RECORD_ALIGN, RUNWAY_BYTES, RecordKind};
use farcall_protocol::ring::{BatchHeader, WORD_BYTES, padded};

use super::RingCounters;
use super::records::RECORD_OVERHEAD;
use super::session::{Session, slot_of};

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

    /// Publishes a message in the place that is kept; false when none is, or the payload is too long for it. What must go before
    /// it has left: nothing waits, and no record is open while a place is kept.
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
