//! Tagged messages: sends and receives that complete as futures, callbacks or events.
//!
//! They are operations like calls, in the same slab, with deadlines and exactly one end. What ends at once, because the
//! transport took a copy or the message was there already, is only noted: callbacks and events are run by a poll, so that
//! a callback may post again to any depth without using the stack.

mod endpoint;
mod ends;
mod outcome;
mod receive;
mod send;
mod wanted;

use core::time::Duration;
use std::collections::{HashMap, VecDeque};

use farcall_protocol::Instant;
use farcall_transport::CallId;

use super::callback::{ReceiveCallback, SendCallback};
use super::context::Context;
pub use outcome::{Cancellation, KeptMessage, Message, ReceiveError, ReceiveOutcome, Received, SendError};
pub use receive::{ContextReceive, ReceiveMessage, Receiving};
pub(super) use send::Destinations;
pub use send::{ContextSend, SendMessage, Sending};
pub(super) use wanted::Wanted;
pub use wanted::{AnySource, AnyTag, SourceChoice, TagChoice};

/// Takes messages that no receive waits for.
pub type MessageHandler = Box<dyn FnMut(&mut Context<'_>, Received<'_>) + Send>;

/// Operations that ended when they began, until the next poll runs their callbacks: of each kind the oldest first.
#[derive(Default)]
pub struct EndedAtOnce {
    /// Sends, all of which have left well: one that cannot be sent is refused.
    pub sent: VecDeque<SendCallback>,
    /// Receives whose message was there already, or that can have none.
    pub received: VecDeque<(ReceiveCallback, Result<KeptMessage, ReceiveError>)>,
}

impl EndedAtOnce {
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.sent.is_empty() && self.received.is_empty()
    }
}

/// What an endpoint knows of its messages beside their operations.
pub struct Messages {
    timeout_nanos: u64,
    pub handler: Option<MessageHandler>,
    /// Operations that ended when they began, and whose callbacks wait for the next poll.
    pub ended: EndedAtOnce,
    /// The first failures of sends of which other parts are still under way.
    pub failed_parts: HashMap<CallId, SendError>,
}

impl Messages {
    pub fn new(timeout: Duration) -> Self {
        let timeout_nanos = u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX);
        Self { timeout_nanos, handler: None, ended: EndedAtOnce::default(), failed_parts: HashMap::new() }
    }

    /// The deadline of an operation that begins now.
    #[inline]
    pub fn deadline(&self, now: Instant, timeout: Option<Duration>) -> Instant {
        match timeout {
            None => Instant::from_nanos(now.as_nanos().saturating_add(self.timeout_nanos)),
            Some(timeout) => now + timeout,
        }
    }
}
