//! Long payloads: the blocks that they are copied into, and what can be done for the next message while there
//! is nothing else to do, as far as the lane knows something.
//!
//! Which way the bytes of a copy take is the driver's business.

use farcall_driver::{LaneDriver, LaneSender, Loan, LoanError, RecordKind};

use super::Ring;

/// So much is lent before it is looked for what came back: a part of what a core's own cache holds.
const LENT_UNSEEN_BYTES_MAX: usize = 256 << 10;

/// What is lent to a peer that reads more slowly than we write, before we wait for it a moment.
const LENT_AHEAD_BYTES_MAX: usize = 1 << 20;

/// That moment, in looks for what came back: ten microseconds or some more, as long as the processor's pause
/// is. In these a peer that reads gives back a block.
const LOOKS_MAX: usize = 512;

impl<D: LaneDriver> Ring<D> {
    /// Copies a payload into a block for it.
    pub(super) fn fill(&mut self, slot: usize, loan: &mut Loan, payload: &[u8]) {
        let session = &mut self.sessions[slot];
        // The last block may be on its way back.
        let is_awaited =
            session.unanswered_calls.get() + session.unanswered_requests <= 1 && session.lent_blocks <= 1;
        let kind = if is_awaited { RecordKind::Conversation } else { RecordKind::Stream };
        let sender = session.sender.as_mut().expect("sessions with room are up");
        sender.copy_payload(kind, loan, payload);
        self.ahead.expect(slot, 0);
    }

    /// A block for a payload. Now and then, and when there is none, it is looked for what the peer has given
    /// back: what was read last is still in a cache, and fresh memory in none. To look costs a line that the
    /// peer may be about to write.
    pub(super) fn block_for(&mut self, slot: usize, bytes: usize) -> Result<Loan, LoanError> {
        let session = &mut self.sessions[slot];
        session.lent_unseen_bytes += bytes;
        if session.lent_unseen_bytes >= LENT_UNSEEN_BYTES_MAX {
            session.lent_unseen_bytes = 0;
            self.learn_of_room(slot);
        }
        self.let_peer_catch_up(slot, bytes);
        match self.driver.loan(bytes) {
            Err(LoanError::Exhausted) if self.learn_of_room(slot) => self.driver.loan(bytes),
            result => result,
        }
    }

    /// Waits a moment for a peer that has more to read than caches hold, if it reads at all: the further a
    /// sender is ahead, the colder is what both touch, and the slower the peer.
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
}

/// The next message of some session, expected to be as long as the last.
#[derive(Debug, Default)]
pub struct Ahead {
    /// Whether [`Ring::prepare_ahead`] has something to do. The only word of this that short messages look
    /// at.
    pub is_due: bool,
    slot: usize,
    /// Bytes of its record; 0 when nothing is left to do for that.
    record_bytes: usize,
}

impl Ahead {
    /// Expects another record of `record_bytes` bytes, which is longer than lanes prepare by themselves; or,
    /// with 0, another block.
    #[cold]
    pub fn expect(&mut self, slot: usize, record_bytes: usize) {
        *self = Self { is_due: true, slot, record_bytes };
    }
}

impl<D: LaneDriver> Ring<D> {
    /// Prepares a part of what is expected; called when there is nothing else to do. A record is forgotten
    /// when its place is not free: it is long, and a sender of so much has no time to prepare.
    #[cold]
    pub(super) fn prepare_ahead(&mut self) {
        let Ahead { is_due, slot, record_bytes } = &mut self.ahead;
        *is_due = false;
        // The slot may have another session by now, with a smaller ring.
        let Some(session) = self.sessions.get_mut(*slot) else { return };
        if *record_bytes > 0 && session.producer.reserve_at_once(*record_bytes as u64).is_none() {
            *record_bytes = 0;
        }
        if let Some(sender) = &mut session.sender {
            *is_due = self.driver.prepare(sender, *record_bytes);
        }
    }
}
