//! How operations complete: one mechanism for calls, sends and receives.
//!
//! An operation ends once, and its end has one taker: a future, which finds it in the slab; a callback, which
//! runs in the poll; or the caller that takes events, now or at a later poll. The kinds of operations differ
//! only in what an end is: see [`Completes`].

use core::task::Waker;

use farcall_transport::{CallId, Incoming, Kept, Outbox, Payload};
use smallbox::space::S4;
use smallbox::{SmallBox, smallbox};

use super::call::{Answer, CallError, Outcome};
use super::context::Context;
use super::event::{Event, StoredEvent};
use super::future::OnDrop;
use super::message::{Envelope, KeptMessage, ReceiveError, ReceiveOutcome, Received, SendError};
use super::slab::{Attachment, Kind, Slot, Stage};
use super::state::State;
use super::turn::Turn;

/// A kind of operation: what its end is, in place and kept.
pub trait Completes: Sized + 'static {
    const KIND: Kind;

    /// What becomes of the operation when its future is dropped.
    const ON_DROP: OnDrop;

    /// The end as callbacks and events get it: what came is read where it lies.
    type End<'a>;

    /// The end in memory that outlives the poll.
    type Kept;

    fn event<'a>(token: u64, end: &'a Self::End<'_>) -> Event<'a>;

    fn keep(state: &mut State, end: &Self::End<'_>) -> Self::Kept;

    fn into_ended(kept: Self::Kept) -> Ended;

    /// `None` for the end of another kind of operation, as of [`Completes::callback`].
    fn of_ended(ended: Ended) -> Option<Self::Kept>;

    /// The end that is a copy of what came; answers have no envelope.
    fn of_copy(copy: KeptMessage) -> Option<Self::Kept>;

    fn attachment(callback: Callback<Self>) -> Attachment;

    fn callback(attachment: Attachment) -> Option<Callback<Self>>;
}

/// Calls end with an answer.
pub enum OfCall {}

/// Sends end when their memory is free.
pub enum OfSend {}

/// Receives end with a message.
pub enum OfReceive {}

/// Who takes the end of an operation.
pub enum Completion<O: Completes> {
    /// A future; its waker, once it has been polled.
    Future(Option<Waker>),
    Callback(Callback<O>),
    /// It becomes an event with this token.
    Event(u64),
    /// No taker: its future was dropped, or there never was one.
    Nobody,
}

/// A [`Completion`] of an operation that begins.
///
/// A trait and not that value, so that operations of futures and those that become events are added without
/// anything that would have to be dropped if there were no slot.
pub trait Taker<O: Completes> {
    fn stage(&self) -> Stage;

    /// Writes into the slot what belongs there; gives what is to be attached to it.
    fn occupy(self, slot: &mut Slot) -> Option<Attachment>;
}

/// The future of an operation that begins.
pub struct AsFuture;

/// The event, with this token, of an operation that begins.
pub struct AsEvent(pub u64);

impl<O: Completes> Taker<O> for AsFuture {
    #[inline]
    fn stage(&self) -> Stage {
        Stage::PendingFuture
    }

    #[inline]
    fn occupy(self, _: &mut Slot) -> Option<Attachment> {
        None
    }
}

impl<O: Completes> Taker<O> for AsEvent {
    #[inline]
    fn stage(&self) -> Stage {
        Stage::PendingEvent
    }

    #[inline]
    fn occupy(self, slot: &mut Slot) -> Option<Attachment> {
        slot.token = self.0;
        None
    }
}

impl<O: Completes> Taker<O> for Completion<O> {
    fn stage(&self) -> Stage {
        match self {
            Self::Event(_) => Stage::PendingEvent,
            Self::Future(None) => Stage::PendingFuture,
            _ => Stage::Pending,
        }
    }

    fn occupy(self, slot: &mut Slot) -> Option<Attachment> {
        match self {
            Self::Event(token) => {
                slot.token = token;
                None
            }
            Self::Future(waker) => waker.map(Attachment::Waker),
            Self::Callback(callback) => Some(O::attachment(callback)),
            Self::Nobody => Some(Attachment::Nobody),
        }
    }
}

/// The end of an operation that waits for its future, or as an event for a poll that takes events.
#[derive(Debug)]
pub enum Ended {
    Call(Result<Kept, CallError>),
    Send(Result<(), SendError>),
    Receive(Result<KeptMessage, ReceiveError>),
}

