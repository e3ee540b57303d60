//! Tagged messages: sends and receives that complete as futures, callbacks or events.
//!
//! They are operations like calls, in the same slab, with deadlines and exactly one end. What ends at once, because the
//! transport took a copy or the message was there already, is only noted: callbacks and events are run by a poll, so that
//! a callback may post again to any depth without using the stack.

mod ask;
mod begin;
mod ended;
mod endpoint;
mod ends;
mod in_order;
mod outcome;
mod receive;
mod receiving;
mod send;
mod sending;
mod wanted;

use core::time::Duration;
use std::collections::HashMap;

use farcall_protocol::Instant;
use farcall_transport::CallId;

use super::context::Context;
pub(super) use begin::Destinations;
use ended::EndedAtOnce;
pub use outcome::{Cancellation, KeptMessage, Message, ReceiveError, ReceiveOutcome, Received, SendError};
pub use receive::{ContextReceive, ReceiveMessage};
pub use receiving::Receiving;
pub use send::{ContextSend, SendMessage};
pub use sending::Sending;
pub(super) use wanted::Wanted;
pub use wanted::{AnySource, AnyTag, SourceChoice, TagChoice};

/// Takes messages that no receive waits for.
pub type MessageHandler = Box<dyn FnMut(&mut Context<'_>, Received<'_>) + Send>;

/// What an endpoint knows of its messages beside their operations.
pub struct Messages {
    timeout_nanos: u64,
    /// The deadline of an operation that begins now and has no timeout of its own.
    deadline: Instant,
    pub handler: Option<MessageHandler>,
    /// Operations that ended when they began, and whose callbacks wait for the next poll.
    pub ended: EndedAtOnce,
    /// The first failures of sends of which other parts are still under way.
    pub failed_parts: HashMap<CallId, SendError>,
}

impl Messages {
    pub fn new(timeout: Duration, now: Instant) -> Self {
        Self {
            timeout_nanos: u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX),
            deadline: now + timeout,
            handler: None,
            ended: EndedAtOnce::default(),
            failed_parts: HashMap::new(),
        }
    }

    /// The clock shows another time.
    #[inline]
    pub fn clock_was_read(&mut self, now: Instant) {
        self.deadline = Instant::from_nanos(now.as_nanos().saturating_add(self.timeout_nanos));
    }

    /// The deadline of an operation that begins now.
    #[inline]
    pub fn deadline(&self, now: Instant, timeout: Option<Duration>) -> Instant {
        match timeout {
            None => self.deadline,
            Some(timeout) => now + timeout,
        }
    }
}
