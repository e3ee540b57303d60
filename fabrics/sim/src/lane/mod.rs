//! The lane driver: reliable byte rings between hosts of a simulated fabric.
//!
//! A record crosses the fabric as packets do, but none of them is lost; it is in the peer's ring when the last of them has
//! arrived. A block's bytes cross the fabric when it is lent, ahead of the record that names it.

mod ends;
mod ring;

use core::time::Duration;
use std::collections::BTreeMap;
use std::os::fd::RawFd;
use std::sync::Arc;

use farcall_base::{Address, AddressError, Principal};
use farcall_driver::{
    Block, BlockDescriptor, HELLO_BYTES_MAX, HeapLoans, LaneDriver, LaneEvent, LaneFault, LaneId, LaneLimits,
    Loan, LoanError, Returns, Wait,
};

pub use ends::{SimLaneReceiver, SimLaneSender};
pub use ring::Ring;

use crate::host::{Host, host_at};
use crate::time::Picos;

/// Lanes over a simulated fabric. What it sends and receives costs its host the time that the profile says.
///
/// A driver of a host that has crashed does nothing any more, and its lanes are silent.
pub struct SimLanes {
    host: Host,
    limits: LaneLimits,
    loans: HeapLoans,
    /// What is due for return, of each lane that has been up.
    returns: BTreeMap<LaneId, Arc<Returns>>,
}

impl SimLanes {
    /// # Panics
    /// When the host has a lane driver already.
    pub(crate) fn new(host: Host) -> Self {
        let (lanes, current) = {
            let mut world = host.fabric().lock();
            let current = world.is_current(host.id(), host.incarnation());
            if current {
                world.open_lane_port(host.id());
            }
            (world.profile.lanes, current)
        };
        debug_assert!(current, "drivers are made in the life that they serve");
        let limits = LaneLimits {
            ring_bytes: lanes.ring_bytes,
            loan_bytes_max: lanes.block_bytes,
            blocks_in_place: false,
        };
        Self { host, limits, loans: HeapLoans::new(lanes.block_bytes), returns: BTreeMap::new() }
    }

    /// The host that it is on.
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// Whether the host still lives the life of this driver.
    fn is_current(&self) -> bool {
        self.host.fabric().lock().is_current(self.host.id(), self.host.incarnation())
    }
}

impl LaneDriver for SimLanes {
    type Sender = SimLaneSender;
    type Receiver = SimLaneReceiver;

    fn limits(&self) -> LaneLimits {
        self.limits
    }

    fn address(&self) -> Address {
        self.host.address()
    }

    fn connect(&mut self, to: &Address, hello: &[u8], within: Duration) -> Result<LaneId, AddressError> {
        assert!(hello.len() <= HELLO_BYTES_MAX, "hellos are short");
        let mut world = self.host.fabric().lock();
        let to = host_at(to, world.host_count())?;
        if !world.is_current(self.host.id(), self.host.incarnation()) {
            return Ok(LaneId(0));
        }
        Ok(world.connect(self.host.id(), to, hello, Picos::from(within)))
    }

    fn set_welcome(&mut self, welcome: &[u8]) {
        assert!(welcome.len() <= HELLO_BYTES_MAX, "welcomes are short");
        if self.is_current() {
            self.host.fabric().lock().set_welcome(self.host.id(), welcome);
        }
    }

    fn poll_event(&mut self) -> Option<LaneEvent> {
        let event = {
            let mut world = self.host.fabric().lock();
            if !world.is_current(self.host.id(), self.host.incarnation()) {
                return None;
            }
            world.next_lane_event(self.host.id())?
        };
        match &event {
            LaneEvent::Connected { lane, .. } | LaneEvent::Accepted { lane, .. } => {
                self.returns.insert(*lane, Arc::default());
            }
            LaneEvent::Down { lane, .. } => drop(self.returns.remove(lane)),
        }
        Some(event)
    }

    fn take(&mut self, lane: LaneId) -> Option<(SimLaneSender, SimLaneReceiver)> {
        let (connection, side, peers, own) = {
            let mut world = self.host.fabric().lock();
            if !world.is_current(self.host.id(), self.host.incarnation()) {
                return None;
            }
            world.take_lane(self.host.id(), lane)?
        };
        let sender = SimLaneSender::new(self.host.clone(), connection, side, peers);
        Some((sender, SimLaneReceiver::new(self.host.clone(), own)))
    }

    /// Hosts of a simulation prove nothing.
    fn principal(&self, _lane: LaneId) -> Principal {
        Principal::Unproven
    }

    fn close(&mut self, lane: LaneId) {
        if self.is_current() {
            self.host.fabric().lock().close_lane(self.host.id(), lane);
        }
    }

    fn loan(&mut self, bytes: usize) -> Result<Loan, LoanError> {
        self.loans.loan(bytes)
    }

    fn recycle(&mut self, loan: Loan) {
        self.loans.recycle(loan);
    }

    fn lend(&mut self, lane: LaneId, loan: Loan) -> Result<BlockDescriptor, Loan> {
        if !self.loans.owns(&loan) {
            return Err(loan);
        }
        if !self.is_current() {
            return Ok(BlockDescriptor { offset: 0, length: loan.len() as u64 });
        }
        Ok(self.host.fabric().lock().lend(self.host.id(), lane, loan))
    }

    fn take_back(&mut self, lane: LaneId, block: BlockDescriptor) -> Result<(), LaneFault> {
        let known =
            self.is_current().then(|| self.host.fabric().lock().take_back(self.host.id(), lane, block));
        known.flatten().ok_or(LaneFault::Corrupt { what: "it returned a block that it does not have" })
    }

    fn borrow(&mut self, lane: LaneId, block: BlockDescriptor) -> Result<Option<Block>, LaneFault> {
        let returns = self.returns.get(&lane).ok_or(LaneFault::Closed)?;
        let loan = self.host.fabric().lock().lent(self.host.id(), lane, block);
        let loan = loan.ok_or(LaneFault::Corrupt { what: "it named a block that it did not lend" })?;
        Ok(Some(Block::of_loan(loan, block, Arc::clone(returns))))
    }

    fn prepare(&mut self, _sender: &mut Self::Sender, _length: usize) -> bool {
        false
    }

    fn due_return(&mut self, lane: LaneId) -> Option<BlockDescriptor> {
        self.returns.get(&lane)?.next()
    }
}

impl Wait for SimLanes {
    fn prepare_wait(&mut self) {}

    fn finish_wait(&mut self) {
        self.host.silence_bell();
    }

    fn wait_descriptors(&self) -> Vec<RawFd> {
        vec![self.host.bell()]
    }
}

impl Drop for SimLanes {
    fn drop(&mut self) {
        let mut world = self.host.fabric().lock();
        if world.is_current(self.host.id(), self.host.incarnation()) {
            world.close_lane_port(self.host.id());
        }
    }
}
