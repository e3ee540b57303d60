//! Endpoints: calls, messages, services, and what an event loop needs.

use core::cell::RefCell;
use core::time::Duration;
use std::os::fd::AsRawFd;
use std::rc::Rc;
use std::time::Instant;

use farcall::spans::BegunSpan;
use farcall::{AnySource, AnyTag, Cancellation, Operation, Outgoing, Service, SourceChoice, Tag, TagChoice};
use pyo3::prelude::*;

use crate::buffer::{Data, Room};
use crate::connection::{Connection, Listener};
use crate::errors::{ClosedError, raised};
use crate::group::Group;
use crate::node::Node;
use crate::numbers::{ServiceNumber, TagNumber, seconds};
use crate::owned::{Owned, detached};
use crate::payload::{Loan, Message, Payload, Peer};
use crate::request::Request;
use crate::state::State;
use crate::store::Store;
use crate::tracing;

/// One thread's door to its peers.
#[pyclass(subclass, frozen, module = "farcall._native")]
pub struct Endpoint {
    /// `None` once it is closed.
    state: Owned<RefCell<Option<Rc<State>>>>,
    rank: u32,
    size: u32,
}

impl Endpoint {
    fn open(&self) -> PyResult<Rc<State>> {
        let state = self.state.get()?.borrow().clone();
        state.ok_or_else(|| ClosedError::new_err("the endpoint is closed; open another one"))
    }
}

/// Sets the timeout of a call, send or receive, if there is one.
macro_rules! within {
    ($operation:expr, $timeout:expr) => {
        match seconds($timeout)? {
            Some(timeout) => $operation.within(timeout),
            None => $operation,
        }
    };
}

fn source(peer: Option<Peer>) -> SourceChoice {
    peer.map_or_else(|| AnySource.into(), |peer| peer.0.into())
}

fn tag_choice(tag: Option<TagNumber>) -> TagChoice {
    tag.map_or_else(|| AnyTag.into(), |tag| Tag(tag.0).into())
}

/// The span of a call that is traced under a name, and what is sent: then the context comes first.
fn spanned<'d>(
    py: Python<'_>,
    traced: Option<&str>,
    service: u16,
    data: Outgoing<'d>,
) -> PyResult<(Option<BegunSpan>, Outgoing<'d>)> {
    let Some(name) = traced else { return Ok((None, data)) };
    let (span, bytes) = tracing::begin(py, name, service, &data)?;
    Ok((Some(span), bytes.into()))
}

#[pymethods]
impl Endpoint {
    #[new]
    #[pyo3(signature = (node, transport, settings))]
    fn new(py: Python<'_>, node: &Node, transport: &str, settings: Vec<String>) -> PyResult<Self> {
        let kind = raised(transport.parse())?;
        let node = node.open()?;
        let mut chosen = node.settings().clone();
        for assignment in &settings {
            raised(chosen.assign(assignment))?;
        }
        let endpoint = raised(detached(py, || node.endpoint_with(kind, &chosen)))?;
        let state = State::new(endpoint, chosen.endpoint.spin_time);
        let state = Owned::new(RefCell::new(Some(Rc::new(state))));
        Ok(Self { state, rank: node.rank(), size: node.size() })
    }

