//! Services by name: listening under one, and calling whoever does.

use core::ffi::{c_char, c_void};
use core::time::Duration;

use farcall::{Balance, Connection, Endpoint, ListenError, Listener, NamedCallError, WatchError};

use crate::border::{ErrorText, Failure, bytes, give, guarded, reported, text, timeout};
use crate::call::kept;
use crate::endpoint::{EndpointHandle, PeerNumbers};
use crate::payload::PayloadHandle;
use crate::status::Status::{self, FARCALL_BOOTSTRAP, FARCALL_INVALID_ARGUMENT, FARCALL_NO_SERVER};
use crate::status::of_call;

/// Each server in turn.
pub const FARCALL_ROUND_ROBIN: u32 = 0;
/// Of two servers drawn at random the one with fewer calls in flight over this connection.
pub const FARCALL_TWO_CHOICES: u32 = 1;

/// An endpoint is listed under a name until this is closed.
pub struct ListenerHandle(Listener);

/// A name, and sessions to the servers that listen under it. Belongs to the endpoint's thread.
pub struct ConnectionHandle {
    connection: Connection<'static>,
    endpoint: *mut EndpointHandle,
}

impl ConnectionHandle {
    /// The handle behind a pointer, if the calling thread may use it, outside of callbacks.
    ///
    /// # Safety
    /// `connection` is null or open.
    unsafe fn of<'a>(connection: *mut Self) -> Result<(&'a Self, &'a EndpointHandle), Status> {
        // SAFETY: as promised; the endpoint cannot be closed before.
        unsafe {
            let handle = connection.as_ref().ok_or(FARCALL_INVALID_ARGUMENT)?;
            Ok((handle, EndpointHandle::outside(handle.endpoint)?))
        }
    }
}

/// Lists the endpoint under `name`, of 1 to 64 bytes without spaces, as one of its servers. Does not wait for
/// the registry, which is told when it is there. When the process dies the name is withdrawn.
///
/// From the endpoint's thread, not inside a callback. Allocates. Neither polls nor blocks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_listen(
    endpoint: *mut EndpointHandle,
    name: *const c_char,
    listener: *mut *mut ListenerHandle,
    error: *mut ErrorText,
) -> Status {
    // SAFETY: the caller's promises, as in the header.
    unsafe {
        reported(error, || {
            let (handle, name) = (EndpointHandle::outside(endpoint)?, text(name, "the name")?);
            if listener.is_null() {
                return Err(Failure::argument("the place for the listener is null"));
            }
            let listed = handle.endpoint.listen(name).map_err(|error| {
                let status = match error {
                    ListenError::Registry(_) => FARCALL_BOOTSTRAP,
                    ListenError::Refused(_) => FARCALL_INVALID_ARGUMENT,
                };
                Failure::new(status, error)
            })?;
            give(listener, Box::into_raw(Box::new(ListenerHandle(listed))));
            Ok(())
        })
    }
}

/// Withdraws the name. Null is allowed.
///
/// From any thread. Frees. Does not block.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_listener_close(listener: *mut ListenerHandle) {
    guarded(|| {
        if !listener.is_null() {
            // SAFETY: it is ours, and used no more.
            drop(unsafe { Box::from_raw(listener) });
        }
        Ok(())
    });
}

/// Leaves before a planned stop: the name is withdrawn, requests that arrive from now on do not run and go to
/// other servers, and those that have arrived are answered. `unanswered`, which may be null, is the number of
/// those that were not in time. `listener` is gone, and so are the handlers of the endpoint.
///
/// From the endpoint's thread, not inside a callback. Polls: callbacks run. Blocks for `timeout_ns` at most.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_listener_leave(
    listener: *mut ListenerHandle,
    endpoint: *mut EndpointHandle,
    timeout_ns: u64,
    unanswered: *mut usize,
) -> Status {
    // SAFETY: the caller's promises, as in the header.
    guarded(|| unsafe {
        let handle = EndpointHandle::outside(endpoint)?;
        if listener.is_null() {
            return Err(FARCALL_INVALID_ARGUMENT);
        }
        let listener = Box::from_raw(listener).0;
        let drained = listener.leave(&handle.endpoint, Duration::from_nanos(timeout_ns));
        give(unanswered, drained.unanswered);
        Ok(())
    })
}

