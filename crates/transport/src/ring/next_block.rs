//! The beginning of the next block, fetched while the one before it is read.
//!
//! A core fetches ahead what it reads forwards, but not from one block to the next, which begins anywhere: its first lines would
//! come one after the other, each when the last is there. Where cores are far from one another, that is a third of the time that
//! ten thousand bytes take.

use farcall_driver::{LaneDriver, LaneReceiver, RECORD_ALIGN, RECORD_HEADER_BYTES, Record};
use farcall_protocol::ring::{EntryHeader, WORD_BYTES};

use super::Ring;
use super::delivery::descriptor;
use super::session::{DESCRIPTOR_BYTES, Reader};

impl<D: LaneDriver> Ring<D> {
    /// Starts to fetch the block that comes behind that of the entry at `at`, of `left` that the record has from there on: the next
    /// entry's, or that of the first of the next record.
    #[inline(never)]
    pub(super) fn fetch_next_block(
        &self,
        slot: usize,
        reader: &Reader<D::Receiver>,
        record: Record<'_>,
        at: usize,
        left: u16,
    ) {
        let session = &self.sessions[slot];
        let next = if left > 1 {
            Some((record, at + WORD_BYTES + DESCRIPTOR_BYTES))
        } else {
            let bytes = (RECORD_HEADER_BYTES + record.len()).next_multiple_of(RECORD_ALIGN);
            let offset = (session.consumer.offset() + bytes) % reader.receiver.ring_bytes();
            // What is wrong with it will be found when it is read.
            reader.receiver.peek(offset).ok().flatten().map(|record| (record, WORD_BYTES))
        };
        let Some((record, at)) = next else { return };
        let entry = record.word(at).and_then(|word| EntryHeader::from_word(word).ok());
        if let Some(entry) = entry.filter(|entry| entry.kind.is_of_block())
            && let Ok(block) = descriptor(entry, record, at + WORD_BYTES)
        {
            self.driver.start_fetching(session.lane, block);
        }
    }
}