    /// Closes the endpoint and its sessions.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        if let Some(state) = self.state.get()?.take() {
            state.close_children();
            detached(py, || drop(state));
        }
        Ok(())
    }

    #[getter]
    fn closed(&self) -> PyResult<bool> {
        Ok(self.state.get()?.borrow().is_none())
    }

    #[pyo3(signature = (rank, endpoint = 0, timeout = None))]
    fn peer(&self, py: Python<'_>, rank: u32, endpoint: u32, timeout: Option<f64>) -> PyResult<Peer> {
        let (state, within) = (self.open()?, seconds(timeout)?);
        state.may_wait()?;
        let found = detached(py, || match within {
            Some(within) if endpoint == 0 => state.endpoint.peer_within(rank, within),
            _ => state.endpoint.peer_endpoint(rank, endpoint),
        });
        raised(found).map(Peer)
    }

    fn wait_for(&self, py: Python<'_>, peer: Peer) -> PyResult<()> {
        let state = self.open()?;
        state.may_wait()?;
        raised(detached(py, || state.endpoint.wait_for(peer.0)))
    }

    fn close_peer(&self, peer: Peer) -> PyResult<()> {
        let state = self.open()?;
        state.endpoint.close(peer.0);
        Ok(())
    }

    fn way(&self, peer: Peer) -> PyResult<Option<&'static str>> {
        Ok(self.open()?.endpoint.way(peer.0).map(|taken| taken.way))
    }

    fn principal(&self, peer: Peer) -> PyResult<String> {
        Ok(self.open()?.endpoint.principal(peer.0).to_string())
    }

    #[pyo3(signature = (peer, service, data, timeout = None, traced = None))]
    fn call(
        &self,
        py: Python<'_>,
        peer: Peer,
        service: ServiceNumber,
        data: Data<'_>,
        timeout: Option<f64>,
        traced: Option<&str>,
    ) -> PyResult<Payload> {
        let state = self.open()?;
        state.may_wait()?;
        let (mut span, outgoing) = spanned(py, traced, service.0, data.outgoing()?)?;
        let call = within!(state.endpoint.call(peer.0, Service(service.0), outgoing), timeout).start();
        let pending = match call {
            Ok(pending) => pending,
            failed => {
                tracing::ended(span, &failed);
                return Err(raised(failed).err().expect("it failed"));
            }
        };
        span.iter_mut().for_each(|span| pending.in_span(span));
        state.wait_until(py, || pending.is_complete())?;
        let outcome = pending.wait();
        tracing::ended(span, &outcome);
        raised(outcome).map(|response| Payload(response.take()))
    }

    /// From now on the endpoint traces what it does, or no more: spans have their stages then.
    #[pyo3(signature = (on = true))]
    fn trace(&self, on: bool) -> PyResult<()> {
        self.open()?.endpoint.tracer().switch(on);
        Ok(())
    }

    #[pyo3(signature = (peer, tag, data, timeout = None))]
    fn send(
        &self,
        py: Python<'_>,
        peer: Peer,
        tag: TagNumber,
        data: Data<'_>,
        timeout: Option<f64>,
    ) -> PyResult<()> {
        let state = self.open()?;
        let send = state.endpoint.send(peer.0, Tag(tag.0), data.outgoing()?);
        let sending = raised(within!(send, timeout).start())?;
        if state.is_in_handler() {
            // It leaves with the next poll, which a handler must not make.
            return Ok(());
        }
        state.wait_until(py, || sending.is_complete())?;
        raised(sending.wait())
    }

    #[pyo3(signature = (source = None, tag = None, timeout = None))]
    fn receive(
        &self,
        py: Python<'_>,
        source: Option<Peer>,
        tag: Option<TagNumber>,
        timeout: Option<f64>,
    ) -> PyResult<Message> {
        let state = self.open()?;
        state.may_wait()?;
        let receive = state.endpoint.receive(self::source(source), tag_choice(tag));
        let receiving = raised(within!(receive, timeout).start())?;
        state.wait_until(py, || receiving.is_complete())?;
        let message = raised(receiving.wait())?;
        let (peer, tag) = (Peer(message.peer()), message.tag().0);
        Ok(Message { peer, tag, payload: Payload(message.take()) })
    }

    #[pyo3(signature = (buffer, source = None, tag = None, timeout = None))]
    fn receive_into(
        &self,
        py: Python<'_>,
        buffer: &Bound<'_, PyAny>,
        source: Option<Peer>,
        tag: Option<TagNumber>,
        timeout: Option<f64>,
    ) -> PyResult<usize> {
        let state = self.open()?;
        state.may_wait()?;
        let (mut room, _) = Room::of(buffer)?;
        let into = room.elements::<u8>().expect("bytes are aligned");
        let receive = state.endpoint.receive(self::source(source), tag_choice(tag)).at_most(into.len());
        let receiving = raised(within!(receive, timeout).start())?;
        state.wait_until(py, || receiving.is_complete())?;
        let message = raised(receiving.wait())?;
        into[..message.len()].copy_from_slice(&message);
        Ok(message.len())
    }

    fn loan(&self, bytes: usize) -> PyResult<Loan> {
        raised(self.open()?.endpoint.loan(bytes)).map(Loan::new)
    }

    /// One poll, or as many as it takes until a handler has run or the timeout is over; says how many have.
    #[pyo3(signature = (timeout = 0.0))]
    fn poll(&self, py: Python<'_>, timeout: f64) -> PyResult<usize> {
        let state = self.open()?;
        state.may_wait()?;
        let within = seconds(Some(timeout))?.unwrap_or_default();
        let noted = |event: farcall::Event<'_>| state.waiting.note(event);
        let busy = state.endpoint.poll(|_, event| noted(event)) > 0 || state.arrived.any();
        if !busy && !within.is_zero() {
            let deadline = Instant::now().checked_add(within);
            state.wait_detached(py, deadline, || state.endpoint.reap(|_, event| noted(event)) > 0)?;
        }
        let ran = state.run_handlers(py)? + state.waiting.noted();
        state.waiting.settle(py)?;
        Ok(ran)
    }

    #[pyo3(signature = (callback))]
    fn on_peer_down(&self, callback: Option<Py<PyAny>>) -> PyResult<()> {
        self.open()?.waiting.on_peer_down(callback);
        Ok(())
    }

    /// With None for a handler requests are gathered for `_take_requests`.
    #[pyo3(signature = (service, handler, traced = None))]
    fn _serve(
        &self,
        service: ServiceNumber,
        handler: Option<Py<PyAny>>,
        traced: Option<String>,
    ) -> PyResult<()> {
        self.open()?.serve(service.0, handler, traced)
    }

    fn listen(&self, name: &str) -> PyResult<Listener> {
        let state = self.open()?;
        Ok(Listener::new(state.list(raised(state.endpoint.listen(name))?)))
    }

    /// Leaves before a planned stop: the name is withdrawn, requests that arrive from now on go to other
    /// servers, and those that have arrived are answered. Says how many were not, within `timeout` seconds.
    /// The handlers are gone afterwards.
    #[pyo3(signature = (listener, timeout = 5.0))]
    fn leave(&self, py: Python<'_>, listener: &Listener, timeout: f64) -> PyResult<usize> {
        let state = self.open()?;
        state.may_wait()?;
        state.endpoint.poll_once();
        state.run_handlers(py)?;
        let (listener, within) = (listener.take()?, seconds(Some(timeout))?.unwrap_or_default());
        Ok(detached(py, || listener.leave(&state.endpoint, within)).unanswered)
    }

    #[pyo3(signature = (target, balance = "round-robin"))]
    fn connect(&self, target: &str, balance: &str) -> PyResult<Connection> {
        Connection::new(self.open()?, target, balance)
    }

    #[pyo3(signature = (number, ranks = None))]
    fn _group(&self, number: u16, ranks: Option<Vec<u32>>) -> PyResult<Group> {
        Group::new(self.open()?, number, self.rank, ranks.unwrap_or_else(|| (0..self.size).collect()))
    }

    fn _store(&self, ranks: Vec<u32>) -> PyResult<Store> {
        Store::new(self.open()?, ranks)
    }

    #[pyo3(signature = (future, peer, service, data, timeout, traced = None))]
    #[expect(clippy::too_many_arguments, reason = "those of a call, and its future")]
    fn _post_call(
        &self,
        py: Python<'_>,
        future: Py<PyAny>,
        peer: Peer,
        service: ServiceNumber,
        data: Data<'_>,
        timeout: Option<f64>,
        traced: Option<&str>,
    ) -> PyResult<u32> {
        let state = self.open()?;
        state.waiting.begin(future, |token| {
            let (span, outgoing) = spanned(py, traced, service.0, data.outgoing()?)?;
            let call = state.endpoint.call(peer.0, Service(service.0), outgoing);
            let begun = within!(call, timeout).post(token);
            match (span, &begun) {
                (Some(mut span), Ok(operation)) => {
                    state.endpoint.in_span(*operation, &mut span);
                    state.waiting.follow(token, span);
                }
                (span, _) => tracing::ended(span, &begun),
            }
            raised(begun).map(Operation::number)
        })
    }

    /// The number is for `_cancel`; None if there is nothing left to cancel.
    #[pyo3(signature = (future, peer, tag, data, timeout))]
    fn _post_send(
        &self,
        future: Py<PyAny>,
        peer: Peer,
        tag: TagNumber,
        data: Data<'_>,
        timeout: Option<f64>,
    ) -> PyResult<Option<u32>> {
        let state = self.open()?;
        state.waiting.begin(future, |token| {
            let send = state.endpoint.send(peer.0, Tag(tag.0), data.outgoing()?);
            let begun = raised(within!(send, timeout).post(token))?;
            Ok(begun.map(Operation::number))
        })
    }

    #[pyo3(signature = (future, source, tag, timeout))]
    fn _post_receive(
        &self,
        future: Py<PyAny>,
        source: Option<Peer>,
        tag: Option<TagNumber>,
        timeout: Option<f64>,
    ) -> PyResult<u32> {
        let state = self.open()?;
        state.waiting.begin(future, |token| {
            let receive = state.endpoint.receive(self::source(source), tag_choice(tag));
            raised(within!(receive, timeout).post(token)).map(Operation::number)
        })
    }

    fn _cancel(&self, operation: u32) -> PyResult<bool> {
        let state = self.open()?;
        Ok(state.endpoint.cancel(Operation::from_number(operation)) == Cancellation::Cancelled)
    }

    /// Polls until something happened, at most for a number of microseconds if operations are in flight;
    /// futures are settled after it. Says how much happened, and whether requests wait for their handlers.
    fn _turn(&self, py: Python<'_>, spin_us: u64) -> PyResult<(usize, bool)> {
        let state = self.open()?;
        let done = detached(py, || poll_once_or_spin(&state, Duration::from_micros(spin_us)));
        state.waiting.settle(py)?;
        state.tasks.settle(py)?;
        Ok((done, state.arrived.any()))
    }

    /// Ends all futures with an exception, before the endpoint is closed.
    fn _fail_all(&self, error: &Bound<'_, PyAny>) -> PyResult<()> {
        let state = self.open()?;
        state.waiting.fail_all(error)?;
        state.tasks.fail_all(error)
    }

    fn _take_requests(&self) -> PyResult<Vec<Request>> {
        let arrived = &self.open()?.arrived;
        Ok(core::iter::from_fn(|| arrived.pop()).collect())
    }

    fn fileno(&self) -> PyResult<i32> {
        self.open()?.with_wait_set(|set| Ok(set.as_raw_fd()))
    }

    /// Announces a wait for the descriptor: how many seconds it may last; None if there is something to do.
    fn _prepare_wait(&self) -> PyResult<Option<f64>> {
        let at_most = self.open()?.with_wait_set(farcall::WaitSet::prepare)?;
        Ok(at_most.map(|at_most| at_most.as_secs_f64()))
    }

    fn _finish_wait(&self) -> PyResult<()> {
        self.open()?.with_wait_set(|set| {
            set.finish();
            Ok(())
        })
    }

    fn __repr__(&self) -> &'static str {
        "Endpoint()"
    }
}

/// Polls until there was something to do for Python, or the time is over. What is worth a spin is the end of
/// an operation in flight.
fn poll_once_or_spin(state: &State, spin: Duration) -> usize {
    let mut end = None;
    let mut polled = 0;
    loop {
        polled += state.endpoint.poll(|_, event| state.waiting.note(event));
        while state.tasks.round() {
            polled += 1 + state.endpoint.poll(|_, event| state.waiting.note(event));
        }
        let done = state.waiting.noted() + state.tasks.ended() + usize::from(state.arrived.any());
        if done > 0 || !(state.waiting.any() || state.tasks.any()) {
            return done + polled;
        }
        let now = Instant::now();
        if now >= *end.get_or_insert(now + spin) {
            return polled;
        }
    }
}
