//! The `ofi` transport: calls and tagged messages over libfabric's reliable tagged endpoints.
//!
//! libfabric reaches InfiniBand, Omni-Path, Slingshot, EFA and TCP through *providers*; `ofi.provider` names
//! one, and without it libfabric's own order decides. What farcall adds (sessions, limits, deadlines, signs
//! of life) is the `library` transport of `farcall-transport`; this crate makes a
//! [`Library`](farcall_transport::Library) of libfabric.
//!
//! - What is short travels whole, in one tagged message that some waiting buffer of the receiver takes: all
//!   have one tag. A receiver of libfabric must say beforehand where a message is to go, and cannot know how
//!   long it will be; so a long payload is announced by a short message and follows with a tag of its own,
//!   for which the receiver then posts memory of the right length. The provider moves it as it thinks best,
//!   by rendezvous or in parts.
//! - Tagged messages of farcall's users are matched by the layer above, which sends many short ones as one
//!   message.
//! - Nothing is looked for: the completion of an operation leads back to its number through its context. What
//!   a provider has no room for waits in a queue of its destination; only destinations with such queues are
//!   tried again.
//! - An endpoint has a domain and a queue of completions of its own, used by one thread at a time.
//! - A destination is reported lost when an operation towards it fails. Many providers notice nothing of a
//!   dead peer, shared memory among them; then its silence is noticed by the layer above. What was in flight
//!   to it keeps its memory until the endpoint ends, because libfabric has no way to give up a send.
//! - What waits when a session ends still leaves, unless its destination is lost or silent. What is on its
//!   way from there is still fetched, because its sender could not give it up either.
//!
//! `docs/ofi.md` has the user's view.

mod arrival;
mod endpoint;
mod frame;
mod fuzz;
mod library;
mod outgoing;
mod peer;
mod peers;
mod receives;
mod sends;
#[cfg(test)]
mod tests;
mod waking;

pub use crate::libfabric::OfiError;
pub use endpoint::{Ofi, OfiConfig};
pub use fuzz::fuzz_frame;
pub use library::presence;

/// What an operation is, as its context says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Token {
    Send(u32),
    Frame(u32),
    Payload(u32),
}

impl Token {
    pub const fn to_word(self) -> u64 {
        let (kind, number) = match self {
            Self::Send(number) => (0, number),
            Self::Frame(number) => (1, number),
            Self::Payload(number) => (2, number),
        };
        kind << 32 | number as u64
    }

    #[inline]
    pub const fn from_word(word: u64) -> Self {
        let number = word as u32;
        match word >> 32 {
            0 => Self::Send(number),
            1 => Self::Frame(number),
            _ => Self::Payload(number),
        }
    }
}
