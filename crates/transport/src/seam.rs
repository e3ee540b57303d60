//! The transport seam: remote calls and tagged messages, whatever carries them.
//!
//! The seam speaks of calls and not of packets, because a response is the cheapest acknowledgement. It has three
//! parts: an [`Outbox`] takes what goes out, a [`Sink`] is told what came in, and a [`Transport`] is polled. A sink
//! gets the outbox with every event, so that a request can be answered, and new calls made, while the request's
//! bytes are still being read in place.
//!
//! Messages are matched with receives *below* this seam: a library that matches by itself, perhaps in hardware, is given
//! the receives. Transports of our own have a [`Matching`](farcall_protocol::matching::Matching).

use core::time::Duration;
use std::os::fd::RawFd;

use farcall_base::{Address, AddressError};
use farcall_base::{Identity, Instant};
use farcall_driver::{Loan, LoanError};
use farcall_protocol::matching::{Source, Tag};

use crate::trace::CallTracer;
use crate::{
    CallRefused, DownReason, Envelope, Incoming, Matched, MatchedBurst, MessageBurst, MessageId, Origin,
    Outgoing, ReceiveProgress, RequestBurst, ResponseBurst, SendOutcome, SendProgress, SendRefused, Status,
};

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

    /// Whether the driver has all of a call's request: nothing of it waits for room, for permission of the peer or for a
    /// session. Also true of calls that are over.
    fn is_transmitted(&self, session: SessionId, call: CallId) -> bool;

    /// Sends a message. What finds no room, at the peer either, waits here. Messages with the same tag are received in
    /// the order in which they were sent.
    fn send(
        &mut self,
        session: SessionId,
        send: MessageId,
        tag: Tag,
        payload: Outgoing<'_>,
    ) -> Result<SendProgress, SendRefused>;

    /// As [`Outbox::call`] with a slice, where nothing stands in the way of its being sent at once. False when something does;
    /// then nothing has happened. A way of its own as [`Outbox::send_at_once`] is.
    fn call_at_once(&mut self, to: SessionId, call: CallId, service: Service, payload: &[u8]) -> bool {
        let _ = (to, call, service, payload);
        false
    }

    /// As [`Outbox::send`] of a slice, where nothing stands in the way of its being done at once. False when something
    /// does; then nothing has happened.
    ///
    /// A way of its own because all of its arguments travel in registers, which a small message feels.
    fn send_at_once(&mut self, session: SessionId, tag: Tag, payload: &[u8]) -> bool {
        let _ = (session, tag, payload);
        false
    }

    /// As [`Outbox::receive`] with source and tag, where no message waits and there is a place for it. False otherwise, or when the
    /// session is down; then nothing has happened.
    fn receive_at_once(&mut self, receive: MessageId, from: Origin, tag: Tag) -> bool {
        let _ = (receive, from, tag);
        false
    }

    /// Takes back a send that is pending: true if nothing of it has left. Otherwise it goes on, and its end is reported.
    /// One name may stand for several sends; all that can be are taken back, and the number of those is returned.
    fn cancel_send(&mut self, send: MessageId) -> usize;

    /// Asks for a message: the oldest one, or else the next, that comes `from` there and has that `tag`; `None` is any. Of several receives that ask for the same message the oldest gets it.
    fn receive(&mut self, receive: MessageId, from: Option<Origin>, tag: Option<Tag>) -> ReceiveProgress;

    /// Takes back a receive. False when it is not waiting; then its end was or will be reported.
    fn cancel_receive(&mut self, receive: MessageId) -> bool;

    /// Whether messages that no receive waits for go to [`Sink::message`] from now on, those that wait already too.
    /// Otherwise, as in the beginning, they wait for a receive.
    fn hand_on_unexpected(&mut self, hand_on: bool);

    /// Memory that can be sent without a copy where the driver can do so. What is in it is left over from earlier loans.
    fn loan(&mut self, bytes: usize) -> Result<Loan, LoanError>;
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

    /// As [`Sink::request`] for as many requests of a burst as the sink takes; the others come singly. All of them are counted as
    /// unanswered already.
    fn requests(
        &mut self,
        outbox: &mut dyn Outbox,
        session: SessionId,
        service: Service,
        burst: &mut RequestBurst<'_>,
    ) {
        let _ = (outbox, session, service, burst);
    }

    /// The response to one of our calls came over `session`. The receiver must check that it has such a call there.
    fn response(
        &mut self,
        outbox: &mut dyn Outbox,
        session: SessionId,
        call: CallId,
        status: Status,
        payload: &Incoming<'_>,
    );

    /// As [`Sink::response`] for as many answers of a burst as the sink takes; the others come singly.
    fn responses(&mut self, outbox: &mut dyn Outbox, session: SessionId, burst: &mut ResponseBurst<'_, '_>) {
        let _ = (outbox, session, burst);
    }

    /// A receive that was posted has its message.
    fn received(
        &mut self,
        outbox: &mut dyn Outbox,
        receive: MessageId,
        envelope: Envelope,
        payload: &Incoming<'_>,
    ) {
        // Only sinks that post receives are told of their ends.
        let _ = (outbox, receive, envelope, payload);
    }

    /// As [`Sink::received`] of a message that has to be copied, where nobody is to be told who would want the outbox. False when somebody
    /// is; then nothing has happened, and [`Sink::received`] follows.
    ///
    /// A way of its own because all of its arguments travel in registers, which a small message feels.
    fn received_at_once(&mut self, receive: MessageId, session: SessionId, tag: Tag, payload: &[u8]) -> bool {
        let _ = (receive, session, tag, payload);
        false
    }

    /// As [`Sink::received_at_once`] of messages of a burst, up to one that the sink does not take: [`Sink::received`] follows for
    /// it, whose receive is given back, and for all that come behind it.
    fn received_burst(&mut self, session: SessionId, burst: &mut MatchedBurst<'_, '_>) -> Option<MessageId> {
        let _ = (session, burst);
        None
    }

    /// As [`Sink::received`] of messages of one session that came together, in the order in which they came. All their receives
    /// wait no longer when it begins. Whether the next are better brought in this way, and not by [`Sink::received_burst`] first.
    fn received_together(
        &mut self,
        outbox: &mut dyn Outbox,
        session: SessionId,
        messages: &[Matched<'_>],
    ) -> bool {
        for message in messages {
            let envelope = Envelope { session, tag: message.tag, bytes: message.payload_bytes() };
            self.received(outbox, message.receive, envelope, &Incoming::Borrowed(message.payload()));
        }
        false
    }

    /// As [`Sink::message`] for as many messages of a burst as the sink takes; the others come singly. It takes none after
    /// it has asked for a message, because the next may be what it has asked for.
    fn messages(&mut self, outbox: &mut dyn Outbox, session: SessionId, burst: &mut MessageBurst<'_>) {
        let _ = (outbox, session, burst);
    }

    /// A message came that no receive waits for. Only after [`Outbox::hand_on_unexpected`].
    fn message(&mut self, outbox: &mut dyn Outbox, envelope: Envelope, payload: &Incoming<'_>) {
        let _ = (outbox, envelope, payload);
    }

    /// A send that was pending has ended: the peer's memory has it, or the session is down.
    fn sent(&mut self, outbox: &mut dyn Outbox, send: MessageId, outcome: SendOutcome) {
        let _ = (outbox, send, outcome);
    }

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

/// What a transport keeps beside its sessions. All of it is zero once nothing is under way and the peers know so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Holdings {
    /// Calls that have no response, or whose response the peer may still keep.
    pub calls: usize,
    /// Requests that arrive, run, or are answered and not acknowledged yet.
    pub requests: usize,
    /// Messages that wait for room.
    pub backlog: usize,
    /// Blocks of peers that are read here, or whose return they have not been told of.
    pub blocks: usize,
}

