//! Sends and receives that ended when they began.
//!
//! Their callbacks run in a poll, or when the endpoint is asked to reap, so that a callback may begin the
//! next operation to any depth without using the stack.

use core::mem::{forget, replace, take};

use farcall_transport::{Arrived, Incoming, Short, Tag};

use super::end::outcome_of;
use super::outcome::{Envelope, KeptMessage, ReceiveError, ReceiveOutcome, Received};
use crate::endpoint::completion::{Callback, OfReceive, OfSend, Place};
use crate::endpoint::context::{Context, Operation};
use crate::endpoint::poll::Core;
use crate::endpoint::sessions::Peer;
use crate::endpoint::slab::NO_SESSION;
use crate::endpoint::state::State;

/// Operations that ended when they began, until their callbacks run: of each kind the oldest first. Callbacks
/// stay where they were made until they have run.
#[derive(Default)]
pub struct EndedAtOnce {
    /// Sends, all of which have left well: one that cannot be sent is refused.
    sent: DoubleBuffer<Place<OfSend>>,
    /// Receives whose message was there already, or that can have none.
    received: DoubleBuffer<EndedReceive>,
}

/// A receive that ended when it began.
#[derive(Default)]
pub struct EndedReceive {
    callback: Place<OfReceive>,
    /// How it ended, unless with a short message.
    otherwise: Option<Result<KeptMessage, ReceiveError>>,
    message: ShortReceived,
}

/// A short message that a receive was given when it began.
pub struct ShortReceived {
    envelope: Envelope,
    short: Short,
}

impl Default for ShortReceived {
    fn default() -> Self {
        let nobody = Peer { session: NO_SESSION, rank: 0, endpoint: 0 };
        Self { envelope: Envelope::new(nobody, Tag(0)), short: Short::default() }
    }
}

impl ShortReceived {
    #[inline]
    pub fn put(&mut self, envelope: Envelope, message: &[u8]) {
        self.short = Short::new(message).expect("it is short");
        self.envelope = envelope;
    }

    /// Gives `callback` the message.
    #[inline]
    pub fn give(&self, callback: impl FnOnce(&ReceiveOutcome<'_>)) {
        let payload = Incoming::Borrowed(&self.short);
        callback(&Ok(Received { peer: self.envelope.peer(), tag: self.envelope.tag(), payload }));
    }
}

impl EndedAtOnce {
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.sent.is_empty() && self.received.is_empty()
    }

    /// The message of the next receive that ends when it begins; [`EndedAtOnce::received`] follows.
    #[inline]
    pub fn put_next(&mut self, envelope: Envelope, room: u32, arrived: Arrived<'_>) {
        let place = self.received.vacant();
        match arrived {
            Arrived::InPlace(message) => place.message.put(envelope, message),
            Arrived::Kept(_) => place.otherwise = Some(outcome_of(envelope, room, arrived)),
        }
    }

    /// A receive has ended when it began, with the message that is in its place.
    #[inline]
    pub fn received(&mut self, callback: impl FnOnce() -> Callback<OfReceive>) {
        self.received.fill(|ended| ended.callback.put(callback));
    }

    /// A receive has ended when it began, without a message.
    pub fn failed(&mut self, error: ReceiveError, callback: Callback<OfReceive>) {
        self.received.vacant().otherwise = Some(Err(error));
        self.received(|| callback);
    }
}

impl State {
    /// A send has left when it was asked for. There is no operation for it.
    #[inline]
    pub fn sent_at_once(&mut self, callback: impl FnOnce() -> Callback<OfSend>) -> Option<Operation> {
        self.messages.ended.sent.fill(|place| place.put(callback));
        None
    }
}

impl Core {
    /// Runs the callbacks of operations that ended when they began; those that end meanwhile wait for the
    /// next time. What one panics with is kept for the caller.
    #[inline]
    pub fn run_ended(&mut self) -> usize {
        let EndedAtOnce { sent, received } = &self.state.messages.ended;
        let (has_sent, has_received) = (!sent.is_empty(), !received.is_empty());
        let sends = if has_sent { self.run_buffer(|ended| &mut ended.sent) } else { 0 };
        let receives = if has_received { self.run_buffer(|ended| &mut ended.received) } else { 0 };
        sends + receives
    }

