//! An endpoint in the event loop of a program: a descriptor for `poll` and `epoll`.

use core::time::Duration;
use std::os::fd::AsRawFd;

use farcall::{Endpoint, WaitSet};

use crate::border::{give, guarded};
use crate::endpoint::EndpointHandle;
use crate::status::Status::{self, FARCALL_RESOURCES};

impl EndpointHandle {
    /// Uses the wait set, which is made when it is needed first.
    fn with_wait_set<T>(
        &self,
        body: impl FnOnce(&mut WaitSet<'static>) -> std::io::Result<T>,
    ) -> Result<T, Status> {
        let wait_set = &mut *self.wait_set.borrow_mut();
        if wait_set.is_none() {
            // SAFETY: the endpoint is in a box, and dropped after the wait set.
            let lasting: &'static Endpoint = unsafe { &*core::ptr::from_ref(&*self.endpoint) };
            *wait_set = Some(lasting.wait_set().map_err(|_| FARCALL_RESOURCES)?);
        }
        let wait_set = wait_set.as_mut().expect("it was made");
        body(wait_set).map_err(|_| FARCALL_RESOURCES)
    }
}

/// The descriptor of an endpoint: readable when it has to be polled, as long as a wait is announced with
/// `farcall_prepare_wait`. It stays the same, and belongs to the endpoint.
///
/// From the endpoint's thread, not inside a callback. Allocates. Neither polls nor blocks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_endpoint_fd(endpoint: *mut EndpointHandle, fd: *mut i32) -> Status {
    // SAFETY: the caller's promises, as in the header.
    guarded(|| unsafe {
        give(fd, EndpointHandle::outside(endpoint)?.with_wait_set(|set| Ok(set.as_raw_fd()))?);
        Ok(())
    })
}

/// Announces a wait for the descriptor, after polls that found nothing to do. `timeout_ns` is how long it may
/// last at most; 0 that there is something to do after all: nothing is announced then.
///
/// From the endpoint's thread, not inside a callback. Polls: callbacks run. Allocates. Does not block.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_prepare_wait(endpoint: *mut EndpointHandle, timeout_ns: *mut u64) -> Status {
    // SAFETY: the caller's promises, as in the header.
    guarded(|| unsafe {
        let at_most = EndpointHandle::outside(endpoint)?.with_wait_set(WaitSet::prepare)?;
        let nanos = at_most.map_or(0, |at_most| u64::try_from(at_most.as_nanos()).unwrap_or(u64::MAX));
        give(timeout_ns, nanos);
        Ok(())
    })
}

/// The wait is over; does nothing if none was announced.
///
/// From the endpoint's thread, not inside a callback. Neither polls nor blocks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_finish_wait(endpoint: *mut EndpointHandle) -> Status {
    // SAFETY: the caller's promises, as in the header.
    guarded(|| unsafe {
        EndpointHandle::outside(endpoint)?.with_wait_set(|set| {
            set.finish();
            Ok(())
        })
    })
}

/// Waits until the endpoint has to be polled, for `timeout_ns` at most.
///
/// From the endpoint's thread, not inside a callback. Polls: callbacks run. Blocks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_wait(endpoint: *mut EndpointHandle, timeout_ns: u64) -> Status {
    // SAFETY: the caller's promises, as in the header.
    guarded(|| unsafe {
        let handle = EndpointHandle::outside(endpoint)?;
        handle.with_wait_set(|set| set.wait(Duration::from_nanos(timeout_ns)))
    })
}
