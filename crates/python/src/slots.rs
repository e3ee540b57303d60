//! Slots of a store's daemon on this host: objects without a system call, and without an endpoint.

use core::cell::{RefCell, RefMut};
use core::time::Duration;
use std::time::Instant;

use farcall::bootstrap::HostPort;
use farcall::host_access;
use farcall::parameters::Settings;
use farcall_kv::daemon::{
    SlotCall, SlotCallFailure, SlotCalls, SlotFailure, SlotOutcome, attach_on_host, name_on_host,
};
use farcall_kv::durable::Level;
use farcall_kv::{Name, TableId, Value};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::buffer::Readable;
use crate::errors::{ClosedError, InHandlerError, Raise, raised};
use crate::numbers::seconds;
use crate::owned::{Owned, detached};
use crate::store::{bytes_of, condition, list, object, written};

/// How long a request is waited for unless its caller says otherwise: as a client of Rust waits.
const WITHIN: Duration = Duration::from_secs(11);

/// Looks with the lock of the interpreter: most requests end within them.
const LOOKS: u32 = 2000;

/// Looks without it, before the time is looked at and the core is offered to others.
const LOOKS_DETACHED: u32 = 1 << 12;

/// Signals are looked at this often.
const SIGNALS_EVERY: Duration = Duration::from_millis(50);

/// The number of the table of a name, whether or not there is one.
#[pyfunction]
pub fn table_number(name: &str) -> PyResult<u64> {
    Ok(raised(TableId::of(name))?.0)
}

/// Slots, for the thread that attached to the daemon.
#[pyclass(frozen, module = "farcall._native")]
pub struct Slots(Owned<RefCell<Option<SlotCalls>>>);

/// What came of a request, in memory that is not a slot's.
enum Came {
    Found(Vec<u8>, u64),
    Nothing,
    Version(u64, Level),
    Sum(i64, Level),
}

impl Came {
    fn of(outcome: SlotOutcome<'_>) -> Self {
        match outcome {
            SlotOutcome::Found { version, value } => Self::Found(value.to_vec(), version),
            SlotOutcome::Nothing | SlotOutcome::Deleted { version: 0, .. } => Self::Nothing,
            SlotOutcome::Written { version, level } | SlotOutcome::Deleted { version, level } => {
                Self::Version(version, level)
            }
            SlotOutcome::Counted { sum, level, .. } => Self::Sum(sum, level),
        }
    }

    fn to_python(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        match self {
            Self::Found(value, version) => object(py, value, *version),
            Self::Nothing => Ok(py.None()),
            Self::Version(version, level) => written(py, *version, *level),
            Self::Sum(sum, level) => written(py, *sum, *level),
        }
    }
}

/// Requests, as many of them in flight as there are slots. Those that are given up end in nobody's hands.
struct Run<'a, 'c> {
    slots: &'a mut SlotCalls,
    calls: &'a [SlotCall<'c>],
    begun: usize,
    ended: usize,
    came: Vec<Option<Result<Came, SlotCallFailure>>>,
}

impl Run<'_, '_> {
    fn is_over(&self) -> bool {
        self.ended == self.calls.len()
    }

    /// Begins what can be begun, and takes what has come.
    fn turn(&mut self) {
        while let Some(call) = self.calls.get(self.begun) {
            match self.slots.begin(call, self.begun as u64) {
                Ok(()) => {}
                // Those of a call that was given up may take a while.
                Err(SlotFailure::Full { .. }) => break,
                Err(failure) => self.end(self.begun, Err(failure)),
            }
            self.begun += 1;
        }
        while let Some((token, outcome)) = self.slots.next() {
            let outcome = outcome.map(Came::of);
            self.came[token as usize] = Some(outcome);
            self.ended += 1;
        }
    }

    fn end(&mut self, place: usize, outcome: Result<Came, SlotCallFailure>) {
        self.came[place] = Some(outcome);
        self.ended += 1;
    }

    /// Turns until all is over, or the time is.
    fn turn_for(&mut self, time: Duration) {
        let begun = Instant::now();
        while !self.is_over() && begun.elapsed() < time {
            for _ in 0..LOOKS_DETACHED {
                self.turn();
                if self.is_over() {
                    return;
                }
                core::hint::spin_loop();
            }
            std::thread::yield_now();
        }
    }

    fn forget_all(&mut self) {
        for token in 0..self.begun as u64 {
            if self.came[token as usize].is_none() {
                self.slots.forget(token);
            }
        }
    }
}

