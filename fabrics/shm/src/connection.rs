//! One connection: the socket over which a lane is set up, watched and torn down.

use std::sync::Arc;
use std::time::Instant;

use farcall_driver::LaneId;
use rustix::event::PollFlags;

use crate::access::Standing;
use crate::intake::ForeignFd;
use crate::segment::Mapping;

/// Our part of a lane: what we offered.
pub struct Own {
    /// The ring that we read.
    pub ring: Arc<Mapping>,
    /// What only this peer reads of the blocks that we lend; `None` if it reads all of them.
    pub blocks: Option<Mapping>,
}

/// Where a connection stands.
pub enum Phase {
    /// We sent our offer and wait for the peer's.
    Offered(Own),
    /// A peer called; its offer is yet to come.
    Called,
    /// The peer's offer is being received and checked elsewhere; `None` while ours has not been sent.
    Receiving(Option<Own>),
    /// The lane is up.
    Up,
    /// The lane is down; the peer may still read our blocks.
    Closing,
}

pub struct Connection {
    pub lane: LaneId,
    pub socket: Arc<ForeignFd>,
    /// Who is at its other end.
    pub standing: Standing,
    pub phase: Phase,
    /// When it must be up.
    pub deadline: Instant,
}

/// A call to a peer that has not got through yet.
pub struct Call {
    pub lane: LaneId,
    pub name: String,
    pub hello: Vec<u8>,
    /// The peer's queue was full: call again at this time.
    pub retry_at: Instant,
    /// When the lane must be up.
    pub deadline: Instant,
}

impl Connection {
    pub fn is_being_set_up(&self) -> bool {
        !matches!(self.phase, Phase::Up | Phase::Closing)
    }

    /// When the thread must look at it even if nothing happens.
    pub fn wake_up_at(&self) -> Option<Instant> {
        self.is_being_set_up().then_some(self.deadline)
    }

    /// What its socket is watched for; `None` while another thread reads it.
    ///
    /// Messages on a lane that is up are looked at and never taken: with one come descriptors, which would be
    /// closed here. So its end is told by the peer's shutting down its side, not by reading up to there.
    pub fn watched_for(&self) -> Option<PollFlags> {
        match self.phase {
            Phase::Receiving(_) => None,
            Phase::Closing => Some(PollFlags::RDHUP),
            _ => Some(PollFlags::IN | PollFlags::RDHUP),
        }
    }
}
