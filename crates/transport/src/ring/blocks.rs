//! Long payloads: the blocks that they are copied into, and what is made ready for the next while there is
//! nothing else to do.
//!
//! The lines that will be written next are in the cache of the peer, which read them last. To regain
//! exclusive ownership of them takes as long as to copy a payload; but a sender of long messages mostly waits
//! in between. What is done in one poll is bounded, because polls must stay short. It is done by stores:
//! prefetches for ownership do little on some processors.
//!
//! Which way the bytes of a copy take is the driver's business.

use farcall_driver::{
    LaneDriver, LaneReceiver, LaneSender, Loan, LoanError, RECORD_ALIGN, RECORD_HEADER_BYTES, Record,
    RecordKind,
};
use farcall_protocol::ring::{EntryHeader, WORD_BYTES};

use super::Ring;
use super::deliver::descriptor;
use super::session::{DESCRIPTOR_BYTES, Reader};

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
        let past_caches = sender.copy_payload(kind, loan, payload);
        self.counters.past_caches.add(past_caches.into());
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
        match self.block_for_copy(slot, bytes) {
            Err(LoanError::Exhausted) if self.learn_of_room(slot) => self.block_for_copy(slot, bytes),
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

/// Longer blocks are not kept ready: they would not stay in the caches.
const SPARE_BYTES_MAX: usize = 2 << 20;

/// What is regained of a block in one turn: no more lines than a core can have in flight at once.
const TURN_BYTES: usize = 16 * LINE_BYTES;

/// Bytes in a cache line.
const LINE_BYTES: usize = 64;

/// What is expected to be written next.
#[derive(Debug, Default)]
pub struct Ahead {
    /// Whether [`Ring::prepare_ahead`] has something to do. The only word of this that short messages look
    /// at.
    pub is_due: bool,
    record: NextRecord,
    spare: Spare,
}

/// The next record of some session, if it is as long as the last.
#[derive(Debug, Default)]
struct NextRecord {
    slot: usize,
    /// 0 when nothing is left to do for it.
    bytes: usize,
}

/// The block for the next long payload, and how much of it has been regained.
#[derive(Debug, Default)]
struct Spare {
    loan: Option<Loan>,
    /// Length of the last payload that was copied; 0 when nothing is left to do for the next.
    wanted_bytes: usize,
    ready_bytes: usize,
}

impl Ahead {
    /// Expects another record of `bytes` bytes, which is longer than lanes prepare by themselves.
    #[cold]
    pub fn expect_record(&mut self, slot: usize, bytes: usize) {
        self.record = NextRecord { slot, bytes };
        self.is_due = true;
    }
}

impl Spare {
    /// The block, if it fits a payload of `bytes` bytes. One that is too short or far too long goes back.
    fn take(&mut self, bytes: usize) -> Option<Loan> {
        let mut loan = self.loan.take().filter(|loan| (bytes..=2 * bytes).contains(&loan.len()))?;
        loan.truncate(bytes);
        Some(loan)
    }

    /// Expects another payload of this length.
    fn expect(&mut self, bytes: usize) {
        self.wanted_bytes = if bytes <= SPARE_BYTES_MAX { bytes } else { 0 };
        self.ready_bytes = 0;
    }
}

impl<D: LaneDriver> Ring<D> {
    /// Memory to lend. The spare block is given up before memory is refused.
    pub(super) fn block(&mut self, bytes: usize) -> Result<Loan, LoanError> {
        match self.driver.loan(bytes) {
            // Taken apart, so that a pointer is moved and not all that an error may be.
            Ok(loan) => Ok(loan),
            Err(LoanError::Exhausted) if self.ahead.spare.loan.take().is_some() => self.driver.loan(bytes),
            Err(error) => Err(error),
        }
    }

    /// Memory to copy a payload into: the spare block, if it fits and its lines are wanted.
    pub(super) fn block_for_copy(&mut self, slot: usize, bytes: usize) -> Result<Loan, LoanError> {
        let sender = self.sessions[slot].sender.as_ref();
        if !sender.is_some_and(|sender| sender.wants_lines_ahead(bytes)) {
            return self.block(bytes);
        }
        let Ahead { is_due, spare, .. } = &mut self.ahead;
        let loan = spare.take(bytes);
        spare.expect(bytes);
        *is_due = true;
        loan.map_or_else(|| self.block(bytes), Ok)
    }

    /// Makes a few lines ready; called when there is nothing else to do.
    #[cold]
    pub(super) fn prepare_ahead(&mut self) {
        self.ahead.is_due = self.prepare_next_record() || self.prepare_spare();
    }

    /// Returns whether there was something to do. The record is forgotten when its place is not free: it is
    /// long, and who sends so much has no time to prepare.
    fn prepare_next_record(&mut self) -> bool {
        let NextRecord { slot, bytes } = &mut self.ahead.record;
        if *bytes == 0 {
            return false;
        }
        // The slot may have another session by now, with a smaller ring.
        let session = self.sessions.get_mut(*slot);
        let with_room = session.filter(|session| session.producer.reserve_at_once(*bytes as u64).is_some());
        let sender = with_room.and_then(|session| session.sender.as_mut());
        if !sender.is_some_and(|sender| sender.prepare(*bytes)) {
            *bytes = 0;
        }
        true
    }

    /// Returns whether there was something to do.
    fn prepare_spare(&mut self) -> bool {
        let Spare { loan, wanted_bytes, ready_bytes } = &mut self.ahead.spare;
        if *wanted_bytes == 0 {
            return false;
        }
        if loan.is_none() {
            *loan = self.driver.loan(*wanted_bytes).ok();
        }
        let rest = loan.as_deref_mut().and_then(|bytes| bytes.get_mut(*ready_bytes..)).unwrap_or_default();
        if rest.len() <= TURN_BYTES {
            *wanted_bytes = 0;
        }
        for line in rest.chunks_mut(LINE_BYTES).take(TURN_BYTES / LINE_BYTES) {
            line[0] = 0;
        }
        *ready_bytes += TURN_BYTES;
        true
    }
}

impl<D: LaneDriver> Ring<D> {
    /// Starts to fetch the block that comes behind that of the entry at `at`, of `left` that the record has
    /// from there on: the next entry's, or that of the first of the next record.
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
