//! Tells threads outside of the simulation that something has arrived for a host.
//!
//! Programs of a simulation poll; blocking is for real time. But the seams promise descriptors that become
//! readable, and a test that drives hosts by hand may wait for them, so a host gets one as soon as somebody
//! asks.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use rustix::event::{EventfdFlags, eventfd};

/// A descriptor that is readable while it rings.
#[derive(Debug)]
pub struct Bell {
    descriptor: OwnedFd,
}

impl Bell {
    /// A silent bell.
    pub fn new() -> io::Result<Self> {
        Ok(Self { descriptor: eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)? })
    }

    /// Makes it readable.
    pub fn ring(&self) {
        // It fails only when it has rung 2^64 times without being silenced, and is readable then.
        let _rung = rustix::io::write(&self.descriptor, &1_u64.to_ne_bytes());
    }

    /// Makes it not readable.
    pub fn silence(&self) {
        // It fails when it was silent.
        let _silenced = rustix::io::read(&self.descriptor, &mut [0_u8; 8]);
    }

    /// The descriptor's number.
    pub fn descriptor(&self) -> RawFd {
        self.descriptor.as_raw_fd()
    }
}