    /// Runs the callbacks of a buffer; says how many there were.
    ///
    /// Out of line for each, as seldom both have any.
    #[inline(never)]
    fn run_buffer<E: AtOnce>(&mut self, buffer: impl Fn(&mut EndedAtOnce) -> &mut DoubleBuffer<E>) -> usize {
        let Self { transport, state, .. } = self;
        let Some(Taken { places: mut ended, filled }) = buffer(&mut state.messages.ended).take() else {
            return 0;
        };
        let mut left = ended[..filled].iter_mut();
        let outbox = &mut **transport;
        let went_well = state.guard_to_the_end(|state| {
            let mut context = Context { outbox, state };
            left.by_ref().for_each(|ended| ended.run(&mut context));
        });
        if !went_well {
            ended.iter_mut().for_each(E::clear);
        }
        buffer(&mut state.messages.ended).give_back(ended);
        filled
    }
}

/// What ended when it began.
trait AtOnce: Default {
    /// Runs its callback.
    fn run(&mut self, context: &mut Context<'_>);

    /// Drops what is left of a callback that panicked.
    fn clear(&mut self);
}

impl AtOnce for Place<OfSend> {
    #[inline]
    fn run(&mut self, context: &mut Context<'_>) {
        self.run(context, &Ok(()));
    }

    fn clear(&mut self) {
        self.clear();
    }
}

impl AtOnce for EndedReceive {
    #[inline]
    fn run(&mut self, context: &mut Context<'_>) {
        if self.otherwise.is_some() {
            return self.run_slowly(context);
        }
        let Self { callback, message, .. } = self;
        message.give(|outcome| callback.run(context, outcome));
    }

    fn clear(&mut self) {
        self.callback.clear();
    }
}

impl EndedReceive {
    #[inline(never)]
    fn run_slowly(&mut self, context: &mut Context<'_>) {
        if let Some(outcome) = take(&mut self.otherwise) {
            give_kept(outcome, |outcome| self.callback.run(context, outcome));
        }
    }
}

/// Gives `callback` what a receive came to when it began.
pub fn give_kept(outcome: Result<KeptMessage, ReceiveError>, callback: impl FnOnce(&ReceiveOutcome<'_>)) {
    match outcome {
        Ok(message) => {
            callback(&Ok(message.received()));
        }
        Err(error) => callback(&Err(error)),
    }
}

/// Places that stay where they are while they are filled, and whose memory is kept for the next. Only
/// pointers to them move.
#[derive(Debug)]
struct DoubleBuffer<T> {
    places: Places<T>,
    /// How many of them are filled: the first ones.
    filled: usize,
    /// Memory for what comes while others are dealt with.
    spare: Option<Places<T>>,
}

/// A vector is three words, which would be moved with stalls.
type Places<T> = Box<Vec<T>>;

/// What was filled.
struct Taken<T> {
    places: Places<T>,
    /// How many of the places: the first ones.
    filled: usize,
}

impl<T> Default for DoubleBuffer<T> {
    fn default() -> Self {
        Self { places: Box::default(), filled: 0, spare: None }
    }
}

impl<T: Default> DoubleBuffer<T> {
    #[inline]
    fn is_empty(&self) -> bool {
        self.filled == 0
    }

    /// The place that is filled next. It counts when [`DoubleBuffer::fill`] fills it.
    #[inline]
    fn vacant(&mut self) -> &mut T {
        if self.filled == self.places.len() {
            self.grow();
        }
        &mut self.places[self.filled]
    }

    #[cold]
    fn grow(&mut self) {
        self.places.push(T::default());
    }

    #[inline]
    fn fill(&mut self, fill: impl FnOnce(&mut T)) {
        fill(self.vacant());
        self.filled += 1;
    }

    /// What was filled, which is not from now on; `None` when nothing was. [`DoubleBuffer::give_back`]
    /// follows.
    #[inline]
    fn take(&mut self) -> Option<Taken<T>> {
        if self.is_empty() {
            return None;
        }
        let spare = self.spare.take().unwrap_or_default();
        Some(Taken { places: replace(&mut self.places, spare), filled: take(&mut self.filled) })
    }

    /// Takes the memory back.
    #[inline]
    fn give_back(&mut self, places: Places<T>) {
        // Nothing took its place: a drop would look.
        forget(self.spare.replace(places));
    }
}
