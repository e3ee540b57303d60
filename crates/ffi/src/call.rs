//! Calls: made and waited for, and made with a callback.

use core::ffi::c_void;

use farcall::{CallError, Context, Outcome, Outgoing, Response, Service};

use crate::border::{bytes, bytes_mut, give, guarded, timeout};
use crate::endpoint::{Carried, EndpointHandle, PeerNumbers};
use crate::payload::{LoanHandle, PayloadHandle, take_loan};
use crate::status::Status::{self, FARCALL_INVALID_ARGUMENT, FARCALL_OK, FARCALL_TRUNCATED};
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

/// Calls a service of a peer and waits for the answer, which is to be released with
/// `farcall_payload_release`. `code`, which may be null, is that of a handler that refused.
///
/// From the endpoint's thread, not inside a callback. Polls: callbacks run. Blocks for `timeout_ns` at most,
/// as `endpoint.idle` says. Of what is short, 232 bytes at most, it allocates only at first;
/// `farcall_call_into` spares the copy, too.
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
        unsafe { give(answer, kept(response)) }
    }
}

/// The bytes of a response, to be released later.
#[inline]
pub fn kept(response: Response<'_>) -> *mut PayloadHandle {
    match PayloadHandle::copy(&response) {
        Some(handle) => handle,
        None => PayloadHandle::give(response.take()),
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
        give(payload, PayloadHandle::copy(answer).unwrap_or_else(|| PayloadHandle::give(answer.take())));
        Ok(())
    })
}
