//! The transports that this program has, by name.

use core::fmt;
use core::str::FromStr;
use std::io;

use farcall_driver::CounterFile;
use farcall_driver_shm::{ShmConfig, ShmLanes};
use farcall_protocol::Identity;
use farcall_transport::{Ring, RingConfig, Transport};

use crate::parameters::{Idle, Settings};

/// A transport and the driver that carries it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TransportKind {
    /// The ring protocol over shared memory.
    RingShm,
}

impl TransportKind {
    /// All of them.
    pub const ALL: &'static [Self] = &[Self::RingShm];

    /// The name: protocol and driver.
    pub const fn name(self) -> &'static str {
        match self {
            Self::RingShm => "ring+shm",
        }
    }

    /// One line for people.
    pub const fn description(self) -> &'static str {
        match self {
            Self::RingShm => "rings in shared memory, between processes of one machine",
        }
    }

    /// Builds the transport for the endpoint that `identity` names, counting under `label`.
    pub(crate) fn build(
        self,
        identity: Identity,
        settings: &Settings,
        label: &str,
    ) -> io::Result<Box<dyn Transport>> {
        match self {
            Self::RingShm => Ok(Box::new(Ring::new(
                ShmLanes::new(shm_config(settings))?,
                identity,
                ring_config(settings),
                CounterFile::process(),
                label,
            ))),
        }
    }
}

impl fmt::Display for TransportKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for TransportKind {
    type Err = UnknownTransport;

    fn from_str(name: &str) -> Result<Self, UnknownTransport> {
        let known = Self::ALL.iter().copied().find(|kind| kind.name() == name);
        known.ok_or_else(|| UnknownTransport { name: name.into() })
    }
}

/// A transport's name that means nothing here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownTransport {
    name: String,
}

impl fmt::Display for UnknownTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = TransportKind::ALL.iter().map(|kind| kind.name()).collect();
        write!(f, "unknown transport `{}`; the transports here are {}", self.name, names.join(", "))
    }
}

impl core::error::Error for UnknownTransport {}

fn shm_config(settings: &Settings) -> ShmConfig {
    ShmConfig {
        ring_bytes: settings.ring.ring_bytes,
        block_bytes: settings.shm.block_bytes,
        may_sleep: settings.endpoint.idle == Idle::Block,
    }
}

fn ring_config(settings: &Settings) -> RingConfig {
    RingConfig {
        inline_bytes: settings.ring.inline_bytes,
        batch_bytes: settings.ring.batch_bytes,
        message_bytes_max: settings.ring.message_bytes_max,
        calls_max: settings.ring.calls_max,
        connect_timeout: settings.endpoint.peer_timeout,
    }
}
