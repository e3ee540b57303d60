//! The transport seam: remote calls and tagged messages, whatever carries them.
//!
//! The seam speaks of calls and not of packets, because a response is the cheapest acknowledgement. It has
//! three parts: an [`Outbox`] takes what goes out, a [`Sink`] is told what came in, and a [`Transport`] is an
//! outbox that is polled. A sink gets the outbox with every event, so that a request can be answered, and new
//! calls made, while the request's bytes are still being read in place.
//!
//! Requests, responses and messages have one way each, out and in, and what comes in comes in batches:
//! whoever takes a batch looks up what its parts have in common once. No method has a default body, so that a
//! decorator that forgets one does not compile.
//!
//! Messages are matched with receives *below* this seam: a library that matches by itself, perhaps in
//! hardware, is given the receives. Transports of our own have a
//! [`Matching`](farcall_protocol::matching::Matching).

use core::time::Duration;

use farcall_base::{Address, AddressError};
use farcall_base::{Identity, Instant, Principal};
use farcall_driver::{Loan, LoanError, Wait};
use farcall_protocol::matching::Tag;

use crate::trace::CallTracer;
use crate::{
    Arrived, DownReason, MatchedBatch, MessageBatch, MessageId, Origin, Owned, Posted, RequestBatch,
    ResponseBatch, SendOutcome, Status, Submitted,
};

/// A connection to one peer. Numbers are not used again while the transport lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionId(pub u32);

/// The caller's name for one of its calls; comes back with the response. The caller may use a number again as
/// soon as the call has completed or was cancelled *and* the number differs from that of every call still
/// unanswered.
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

/// A request, a response or a message, without its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Submission {
    /// As [`Outbox::call`].
    Call {
        /// Where it goes.
        session: SessionId,
        /// Its name.
        call: CallId,
        /// Whom it is for.
        service: Service,
    },
    /// As [`Outbox::reply`].
    Reply {
        /// What is answered.
        request: RequestId,
        /// How.
        status: Status,
    },
    /// As [`Outbox::send`].
    Message {
        /// Where it goes.
        session: SessionId,
        /// Its name.
        send: MessageId,
        /// Its tag.
        tag: Tag,
    },
}

/// Takes what goes out. Nothing here blocks; what finds no room waits in a queue whose length the session's
/// limits bound.
///
/// There is one way for each verb. Its arguments and results travel in registers, which a small message
/// feels; a payload that is memory, and not bytes to be copied, is submitted by [`Outbox::submit_owned`].
pub trait Outbox {
    /// Sends a request. Unless it is refused, exactly one response follows ([`Sink::responses`]), except when
    /// it is cancelled or [`Sink::session_down`] comes first.
    fn call(&mut self, session: SessionId, call: CallId, service: Service, payload: &[u8]) -> Submitted;

    /// Answers a request. Answers to sessions that are down go nowhere. An answer over the session's limit is
    /// replaced by [`Status::without_payload`].
    fn reply(&mut self, request: RequestId, status: Status, payload: &[u8]);

    /// Sends a message. What finds no room, at the peer either, waits here. Messages with the same tag are
    /// received in the order in which they were sent. One name may stand for several sends, such as those to
    /// several peers.
    fn send(&mut self, session: SessionId, send: MessageId, tag: Tag, payload: &[u8]) -> Submitted;

    /// As [`Outbox::call`], [`Outbox::reply`] or [`Outbox::send`], with a payload that is given away. An
    /// answer is never refused.
    fn submit_owned(&mut self, submission: Submission, payload: Owned) -> Submitted;

    /// Gives up on a call: its response will not be reported any more.
    fn cancel(&mut self, session: SessionId, call: CallId);

    /// Whether the driver has all of a call's request: nothing of it waits for room, for permission of the
    /// peer or for a session. Also true of calls that are over.
    fn is_transmitted(&self, session: SessionId, call: CallId) -> bool;

