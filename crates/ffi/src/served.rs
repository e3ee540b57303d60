//! Services: requests that handlers get, and the answers that they give, at once or later.

use core::ffi::{c_char, c_void};

use farcall::policy::Principal;
use farcall::{Context, Deferred, Reply, Request, Service};

use crate::border::{bytes, give, guarded, text};
use crate::endpoint::{Carried, EndpointHandle, PeerNumbers};
use crate::payload::{LoanHandle, PayloadHandle, take_loan};
use crate::status::Status::{self, FARCALL_ALREADY_REPLIED, FARCALL_INVALID_ARGUMENT};

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
        let short = PayloadHandle::copy(this.request.payload());
        give(payload, short.unwrap_or_else(|| PayloadHandle::give(this.request.take())));
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
