//! Requests as handlers of Python get them, and the duty to answer them later.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use farcall::spans::{self, BegunSpan, begin_handler};
use farcall::{Endpoint, Outgoing, Service};
use pyo3::prelude::*;

use crate::buffer::Data;
use crate::errors::{ClosedError, HANDLER_FAILED};
use crate::payload::{Payload, Peer};
use crate::principal::Principal;
use crate::tracing::{self, TraceContext};

/// The duty to answer a request, and the span that ends with it. Dropped, the span counts as given up.
pub struct Duty {
    deferred: farcall::Deferred,
    span: Option<BegunSpan>,
}

impl Duty {
    /// Answers, from any thread.
    fn send(self, data: Option<Outgoing<'_>>) {
        match data {
            Some(data) => self.deferred.send(data),
            None => self.deferred.send(&[]),
        }
        tracing::answered(self.span, false);
    }

    /// Answers, on the endpoint's thread.
    pub fn reply_by(self, endpoint: &Endpoint, data: Option<Outgoing<'_>>) {
        match data {
            Some(data) => endpoint.reply(self.deferred, data),
            None => endpoint.reply(self.deferred, &[]),
        }
        tracing::answered(self.span, false);
    }

    /// Refuses, on the endpoint's thread.
    pub fn refuse_by(self, endpoint: &Endpoint, code: u8, why: &str) {
        endpoint.refuse_because(self.deferred, code, why);
        tracing::answered(self.span, true);
    }
}

/// A request.
#[pyclass(frozen, module = "farcall")]
pub struct Request {
    /// The caller, which can be called back.
    #[pyo3(get)]
    peer: Peer,
    /// The service that was called.
    #[pyo3(get)]
    pub service: u16,
    /// Who the caller is, as its transport proves.
    #[pyo3(get)]
    principal: Principal,
    /// The bytes.
    #[pyo3(get)]
    payload: Payload,
    /// The context in whose scope a handler of a traced service runs.
    #[pyo3(get)]
    trace: Option<TraceContext>,
    /// `None` once it is answered or deferred.
    duty: Mutex<Option<Duty>>,
}

impl Request {
    /// The duty to answer, once.
    pub fn duty(&self) -> Option<Duty> {
        self.duty.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

#[pymethods]
impl Request {
    /// Postpones the answer, which is given with the object that is returned, from any thread.
    fn defer(&self) -> PyResult<Deferred> {
        let duty = self.duty().ok_or_else(answered)?;
        Ok(Deferred(Mutex::new(Some(duty))))
    }

    /// Its handler begins now.
    fn _taken(&self) {
        let mut duty = self.duty.lock().unwrap_or_else(PoisonError::into_inner);
        duty.iter_mut().flat_map(|duty| &mut duty.span).for_each(BegunSpan::taken);
    }

    /// Answers, from any thread.
    #[pyo3(signature = (data = None))]
    fn reply(&self, data: Option<Data<'_>>) -> PyResult<()> {
        // What cannot be sent leaves the request to be answered otherwise.
        let data = data.as_ref().map(Data::outgoing).transpose()?;
        self.duty().ok_or_else(answered)?.send(data);
        Ok(())
    }

    /// Refuses, with a code of the handler's own, 0 to 255, and says why; from any thread.
    #[pyo3(signature = (code, reason = ""))]
    fn refuse(&self, code: u8, reason: &str) -> PyResult<()> {
        self.defer()?.refuse(code, reason)
    }

    fn __len__(&self) -> usize {
        self.payload.0.len()
    }

    fn __repr__(&self) -> String {
        format!("Request(service={}, {} bytes)", self.service, self.payload.0.len())
    }
}

/// The duty to answer a request, from any thread. Dropped without an answer, it tells the caller so.
#[pyclass(frozen, module = "farcall")]
pub struct Deferred(Mutex<Option<Duty>>);

impl Deferred {
    fn take(&self) -> PyResult<Duty> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take().ok_or_else(answered)
    }
}

#[pymethods]
impl Deferred {
    /// Answers.
    #[pyo3(signature = (data = None))]
    fn reply(&self, data: Option<Data<'_>>) -> PyResult<()> {
        let data = data.as_ref().map(Data::outgoing).transpose()?;
        self.take()?.send(data);
        Ok(())
    }

    /// Refuses, with a code of the handler's own, 0 to 255, and says why.
    #[pyo3(signature = (code, reason = ""))]
    fn refuse(&self, code: u8, reason: &str) -> PyResult<()> {
        let Duty { deferred, span } = self.take()?;
        deferred.refuse_because(code, reason);
        tracing::answered(span, true);
        Ok(())
    }

    fn __repr__(&self) -> &'static str {
        "Deferred()"
    }
}

/// Why a request for a traced service is refused that has no place for a context.
const NO_CONTEXT: &str = "the request does not begin with a trace context; call the service with `traced`";

fn answered() -> PyErr {
    ClosedError::new_err("the request is answered or deferred already")
}

/// Requests that a poll has gathered, and the handlers have not seen.
#[derive(Default)]
pub struct Arrived {
    count: AtomicUsize,
    requests: Mutex<VecDeque<Request>>,
}

impl Arrived {
    /// From now on requests for a service are gathered. What waits is bounded by the calls that peers may
    /// have unanswered, as each of them is one. Those of a service that is traced, under a name, have a
    /// context in front.
    pub fn gather(self: &Arc<Self>, endpoint: &Endpoint, service: Service, traced: Option<String>) {
        let arrived = Arc::clone(self);
        endpoint.serve(service, move |request, reply| {
            let (payload, mut span) = match &traced {
                None => (request.take(), None),
                Some(name) => match spans::TraceContext::take(request.payload()) {
                    None => return reply.refuse_because(HANDLER_FAILED, NO_CONTEXT),
                    Some((context, bytes)) => {
                        (bytes.to_vec().into(), Some(begin_handler(name, service, context)))
                    }
                },
            };
            span.iter_mut().for_each(|span| reply.in_span(span));
            let trace = span.as_ref().and_then(BegunSpan::context).cloned().map(TraceContext);
            let (peer, payload) = (Peer(request.peer()), Payload(payload));
            let principal = Principal(reply.principal());
            let (deferred, _context) = reply.defer();
            let duty = Mutex::new(Some(Duty { deferred, span }));
            arrived.push(Request { peer, service: service.0, principal, payload, trace, duty });
        });
    }

    fn push(&self, request: Request) {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).push_back(request);
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether there is one.
    pub fn any(&self) -> bool {
        self.count.load(Ordering::Relaxed) > 0
    }

    /// The oldest.
    pub fn pop(&self) -> Option<Request> {
        if !self.any() {
            return None;
        }
        let request = self.requests.lock().unwrap_or_else(PoisonError::into_inner).pop_front()?;
        self.count.fetch_sub(1, Ordering::Relaxed);
        Some(request)
    }
}
