//! Receives: waited for, awaited, with a callback, or posted.

use core::future::IntoFuture;
use core::time::Duration;

use farcall_transport::{Arrived, Incoming, Short};

use super::ask::Asked;
use super::ended;
use super::ends::outcome_of;
use super::outcome::{Message, ReceiveError, ReceiveOutcome, Received};
use super::receiving::{Receiving, ReceivingOrRefused};
use super::wanted::Wanted;
use crate::endpoint::Endpoint;
use crate::endpoint::callback::ReceiveCallback;
use crate::endpoint::context::{Context, Operation};
use crate::endpoint::event::StoredEvent;
use crate::endpoint::label::Label;
use crate::endpoint::slab::OpHandle;

/// A receive that is about to be made. It asks for nothing before one of `wait`, `start`, `then`, `now_or_then`, `post` or `.await`.
#[must_use = "a message is asked for by `wait`, `start`, `then`, `now_or_then`, `post` or `.await`"]
pub struct ReceiveMessage<'e> {
    pub(in crate::endpoint) endpoint: &'e Endpoint,
    pub(in crate::endpoint) wanted: Wanted,
}

impl<'e> ReceiveMessage<'e> {
    /// Sets how long the message may take to come, instead of the endpoint's `message_timeout`.
    pub fn within(mut self, timeout: Duration) -> Self {
        self.wanted.timeout = Some(timeout);
        self
    }

    /// Sets how long the message may be; a longer one ends the receive with [`ReceiveError::Truncated`].
    pub fn at_most(mut self, bytes: usize) -> Self {
        self.wanted.room = u32::try_from(bytes).unwrap_or(u32::MAX);
        self
    }

    /// Polls the endpoint until there is a message.
    pub fn wait(self) -> Result<Message<'e>, ReceiveError> {
        self.start()?.wait()
    }

    /// Polls the endpoint until there is a message and copies it to the beginning of `buffer`, which it must not be
    /// longer than; gives its length.
    pub fn wait_into(self, buffer: &mut [u8]) -> Result<usize, ReceiveError> {
        let message = self.at_most(buffer.len()).wait()?;
        buffer[..message.len()].copy_from_slice(&message);
        Ok(message.len())
    }

    /// Asks for the message now; the future that is returned completes with it.
    ///
    /// Always inlined: a receive that is given back through memory would be read there before it is whole.
    #[inline(always)]
    pub fn start(self) -> Result<Receiving<'e>, ReceiveError> {
        let Self { endpoint, wanted } = self;
        let id = endpoint.core().ask_for_future(wanted)?;
        Ok(Receiving { endpoint, handle: OpHandle::of(id) })
    }

    /// Asks for the message; `callback` gets it, once, during a later poll or [`Endpoint::reap`].
    #[inline(always)]
    pub fn then(
        self,
        callback: impl FnOnce(&mut Context<'_>, &ReceiveOutcome<'_>) + Send + 'static,
    ) -> Result<Operation, ReceiveError> {
        let Self { endpoint, wanted } = self;
        then(&mut endpoint.core().context(), wanted, || ReceiveCallback::new(callback))
    }

    /// As [`ReceiveMessage::then`], but if the message is there already, `callback` gets it before this returns, and there is no
    /// operation.
    ///
    /// For who asks for one message after the other: nothing is kept, and nothing is to be reaped. But `callback` must not need what
    /// its caller holds, such as a lock, and it runs before those of receives that ended earlier and have yet to be reaped.
    ///
    /// # Panics
    /// With what `callback` panics with when it runs at once.
    #[inline(always)]
    pub fn now_or_then(
        self,
        callback: impl FnOnce(&mut Context<'_>, &ReceiveOutcome<'_>) + Send + 'static,
    ) -> Result<Option<Operation>, ReceiveError> {
        let Self { endpoint, wanted } = self;
        let core = &mut *endpoint.core();
        let operation = now_or_then(&mut core.context(), wanted, callback)?;
        if operation.is_none() {
            core.go_on_with_panic();
        }
        Ok(operation)
    }

    /// Asks for the message; it becomes an event with this token, in a later poll or [`Endpoint::reap`].
    #[inline]
    pub fn post(self, token: u64) -> Result<Operation, ReceiveError> {
        post(&mut self.endpoint.core().context(), self.wanted, token)
    }
}

impl<'e> IntoFuture for ReceiveMessage<'e> {
    type Output = Result<Message<'e>, ReceiveError>;
    type IntoFuture = ReceivingOrRefused<'e>;

    /// Asks for the message.
    fn into_future(self) -> ReceivingOrRefused<'e> {
        ReceivingOrRefused(self.start().map_err(Some))
    }
}

/// A receive that a handler or callback is about to make.
pub struct ContextReceive<'c, 'a> {
    pub(in crate::endpoint) context: &'c mut Context<'a>,
    pub(in crate::endpoint) wanted: Wanted,
}

