//! What will be written next, fetched for writing while there is nothing else to do: the place of the next record, and the
//! block for the next long payload.
//!
//! These lines are in the cache of the peer, which read them last. To win them back takes as long as to copy a payload; but
//! whoever sends one long message after the other mostly waits in between.

use farcall_driver::{LaneDriver, LaneSender, Loan, LoanError, RECORD_ALIGN, RUNWAY_BYTES, claim_lines};

use super::outbound::Outbound;

/// Longer blocks are not kept ready: they would not stay in the cache.
const SPARE_BYTES_MAX: usize = 256 << 10;

/// What is claimed in one turn, which must stay short: no more lines than a core can have under way at once.
const CLAIM_BYTES: usize = 16 * 64;

/// Where the next record of some session will be, if it is as long as the last, and how far that place is claimed.
#[derive(Debug, Default)]
pub struct NextRecord {
    slot: usize,
    claimed: usize,
    /// 0 when nothing is left to do.
    end: usize,
}

impl NextRecord {
    /// Expects a record of `bytes` bytes at `offset`. The lane already has the lines of the runway.
    #[inline]
    pub fn expect(&mut self, slot: usize, offset: usize, bytes: usize) {
        if bytes > RUNWAY_BYTES {
            let end = offset + bytes.next_multiple_of(RECORD_ALIGN);
            *self = Self { slot, claimed: offset + RUNWAY_BYTES, end };
        }
    }
}

/// The block for the next long payload, and how far it is claimed.
#[derive(Debug, Default)]
pub struct Spare {
    loan: Option<Loan>,
    /// Length of the last payload that was copied; 0 when nothing is left to do for the next.
    wanted_bytes: usize,
    /// How much of the block has been claimed.
    claimed_bytes: usize,
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
        self.claimed_bytes = 0;
    }
}

impl<D: LaneDriver> Outbound<D> {
    /// Memory to lend. The spare block is given up before memory is refused.
    pub fn block(&mut self, bytes: usize) -> Result<Loan, LoanError> {
        match self.driver.loan(bytes) {
            Err(LoanError::Exhausted) if self.spare.loan.take().is_some() => self.driver.loan(bytes),
            result => result,
        }
    }

    /// Memory to copy a payload into: the spare block, if it fits.
    pub fn block_for_copy(&mut self, bytes: usize) -> Result<Loan, LoanError> {
        let spare = self.spare.take(bytes);
        self.spare.expect(bytes);
        spare.map_or_else(|| self.block(bytes), Ok)
    }

    /// Fetches a few lines; called when there is nothing else to do.
    #[inline]
    pub fn claim_ahead(&mut self) {
        if self.next_record.end > 0 {
            self.claim_next_record();
        } else if self.spare.wanted_bytes > 0 {
            self.claim_spare();
        }
    }

    #[inline(never)]
    fn claim_next_record(&mut self) {
        let NextRecord { slot, claimed, end } = &mut self.next_record;
        if let Some(sender) = self.sessions[*slot].sender.as_mut() {
            // The slot may have another session by now, with a smaller ring.
            let bytes = (*end).min(sender.ring_bytes()).saturating_sub(*claimed).min(CLAIM_BYTES);
            if bytes > 0 {
                sender.claim(*claimed, bytes);
                *claimed += bytes;
                return;
            }
        }
        *end = 0;
    }

    #[inline(never)]
    fn claim_spare(&mut self) {
        let Spare { loan, wanted_bytes, claimed_bytes } = &mut self.spare;
        if loan.is_none() {
            *loan = self.driver.loan(*wanted_bytes).ok();
        }
        let unclaimed = loan.as_deref().and_then(|bytes| bytes.get(*claimed_bytes..)).unwrap_or_default();
        let piece = &unclaimed[..unclaimed.len().min(CLAIM_BYTES)];
        claim_lines(piece);
        *claimed_bytes += piece.len();
        if piece.len() == unclaimed.len() {
            *wanted_bytes = 0;
        }
    }
}
