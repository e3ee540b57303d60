//! Tagged messages: out through the peer's window, in through the matching.

mod receiving;
mod sending;

use farcall_protocol::matching::Overrun;
use farcall_protocol::ring::Violation;

use crate::DownReason;

/// The peer's count is not ours.
pub fn overrun(_: Overrun) -> DownReason {
    Violation("more messages, or more credit for them, than there can be").into()
}
