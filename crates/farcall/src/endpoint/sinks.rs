//! Who takes what happens during a turn: closures of the endpoint's user, behind traits.
//!
//! More than the closures' own trait, because each closure gets, beside the way for a single event, request or message, a loop of its
//! own over those that came together: what a closure does with a small one takes no longer than the calls that would lead to it.

use core::mem::ManuallyDrop;

use farcall_transport::{
    CallId, Incoming, MessageBurst, Outbox, RequestBurst, ResponseBurst, Service, SessionId, ShortMessage,
};

use super::context::Context;
use super::event::Event;
use super::messages::Received;
use super::operations::Kind;
use super::outcome::Answer;
use super::request::{Reply, Request};
use super::sessions::Peer;
use super::state::State;

/// Who takes what happens during a turn.
#[derive(Default)]
pub struct Sinks<'a, 'e> {
    pub events: Option<&'a mut (dyn EventSink + 'e)>,
    pub requests: Option<&'a mut (dyn RequestSink + 'e)>,
}

/// Takes events as they happen.
pub trait EventSink: FnMut(&mut Context<'_>, Event<'_>) {
    /// Takes answers to calls that become events, up to one to another call, which is given back.
    fn answers<'a>(
        &mut self,
        outbox: &mut dyn Outbox,
        state: &mut State,
        session: SessionId,
        burst: &mut ResponseBurst<'a, '_>,
    ) -> Option<(CallId, &'a [u8])>;
}

impl<F: FnMut(&mut Context<'_>, Event<'_>)> EventSink for F {
    fn answers<'a>(
        &mut self,
        outbox: &mut dyn Outbox,
        state: &mut State,
        session: SessionId,
        burst: &mut ResponseBurst<'a, '_>,
    ) -> Option<(CallId, &'a [u8])> {
        let context = &mut Context { outbox, state };
        burst.take_while(|call, payload| {
            let Some(token) = context.state.operations.end_posted_call(call, session) else { return false };
            let payload = Incoming::Borrowed(payload);
            let outcome = ManuallyDrop::new(Ok(Answer { payload: &payload }));
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
        service: Service,
        burst: &mut RequestBurst<'_>,
    );
}

impl<F: FnMut(Request<'_>, Reply<'_>)> RequestSink for F {
    fn requests(
        &mut self,
        outbox: &mut dyn Outbox,
        state: &mut State,
        peer: Peer,
        service: Service,
        burst: &mut RequestBurst<'_>,
    ) {
        burst.for_each(|id, payload| {
            let payload = Incoming::Borrowed(payload);
            self(Request::new(peer, service, &payload), Reply::new(Context { outbox, state }, id));
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
        burst: &mut MessageBurst<'_>,
    );
}

impl<F: FnMut(&mut Context<'_>, Received<'_>)> MessageSink for F {
    fn messages(
        &mut self,
        outbox: &mut dyn Outbox,
        state: &mut State,
        peer: Peer,
        burst: &mut MessageBurst<'_>,
    ) {
        while let Some(ShortMessage { tag, payload }) = burst.take() {
            self(
                &mut Context { outbox, state },
                Received { peer, tag, payload: Incoming::Borrowed(payload) },
            );
            if state.operations.under_way(Kind::Receive) > 0 {
                break;
            }
        }
    }
}
