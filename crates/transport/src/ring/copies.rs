//! Long payloads from the caller's memory: copied into a block, part by part.
//!
//! Copying is bound by the lines that travel between the cores. Where they travel slowly, the peer is told of each part as
//! soon as it is written, and fetches it while the next one is being written; when the message itself arrives, most of it is
//! there. Elsewhere one long copy is faster than the parts. Where the block comes from is in `ahead.rs`; which way the
//! bytes take is the driver's business.

use farcall_driver::{BlockDescriptor, LaneDriver, LaneSender, Loan, LoanError};
use farcall_protocol::ring::{EntryKind, PREFETCH_BYTES_MAX, WORD_BYTES};

use super::outbound::Outbound;
use super::session::DESCRIPTOR_BYTES;

/// A payload is announced in about so many parts: the first comes early, and the last, which overlaps with nothing, is
/// short.
const PARTS: usize = 8;

/// Shorter parts cost more by their records than they gain.
const PART_BYTES_MIN: usize = 4096;

/// So much is lent before it is looked for what came back: a part of what a core's own cache holds.
const LENT_UNSEEN_BYTES_MAX: usize = 256 << 10;

/// What is lent to a peer that reads more slowly than we write, before we wait for it a moment.
const LENT_AHEAD_BYTES_MAX: usize = 1 << 20;

/// That moment, in looks for what came back: ten microseconds or some more, as long as the processor's pause is. In these a peer
/// that reads gives back a block.
const LOOKS_MAX: usize = 512;

impl<D: LaneDriver> Outbound<D> {
    /// Copies a payload into a block for it.
    pub fn fill(&mut self, slot: usize, loan: &mut Loan, payload: &[u8]) {
        let past_caches = if self.config.fetch_ahead && self.driver.can_prefetch() && !self.peer_is_busy(slot)
        {
            self.copy_by_parts(slot, loan, payload)
        } else {
            self.copy(slot, loan, payload)
        };
        self.counters.past_caches.add(past_caches.into());
    }

    /// Copies a payload into a block, tells the peer of each part, and returns whether any went past the caches. The last one may be
    /// too short for that.
    fn copy_by_parts(&mut self, slot: usize, loan: &mut Loan, payload: &[u8]) -> bool {
        let part_bytes = payload.len().div_ceil(PARTS).clamp(PART_BYTES_MIN, PREFETCH_BYTES_MAX);
        let BlockDescriptor { mut offset, .. } = loan.descriptor();
        let mut parts = loan.chunks_mut(part_bytes).zip(payload.chunks(part_bytes)).peekable();
        let mut past_caches = false;
        while let Some((to, from)) = parts.next() {
            past_caches |= self.copy(slot, to, from);
            // The last part comes with the message.
            if parts.peek().is_some() {
                self.hint(slot, BlockDescriptor { offset, length: from.len() as u64 });
                offset += from.len() as u64;
            }
        }
        past_caches
    }

    fn copy(&mut self, slot: usize, to: &mut [u8], from: &[u8]) -> bool {
        self.sessions[slot].sender.as_mut().expect("sessions with room are up").copy_payload(to, from)
    }

    /// A block for a payload. Now and then, and when there is none, it is looked for what the peer has given back: what was read
    /// last is still in a cache, and fresh memory in none. To look costs a line that the peer may be about to write.
    pub fn block_for(&mut self, slot: usize, bytes: usize) -> Result<Loan, LoanError> {
        let session = &mut self.sessions[slot];
        session.lent_unseen_bytes += bytes;
        if session.lent_unseen_bytes >= LENT_UNSEEN_BYTES_MAX {
            session.lent_unseen_bytes = 0;
            self.learn_of_room(slot);
        }
        self.let_peer_catch_up(slot, bytes);
        match self.block_for_copy(slot, bytes) {
            Err(LoanError::Exhausted) if self.learn_of_room(slot) => self.block_for_copy(slot, bytes),
            result => result,
        }
    }

    /// Waits a moment for a peer that has more to read than caches hold, if it reads at all: the further a sender is ahead, the
    /// colder is what both touch, and the slower the peer.
    fn let_peer_catch_up(&mut self, slot: usize, bytes: usize) {
        // While a record of the peer is being read, nothing can be learned of it.
        if self.readers.get(slot).is_none_or(Option::is_none) {
            return;
        }
        let session = &mut self.sessions[slot];
        if session.lent_blocks.saturating_mul(bytes) <= LENT_AHEAD_BYTES_MAX {
            session.is_worth_waiting_for = true;
        } else if session.is_worth_waiting_for {
            for _ in 0..LOOKS_MAX {
                if self.learn_of_room(slot) {
                    return;
                }
                core::hint::spin_loop();
            }
            self.sessions[slot].is_worth_waiting_for = false;
        }
    }

    /// Whether the peer has other work from us or for us. Then it gets to this message later, and hints would only
    /// interrupt it. The last block may be on its way back.
    fn peer_is_busy(&self, slot: usize) -> bool {
        let session = &self.sessions[slot];
        session.unanswered_calls.get() + session.unanswered_requests > 1 || session.lent_blocks > 1
    }

    /// Tells the peer of bytes that it may fetch, if there is room.
    fn hint(&mut self, slot: usize, bytes: BlockDescriptor) {
        if self.make_room(slot, WORD_BYTES + DESCRIPTOR_BYTES) {
            self.append_descriptor(slot, EntryKind::PrefetchHint, 0, 0, bytes);
            self.publish(slot);
            self.counters.hints_sent.increment();
        }
    }
}
