//! The futures of operations: what a call, a send and a receive in flight have in common.

use core::future::Future;
use core::marker::PhantomData;
use core::pin::Pin;
use core::task::{Context as TaskContext, Poll, Waker};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use farcall_transport::{CallId, Kept};

use super::Endpoint;
use super::completion::Completes;
use super::context::Operation;
use super::message::Cancellation;
use super::slab::OPERATIONS_MAX;

/// What is said of futures that are polled after their end.
pub const FETCHED_ONCE: &str = "a future fetches its result once";

/// The operation of a future, until its result is fetched. Dropped before that, it ends as
/// [`Completes::ON_DROP`] says.
pub struct Unfetched<'e, O: Completes> {
    endpoint: &'e Endpoint,
    handle: OpHandle,
    of: PhantomData<O>,
}

impl<'e, O: Completes> Unfetched<'e, O> {
    #[inline]
    pub const fn new(endpoint: &'e Endpoint, operation: CallId) -> Self {
        Self { endpoint, handle: OpHandle::of(operation), of: PhantomData }
    }

    /// Of an operation that ended well when it began: there is nothing to be fetched.
    #[inline]
    pub const fn nothing(endpoint: &'e Endpoint) -> Self {
        Self { endpoint, handle: OpHandle::NONE, of: PhantomData }
    }

    #[inline]
    pub const fn endpoint(&self) -> &'e Endpoint {
        self.endpoint
    }

    /// The operation whose result was not fetched.
    #[inline]
    pub fn operation(&self) -> Option<CallId> {
        self.handle.operation()
    }

    /// Whether the operation is complete, so that `wait` will not block.
    #[inline]
    pub fn is_complete(&self) -> bool {
        self.operation().is_none_or(|id| self.endpoint.done.has(id))
    }

    /// Polls the endpoint until the operation is complete.
    pub fn wait(&mut self) -> O::Kept {
        let id = self.operation().expect(FETCHED_ONCE);
        self.endpoint.poll_until(|_| self.endpoint.done.has(id));
        self.fetch(None).expect("the operation is done")
    }

    /// As [`Unfetched::wait`], but `None` where the result is no copy of what came; then it is yet to be
    /// fetched.
    #[inline]
    pub fn wait_for_copy(&mut self) -> Option<Kept> {
        let id = self.operation().expect(FETCHED_ONCE);
        self.endpoint.poll_until(|_| self.endpoint.done.has(id));
        let copy = self.endpoint.core().state.operations.fetch_answer(id)?;
        self.handle = OpHandle::NONE;
        Some(copy)
    }

    /// The result if it is there, and registers `waker` if not.
    pub fn fetch(&mut self, waker: Option<&Waker>) -> Option<O::Kept> {
        let id = self.operation().expect(FETCHED_ONCE);
        let result = self.endpoint.core().state.operations.fetch::<O>(id, waker)?;
        self.handle = OpHandle::NONE;
        Some(result)
    }

    /// Cancels the operation if it is in flight.
    pub fn cancel(&self) -> Cancellation {
        self.operation().map_or(Cancellation::Over, |id| self.endpoint.cancel(Operation(id)))
    }
}

impl<O: Completes> Drop for Unfetched<'_, O> {
    #[inline]
    fn drop(&mut self) {
        if let Some(id) = self.operation() {
            self.endpoint.end_dropped(id, O::ON_DROP);
        }
    }
}

/// What becomes of an operation when its future is dropped.
#[derive(Clone, Copy)]
pub enum OnDrop {
    /// It is cancelled.
    Cancel,
    /// It continues, and its end has no taker.
    Detach,
}

/// A single word: futures are moved right after they were made, and one of two parts would be loaded as a
/// whole behind the stores of its parts, which is a store-forwarding stall.
#[derive(Clone, Copy)]
struct OpHandle(u64);

impl OpHandle {
    /// The result was fetched, or there is none to be fetched.
    const NONE: Self = Self(u64::MAX);

    #[inline]
    const fn of(operation: CallId) -> Self {
        Self(operation.0 as u64)
    }

    #[inline]
    fn operation(self) -> Option<CallId> {
        u32::try_from(self.0).ok().map(CallId)
    }
}

/// Which operations of futures are done, by slot. Shared by an endpoint and its core, which are on the same
/// thread.
///
/// It is a copy of what the slab knows, outside of the core that is borrowed during polls: a program that
/// looks which of a thousand futures are complete reads a byte for each, and neither borrows anything nor
/// loads the slab's lines.
#[derive(Clone)]
pub struct Done(Arc<[AtomicBool; OPERATIONS_MAX]>);

impl Done {
    /// None is done.
    pub fn new() -> Self {
        Self(Arc::new([const { AtomicBool::new(false) }; OPERATIONS_MAX]))
    }

    /// Whether the result of the operation is there for its future.
    #[inline]
    pub fn has(&self, operation: CallId) -> bool {
        self.place(operation).load(Relaxed)
    }

    #[inline]
    pub fn set(&self, operation: CallId, is_done: bool) {
        self.place(operation).store(is_done, Relaxed);
    }

    #[inline]
    fn place(&self, operation: CallId) -> &AtomicBool {
        &self.0[usize::from(operation.0 as u16)]
    }
}

/// The future of an operation that may have been refused when it began.
pub struct OrRefused<F, E>(Result<F, Option<E>>);

impl<F, E> OrRefused<F, E> {
    pub(super) fn new(begun: Result<F, E>) -> Self {
        Self(begun.map_err(Some))
    }
}

impl<T, E: Unpin, F: Future<Output = Result<T, E>> + Unpin> Future for OrRefused<F, E> {
    type Output = Result<T, E>;

    fn poll(self: Pin<&mut Self>, task: &mut TaskContext<'_>) -> Poll<Self::Output> {
        match &mut self.get_mut().0 {
            Ok(future) => Pin::new(future).poll(task),
            Err(refusal) => Poll::Ready(Err(refusal.take().expect("a future is not polled after its end"))),
        }
    }
}
