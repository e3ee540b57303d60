//! What a handler gets: the request to read, and the reply to make, now or later.

use core::fmt;
use core::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use farcall_base::Principal;
use farcall_transport::trace::wire_number;
use farcall_transport::{
    Incoming, Outbox, Outgoing, Owned, Payload, RequestId, Service, SessionId, Status, Submission,
};

use super::context::Context;
use super::doorbell::Doorbell;
use super::refusal;
use super::sessions::Peer;
use crate::spans::{BegunSpan, Followed, TracedOperation};

/// A request, read where it arrived.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    peer: Peer,
    service: Service,
    payload: &'a Incoming<'a>,
}

impl<'a> Request<'a> {
    #[inline]
    pub(super) fn new(peer: Peer, service: Service, payload: &'a Incoming<'a>) -> Self {
        Self { peer, service, payload }
    }

    /// The caller; can be called back.
    pub fn peer(&self) -> Peer {
        self.peer
    }

    /// The service that was called.
    pub fn service(&self) -> Service {
        self.service
    }

    /// The request's bytes.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        self.payload.as_slice()
    }

    /// The bytes as owned memory; a large payload that lies in the peer's memory is not copied.
    pub fn take(self) -> Payload {
        self.payload.take()
    }
}

/// The one answer that a request must get.
///
/// Dropping it without answering tells the caller so ([`CallError::Abandoned`](crate::CallError::Abandoned)).
pub struct Reply<'a> {
    /// `None` once the request is answered or deferred.
    context: Option<Context<'a>>,
    request: RequestId,
    /// The session as the endpoint knows it; the request has the number by which it is answered.
    session: SessionId,
}

impl<'a> Reply<'a> {
    #[inline]
    pub(super) fn new(context: Context<'a>, request: RequestId, session: SessionId) -> Self {
        Self { context: Some(context), request, session }
    }

    /// Answers.
    #[inline]
    pub fn send<'p>(self, payload: impl Into<Outgoing<'p>>) {
        self.send_first(payload);
    }

    /// Answers, and gives the context for what the handler does after that.
    #[inline]
    pub fn send_first<'p>(mut self, payload: impl Into<Outgoing<'p>>) -> Context<'a> {
        let (request, context) = (self.request, self.end());
        reply(context.outbox, request, Status::Ok, payload.into());
        context
    }

    /// Refuses, with a code of the handler's own.
    pub fn refuse(self, code: u8) {
        self.refuse_first(code);
    }

    /// As [`Reply::refuse`], and says why, in [`REASON_BYTES_MAX`](crate::REASON_BYTES_MAX) bytes at most:
    /// the caller gets it with the code. So nothing may be in it that callers must not know.
    pub fn refuse_because(self, code: u8, why: &str) {
        self.refuse_because_first(code, why);
    }

    /// Refuses, and gives the context for what the handler does after that.
    pub fn refuse_first(self, code: u8) -> Context<'a> {
        self.refuse_because_first(code, "")
    }

    /// As [`Reply::refuse_because`] and [`Reply::refuse_first`] together.
    pub fn refuse_because_first(mut self, code: u8, why: &str) -> Context<'a> {
        let (request, context) = (self.request, self.end());
        context.outbox.reply(request, Status::Refused(code), refusal::sent(why));
        context
    }

    /// Postpones the answer: the duty to give it, and the context for what must happen before.
    pub fn defer(mut self) -> (Deferred, Context<'a>) {
        let context = self.end();
        (Deferred::new(self.request, context.state.late_replies.clone()), context)
    }

    /// Who the caller is, as far as the transport of its session proves it.
    pub fn principal(&self) -> Principal {
        let context = self.context.as_ref().expect("the context is there until the reply is consumed");
        context.state.sessions.principal_of(self.session).clone()
    }

    /// Gives a span of this request its stages, as far as the endpoint's
    /// [`tracer`](crate::Endpoint::tracer) is on. The span is still to be ended, when the handler has
    /// answered.
    pub fn in_span(&self, span: &mut BegunSpan) {
        span.follow(|| Some(Followed::Request { request: self.traced()?, taken: None }));
    }

    /// The request as the endpoint's trace names it, while that is on.
    pub(crate) fn traced(&self) -> Option<TracedOperation> {
        let context = self.context.as_ref().expect("the context is there until the reply is consumed");
        context.state.tracer.is_on().then(|| TracedOperation {
            tracer: context.state.tracer.clone(),
            session: self.request.session,
            operation: wire_number(self.request.token),
        })
    }

    /// The sending half of the endpoint, for loans and calls before the answer.
    pub fn context(&mut self) -> &mut Context<'a> {
        self.context.as_mut().expect("the context is there until the reply is consumed")
    }

    #[inline]
    fn end(&mut self) -> Context<'a> {
        self.context.take().expect("the context is there until the reply is consumed")
    }
}

