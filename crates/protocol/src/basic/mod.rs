//! The basic protocol: every long message is granted as it arrives, and all packets of messages are alike.
//!
//! A message starts with a round trip's worth of bytes; its receiver then grants so that as many stay in
//! flight. Of several long messages a sender prefers the one with the fewest bytes to go. The rest is
//! [`crate::calls`].

mod config;

use crate::calls::{Assembly, Calls, Cut, Policy, SlotRef, Window};
use crate::session::ConfigError;
use crate::wire::Protocol;
use farcall_base::{Entropy, Identity};

pub use crate::calls::{
    CallError, Counters, Delivery, Payload, RECYCLED_BUFFER_BYTES_MAX, Received, ReplyTooLong, Transmit,
};
pub use config::BasicConfig;

/// A grant goes this many pieces ahead, so that not every piece needs one of its own.
const GRANT_AHEAD_PIECES: u32 = 5;

/// The calls of one endpoint by the basic protocol.
pub type Basic<B> = Calls<B, BasicPolicy>;

/// Grants to everybody, at once.
#[derive(Clone, Copy, Debug, Default)]
pub struct BasicPolicy;

impl Policy for BasicPolicy {
    const PROTOCOL: Protocol = Protocol::Basic;

    type Peer = ();

    /// Raises what the sender may send, so that a round trip of bytes stays in flight.
    fn arrived(
        &mut self,
        slot: SlotRef,
        (): &(),
        message: &mut Assembly,
        cut: &Cut,
        window: &mut Window,
    ) -> bool {
        let granted = message.granted();
        let least = window.least_bytes(cut.unscheduled_bytes).max(cut.fragment_bytes);
        let ahead = (GRANT_AHEAD_PIECES * cut.fragment_bytes).min(least);
        let in_flight = window.share_bytes().saturating_sub(ahead).max(least);
        if message.received().saturating_add(in_flight).min(message.total()) <= granted {
            return false;
        }
        let upto = |in_flight: u32| message.received().saturating_add(in_flight).saturating_add(ahead);
        let (wanted, unpaced) = (upto(in_flight).min(message.total()), upto(least));
        let upto = if wanted <= unpaced {
            wanted
        } else {
            let more = (wanted - granted).min(window.room_bytes());
            if more == 0 { unpaced } else { unpaced.max(granted + window.take(slot, more)) }
        };
        message.grant(upto, 0);
        upto > granted
    }
}

impl<B: AsRef<[u8]>> Calls<B, BasicPolicy> {
    /// An endpoint without sessions. What peers must not foretell comes from `entropy`.
    pub fn new(config: BasicConfig, identity: Identity, entropy: Entropy) -> Result<Self, ConfigError> {
        Self::with_policy(BasicPolicy, config.session, config.resend_interval, identity, entropy)
    }
}

/// Reads `bytes` as packets about sessions: raw, or with a checksum put right.
#[doc(hidden)]
pub fn fuzz_session(bytes: &[u8]) {
    crate::calls::fuzz_sessions(bytes, BasicPolicy::default);
}

/// Reads `bytes` as packets of any kind within the abused session.
#[doc(hidden)]
pub fn fuzz_basic(bytes: &[u8]) {
    crate::calls::fuzz_messages(bytes, BasicPolicy::default);
}
