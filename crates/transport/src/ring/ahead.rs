//! What will be written next, made ready while there is nothing else to do: the place of the next record, and the block for the
//! next long payload.
//!
//! These lines are in the cache of the peer, which read them last. To win them back takes as long as to copy a payload; but
//! whoever sends one long message after the other mostly waits in between. What is done in one turn is bounded, because
//! turns must stay short.
//!
//! Lines are won back by stores: instructions that fetch for writing do little for it on some processors.

use farcall_driver::{LaneDriver, LaneSender, Loan, LoanError};

use super::Ring;

/// Longer blocks are not kept ready: they would not stay in the caches.
const SPARE_BYTES_MAX: usize = 2 << 20;

/// What is won back of a block in one turn: no more lines than a core can have under way at once.
const TURN_BYTES: usize = 16 * LINE_BYTES;

/// Bytes in a cache line.
const LINE_BYTES: usize = 64;

/// What is expected to be written next.
#[derive(Debug, Default)]
pub struct Ahead {
    /// Whether [`Ring::prepare_ahead`] has something to do. The only word of this that short messages look at.
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

/// The block for the next long payload, and how much of it has been won back.
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

    /// Returns whether there was something to do. The record is forgotten when its place is not free: it is long, and who sends
    /// so much has no time to prepare.
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