impl ContextReceive<'_, '_> {
    /// Sets how long the message may take to come, instead of the endpoint's `message_timeout`.
    pub fn within(mut self, timeout: Duration) -> Self {
        self.wanted.timeout = Some(timeout);
        self
    }

    /// Sets how long the message may be; a longer one ends the receive with [`ReceiveError::Truncated`].
    pub fn at_most(mut self, bytes: usize) -> Self {
        self.wanted.room = u32::try_from(bytes).unwrap_or(u32::MAX);
        self
    }

    /// Asks for the message; `callback` gets it, once, during a later poll or later in this one.
    #[inline(always)]
    pub fn then(
        self,
        callback: impl FnOnce(&mut Context<'_>, &ReceiveOutcome<'_>) + Send + 'static,
    ) -> Result<Operation, ReceiveError> {
        let Self { context, wanted } = self;
        then(context, wanted, || ReceiveCallback::new(callback))
    }

    /// Asks for the message; it becomes an event with this token, in a later poll or later in this one.
    #[inline]
    pub fn post(self, token: u64) -> Result<Operation, ReceiveError> {
        post(self.context, self.wanted, token)
    }
}

/// Asks for a message. A short one that is here already is copied; a longer one that was deferred is for the next poll.
#[inline(always)]
fn then(
    context: &mut Context<'_>,
    wanted: Wanted,
    callback: impl FnOnce() -> ReceiveCallback,
) -> Result<Operation, ReceiveError> {
    let (id, room) = (context.next_receive()?, wanted.room);
    let short_bytes_max = (room as usize).min(Short::BYTES_MAX);
    let asked = context.ask(id, wanted, short_bytes_max, move |_, state, label, arrived| {
        state.messages.ended.put_next(label, room, arrived);
    });
    let state = &mut *context.state;
    match asked {
        Asked::Waiting(session) => {
            state.operations.add_receive_callback(session, wanted.timeout, room, callback);
            return Ok(Operation(id));
        }
        Asked::Delivered => state.messages.ended.received(callback),
        Asked::Down => {
            let error = context.why_down(wanted.session());
            context.state.messages.ended.failed(error, callback());
        }
    }
    context.state.operations.pass_receive();
    Ok(Operation(id))
}

/// Gives `callback` a message that is here already, where it lies, or asks for one. What `callback` panics with is kept.
#[inline(always)]
fn now_or_then(
    context: &mut Context<'_>,
    wanted: Wanted,
    callback: impl FnOnce(&mut Context<'_>, &ReceiveOutcome<'_>) + Send + 'static,
) -> Result<Option<Operation>, ReceiveError> {
    let (id, room) = (context.next_receive()?, wanted.room);
    let mut callback = Some(callback);
    let asked = context.ask(id, wanted, room as usize, |outbox, state, label, arrived| {
        let Some(callback) = callback.take() else { return };
        state.guard(|state| give(&mut Context { outbox, state }, label, room, arrived, callback));
    });
    let Some(callback) = callback else { return Ok(None) };
    match asked {
        Asked::Waiting(session) => {
            let callback = || ReceiveCallback::new(callback);
            context.state.operations.add_receive_callback(session, wanted.timeout, room, callback);
            Ok(Some(Operation(id)))
        }
        Asked::Delivered => Ok(None),
        Asked::Down => {
            let error = context.why_down(wanted.session());
            callback(context, &Err(error));
            Ok(None)
        }
    }
}

/// Gives `callback` a message.
#[inline(always)]
fn give(
    context: &mut Context<'_>,
    label: Label,
    room: u32,
    arrived: Arrived<'_>,
    callback: impl FnOnce(&mut Context<'_>, &ReceiveOutcome<'_>),
) {
    match arrived {
        Arrived::InPlace(message) => {
            let payload = Incoming::Borrowed(message);
            callback(context, &Ok(Received { peer: label.peer(), tag: label.tag(), payload }));
        }
        Arrived::Kept(_) => {
            ended::give(outcome_of(label, room, arrived), |outcome| callback(context, outcome));
        }
    }
}

#[inline]
fn post(context: &mut Context<'_>, wanted: Wanted, token: u64) -> Result<Operation, ReceiveError> {
    let (id, room) = (context.next_receive()?, wanted.room);
    let asked = context.ask(id, wanted, room as usize, move |_, state, label, arrived| {
        let outcome = outcome_of(label, room, arrived);
        state.stored_events.push_back(StoredEvent::Received { token, outcome });
    });
    match asked {
        Asked::Waiting(session) => {
            context.state.operations.add_receive_event(session, wanted.timeout, room, token);
            return Ok(Operation(id));
        }
        Asked::Delivered => {}
        Asked::Down => {
            let outcome = Err(context.why_down(wanted.session()));
            context.state.stored_events.push_back(StoredEvent::Received { token, outcome });
        }
    }
    context.state.operations.pass_receive();
    Ok(Operation(id))
}
