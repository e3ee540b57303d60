//! Requests as handlers of Python get them, and the duty to answer them later.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use farcall::{Endpoint, Outgoing, Service};
use pyo3::prelude::*;

use crate::buffer::Data;
use crate::errors::ClosedError;
use crate::payload::{Payload, Peer};
use crate::principal::Principal;

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
    /// `None` once it is answered or deferred.
    deferred: Mutex<Option<farcall::Deferred>>,
}

impl Request {
    /// The duty to answer, once.
    pub fn duty(&self) -> Option<farcall::Deferred> {
        self.deferred.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

#[pymethods]
impl Request {
    /// Postpones the answer, which is given with the object that is returned, from any thread.
    fn defer(&self) -> PyResult<Deferred> {
        let duty = self.duty().ok_or_else(answered)?;
        Ok(Deferred(Mutex::new(Some(duty))))
    }

    /// Answers, from any thread.
    #[pyo3(signature = (data = None))]
    fn reply(&self, data: Option<Data<'_>>) -> PyResult<()> {
        // What cannot be sent leaves the request to be answered otherwise.
        let data = data.as_ref().map(Data::outgoing).transpose()?;
        let duty = self.duty().ok_or_else(answered)?;
        send(duty, data);
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
pub struct Deferred(Mutex<Option<farcall::Deferred>>);

impl Deferred {
    fn take(&self) -> PyResult<farcall::Deferred> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take().ok_or_else(answered)
    }
}

#[pymethods]
impl Deferred {
    /// Answers.
    #[pyo3(signature = (data = None))]
    fn reply(&self, data: Option<Data<'_>>) -> PyResult<()> {
        let data = data.as_ref().map(Data::outgoing).transpose()?;
        send(self.take()?, data);
        Ok(())
    }

    /// Refuses, with a code of the handler's own, 0 to 255, and says why.
    #[pyo3(signature = (code, reason = ""))]
    fn refuse(&self, code: u8, reason: &str) -> PyResult<()> {
        self.take()?.refuse_because(code, reason);
        Ok(())
    }

    fn __repr__(&self) -> &'static str {
        "Deferred()"
    }
}

fn send(duty: farcall::Deferred, data: Option<Outgoing<'_>>) {
    match data {
        Some(data) => duty.send(data),
        None => duty.send(&[]),
    }
}

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
    /// have unanswered, as each of them is one.
    pub fn gather(self: &Arc<Self>, endpoint: &Endpoint, service: Service) {
        let arrived = Arc::clone(self);
        endpoint.serve(service, move |request, reply| {
            let (peer, payload) = (Peer(request.peer()), Payload(request.take()));
            let principal = Principal(reply.principal());
            let (deferred, _context) = reply.defer();
            let deferred = Mutex::new(Some(deferred));
            arrived.push(Request { peer, service: service.0, principal, payload, deferred });
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