impl Drop for Reply<'_> {
    #[inline]
    fn drop(&mut self) {
        if let Some(context) = &mut self.context {
            context.outbox.reply(self.request, Status::Abandoned, &[]);
        }
    }
}

/// Answers a request with bytes that are copied, or with memory that is given away.
#[inline]
pub(super) fn reply(outbox: &mut dyn Outbox, request: RequestId, status: Status, payload: Outgoing<'_>) {
    match payload.into_slice() {
        Ok(bytes) => outbox.reply(request, status, bytes),
        Err(owned) => reply_owned(outbox, request, status, owned),
    }
}

#[inline(never)]
fn reply_owned(outbox: &mut dyn Outbox, request: RequestId, status: Status, payload: Owned) {
    // What becomes of an answer is for the caller to find out.
    _ = outbox.submit_owned(Submission::Reply { request, status }, payload);
}

/// The duty to answer a request later, with [`Deferred::send`] from any thread, or with `Endpoint::reply` or
/// `Context::reply` on the endpoint's own, which do not go through a queue.
///
/// It can be kept anywhere and moved between threads. Dropping it tells the caller that there will be no
/// answer.
pub struct Deferred {
    request: RequestId,
    /// Where replies of other threads and the drop go to; `None` once the duty is fulfilled.
    late: Option<Arc<LateReplies>>,
}

impl Deferred {
    pub(super) fn new(request: RequestId, late: Arc<LateReplies>) -> Self {
        late.bell().use_it();
        Self { request, late: Some(late) }
    }

    /// Answers, from any thread: the endpoint sends it in its next poll, and wakes for it.
    pub fn send<'p>(mut self, payload: impl Into<Outgoing<'p>>) {
        self.reply(LateReply::Answer(payload.into().into_owned()));
    }

    /// Refuses, with a code of the handler's own, from any thread.
    pub fn refuse(mut self, code: u8) {
        self.reply(LateReply::Refused(code, String::new()));
    }

    /// As [`Deferred::refuse`], and says why; see [`Reply::refuse_because`].
    pub fn refuse_because(mut self, code: u8, why: &str) {
        self.reply(LateReply::Refused(code, why.to_owned()));
    }

    fn reply(&mut self, reply: LateReply) {
        if let Some(late) = self.late.take() {
            late.push(self.request, reply);
        }
    }

    /// Fulfils the duty: the request is about to be answered.
    pub(super) fn fulfil(mut self) -> RequestId {
        self.late = None;
        self.request
    }
}

impl Drop for Deferred {
    fn drop(&mut self) {
        self.reply(LateReply::Abandoned);
    }
}

impl fmt::Debug for Deferred {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Deferred({:?})", self.request)
    }
}

/// A reply to a deferred request that does not come from the endpoint's own thread, or none at all.
pub enum LateReply {
    Answer(Owned),
    Refused(u8, String),
    /// The duty was dropped.
    Abandoned,
}

/// Late replies, which the endpoint sends at its next poll.
#[derive(Default)]
pub struct LateReplies {
    any: AtomicBool,
    replies: Mutex<Vec<(RequestId, LateReply)>>,
    bell: Arc<Doorbell>,
}

impl LateReplies {
    fn push(&self, request: RequestId, reply: LateReply) {
        self.replies.lock().unwrap_or_else(PoisonError::into_inner).push((request, reply));
        self.any.store(true, Ordering::Release);
        self.bell.ring();
    }

    /// What wakes the endpoint for them.
    pub fn bell(&self) -> &Arc<Doorbell> {
        &self.bell
    }

    /// Whether there may be some; one load.
    #[inline]
    pub fn any(&self) -> bool {
        self.any.load(Ordering::Relaxed)
    }

    /// The replies since the last time.
    pub fn take(&self) -> Vec<(RequestId, LateReply)> {
        self.any.swap(false, Ordering::Acquire);
        core::mem::take(&mut *self.replies.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
