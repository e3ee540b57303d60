//! Tagged messages: sends and receives that complete as futures, callbacks or events.
//!
//! They are operations like calls, in the same slab, with deadlines and exactly one end. What ends at once,
//! because the transport took a copy or the message was there already, is only noted: callbacks and events
//! are run by a poll or when the endpoint reaps, so that a callback may post again to any depth without using
//! the stack. Only a caller outside of callbacks may ask for one that runs at once (`now_or_then`).

mod ask;
mod begin;
mod ended;
mod endpoint;
mod ends;
mod outcome;
mod receive;
mod receiving;
mod row;
mod send;
mod sending;
mod wanted;

use std::collections::HashMap;

use farcall_transport::CallId;

use super::sinks::MessageSink;
pub(super) use begin::Destinations;
use ended::EndedAtOnce;
pub use outcome::{Cancellation, KeptMessage, Message, ReceiveError, ReceiveOutcome, Received, SendError};
pub use receive::{ContextReceive, ReceiveMessage};
pub use receiving::Receiving;
pub use send::{ContextSend, SendMessage};
pub use sending::Sending;
pub(super) use wanted::Wanted;
pub use wanted::{AnySource, AnyTag, SourceChoice, TagChoice};

/// What an endpoint knows of its messages beside their operations.
#[derive(Default)]
pub struct Messages {
    /// Takes messages that no receive waits for.
    pub handler: Option<Box<dyn MessageSink + Send>>,
    /// Operations that ended when they began, and whose callbacks have yet to run.
    pub ended: EndedAtOnce,
    /// The first failures of sends of which other parts are still in flight.
    pub failed_parts: HashMap<CallId, SendError>,
}
