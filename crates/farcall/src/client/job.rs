//! Work on the thread that owns the endpoint, for everything but calls: finding peers, serving, messages.

use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};
use std::fmt;
use std::sync::Arc;

use super::error::ClientError;
use super::queue::{NotQueued, Request};
use super::slot::{Completer, Slot};
use super::{Client, Handle};
use crate::endpoint::Endpoint;

impl Client {
    /// Runs an async closure on the thread that owns the endpoint, and gives its output to the future that is
    /// returned. What it awaits of the endpoint is polled there; what it blocks for holds up all other users
    /// of the client.
    ///
    /// ```no_run
    /// # async fn program(client: farcall::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// use farcall::{AnySource, Tag};
    ///
    /// let peer = client.run(async |endpoint| endpoint.peer(1)).await??;
    /// let message = client
    ///     .run(async |endpoint| endpoint.receive(AnySource, Tag(7)).await.map(|message| message.to_vec()))
    ///     .await??;
    /// # _ = (peer, message);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Dropping the future drops the closure's, which cancels what it awaits.
    ///
    /// # Errors
    /// [`ClientError::Full`] at once if the client has its maximum in flight, and [`ClientError::Stopped`].
    pub fn run<T: Send + 'static>(
        &self,
        work: impl AsyncFnOnce(&Endpoint) -> T + Send + 'static,
    ) -> ClientJob<T> {
        let slot = Slot::new();
        let handle = Arc::clone(&self.handle);
        let submitted = handle.shared().submit((Arc::clone(&slot), work), |permit, (slot, work)| {
            let completer = Completer::new(slot, permit);
            Request::Job(Box::new(move |endpoint| Box::pin(run_for(completer, work, endpoint))))
        });
        let slot = match submitted {
            Ok(()) => Ok(slot),
            Err(NotQueued::Full(_)) => Err(ClientError::Full { calls_max: handle.shared().calls_max() }),
            Err(NotQueued::Closed) => Err(ClientError::Stopped),
        };
        ClientJob { _handle: handle, slot: slot.map_err(Some) }
    }
}

async fn run_for<T: Send + 'static>(
    completer: Completer<Result<T, ClientError>>,
    work: impl AsyncFnOnce(&Endpoint) -> T,
    endpoint: &Endpoint,
) {
    let slot = Arc::clone(completer.slot());
    if let Some(output) = super::port::unless_unwanted(work(endpoint), |task| slot.poll_unwanted(task)).await
    {
        completer.complete(Ok(output));
    }
}

/// Work on the endpoint's thread. Dropping it cancels the work where it awaits something.
#[must_use = "dropping it cancels the work"]
pub struct ClientJob<T: Send> {
    /// While somebody waits for the work, the client goes on.
    _handle: Arc<Handle>,
    slot: Result<Arc<Slot<Result<T, ClientError>>>, Option<ClientError>>,
}

impl<T: Send> Future for ClientJob<T> {
    type Output = Result<T, ClientError>;

    fn poll(self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.get_mut().slot {
            Ok(slot) => slot.poll(task),
            Err(error) => Poll::Ready(Err(error.take().expect("a future is not polled after its end"))),
        }
    }
}

impl<T: Send> Drop for ClientJob<T> {
    fn drop(&mut self) {
        if let Ok(slot) = &self.slot {
            drop(slot.leave());
        }
    }
}

impl<T: Send> fmt::Debug for ClientJob<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClientJob")
    }
}
