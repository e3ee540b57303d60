//! One call to a shard: waited for, awaited, or with a callback.

use core::future::{Future, IntoFuture, poll_fn};
use core::pin::Pin;
use core::task::{Context as TaskContext, Poll};
use core::time::Duration;

use farcall::{CallError, Clock, Context, Instant, Payload, Pending, Response, Service};

use super::Client;
use super::failure::{Failure, FromCode, no_answer, not_sent};
use super::placement::{FOLLOWS_WITHIN, LOOK_WITHIN, MAP_WITHIN, Route};
use crate::placement::SlotMap;
use crate::store::ReadError;
use crate::wire::{NotReplicated, OnceRequest, SLOT_MAP, identity_after};

/// The time between two tries of a patient client.
const TRY_AGAIN_AFTER: Duration = Duration::from_millis(5);

/// How often an operation is tried again over a new session.
const REPEATS_MAX: usize = 3;

/// Whether an operation may be sent again when its fate is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeat {
    /// It changes nothing, or nothing the second time.
    Always,
    /// Only when it was never sent: it must not happen twice.
    IfNotSent,
}

/// Reads what an answer says.
pub type Decode<T, E> = fn(Payload) -> Result<T, Failure<E>>;

/// An operation that is about to be asked for. Nothing is sent before one of `wait`, `then` or `.await`.
///
/// When the session to the shard has ended, `wait` and `.await` connect again. They repeat what only reads; a
/// write they repeat only when it was never sent, and otherwise say that it has no answer. `then` repeats
/// nothing: when it finds that the session has ended it says so at once, and the next operation connects
/// again.
#[must_use = "an operation is sent by `wait`, `then` or `.await`"]
pub struct Operation<'c, T, E> {
    pub(super) client: &'c Client<'c>,
    pub(super) shard: u32,
    pub(super) route: Route,
    pub(super) service: Service,
    pub(super) message: Vec<u8>,
    pub(super) repeat: Repeat,
    pub(super) timeout: Option<Duration>,
    pub(super) decode: Decode<T, E>,
}

