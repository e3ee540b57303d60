//! Traces across processes: contexts, spans of calls and of requests, and the recorder that writes them.
//!
//! The scope is a context variable of Python, so that tasks have theirs: `farcall.tracing`. A traced call has
//! its context in front of its bytes, as typed services of Rust have it.

use core::fmt::Display;
use core::time::Duration;
use std::fs::OpenOptions;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use farcall::spans::{self, BegunSpan, KEPT_MAX, Keep, RecorderError, Resource, begin_call};
use farcall::{Outgoing, Service};
use pyo3::exceptions::PyValueError;
use pyo3::intern;
use pyo3::prelude::*;

use crate::errors::{ResourceError, UsageError};
use crate::owned::detached;

/// What a span says of a handler that refused, or raised. Not the exception: it may hold what collectors must
/// not know.
const REFUSED: &str = "the handler refused";

/// Where in which trace a call is made.
#[pyclass(frozen, eq, hash, module = "farcall")]
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct TraceContext(pub spans::TraceContext);

#[pymethods]
impl TraceContext {
    /// The beginning of a new trace.
    #[staticmethod]
    fn root() -> Self {
        Self(spans::TraceContext::root())
    }

    /// The context that the headers of a caller say; None of a malformed one, which is counted.
    #[staticmethod]
    #[pyo3(signature = (traceparent, tracestate = None))]
    fn of_headers(traceparent: &str, tracestate: Option<&str>) -> Option<Self> {
        let state = tracestate.map(str::as_bytes);
        spans::TraceContext::from_headers(traceparent.as_bytes(), state).ok().map(Self)
    }

    /// The header of that name.
    #[getter]
    fn traceparent(&self) -> String {
        self.0.traceparent()
    }

    /// The header of that name, if there is one.
    #[getter]
    fn tracestate(&self) -> Option<&str> {
        self.0.state()
    }

    fn __repr__(&self) -> String {
        format!("TraceContext({})", self.0.traceparent())
    }
}

/// The context in whose scope the thread or task is.
fn current(py: Python<'_>) -> PyResult<Option<spans::TraceContext>> {
    let current = py.import(intern!(py, "farcall.tracing"))?.getattr(intern!(py, "_current"))?;
    let context: Option<Bound<'_, TraceContext>> = current.call_method0(intern!(py, "get"))?.extract()?;
    Ok(context.map(|context| context.get().0.clone()))
}

/// Begins a span of a call in the scope of the thread or task; gives the bytes with the context in front.
pub fn begin(
    py: Python<'_>,
    name: &str,
    service: u16,
    data: &Outgoing<'_>,
) -> PyResult<(BegunSpan, Vec<u8>)> {
    let span = {
        let _scope = spans::TraceContext::enter(current(py)?);
        begin_call(name, Service(service))
    };
    let mut bytes = Vec::with_capacity(data.len() + 32);
    spans::TraceContext::put(span.context(), &mut bytes);
    bytes.extend_from_slice(data.as_slice());
    Ok((span, bytes))
}

/// Ends the span of a call, if it has one.
pub fn ended<T, E: Display>(span: Option<BegunSpan>, outcome: &Result<T, E>) {
    if let Some(span) = span {
        span.end(outcome.as_ref().err().map(ToString::to_string).as_deref());
    }
}

/// Ends the span of a request, if it has one.
pub fn answered(span: Option<BegunSpan>, is_refused: bool) {
    if let Some(span) = span {
        span.end(is_refused.then_some(REFUSED));
    }
}

/// Keeps the slowest spans of the process, and writes them.
#[pyclass(frozen, module = "farcall")]
pub struct SpanRecorder(Mutex<Option<spans::SpanRecorder>>);

#[pymethods]
impl SpanRecorder {
    #[new]
    #[pyo3(signature = (path, name, slowest = 10, window = 10.0))]
    fn new(path: PathBuf, name: &str, slowest: usize, window: f64) -> PyResult<Self> {
        let window = Duration::try_from_secs_f64(window).ok().filter(|window| !window.is_zero());
        let window = window.ok_or_else(|| PyValueError::new_err("a window is longer than 0 seconds"))?;
        if !(1..=KEPT_MAX).contains(&slowest) {
            return Err(PyValueError::new_err(format!("of each name 1 to {KEPT_MAX} spans are kept")));
        }
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        let recorder = spans::SpanRecorder::start(Resource::process(name), Keep { slowest, window }, file);
        let recorder = recorder.map_err(|error| match error {
            RecorderError::Already => UsageError::new_err(error.to_string()),
            RecorderError::Thread(_) => ResourceError::new_err(error.to_string()),
        })?;
        Ok(Self(Mutex::new(Some(recorder))))
    }

    /// Writes the spans of the last window, and ends.
    fn close(&self, py: Python<'_>) {
        let recorder = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        detached(py, || drop(recorder));
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_args))]
    fn __exit__(&self, py: Python<'_>, _args: &Bound<'_, PyAny>) {
        self.close(py);
    }
}

impl Drop for SpanRecorder {
    fn drop(&mut self) {
        // Its thread needs no lock of the interpreter, and may be waited for with it.
        drop(self.0.get_mut().unwrap_or_else(PoisonError::into_inner).take());
    }
}
