//! The transport seam: remote calls, whatever carries them.
//!
//! The seam speaks of calls and not of packets, because a response is the cheapest acknowledgement. It has three
//! parts: an [`Outbox`] takes what goes out, a [`Sink`] is told what came in, and a [`Transport`] is polled. A sink
//! gets the outbox with every event, so that a request can be answered, and new calls made, while the request's
//! bytes are still being read in place.

use core::ops::Deref;
use core::time::Duration;
use std::os::fd::RawFd;
use std::sync::Arc;

use farcall_driver::{Address, AddressError, Block, Loan, LoanError};
use farcall_protocol::{Identity, Instant};

/// A connection to one peer. Numbers are not used again while the transport lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionId(pub u32);

/// The caller's name for one of its calls; comes back with the response. The caller may use a number again as soon
/// as the call has completed or was cancelled *and* the number differs from that of every call still unanswered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallId(pub u32);

/// Which of the peer's handlers a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Service(pub u16);

/// An incoming request that has not been answered yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RequestId {
    /// Where it came from and where the answer goes.
    pub session: SessionId,
    /// The transport's own name for it, unique among the unanswered requests of its session.
    pub token: u64,
}

/// How a request was answered; travels with the response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// The handler answered; the payload is its answer.
    Ok,
    /// Nobody serves that service at the peer.
    UnknownService,
    /// The handler let go of the request without an answer.
    Abandoned,
    /// The handler's answer was longer than the session's limit.
    AnswerTooLong,
    /// The handler refused with a code of its own; the payload may say more.
    Refused(u8),
}

impl Status {
    /// The status as two bytes of a packet.
    pub const fn to_wire(self) -> u16 {
        match self {
            Self::Ok => 0,
            Self::UnknownService => 1,
            Self::Abandoned => 2,
            Self::AnswerTooLong => 3,
            Self::Refused(code) => 0x100 | code as u16,
        }
    }

    /// The status that two bytes of a packet mean; `None` for bytes that no correct peer sends.
    pub const fn from_wire(wire: u16) -> Option<Self> {
        match wire {
            0 => Some(Self::Ok),
            1 => Some(Self::UnknownService),
            2 => Some(Self::Abandoned),
            3 => Some(Self::AnswerTooLong),
            0x100..=0x1ff => Some(Self::Refused(wire as u8)),
            _ => None,
        }
    }
}

/// A payload on its way out.
#[derive(Debug)]
pub enum Outgoing<'a> {
    /// Bytes that are copied before the call returns.
    Slice(&'a [u8]),
    /// Memory of the transport's own driver, sent without a copy where the driver can.
    Loan(Loan),
}

impl Outgoing<'_> {
    /// The payload's length in bytes.
    pub fn len(&self) -> usize {
        self.as_slice().len()
    }

    /// Whether the payload has no bytes at all.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        match self {
            Self::Slice(bytes) => bytes,
            Self::Loan(loan) => loan,
        }
    }
}

/// A payload that arrived, in whatever memory it arrived in.
///
/// It is handed on by reference: on the path of small messages even a copy of these few words would be felt.
#[derive(Debug)]
pub enum Incoming<'a> {
    /// In the driver's memory, valid while the sink looks at it.
    Borrowed(&'a [u8]),
    /// In memory that can be kept.
    Owned(Payload),
}

impl Incoming<'_> {
    /// The bytes.
    #[inline]
    pub fn as_slice(&self) -> &[u8] {
        match self {
            Self::Borrowed(bytes) => bytes,
            Self::Owned(payload) => payload,
        }
    }

    /// The payload in memory that can be kept; copied only if it lies in the driver's.
    pub fn take(&self) -> Payload {
        match self {
            Self::Borrowed(bytes) => Payload::from(bytes.to_vec()),
            Self::Owned(payload) => payload.clone(),
        }
    }
}

/// A received payload in memory that its holders keep; clones share it.
#[derive(Clone, Debug)]
pub enum Payload {
    /// Bytes in this process.
    Bytes(Arc<Vec<u8>>),
    /// The sender's memory; the sender has it back when the last clone is dropped.
    Block(Arc<Block>),
}

impl Deref for Payload {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Block(block) => block,
        }
    }
}

impl From<Vec<u8>> for Payload {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Bytes(Arc::new(bytes))
    }
}

impl From<Block> for Payload {
    fn from(block: Block) -> Self {
        Self::Block(Arc::new(block))
    }
}

/// Why a call was not accepted. Nothing was sent, and nothing will complete.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallRefused {
    /// Longer than the session carries: send less, or in pieces.
    #[error("a message of {bytes} bytes is over the limit of {bytes_max}")]
    TooLong {
        /// The payload's length.
        bytes: usize,
        /// The session's limit.
        bytes_max: usize,
    },
    /// The session has its maximum of unanswered calls: poll until some complete.
    #[error("{calls_max} calls to this peer are unanswered, the limit; complete some first")]
    TooManyCalls {
        /// The session's limit.
        calls_max: usize,
    },
    /// The session is down: connect again.
    #[error("the session to the peer is down")]
    Down,
}

