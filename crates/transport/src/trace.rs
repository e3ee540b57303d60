//! The trace points of calls and of tagged messages, the same on every transport.
//!
//! An endpoint and its transport write to one ring. Records have the clock's ticks instead of times, because a tick is
//! read faster than it is converted and means the same in every process of a machine; whoever reads the ring converts.
//! While nothing is traced, a trace point costs a load and a branch that always goes the same way.
//!
//! A record names its call by the number that the transport gives it on the wire, so that both ends name it alike;
//! within one session a number comes again only after 65536 other calls of its slot. Where that is not the caller's own
//! number, [`event::NAMED`] connects the two.
//!
//! A tagged message is named by its place among those of its session and direction, which both ends count because messages
//! of a session keep their order. Where it travels as a call, by whose number its packets are marked, [`event::MESSAGE_NAMED`]
//! and [`event::ARRIVED_AS`] connect the two.

use farcall_driver::clock::Clock;
use farcall_driver::trace::{EventDescription, TraceRecord, Tracer};
use farcall_protocol::Instant;

use crate::{RequestId, SessionId};

/// How many records a ring keeps: those of about 20,000 calls, or of 25,000 to 40,000 tagged messages.
pub const CALL_RECORDS: usize = 1 << 17;

/// The numbers of the events; [`CALL_EVENTS`] and [`MESSAGE_EVENTS`] say what they mean.
pub mod event {
    /// At the caller, in the order of a call's life; see [`CALL_EVENTS`](super::CALL_EVENTS) as for all of these.
    pub const SUBMITTED: u16 = 0x200;
    /// The transport's number for a call.
    pub const NAMED: u16 = 0x201;
    /// The request went to the driver.
    pub const REQUEST_TRANSMITTED: u16 = 0x202;
    /// The response was found.
    pub const RESPONSE_RECEIVED: u16 = 0x203;
    /// The caller was told.
    pub const COMPLETED: u16 = 0x204;
    /// At the server: the request was found.
    pub const REQUEST_RECEIVED: u16 = 0x210;
    /// The request is whole and its turn has come.
    pub const DISPATCHED: u16 = 0x211;
    /// The handler begins.
    pub const HANDLER_BEGUN: u16 = 0x212;
    /// The answer was given.
    pub const REPLIED: u16 = 0x213;
    /// The handler has returned.
    pub const HANDLER_ENDED: u16 = 0x214;
    /// The response went to the driver.
    pub const RESPONSE_TRANSMITTED: u16 = 0x215;
    /// At the sender of a tagged message, in the order of its life; see [`MESSAGE_EVENTS`](super::MESSAGE_EVENTS).
    pub const MESSAGE_SUBMITTED: u16 = 0x220;
    /// The call that carries a message.
    pub const MESSAGE_NAMED: u16 = 0x221;
    /// The message went to the driver or the library.
    pub const MESSAGE_TRANSMITTED: u16 = 0x222;
    /// At the receiver: a poll found the message.
    pub const MESSAGE_RECEIVED: u16 = 0x230;
    /// A receive or the handler gets it.
    pub const MESSAGE_MATCHED: u16 = 0x231;
    /// The receiver has it.
    pub const MESSAGE_COMPLETED: u16 = 0x232;
    /// The peer's call that carried a message which is whole.
    pub const ARRIVED_AS: u16 = 0x233;
}

/// What the events mean. All but one have the call's number on the wire and the low 16 bits of the session's number.
pub const CALL_EVENTS: &[EventDescription] = &[
    describe(event::SUBMITTED, "submitted", "The caller made a call; its own number; session"),
    describe(event::NAMED, "named", "The caller's own number (in place of a time) of a call; session"),
    describe(event::REQUEST_TRANSMITTED, "request-transmitted", "The driver got the request; call; session"),
    describe(event::RESPONSE_RECEIVED, "response-received", "A poll found the response; call; session"),
    describe(event::COMPLETED, "completed", "The outcome goes to the caller; its own number; session"),
    describe(event::REQUEST_RECEIVED, "request-received", "A poll found the request; call; session"),
    describe(event::DISPATCHED, "dispatched", "The request goes to the endpoint; call; session"),
    describe(event::HANDLER_BEGUN, "handler-begun", "Its handler begins; call; session"),
    describe(event::REPLIED, "replied", "The answer was given; call; session"),
    describe(event::HANDLER_ENDED, "handler-ended", "The handler has returned; call; session"),
    describe(
        event::RESPONSE_TRANSMITTED,
        "response-transmitted",
        "The driver got the response; call; session",
    ),
];

