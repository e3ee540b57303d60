//! What this machine can do at best: bare loops that move the same bytes as farcall with nothing around them.
//!
//! A latency or a rate means little by itself, least of all on a virtual machine whose cores move. Beside the
//! limit of the same minute it says how much of the possible is reached. Each function here measures one
//! limit between two given cores and returns figures; none prints.
//!
//! The two sides are threads of one process, each pinned to its core. Threads share the coherence fabric
//! exactly as processes do: a cache line travels between cores, whatever address spaces map it. Memory is
//! mapped shared, as two processes would have to map it. The loops over other libraries ([`raw`]) are those
//! libraries' own limits, and run in two processes.

mod bandwidth;
mod blocks;
mod copying;
mod cores;
mod crowding;
mod distance;
mod error;
mod fan_out;
mod indexing;
mod latency;
mod median;
mod memory;
mod message;
mod pair;
mod pipe;
pub mod raw;
mod reading;
mod ring;
mod slots;
mod tcp;
mod udp;

pub use bandwidth::{Bandwidth, BandwidthPlan, Copies, best_bandwidth_plan, stream};
pub use blocks::append_flushed;
pub use cores::{Core, CorePair, CoresError, allowed_cores, pin_to};
pub use crowding::{Crowding, crowding};
pub use distance::{CoreDistance, DistanceProbe, core_distance};
pub use error::LimitError;
pub use fan_out::fan_out;
pub use indexing::{Indexed, read_and_index};
pub use latency::{Effort, Latency, P99_SAMPLES_MIN, SAMPLES_MAX};
pub use median::median_between_steps;
pub use message::{MessagePlan, best_message_plan, ping_pong};
pub use pipe::Writes;
pub use reading::read_every_word;
pub use ring::{RING_PAYLOADS_BYTES, RingRate, RingVariant, best_ring_variant, ring_rate};
pub use slots::slot_rate;
pub use tcp::{TCP_MESSAGE_BYTES_MAX, tcp_ping_pong, tcp_stream};
pub use udp::{DATAGRAM_BYTES_MAX, UDP_RESPONSE_BYTES_MAX, UdpCalls, UdpPlan, best_udp_plan, udp_ping_pong};
