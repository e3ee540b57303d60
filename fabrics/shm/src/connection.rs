//! One connection: the socket over which a lane is set up, watched and torn down.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Instant;

use farcall_driver::LaneId;

use crate::segment::Mapping;

/// Where a connection stands.
pub enum Phase {
    /// We called, but the peer's queue was full: call again at this time.
    Calling { name: Vec<u8>, hello: Vec<u8>, retry_at: Instant },
    /// We sent our offer and wait for the peer's.
    Offered { ring: Arc<Mapping> },
    /// A peer called; its offer is yet to come.
    Called,
    /// The lane is up.
    Up,
    /// The lane is down; the peer may still read our blocks.
    Closing,
}

pub struct Connection {
    pub lane: LaneId,
    pub socket: Arc<OwnedFd>,
    pub phase: Phase,
    /// When it must be up.
    pub deadline: Instant,
}

impl Connection {
    pub fn is_being_set_up(&self) -> bool {
        !matches!(self.phase, Phase::Up | Phase::Closing)
    }

    /// When the thread must look at it even if nothing happens.
    pub fn wake_up_at(&self) -> Option<Instant> {
        match self.phase {
            Phase::Calling { retry_at, .. } => Some(retry_at.min(self.deadline)),
            _ => self.is_being_set_up().then_some(self.deadline),
        }
    }

    /// Whether something may come of its socket. One that is not connected is always reported as hung up.
    pub fn is_listened_to(&self) -> bool {
        !matches!(self.phase, Phase::Calling { .. })
    }
}
