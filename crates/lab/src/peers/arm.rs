//! What takes its turn in a cell.

use farcall::TransportKind;
use farcall_limit::BandwidthPlan;

use super::{Peer, PeerStatistic};
use crate::bench::RoundTripLimit;

/// What runs in a cell.
pub(super) enum Arm {
    /// With what it is set to beside everything else, each as `name=value`.
    Farcall(TransportKind, &'static [&'static str]),
    Limit(RoundTripLimit),
    Stream(BandwidthPlan),
    Tcp,
    Peer(Peer),
}

impl Arm {
    pub(super) fn name(&self) -> String {
        match self {
            Self::Farcall(transport, _) => transport.name().to_owned(),
            Self::Limit(limit) => limit.words().to_owned(),
            Self::Stream(_) => "bare copies in and out of shared memory".to_owned(),
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
