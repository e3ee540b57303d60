//! Sends: waited for, awaited, with a callback, or posted.

use core::future::IntoFuture;
use core::time::Duration;

use farcall_transport::{Outgoing, Tag};

use super::begin::{Begun, Destinations, begin, begin_at};
use super::outcome::SendError;
use super::sending::{Sending, SendingOrRefused};
use crate::endpoint::Endpoint;
use crate::endpoint::callback::SendCallback;
use crate::endpoint::context::{Context, Operation};
use crate::endpoint::slab::Completion;
use crate::endpoint::slab::OpHandle;
use crate::endpoint::state::State;

/// A message that is about to be sent. Nothing is sent before one of `wait`, `start`, `then`, `now_or_then`, `post` or `.await`.
///
/// A send is complete when its memory is free again and the message cannot be taken back: a slice was copied, a loan was
/// handed over, a shared payload is let go of. That the peer has received the message is not said by it. The message
/// leaves with the endpoint's next poll at the latest.
#[must_use = "a message is sent by `wait`, `start`, `then`, `now_or_then`, `post` or `.await`"]
pub struct SendMessage<'e, 'p> {
    pub(in crate::endpoint) endpoint: &'e Endpoint,
    pub(in crate::endpoint) to: Destinations<'p>,
    pub(in crate::endpoint) tag: Tag,
    pub(in crate::endpoint) payload: Outgoing<'p>,
    pub(in crate::endpoint) timeout: Option<Duration>,
}

impl<'e> SendMessage<'e, '_> {
    /// Sets how long it may take until there is room, instead of the endpoint's `message_timeout`.
    pub fn within(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Sends the message and polls the endpoint until it has left.
    pub fn wait(self) -> Result<(), SendError> {
        let endpoint = self.endpoint;
        let sending = self.start()?;
        // It may be complete: there may be nothing to idle for.
        endpoint.poll_once();
        sending.wait()
    }

    /// Sends the message now; the future that is returned completes with it.
    #[inline(always)]
    pub fn start(self) -> Result<Sending<'e>, SendError> {
        let Self { endpoint, to, tag, payload, timeout } = self;
        let (mut core, begun) = begin_at(endpoint, to, tag, payload);
        match begun? {
            Begun::Done => Ok(Sending { endpoint, handle: OpHandle::NONE }),
            Begun::Pending(parts) => {
                let id = parts.follow(&mut core.state, timeout, Completion::Future(None));
                Ok(Sending { endpoint, handle: OpHandle::of(id) })
            }
        }
    }

    /// Sends the message; `callback` gets the outcome, once, during a later poll or [`Endpoint::reap`]. There is an operation if
    /// it is still in flight.
    #[inline(always)]
    pub fn then(
        self,
        callback: impl FnOnce(&mut Context<'_>, Result<(), SendError>) + Send + 'static,
    ) -> Result<Option<Operation>, SendError> {
        let Self { endpoint, to, tag, payload, timeout } = self;
        let (mut core, begun) = begin_at(endpoint, to, tag, payload);
        then(&mut core.state, begun?, timeout, callback)
    }

    /// As [`SendMessage::then`], but if the message leaves at once, `callback` runs before this returns.
    ///
    /// Nothing is kept then, and nothing is to be reaped. But `callback` must not need what its caller holds, such as a lock, and it
    /// runs before those of sends that ended earlier and have yet to be reaped.
    ///
    /// # Panics
    /// With what `callback` panics with when it runs at once.
    #[inline(always)]
    pub fn now_or_then(
        self,
        callback: impl FnOnce(&mut Context<'_>, Result<(), SendError>) + Send + 'static,
    ) -> Result<Option<Operation>, SendError> {
        let Self { endpoint, to, tag, payload, timeout } = self;
        let (mut core, begun) = begin_at(endpoint, to, tag, payload);
        let context = &mut core.context();
        match begun? {
            Begun::Done => {
                callback(context, Ok(()));
                Ok(None)
            }
            Begun::Pending(parts) => {
                let completion = Completion::Sent(SendCallback::new(callback));
                Ok(Some(Operation(parts.follow(context.state, timeout, completion))))
            }
        }
    }

    /// Sends the message; its end is an event with this token, in a later poll or [`Endpoint::reap`]. There is an operation if it
    /// is still in flight.
    pub fn post(self, token: u64) -> Result<Option<Operation>, SendError> {
        post(&mut self.endpoint.core().context(), self.to, self.tag, self.payload, self.timeout, token)
    }
}

impl<'e> IntoFuture for SendMessage<'e, '_> {
    type Output = Result<(), SendError>;
    type IntoFuture = SendingOrRefused<'e>;

    /// Sends the message.
    fn into_future(self) -> SendingOrRefused<'e> {
        SendingOrRefused(self.start().map_err(Some))
    }
}

/// A message that a handler or callback is about to send.
pub struct ContextSend<'c, 'a, 'p> {
    pub(in crate::endpoint) context: &'c mut Context<'a>,
    pub(in crate::endpoint) to: Destinations<'p>,
    pub(in crate::endpoint) tag: Tag,
    pub(in crate::endpoint) payload: Outgoing<'p>,
    pub(in crate::endpoint) timeout: Option<Duration>,
}

impl ContextSend<'_, '_, '_> {
    /// Sets how long it may take until there is room, instead of the endpoint's `message_timeout`.
    pub fn within(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Sends the message; `callback` gets the outcome, once, during a later poll or [`Endpoint::reap`].
    #[inline(always)]
    pub fn then(
        self,
        callback: impl FnOnce(&mut Context<'_>, Result<(), SendError>) + Send + 'static,
    ) -> Result<Option<Operation>, SendError> {
        let Self { context, to, tag, payload, timeout } = self;
        let begun = begin(context, to, tag, payload)?;
        then(context.state, begun, timeout, callback)
    }

    /// Sends the message; nobody is told of its end.
    pub fn detach(self) -> Result<(), SendError> {
        let Self { context, to, tag, payload, timeout } = self;
        if let Begun::Pending(parts) = begin(context, to, tag, payload)? {
            parts.follow(context.state, timeout, Completion::Nobody);
        }
        Ok(())
    }

    /// Sends the message; its end is an event with this token, in a later poll.
    #[inline]
    pub fn post(self, token: u64) -> Result<Option<Operation>, SendError> {
        post(self.context, self.to, self.tag, self.payload, self.timeout, token)
    }
}

/// Says how a send completes that has begun.
#[inline(always)]
fn then(
    state: &mut State,
    begun: Begun,
    timeout: Option<Duration>,
    callback: impl FnOnce(&mut Context<'_>, Result<(), SendError>) + Send + 'static,
) -> Result<Option<Operation>, SendError> {
    Ok(match begun {
        Begun::Done => state.ended_at_once(|| SendCallback::new(callback)),
        Begun::Pending(parts) => {
            let completion = Completion::Sent(SendCallback::new(callback));
            Some(Operation(parts.follow(state, timeout, completion)))
        }
    })
}

#[inline(always)]
fn post(
    context: &mut Context<'_>,
    to: Destinations<'_>,
    tag: Tag,
    payload: Outgoing<'_>,
    timeout: Option<Duration>,
    token: u64,
) -> Result<Option<Operation>, SendError> {
    match begin(context, to, tag, payload)? {
        Begun::Done => {
            context.state.stored_events.sent_at_once.push_back(token);
            Ok(None)
        }
        Begun::Pending(parts) => {
            Ok(Some(Operation(parts.follow(context.state, timeout, Completion::Event(token)))))
        }
    }
}
