//! What the driver of a simulated host cannot see: that handlers take the processor's time.

use std::os::fd::RawFd;

use farcall_base::{Address, AddressError};
use farcall_base::{Identity, Instant};
use farcall_sim::Host;
use farcall_transport::trace::{CallTracer, event};
use farcall_transport::{
    CallId, DownReason, Envelope, Holdings, Incoming, MessageId, Outbox, RequestId, SendOutcome, Service,
    SessionId, Sink, Status, Transport, TransportLimits,
};

/// A transport that charges its host for each request, response and message that it hands on.
pub struct ChargedTransport {
    inner: Box<dyn Transport>,
    host: Host,
    tracer: CallTracer,
}

impl ChargedTransport {
    /// Wraps the transport of an endpoint on `host`.
    pub fn new(inner: Box<dyn Transport>, host: Host) -> Self {
        Self { inner, host, tracer: CallTracer::default() }
    }
}

impl Transport for ChargedTransport {
    fn limits(&self) -> TransportLimits {
        self.inner.limits()
    }

    fn holdings(&self) -> Holdings {
        self.inner.holdings()
    }

    fn address(&self) -> Address {
        self.inner.address()
    }

    fn connect(&mut self, to: &Address, now: Instant) -> Result<SessionId, AddressError> {
        self.inner.connect(to, now)
    }

    fn close(&mut self, session: SessionId, now: Instant) {
        self.inner.close(session, now);
    }

    fn poll(&mut self, now: Instant, sink: &mut dyn Sink) -> usize {
        self.inner.poll(now, &mut ChargedSink { inner: sink, host: &self.host, tracer: &self.tracer })
    }

    fn trace_to(&mut self, tracer: CallTracer) {
        self.tracer = tracer.clone();
        self.inner.trace_to(tracer);
    }

    fn outbox(&mut self) -> &mut dyn Outbox {
        self.inner.outbox()
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.inner.next_deadline()
    }

    fn prepare_wait(&mut self) {
        self.inner.prepare_wait();
    }

    fn finish_wait(&mut self) {
        self.inner.finish_wait();
    }

    fn wait_descriptors(&self) -> Vec<RawFd> {
        self.inner.wait_descriptors()
    }
}

/// Passes on what comes in, at a price.
struct ChargedSink<'a> {
    inner: &'a mut dyn Sink,
    host: &'a Host,
    tracer: &'a CallTracer,
}

impl Sink for ChargedSink<'_> {
    fn request(
        &mut self,
        outbox: &mut dyn Outbox,
        request: RequestId,
        service: Service,
        payload: &Incoming<'_>,
    ) {
        // What is charged stands for the handler's work.
        self.tracer.mark_request(event::HANDLER_BEGUN, request);
        self.host.spend_handler();
        self.inner.request(outbox, request, service, payload);
    }

    fn response(
        &mut self,
        outbox: &mut dyn Outbox,
        session: SessionId,
        call: CallId,
        status: Status,
        payload: &Incoming<'_>,
    ) {
        self.host.spend_handler();
        self.inner.response(outbox, session, call, status, payload);
    }

    fn received(
        &mut self,
        outbox: &mut dyn Outbox,
        receive: MessageId,
        envelope: Envelope,
        payload: &Incoming<'_>,
    ) {
        self.host.spend_handler();
        self.inner.received(outbox, receive, envelope, payload);
    }

    fn message(&mut self, outbox: &mut dyn Outbox, envelope: Envelope, payload: &Incoming<'_>) {
        self.host.spend_handler();
        self.inner.message(outbox, envelope, payload);
    }

    fn sent(&mut self, outbox: &mut dyn Outbox, send: MessageId, outcome: SendOutcome) {
        self.inner.sent(outbox, send, outcome);
    }

    fn session_up(&mut self, outbox: &mut dyn Outbox, session: SessionId, peer: Identity) {
        self.inner.session_up(outbox, session, peer);
    }

    fn session_down(&mut self, outbox: &mut dyn Outbox, session: SessionId, reason: &DownReason) {
        self.inner.session_down(outbox, session, reason);
    }
}
