//! Endpoints: opening and closing, peers, polling, and which side of the border a function is on.

use core::cell::{Cell, RefCell};
use core::ffi::{c_char, c_void};
use core::ptr::NonNull;
use core::time::Duration;

use farcall::{
    Cancellation, ConnectError, Context, Endpoint, EndpointError, Event, Operation, Peer, WaitSet,
};

use crate::FARCALL_DEFAULT_TIMEOUT;
use crate::border::{ErrorText, Failure, give, guarded, reported, text, texts};
use crate::node::NodeHandle;
use crate::owner::Owner;
use crate::status::Status::{
    self, FARCALL_IN_CALLBACK, FARCALL_IN_USE, FARCALL_INVALID_ARGUMENT, FARCALL_OVER, FARCALL_RESOURCES,
    FARCALL_SETTINGS, FARCALL_TOO_LATE, FARCALL_UNKNOWN_PEER, FARCALL_UNKNOWN_TRANSPORT,
};
use crate::status::of_end;

/// An endpoint of another process that a session leads to. To be copied and compared, member by member.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct PeerNumbers {
    /// The session: another one when the peer is connected to again.
    pub session: u32,
    /// The rank of its process, as that says itself; UINT32_MAX without one.
    pub rank: u32,
    /// The number of the endpoint within its process.
    pub endpoint: u32,
}

impl From<Peer> for PeerNumbers {
    fn from(peer: Peer) -> Self {
        let [session, rank, endpoint] = peer.to_numbers();
        Self { session, rank, endpoint }
    }
}

impl From<PeerNumbers> for Peer {
    fn from(peer: PeerNumbers) -> Self {
        Self::from_numbers([peer.session, peer.rank, peer.endpoint])
    }
}

/// Is told that a session ended: `status` says why. Everything in flight to the peer has ended for the same
/// reason, or ends soon.
pub type PeerDownCallback = Option<
    extern "C" fn(context: *mut c_void, endpoint: *mut EndpointHandle, peer: PeerNumbers, status: Status),
>;

/// How often `farcall_poll_idle` polls without result before the caller looks at what else it waits for: what
/// leads from C to a poll takes a third as long as one that finds nothing, and would delay what comes
/// meanwhile.
const POLLS_MAX: usize = 16;

/// One thread's door to its peers. Belongs to the thread that opened it.
pub struct EndpointHandle {
    owner: Owner,
    /// The context of the handler or callback that runs: what it begins goes through that.
    active: Cell<Option<NonNull<Context<'static>>>>,
    /// What was made from it and is open.
    children: Cell<usize>,
    peer_down: Cell<(PeerDownCallback, *mut c_void)>,
    /// Made when it is needed first. Borrows the endpoint, and so is dropped before it.
    pub wait_set: RefCell<Option<WaitSet<'static>>>,
    /// Not in the box of the handle: a poll borrows both.
    pub endpoint: Box<Endpoint>,
}

/// What a callback carries: only the thread that owns the endpoint runs callbacks.
#[derive(Clone, Copy)]
pub struct Carried {
    pub endpoint: *mut EndpointHandle,
    pub context: *mut c_void,
}

// SAFETY: callbacks run in polls of the endpoint, which only its owner can make, and that thread made them.
unsafe impl Send for Carried {}

impl Carried {
    /// All of it: a closure that named its members would capture them one by one.
    #[inline]
    pub fn get(self) -> Self {
        self
    }
}

impl EndpointHandle {
    /// The handle behind a pointer, if the calling thread may use it.
    ///
    /// # Safety
    /// `endpoint` is null or open.
    #[inline]
    pub unsafe fn of<'a>(endpoint: *mut Self) -> Result<&'a Self, Status> {
        // SAFETY: as promised.
        let handle = unsafe { endpoint.as_ref() }.ok_or(FARCALL_INVALID_ARGUMENT)?;
        handle.owner.check()?;
        Ok(handle)
    }

    /// As [`EndpointHandle::of`], for what polls: not inside a callback.
    ///
    /// # Safety
    /// `endpoint` is null or open.
    #[inline]
    pub unsafe fn outside<'a>(endpoint: *mut Self) -> Result<&'a Self, Status> {
        // SAFETY: as promised.
        let handle = unsafe { Self::of(endpoint)? };
        if handle.active.get().is_some() { Err(FARCALL_IN_CALLBACK) } else { Ok(handle) }
    }

    /// Runs a callback: what it begins goes through `context`.
    #[inline]
    pub fn during<T>(&self, context: &mut Context<'_>, callback: impl FnOnce() -> T) -> T {
        self.enter(context);
        let result = callback();
        self.leave();
        result
    }

