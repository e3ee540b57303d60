//! Calls: made and waited for, made with a callback; and served.

use core::ffi::{c_char, c_void};

use farcall::policy::Principal;
use farcall::{CallError, Context, Deferred, Outcome, Outgoing, Reply, Request, Response, Service};

use crate::border::{bytes, bytes_mut, give, guarded, text, timeout};
use crate::endpoint::{Carried, EndpointHandle, PeerNumbers};
use crate::payload::{LoanHandle, PayloadHandle, take_loan};
use crate::status::Status::{
    self, FARCALL_ALREADY_REPLIED, FARCALL_INVALID_ARGUMENT, FARCALL_OK, FARCALL_TRUNCATED,
};
use crate::status::of_call;

/// How a call ended. The library's memory, valid while the callback runs.
#[repr(C)]
pub struct AnswerView {
    /// `sizeof(farcall_answer_t)` of the library, which may be larger than the program's.
    pub size: usize,
    /// FARCALL_OK, or why there is no answer.
    pub status: Status,
    /// The code of a handler that refused.
    pub code: u32,
    /// The answer, read where it arrived; null when there is none. With FARCALL_REFUSED what the handler said
    /// about it, and with FARCALL_NOT_ALLOWED what the policy does not allow whom, as UTF-8 without a zero at
    /// its end.
    pub data: *const c_void,
    /// Its length in bytes.
    pub length: usize,
}

/// What the library passes: the view, and behind it what it was made of.
#[repr(C)]
struct AnswerSource<'a> {
    view: AnswerView,
    outcome: &'a Outcome<'a>,
}

/// Takes the end of a call, once.
pub type AnswerCallback =
    Option<extern "C" fn(context: *mut c_void, endpoint: *mut EndpointHandle, answer: *const AnswerView)>;

/// Serves a request: reads it, and replies with one of the functions below, now or later.
pub type Handler =
    Option<extern "C" fn(context: *mut c_void, endpoint: *mut EndpointHandle, request: *mut RequestHandle)>;

/// A request, read where it arrived. Valid while the handler runs.
pub struct RequestHandle {
    request: Request<'static>,
    endpoint: *const EndpointHandle,
    stage: Stage,
}

/// How far a handler is: either has the context for what the handler begins.
enum Stage {
    Unanswered(Reply<'static>),
    Answered(Context<'static>),
    /// Only while it changes.
    Between,
}

impl RequestHandle {
    /// Ends the duty to reply, if it is there; the context is that for the rest of the handler.
    ///
    /// # Safety
    /// `request` is null, or that of a handler that runs.
    unsafe fn end(
        request: *mut Self,
        end: impl FnOnce(Reply<'static>) -> Context<'static>,
    ) -> Result<(), Status> {
        // SAFETY: as promised; what goes through the context does not use the request.
        let this = unsafe { request.as_mut() }.ok_or(FARCALL_INVALID_ARGUMENT)?;
        match core::mem::replace(&mut this.stage, Stage::Between) {
            Stage::Unanswered(reply) => {
                this.stage = Stage::Answered(end(reply));
                this.enter();
                Ok(())
            }
            other => {
                this.stage = other;
                this.enter();
                Err(FARCALL_ALREADY_REPLIED)
            }
        }
    }

    /// Who the caller is, as long as there is no reply.
    ///
    /// # Safety
    /// `request` is null, or that of a handler that runs.
    pub unsafe fn principal(request: *const Self) -> Result<Principal, Status> {
        // SAFETY: as promised.
        match unsafe { request.as_ref() }.map(|this| &this.stage) {
            Some(Stage::Unanswered(reply)) => Ok(reply.principal()),
            Some(Stage::Answered(_) | Stage::Between) => Err(FARCALL_ALREADY_REPLIED),
            None => Err(FARCALL_INVALID_ARGUMENT),
        }
    }

    /// What the handler begins from now on goes through the context that is there.
    fn enter(&mut self) {
        // SAFETY: a handler runs in a poll of an endpoint that is open.
        let endpoint = unsafe { &*self.endpoint };
        match &mut self.stage {
            Stage::Unanswered(reply) => endpoint.enter(reply.context()),
            Stage::Answered(context) => endpoint.enter(context),
            Stage::Between => {}
        }
    }
}

/// The duty to answer a request later, from any thread, also after the endpoint was closed.
pub struct DeferredHandle(Deferred);

/// Serves a service, 0 to 65534: `handler` gets every request for it, during polls. A later handler replaces
/// an earlier one. A handler that returns without a reply tells the caller so (FARCALL_ABANDONED).
///
/// From the endpoint's thread, not inside a callback. Allocates. Neither polls nor blocks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_serve(
    endpoint: *mut EndpointHandle,
    service: u16,
    handler: Handler,
    context: *mut c_void,
) -> Status {
    // SAFETY: the caller's promises, as in the header.
    guarded(|| unsafe {
        let handle = EndpointHandle::outside(endpoint)?;
        let (Some(handler), true) = (handler, service != u16::MAX) else {
            return Err(FARCALL_INVALID_ARGUMENT);
        };
        let carried = Carried { endpoint, context };
        handle.endpoint.serve(Service(service), move |request, reply| {
            let Carried { endpoint, context } = carried.get();
            // The lifetimes end with this closure, as C is told.
            let request: Request<'static> = core::mem::transmute::<Request<'_>, _>(request);
            let reply: Reply<'static> = core::mem::transmute::<Reply<'_>, _>(reply);
            let mut request = RequestHandle { request, endpoint, stage: Stage::Unanswered(reply) };
            request.enter();
            handler(context, endpoint, &raw mut request);
            (*endpoint).leave();
        });
        Ok(())
    })
}

/// The bytes of a request, valid while the handler runs. In the handler. Neither allocates nor blocks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_request_data(request: *const RequestHandle) -> *const c_void {
    // SAFETY: null, or that of a handler that runs.
    unsafe { request.as_ref() }.map_or(core::ptr::null(), |this| this.request.payload().as_ptr().cast())
}

/// Its length in bytes. In the handler. Neither allocates nor blocks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_request_length(request: *const RequestHandle) -> usize {
    // SAFETY: null, or that of a handler that runs.
    unsafe { request.as_ref() }.map_or(0, |this| this.request.payload().len())
}