impl<'c, T, E: FromCode> Operation<'c, T, E> {
    /// Sets how long each try may take, instead of the endpoint's `call_timeout`.
    pub fn within(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Asks and polls the endpoint until the answer is there.
    pub fn wait(mut self) -> Result<T, Failure<E>> {
        let mut repeats = Repeats::new(self.client);
        loop {
            let outcome = self.start().and_then(|pending| pending.wait().map_err(no_answer));
            match outcome.and_then(|response| (self.decode)(response.take())) {
                Err(Failure::WrongShard) if self.is_followed(&mut repeats) => {
                    if let Some(asked) = self.asks_for_map()
                        && !self.is_found(asked.wait())
                    {
                        return Err(Failure::WrongShard);
                    }
                    while !repeats.is_due() {
                        self.client.endpoint.poll_once();
                    }
                }
                Err(failure) if self.goes_on(&failure, &mut repeats) => {
                    if let Some(asked) = self.asks_another(&failure)
                        && !self.is_still_here(asked.wait())
                    {
                        return Err(Failure::WrongShard);
                    }
                    while !repeats.is_due() {
                        self.client.endpoint.poll_once();
                    }
                }
                outcome => return outcome,
            }
        }
    }

    /// Asks; `callback` gets the outcome, once, during a later poll. It is asked once only. An error is that
    /// nothing was sent, and then there is no callback.
    pub fn then(
        self,
        callback: impl FnOnce(&mut Context<'_>, Result<T, Failure<E>>) + Send + 'static,
    ) -> Result<(), Failure<E>>
    where
        T: 'static,
        E: 'static,
    {
        let (decode, placement) = (self.decode, self.client.placement.clone());
        let started = self.call(self.client.endpoint.resolve_timeout())?.then(move |context, outcome| {
            let outcome = outcome.as_ref().map(|answer| answer.take());
            let outcome = outcome.map_err(|error: &CallError| no_answer(error.clone())).and_then(decode);
            if matches!(outcome, Err(Failure::WrongShard)) {
                placement.refused();
            }
            callback(context, outcome);
        });
        started.map(drop).map_err(|error| {
            let failure = not_sent(error);
            self.forget_if_down(&failure);
            failure
        })
    }

    async fn done(self) -> Result<T, Failure<E>> {
        self.done_somewhere().await.outcome
    }

    /// The same, and by whom.
    pub(super) async fn done_somewhere(mut self) -> Done<T, E> {
        let mut may_be_done = false;
        let outcome = self.ask_until_done(&mut may_be_done).await;
        Done { shard: self.shard, may_be_done, outcome }
    }

    async fn ask_until_done(&mut self, may_be_done: &mut bool) -> Result<T, Failure<E>> {
        let mut repeats = Repeats::new(self.client);
        loop {
            let outcome = match self.start() {
                Ok(pending) => pending.await.map_err(no_answer),
                Err(failure) => Err(failure),
            };
            let outcome = outcome.and_then(|response| (self.decode)(response.take()));
            if matches!(outcome, Err(Failure::Forgotten)) && self.is_taken_elsewhere().await {
                continue;
            }
            match outcome {
                Err(Failure::WrongShard) if self.follows_refusals() => {
                    if !self.follow(&mut repeats).await {
                        return Err(Failure::WrongShard);
                    }
                }
                Err(failure) if self.goes_on(&failure, &mut repeats) => {
                    *may_be_done |= !failure.passes();
                    if let Some(asked) = self.asks_another(&failure)
                        && !self.is_still_here(asked.await)
                    {
                        return Err(Failure::WrongShard);
                    }
                    poll_fn(|context| repeats.poll_due(context)).await;
                }
                outcome => return outcome,
            }
        }
    }

    /// Goes to where the object is by now, after its shard has refused it; says whether to ask again.
    pub(super) async fn follow(&mut self, repeats: &mut Repeats) -> bool {
        if !self.is_followed(repeats) {
            return false;
        }
        if let Some(asked) = self.asks_for_map()
            && !self.is_found(asked.await)
        {
            return false;
        }
        poll_fn(|context| repeats.poll_due(context)).await;
        true
    }

    /// Whether a shard that has refused an object, because its hash slot is elsewhere, is left for another.
    fn is_followed(&self, repeats: &mut Repeats) -> bool {
        self.follows_refusals() && repeats.follows()
    }

    fn follows_refusals(&self) -> bool {
        matches!(self.route, Route::Waiting | Route::Slot(_))
    }

    /// Asks another shard for the map when the one of the operation is away: its slots may have been taken
    /// over.
    fn asks_another(&self, failure: &Failure<E>) -> Option<Pending<'c>> {
        let is_away = matches!(failure, Failure::NotConnected(_) | Failure::NoAnswer(_));
        if !is_away || self.route == Route::Fixed || self.client.shards() == 1 {
            return None;
        }
        self.asks_for_map_of(self.client.another_than(self.shard))
    }

    /// Whether others have taken over what the shard knew that has forgotten the client: then it is asked for
    /// there.
    async fn is_taken_elsewhere(&mut self) -> bool {
        let (shard, Route::Results { .. }) = (self.shard, self.route) else { return false };
        let Some(asked) = self.asks_for_map_of(shard) else { return false };
        self.is_still_here(asked.await);
        self.shard != shard
    }

    /// Asks a shard for the map.
    fn asks_for_map_of(&self, shard: u32) -> Option<Pending<'c>> {
        let peer = self.client.find_peer(shard, LOOK_WITHIN).ok()?;
        let asked = self.client.endpoint.call(peer, SLOT_MAP, &[]).within(MAP_WITHIN).start();
        if asked.is_err() {
            self.client.forget(shard);
        }
        asked.ok()
    }

    /// Goes to where the object is by what another shard has said; says whether it is of use to ask there. If
    /// not, nothing was changed.
    fn is_still_here(&mut self, said: Result<Response<'_>, CallError>) -> bool {
        let map = said.ok().and_then(|answer| SlotMap::decode(&answer.take()));
        if let Some(map) = map {
            self.client.placement.learn(map);
        }
        let Some(map) = self.client.placement.map().filter(|map| map.shards() == self.client.shards()) else {
            return true;
        };
        match self.route {
            Route::Fixed => true,
            Route::Waiting => map.has_slots(self.shard),
            Route::Batch(slot) => map.owner(slot) == self.shard,
            Route::Slot(slot) => {
                self.shard = map.owner(slot);
                true
            }
            Route::Results { slot, since } => {
                let owner = map.owner(slot);
                if let Some(taken) = map.taken(self.shard).filter(|taken| taken.number > since)
                    && owner != self.shard
                {
                    OnceRequest::rename(&mut self.message, |client| identity_after(client, taken.number));
                    self.route = Route::Results { slot, since: taken.number };
                    self.shard = owner;
                }
                true
            }
        }
    }

