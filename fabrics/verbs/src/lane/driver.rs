//! The driver as its seam has it.

use core::sync::atomic::Ordering;
use core::time::Duration;
use std::os::fd::RawFd;

use farcall_base::{Address, AddressError, Principal};
use farcall_driver::{
    Block, BlockDescriptor, HELLO_BYTES_MAX, LaneDriver, LaneEvent, LaneFault, LaneId, LaneLimits, Loan,
    LoanError, Wait,
};

use super::conductor::Command;
use super::place::parse;
use super::{VerbsLanes, VerbsReceiver, VerbsSender};

impl LaneDriver for VerbsLanes {
    type Sender = VerbsSender;
    type Receiver = VerbsReceiver;

    fn limits(&self) -> LaneLimits {
        LaneLimits {
            ring_bytes: self.config.ring_bytes,
            loan_bytes_max: self.blocks.loan_bytes_max(),
            blocks_in_place: false,
        }
    }

    fn address(&self) -> Address {
        self.address.clone()
    }

    fn connect(&mut self, to: &Address, hello: &[u8], within: Duration) -> Result<LaneId, AddressError> {
        assert!(hello.len() <= HELLO_BYTES_MAX, "hellos are short");
        let place = parse(to)?;
        let lane = self.conductor.shared().new_lane();
        self.conductor.command(Command::Connect { lane, place, hello: hello.to_vec(), within });
        Ok(lane)
    }

    fn set_welcome(&mut self, welcome: &[u8]) {
        assert!(welcome.len() <= HELLO_BYTES_MAX, "welcomes are short");
        self.conductor.command(Command::SetWelcome(welcome.to_vec()));
    }

    #[inline]
    fn poll_event(&mut self) -> Option<LaneEvent> {
        if self.alarm.load(Ordering::Acquire) {
            self.end_failed_lanes();
        }
        if self.conductor.has_notices() { self.next_event() } else { None }
    }

    fn take(&mut self, lane: LaneId) -> Option<(VerbsSender, VerbsReceiver)> {
        self.lanes.get_mut(&lane)?.ends.take()
    }

    /// Whoever reaches the port is taken.
    fn principal(&self, _lane: LaneId) -> Principal {
        Principal::Unproven
    }

    fn close(&mut self, lane: LaneId) {
        self.conductor.command(Command::End(lane, LaneFault::Closed));
    }

    fn loan(&mut self, bytes: usize) -> Result<Loan, LoanError> {
        self.blocks.loan(bytes)
    }

    fn recycle(&mut self, loan: Loan) {
        self.blocks.recycle(loan);
    }

    fn lend(&mut self, lane: LaneId, loan: Loan) -> Result<BlockDescriptor, Loan> {
        self.blocks.lend(loan, lane)
    }

    fn take_back(&mut self, lane: LaneId, block: BlockDescriptor) -> Result<(), LaneFault> {
        self.blocks.take_back(block, lane)
    }

    fn borrow(&mut self, lane: LaneId, block: BlockDescriptor) -> Result<Option<Block>, LaneFault> {
        let state = self.lanes.get_mut(&lane).ok_or(LaneFault::Closed)?;
        state.arrivals.borrow(block, &state.link, &mut self.landing, &self.counters)
    }

    fn prepare(&mut self, _sender: &mut Self::Sender, _length: usize) -> bool {
        false
    }

    fn due_return(&mut self, lane: LaneId) -> Option<BlockDescriptor> {
        self.lanes.get(&lane)?.arrivals.next_return()
    }
}

impl Wait for VerbsLanes {
    fn prepare_wait(&mut self) {
        self.channel.drain();
        for state in self.lanes.values() {
            state.link.arm();
            state.link.reap();
        }
    }

    fn finish_wait(&mut self) {
        self.conductor.silence();
    }

    fn wait_descriptors(&self) -> Vec<RawFd> {
        vec![self.channel.descriptor(), self.conductor.notice_descriptor()]
    }
}
