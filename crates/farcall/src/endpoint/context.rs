//! What handlers and callbacks may do: everything that sends, nothing that waits.
//!
//! A handler runs inside a poll, while the request lies in the driver's memory. A [`Context`] gives it the
//! sending half of the endpoint; the receiving half is not reachable from there, so that a poll inside a
//! poll, and with it unbounded recursion, cannot be written.

use core::time::Duration;

use farcall_base::Principal;
use farcall_driver::{Loan, LoanError};
use farcall_transport::{CallId, Outbox, Outgoing, Service, Status, Tag};

use super::call::{CallError, Outcome, start};
use super::completion::{AsEvent, Callback, Completion, OfCall, Taker};
use super::handler::{Deferred, reply};
use super::message::{ContextReceive, ContextSend, Destinations, SourceChoice, TagChoice, Wanted};
use super::refusal;
use super::sessions::Peer;
use super::slab::Kind;
use super::state::State;

/// The sending half of an endpoint, for the time of a handler or callback.
pub struct Context<'a> {
    pub(super) outbox: &'a mut dyn Outbox,
    pub(super) state: &'a mut State,
}

/// Names a call, send or receive that was posted or has a callback, so that it can be cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Operation(pub(super) CallId);

impl Operation {
    /// Its number, for languages that have no type for it.
    pub fn number(self) -> u32 {
        self.0.0
    }

    /// The operation of that number.
    pub fn from_number(number: u32) -> Self {
        Self(CallId(number))
    }
}

impl<'a> Context<'a> {
    /// Prepares a message; see [`ContextSend`].
    #[inline]
    pub fn send<'c, 'p>(
        &'c mut self,
        peer: Peer,
        tag: Tag,
        payload: impl Into<Outgoing<'p>>,
    ) -> ContextSend<'c, 'a, 'p> {
        let (to, payload) = (Destinations::One(peer), payload.into());
        ContextSend { context: self, to, tag, payload, timeout: None }
    }

    /// Prepares a message to several peers, which ends when it has ended for all; see [`ContextSend`].
    pub fn send_multi<'c, 'p>(
        &'c mut self,
        peers: &'p [Peer],
        tag: Tag,
        payload: impl Into<Outgoing<'p>>,
    ) -> ContextSend<'c, 'a, 'p> {
        let (to, payload) = (Destinations::Many(peers), payload.into());
        ContextSend { context: self, to, tag, payload, timeout: None }
    }

    /// Prepares a receive; see [`ContextReceive`].
    #[inline]
    pub fn receive(
        &mut self,
        from: impl Into<SourceChoice>,
        tag: impl Into<TagChoice>,
    ) -> ContextReceive<'_, 'a> {
        ContextReceive { context: self, wanted: Wanted::new(from.into(), tag.into()) }
    }

    /// Prepares a call; see [`ContextCall`].
    #[inline]
    pub fn call<'c, 'p>(
        &'c mut self,
        peer: Peer,
        service: Service,
        payload: impl Into<Outgoing<'p>>,
    ) -> ContextCall<'c, 'p> {
        ContextCall {
            outbox: self.outbox,
            state: self.state,
            peer,
            service,
            payload: payload.into(),
            timeout: None,
        }
    }

    /// Who the peer of a session is, as far as its transport proves it.
    pub fn principal(&self, peer: Peer) -> Principal {
        self.state.sessions.principal_of(peer.session).clone()
    }

    /// Answers a request that was deferred.
    pub fn reply<'p>(&mut self, deferred: Deferred, payload: impl Into<Outgoing<'p>>) {
        reply(self.outbox, deferred.fulfil(), Status::Ok, payload.into());
    }

    /// Refuses a request that was deferred, with a code of the handler's own.
    pub fn refuse(&mut self, deferred: Deferred, code: u8) {
        self.refuse_because(deferred, code, "");
    }

    /// As [`Context::refuse`], and says why; see [`Reply::refuse_because`](crate::Reply::refuse_because).
    pub fn refuse_because(&mut self, deferred: Deferred, code: u8, why: &str) {
        self.outbox.reply(deferred.fulfil(), Status::Refused(code), refusal::sent(why));
    }

    /// Whether the driver has all of the request of a call that was posted or has a callback, so that its
    /// memory and the fabric's queues hold no more than the response. Also true of operations that have
    /// ended.
    pub fn is_transmitted(&self, operation: Operation) -> bool {
        let session = self.state.operations.session_of(operation.0);
        session.is_none_or(|session| self.outbox.is_transmitted(session, operation.0))
    }

    /// Memory that can be written in place and sent without a copy, where a copy would take longer. What is
    /// in it is left over from earlier loans.
    pub fn loan(&mut self, bytes: usize) -> Result<Loan, LoanError> {
        self.outbox.loan(bytes)
    }

    /// Calls that have not completed.
    pub fn calls_in_flight(&self) -> usize {
        self.state.operations.in_flight(Kind::Call)
    }

    /// Sends that have not completed.
    pub fn sends_in_flight(&self) -> usize {
        self.state.operations.in_flight(Kind::Send)
    }

    /// Receives that have not completed.
    pub fn receives_in_flight(&self) -> usize {
        self.state.operations.in_flight(Kind::Receive)
    }
}

/// A call that a handler or callback is about to make.
pub struct ContextCall<'c, 'p> {
    outbox: &'c mut dyn Outbox,
    state: &'c mut State,
    peer: Peer,
    service: Service,
    payload: Outgoing<'p>,
    timeout: Option<Duration>,
}

impl ContextCall<'_, '_> {
    /// Sets how long the answer may take, instead of the endpoint's `call_timeout`.
    #[inline]
    pub fn within(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Sends the call; `callback` gets the outcome, once.
    pub fn then(
        self,
        callback: impl FnOnce(&mut Context<'_>, &Outcome<'_>) + Send + 'static,
    ) -> Result<Operation, CallError> {
        self.start(Completion::Callback(Callback::<OfCall>::new(callback)))
    }

    /// Sends the call; its end is an event with this token.
    #[inline]
    pub fn post(self, token: u64) -> Result<Operation, CallError> {
        self.start(AsEvent(token))
    }

    #[inline]
    fn start(self, taker: impl Taker<OfCall>) -> Result<Operation, CallError> {
        let Self { outbox, state, peer, service, payload, timeout } = self;
        start(outbox, state, peer, service, payload, timeout, taker).map(Operation)
    }
}
