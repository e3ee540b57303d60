//! What the driver of a simulated host cannot see: that handlers take the processor's time.

use std::os::fd::RawFd;

use farcall_base::{Address, AddressError};
use farcall_base::{Identity, Instant, Principal};
use farcall_driver::{Loan, LoanError, Wait};
use farcall_sim::Host;
use farcall_transport::trace::{CallTracer, event};
use farcall_transport::{
    CallId, Deliver, DownReason, Holdings, MatchedBatch, MessageBatch, MessageId, Origin, Outbox, Owned,
    Posted, RequestBatch, RequestId, ResponseBatch, SendOutcome, Service, SessionId, Sink, Status,
    Submission, Submitted, Tag, Taken, Transport, TransportLimits,
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

/// What is sent is charged by the driver.
impl Outbox for ChargedTransport {
    fn call(&mut self, session: SessionId, call: CallId, service: Service, payload: &[u8]) -> Submitted {
        self.inner.call(session, call, service, payload)
    }

    fn reply(&mut self, request: RequestId, status: Status, payload: &[u8]) {
        self.inner.reply(request, status, payload);
    }

    fn send(&mut self, session: SessionId, send: MessageId, tag: Tag, payload: &[u8]) -> Submitted {
        self.inner.send(session, send, tag, payload)
    }

    fn submit_owned(&mut self, submission: Submission, payload: Owned) -> Submitted {
        self.inner.submit_owned(submission, payload)
    }

    fn cancel(&mut self, session: SessionId, call: CallId) {
        self.inner.cancel(session, call);
    }

    fn is_transmitted(&self, session: SessionId, call: CallId) -> bool {
        self.inner.is_transmitted(session, call)
    }

    fn cancel_send(&mut self, send: MessageId) -> usize {
        self.inner.cancel_send(send)
    }

    /// A message that is here already is received without a poll, at the price of one in a poll.
    fn post(
        &mut self,
        receive: MessageId,
        from: Option<Origin>,
        tag: Option<Tag>,
        in_place_bytes_max: usize,
        deliver: &mut Deliver<'_>,
    ) -> Posted {
        let posted = self.inner.post(receive, from, tag, in_place_bytes_max, deliver);
        if posted == Posted::Delivered {
            self.host.spend_handler();
        }
        posted
    }

    fn cancel_receive(&mut self, receive: MessageId) -> bool {
        self.inner.cancel_receive(receive)
    }

    fn hand_on_unexpected(&mut self, hand_on: bool) {
        self.inner.hand_on_unexpected(hand_on);
    }

    fn let_send(&mut self, session: SessionId, may_send: bool) {
        self.inner.let_send(session, may_send);
    }

    fn loan(&mut self, bytes: usize) -> Result<Loan, LoanError> {
        self.inner.loan(bytes)
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

    fn connect(&mut self, to: &Address, name: Option<&str>, now: Instant) -> Result<SessionId, AddressError> {
        self.inner.connect(to, name, now)
    }

    fn comes_from(&mut self, session: SessionId, to: &Address) -> bool {
        self.inner.comes_from(session, to)
    }

    fn taken_way(&self, session: SessionId) -> Option<Taken> {
        self.inner.taken_way(session)
    }

    fn close(&mut self, session: SessionId, now: Instant) {
        self.inner.close(session, now);
    }

    fn poll(&mut self, now: Instant, sink: &mut dyn Sink) -> usize {
        self.inner.poll(now, &mut ChargedSink { inner: sink, host: &self.host, tracer: &self.tracer })
    }

    fn flush(&mut self) -> bool {
        self.inner.flush()
    }

    fn trace_to(&mut self, tracer: CallTracer) {
        self.tracer = tracer.clone();
        self.inner.trace_to(tracer);
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.inner.next_deadline()
    }
}

impl Wait for ChargedTransport {
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

/// Passes on what comes in, at a price for each request, response and message. Of a batch the first is charged before it is
/// passed on, so that an answer to a single request takes the time of its handler; how many the others are is known afterwards.
struct ChargedSink<'a> {
    inner: &'a mut dyn Sink,
    host: &'a Host,
    tracer: &'a CallTracer,
}

impl ChargedSink<'_> {
    fn charge_others(&self, taken: usize) {
        (1..taken).for_each(|_| self.host.spend_handler());
    }
}

impl Sink for ChargedSink<'_> {
    fn requests(&mut self, outbox: &mut dyn Outbox, requests: &mut RequestBatch<'_>) {
        // What is charged stands for the handler's work.
        if let Some(request) = requests.single_request() {
            self.tracer.mark_request(event::HANDLER_BEGUN, request);
        }
        self.host.spend_handler();
        self.inner.requests(outbox, requests);
        self.charge_others(requests.taken());
    }

    fn responses(&mut self, outbox: &mut dyn Outbox, responses: &mut ResponseBatch<'_, '_>) {
        self.host.spend_handler();
        self.inner.responses(outbox, responses);
        self.charge_others(responses.taken());
    }

    fn received(&mut self, messages: &mut MatchedBatch<'_, '_>) {
        self.host.spend_handler();
        self.inner.received(messages);
        self.charge_others(messages.taken());
    }

    fn messages(&mut self, outbox: &mut dyn Outbox, messages: &mut MessageBatch<'_>) {
        self.host.spend_handler();
        self.inner.messages(outbox, messages);
        self.charge_others(messages.taken());
    }

    fn sent(&mut self, outbox: &mut dyn Outbox, send: MessageId, outcome: SendOutcome) {
        self.inner.sent(outbox, send, outcome);
    }

    fn session_up(
        &mut self,
        outbox: &mut dyn Outbox,
        session: SessionId,
        peer: Identity,
        principal: &Principal,
    ) {
        self.inner.session_up(outbox, session, peer, principal);
    }

    fn session_down(&mut self, outbox: &mut dyn Outbox, session: SessionId, reason: &DownReason) {
        self.inner.session_down(outbox, session, reason);
    }

    fn session_moved(&mut self, outbox: &mut dyn Outbox, session: SessionId) {
        self.inner.session_moved(outbox, session);
    }
}
