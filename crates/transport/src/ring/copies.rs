//! Long payloads from the caller's memory: copied into a block, part by part.
//!
//! Copying is bound by the lines that travel between the cores. The peer is told of each part as soon as it is written, and
//! fetches it while the next one is being written; when the message itself arrives, most of it is there. Where the block
//! comes from is in `ahead.rs`.

use farcall_driver::{BlockDescriptor, LaneDriver, Loan, LoanError};
use farcall_protocol::ring::{EntryHeader, EntryKind, PREFETCH_BYTES_MAX, WORD_BYTES};

use super::outbound::Outbound;
use super::session::{DESCRIPTOR_BYTES, encode_descriptor};

/// A payload is announced in about so many parts: the first comes early, and the last, which overlaps with nothing, is
/// short.
const PARTS: usize = 8;

/// Shorter parts cost more by their records than they gain.
const PART_BYTES_MIN: usize = 4096;

impl<D: LaneDriver> Outbound<D> {
    /// Copies a payload into a block.
    pub fn copy_into_block(&mut self, slot: usize, payload: &[u8]) -> Result<Loan, LoanError> {
        let mut loan = self.block_for_copy(payload.len())?;
        if !self.driver.can_prefetch() || self.peer_is_busy(slot) {
            loan.copy_from_slice(payload);
            return Ok(loan);
        }
        let part_bytes = payload.len().div_ceil(PARTS).clamp(PART_BYTES_MIN, PREFETCH_BYTES_MAX);
        let BlockDescriptor { mut offset, .. } = loan.descriptor();
        let mut parts = loan.chunks_mut(part_bytes).zip(payload.chunks(part_bytes)).peekable();
        while let Some((to, from)) = parts.next() {
            to.copy_from_slice(from);
            // The last part comes with the message.
            if parts.peek().is_some() {
                self.hint(slot, BlockDescriptor { offset, length: from.len() as u64 });
                offset += from.len() as u64;
            }
        }
        Ok(loan)
    }

    /// Whether the peer has other work from us or for us. Then it gets to this message later, and hints would only
    /// interrupt it.
    fn peer_is_busy(&self, slot: usize) -> bool {
        let session = &self.sessions[slot];
        session.unanswered_calls + session.unanswered_requests > 1
    }

    /// Tells the peer of bytes that it may fetch, if there is room.
    fn hint(&mut self, slot: usize, bytes: BlockDescriptor) {
        if self.make_room(slot, WORD_BYTES + DESCRIPTOR_BYTES) {
            let length = DESCRIPTOR_BYTES as u16;
            let header = EntryHeader { kind: EntryKind::PrefetchHint, call: 0, selector: 0, length };
            self.append(slot, header, &encode_descriptor(bytes));
            self.publish(slot);
            self.counters.hints_sent.increment();
        }
    }
}
