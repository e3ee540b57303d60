//! Receives: how one is posted, and has its message at once if that is here already; and how its message is
//! waited for.

use core::future::{Future, IntoFuture};
use core::mem::ManuallyDrop;
use core::pin::Pin;
use core::task::{Context as TaskContext, Poll};
use core::time::Duration;

use farcall_transport::{
    Arrived, CallId, DownReason, Incoming, MessageId, Origin, Outbox, Posted, SessionId, Short, Source, Tag,
};

use super::Wanted;
use super::at_once::give_kept;
use super::end::outcome_of;
use super::outcome::{Envelope, KeptMessage, Message, ReceiveError, ReceiveOutcome, Received};
use crate::endpoint::Endpoint;
use crate::endpoint::completion::{AsEvent, AsFuture, Callback, Ended, OfReceive};
use crate::endpoint::context::{Context, Operation};
use crate::endpoint::event::StoredEvent;
use crate::endpoint::future::{OrRefused, Unfetched};
use crate::endpoint::poll::Core;
use crate::endpoint::sessions::Peer;
use crate::endpoint::slab::OPERATIONS_MAX;
use crate::endpoint::state::State;

/// A receive that is about to be made. It asks for nothing before one of `wait`, `start`, `then`,
/// `now_or_then`, `post` or `.await`.
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

    /// Polls the endpoint until there is a message and copies it to the beginning of `buffer`, which it must
    /// not be longer than; gives its length.
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
        Ok(Receiving { receive: Unfetched::new(endpoint, id) })
    }

    /// Asks for the message; `callback` gets it, once, during a later poll or [`Endpoint::reap`].
    #[inline(always)]
    pub fn then(
        self,
        callback: impl FnOnce(&mut Context<'_>, &ReceiveOutcome<'_>) + Send + 'static,
    ) -> Result<Operation, ReceiveError> {
        let Self { endpoint, wanted } = self;
        then(&mut endpoint.core().context(), wanted, || Callback::<OfReceive>::new(callback))
    }

    /// As [`ReceiveMessage::then`], but if the message is there already, `callback` gets it before this
    /// returns, and there is no operation.
    ///
    /// For a caller that asks for one message after the other: nothing is kept, and nothing is to be reaped.
    /// But `callback` must not need what its caller holds, such as a lock, and it runs before those of
    /// receives that ended earlier and have yet to be reaped.
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
    type IntoFuture = OrRefused<Receiving<'e>, ReceiveError>;

    /// Asks for the message.
    fn into_future(self) -> Self::IntoFuture {
        OrRefused::new(self.start())
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
        then(context, wanted, || Callback::<OfReceive>::new(callback))
    }

    /// Asks for the message; it becomes an event with this token, in a later poll or later in this one.
    #[inline]
    pub fn post(self, token: u64) -> Result<Operation, ReceiveError> {
        post(self.context, self.wanted, token)
    }
}

/// A receive in flight. Some task or thread must poll the endpoint for it to progress.
///
/// Dropping it gives the receive up; if it has its message already, that is lost.
#[must_use = "dropping it gives up the receive"]
pub struct Receiving<'e> {
    receive: Unfetched<'e, OfReceive>,
}

impl<'e> Receiving<'e> {
    /// Whether the message is there, so that `wait` will not block.
    #[inline]
    pub fn is_complete(&self) -> bool {
        self.receive.is_complete()
    }

    /// The message if it is there, or else the receive again.
    #[inline]
    pub fn ready(mut self) -> Result<Result<Message<'e>, ReceiveError>, Self> {
        if !self.is_complete() {
            return Err(self);
        }
        let result = self.receive.fetch(None).expect("it is complete");
        Ok(self.message(result))
    }

    /// Polls the endpoint until the message is there.
    ///
    /// Always inlined, and what takes long gives less than a message: one that is there is in memory where
    /// the caller has it, and nowhere before.
    #[inline(always)]
    pub fn wait(self) -> Result<Message<'e>, ReceiveError> {
        let endpoint = self.receive.endpoint();
        let message =
            self.receive.operation().and_then(|id| endpoint.core().state.operations.fetch_message(id));
        // Nothing is to be given up if the message was there, and else it is a receive again at once.
        let waiting = ManuallyDrop::new(self);
        match message {
            Some(message) => Ok(Message::new(message, endpoint)),
            None => {
                let mut receive = ManuallyDrop::into_inner(waiting).receive;
                receive.wait().map(|message| Message::new(message, endpoint))
            }
        }
    }

    /// Gives the receive up: [`ReceiveError::Cancelled`], unless it has its message already.
    pub fn cancel(self) -> Result<Message<'e>, ReceiveError> {
        self.receive.cancel();
        self.wait()
    }

    fn message(&self, result: Result<KeptMessage, ReceiveError>) -> Result<Message<'e>, ReceiveError> {
        result.map(|message| Message::new(message, self.receive.endpoint()))
    }
}

