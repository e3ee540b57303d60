//! Futures of Python that wait for the ends of operations.
//!
//! An end is noted in the poll, without the lock of the interpreter, and given to its future after it.

use core::cell::RefCell;

use farcall::spans::BegunSpan;
use farcall::{CallError, DownReason, Event, ReceiveError, SendError};
use pyo3::intern;
use pyo3::prelude::*;
use slab::Slab;

use crate::errors::Raise;
use crate::payload::{Message, Payload, Peer};
use crate::tracing;

/// The end of an operation, in memory that outlives the poll.
enum End {
    Call(Result<farcall::Payload, CallError>),
    Sent(Result<(), SendError>),
    Received(Result<(Peer, u32, farcall::Payload), ReceiveError>),
}

/// The future of an operation, and the span of a call that is traced.
struct Waiter {
    future: Py<PyAny>,
    span: Option<BegunSpan>,
}

/// The futures of the operations in flight, by their token.
#[derive(Default)]
pub struct Waiting {
    futures: RefCell<Slab<Waiter>>,
    ended: RefCell<Vec<(u64, End)>>,
    /// Sessions that ended, for the callback that was registered; nothing is noted without one.
    downs: RefCell<Vec<(Peer, DownReason)>>,
    on_peer_down: RefCell<Option<Py<PyAny>>>,
}

impl Waiting {
    /// Begins an operation with a token for its future; the future is forgotten if it does not begin.
    pub fn begin<T>(&self, future: Py<PyAny>, begin: impl FnOnce(u64) -> PyResult<T>) -> PyResult<T> {
        let token = self.futures.borrow_mut().insert(Waiter { future, span: None });
        begin(token as u64).inspect_err(|_| {
            self.futures.borrow_mut().remove(token);
        })
    }

    /// A call is a span, which ends when its future gets the end of the call.
    pub fn follow(&self, token: u64, span: BegunSpan) {
        if let Some(waiter) = self.futures.borrow_mut().get_mut(token as usize) {
            waiter.span = Some(span);
        }
    }

    /// Ends all futures with an exception; their operations end unheard.
    pub fn fail_all(&self, error: &Bound<'_, PyAny>) -> PyResult<()> {
        let futures = self.futures.take();
        futures.iter().try_for_each(|(_, waiter)| fail(&waiter.future, error))
    }

    /// Whether a future waits.
    pub fn any(&self) -> bool {
        !self.futures.borrow().is_empty()
    }

    /// From now on `callback` is notified of sessions that end.
    pub fn on_peer_down(&self, callback: Option<Py<PyAny>>) {
        self.on_peer_down.replace(callback);
    }

    /// Notes an event of a poll.
    pub fn note(&self, event: Event<'_>) {
        let (token, end) = match event {
            Event::Completed { token, outcome } => {
                let outcome = outcome.as_ref().map(|answer| answer.take());
                (token, End::Call(outcome.map_err(CallError::clone)))
            }
            Event::Sent { token, outcome } => (token, End::Sent(outcome)),
            Event::Received { token, outcome } => {
                let message =
                    outcome.as_ref().map(|message| (Peer(message.peer()), message.tag().0, message.take()));
                (token, End::Received(message.map_err(ReceiveError::clone)))
            }
            Event::PeerDown { peer, reason } => {
                if self.on_peer_down.borrow().is_some() {
                    self.downs.borrow_mut().push((Peer(peer), reason));
                }
                return;
            }
        };
        self.ended.borrow_mut().push((token, end));
    }

    /// How many ends have been noted.
    pub fn noted(&self) -> usize {
        self.ended.borrow().len() + self.downs.borrow().len()
    }

    /// Gives what was noted to futures and callback.
    pub fn settle(&self, py: Python<'_>) -> PyResult<()> {
        for (token, end) in self.ended.take() {
            let Waiter { future, span } = self.futures.borrow_mut().remove(token as usize);
            if let End::Call(outcome) = &end {
                tracing::ended(span, outcome);
            }
            settle(py, &future, end.outcome(py))?;
        }
        for (peer, reason) in self.downs.take() {
            let callback = self.on_peer_down.borrow().as_ref().map(|callback| callback.clone_ref(py));
            if let Some(callback) = callback {
                let error = CallError::PeerDown(reason).raise();
                callback.call1(py, (peer, error.value(py)))?;
            }
        }
        Ok(())
    }
}

impl End {
    fn outcome(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        match self {
            Self::Call(Ok(payload)) => Ok(Py::new(py, Payload(payload))?.into_any()),
            Self::Call(Err(error)) => Err(error.raise()),
            Self::Sent(Ok(())) => Ok(py.None()),
            Self::Sent(Err(error)) => Err(error.raise()),
            Self::Received(Ok((peer, tag, payload))) => {
                Ok(Py::new(py, Message { peer, tag, payload: Payload(payload) })?.into_any())
            }
            Self::Received(Err(error)) => Err(error.raise()),
        }
    }
}

/// Gives a future its outcome, unless it was cancelled meanwhile.
pub fn settle(py: Python<'_>, future: &Py<PyAny>, outcome: PyResult<Py<PyAny>>) -> PyResult<()> {
    let future = future.bind(py);
    if future.call_method0(intern!(py, "done"))?.is_truthy()? {
        return Ok(());
    }
    match outcome {
        Ok(value) => future.call_method1(intern!(py, "set_result"), (value,))?,
        Err(error) => future.call_method1(intern!(py, "set_exception"), (error.value(py),))?,
    };
    Ok(())
}

/// Ends a future with an exception, unless it is over.
pub fn fail(future: &Py<PyAny>, error: &Bound<'_, PyAny>) -> PyResult<()> {
    settle(error.py(), future, Err(PyErr::from_value(error.clone())))
}
