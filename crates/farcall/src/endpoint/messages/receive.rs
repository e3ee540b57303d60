//! Receives: waited for, awaited, with a callback, or posted.

use core::future::IntoFuture;
use core::time::Duration;

use farcall_transport::CallId;

use super::ask::begin;
use super::ended::{ShortReceived, give};
use super::outcome::{KeptMessage, Message, ReceiveError, ReceiveOutcome};
use super::receiving::{Receiving, ReceivingOrRefused};
use super::wanted::Wanted;
use crate::endpoint::Endpoint;
use crate::endpoint::callback::ReceiveCallback;
use crate::endpoint::context::{Context, Operation};
use crate::endpoint::core::Core;
use crate::endpoint::event::StoredEvent;
use crate::endpoint::operations::Operations;
use crate::endpoint::unfetched::Unfetched;

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
        if let Some(exact) = wanted.exact()
            && let Some(id) = endpoint.core().ask_at_once(exact)
        {
            return Ok(Receiving { endpoint, unfetched: Unfetched::end_of(id) });
        }
        match (Self { endpoint, wanted: wanted.again() }).ask() {
            Ok(id) => Ok(Receiving { endpoint, unfetched: Unfetched::end_of(id) }),
            Err(error) => Err(*error),
        }
    }

    #[inline(never)]
    fn ask(&self) -> Result<CallId, Box<ReceiveError>> {
        let core = &mut *self.endpoint.core();
        let (id, message) =
            begin(core.transport.outbox(), &mut core.state, &self.wanted, Operations::add_receive_future)?;
        if let Some(message) = message {
            core.state.operations.cancel(id);
            core.state.operations.leave_received(id, message);
        }
        Ok(id)
    }

    /// Asks for the message; `callback` gets it, once, during a later poll or [`Endpoint::reap`].
    #[inline(always)]
    pub fn then(
        self,
        callback: impl FnOnce(&mut Context<'_>, &ReceiveOutcome<'_>) + Send + 'static,
    ) -> Result<Operation, ReceiveError> {
        let Self { endpoint, wanted } = self;
        let core = &mut *endpoint.core();
        let callback = || ReceiveCallback::new(callback);
        let asked = match wanted.exact() {
            Some(exact) => core.ask_with_callback(exact, callback),
            None => Err(callback()),
        };
        let callback = match asked {
            Ok(id) => return Ok(Operation(id)),
            Err(callback) => callback,
        };
        let mut context = Context { outbox: core.transport.outbox(), state: &mut core.state };
        then(&mut context, &wanted.again(), callback)
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
        if let Some(exact) = wanted.exact()
            && let Some(id) = core.state.operations.vacant_id()
        {
            if core.takes_left {
                let mut left = ShortReceived::default();
                if core.take_short(exact, |_, label, message| left.put(label, message)) {
                    let mut context = Context { outbox: core.transport.outbox(), state: &mut core.state };
                    left.give(|outcome| callback(&mut context, outcome));
                    return Ok(None);
                }
            }
            if core.is_posted_at_once(id, exact, exact.room as usize) {
                let callback = || ReceiveCallback::new(callback);
                core.state.operations.add_receive_at_once(exact.from.session, exact.room, callback);
                return Ok(Some(Operation(id)));
            }
        }
        match left_or_then(core, wanted.again(), callback) {
            Ok(operation) => Ok(operation),
            Err(error) => Err(*error),
        }
    }

    /// Asks for the message; it becomes an event with this token, in a later poll or [`Endpoint::reap`].
    #[inline]
    pub fn post(self, token: u64) -> Result<Operation, ReceiveError> {
        let core = &mut *self.endpoint.core();
        let mut context = Context { outbox: core.transport.outbox(), state: &mut core.state };
        post(&mut context, &self.wanted, token)
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
        let callback = || ReceiveCallback::new(callback);
        let asked = match wanted.exact() {
            Some(exact) => context.ask_with_callback(exact, callback),
            None => Err(callback()),
        };
        match asked {
            Ok(id) => Ok(Operation(id)),
            Err(callback) => then(context, &wanted.again(), callback),
        }
    }

    /// Asks for the message; it becomes an event with this token, in a later poll or later in this one.
    #[inline]
    pub fn post(self, token: u64) -> Result<Operation, ReceiveError> {
        post(self.context, &self.wanted, token)
    }
}

fn then(
    context: &mut Context<'_>,
    wanted: &Wanted,
    callback: ReceiveCallback,
) -> Result<Operation, ReceiveError> {
    let (id, outcome) = begin_with(context, wanted, callback)?;
    if let Some(outcome) = outcome {
        let callback = context.state.operations.take_callback_back(id);
        context.state.messages.ended.push_received(outcome, callback);
    }
    Ok(Operation(id))
}

/// Gives `callback` a message that was left or kept, or asks for it. By itself and called cold, though one receive after the other may take
/// this way, so that nothing is made ready for it where a receive is posted at once: short ones take a tenth more otherwise.
#[cold]
#[inline(never)]
fn left_or_then(
    core: &mut Core,
    wanted: Wanted,
    callback: impl FnOnce(&mut Context<'_>, &ReceiveOutcome<'_>) + Send + 'static,
) -> Result<Option<Operation>, Box<ReceiveError>> {
    let callback = match wanted.exact() {
        Some(exact) => core.give_left(exact, callback),
        None => Some(callback),
    };
    let Some(callback) = callback else { return Ok(None) };
    let mut context = Context { outbox: core.transport.outbox(), state: &mut core.state };
    let (id, outcome) = begin_with(&mut context, &wanted, ReceiveCallback::new(callback))?;
    let Some(outcome) = outcome else { return Ok(Some(Operation(id))) };
    let callback = context.state.operations.take_callback_back(id);
    give(outcome, |outcome| callback.run(&mut context, outcome));
    Ok(None)
}

/// Asks for a message; gives what came of it if it has ended at once.
fn begin_with(
    context: &mut Context<'_>,
    wanted: &Wanted,
    callback: ReceiveCallback,
) -> Result<(CallId, Option<Result<KeptMessage, ReceiveError>>), ReceiveError> {
    begin(context.outbox, context.state, wanted, |operations, session, timeout, bytes_max| {
        operations.add_receive_callback(session, timeout, bytes_max, callback)
    })
}

#[inline]
fn post(context: &mut Context<'_>, wanted: &Wanted, token: u64) -> Result<Operation, ReceiveError> {
    let (id, message) =
        begin(context.outbox, context.state, wanted, |operations, session, timeout, bytes_max| {
            operations.add_receive_event(session, timeout, bytes_max, token)
        })?;
    if let Some(outcome) = message {
        context.state.operations.cancel(id);
        context.state.stored_events.push_back(StoredEvent::Received { token, outcome });
    }
    Ok(Operation(id))
}
