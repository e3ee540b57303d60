//! What a poll reports to whoever asked for events.

use farcall_transport::{DownReason, Kept};

use super::messages::{KeptMessage, ReceiveError, ReceiveOutcome, SendError};
use super::outcome::{CallError, Outcome};
use super::sessions::Peer;

/// Something that happened during a poll.
#[derive(Debug)]
pub enum Event<'a> {
    /// A call that was posted with this token is complete.
    Completed {
        /// The token given to `post`.
        token: u64,
        /// Its end; the answer is read in place, and taken from there if it must outlive the event.
        outcome: &'a Outcome<'a>,
    },
    /// A send that was posted with this token has ended.
    Sent {
        /// The token given to `post`.
        token: u64,
        /// Its end.
        outcome: Result<(), SendError>,
    },
    /// A receive that was posted with this token has ended.
    Received {
        /// The token given to `post`.
        token: u64,
        /// Its end; the message is read in place, and taken from there if it must outlive the event.
        outcome: &'a ReceiveOutcome<'a>,
    },
    /// A session ended. Its calls have been completed with the same reason.
    PeerDown {
        /// The peer.
        peer: Peer,
        /// Why.
        reason: DownReason,
    },
}

/// An event that waits for somebody to ask for it.
pub enum StoredEvent {
    Completed { token: u64, outcome: Result<Kept, CallError> },
    Sent { token: u64, outcome: Result<(), SendError> },
    Received { token: u64, outcome: Result<KeptMessage, ReceiveError> },
    PeerDown { peer: Peer, reason: DownReason },
}