impl<'e> Future for Receiving<'e> {
    type Output = Result<Message<'e>, ReceiveError>;

    fn poll(mut self: Pin<&mut Self>, task: &mut TaskContext<'_>) -> Poll<Self::Output> {
        match self.receive.fetch(Some(task.waker())) {
            Some(result) => Poll::Ready(self.message(result)),
            None => Poll::Pending,
        }
    }
}

/// Asks for a message. A short one that is here already is copied; a longer one that was deferred is for the
/// next poll.
#[inline(always)]
fn then(
    context: &mut Context<'_>,
    wanted: Wanted,
    callback: impl FnOnce() -> Callback<OfReceive>,
) -> Result<Operation, ReceiveError> {
    let (id, room) = (context.next_receive()?, wanted.room);
    let short_bytes_max = (room as usize).min(Short::BYTES_MAX);
    let asked = context.ask(id, wanted, short_bytes_max, move |_, state, envelope, arrived| {
        state.messages.ended.put_next(envelope, room, arrived);
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

/// Gives `callback` a message that is here already, where it lies, or asks for one. What `callback` panics
/// with is kept.
#[inline(always)]
fn now_or_then(
    context: &mut Context<'_>,
    wanted: Wanted,
    callback: impl FnOnce(&mut Context<'_>, &ReceiveOutcome<'_>) + Send + 'static,
) -> Result<Option<Operation>, ReceiveError> {
    let (id, room) = (context.next_receive()?, wanted.room);
    let mut callback = Some(callback);
    let asked = context.ask(id, wanted, room as usize, |outbox, state, envelope, arrived| {
        let Some(callback) = callback.take() else { return };
        state.guard(|state| give(&mut Context { outbox, state }, envelope, room, arrived, callback));
    });
    let Some(callback) = callback else { return Ok(None) };
    match asked {
        Asked::Waiting(session) => {
            let callback = || Callback::<OfReceive>::new(callback);
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
    envelope: Envelope,
    room: u32,
    arrived: Arrived<'_>,
    callback: impl FnOnce(&mut Context<'_>, &ReceiveOutcome<'_>),
) {
    match arrived {
        Arrived::InPlace(message) => {
            let payload = Incoming::Borrowed(message);
            callback(context, &Ok(Received { peer: envelope.peer(), tag: envelope.tag(), payload }));
        }
        Arrived::Kept(_) => {
            give_kept(outcome_of(envelope, room, arrived), |outcome| callback(context, outcome));
        }
    }
}

#[inline]
fn post(context: &mut Context<'_>, wanted: Wanted, token: u64) -> Result<Operation, ReceiveError> {
    let (id, room) = (context.next_receive()?, wanted.room);
    let asked = context.ask(id, wanted, room as usize, move |_, state, envelope, arrived| {
        let outcome = outcome_of(envelope, room, arrived);
        state.stored_events.push_back(StoredEvent::Ended { token, ended: Ended::Receive(outcome) });
    });
    match asked {
        Asked::Waiting(session) => {
            context.state.operations.add_receive(session, wanted.timeout, room, AsEvent(token));
            return Ok(Operation(id));
        }
        Asked::Delivered => {}
        Asked::Down => {
            let outcome = Err(context.why_down(wanted.session()));
            context
                .state
                .stored_events
                .push_back(StoredEvent::Ended { token, ended: Ended::Receive(outcome) });
        }
    }
    context.state.operations.pass_receive();
    Ok(Operation(id))
}

/// What became of a receive that was posted under the number of the next operation.
pub enum Asked {
    /// It waits, as long as that session is up.
    Waiting(SessionId),
    /// Its message was delivered.
    Delivered,
    /// It can have none: its session is down, and there is no other to that endpoint.
    Down,
}

impl Context<'_> {
    /// The number of the next operation.
    #[inline]
    pub(super) fn next_receive(&mut self) -> Result<CallId, ReceiveError> {
        self.state.operations.next_id().ok_or_else(too_many)
    }

    /// Posts a receive. A message that is here already goes to `deliver`: one that was deferred, if it is not
    /// longer than `in_place_bytes_max`, or one that was kept.
    ///
    /// Always inlined, so that what is wanted stays in registers.
    #[inline(always)]
    pub(super) fn ask(
        &mut self,
        id: CallId,
        wanted: Wanted,
        in_place_bytes_max: usize,
        mut deliver: impl FnMut(&mut dyn Outbox, &mut State, Envelope, Arrived<'_>),
    ) -> Asked {
        let Wanted { from, tag, .. } = wanted;
        match (self.post(id, from, tag, in_place_bytes_max, &mut deliver), from) {
            (Posted::Waiting, _) => Asked::Waiting(wanted.session()),
            (Posted::Delivered, _) => Asked::Delivered,
            (Posted::Down, Some(Peer { rank, endpoint, .. })) => {
                self.ask_elsewhere(id, (rank, endpoint), tag, in_place_bytes_max, &mut deliver)
            }
            (Posted::Down, None) => Asked::Down,
        }
    }

    /// Asks again by another session to the same endpoint, if there is one.
    #[cold]
    fn ask_elsewhere(
        &mut self,
        id: CallId,
        (rank, endpoint): (u32, u32),
        tag: Option<Tag>,
        in_place_bytes_max: usize,
        deliver: &mut impl FnMut(&mut dyn Outbox, &mut State, Envelope, Arrived<'_>),
    ) -> Asked {
        let Some(other) = self.state.sessions.find(rank, endpoint) else { return Asked::Down };
        match self.post(id, Some(other), tag, in_place_bytes_max, deliver) {
            Posted::Waiting => Asked::Waiting(other.session),
            Posted::Delivered => Asked::Delivered,
            Posted::Down => Asked::Down,
        }
    }

    #[inline(always)]
    fn post(
        &mut self,
        id: CallId,
        from: Option<Peer>,
        tag: Option<Tag>,
        in_place_bytes_max: usize,
        deliver: &mut impl FnMut(&mut dyn Outbox, &mut State, Envelope, Arrived<'_>),
    ) -> Posted {
        let Self { outbox, state } = self;
        let mut deliver = |outbox: &mut dyn Outbox, session: SessionId, tag: Tag, arrived: Arrived<'_>| {
            state.counters.received.increment();
            let envelope = Envelope::new(state.sessions.peer_of(session), tag);
            deliver(outbox, state, envelope, arrived);
        };
        outbox.post(MessageId(id.0), from.map(origin_of), tag, in_place_bytes_max, &mut deliver)
    }

    /// Why a receive can have no message that asks for one of this session.
    pub(super) fn why_down(&self, session: SessionId) -> ReceiveError {
        let reason = self.state.sessions.reason_of(session).cloned();
        ReceiveError::PeerDown(reason.unwrap_or(DownReason::Closed))
    }
}

impl Core {
    /// Asks for a message for a future. The operation is there before the receive is posted, so that nothing
    /// has to be kept for what comes behind that, and what is wanted is never in memory.
    #[inline(always)]
    pub(super) fn ask_for_future(&mut self, wanted: Wanted) -> Result<CallId, ReceiveError> {
        let (session, Wanted { from, tag, room, timeout }) = (wanted.session(), wanted);
        let added = self.state.operations.add_receive(session, timeout, room, AsFuture);
        let id = added.ok_or_else(too_many)?;
        let posted = self.context().post(id, from, tag, room as usize, &mut to_future(id, room));
        if posted == Posted::Down
            && let Some(Peer { rank, endpoint, .. }) = from
        {
            self.ask_elsewhere_for_future(id, session, (rank, endpoint), tag, room);
        }
        Ok(id)
    }

    #[cold]
    fn ask_elsewhere_for_future(
        &mut self,
        id: CallId,
        session: SessionId,
        endpoint: (u32, u32),
        tag: Option<Tag>,
        room: u32,
    ) {
        let mut context = self.context();
        match context.ask_elsewhere(id, endpoint, tag, room as usize, &mut to_future(id, room)) {
            Asked::Waiting(other) => self.state.operations.set_session(id, other),
            Asked::Delivered => {}
            Asked::Down => {
                let error = context.why_down(session);
                end_future(&mut self.state, id, Err(error));
            }
        }
    }
}

/// Ends the receive of a future, which is being posted, with a message that is here already.
#[inline(always)]
fn to_future(id: CallId, room: u32) -> impl FnMut(&mut dyn Outbox, &mut State, Envelope, Arrived<'_>) {
    move |_, state, envelope, arrived| match arrived {
        Arrived::InPlace(message) => state.leave_message(id, envelope, message),
        Arrived::Kept(_) => end_future(state, id, outcome_of(envelope, room, arrived)),
    }
}

/// Ends the receive of a future that was never polled.
#[cold]
fn end_future(state: &mut State, id: CallId, outcome: Result<KeptMessage, ReceiveError>) {
    state.operations.end::<OfReceive>(id);
    state.operations.leave::<OfReceive>(id, outcome);
}

fn too_many() -> ReceiveError {
    ReceiveError::TooMany { operations_max: OPERATIONS_MAX }
}

#[inline]
fn origin_of(peer: Peer) -> Origin {
    Origin::new(Source::new(peer.rank, peer.endpoint, peer.session.0), peer.session)
}
