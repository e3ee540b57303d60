//! Traces of calls and of tagged messages: what each endpoint recorded, joined, and what the parts say.
//!
//! Real endpoints are on one machine, whose processes share a cycle counter; simulated ones share the
//! simulation's clock. In both cases times of two ends compare as they are.

mod join;
mod messages;
mod occupancy;
mod otlp;
mod perfetto;
mod summary;

use farcall::{Clock, Endpoint, EndpointTrace};
use serde::{Deserialize, Serialize};

pub use join::{Joined, POINTS, Point, TracedCall, join};
pub use messages::{
    JoinedMessages, MESSAGE_PART_WORDS, MESSAGE_PARTS, MESSAGE_POINTS, MessagePoint, MessageSummary,
    TracedMessage, TracedMessages, join_messages,
};
pub use occupancy::{Occupancy, Standstill, occupancy};
pub use otlp::otlp;
pub use perfetto::{perfetto, perfetto_of_messages};
pub use summary::{PART_WORDS, PARTS, Part, TraceSummary, summary};

/// The calls of a measurement: none unless it was traced.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Traced {
    /// The calls.
    pub joined: Joined,
    /// What their parts took; `None` when no call has all its points.
    pub summary: Option<TraceSummary>,
    /// Whether the times are those of a simulation.
    pub is_simulated: bool,
}

impl Traced {
    /// The calls of some launches, each with what all its endpoints recorded. `clock` reads their ticks.
    pub fn of<'a>(launches: impl IntoIterator<Item = &'a [HostTrace]>, clock: &Clock) -> Self {
        let mut joined = Joined::default();
        launches.into_iter().for_each(|traces| joined.extend(join(traces, clock)));
        Self { summary: summary(&joined), joined, is_simulated: clock.is_simulated() }
    }

    /// As [`Traced::of`], of endpoints on this machine.
    pub fn on_machine<'a>(launches: impl IntoIterator<Item = &'a [HostTrace]>) -> Self {
        Self::of(launches, &Clock::new())
    }

    /// As [`Traced::of`], of simulated endpoints: their ticks are nanoseconds of simulated time.
    pub fn simulated<'a>(launches: impl IntoIterator<Item = &'a [HostTrace]>) -> Self {
        Self::of(launches, &Clock::simulated(Default::default()))
    }
}

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
    /// Ends the recording of a rank's endpoint; `None` when nothing was recorded. Sessions that are over by
    /// now have lost their names, and their calls cannot be joined: end recordings before peers leave.
    pub fn end(rank: u32, endpoint: &Endpoint) -> Option<Self> {
        let tracer = endpoint.tracer();
        tracer.is_on().then(|| {
            tracer.switch(false);
            Self::new(rank, &endpoint.trace())
        })
    }

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