/// What the events of tagged messages mean. All but two have the message's number among those of its session and direction,
/// from 0, and the low 16 bits of the session's number. Over packets the events of calls stand for transmission and receipt.
pub const MESSAGE_EVENTS: &[EventDescription] = &[
    describe(
        event::MESSAGE_SUBMITTED,
        "message-submitted",
        "A message was given to the transport; number; session",
    ),
    describe(
        event::MESSAGE_NAMED,
        "message-named",
        "The number (in place of a time) of the message that a call carries; call; session",
    ),
    describe(
        event::MESSAGE_TRANSMITTED,
        "message-transmitted",
        "The driver or the library got the message; number; session",
    ),
    describe(event::MESSAGE_RECEIVED, "message-received", "A poll found the message; number; session"),
    describe(event::MESSAGE_MATCHED, "message-matched", "A receive or the handler gets it; number; session"),
    describe(
        event::MESSAGE_COMPLETED,
        "message-completed",
        "Its callback or handler has returned, or its future has it; number; session",
    ),
    describe(
        event::ARRIVED_AS,
        "message-arrived-as",
        "The number (in place of a time) of the message that a peer's call carried; call; session",
    ),
];

const fn describe(event: u16, name: &'static str, doc: &'static str) -> EventDescription {
    EventDescription { event, name, doc }
}

/// A handle to the ring of an endpoint and its transport. Copies write to the same ring and stay on one thread; switching
/// and reading may happen on any.
#[derive(Clone, Debug)]
pub struct CallTracer {
    tracer: Tracer,
    clock: Clock,
}

impl Default for CallTracer {
    /// One that nobody else has, for a transport without an endpoint.
    fn default() -> Self {
        Self { tracer: Tracer::new(1), clock: Clock::simulated(Default::default()) }
    }
}

impl CallTracer {
    /// A tracer, off, that reads the time from `clock`.
    pub fn new(clock: Clock) -> Self {
        Self { tracer: Tracer::new(CALL_RECORDS), clock }
    }

    /// Starts or stops recording. The first start takes the memory for the records.
    pub fn switch(&self, on: bool) {
        self.tracer.switch(on);
    }

    /// Forgets what was recorded so far.
    pub fn clear(&self) {
        self.tracer.clear();
    }

    /// The records kept, oldest first, with ticks of the clock in the place of times.
    pub fn records(&self) -> Vec<TraceRecord> {
        self.tracer.records()
    }

    /// How many records were lost because the ring was full.
    pub fn overwritten(&self) -> u64 {
        self.tracer.overwritten()
    }

    /// Whether records are kept now.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.tracer.is_on()
    }

    /// The ticks now, when recording is on.
    #[inline]
    pub fn begin(&self) -> Option<u64> {
        self.tracer.is_on().then(|| self.clock.ticks())
    }

    /// Records an event that happens now, when recording is on.
    #[inline]
    pub fn mark(&self, event: u16, call: u32, session: SessionId) {
        if self.tracer.is_on() {
            self.mark_at(self.clock.ticks(), event, call, session);
        }
    }

    /// Records an event of a time that [`CallTracer::begin`] gave.
    #[inline]
    pub fn mark_at(&self, ticks: u64, event: u16, call: u32, session: SessionId) {
        self.tracer.record(Instant::from_nanos(ticks), event, call, session_bits(session));
    }

    /// As [`CallTracer::mark_at`], of a tagged message that was submitted while recording was on.
    #[inline]
    pub fn mark_submitted(&self, submitted: Option<u64>, message: u32, session: SessionId) {
        if let Some(submitted) = submitted {
            self.mark_at(submitted, event::MESSAGE_SUBMITTED, message, session);
        }
    }

    /// Marks a tagged message that was here before its receive: that has it at once.
    #[inline]
    pub fn mark_taken(&self, message: u32, session: SessionId) {
        if let Some(now) = self.begin() {
            self.mark_at(now, event::MESSAGE_MATCHED, message, session);
            self.mark_at(now, event::MESSAGE_COMPLETED, message, session);
        }
    }

    /// As [`CallTracer::mark`] for a request that is served here.
    #[inline]
    pub fn mark_request(&self, event: u16, request: RequestId) {
        self.mark(event, wire_number(request.token), request.session);
    }
}

/// What a record has of a session's number.
pub const fn session_bits(session: SessionId) -> usize {
    session.0 as u16 as usize
}

/// What a record has of a call's number on the wire.
#[inline]
pub const fn wire_number(token: u64) -> u32 {
    token as u32 ^ (token >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_event_is_described_once_and_in_range() {
        let events = || CALL_EVENTS.iter().chain(MESSAGE_EVENTS);
        for description in events() {
            assert!((0x200..0x300).contains(&description.event), "{} is out of range", description.name);
            let same = |other: &&EventDescription| {
                other.event == description.event || other.name == description.name
            };
            assert_eq!(events().filter(same).count(), 1, "{}", description.name);
        }
    }

    #[test]
    fn events_have_the_ticks_at_which_they_happened() {
        let tracer = CallTracer::new(Clock::new());
        tracer.mark(event::SUBMITTED, 1, SessionId(1 << 16 | 7));
        assert_eq!((tracer.begin(), tracer.records().len()), (None, 0));
        tracer.switch(true);
        let before = tracer.begin().expect("it is on");
        tracer.mark(event::SUBMITTED, 9, SessionId(1 << 16 | 7));
        let record = tracer.records()[0];
        assert_eq!((record.event, record.operation, record.detail), (event::SUBMITTED, 9, 7));
        assert!((before..=tracer.begin().expect("it is on")).contains(&record.time.as_nanos()));
    }
}