    /// From now on what is begun goes through `context`, until [`EndpointHandle::leave`].
    #[inline]
    pub fn enter(&self, context: &mut Context<'_>) {
        self.active.set(Some(NonNull::from(context).cast()));
    }

    /// A callback has returned.
    #[inline]
    pub fn leave(&self) {
        self.active.set(None);
    }

    /// The context of the callback that runs; `None` outside.
    #[inline]
    #[expect(clippy::mut_from_ref, reason = "it is the callback's, which uses it for one function at a time")]
    pub fn inside(&self) -> Option<&mut Context<'static>> {
        // SAFETY: it is set only while the context is valid, and nothing else uses that while C runs.
        self.active.get().map(|mut context| unsafe { context.as_mut() })
    }

    /// Something that borrows the endpoint was made.
    pub fn add_child(&self) {
        self.children.set(self.children.get() + 1);
    }

    /// Such a thing was closed.
    pub fn remove_child(&self) {
        self.children.set(self.children.get() - 1);
    }

    fn poll(&self) -> usize {
        self.endpoint.poll(|context, event| self.report(context, &event))
    }

    fn report(&self, context: &mut Context<'_>, event: &Event<'_>) {
        if let Event::PeerDown { peer, reason } = event
            && let (Some(callback), user) = self.peer_down.get()
        {
            let this = core::ptr::from_ref(self).cast_mut();
            self.during(context, || callback(user, this, (*peer).into(), of_end(reason)));
        }
    }
}

/// Opens an endpoint over the transport of that name, such as `ring+shm`, `basic+udp` or `auto`.
///
/// `settings` is null, or a list of texts such as `ring.ring_bytes=1M` that ends with a null; they overrule
/// those of the environment.
///
/// From any thread: the endpoint belongs to it from then on. Allocates. Blocks as long as the transport needs
/// to be set up.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_endpoint_open(
    node: *const NodeHandle,
    transport: *const c_char,
    settings: *const *const c_char,
    endpoint: *mut *mut EndpointHandle,
    error: *mut ErrorText,
) -> Status {
    // SAFETY: the caller's promises, as in the header.
    unsafe {
        reported(error, || {
            let node = &node.as_ref().ok_or(FARCALL_INVALID_ARGUMENT)?.node;
            if endpoint.is_null() {
                return Err(Failure::argument("the place for the endpoint is null"));
            }
            let unknown = |error| Failure::new(FARCALL_UNKNOWN_TRANSPORT, error);
            let kind = text(transport, "the transport")?.parse().map_err(unknown)?;
            let mut chosen = node.settings().clone();
            for assignment in texts(settings, "a setting")? {
                chosen.assign(assignment).map_err(|error| Failure::new(FARCALL_SETTINGS, error))?;
            }
            let owner = Owner::this_thread().map_err(|error| Failure::new(FARCALL_RESOURCES, error))?;
            let opened = node.endpoint_with(kind, &chosen).map_err(|error| {
                let status = match error {
                    EndpointError::Unknown(_) => FARCALL_UNKNOWN_TRANSPORT,
                    EndpointError::NoInterface { .. } | EndpointError::Policy(_) => FARCALL_SETTINGS,
                    _ => FARCALL_RESOURCES,
                };
                Failure::new(status, error)
            })?;
            let handle = EndpointHandle {
                owner,
                active: Cell::new(None),
                children: Cell::new(0),
                peer_down: Cell::new((None, core::ptr::null_mut())),
                wait_set: RefCell::default(),
                endpoint: Box::new(opened),
            };
            give(endpoint, Box::into_raw(Box::new(handle)));
            Ok(())
        })
    }
}

/// Closes an endpoint and its sessions; what is in flight never completes. FARCALL_IN_USE as long as a
/// connection or something else that was made from it is open. Null is allowed. A forked child leaves the
/// endpoint of its parent alone: FARCALL_FORKED.
///
/// From the endpoint's thread, not inside a callback. Frees. Blocks briefly.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_endpoint_close(endpoint: *mut EndpointHandle) -> Status {
    // SAFETY: the caller's promises, as in the header.
    guarded(|| unsafe {
        if endpoint.is_null() {
            return Ok(());
        }
        if EndpointHandle::outside(endpoint)?.children.get() > 0 {
            return Err(FARCALL_IN_USE);
        }
        drop(Box::from_raw(endpoint));
        Ok(())
    })
}