/// The caller, who can be called back; and the service that was called. Either place may be null.
///
/// In the handler. Neither allocates nor blocks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_request_origin(
    request: *const RequestHandle,
    peer: *mut PeerNumbers,
    service: *mut u16,
) -> Status {
    // SAFETY: null, or that of a handler that runs; places are null or may be written to.
    guarded(|| unsafe {
        let this = request.as_ref().ok_or(FARCALL_INVALID_ARGUMENT)?;
        give(peer, this.request.peer().into());
        give(service, this.request.service().0);
        Ok(())
    })
}

/// Takes the bytes of a request, to be released later; long ones that lie in the caller's memory are not
/// copied.
///
/// In the handler. Allocates. Does not block.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_request_take(
    request: *const RequestHandle,
    payload: *mut *mut PayloadHandle,
) -> Status {
    // SAFETY: null, or that of a handler that runs; the place is null or may be written to.
    guarded(|| unsafe {
        let this = request.as_ref().filter(|_| !payload.is_null()).ok_or(FARCALL_INVALID_ARGUMENT)?;
        give(payload, PayloadHandle::give(this.request.take()));
        Ok(())
    })
}

/// Answers a request; the bytes are copied.
///
/// In the handler, once. Neither polls nor blocks. Allocates where the bytes must be kept.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_reply(
    request: *mut RequestHandle,
    data: *const c_void,
    length: usize,
) -> Status {
    // SAFETY: the caller's promises, as in the header.
    guarded(|| unsafe {
        let answer = bytes(data, length)?;
        RequestHandle::end(request, |reply| reply.send_first(answer))
    })
}

/// As `farcall_reply`, with a loan, which is gone in any case.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_reply_loan(request: *mut RequestHandle, loan: *mut LoanHandle) -> Status {
    // SAFETY: the caller's promises, as in the header.
    guarded(|| unsafe {
        let answer = take_loan(loan)?;
        RequestHandle::end(request, |reply| reply.send_first(answer))
    })
}

/// Refuses a request, with a code of the handler's choice.
///
/// In the handler, once. Neither allocates, polls nor blocks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_refuse(request: *mut RequestHandle, code: u8) -> Status {
    // SAFETY: the caller's promises, as in the header.
    guarded(|| unsafe { RequestHandle::end(request, |reply| reply.refuse_first(code)) })
}

