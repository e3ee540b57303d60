//! The calls of the data path: entries of the table that each device's provider fills.

use core::ffi::c_int;

use super::types::*;

/// Takes up to `wcs.len()` completions; negative on failure.
///
/// # Safety
/// `cq` must be a live completion queue.
#[inline]
pub unsafe fn poll_cq(cq: *mut ibv_cq, wcs: &mut [ibv_wc]) -> c_int {
    // SAFETY: a live queue has a context with a complete table, and the provider writes at most the given
    // entries.
    unsafe { ((*(*cq).context).ops.poll_cq)(cq, wcs.len() as c_int, wcs.as_mut_ptr()) }
}

/// Asks for one event on the queue's channel at its next completion; returns an error number or 0.
///
/// # Safety
/// `cq` must be a live completion queue.
#[inline]
pub unsafe fn req_notify_cq(cq: *mut ibv_cq) -> c_int {
    // SAFETY: as for `poll_cq`.
    unsafe { ((*(*cq).context).ops.req_notify_cq)(cq, 0) }
}

/// Posts a chain of work; returns an error number or 0, and where the chain was cut.
///
/// # Safety
/// `qp` must be a live queue pair. The chain and its gather lists must be valid for the call, and the memory
/// that they name until the work completes (unless sent inline).
#[inline]
pub unsafe fn post_send(qp: *mut ibv_qp, first: *mut ibv_send_wr) -> (c_int, *mut ibv_send_wr) {
    let mut bad = core::ptr::null_mut();
    // SAFETY: a live queue pair has a context with a complete table; the rest is promised by the caller.
    let result = unsafe { ((*(*qp).context).ops.post_send)(qp, first, &raw mut bad) };
    (result, bad)
}

/// Posts a chain of receives; returns an error number or 0, and where the chain was cut.
///
/// # Safety
/// As for [`post_send`]; the memory is written until the receives complete or the queue pair is destroyed.
#[inline]
pub unsafe fn post_recv(qp: *mut ibv_qp, first: *mut ibv_recv_wr) -> (c_int, *mut ibv_recv_wr) {
    let mut bad = core::ptr::null_mut();
    // SAFETY: as for `post_send`.
    let result = unsafe { ((*(*qp).context).ops.post_recv)(qp, first, &raw mut bad) };
    (result, bad)
}

/// Posts a chain of receives to a shared queue; returns an error number or 0, and where the chain was cut.
///
/// # Safety
/// As for [`post_recv`], with a live shared receive queue.
#[inline]
pub unsafe fn post_srq_recv(srq: *mut ibv_srq, first: *mut ibv_recv_wr) -> (c_int, *mut ibv_recv_wr) {
    let mut bad = core::ptr::null_mut();
    // SAFETY: as for `post_send`.
    let result = unsafe { ((*(*srq).context).ops.post_srq_recv)(srq, first, &raw mut bad) };
    (result, bad)
}
