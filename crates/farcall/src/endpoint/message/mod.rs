//! Tagged messages: sends and receives that complete as futures, callbacks or events.
//!
//! They are operations like calls, in the same slab, with deadlines and exactly one end. What ends at once,
//! because the transport took a copy or the message was there already, is only noted: callbacks and events
//! are run by a poll or when the endpoint reaps, so that a callback may post again to any depth without using
//! the stack. Only a caller outside of callbacks may ask for one that runs at once (`now_or_then`).

mod at_once;
mod end;
mod outcome;
mod receive;
mod send;

use core::time::Duration;
use std::collections::HashMap;

use farcall_transport::{CallId, Outgoing, SessionId, Tag};

use super::Endpoint;
use super::context::Context;
use super::sessions::Peer;
use super::sinks::MessageSink;
use super::slab::{Kind, NO_SESSION};
use super::state::State;
use at_once::EndedAtOnce;
pub use outcome::{
    Cancellation, Envelope, KeptMessage, Message, ReceiveError, ReceiveOutcome, Received, SendError,
};
pub use receive::{ContextReceive, ReceiveMessage, Receiving};
pub(super) use send::Destinations;
pub use send::{ContextSend, SendMessage, Sending};

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

impl Endpoint {
    /// Prepares a message; see [`SendMessage`] for the ways to send it.
    #[inline]
    pub fn send<'p>(&self, peer: Peer, tag: Tag, payload: impl Into<Outgoing<'p>>) -> SendMessage<'_, 'p> {
        let (to, payload) = (Destinations::One(peer), payload.into());
        SendMessage { endpoint: self, to, tag, payload, timeout: None }
    }

    /// Prepares a message to several peers, which ends when it has ended for all. If it fails for some, its
    /// outcome is that of the first of them.
    pub fn send_multi<'p>(
        &self,
        peers: &'p [Peer],
        tag: Tag,
        payload: impl Into<Outgoing<'p>>,
    ) -> SendMessage<'_, 'p> {
        let (to, payload) = (Destinations::Many(peers), payload.into());
        SendMessage { endpoint: self, to, tag, payload, timeout: None }
    }

    /// Prepares a receive; see [`ReceiveMessage`] for the ways to make it. The oldest receive that wants a
    /// message gets it, and a receive gets the oldest message that it wants: those from one peer with one tag
    /// in the order in which they were sent. Messages that nobody has asked for yet wait, in bounded memory:
    /// then senders wait.
    #[inline]
    pub fn receive(&self, from: impl Into<SourceChoice>, tag: impl Into<TagChoice>) -> ReceiveMessage<'_> {
        ReceiveMessage { endpoint: self, wanted: Wanted::new(from.into(), tag.into()) }
    }

    /// Gives messages that no receive waits for to `handler`, during polls, instead of letting them wait.
    pub fn on_message(&self, handler: impl FnMut(&mut Context<'_>, Received<'_>) + Send + 'static) {
        let core = &mut *self.core();
        core.state.messages.handler = Some(Box::new(handler));
        core.transport.hand_on_unexpected(true);
    }

    /// Polls until no send and no receive is in flight.
    pub fn wait_all(&self) {
        let is_over = |state: &State| {
            let in_flight = |kind| state.operations.in_flight(kind) > 0;
            !in_flight(Kind::Send) && !in_flight(Kind::Receive) && state.messages.ended.is_empty()
        };
        self.poll_once();
        self.poll_until(is_over);
    }

    /// Sends that have not completed.
    pub fn sends_in_flight(&self) -> usize {
        self.core().state.operations.in_flight(Kind::Send)
    }

    /// Receives that have not completed.
    pub fn receives_in_flight(&self) -> usize {
        self.core().state.operations.in_flight(Kind::Receive)
    }
}

/// Asks for messages from anybody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnySource;

/// Asks for messages with any tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnyTag;

/// From whom a message is wanted: a [`Peer`] or [`AnySource`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceChoice(pub(in crate::endpoint) Option<Peer>);

/// Which tag is wanted: a [`Tag`] or [`AnyTag`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TagChoice(pub(in crate::endpoint) Option<Tag>);

impl From<Peer> for SourceChoice {
    fn from(peer: Peer) -> Self {
        Self(Some(peer))
    }
}

impl From<AnySource> for SourceChoice {
    fn from(_: AnySource) -> Self {
        Self(None)
    }
}

impl From<Tag> for TagChoice {
    fn from(tag: Tag) -> Self {
        Self(Some(tag))
    }
}

impl From<AnyTag> for TagChoice {
    fn from(_: AnyTag) -> Self {
        Self(None)
    }
}

/// What a receive asks for.
#[derive(Clone, Copy)]
pub struct Wanted {
    pub from: Option<Peer>,
    pub tag: Option<Tag>,
    /// The most bytes.
    pub room: u32,
    pub timeout: Option<Duration>,
}

impl Wanted {
    pub fn new(from: SourceChoice, tag: TagChoice) -> Self {
        Self { from: from.0, tag: tag.0, room: u32::MAX, timeout: None }
    }

    /// The session that the receive ends with; [`NO_SESSION`] when it asks for messages from anybody.
    #[inline]
    pub fn session(&self) -> SessionId {
        self.from.map_or(NO_SESSION, |peer| peer.session)
    }
}
