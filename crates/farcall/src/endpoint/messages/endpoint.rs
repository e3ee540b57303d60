//! What an endpoint offers for messages.

use farcall_transport::{Outgoing, Tag};

use super::{Destinations, ReceiveMessage, Received, SendMessage, SourceChoice, TagChoice, Wanted};
use crate::endpoint::Endpoint;
use crate::endpoint::context::Context;
use crate::endpoint::sessions::Peer;
use crate::endpoint::slab::Kind;
use crate::endpoint::state::State;

impl Endpoint {
    /// Prepares a message; see [`SendMessage`] for the ways to send it.
    #[inline]
    pub fn send<'p>(&self, peer: Peer, tag: Tag, payload: impl Into<Outgoing<'p>>) -> SendMessage<'_, 'p> {
        let (to, payload) = (Destinations::One(peer), payload.into());
        SendMessage { endpoint: self, to, tag, payload, timeout: None }
    }

    /// Prepares a message to several peers, which ends when it has ended for all. If it fails for some, its outcome is
    /// that of the first of them.
    pub fn send_multi<'p>(
        &self,
        peers: &'p [Peer],
        tag: Tag,
        payload: impl Into<Outgoing<'p>>,
    ) -> SendMessage<'_, 'p> {
        let (to, payload) = (Destinations::Many(peers), payload.into());
        SendMessage { endpoint: self, to, tag, payload, timeout: None }
    }

    /// Prepares a receive; see [`ReceiveMessage`] for the ways to make it. The oldest receive that wants a message gets it, and
    /// a receive gets the oldest message that it wants: those from one peer with one tag in the order in which they were
    /// sent. Messages that nobody has asked for yet wait, in bounded memory: then senders wait.
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
