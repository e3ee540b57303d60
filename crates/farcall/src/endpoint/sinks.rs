//! Who takes what happens during a turn: closures of the endpoint's user, behind traits.
//!
//! More than the closures' own trait, because each closure gets a loop of its own over the requests or
//! messages that came together: what a closure does with a small one takes no longer than the calls that
//! would lead to it.

use core::mem::ManuallyDrop;

use farcall_transport::{Message, MessageBatch, Outbox, RequestBatch, Response, ResponseBatch};

use super::call::outcome_of;
use super::context::Context;
use super::event::Event;
use super::handler::{Reply, Request};
use super::message::Received;
use super::sessions::Peer;
use super::slab::Kind;
use super::state::State;

/// Who takes what happens during a turn.
#[derive(Default)]
pub struct Sinks<'a, 'e> {
    pub events: Option<&'a mut (dyn EventSink + 'e)>,
    pub requests: Option<&'a mut (dyn RequestSink + 'e)>,
}

/// Takes events as they happen.
pub trait EventSink: FnMut(&mut Context<'_>, Event<'_>) {
    /// Takes responses to calls that become events, up to one to another call, which is given back. They are
    /// not traced.
    fn answers<'a>(
        &mut self,
        outbox: &mut dyn Outbox,
        state: &mut State,
        responses: &mut ResponseBatch<'a, '_>,
    ) -> Option<Response<'a>>;
}

impl<F: FnMut(&mut Context<'_>, Event<'_>)> EventSink for F {
    fn answers<'a>(
        &mut self,
        outbox: &mut dyn Outbox,
        state: &mut State,
        responses: &mut ResponseBatch<'a, '_>,
    ) -> Option<Response<'a>> {
        let (context, session) = (&mut Context { outbox, state }, responses.session());
        responses.take_while(|&Response { call, status, payload }| {
            let Some(token) = context.state.operations.end_posted_call(call, session) else { return false };
            let outcome = ManuallyDrop::new(outcome_of(status, &payload));
            self(context, Event::Completed { token, outcome: &outcome });
            true
        })
    }
}

/// Serves requests: those for one service, or those for services that have no handler.
pub trait RequestSink: FnMut(Request<'_>, Reply<'_>) {
    fn requests(
        &mut self,
        outbox: &mut dyn Outbox,
        state: &mut State,
        peer: Peer,
        requests: &mut RequestBatch<'_>,
    );
}

impl<F: FnMut(Request<'_>, Reply<'_>)> RequestSink for F {
    fn requests(
        &mut self,
        outbox: &mut dyn Outbox,
        state: &mut State,
        peer: Peer,
        requests: &mut RequestBatch<'_>,
    ) {
        let service = requests.service();
        requests.for_each(|id, payload| {
            self(
                Request::new(peer, service, &payload),
                Reply::new(Context { outbox, state }, id, peer.session),
            );
        });
    }
}

/// Takes messages that no receive waits for.
pub trait MessageSink: FnMut(&mut Context<'_>, Received<'_>) {
    /// Takes messages up to one upon which a receive was posted: that may be for the next.
    fn messages(
        &mut self,
        outbox: &mut dyn Outbox,
        state: &mut State,
        peer: Peer,
        messages: &mut MessageBatch<'_>,
    );
}

impl<F: FnMut(&mut Context<'_>, Received<'_>)> MessageSink for F {
    fn messages(
        &mut self,
        outbox: &mut dyn Outbox,
        state: &mut State,
        peer: Peer,
        messages: &mut MessageBatch<'_>,
    ) {
        messages.take_while(|Message { tag, payload }| {
            self(&mut Context { outbox, state }, Received { peer, tag, payload });
            state.operations.in_flight(Kind::Receive) == 0
        });
    }
}
