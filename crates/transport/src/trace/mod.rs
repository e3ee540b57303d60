//! The trace points of calls and of tagged messages, the same on every transport.
//!
//! An endpoint and its transport write to one ring. Records have the clock's ticks instead of times, because
//! a tick is read faster than it is converted and means the same in every process of a machine; whoever reads
//! the ring converts. While nothing is traced, a trace point costs a load and a branch that always goes the
//! same way.
//!
//! To read the counter takes most of what a record costs. Points between which nothing runs but a few
//! instructions of ours share a reading: that a request was found, has its turn and goes to its handler, that
//! a response was found and its caller is told, that a handler has returned and what it answered leaves.
//!
//! A record names its call by the number that the transport gives it on the wire, so that both ends name it
//! alike; within one session a number comes again only after 65536 other calls of its slot. Where that is not
//! the caller's own number, [`event::NAMED`] connects the two.
//!
//! A tagged message is named by its place among those of its session and direction, which both ends count
//! because messages of a session keep their order. Where it travels as a call, by whose number its packets
//! are marked, [`event::MESSAGE_NAMED`] and [`event::ARRIVED_AS`] connect the two.

pub mod event;
#[cfg(test)]
mod tests;
mod tracer;

pub use event::{CALL_EVENTS, MESSAGE_EVENTS};
pub use tracer::{CALL_RECORDS, CallTracer};

use crate::SessionId;

/// What a record has of a session's number.
pub const fn session_bits(session: SessionId) -> u16 {
    session.0 as u16
}

/// What a record has of a call's number on the wire.
#[inline]
pub const fn wire_number(token: u64) -> u32 {
    token as u32 ^ (token >> 32) as u32
}
