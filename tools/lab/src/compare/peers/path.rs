//! The paths on which farcall and others are compared.

use farcall::TransportKind;

/// What sort of path a peer takes; figures of different sorts are not put beside each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Path {
    /// Messages through shared memory.
    Memory,
    /// Messages one way through shared memory, each matched with a receive, many in flight.
    Stream,
    /// The same to a handler, without matching.
    Publication,
    /// Messages over the loopback interface.
    Loopback,
    /// Reads of a store by a process of the same host.
    LocalStore,
    /// Reads of a store over the loopback interface.
    RemoteStore,
}

impl Path {
    /// Whether messages go one way, so that they are counted and not timed.
    pub fn is_one_way(self) -> bool {
        matches!(self, Self::Stream | Self::Publication)
    }

    pub(super) fn is_store(self) -> bool {
        matches!(self, Self::LocalStore | Self::RemoteStore)
    }

    /// The transports that take it.
    pub(super) fn transports(self) -> &'static [TransportKind] {
        match self {
            Self::Memory | Self::Stream | Self::Publication | Self::LocalStore => &[TransportKind::RING_SHM],
            Self::Loopback => &[TransportKind::TCP, TransportKind::BASIC_UDP, TransportKind::HOMA_UDP],
            Self::RemoteStore => &[TransportKind::BASIC_UDP],
        }
    }

    /// In a few words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Memory => "messages through shared memory",
            Self::Stream => "messages one way through shared memory, matched",
            Self::Publication => "messages one way through shared memory, to a handler",
            Self::Loopback => "messages over the loopback interface",
            Self::LocalStore => "reads of a store by a process of its host",
            Self::RemoteStore => "reads of a store over the loopback interface",
        }
    }
}