    /// Takes back a send that is queued: true if nothing of it has left. Otherwise it goes on, and its end is
    /// reported. One name may stand for several sends; all that can be are taken back, and the number of
    /// those is returned.
    fn cancel_send(&mut self, send: MessageId) -> usize;

    /// Posts a receive: asks for the oldest message, or else the next, that comes `from` there and has that
    /// `tag`; `None` is any. Of several receives that ask for the same message the oldest gets it.
    ///
    /// A message that is here already is given to `deliver` before this returns, and the receive does not
    /// wait: one of the unexpected queue, or, if it has at most `in_place_bytes_max` bytes, one that was
    /// deferred and is next. The outbox can be used meanwhile. `deliver` does not panic.
    fn post(
        &mut self,
        receive: MessageId,
        from: Option<Origin>,
        tag: Option<Tag>,
        in_place_bytes_max: usize,
        deliver: &mut Deliver<'_>,
    ) -> Posted;

    /// Takes back a receive. False when it is not waiting; then its end was or will be reported.
    fn cancel_receive(&mut self, receive: MessageId) -> bool;

    /// Whether messages that no receive waits for go to [`Sink::messages`] from now on, those that wait
    /// already too. Otherwise, as in the beginning, they wait for a receive.
    fn hand_on_unexpected(&mut self, hand_on: bool);

    /// Whether the peer of a session that is up may send messages, as it may in the beginning: otherwise the
    /// session ends with the first, by [`DownReason::NotAllowed`].
    fn let_send(&mut self, session: SessionId, may_send: bool);

    /// Memory that can be sent without a copy where the driver can do so. What is in it is left over from
    /// earlier loans.
    fn loan(&mut self, bytes: usize) -> Result<Loan, LoanError>;
}

/// Gets the message of a receive that was posted when the message was here already: its session, its tag, its
/// bytes.
pub type Deliver<'a> = dyn FnMut(&mut dyn Outbox, SessionId, Tag, Arrived<'_>) + 'a;

/// Is told what came in, in batches; a single request, response or message is a batch of one. All methods run
/// inside [`Transport::poll`].
///
/// What a sink leaves of a batch of several comes again, in another one. What it leaves of a batch of one is
/// dropped.
pub trait Sink {
    /// Requests of one session for one service came. Each runs at most once, and must be answered once, now
    /// or later; all of them are counted as unanswered already.
    fn requests(&mut self, outbox: &mut dyn Outbox, requests: &mut RequestBatch<'_>);

    /// Responses to our calls came over one session. The receiver must check that it has such calls there.
    fn responses(&mut self, outbox: &mut dyn Outbox, responses: &mut ResponseBatch<'_, '_>);

    /// Receives that were posted have their messages. The batch is matched while it is taken, so that it has
    /// the outbox.
    fn received(&mut self, messages: &mut MatchedBatch<'_, '_>);

    /// Messages came that no receive waits for. Only after [`Outbox::hand_on_unexpected`]. A sink that posts
    /// a receive leaves the rest, because the next message may be what it has asked for.
    fn messages(&mut self, outbox: &mut dyn Outbox, messages: &mut MessageBatch<'_>);

    /// A send that was queued has ended: the peer's memory has it, or the session is down.
    fn sent(&mut self, outbox: &mut dyn Outbox, send: MessageId, outcome: SendOutcome);

    /// A session that we asked for, or that a peer opened, is ready; or one that was up goes on over another
    /// way. `peer` is what the peer says of itself, and `principal` who it is as far as the transport proves
    /// it, over this way. Comes before anything of the peer's; sends that waited for the session may have
    /// ended before.
    fn session_up(
        &mut self,
        outbox: &mut dyn Outbox,
        session: SessionId,
        peer: Identity,
        principal: &Principal,
    );

    /// A session ended. None of its unanswered calls will get a response; whether their requests ran is
    /// unknown.
    fn session_down(&mut self, outbox: &mut dyn Outbox, session: SessionId, reason: &DownReason);

    /// The way of a session that is up broke, and the session is about to go on over another one, under the
    /// same number. None of its unanswered calls will get a response, and whether their requests ran is
    /// unknown; the ends of sends are reported. [`Sink::session_up`] follows, or [`Sink::session_down`] if no
    /// other way leads to the peer. Only of transports that have several ways.
    fn session_moved(&mut self, outbox: &mut dyn Outbox, session: SessionId);
}

/// The way that a session takes, where there are several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken {
    /// The transport's name.
    pub way: &'static str,
    /// The others: those that this process does not have, then those that were passed over, then the rest.
    pub not_taken: Vec<NotTaken>,
}

/// A way that a session does not take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotTaken {
    /// The transport's name.
    pub way: &'static str,
    /// The reason, for people.
    pub why: String,
}