    /// Asks the shard that refused where the object is, if that follows from its slot.
    fn asks_for_map(&self) -> Option<Operation<'c, SlotMap, ReadError>> {
        matches!(self.route, Route::Slot(_)).then(|| self.client.slot_map(self.shard))
    }

    /// Goes to where the object is by now; says whether slots of this store move.
    fn is_found(&mut self, said: Result<SlotMap, Failure<ReadError>>) -> bool {
        let is_known = self.client.learn(said);
        if let Route::Slot(slot) = self.route {
            self.shard = self.client.shard_of_slot(slot);
        }
        is_known
    }

    /// The call, over a session to a shard that is looked for no longer than this.
    fn call(&self, within: Duration) -> Result<farcall::Call<'c, '_>, Failure<E>> {
        self.client.refresh(self.shard);
        let peer = self.client.find_peer(self.shard, within)?;
        let call = self.client.endpoint.call(peer, self.service, &self.message);
        Ok(match self.timeout {
            Some(timeout) => call.within(timeout),
            None => call,
        })
    }

    /// Sends the request, or says why nothing was sent.
    fn start(&self) -> Result<Pending<'c>, Failure<E>> {
        // Where the object may be elsewhere that is asked for before the shard is waited for.
        let is_patient = self.route != Route::Fixed && self.client.shards() > 1 && self.client.is_patient();
        let within = self.client.endpoint.resolve_timeout();
        self.call(if is_patient { within.min(LOOK_WITHIN) } else { within })?.start().map_err(not_sent)
    }

    /// After a failure that reports the end of the session the next call connects again; says whether it was
    /// one.
    fn forget_if_down(&self, failure: &Failure<E>) -> bool {
        let is_down = failure.session_is_down();
        if is_down {
            self.client.forget(self.shard);
        }
        is_down
    }

    /// Whether to try again after a failure, when [`Repeats::is_due`].
    fn goes_on(&self, failure: &Failure<E>, repeats: &mut Repeats) -> bool {
        let is_down = self.forget_if_down(failure);
        if matches!(failure, Failure::NotReplicated(NotReplicated::NotPrimary)) {
            self.client.forget(self.shard);
        }
        let safe = self.repeat == Repeat::Always || failure.was_not_sent();
        if is_down && safe && repeats.at_once < REPEATS_MAX {
            repeats.at_once += 1;
            return true;
        }
        let is_unknown =
            matches!(failure, Failure::NoAnswer(_) | Failure::NotReplicated(NotReplicated::LevelNotReached));
        let may_repeat = failure.passes() || is_unknown && safe;
        if !may_repeat {
            return false;
        }
        // However long a look for the shard took, another one is asked whether the object is there.
        let looks_once = self.client.is_patient() && !core::mem::replace(&mut repeats.has_looked, true);
        repeats.later() || looks_once
    }
}

/// What came of an operation.
pub(super) struct Done<T, E> {
    /// The shard that was asked last.
    pub shard: u32,
    /// Whether it may have been done before that, by a shard that gave no answer.
    pub may_be_done: bool,
    pub outcome: Result<T, Failure<E>>,
}

/// How often, and for how long, an operation is tried again.
pub(super) struct Repeats {
    clock: Clock,
    at_once: usize,
    until: Instant,
    due: Instant,
    /// Until when an object is followed whose hash slot moves.
    follows_until: Option<Instant>,
    /// Whether another shard was asked where the object is.
    has_looked: bool,
}

impl Repeats {
    pub(super) fn new(client: &Client<'_>) -> Self {
        let clock = client.endpoint.clock();
        let now = clock.now();
        let until = now + client.patience;
        Self { clock, at_once: 0, until, due: now, follows_until: None, has_looked: false }
    }

    /// Tries again in a while where the object is, if there is time left.
    pub(super) fn follows(&mut self) -> bool {
        let now = self.clock.now();
        self.due = now + TRY_AGAIN_AFTER;
        now < *self.follows_until.get_or_insert(now + FOLLOWS_WITHIN)
    }

    /// Tries again in a while, if there is time left.
    fn later(&mut self) -> bool {
        let now = self.clock.now();
        self.due = now + TRY_AGAIN_AFTER;
        now < self.until
    }

    fn is_due(&self) -> bool {
        self.clock.now() >= self.due
    }

    /// Ready when it is due. What waits is polled by its executor, as everything that an endpoint has is.
    pub(super) fn poll_due(&self, context: &mut TaskContext<'_>) -> Poll<()> {
        if self.is_due() {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

impl<'c, T: 'c, E: FromCode + 'c> IntoFuture for Operation<'c, T, E> {
    type Output = Result<T, Failure<E>>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + 'c>>;

    /// Asks when it is first polled; somebody must poll the endpoint.
    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.done())
    }
}