/// As `farcall_refuse`, and says why, in a text of which FARCALL_REASON_BYTES_MAX bytes are sent: the caller
/// gets it with the code.
///
/// In the handler, once. Allocates. Neither polls nor blocks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_refuse_because(
    request: *mut RequestHandle,
    code: u8,
    why: *const c_char,
) -> Status {
    // SAFETY: the caller's promises, as in the header.
    guarded(|| unsafe {
        let why = text(why, "the reason").map_err(|_| FARCALL_INVALID_ARGUMENT)?;
        RequestHandle::end(request, |reply| reply.refuse_because_first(code, why))
    })
}

/// Postpones the answer: the handler may return, and `deferred` be used by any thread.
///
/// In the handler, once. Allocates. Neither polls nor blocks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_defer(
    request: *mut RequestHandle,
    deferred: *mut *mut DeferredHandle,
) -> Status {
    // SAFETY: the caller's promises, as in the header.
    guarded(|| unsafe {
        if deferred.is_null() {
            return Err(FARCALL_INVALID_ARGUMENT);
        }
        RequestHandle::end(request, |reply| {
            let (duty, context) = reply.defer();
            give(deferred, Box::into_raw(Box::new(DeferredHandle(duty))));
            context
        })
    })
}

/// Answers a request that was deferred; the bytes are copied, and sent by the next poll of the endpoint,
/// which is woken for it. `deferred` is gone in any case.
///
/// From any thread. Allocates and frees. Does not block.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_deferred_reply(
    deferred: *mut DeferredHandle,
    data: *const c_void,
    length: usize,
) -> Status {
    // SAFETY: the caller's promises, as in the header.
    guarded(|| unsafe {
        let duty = take_deferred(deferred)?;
        duty.send(bytes(data, length)?);
        Ok(())
    })
}

/// As `farcall_deferred_reply`, with a loan, which is gone in any case.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_deferred_reply_loan(
    deferred: *mut DeferredHandle,
    loan: *mut LoanHandle,
) -> Status {
    // SAFETY: the caller's promises, as in the header.
    guarded(|| unsafe {
        let (loan, duty) = (take_loan(loan), take_deferred(deferred)?);
        duty.send(loan?);
        Ok(())
    })
}

/// Refuses a request that was deferred, with a code of the server's choice. `deferred` is gone.
///
/// From any thread. Allocates and frees. Does not block.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_deferred_refuse(deferred: *mut DeferredHandle, code: u8) -> Status {
    // SAFETY: the caller's promises, as in the header.
    guarded(|| unsafe {
        take_deferred(deferred)?.refuse(code);
        Ok(())
    })
}

/// As `farcall_deferred_refuse`, and says why; see `farcall_refuse_because`. `deferred` is gone in any case.
///
/// From any thread. Allocates and frees. Does not block.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_deferred_refuse_because(
    deferred: *mut DeferredHandle,
    code: u8,
    why: *const c_char,
) -> Status {
    // SAFETY: the caller's promises, as in the header.
    guarded(|| unsafe {
        let duty = take_deferred(deferred)?;
        duty.refuse_because(code, text(why, "the reason").map_err(|_| FARCALL_INVALID_ARGUMENT)?);
        Ok(())
    })
}

/// Drops the duty: the caller is told that there will be no answer. Null is allowed.
///
/// From any thread. Allocates and frees. Does not block.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_deferred_drop(deferred: *mut DeferredHandle) {
    // SAFETY: the caller's promises, as in the header.
    guarded(|| unsafe { take_deferred(deferred).map(drop) });
}

/// # Safety
/// `deferred` is null, or neither answered nor dropped.
unsafe fn take_deferred(deferred: *mut DeferredHandle) -> Result<Deferred, Status> {
    if deferred.is_null() {
        return Err(FARCALL_INVALID_ARGUMENT);
    }
    // SAFETY: as promised; C uses it no more.
    Ok(unsafe { Box::from_raw(deferred) }.0)
}

