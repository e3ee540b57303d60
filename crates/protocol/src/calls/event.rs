//! What goes into and comes out of the protocols, packets apart.

use core::ops::Range;

use crate::session::{PeerAddress, SessionId};
use crate::wire::CallKey;

/// A payload to send.
#[derive(Debug)]
pub enum Payload<'a, B> {
    /// Bytes that are copied at once.
    Slice(&'a [u8]),
    /// Memory that is kept, and sent without a copy, until the peer has it.
    Owned(B),
}

impl<B: AsRef<[u8]>> Payload<'_, B> {
    pub(super) fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Slice(bytes) => bytes,
            Self::Owned(memory) => memory.as_ref(),
        }
    }
}

/// A message that arrived in full.
#[derive(Debug, PartialEq, Eq)]
pub enum Delivery {
    /// A peer called. Runs at most once; answer it with [`Calls::reply`](super::Calls::reply).
    Request {
        /// Where it came from.
        session: SessionId,
        /// Names it in the reply.
        request: CallKey,
        /// Which handler it is for.
        service: u16,
        /// Its bytes.
        payload: Received,
    },
    /// A call of ours was answered.
    Response {
        /// Where it came from.
        session: SessionId,
        /// The number given to [`Calls::call`](super::Calls::call).
        call: u32,
        /// How it was answered.
        status: u16,
        /// Its bytes.
        payload: Received,
    },
}

impl Delivery {
    /// The same with its bytes elsewhere.
    pub(super) fn map_payload(self, change: impl FnOnce(Received) -> Received) -> Self {
        match self {
            Self::Request { session, request, service, payload } => {
                Self::Request { session, request, service, payload: change(payload) }
            }
            Self::Response { session, call, status, payload } => {
                Self::Response { session, call, status, payload: change(payload) }
            }
        }
    }
}

/// Where the bytes of a message are.
#[derive(Debug, PartialEq, Eq)]
pub enum Received {
    /// In the packet that was handled.
    InPlace(Range<usize>),
    /// Put together from several packets.
    Assembled(Vec<u8>),
}

/// A packet to send: head and payload, to be gathered.
#[derive(Debug)]
pub struct Transmit<'a> {
    /// Where to.
    pub to: PeerAddress,
    /// At which priority, 0 to 7; a higher one overtakes.
    pub priority: u8,
    /// The packet's first part.
    pub head: &'a [u8],
    /// The packet's second part, often empty.
    pub payload: &'a [u8],
    /// The index of the session whose message this is a part of; `None` for packets that carry none.
    pub session: Option<u16>,
    /// Whether it is a piece of a long message.
    pub is_piece: bool,
}

/// Why a call was not accepted. Nothing was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// Send less, or in pieces.
    #[error("a message of {bytes} bytes is over the limit of {bytes_max}")]
    TooLong {
        /// The payload's length.
        bytes: usize,
        /// The session's limit.
        bytes_max: usize,
    },
    /// Let some calls complete first.
    #[error("{calls_max} calls to this peer are unanswered, the limit")]
    TooMany {
        /// The session's limit.
        calls_max: usize,
    },
    /// Connect again.
    #[error("the session to the peer is down")]
    Down,
}

/// A reply was not sent, because it is over the session's limit: send another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an answer of {bytes} bytes is over the limit of {bytes_max}")]
pub struct ReplyTooLong {
    /// The payload's length.
    pub bytes: usize,
    /// The session's limit.
    pub bytes_max: usize,
}

/// What happened to messages so far. All but the first stay where they are while nothing is lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Calls made here.
    pub calls: u64,
    /// Packets that no correct peer sends.
    pub malformed: u64,
    /// Packets that came twice, or too late to matter.
    pub stale: u64,
    /// Packets with bytes that were sent before.
    pub retransmissions: u64,
    /// Messages that waited in silence until they were asked for.
    pub silences: u64,
    /// How long they waited, all together, in nanoseconds.
    pub silence_nanos: u64,
    /// Asked for bytes once more.
    pub resends_sent: u64,
    /// Asked for requests from the start.
    pub restarts_sent: u64,
    /// Said to be alive but not there yet.
    pub busy_sent: u64,
    /// Permitted bytes of long messages.
    pub grants_sent: u64,
    /// Acknowledged results by packets of their own.
    pub acknowledges_sent: u64,
    /// Asked whether callers are done with results.
    pub acknowledges_asked: u64,
    /// Told peers which priorities messages should have.
    pub cutoffs_sent: u64,
    /// Long messages that had to wait because their peer made us hold too much.
    pub assembly_full: u64,
    /// Requests of one packet that had to come again for that reason.
    pub requests_refused: u64,
    /// Requests of which the rest did not come.
    pub requests_abandoned: u64,
    /// Results that their callers neither acknowledged nor asked for.
    pub results_abandoned: u64,
    /// Ticks so far.
    pub ticks: u64,
    /// Slots that were looked at in them.
    pub slots_ticked: u64,
}