/// Finds the endpoint of that number of the process of that rank, over the same transport, and starts a
/// session unless there is one; calls may be made at once.
///
/// From the endpoint's thread, not inside a callback. Allocates. Blocks until the peer has published its
/// endpoint, for `timeout_ns` at most (of endpoint 0; of others, and by default, `endpoint.resolve_timeout`).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_peer(
    endpoint: *mut EndpointHandle,
    rank: u32,
    number: u32,
    timeout_ns: u64,
    peer: *mut PeerNumbers,
    error: *mut ErrorText,
) -> Status {
    // SAFETY: the caller's promises, as in the header.
    unsafe {
        reported(error, || {
            let endpoint = &EndpointHandle::outside(endpoint)?.endpoint;
            let found = if number == 0 && timeout_ns != FARCALL_DEFAULT_TIMEOUT {
                endpoint.peer_within(rank, Duration::from_nanos(timeout_ns))
            } else {
                endpoint.peer_endpoint(rank, number)
            };
            let found = found.map_err(|error: ConnectError| Failure::new(FARCALL_UNKNOWN_PEER, error))?;
            give(peer, found.into());
            Ok(())
        })
    }
}

/// Polls until the session to a peer is up, or has ended: then the status says why.
///
/// From the endpoint's thread, not inside a callback. Polls: callbacks run. Blocks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_wait_for_peer(endpoint: *mut EndpointHandle, peer: PeerNumbers) -> Status {
    // SAFETY: the caller's promises, as in the header.
    guarded(|| unsafe { Ok(EndpointHandle::outside(endpoint)?.endpoint.wait_for(peer.into())?) })
}

/// Ends the session to a peer; what is in flight to it completes with FARCALL_PEER_CLOSED.
///
/// From the endpoint's thread, not inside a callback. Neither polls nor blocks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_close_peer(endpoint: *mut EndpointHandle, peer: PeerNumbers) -> Status {
    // SAFETY: the caller's promises, as in the header.
    guarded(|| unsafe {
        EndpointHandle::outside(endpoint)?.endpoint.close(peer.into());
        Ok(())
    })
}

/// From now on `callback` is notified of sessions that end; null is nobody.
///
/// From the endpoint's thread. Neither allocates, polls nor blocks. The callback runs inside later polls.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_on_peer_down(
    endpoint: *mut EndpointHandle,
    callback: PeerDownCallback,
    context: *mut c_void,
) -> Status {
    // SAFETY: the caller's promises, as in the header.
    guarded(|| unsafe {
        EndpointHandle::of(endpoint)?.peer_down.set((callback, context));
        Ok(())
    })
}

/// One turn: sends what is queued, receives, runs handlers and callbacks. `done`, which may be null, is how
/// much there was to do.
///
/// From the endpoint's thread, not inside a callback. Does not block. Allocates only for what is long or must
/// be kept.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_poll(endpoint: *mut EndpointHandle, done: *mut usize) -> Status {
    // SAFETY: the caller's promises, as in the header.
    guarded(|| unsafe {
        give(done, EndpointHandle::outside(endpoint)?.poll());
        Ok(())
    })
}

/// As `farcall_poll`; if there was nothing to do, polls a few times more, then spins, yields or blocks as
/// `endpoint.idle` says, for 100 ms at most, so that the caller can look at what else it waits for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_poll_idle(endpoint: *mut EndpointHandle, done: *mut usize) -> Status {
    // SAFETY: the caller's promises, as in the header.
    guarded(|| unsafe {
        let handle = EndpointHandle::outside(endpoint)?;
        let report = |context: &mut Context<'_>, event: Event<'_>| handle.report(context, &event);
        give(done, handle.endpoint.poll_several_idle(POLLS_MAX, report));
        Ok(())
    })
}

/// Cancels an operation that has a callback. FARCALL_OK: the callback ran, or runs in the next poll, with
/// FARCALL_CANCELLED. FARCALL_TOO_LATE: it completes in another way. FARCALL_OVER: it had completed.
///
/// From the endpoint's thread, not inside a callback. Neither polls nor blocks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farcall_cancel(endpoint: *mut EndpointHandle, operation: u32) -> Status {
    // SAFETY: the caller's promises, as in the header.
    guarded(|| unsafe {
        match EndpointHandle::outside(endpoint)?.endpoint.cancel(Operation::from_number(operation)) {
            Cancellation::Cancelled => Ok(()),
            Cancellation::TooLate => Err(FARCALL_TOO_LATE),
            Cancellation::Over => Err(FARCALL_OVER),
        }
    })
}