/// Calls a service of a peer and waits for the answer, which is to be released with
/// `farcall_payload_release`. `code`, which may be null, is that of a handler that refused.
///
/// From the endpoint's thread, not inside a callback. Polls: callbacks run. Blocks for `timeout_ns` at most,
/// as `endpoint.idle` says. Allocates.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_call(
    endpoint: *mut EndpointHandle,
    peer: PeerNumbers,
    service: u16,
    data: *const c_void,
    length: usize,
    timeout_ns: u64,
    answer: *mut *mut PayloadHandle,
    code: *mut u8,
) -> Status {
    // SAFETY: the caller's promises, as in the header.
    guarded(|| unsafe {
        let request = bytes(data, length)?;
        let response = wait(endpoint, peer, service, request.into(), timeout_ns, code)?;
        keep(response, answer);
        Ok(())
    })
}

/// As `farcall_call`, with a loan, which is gone in any case.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_call_loan(
    endpoint: *mut EndpointHandle,
    peer: PeerNumbers,
    service: u16,
    loan: *mut LoanHandle,
    timeout_ns: u64,
    answer: *mut *mut PayloadHandle,
    code: *mut u8,
) -> Status {
    // SAFETY: the caller's promises, as in the header.
    guarded(|| unsafe {
        let request = take_loan(loan)?;
        let response = wait(endpoint, peer, service, request.into(), timeout_ns, code)?;
        keep(response, answer);
        Ok(())
    })
}

/// As `farcall_call`, and copies the answer into `room` bytes at `into`; `got` is its length. For answers
/// that are longer FARCALL_TRUNCATED, with as many of its bytes as there is room for. Does not allocate for
/// what is short.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_call_into(
    endpoint: *mut EndpointHandle,
    peer: PeerNumbers,
    service: u16,
    data: *const c_void,
    length: usize,
    timeout_ns: u64,
    into: *mut c_void,
    room: usize,
    got: *mut usize,
    code: *mut u8,
) -> Status {
    // SAFETY: the caller's promises, as in the header.
    guarded(|| unsafe {
        let request = bytes(data, length)?;
        let response = wait(endpoint, peer, service, request.into(), timeout_ns, code)?;
        copy_into(&response, into, room, got)
    })
}

/// Copies what arrived into memory of C.
///
/// # Safety
/// `into` has `room` bytes; `got` is null or may be written to.
pub unsafe fn copy_into(
    arrived: &[u8],
    into: *mut c_void,
    room: usize,
    got: *mut usize,
) -> Result<(), Status> {
    // SAFETY: as promised.
    let (into, bytes) = unsafe {
        give(got, arrived.len());
        (bytes_mut(into, room)?, arrived.len().min(room))
    };
    into[..bytes].copy_from_slice(&arrived[..bytes]);
    if arrived.len() > room { Err(FARCALL_TRUNCATED) } else { Ok(()) }
}

/// # Safety
/// `answer` is null or may be written to.
unsafe fn keep(response: Response<'_>, answer: *mut *mut PayloadHandle) {
    if !answer.is_null() {
        // SAFETY: as promised.
        unsafe { give(answer, PayloadHandle::give(response.take())) }
    }
}

/// # Safety
/// As of `farcall_call`.
#[inline]
unsafe fn wait<'a>(
    endpoint: *mut EndpointHandle,
    peer: PeerNumbers,
    service: u16,
    request: Outgoing<'_>,
    timeout_ns: u64,
    code: *mut u8,
) -> Result<Response<'a>, Status> {
    // SAFETY: as promised.
    let endpoint = unsafe { &EndpointHandle::outside(endpoint)?.endpoint };
    let call = endpoint.call(peer.into(), Service(service), request);
    let outcome = match timeout(timeout_ns) {
        Some(within) => call.within(within).wait(),
        None => call.wait(),
    };
    outcome.map_err(|error| {
        let (status, number) = of_call(&error);
        // SAFETY: as promised.
        unsafe { give(code, number) };
        status
    })
}

/// Calls a service of a peer; `callback` gets the answer, once, during a later poll. `operation`, which may
/// be null, is its number for `farcall_cancel`. When the call cannot be made the status says why, and there
/// is no callback.
///
/// From the endpoint's thread, also inside a callback. Neither polls nor blocks. Allocates where the bytes
/// must be kept.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_call_async(
    endpoint: *mut EndpointHandle,
    peer: PeerNumbers,
    service: u16,
    data: *const c_void,
    length: usize,
    timeout_ns: u64,
    callback: AnswerCallback,
    context: *mut c_void,
    operation: *mut u32,
) -> Status {
    // SAFETY: the caller's promises, as in the header.
    guarded(|| unsafe {
        let request = bytes(data, length)?.into();
        begin(endpoint, peer, service, request, timeout_ns, callback, context, operation)
    })
}

