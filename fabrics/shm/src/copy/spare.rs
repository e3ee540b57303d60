//! The block for the next long payload, made ready while there is nothing else to do.
//!
//! Its lines are in the cache of a peer that read them. To get them back takes as long as to copy a payload;
//! but a sender of one long payload after the other mostly waits in between. What is done in one turn is
//! bounded, because turns must stay short. Lines are got back by stores: prefetching for ownership does
//! little for it on some processors. Round trips of 10 KB and 100 KB take a quarter more without.

use core::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;

use farcall_driver::{BlockMemory, Loan, LoanMemory};

/// Longer blocks are not kept ready: they would not stay in the caches.
const SPARE_BYTES_MAX: usize = 2 << 20;

/// Bytes in a cache line.
const LINE_BYTES: usize = 64;

/// What is made ready in one turn: no more lines than a core can have in flight.
const TURN_BYTES: usize = 16 * LINE_BYTES;

/// The block, and how much of it is ready.
#[derive(Debug, Default)]
pub struct SpareBlock {
    loan: Option<Loan>,
    ready_bytes: usize,
    /// Length of the last payload, where another should find a block ready; 0 when nothing is left to do.
    wanted_bytes: Arc<AtomicUsize>,
}

impl SpareBlock {
    /// Where senders say how long a block should be ready.
    pub fn wanted_bytes(&self) -> Arc<AtomicUsize> {
        Arc::clone(&self.wanted_bytes)
    }

    /// The block, if it fits a payload of `bytes` bytes. One that is too short or far too long goes back.
    #[inline]
    pub fn take(&mut self, bytes: usize) -> Option<Loan> {
        let mut loan = self.loan.take().filter(|loan| (bytes..=2 * bytes).contains(&loan.len()))?;
        loan.truncate(bytes);
        Some(loan)
    }

    /// Gives the block back; whether there was one.
    pub fn give_up(&mut self) -> bool {
        self.loan.take().is_some()
    }

    /// Makes a few lines ready; whether there is more to do.
    pub fn prepare<M: LoanMemory + 'static>(&mut self, blocks: &mut BlockMemory<M>) -> bool {
        let wanted_bytes = self.wanted_bytes.load(Ordering::Relaxed);
        if wanted_bytes == 0 || wanted_bytes > SPARE_BYTES_MAX {
            return false;
        }
        if self.loan.is_none() {
            (self.loan, self.ready_bytes) = (blocks.loan(wanted_bytes).ok(), 0);
        }
        let rest =
            self.loan.as_deref_mut().and_then(|bytes| bytes.get_mut(self.ready_bytes..)).unwrap_or_default();
        let has_more = rest.len() > TURN_BYTES;
        for line in rest.chunks_mut(LINE_BYTES).take(TURN_BYTES / LINE_BYTES) {
            line[0] = 0;
        }
        self.ready_bytes += TURN_BYTES;
        if !has_more {
            self.wanted_bytes.store(0, Ordering::Relaxed);
        }
        has_more
    }
}