impl Slots {
    fn open(&self) -> PyResult<RefMut<'_, SlotCalls>> {
        RefMut::filter_map(self.borrow()?, Option::as_mut)
            .map_err(|_| ClosedError::new_err("this was closed; open it again"))
    }

    fn borrow(&self) -> PyResult<RefMut<'_, Option<SlotCalls>>> {
        // A handler of signals may come while they are waited for.
        let busy = |_| InHandlerError::new_err("these slots are in use; use others in a handler of signals");
        self.0.get()?.try_borrow_mut().map_err(busy)
    }

    /// Does requests, and waits for all of them.
    fn run(
        &self,
        py: Python<'_>,
        calls: &[SlotCall<'_>],
        timeout: Option<f64>,
    ) -> PyResult<Vec<Result<Came, SlotCallFailure>>> {
        let within = seconds(timeout)?.unwrap_or(WITHIN);
        let mut slots = self.open()?;
        let came = calls.iter().map(|_| None).collect();
        let mut run = Run { slots: &mut slots, calls, begun: 0, ended: 0, came };
        for _ in 0..LOOKS {
            run.turn();
            if run.is_over() {
                break;
            }
        }
        let begun = Instant::now();
        while !run.is_over() && begun.elapsed() < within {
            let time = within.saturating_sub(begun.elapsed()).min(SIGNALS_EVERY);
            detached(py, || run.turn_for(time));
            if let Err(interrupt) = py.check_signals() {
                run.forget_all();
                return Err(interrupt);
            }
        }
        run.forget_all();
        let timed_out = || Err(SlotFailure::TimedOut { within });
        Ok(run.came.into_iter().map(|came| came.unwrap_or_else(timed_out)).collect())
    }

    fn one(&self, py: Python<'_>, call: SlotCall<'_>, timeout: Option<f64>) -> PyResult<Py<PyAny>> {
        let came = self.run(py, &[call], timeout)?.pop().expect("one was asked for");
        raised(came)?.to_python(py)
    }

    fn many(&self, py: Python<'_>, calls: &[SlotCall<'_>]) -> PyResult<Py<PyAny>> {
        let came = self.run(py, calls, None)?;
        list(
            py,
            came.into_iter().map(|came| match came {
                Ok(came) => came.to_python(py),
                Err(failure) => Ok(failure.raise().into_value(py).into_any()),
            }),
        )
    }
}

#[pymethods]
impl Slots {
    /// Attaches to a daemon of the store that was started at `address`.
    #[new]
    fn new(py: Python<'_>, address: &str) -> PyResult<Self> {
        let at = HostPort::parse(address)
            .ok_or_else(|| PyValueError::new_err("the address of a store is written as host:port"))?;
        let settings = raised(Settings::load([]))?;
        let access = host_access(&settings).map_err(|error| PyValueError::new_err(error.to_string()))?;
        let client = raised(detached(py, || attach_on_host(&name_on_host(&at), &access)))?;
        Ok(Self(Owned::new(RefCell::new(Some(SlotCalls::new(client))))))
    }

    /// How many requests can be in flight at a time.
    #[getter]
    fn depth(&self) -> PyResult<usize> {
        Ok(self.open()?.depth())
    }

    #[pyo3(signature = (table, key, timeout = None))]
    fn get(
        &self,
        py: Python<'_>,
        table: u64,
        key: Readable<'_>,
        timeout: Option<f64>,
    ) -> PyResult<Py<PyAny>> {
        let key = bytes_of(&key);
        self.one(py, SlotCall::Get(raised(Name::new(TableId(table), &key))?), timeout)
    }

    #[pyo3(signature = (table, key, value, version = None, timeout = None))]
    fn put(
        &self,
        py: Python<'_>,
        table: u64,
        key: Readable<'_>,
        value: Readable<'_>,
        version: Option<u64>,
        timeout: Option<f64>,
    ) -> PyResult<Py<PyAny>> {
        let (key, value) = (bytes_of(&key), bytes_of(&value));
        let (name, value) = (raised(Name::new(TableId(table), &key))?, raised(Value::new(&value))?);
        self.one(py, SlotCall::Put(name, value, condition(version)), timeout)
    }

    #[pyo3(signature = (table, key, version = None, timeout = None))]
    fn remove(
        &self,
        py: Python<'_>,
        table: u64,
        key: Readable<'_>,
        version: Option<u64>,
        timeout: Option<f64>,
    ) -> PyResult<Py<PyAny>> {
        let key = bytes_of(&key);
        let name = raised(Name::new(TableId(table), &key))?;
        self.one(py, SlotCall::Delete(name, condition(version)), timeout)
    }

    #[pyo3(signature = (table, key, amount, timeout = None))]
    fn increment(
        &self,
        py: Python<'_>,
        table: u64,
        key: Readable<'_>,
        amount: i64,
        timeout: Option<f64>,
    ) -> PyResult<Py<PyAny>> {
        let key = bytes_of(&key);
        self.one(py, SlotCall::Increment(raised(Name::new(TableId(table), &key))?, amount), timeout)
    }

    /// Reads objects: for each its value and version, None if there is none, or the exception.
    fn get_many(&self, py: Python<'_>, table: u64, keys: Vec<Readable<'_>>) -> PyResult<Py<PyAny>> {
        let keys: Vec<Vec<u8>> = keys.iter().map(bytes_of).collect();
        let call = |key| Ok(SlotCall::Get(raised(Name::new(TableId(table), key))?));
        let calls: Vec<SlotCall<'_>> = keys.iter().map(|key| call(key)).collect::<PyResult<_>>()?;
        self.many(py, &calls)
    }

    /// Writes objects: for each its version afterwards with its level, or the exception.
    fn put_many(
        &self,
        py: Python<'_>,
        table: u64,
        objects: Vec<(Readable<'_>, Readable<'_>)>,
    ) -> PyResult<Py<PyAny>> {
        let objects: Vec<(Vec<u8>, Vec<u8>)> =
            objects.iter().map(|(key, value)| (bytes_of(key), bytes_of(value))).collect();
        let calls = objects.iter().map(|(key, value)| {
            let (name, value) = (raised(Name::new(TableId(table), key))?, raised(Value::new(value))?);
            Ok(SlotCall::Put(name, value, condition(None)))
        });
        let calls: Vec<SlotCall<'_>> = calls.collect::<PyResult<_>>()?;
        self.many(py, &calls)
    }

    /// Leaves the daemon.
    fn close(&self) -> PyResult<()> {
        drop(self.borrow()?.take());
        Ok(())
    }
}