/// As `farcall_call_async`, with a loan, which is gone in any case.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_call_loan_async(
    endpoint: *mut EndpointHandle,
    peer: PeerNumbers,
    service: u16,
    loan: *mut LoanHandle,
    timeout_ns: u64,
    callback: AnswerCallback,
    context: *mut c_void,
    operation: *mut u32,
) -> Status {
    // SAFETY: the caller's promises, as in the header.
    guarded(|| unsafe {
        let request = take_loan(loan)?.into();
        begin(endpoint, peer, service, request, timeout_ns, callback, context, operation)
    })
}

/// # Safety
/// As of `farcall_call_async`.
#[expect(clippy::too_many_arguments, reason = "those of the function of C")]
unsafe fn begin(
    endpoint: *mut EndpointHandle,
    peer: PeerNumbers,
    service: u16,
    request: Outgoing<'_>,
    timeout_ns: u64,
    callback: AnswerCallback,
    context: *mut c_void,
    operation: *mut u32,
) -> Result<(), Status> {
    // SAFETY: as promised.
    let handle = unsafe { EndpointHandle::of(endpoint)? };
    let callback = callback.ok_or(FARCALL_INVALID_ARGUMENT)?;
    let carried = Carried { endpoint, context };
    let end = move |context: &mut Context<'_>, outcome: &Outcome<'_>| {
        // SAFETY: callbacks run in polls, of an endpoint that is open.
        unsafe { report(carried, callback, context, outcome) }
    };
    let (peer, service, within) = (peer.into(), Service(service), timeout(timeout_ns));
    let begun = match (handle.inside(), within) {
        (None, None) => handle.endpoint.call(peer, service, request).then(end),
        (None, Some(within)) => handle.endpoint.call(peer, service, request).within(within).then(end),
        (Some(context), None) => context.call(peer, service, request).then(end),
        (Some(context), Some(within)) => context.call(peer, service, request).within(within).then(end),
    }?;
    // SAFETY: as promised.
    unsafe { give(operation, begun.number()) };
    Ok(())
}

/// Gives a callback of C the end of a call.
///
/// # Safety
/// The endpoint is open and in a poll.
unsafe fn report(
    carried: Carried,
    callback: extern "C" fn(*mut c_void, *mut EndpointHandle, *const AnswerView),
    context: &mut Context<'_>,
    outcome: &Outcome<'_>,
) {
    let ((status, code), (data, length)) = match outcome {
        Ok(answer) => ((FARCALL_OK, 0), (answer.as_ptr(), answer.len())),
        Err(CallError::Refused { code, why }) => {
            ((Status::FARCALL_REFUSED, *code), (why.as_ptr(), why.len()))
        }
        Err(error @ CallError::NotAllowed { why }) => (of_call(error), (why.as_ptr(), why.len())),
        Err(error) => (of_call(error), (core::ptr::null(), 0)),
    };
    let size = size_of::<AnswerView>();
    let view = AnswerView { size, status, code: code.into(), data: data.cast(), length };
    let source = AnswerSource { view, outcome };
    let Carried { endpoint, context: user } = carried.get();
    // SAFETY: as promised.
    let handle = unsafe { &*endpoint };
    handle.during(context, || callback(user, endpoint, (&raw const source).cast()));
}

/// Takes an answer, to be released later; a long one that lies in the peer's memory is not copied. `answer`
/// is the pointer that the callback got.
///
/// In the callback. Allocates. Does not block. FARCALL_INVALID_ARGUMENT if there is no answer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_answer_take(
    answer: *const AnswerView,
    payload: *mut *mut PayloadHandle,
) -> Status {
    // SAFETY: the library made the answer, as a part of what it was made of.
    guarded(|| unsafe {
        let source = answer.cast::<AnswerSource<'_>>().as_ref().filter(|_| !payload.is_null());
        let Ok(answer) = source.ok_or(FARCALL_INVALID_ARGUMENT)?.outcome else {
            return Err(FARCALL_INVALID_ARGUMENT);
        };
        give(payload, PayloadHandle::give(answer.take()));
        Ok(())
    })
}
