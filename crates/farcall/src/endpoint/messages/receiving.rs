//! The futures of receives.

use core::future::Future;
use core::mem::ManuallyDrop;
use core::pin::Pin;
use core::task::{Context as TaskContext, Poll, Waker};

use super::outcome::{KeptMessage, Message, ReceiveError};
use crate::endpoint::Endpoint;
use crate::endpoint::context::Operation;
use crate::endpoint::slab::{FETCHED_ONCE, OpHandle};

/// The future of a receive that may have been refused at once.
pub struct ReceivingOrRefused<'e>(pub(super) Result<Receiving<'e>, Option<ReceiveError>>);

impl<'e> Future for ReceivingOrRefused<'e> {
    type Output = Result<Message<'e>, ReceiveError>;

    fn poll(self: Pin<&mut Self>, task: &mut TaskContext<'_>) -> Poll<Self::Output> {
        match &mut self.get_mut().0 {
            Ok(receiving) => Pin::new(receiving).poll(task),
            Err(refusal) => Poll::Ready(Err(refusal.take().expect("a future is not polled after its end"))),
        }
    }
}

/// A receive in flight. Some task or thread must poll the endpoint for it to progress.
///
/// Dropping it gives the receive up; if it has its message already, that is lost.
#[must_use = "dropping it gives up the receive"]
pub struct Receiving<'e> {
    pub(super) endpoint: &'e Endpoint,
    pub(super) handle: OpHandle,
}

impl<'e> Receiving<'e> {
    /// Whether the message is there, so that `wait` will not block.
    #[inline]
    pub fn is_complete(&self) -> bool {
        self.handle.operation().is_none_or(|id| self.endpoint.done.has(id))
    }

    /// The message if it is there, or else the receive again.
    #[inline]
    pub fn ready(mut self) -> Result<Result<Message<'e>, ReceiveError>, Self> {
        if let Some(message) = self.fetch_message() {
            return Ok(Ok(message));
        }
        match self.fetch(None) {
            Some(result) => Ok(result),
            None => Err(self),
        }
    }

    /// Polls the endpoint until the message is there.
    ///
    /// Always inlined, and what takes long gives less than a message: one that is there is in memory where the caller has it, and
    /// nowhere before.
    #[inline(always)]
    pub fn wait(self) -> Result<Message<'e>, ReceiveError> {
        let operation = self.handle.operation();
        let message = operation.and_then(|id| self.endpoint.core().state.operations.fetch_message(id));
        // Nothing is to be given up if the message was there, and else it is a receive again at once.
        let Self { endpoint, handle } = *ManuallyDrop::new(self);
        match message {
            Some(message) => Ok(Message::new(message, endpoint)),
            None => Self { endpoint, handle }.wait_for_any().map(|message| Message::new(message, endpoint)),
        }
    }

    #[inline(never)]
    fn wait_for_any(mut self) -> Result<KeptMessage, ReceiveError> {
        let id = self.handle.operation().expect(FETCHED_ONCE);
        self.endpoint.poll_until(|state| state.operations.is_done(id));
        self.fetch_kept(None).expect("the operation is done")
    }

    /// Gives the receive up: [`ReceiveError::Cancelled`], unless it has its message already.
    pub fn cancel(self) -> Result<Message<'e>, ReceiveError> {
        if let Some(id) = self.handle.operation() {
            self.endpoint.cancel(Operation(id));
        }
        self.wait()
    }

    /// The message, if it is one that was copied.
    #[inline(always)]
    fn fetch_message(&mut self) -> Option<Message<'e>> {
        let id = self.handle.operation()?;
        let message = self.endpoint.core().state.operations.fetch_message(id)?;
        self.handle = OpHandle::NONE;
        Some(Message::new(message, self.endpoint))
    }

    fn fetch(&mut self, waker: Option<&Waker>) -> Option<Result<Message<'e>, ReceiveError>> {
        let result = self.fetch_kept(waker)?;
        Some(result.map(|message| Message::new(message, self.endpoint)))
    }

    fn fetch_kept(&mut self, waker: Option<&Waker>) -> Option<Result<KeptMessage, ReceiveError>> {
        let id = self.handle.operation().expect(FETCHED_ONCE);
        let result = self.endpoint.core().state.operations.fetch_received(id, waker)?;
        self.handle = OpHandle::NONE;
        Some(result)
    }
}

impl<'e> Future for Receiving<'e> {
    type Output = Result<Message<'e>, ReceiveError>;

    fn poll(mut self: Pin<&mut Self>, task: &mut TaskContext<'_>) -> Poll<Self::Output> {
        self.fetch(Some(task.waker())).map_or(Poll::Pending, Poll::Ready)
    }
}

impl Drop for Receiving<'_> {
    #[inline]
    fn drop(&mut self) {
        if let Some(id) = self.handle.operation() {
            self.endpoint.abandon(id);
        }
    }
}
