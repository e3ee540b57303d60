//! One call to a shard: waited for, awaited, or with a callback.

use core::future::{Future, IntoFuture};
use core::pin::Pin;
use core::time::Duration;

use farcall::{CallError, Context, Payload, Pending, Service};

use super::Client;
use super::failure::{Failure, FromCode, no_answer, not_sent};

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
    pub fn wait(self) -> Result<T, Failure<E>> {
        let mut repeats = 0;
        loop {
            let outcome = self.start().and_then(|pending| pending.wait().map_err(no_answer));
            match outcome.and_then(|response| (self.decode)(response.take())) {
                Err(failure) if self.goes_on(&failure, &mut repeats) => {}
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
        let decode = self.decode;
        let started = self.call()?.then(move |context, outcome| {
            let outcome = outcome.as_ref().map(|answer| answer.take());
            callback(context, outcome.map_err(|error: &CallError| no_answer(error.clone())).and_then(decode));
        });
        started.map(drop).map_err(|error| {
            let failure = not_sent(error);
            self.forget_if_down(&failure);
            failure
        })
    }

    async fn done(self) -> Result<T, Failure<E>> {
        let mut repeats = 0;
        loop {
            let outcome = match self.start() {
                Ok(pending) => pending.await.map_err(no_answer),
                Err(failure) => Err(failure),
            };
            match outcome.and_then(|response| (self.decode)(response.take())) {
                Err(failure) if self.goes_on(&failure, &mut repeats) => {}
                outcome => return outcome,
            }
        }
    }

    fn call(&self) -> Result<farcall::Call<'c, '_>, Failure<E>> {
        let peer = self.client.peer(self.shard)?;
        let call = self.client.endpoint.call(peer, self.service, &self.message);
        Ok(match self.timeout {
            Some(timeout) => call.within(timeout),
            None => call,
        })
    }

    /// Sends the request, or says why nothing was sent.
    fn start(&self) -> Result<Pending<'c>, Failure<E>> {
        self.call()?.start().map_err(not_sent)
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

    /// Whether to try again after a failure.
    fn goes_on(&self, failure: &Failure<E>, repeats: &mut usize) -> bool {
        if !self.forget_if_down(failure) {
            return false;
        }
        let safe = self.repeat == Repeat::Always || failure.was_not_sent();
        *repeats += 1;
        safe && *repeats <= REPEATS_MAX
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