/// Connects to the servers of a name (`orders`), of a name at another registry (`farcall://host:7117/orders`),
/// or at an address (`basic+udp://host:7001`). `balance` is FARCALL_ROUND_ROBIN or FARCALL_TWO_CHOICES. Does
/// not wait: servers come and go behind it. To be closed before the endpoint.
///
/// From the endpoint's thread, not inside a callback. Allocates. Neither polls nor blocks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_connect(
    endpoint: *mut EndpointHandle,
    target: *const c_char,
    balance: u32,
    connection: *mut *mut ConnectionHandle,
    error: *mut ErrorText,
) -> Status {
    // SAFETY: the caller's promises, as in the header.
    unsafe {
        reported(error, || {
            let (handle, target) = (EndpointHandle::outside(endpoint)?, text(target, "the target")?);
            let balance = match balance {
                FARCALL_ROUND_ROBIN => Balance::RoundRobin,
                FARCALL_TWO_CHOICES => Balance::TwoChoices,
                _ => return Err(Failure::argument("there is no such balance")),
            };
            if connection.is_null() {
                return Err(Failure::argument("the place for the connection is null"));
            }
            // It is closed before the endpoint, which lives until then in one place.
            let lasting: &'static Endpoint = &*core::ptr::from_ref(&*handle.endpoint);
            let connected = lasting.connect(target).map_err(|error| {
                let status = match error {
                    WatchError::Target(_) => FARCALL_INVALID_ARGUMENT,
                    _ => FARCALL_BOOTSTRAP,
                };
                Failure::new(status, error)
            })?;
            handle.add_child();
            let connected = ConnectionHandle { connection: connected.balanced_by(balance), endpoint };
            give(connection, Box::into_raw(Box::new(connected)));
            Ok(())
        })
    }
}

/// Closes a connection; sessions stay until the endpoint is closed. Null is allowed.
///
/// From the endpoint's thread, not inside a callback. Frees. Neither polls nor blocks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_connection_close(connection: *mut ConnectionHandle) -> Status {
    // SAFETY: the caller's promises, as in the header.
    guarded(|| unsafe {
        if connection.is_null() {
            return Ok(());
        }
        let (_, endpoint) = ConnectionHandle::of(connection)?;
        drop(Box::from_raw(connection));
        endpoint.remove_child();
        Ok(())
    })
}

/// One of the servers, with a session that is up or opening, for calls and messages that must go to the same.
/// FARCALL_NO_SERVER if there is none within `timeout_ns`.
///
/// From the endpoint's thread, not inside a callback. Polls: callbacks run. Blocks for `timeout_ns` at most.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_connection_peer(
    connection: *mut ConnectionHandle,
    timeout_ns: u64,
    peer: *mut PeerNumbers,
    error: *mut ErrorText,
) -> Status {
    // SAFETY: the caller's promises, as in the header.
    unsafe {
        reported(error, || {
            let (handle, _) = ConnectionHandle::of(connection)?;
            let found = handle.connection.wait(Duration::from_nanos(timeout_ns));
            give(peer, found.map_err(|error| Failure::new(FARCALL_NO_SERVER, error))?.into());
            Ok(())
        })
    }
}

/// Calls a service of one of the servers and waits for the answer, which is to be released with
/// `farcall_payload_release`. The call goes to another server if it certainly did not run at the first.
/// `code`, which may be null, is that of a handler that refused.
///
/// From the endpoint's thread, not inside a callback. Polls: callbacks run. Blocks for `timeout_ns` at most,
/// the search for a server included. Allocates.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_connection_call(
    connection: *mut ConnectionHandle,
    service: u16,
    data: *const c_void,
    length: usize,
    timeout_ns: u64,
    answer: *mut *mut PayloadHandle,
    code: *mut u8,
    error: *mut ErrorText,
) -> Status {
    // SAFETY: the caller's promises, as in the header.
    unsafe {
        reported(error, || {
            let (handle, _) = ConnectionHandle::of(connection)?;
            let call = handle.connection.call(farcall::Service(service), bytes(data, length)?);
            let outcome = match timeout(timeout_ns) {
                Some(within) => call.within(within).wait(),
                None => call.wait(),
            };
            let response = outcome.map_err(|error| {
                let (status, number) = match &error {
                    NamedCallError::NoServer(_) => (FARCALL_NO_SERVER, 0),
                    NamedCallError::Call(error) => of_call(error),
                };
                give(code, number);
                Failure::new(status, error)
            })?;
            if !answer.is_null() {
                give(answer, kept(response));
            }
            Ok(())
        })
    }
}
