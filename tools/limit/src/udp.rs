//! The shortest time in which a datagram can be answered over the loopback interface.
//!
//! Two nonblocking sockets, one thread each, spinning on the receive call: what is left is the kernel's own
//! path. A response longer than a datagram leaves as a train of segments. So that the train does not overrun
//! the receiver, the initiator tells its progress every few segments, and the responder keeps no more than a
//! window in flight.

mod exchange;
mod socket;
mod train;

use core::time::Duration;

use crate::pair::run_pair;
use crate::{CorePair, Effort, Latency, LimitError};
use exchange::Exchange;
use socket::Socket;

pub use socket::DATAGRAM_BYTES_MAX;

/// The longest response, in bytes.
pub const UDP_RESPONSE_BYTES_MAX: usize = 1 << 26;

/// How long each plan is tried before one is chosen.
const TRIAL: Effort = Effort { warmup: Duration::from_millis(2), measure: Duration::from_millis(10) };

/// Which system calls carry the datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UdpCalls {
    /// `send` and `recv`: one datagram a call.
    Single,
    /// `sendmmsg` and `recvmmsg`: a burst of datagrams a call.
    Many,
    /// `send` and `recv` of up to 64 segments at a time, cut and joined by the kernel (UDP GSO and GRO).
    Offloaded,
}

impl UdpCalls {
    /// All that are worth measuring.
    pub const ALL: [Self; 3] = [Self::Single, Self::Many, Self::Offloaded];
}

/// One way to exchange a request and a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdpPlan {
    /// Length of the request; it fits a segment.
    pub request_bytes: usize,
    /// Length of the response.
    pub response_bytes: usize,
    /// The longest datagram, in bytes of payload.
    pub segment_bytes: usize,
    /// How datagrams are passed to and taken from the kernel.
    pub calls: UdpCalls,
}

/// The fastest calls for messages of these lengths in datagrams of at most `segment_bytes`, found by short
/// trials.
pub fn best_udp_plan(
    cores: CorePair,
    request_bytes: usize,
    response_bytes: usize,
    segment_bytes: usize,
) -> Result<UdpPlan, LimitError> {
    let plan = |calls| UdpPlan { request_bytes, response_bytes, segment_bytes, calls };
    let mut best = (f64::INFINITY, plan(UdpCalls::Single));
    for plan in UdpCalls::ALL.map(plan) {
        let nanos = udp_ping_pong(cores, plan, TRIAL)?.trimmed_mean_nanos;
        if nanos < best.0 {
            best = (nanos, plan);
        }
    }
    Ok(best.1)
}

/// Measures the round trip of a request and its response over two sockets of the loopback interface.
pub fn udp_ping_pong(cores: CorePair, plan: UdpPlan, effort: Effort) -> Result<Latency, LimitError> {
    LimitError::check_size("a segment", plan.segment_bytes, 1..=DATAGRAM_BYTES_MAX)?;
    LimitError::check_size("a request", plan.request_bytes, 1..=plan.segment_bytes)?;
    LimitError::check_size("a response", plan.response_bytes, 1..=UDP_RESPONSE_BYTES_MAX)?;
    let (here, there) = Socket::pair()?;
    if plan.calls == UdpCalls::Offloaded {
        here.join_segments()?;
        there.cut_into(plan.segment_bytes)?;
    }
    let exchange = Exchange::new(plan, &here)?;
    let (latency, served) =
        run_pair(cores, || exchange.initiate(&here, effort), || exchange.respond(&there))?;
    served?;
    latency
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Effort = Effort { warmup: Duration::ZERO, measure: Duration::from_millis(2) };

    #[test]
    fn responses_of_any_length_arrive_by_all_calls() {
        let cores = CorePair::first_allowed().expect("the tests have two cores");
        for response_bytes in [8, 1472, 1473, 10_240, 102_400, 1 << 20] {
            for segment_bytes in [1472, DATAGRAM_BYTES_MAX] {
                for calls in UdpCalls::ALL {
                    let plan = UdpPlan { request_bytes: 30, response_bytes, segment_bytes, calls };
                    let latency =
                        udp_ping_pong(cores, plan, SHORT).unwrap_or_else(|e| panic!("{plan:?}: {e}"));
                    assert!(latency.samples >= 1 && latency.min_nanos > 0);
                }
            }
        }
    }

    #[test]
    fn a_request_longer_than_a_segment_is_refused() {
        let cores = CorePair::first_allowed().expect("the tests have two cores");
        let plan =
            UdpPlan { request_bytes: 101, response_bytes: 8, segment_bytes: 100, calls: UdpCalls::Single };
        assert!(matches!(udp_ping_pong(cores, plan, SHORT), Err(LimitError::Size { what: "a request", .. })));
    }
}