/// What a transport can do, before negotiation with a particular peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransportLimits {
    /// The longest request or response, in bytes.
    pub message_bytes_max: usize,
    /// The most unanswered calls of one session, each way.
    pub calls_max: usize,
    /// How many polls that find something may be given the same reading of the clock; of those that find
    /// nothing it may be a few times as many, where it is not one. A transport without timers of its own
    /// needs none that is fresh.
    pub polls_per_clock_reading: u32,
}

/// What a transport keeps beside its sessions. All of it is zero once nothing is in flight and the peers know
/// so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Holdings {
    /// Calls that have no response, or whose response the peer may still keep.
    pub calls: usize,
    /// Requests that arrive, run, or are answered and not acknowledged yet.
    pub requests: usize,
    /// Messages that wait for room.
    pub backlog: usize,
    /// Blocks of peers that are read here, or whose return they have not been notified of.
    pub blocks: usize,
}

/// Carries calls over one driver: an outbox that is polled. Owned by one thread.
pub trait Transport: Outbox + Wait + Send {
    /// What this transport can do. Always the same.
    fn limits(&self) -> TransportLimits;

    /// What it keeps at this moment. Walks all sessions: for tests and for people, not for the path of
    /// messages.
    fn holdings(&self) -> Holdings;

    /// Where other processes reach this transport.
    fn address(&self) -> Address;

    /// Starts a session with the transport at `to`. Calls can be made at once; they wait until it is up.
    ///
    /// `name` is what the peer was looked for under, if under one: where peers prove who they are and one is
    /// known by that name, no other one is taken for it.
    fn connect(&mut self, to: &Address, name: Option<&str>, now: Instant) -> Result<SessionId, AddressError>;

    /// Whether what a session that is up carries comes from `to`, as far as the fabric can tell: where it
    /// cannot, it is true. Not for the path of messages.
    fn comes_from(&mut self, session: SessionId, to: &Address) -> bool;

    /// Which way a session takes; `None` where there is only one, or no such session. For people.
    fn taken_way(&self, session: SessionId) -> Option<Taken>;

    /// Ends a session: the peer is told, and [`Sink::session_down`] follows with [`DownReason::Closed`].
    fn close(&mut self, session: SessionId, now: Instant);

    /// Transmits what was queued, receives, reports to `sink`, and transmits what the sink and the timers
    /// produced. Never blocks.
    ///
    /// Returns how many packets and records were received and how many kept messages were handed on. What
    /// else the sink is told of, it may count itself.
    fn poll(&mut self, now: Instant, sink: &mut dyn Sink) -> usize;

    /// Transmits what was queued now, for those who want to know what that takes; says whether there was
    /// anything. A poll does the same, and transports that only transmit in polls do nothing here and say so.
    fn flush(&mut self) -> bool;

    /// From now on the transport marks its points of a call there.
    fn trace_to(&mut self, tracer: CallTracer);

    /// When `poll` must run next even if nothing arrives.
    fn next_deadline(&self) -> Option<Instant>;
}

/// The silence after which a peer counts as dead unless configured otherwise.
pub const PEER_TIMEOUT_DEFAULT: Duration = Duration::from_secs(1);