/// Why a session ended, and with it every unanswered call.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DownReason {
    /// Nobody answers at the peer's address.
    #[error("nobody answers at the peer's address")]
    Unreachable,
    /// The peer was silent for longer than the limit, or its process ended.
    #[error("the peer is dead: its process ended or it was silent for longer than the limit")]
    Dead,
    /// The peer started again: this session belonged to its former life.
    #[error("the peer was restarted")]
    Restarted,
    /// The peer said good-bye.
    #[error("the peer closed the session")]
    Closed,
    /// The peer sent what no correct peer sends.
    #[error("the peer broke the protocol: {what}")]
    Violation {
        /// What was wrong.
        what: &'static str,
    },
    /// The peer refused us, or we it: another version, another user, unusable limits.
    #[error("the session was refused: {why}")]
    Refused {
        /// In words.
        why: String,
    },
}

/// Takes what goes out. Nothing here blocks; what finds no room waits in a queue whose length the session's limits
/// bound.
pub trait Outbox {
    /// Sends a request. Exactly one [`Sink::response`] follows, unless it is cancelled or [`Sink::session_down`] comes
    /// first.
    fn call(
        &mut self,
        session: SessionId,
        call: CallId,
        service: Service,
        payload: Outgoing<'_>,
    ) -> Result<(), CallRefused>;

    /// Answers a request. Answers to sessions that are down go nowhere. An answer over the session's limit is
    /// replaced by [`Status::AnswerTooLong`].
    fn reply(&mut self, request: RequestId, status: Status, payload: Outgoing<'_>);

    /// Gives up on a call: its response will not be reported any more.
    fn cancel(&mut self, session: SessionId, call: CallId);

    /// Memory that can be sent without a copy where the driver can do so.
    fn loan(&mut self, bytes: usize) -> Result<Loan, LoanError>;
}

impl<'a> From<&'a [u8]> for Outgoing<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Self::Slice(bytes)
    }
}

impl<'a, const N: usize> From<&'a [u8; N]> for Outgoing<'a> {
    fn from(bytes: &'a [u8; N]) -> Self {
        Self::Slice(bytes)
    }
}

impl<'a> From<&'a Vec<u8>> for Outgoing<'a> {
    fn from(bytes: &'a Vec<u8>) -> Self {
        Self::Slice(bytes)
    }
}

impl From<Loan> for Outgoing<'_> {
    fn from(loan: Loan) -> Self {
        Self::Loan(loan)
    }
}

/// Is told what came in. All methods run inside [`Transport::poll`].
pub trait Sink {
    /// A request came; it runs at most once, and must be answered once, now or later.
    fn request(
        &mut self,
        outbox: &mut dyn Outbox,
        request: RequestId,
        service: Service,
        payload: &Incoming<'_>,
    );

    /// The response to one of our calls came over `session`. The receiver must check that it has such a call there.
    fn response(
        &mut self,
        outbox: &mut dyn Outbox,
        session: SessionId,
        call: CallId,
        status: Status,
        payload: &Incoming<'_>,
    );

    /// A session that we asked for, or that a peer opened, is ready.
    fn session_up(&mut self, outbox: &mut dyn Outbox, session: SessionId, peer: Identity);

    /// A session ended. None of its unanswered calls will get a response; whether their requests ran is unknown.
    fn session_down(&mut self, outbox: &mut dyn Outbox, session: SessionId, reason: &DownReason);
}

/// What a transport can do, before negotiation with a particular peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransportLimits {
    /// The longest request or response, in bytes.
    pub message_bytes_max: usize,
    /// The most unanswered calls of one session, each way.
    pub calls_max: usize,
}

/// Carries calls over one driver. Owned and polled by one thread.
pub trait Transport: Send {
    /// What this transport can do.
    fn limits(&self) -> TransportLimits;

    /// Where other processes reach this transport.
    fn address(&self) -> Address;

    /// Starts a session with the transport at `to`. Calls can be made at once; they wait until it is up.
    fn connect(&mut self, to: &Address, now: Instant) -> Result<SessionId, AddressError>;

    /// Ends a session: the peer is told, and [`Sink::session_down`] follows with [`DownReason::Closed`].
    fn close(&mut self, session: SessionId, now: Instant);

    /// Receives, reports to `sink`, and transmits what the sink and the timers produced. Never blocks.
    ///
    /// Returns how many packets or records were received: 0 means that there was nothing to do.
    fn poll(&mut self, now: Instant, sink: &mut dyn Sink) -> usize;

    /// Hands to the fabric what was sent since the last poll.
    fn flush(&mut self, now: Instant);

    /// The sending half, as handlers see it.
    fn outbox(&mut self) -> &mut dyn Outbox;

    /// How many polls may be given the same reading of the clock. A transport without timers of its own needs none
    /// that is fresh.
    fn polls_per_clock_reading(&self) -> u32 {
        1
    }

    /// When `poll` must run next even if nothing arrives.
    fn next_deadline(&self) -> Option<Instant>;

    /// Announces that the caller is going to block on the `wait_descriptors`; it must poll once more before it does.
    fn prepare_wait(&mut self);

    /// Ends what `prepare_wait` announced.
    fn finish_wait(&mut self);

    /// File descriptors that become readable when `poll` would find something, for callers that block.
    fn wait_descriptors(&self) -> Vec<RawFd>;
}

/// The silence after which a peer counts as dead unless configured otherwise.
pub const PEER_TIMEOUT_DEFAULT: Duration = Duration::from_secs(1);
