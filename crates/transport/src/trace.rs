//! The trace points of a call, the same on every transport.
//!
//! An endpoint and its transport write to one ring. Records have the clock's ticks instead of times, because a tick is
//! read faster than it is converted and means the same in every process of a machine; whoever reads the ring converts.
//! While nothing is traced, a trace point costs a load and a branch that always goes the same way.
//!
//! A record names its call by the number that the transport gives it on the wire, so that both ends name it alike;
//! within one session a number comes again only after 65536 other calls of its slot. Where that is not the caller's own
//! number, [`event::NAMED`] connects the two.

use farcall_driver::clock::Clock;
use farcall_driver::trace::{EventDescription, TraceRecord, Tracer};
use farcall_protocol::Instant;

use crate::{RequestId, SessionId};

/// How many records a ring keeps: those of about 20,000 calls.
pub const CALL_RECORDS: usize = 1 << 17;

/// The numbers of the events of calls; [`CALL_EVENTS`] says what they mean.
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
        for description in CALL_EVENTS {
            assert!((0x200..0x300).contains(&description.event), "{} is out of range", description.name);
            let same = |other: &&EventDescription| {
                other.event == description.event || other.name == description.name
            };
            assert_eq!(CALL_EVENTS.iter().filter(same).count(), 1, "{}", description.name);
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
