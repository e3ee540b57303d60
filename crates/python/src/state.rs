//! An endpoint, and all that Python has to do with it: handlers, futures, and how a thread waits.

use core::cell::{Cell, RefCell};
use core::future::Future;
use core::pin::pin;
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::collections::HashMap;
use std::rc::{Rc, Weak};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use farcall::{Endpoint, Service, WaitSet};
use pyo3::exceptions::{PyException, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;

use crate::borrowing::{Borrowing, Close};
use crate::buffer::Data;
use crate::connection::Listed;
use crate::errors::{ClosedError, HANDLER_FAILED, InHandlerError, raised};
use crate::owned::detached;
use crate::request::{Arrived, Request};
use crate::tasks::{Output, Tasks};
use crate::waiting::Waiting;

/// Polls that a waiting thread makes before it releases the lock of the interpreter. A short call ends within
/// them, and need not queue for the lock behind threads that compute.
const POLLS_WITH_LOCK: u32 = 64;

/// Polls between two looks at the clock.
const POLLS_OF_A_LOOK: u32 = 8;

/// The longest time without a look at the signals of the process.
const SLICE: Duration = Duration::from_millis(50);

/// What an endpoint of Python consists of.
pub struct State {
    // What borrows the endpoint is dropped before it.
    pub tasks: Tasks,
    wait_set: RefCell<Option<Borrowing<WaitSet<'static>>>>,
    pub children: RefCell<Vec<Weak<dyn Close>>>,
    listed: RefCell<Vec<Listed>>,
    pub arrived: Arc<Arrived>,
    handlers: RefCell<HashMap<u16, Py<PyAny>>>,
    is_in_handler: Cell<bool>,
    pub waiting: Waiting,
    /// How long a wait polls before the endpoint idles.
    spin_time: Duration,
    pub endpoint: Rc<Endpoint>,
}

impl State {
    pub fn new(endpoint: Endpoint, spin_time: Duration) -> Self {
        Self {
            tasks: Tasks::default(),
            wait_set: RefCell::default(),
            children: RefCell::default(),
            listed: RefCell::default(),
            arrived: Arc::default(),
            handlers: RefCell::default(),
            is_in_handler: Cell::new(false),
            waiting: Waiting::default(),
            spin_time,
            endpoint: Rc::new(endpoint),
        }
    }

    /// Keeps the endpoint listed until it is closed, or the listing is.
    pub fn list(&self, listener: farcall::Listener) -> Listed {
        let listed = Listed::new(Mutex::new(Some(listener)));
        self.listed.borrow_mut().push(Listed::clone(&listed));
        listed
    }

    /// Ends what was made from the endpoint.
    pub fn close_children(&self) {
        for listed in self.listed.take() {
            drop(listed.lock().unwrap_or_else(PoisonError::into_inner).take());
        }
        let children = self.children.take();
        children.iter().filter_map(Weak::upgrade).for_each(|child| child.close());
    }

    /// Whether a handler runs, which must not wait.
    pub fn is_in_handler(&self) -> bool {
        self.is_in_handler.get()
    }

    /// Fails inside a handler.
    pub fn may_wait(&self) -> PyResult<()> {
        if self.is_in_handler() {
            return Err(InHandlerError::new_err(
                "a handler must not wait: defer the answer, or use `async def` handlers of an AsyncEndpoint",
            ));
        }
        Ok(())
    }

    /// From now on requests for a service are gathered, and `handler` gets them where this thread polls.
    pub fn serve(&self, service: u16, handler: Option<Py<PyAny>>, traced: Option<String>) -> PyResult<()> {
        if service == u16::MAX {
            return Err(PyValueError::new_err("service 65535 carries messages; choose another one"));
        }
        self.may_wait()?;
        self.arrived.gather(&self.endpoint, Service(service), traced);
        if let Some(handler) = handler {
            self.handlers.borrow_mut().insert(service, handler);
        }
        Ok(())
    }

    /// Polls, and runs handlers, until `is_over`, which is quick, says so.
    pub fn wait_until(&self, py: Python<'_>, is_over: impl Fn() -> bool) -> PyResult<()> {
        for _ in 0..POLLS_WITH_LOCK {
            if is_over() {
                return Ok(());
            }
            self.endpoint.poll_once();
            self.run_handlers(py)?;
        }
        self.wait_detached(py, None, is_over).map(drop)
    }

    /// Runs a future to its end.
    pub fn block_on<F: Future>(&self, py: Python<'_>, future: F) -> PyResult<F::Output> {
        self.may_wait()?;
        let (mut future, mut output) = (pin!(future), None);
        self.wait_detached(py, None, || {
            let mut task = Context::from_waker(Waker::noop());
            if output.is_none()
                && let Poll::Ready(ready) = future.as_mut().poll(&mut task)
            {
                output = Some(ready);
            }
            output.is_some()
        })?;
        Ok(output.expect("the future is over"))
    }

    /// Polls without the lock of the interpreter until `is_over` or `deadline`, whichever is first; handlers
    /// run and signals are seen meanwhile. Says whether it is over.
    pub fn wait_detached(
        &self,
        py: Python<'_>,
        deadline: Option<Instant>,
        mut is_over: impl FnMut() -> bool,
    ) -> PyResult<bool> {
        loop {
            let over = detached(py, || self.poll_slice(deadline, &mut is_over));
            self.run_handlers(py)?;
            if over || deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return Ok(over);
            }
            py.check_signals()?;
        }
    }

    /// Polls until it is over, a request waits for its handler, or it is time to look at signals.
    fn poll_slice(&self, deadline: Option<Instant>, is_over: &mut impl FnMut() -> bool) -> bool {
        let begun = Instant::now();
        let end = begun + SLICE;
        let end = deadline.map_or(end, |deadline| deadline.min(end));
        let mut now = begun;
        loop {
            for _ in 0..POLLS_OF_A_LOOK {
                if is_over() {
                    return true;
                }
                if self.arrived.any() || now >= end {
                    return false;
                }
                // The endpoint itself idles from its last event on, which may be long ago.
                if now - begun < self.spin_time {
                    self.endpoint.poll_once();
                } else {
                    self.endpoint.turn();
                    now = Instant::now();
                }
            }
            now = Instant::now();
        }
    }

    /// Runs the handlers of the requests that have been gathered; says how many there were.
    pub fn run_handlers(&self, py: Python<'_>) -> PyResult<usize> {
        let mut ran = 0;
        if self.is_in_handler() {
            return Ok(ran);
        }
        while let Some(request) = self.arrived.pop() {
            ran += 1;
            let handler = self.handlers.borrow().get(&request.service).map(|handler| handler.clone_ref(py));
            let Some(handler) = handler else { continue };
            let request = Bound::new(py, request)?;
            self.is_in_handler.set(true);
            let answer = handler.bind(py).call1((&request,));
            self.is_in_handler.set(false);
            self.answer(py, request.get(), answer)?;
        }
        Ok(ran)
    }

    /// Answers with what a handler returned, or refuses with what it raised. What is no ordinary exception,
    /// such as the end of the program, also goes on to the code that polls.
    fn answer(&self, py: Python<'_>, request: &Request, answer: PyResult<Bound<'_, PyAny>>) -> PyResult<()> {
        let sent = answer.and_then(|answer| self.reply(request, &answer));
        let Err(error) = sent else { return Ok(()) };
        if let Some(duty) = request.duty() {
            let (code, why) = refusal_of(py, &error)?;
            duty.refuse_by(&self.endpoint, code, &why);
        }
        if error.is_instance_of::<PyException>(py) { Ok(()) } else { Err(error) }
    }

    fn reply(&self, request: &Request, answer: &Bound<'_, PyAny>) -> PyResult<()> {
        let data = if answer.is_none() { None } else { Some(Data::extract_bound(answer)?) };
        let outgoing = data.as_ref().map(Data::outgoing).transpose()?;
        // One that was deferred has another to answer it: what the handler returns is nothing.
        if let Some(duty) = request.duty() {
            duty.reply_by(&self.endpoint, outgoing);
        }
        Ok(())
    }

    /// The descriptor of the endpoint, and what must be done around a wait for it.
    pub fn with_wait_set<T>(
        &self,
        body: impl FnOnce(&mut WaitSet<'static>) -> std::io::Result<T>,
    ) -> PyResult<T> {
        let wait_set = &mut *self.wait_set.borrow_mut();
        if wait_set.is_none() {
            *wait_set = Some(raised(Borrowing::new(&self.endpoint, Endpoint::wait_set))?);
        }
        raised(body(wait_set.as_mut().expect("it was made")))
    }

    /// Runs a future to its end and gives what it says; or, with a future of Python, sees to it that this
    /// gets it, and gives None.
    pub fn run(
        &self,
        py: Python<'_>,
        future: impl Future<Output = Output> + 'static,
        to: Option<Py<PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        match to {
            Some(to) => {
                self.tasks.spawn(future, to);
                Ok(py.None())
            }
            None => self.block_on(py, future)?(py),
        }
    }
}

/// The code and the reason with which an exception of a handler refuses: its own, or those of all others,
/// which are logged. A text that cannot be made, or is none, does not keep the caller from an answer.
fn refusal_of(py: Python<'_>, error: &PyErr) -> PyResult<(u8, String)> {
    let errors = py.import(intern!(py, "farcall.errors"))?;
    let refusal = errors.call_method1(intern!(py, "refusal_of"), (error.value(py),));
    refusal.and_then(|refusal| refusal.extract()).or_else(|_| Ok((HANDLER_FAILED, String::new())))
}

/// The endpoint of something that was made from it.
pub fn open(state: &Weak<State>) -> PyResult<Rc<State>> {
    state.upgrade().ok_or_else(|| ClosedError::new_err("the endpoint is closed; open another one"))
}
