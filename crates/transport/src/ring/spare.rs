//! The block for the next long payload, fetched for writing while there is nothing else to do.
//!
//! The lines of a block that came back are in the cache of the peer, which read them last. To win them back takes as long as
//! to copy the payload; but whoever sends one long message after the other mostly waits in between.

use farcall_driver::{LaneDriver, Loan, LoanError, claim_lines};

use super::outbound::Outbound;

/// Longer blocks are not kept ready: they would not stay in the cache.
const SPARE_BYTES_MAX: usize = 256 << 10;

/// What is claimed in one turn, which must stay short: no more lines than a core can have under way at once.
const CLAIM_BYTES: usize = 16 * 64;

/// The block, and how far it is.
#[derive(Debug, Default)]
pub struct Spare {
    loan: Option<Loan>,
    /// Length of the last payload that was copied; 0 when nothing is left to do for the next.
    wanted_bytes: usize,
    /// How much of the block has been claimed.
    claimed_bytes: usize,
}

impl Spare {
    /// Whether [`Outbound::claim_spare`] has something to do.
    #[inline]
    pub fn is_wanted(&self) -> bool {
        self.wanted_bytes > 0
    }

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

    /// Fetches a few more lines of the spare block; called when there is nothing else to do.
    #[inline(never)]
    pub fn claim_spare(&mut self) {
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