impl Ended {
    /// Gives `take` the end, as the event with this token.
    pub fn tell(self, token: u64, take: impl FnOnce(Event<'_>)) {
        match self {
            Self::Call(Ok(kept)) => {
                let payload = Payload::from(kept);
                take(OfCall::event(token, &Ok(Answer { payload: &Incoming::Owned(&payload) })));
            }
            Self::Call(Err(error)) => take(OfCall::event(token, &Err(error))),
            Self::Send(outcome) => take(OfSend::event(token, &outcome)),
            Self::Receive(Ok(message)) => take(OfReceive::event(token, &Ok(message.received()))),
            Self::Receive(Err(error)) => take(OfReceive::event(token, &Err(error))),
        }
    }
}

impl Turn<'_, '_> {
    /// Completes an operation that has ended: its end is given to its taker, or kept for it.
    #[inline]
    pub fn complete<O: Completes>(
        &mut self,
        outbox: &mut dyn Outbox,
        id: CallId,
        completion: Completion<O>,
        end: &O::End<'_>,
    ) {
        match completion {
            Completion::Event(token) => self.report::<O>(outbox, token, end),
            Completion::Callback(callback) => {
                self.state.guard(|state| callback.run(&mut Context { outbox, state }, end));
            }
            Completion::Future(waker) => {
                let kept = O::keep(self.state, end);
                self.state.operations.leave::<O>(id, kept);
                self.state.wake(waker);
            }
            Completion::Nobody => {}
        }
    }

    /// Makes an event of an end: for the caller that takes events in this turn, or else for a later one.
    #[inline]
    pub fn report<O: Completes>(&mut self, outbox: &mut dyn Outbox, token: u64, end: &O::End<'_>) {
        if self.tell(|events, state| events(&mut Context { outbox, state }, O::event(token, end))) {
            return;
        }
        let ended = O::into_ended(O::keep(self.state, end));
        self.state.stored_events.push_back(StoredEvent::Ended { token, ended });
    }
}

impl Completes for OfCall {
    const KIND: Kind = Kind::Call;
    const ON_DROP: OnDrop = OnDrop::Cancel;
    type End<'a> = Outcome<'a>;
    type Kept = Result<Kept, CallError>;

    #[inline]
    fn event<'a>(token: u64, outcome: &'a Outcome<'_>) -> Event<'a> {
        Event::Completed { token, outcome }
    }

    fn keep(state: &mut State, outcome: &Outcome<'_>) -> Self::Kept {
        match outcome {
            Ok(answer) => Ok(state.keep(answer.payload)),
            Err(error) => Err(error.clone()),
        }
    }

    fn into_ended(kept: Self::Kept) -> Ended {
        Ended::Call(kept)
    }

    fn of_ended(ended: Ended) -> Option<Self::Kept> {
        if let Ended::Call(kept) = ended { Some(kept) } else { None }
    }

    #[inline]
    fn of_copy(copy: KeptMessage) -> Option<Self::Kept> {
        Some(Ok(copy.payload))
    }

    fn attachment(callback: Callback<Self>) -> Attachment {
        Attachment::Call(callback)
    }

    fn callback(attachment: Attachment) -> Option<Callback<Self>> {
        if let Attachment::Call(callback) = attachment { Some(callback) } else { None }
    }
}

impl Completes for OfSend {
    const KIND: Kind = Kind::Send;
    const ON_DROP: OnDrop = OnDrop::Detach;
    type End<'a> = Result<(), SendError>;
    type Kept = Result<(), SendError>;

    #[inline]
    fn event<'a>(token: u64, outcome: &'a Result<(), SendError>) -> Event<'a> {
        Event::Sent { token, outcome: outcome.clone() }
    }

    fn keep(_: &mut State, outcome: &Result<(), SendError>) -> Self::Kept {
        outcome.clone()
    }

    fn into_ended(kept: Self::Kept) -> Ended {
        Ended::Send(kept)
    }

    fn of_ended(ended: Ended) -> Option<Self::Kept> {
        if let Ended::Send(kept) = ended { Some(kept) } else { None }
    }

    fn of_copy(_: KeptMessage) -> Option<Self::Kept> {
        None
    }

    fn attachment(callback: Callback<Self>) -> Attachment {
        Attachment::Send(callback)
    }

    fn callback(attachment: Attachment) -> Option<Callback<Self>> {
        if let Attachment::Send(callback) = attachment { Some(callback) } else { None }
    }
}

