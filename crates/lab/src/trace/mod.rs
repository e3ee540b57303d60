//! Traces of calls: what each endpoint recorded, joined to calls, and what the calls' parts say.
//!
//! Real endpoints are on one machine, whose processes share a cycle counter; simulated ones share the simulation's clock.
//! In both cases times of two ends compare as they are.

mod join;
mod occupancy;
mod perfetto;
mod summary;

use farcall::EndpointTrace;
use serde::{Deserialize, Serialize};

pub use join::{Joined, POINTS, Point, TracedCall, join};
pub use occupancy::{Occupancy, Standstill, occupancy};
pub use perfetto::perfetto;
pub use summary::{PART_WORDS, PARTS, Part, TraceSummary, summary};

/// What the endpoint of one rank recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostTrace {
    /// The rank.
    pub rank: u32,
    /// Records that were lost because the ring was full.
    pub overwritten: u64,
    /// Which rank each session leads to.
    pub peers: Vec<(u16, u32)>,
    /// Ticks, operation, event and session of each record, the oldest first.
    pub records: Vec<(u64, u32, u16, u16)>,
}

impl HostTrace {
    /// The trace of the endpoint of `rank`.
    pub fn new(rank: u32, trace: &EndpointTrace) -> Self {
        let record = |record: &farcall::TraceRecord| {
            (record.time.as_nanos(), record.operation, record.event, record.detail)
        };
        Self {
            rank,
            overwritten: trace.overwritten,
            peers: trace.peers.iter().map(|peer| (peer.session, peer.rank)).collect(),
            records: trace.records.iter().map(record).collect(),
        }
    }
}
