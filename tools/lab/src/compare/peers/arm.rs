//! What takes its turn in a cell.

use farcall::TransportKind;
use farcall_limit::{
    BandwidthPlan, Copies, RING_PAYLOADS_BYTES, RingVariant, best_bandwidth_plan, best_ring_variant,
};

use super::{Peer, PeerStatistic};
use crate::run::bench::{Bench, BenchError, RoundTripLimit};

/// What runs in a cell.
pub(super) enum Arm {
    /// With what it is set to beside everything else, each as `name=value`.
    Farcall(TransportKind, &'static [&'static str]),
    Limit(RoundTripLimit),
    Stream(BandwidthPlan),
    ShortStream(RingVariant),
    Tcp,
    Peer(Peer),
}

impl Arm {
    /// The bare loop beside a stream of messages of a length: rings of words for what is short, copies for
    /// what is long, and between the lengths that a ring has nothing.
    pub(super) fn bare_stream(bench: &Bench, bytes: usize) -> Result<Option<Self>, BenchError> {
        const LONGEST_IN_RING: usize = RING_PAYLOADS_BYTES[RING_PAYLOADS_BYTES.len() - 1];
        Ok(if RING_PAYLOADS_BYTES.contains(&bytes) {
            Some(Self::ShortStream(best_ring_variant(bench.cores()?, bytes)?))
        } else if bytes > LONGEST_IN_RING {
            Some(Self::Stream(best_bandwidth_plan(bench.cores()?, bytes, Copies::Two)?))
        } else {
            None
        })
    }

    pub(super) fn name(&self) -> String {
        match self {
            Self::Farcall(transport, _) => transport.name().to_owned(),
            Self::Limit(limit) => limit.words().to_owned(),
            Self::Stream(_) => "bare copies in and out of shared memory".to_owned(),
            Self::ShortStream(_) => "bare ring of short messages in shared memory".to_owned(),
            Self::Tcp => "bare system calls on a TCP connection".to_owned(),
            Self::Peer(peer) => peer.name.to_owned(),
        }
    }

    /// `None` for our own loops, whose medians are compared with medians.
    pub(super) fn statistic(&self) -> Option<PeerStatistic> {
        match self {
            Self::Peer(peer) => Some(peer.statistic),
            _ => None,
        }
    }
}
