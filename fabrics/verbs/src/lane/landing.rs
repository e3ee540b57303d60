//! Blocks that peers lend, read into memory of our own.
//!
//! A read takes memory only while a block is on its way or in use, and each lane has one on its way at most.

use std::sync::Arc;

use farcall_driver::{Block, BlockDescriptor, BlockMemory, LaneFault, Loan, LoanError, Returns};

use super::link::Link;
use crate::counters::VerbsLaneCounters;
use crate::region::Region;

/// The memory into which the blocks of all lanes are read.
pub type Landing = BlockMemory<Region>;

/// The blocks of one lane's peer.
#[derive(Default)]
pub struct Arrivals {
    /// The block that is on its way.
    in_flight: Option<(BlockDescriptor, Loan)>,
    /// Reads started so far.
    reads: u64,
    /// What the peer gets back.
    returns: Arc<Returns>,
}

impl Arrivals {
    /// The block, if it is here; else starts to read it, or waits for memory to read it into.
    pub fn borrow(
        &mut self,
        block: BlockDescriptor,
        link: &Link,
        landing: &mut Landing,
        counters: &VerbsLaneCounters,
    ) -> Result<Option<Block>, LaneFault> {
        if let Some((_, loan)) = self.in_flight.take_if(|(in_flight, _)| *in_flight == block) {
            link.reap();
            if !link.has_read(self.reads) {
                self.in_flight = Some((block, loan));
                return Ok(None);
            }
            counters.blocks_read.increment();
            counters.bytes_read.add(block.length);
            return Ok(Some(Block::of_loan(Arc::new(loan), block, Arc::clone(&self.returns))));
        }
        let end = block.offset.checked_add(block.length);
        if end.is_none_or(|end| end > link.peer.blocks_bytes) || self.in_flight.is_some() {
            let what = "a block outside the peer's memory, or another one in between";
            return Err(LaneFault::Corrupt { what });
        }
        let length = usize::try_from(block.length).unwrap_or(usize::MAX);
        let mut loan = match landing.loan(length) {
            Ok(loan) => loan,
            Err(LoanError::Exhausted) => {
                counters.landings_delayed.increment();
                return Ok(None);
            }
            Err(LoanError::TooLong { .. }) => {
                return Err(LaneFault::Corrupt { what: "a block longer than any that this side takes" });
            }
        };
        if length == 0 {
            return Ok(Some(Block::of_loan(Arc::new(loan), block, Arc::clone(&self.returns))));
        }
        self.reads += 1;
        link.read(block.offset, &mut loan, landing.memory().local_key(), self.reads);
        self.in_flight = Some((block, loan));
        Ok(None)
    }

    /// The next block that the peer can have back.
    pub fn next_return(&self) -> Option<BlockDescriptor> {
        self.returns.next()
    }

    /// The lane is over: the card may write what is in flight until the queue pair is gone.
    pub fn end(self, link: &Link) {
        if let Some((_, loan)) = self.in_flight {
            link.park(loan);
        }
    }
}
