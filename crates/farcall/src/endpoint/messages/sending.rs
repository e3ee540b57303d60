//! The futures of sends.

use core::future::Future;
use core::pin::Pin;
use core::task::{Context as TaskContext, Poll};

use super::outcome::SendError;
use crate::endpoint::Endpoint;
use crate::endpoint::context::Operation;
use crate::endpoint::slab::OpHandle;

/// The future of a send that may have been refused at once.
pub struct SendingOrRefused<'e>(pub(super) Result<Sending<'e>, Option<SendError>>);

impl Future for SendingOrRefused<'_> {
    type Output = Result<(), SendError>;

    fn poll(self: Pin<&mut Self>, task: &mut TaskContext<'_>) -> Poll<Self::Output> {
        match &mut self.get_mut().0 {
            Ok(sending) => Pin::new(sending).poll(task),
            Err(refusal) => Poll::Ready(Err(refusal.take().expect("a future is not polled after its end"))),
        }
    }
}

/// A send in flight. Some task or thread must poll the endpoint for it to progress.
///
/// Dropping it does not take the message back.
pub struct Sending<'e> {
    pub(super) endpoint: &'e Endpoint,
    /// Nothing when it is complete and well.
    pub(super) handle: OpHandle,
}

impl Sending<'_> {
    /// Whether the send is complete, so that `wait` will not block.
    #[inline]
    pub fn is_complete(&self) -> bool {
        self.handle.operation().is_none_or(|id| self.endpoint.done.has(id))
    }

    /// Polls the endpoint until the send is complete.
    #[inline(always)]
    pub fn wait(self) -> Result<(), SendError> {
        if self.handle.operation().is_none() { Ok(()) } else { self.wait_for_end() }
    }

    #[inline(never)]
    fn wait_for_end(mut self) -> Result<(), SendError> {
        if let Some(id) = self.handle.operation() {
            self.endpoint.poll_until(|state| state.operations.is_done(id));
        }
        self.fetch(None).expect("the operation is done")
    }

    /// Takes the message back if it has not left: then this is [`SendError::Cancelled`]. Otherwise waits for its end.
    pub fn cancel(self) -> Result<(), SendError> {
        if let Some(id) = self.handle.operation() {
            self.endpoint.cancel(Operation(id));
        }
        self.wait()
    }

    fn fetch(&mut self, waker: Option<&core::task::Waker>) -> Option<Result<(), SendError>> {
        let Some(id) = self.handle.operation() else { return Some(Ok(())) };
        let result = self.endpoint.core().state.operations.fetch_sent(id, waker)?;
        self.handle = OpHandle::NONE;
        Some(result)
    }
}

impl Future for Sending<'_> {
    type Output = Result<(), SendError>;

    fn poll(mut self: Pin<&mut Self>, task: &mut TaskContext<'_>) -> Poll<Self::Output> {
        self.fetch(Some(task.waker())).map_or(Poll::Pending, Poll::Ready)
    }
}

impl Drop for Sending<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        if let Some(id) = self.handle.operation() {
            self.endpoint.let_go(id);
        }
    }
}