impl Completes for OfReceive {
    const KIND: Kind = Kind::Receive;
    const ON_DROP: OnDrop = OnDrop::Cancel;
    type End<'a> = ReceiveOutcome<'a>;
    type Kept = Result<KeptMessage, ReceiveError>;

    #[inline]
    fn event<'a>(token: u64, outcome: &'a ReceiveOutcome<'_>) -> Event<'a> {
        Event::Received { token, outcome }
    }

    fn keep(state: &mut State, outcome: &ReceiveOutcome<'_>) -> Self::Kept {
        match outcome {
            Ok(Received { peer, tag, payload }) => {
                Ok(KeptMessage { envelope: Envelope::new(*peer, *tag), payload: state.keep(payload) })
            }
            Err(error) => Err(error.clone()),
        }
    }

    fn into_ended(kept: Self::Kept) -> Ended {
        Ended::Receive(kept)
    }

    fn of_ended(ended: Ended) -> Option<Self::Kept> {
        if let Ended::Receive(kept) = ended { Some(kept) } else { None }
    }

    #[inline]
    fn of_copy(copy: KeptMessage) -> Option<Self::Kept> {
        Some(Ok(copy))
    }

    fn attachment(callback: Callback<Self>) -> Attachment {
        Attachment::Receive(callback)
    }

    fn callback(attachment: Attachment) -> Option<Callback<Self>> {
        if let Attachment::Receive(callback) = attachment { Some(callback) } else { None }
    }
}

/// Takes the end of an operation, in a poll.
///
/// It is kept in place if what it captures is no longer than four words, as most do; memory of its own would
/// cost more than all else that a short message does on its way.
pub struct Callback<O: Completes>(SmallBox<dyn Run<O>, S4>);

impl<O: Completes> Callback<O> {
    /// Always inlined, as is what it is called from: a callback can then be made where it stays.
    #[inline(always)]
    pub fn new(callback: impl FnOnce(&mut Context<'_>, &O::End<'_>) + Send + 'static) -> Self {
        Self(smallbox!(Some(callback)))
    }

    #[inline]
    fn run(mut self, context: &mut Context<'_>, end: &O::End<'_>) {
        self.0.run(context, end);
    }
}

impl Callback<OfSend> {
    /// The end of a send is short, and given away.
    #[inline]
    pub fn of_send(callback: impl FnOnce(&mut Context<'_>, Result<(), SendError>) + Send + 'static) -> Self {
        Self::new(move |context, outcome| callback(context, outcome.clone()))
    }
}

trait Run<O: Completes>: Send {
    /// Does nothing if it has been run.
    fn run(&mut self, context: &mut Context<'_>, end: &O::End<'_>);
}

impl<O: Completes, F: FnOnce(&mut Context<'_>, &O::End<'_>) + Send> Run<O> for Option<F> {
    fn run(&mut self, context: &mut Context<'_>, end: &O::End<'_>) {
        if let Some(callback) = self.take() {
            callback(context, end);
        }
    }
}

/// Memory for a callback, which stays where it was made until it has run. The default has none.
///
/// What was put together a moment ago is moved with a stall, because it is read by loads that are wider than
/// the stores it was written by.
#[repr(align(64))]
pub struct Place<O: Completes>(Option<Callback<O>>);

/// Places of which only the pointers move, so that callbacks can run while the slab is used.
pub type ReceivePlaces = Vec<Box<Place<OfReceive>>>;

impl<O: Completes> Default for Place<O> {
    fn default() -> Self {
        Self(None)
    }
}

impl<O: Completes> Place<O> {
    /// Makes a callback where it stays. There must be none: it would leak, because a drop would look at all
    /// of it, just behind the store that emptied the place.
    #[inline(always)]
    pub fn put(&mut self, make: impl FnOnce() -> Callback<O>) {
        core::mem::forget(self.0.replace(make()));
    }

    /// Takes the callback out, to be run elsewhere.
    pub fn take(&mut self) -> Option<Callback<O>> {
        self.0.take()
    }

    /// Drops what is left of a callback that panicked.
    pub fn clear(&mut self) {
        self.0 = None;
    }

    /// Runs the callback, which is gone then.
    #[inline]
    pub fn run(&mut self, context: &mut Context<'_>, end: &O::End<'_>) {
        let Some(callback) = &mut self.0 else { return };
        callback.0.run(context, end);
        if callback.0.is_heap() {
            self.0 = None;
        } else {
            // What it captured was moved out when it ran, so that there is nothing to drop.
            core::mem::forget(self.0.take());
        }
    }
}
