//! Names: listening under one, and calling the servers that do.

use std::rc::{Rc, Weak};
use std::sync::{Arc, Mutex, PoisonError};

use farcall::{Balance, Service};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::borrowing::{Borrowing, Child, Close};
use crate::buffer::Readable;
use crate::errors::{ClosedError, raised};
use crate::numbers::{ServiceNumber, seconds};
use crate::owned::Owned;
use crate::payload::{Payload, Peer};
use crate::state::{State, open};
use crate::tasks::Output;
use crate::tracing;

/// A listing that its endpoint holds as well: a program that does not keep the object stays listed.
pub type Listed = Arc<Mutex<Option<farcall::Listener>>>;

/// An endpoint is listed under a name until this or the endpoint is closed.
#[pyclass(frozen, module = "farcall")]
pub struct Listener(Listed);

impl Listener {
    pub fn new(listed: Listed) -> Self {
        Self(listed)
    }

    pub fn take(&self) -> PyResult<farcall::Listener> {
        let listener = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        listener.ok_or_else(|| ClosedError::new_err("the name was withdrawn already"))
    }
}

#[pymethods]
impl Listener {
    /// Withdraws the name.
    fn close(&self) {
        drop(self.0.lock().unwrap_or_else(PoisonError::into_inner).take());
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_args))]
    fn __exit__(&self, _args: &Bound<'_, PyAny>) {
        self.close();
    }
}

/// A name, and the servers that listen under it.
#[pyclass(frozen, module = "farcall")]
pub struct Connection(Owned<Parts>);

struct Parts {
    connection: Rc<Child<farcall::Connection<'static>>>,
    state: Weak<State>,
}

impl Connection {
    pub fn new(state: Rc<State>, target: &str, balance: &str) -> PyResult<Self> {
        let balance = match balance {
            "round-robin" => Balance::RoundRobin,
            "two-choices" => Balance::TwoChoices,
            _ => return Err(PyValueError::new_err("the balance is `round-robin` or `two-choices`")),
        };
        let connected = Borrowing::new(&state.endpoint, |endpoint| {
            endpoint.connect(target).map(|connection| connection.balanced_by(balance))
        });
        let connection = Child::new(raised(connected)?, &state.children);
        Ok(Self(Owned::new(Parts { connection, state: Rc::downgrade(&state) })))
    }
}

#[pymethods]
impl Connection {
    /// Calls a service of one of the servers, and waits for the answer; the call goes to another server if it
    /// certainly did not run at the first.
    #[pyo3(signature = (service, data, timeout = None, traced = None, _future = None))]
    fn call(
        &self,
        py: Python<'_>,
        service: ServiceNumber,
        data: Readable<'_>,
        timeout: Option<f64>,
        traced: Option<&str>,
        _future: Option<Py<PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        let Parts { connection, state } = self.0.get()?;
        let (state, connection, within) = (open(state)?, connection.open()?, seconds(timeout)?);
        let (mut span, data) = match traced {
            None => (None, data.as_slice().to_vec()),
            Some(name) => {
                let (span, data) = tracing::begin(py, name, service.0, &data.as_slice().into())?;
                (Some(span), data)
            }
        };
        let call = async move {
            let mut call = connection.call(Service(service.0), &data);
            if let Some(span) = &mut span {
                call = call.in_span(span);
            }
            let outcome = match within {
                Some(within) => call.within(within).begin().await,
                None => call.begin().await,
            };
            tracing::ended(span, &outcome);
            let outcome = outcome.map(|response| Payload(response.take()));
            let output: Output = Box::new(move |py| Ok(Py::new(py, raised(outcome)?)?.into_any()));
            output
        };
        state.run(py, call, _future)
    }

    /// One of the servers, with a session that is up or opening, waited for at most `timeout` seconds.
    #[pyo3(signature = (timeout = 5.0))]
    fn peer(&self, py: Python<'_>, timeout: f64) -> PyResult<Peer> {
        let Parts { connection, state } = self.0.get()?;
        let state = open(state)?;
        state.may_wait()?;
        let (connection, within) = (connection.open()?, seconds(Some(timeout))?.unwrap_or_default());
        let deadline = std::time::Instant::now().checked_add(within);
        let mut found = connection.peer();
        if found.is_err() {
            state.wait_detached(py, deadline, || {
                found = connection.peer();
                found.is_ok()
            })?;
        }
        raised(found).map(Peer)
    }

    /// How many servers are known and can be reached.
    fn servers(&self) -> PyResult<usize> {
        let connection = self.0.get()?.connection.open()?;
        let servers = connection.servers().len();
        Ok(servers)
    }

    /// Ends the use of the name; sessions stay until the endpoint is closed.
    fn close(&self) -> PyResult<()> {
        self.0.get()?.connection.close();
        Ok(())
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_args))]
    fn __exit__(&self, _args: &Bound<'_, PyAny>) -> PyResult<()> {
        self.close()
    }
}
