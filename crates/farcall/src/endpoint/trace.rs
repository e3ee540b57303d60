//! What an endpoint has traced, in a form that leaves the process.

use farcall_driver::trace::TraceRecord;
use farcall_transport::trace::{CallTracer, session_bits};

use super::sessions::Peer;

/// The records of an endpoint and the peers that they speak of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EndpointTrace {
    /// The records, oldest first; their times are ticks of the clock, as
    /// [`Clock::time_of`](crate::Clock::time_of) of any process of the machine reads them.
    pub records: Vec<TraceRecord>,
    /// Records lost because the ring was full.
    pub overwritten: u64,
    /// The peers of the sessions that are up or opening now.
    pub peers: Vec<TracedPeer>,
}

/// The peer of a session that records name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TracedPeer {
    /// The session as records have it.
    pub session: u16,
    /// The rank of the peer's process.
    pub rank: u32,
    /// The number of its endpoint within that process.
    pub endpoint: u32,
}

impl EndpointTrace {
    pub(super) fn of(tracer: &CallTracer, peers: impl Iterator<Item = Peer>) -> Self {
        let traced = |peer: Peer| TracedPeer {
            session: session_bits(peer.session),
            rank: peer.rank,
            endpoint: peer.endpoint,
        };
        Self {
            records: tracer.records(),
            overwritten: tracer.overwritten(),
            peers: peers.map(traced).collect(),
        }
    }
}
