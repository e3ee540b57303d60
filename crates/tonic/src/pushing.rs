//! The rest of a request, which a task pushes to the server.

use core::future::Future as _;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use std::time::Instant;

use farcall::{CallError, ClientError};
use tokio::sync::oneshot;
use tokio::task::AbortHandle;
use tonic::Status;

use crate::channel::Channel;
use crate::pieces::{Gathered, Source};
use crate::status::of_error;
use crate::wire::{Ask, ENOUGH};

/// A task that pushes a request; it ends when this is dropped.
pub struct Pushing(Option<Pushes>);

struct Pushes {
    task: AbortHandle,
    end: oneshot::Receiver<Result<(), Status>>,
}

impl Pushing {
    /// Of a request that was whole.
    pub fn nothing() -> Self {
        Self(None)
    }

    /// Pushes what is left of a request.
    ///
    /// # Panics
    /// Outside of a runtime of tokio.
    pub fn start(channel: Channel, exchange: u64, deadline: Option<Instant>, rest: Source) -> Self {
        let (told, end) = oneshot::channel();
        let task = tokio::spawn(async move {
            let end = push(&channel, exchange, deadline, rest).await;
            let has_failed = end.is_err();
            // Before the server hears of it, whose word for it would say less. Nobody may want to know.
            let _ = told.send(end);
            if has_failed {
                channel.cancel(exchange);
            }
        });
        Self(Some(Pushes { task: task.abort_handle(), end }))
    }

    /// Why the request does not get to its end, once that is known; pending for ever if it does.
    pub fn poll_failed(&mut self, task: &mut Context<'_>) -> Poll<Status> {
        let Some(pushes) = &mut self.0 else { return Poll::Pending };
        let end = ready!(Pin::new(&mut pushes.end).poll(task));
        self.0 = None;
        match end {
            Ok(Ok(())) => Poll::Pending,
            Ok(Err(status)) => Poll::Ready(status),
            Err(_) => Poll::Ready(Status::internal("the stream of requests panicked, or its runtime ended")),
        }
    }
}

impl Drop for Pushing {
    fn drop(&mut self) {
        if let Some(pushes) = &self.0 {
            pushes.task.abort();
        }
    }
}

/// Sends the rest of a request, a piece whenever the server has taken the one before. It fails if the stream
/// does, or if a piece does not reach the server, which would wait for it.
async fn push(
    channel: &Channel,
    exchange: u64,
    deadline: Option<Instant>,
    mut source: Source,
) -> Result<(), Status> {
    loop {
        let Gathered { data, is_last, .. } = source.next().await?;
        match channel.ask(&Ask::Push { exchange, is_last, data }, deadline).await {
            Ok(answer) if is_last || *answer == [ENOUGH] => return Ok(()),
            Ok(_) => {}
            // It reached a handler that reads no more, which is no failure: the response has the end.
            Err(ClientError::Call(CallError::Abandoned)) => return Ok(()),
            Err(error) => return Err(of_error(&error)),
        }
    }
}