/// Takes a message that was left, of that session.
pub type TakeLeft<'a> = dyn FnMut(SessionId, &[u8]) + 'a;

/// As [`TakeLeft`], and may use the outbox meanwhile. It does not panic.
pub type GiveLeft<'a> = dyn FnMut(&mut dyn Outbox, SessionId, &[u8]) + 'a;

/// Carries calls over one driver. Owned and polled by one thread.
pub trait Transport: Send {
    /// What this transport can do.
    fn limits(&self) -> TransportLimits;

    /// What it keeps at this moment. Walks all sessions: for tests and for people, not for the path of messages.
    fn holdings(&self) -> Holdings;

    /// Where other processes reach this transport.
    fn address(&self) -> Address;

    /// Starts a session with the transport at `to`. Calls can be made at once; they wait until it is up.
    fn connect(&mut self, to: &Address, now: Instant) -> Result<SessionId, AddressError>;

    /// Ends a session: the peer is told, and [`Sink::session_down`] follows with [`DownReason::Closed`].
    fn close(&mut self, session: SessionId, now: Instant);

    /// Transmits what was queued, receives, reports to `sink`, and transmits what the sink and the timers produced.
    /// Never blocks.
    ///
    /// Returns how many packets and records were received and how many kept messages were handed on. What else the sink is told
    /// of, it may count itself.
    fn poll(&mut self, now: Instant, sink: &mut dyn Sink) -> usize;

    /// Transmits what was queued now, for those who want to know what that takes; says whether there was anything. A poll
    /// does the same, and transports that only transmit in polls do nothing here.
    fn flush(&mut self) -> bool {
        false
    }

    /// From now on the transport marks its points of a call there.
    fn trace_to(&mut self, tracer: CallTracer);

    /// The sending half, as handlers see it.
    fn outbox(&mut self) -> &mut dyn Outbox;

    /// As that of the [`Outbox`], by one call through a table instead of two.
    fn send_at_once(&mut self, session: SessionId, tag: Tag, payload: &[u8]) -> bool {
        self.outbox().send_at_once(session, tag, payload)
    }

    /// As that of the [`Outbox`], by one call through a table instead of two. Also false where [`Transport::take_left`] has
    /// the message, and it is of at most `bytes_max` bytes.
    fn receive_at_once(&mut self, receive: MessageId, from: Origin, tag: Tag, bytes_max: usize) -> bool {
        let _ = bytes_max;
        self.outbox().receive_at_once(receive, from, tag)
    }

    /// Gives `take` the message that such a receive would get, and its session, if it lies where it came and nothing else waits; says
    /// whether it did. It counts as received. Who can take it asks when [`Transport::receive_at_once`] has refused the receive.
    fn take_left(&mut self, from: Source, tag: Tag, bytes_max: usize, take: &mut TakeLeft<'_>) -> bool {
        let _ = (from, tag, bytes_max, take);
        false
    }

    /// As [`Transport::take_left`], where the message is looked at while the outbox can be used. It costs a little more.
    fn give_left(&mut self, from: Source, tag: Tag, bytes_max: usize, give: &mut GiveLeft<'_>) -> bool {
        let _ = (from, tag, bytes_max, give);
        false
    }

    /// How many polls that find something may be given the same reading of the clock; of those that find nothing it may be a few
    /// times as many, where it is not one. A transport without timers of its own needs none that is fresh. Always the same.
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
