//! One end of an operation, on its way from the endpoint's thread to whoever waits for it.
//!
//! A [`Slot`] is filled once. The side that fills it is a [`Completer`]: dropped without a value, it fills
//! the slot with the error that says so, so that whatever becomes of a request, of the endpoint or of its
//! thread, the waiting side gets exactly one end.

use core::task::{Context, Poll, Waker};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::queue::Permit;
use crate::endpoint::Operation;

/// The place for one end.
pub struct Slot<T>(Mutex<Stage<T>>);

enum Stage<T> {
    /// Nothing has ended.
    Pending(Pending),
    /// The end, not fetched yet.
    Ended(T),
    /// The end was fetched.
    Fetched,
    /// The waiting side has gone, before the end.
    Unwanted(Option<Operation>),
    /// The waiting side has gone, and now the operation has ended too.
    Forgotten,
}

#[derive(Default)]
struct Pending {
    /// Of the waiting side.
    waker: Option<Waker>,
    /// The operation of the endpoint, once it has begun.
    operation: Option<Operation>,
    /// Of the task on the endpoint's thread that works on it.
    worker: Option<Waker>,
    /// The endpoint is being asked to begin it, and may refuse.
    is_beginning: bool,
}

impl<T> Slot<T> {
    /// A slot without an end.
    pub fn new() -> Arc<Self> {
        Arc::new(Self(Mutex::new(Stage::Pending(Pending::default()))))
    }

    fn stage(&self) -> MutexGuard<'_, Stage<T>> {
        // No code of others runs while it is locked.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Fills it.
    pub fn complete(&self, end: T) {
        let mut stage = self.stage();
        match core::mem::replace(&mut *stage, Stage::Forgotten) {
            Stage::Pending(pending) => {
                *stage = Stage::Ended(end);
                drop(stage);
                if let Some(waker) = pending.waker {
                    waker.wake();
                }
            }
            Stage::Unwanted(_) | Stage::Forgotten => {}
            Stage::Ended(_) | Stage::Fetched => unreachable!("an operation ends once"),
        }
    }

    /// Fills it because its completer was dropped, unless that only means that the endpoint refuses to begin.
    fn abandon(&self, end: T) {
        if !matches!(&*self.stage(), Stage::Pending(pending) if pending.is_beginning) {
            self.complete(end);
        }
    }

    /// The end if it is there; registers the task if not.
    pub fn poll(&self, task: &Context<'_>) -> Poll<T> {
        let mut stage = self.stage();
        match &mut *stage {
            Stage::Pending(pending) => {
                match &mut pending.waker {
                    Some(waker) => waker.clone_from(task.waker()),
                    none => *none = Some(task.waker().clone()),
                }
                Poll::Pending
            }
            Stage::Ended(_) => match core::mem::replace(&mut *stage, Stage::Fetched) {
                Stage::Ended(end) => Poll::Ready(end),
                _ => unreachable!("it was just looked at"),
            },
            _ => panic!("a future is not polled after its end"),
        }
    }

    /// Whether the end is there and was not fetched.
    pub fn is_ended(&self) -> bool {
        matches!(*self.stage(), Stage::Ended(_) | Stage::Fetched)
    }

    /// The waiting side goes away. Returns whether the operation has to be cancelled; the end if it was
    /// there.
    pub fn leave(&self) -> Left<T> {
        let mut stage = self.stage();
        match core::mem::replace(&mut *stage, Stage::Forgotten) {
            Stage::Pending(pending) => {
                let must_cancel = pending.operation.is_some();
                *stage = Stage::Unwanted(pending.operation);
                drop(stage);
                if let Some(worker) = pending.worker {
                    worker.wake();
                }
                Left::Running { must_cancel }
            }
            Stage::Ended(end) => Left::Ended(end),
            Stage::Fetched => Left::Fetched,
            Stage::Unwanted(_) | Stage::Forgotten => unreachable!("the waiting side goes away once"),
        }
    }

    /// Whether the waiting side has gone; registers the task that works on the operation if not.
    pub fn poll_unwanted(&self, worker: &Context<'_>) -> bool {
        match &mut *self.stage() {
            Stage::Pending(pending) => {
                pending.worker = Some(worker.waker().clone());
                false
            }
            _ => true,
        }
    }

    /// The operation to be cancelled, because its waiting side has gone and it has not ended.
    pub fn to_cancel(&self) -> Option<Operation> {
        match *self.stage() {
            Stage::Unwanted(operation) => operation,
            _ => None,
        }
    }
}

/// What the waiting side leaves behind.
pub enum Left<T> {
    /// The operation has not ended.
    Running {
        /// It has begun at the endpoint, so that somebody must cancel it there.
        must_cancel: bool,
    },
    /// The end that was not fetched.
    Ended(T),
    /// Nothing.
    Fetched,
}

/// Ends that say that the endpoint has gone.
pub trait Stopped {
    /// Such an end.
    fn stopped() -> Self;
}

/// The duty to fill a slot, once.
pub struct Completer<T: Stopped> {
    /// `None` once it is filled.
    slot: Option<Arc<Slot<T>>>,
    /// Given back before the slot is filled: the side that waits may begin the next operation at once.
    permit: Option<Permit>,
}

impl<T: Stopped> Completer<T> {
    /// The duty to fill `slot`.
    pub fn new(slot: Arc<Slot<T>>, permit: Permit) -> Self {
        Self { slot: Some(slot), permit: Some(permit) }
    }

    /// The slot to be filled.
    pub fn slot(&self) -> &Arc<Slot<T>> {
        self.slot.as_ref().expect("it is there until it is filled")
    }

    /// Fills it.
    pub fn complete(mut self, end: T) {
        self.permit = None;
        if let Some(slot) = self.slot.take() {
            slot.complete(end);
        }
    }
}

impl<T: Stopped> Drop for Completer<T> {
    fn drop(&mut self) {
        self.permit = None;
        if let Some(slot) = self.slot.take() {
            slot.abandon(T::stopped());
        }
    }
}

/// The time in which the endpoint is asked to begin an operation: it drops the completer if it refuses, and
/// then this side has the reason.
pub struct Beginning<T: Stopped>(Arc<Slot<T>>);

impl<T: Stopped> Beginning<T> {
    /// `None` if the waiting side has gone already.
    pub fn of(slot: &Arc<Slot<T>>) -> Option<Self> {
        match &mut *slot.stage() {
            Stage::Pending(pending) => pending.is_beginning = true,
            _ => return None,
        }
        Some(Self(Arc::clone(slot)))
    }

    /// It has begun. Returns the operation if it must be cancelled, because the waiting side has gone
    /// meanwhile.
    pub fn begun(self, operation: Operation) -> Option<Operation> {
        match &mut *self.0.stage() {
            Stage::Pending(pending) => {
                pending.operation = Some(operation);
                pending.is_beginning = false;
                None
            }
            Stage::Unwanted(_) => Some(operation),
            Stage::Ended(_) | Stage::Fetched | Stage::Forgotten => None,
        }
    }

    /// The endpoint refused.
    pub fn refused(self, end: T) {
        self.0.complete(end);
    }
}

impl<T: Stopped> Drop for Beginning<T> {
    fn drop(&mut self) {
        // Where it begins or is refused it is not pending in this sense: this is for a panic.
        let is_lost = matches!(&*self.0.stage(), Stage::Pending(pending) if pending.is_beginning);
        if is_lost {
            self.0.complete(T::stopped());
        }
    }
}
