//! What an endpoint counts, and what it has traced in a form that leaves the process.

use farcall_driver::trace::TraceRecord;
use farcall_transport::trace::{CallTracer, session_bits};

use super::sessions::Peer;

farcall_driver::declare_counters! {
    /// The calls and messages of one endpoint.
    pub struct EndpointCounters {
        calls: "calls" => "Calls that were sent, as of the last turn that found something or read the clock",
        answered: "calls" => "Calls that were answered, whatever the status",
        timed_out: "calls" => "Calls, sends and receives whose deadline passed",
        cancelled: "calls" => "Calls, sends and receives that were cancelled or whose future was dropped",
        late_answers: "answers" => "Answers to calls that had ended before",
        received: "messages" => "Tagged messages that a receive or a handler got",
        requests: "calls" => "Requests that a handler has dealt with, or that were refused",
        not_allowed: "requests" => "Requests that the policy refused, and sessions that it ended for a message",
        sessions: "sessions" => "Opening or up now",
        peers_lost: "sessions" => "Sessions that ended",
        polls: "polls" => "Turns of the poll loop, counted when the clock is read",
        busy_polls: "polls" => "Those that found something, counted when the clock is read",
        in_flight: "calls" => "Calls in flight when the clock was last read",
        sleeps: "times" => "Times that the thread blocked because there was nothing to do",
        incarnation: "number" => "The number of the life that the process has now",
        handler: "service" => "The service whose handler runs now, plus one; 0 while none does",
        stalled_time: "ns" => "How long, until now, no call has been answered although some are in flight; 0 below 100 ms",
        stalled_on: "number" => "The incarnation of the process that the oldest of them waits for now",
        stalled_service: "service" => "The service that it waits for now",
    }
}

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
