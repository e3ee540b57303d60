//! Where rdma_cm reports what has become of connections.

use core::ffi::c_int;
use std::os::fd::RawFd;
use std::sync::Arc;

use farcall_driver::LaneFault;

use super::identifier::CmId;
use crate::error::VerbsError;
use crate::sys::{self, CmLibrary, cm_library};

/// A channel of events; its descriptor becomes readable, and reading it never waits.
pub struct EventChannel {
    pub(super) library: &'static CmLibrary,
    channel: *mut sys::rdma_event_channel,
}

// SAFETY: librdmacm's objects may be used from any thread, and it locks what it shares between them.
unsafe impl Send for EventChannel {}
// SAFETY: as above.
unsafe impl Sync for EventChannel {}

/// Something that rdma_cm reported.
pub struct CmEvent {
    /// The identifier that it is about, to be compared only.
    pub about: *const sys::rdma_cm_id,
    pub what: Happening,
}

/// What happened.
pub enum Happening {
    /// A peer asks for a connection, and says this.
    Asked(CmId, Vec<u8>),
    /// The peer's address leads to a device of ours.
    AddressFound,
    /// The way to the peer is known.
    RouteFound,
    /// The peer accepted; our queue pair is to be made ready, and the peer to be told.
    Answered,
    /// The connection is up, and the queue pair with it.
    Established,
    /// There will be no connection.
    Failed(LaneFault),
    /// The device was removed.
    DeviceGone,
}

impl EventChannel {
    /// A new channel.
    pub fn new() -> Result<Arc<Self>, VerbsError> {
        let library = cm_library().map_err(|why| VerbsError::NoCmLibrary { why: why.into() })?;
        // SAFETY: no arguments; fails when the kernel has no rdma_cm.
        let channel = unsafe { (library.rdma_create_event_channel)() };
        if channel.is_null() {
            return Err(VerbsError::last("open rdma_cm (the kernel's module rdma_ucm)"));
        }
        let this = Self { library, channel };
        crate::queues::make_nonblocking(this.descriptor(), "make rdma_cm non-blocking")?;
        Ok(Arc::new(this))
    }

    /// The same channel for calls that make others.
    pub(super) fn raw(&self) -> *mut sys::rdma_event_channel {
        self.channel
    }

    /// What becomes readable.
    pub fn descriptor(&self) -> RawFd {
        // SAFETY: the channel lives as long as this.
        unsafe { (*self.channel).fd }
    }

    /// The next event that matters here; `None` when there is none.
    pub fn next(self: &Arc<Self>) -> Option<CmEvent> {
        loop {
            let mut event = core::ptr::null_mut();
            // SAFETY: a live channel; the library returns an event, or fails when there is none.
            if unsafe { (self.library.rdma_get_cm_event)(self.channel, &raw mut event) } != 0 {
                return None;
            }
            // SAFETY: the event lives until it is acknowledged.
            let what = self.meaning_of(unsafe { &*event });
            // SAFETY: as above.
            let about = unsafe { (*event).id.cast_const() };
            // SAFETY: an event that was just taken. An identifier cannot be destroyed before its events are
            // acknowledged.
            unsafe { (self.library.rdma_ack_cm_event)(event) };
            if let Some(what) = what {
                return Some(CmEvent { about, what });
            }
        }
    }

    fn meaning_of(self: &Arc<Self>, event: &sys::rdma_cm_event) -> Option<Happening> {
        Some(match event.event {
            sys::RDMA_CM_EVENT_CONNECT_REQUEST => {
                let sys::rdma_conn_param { private_data, private_data_len, .. } = event.param.conn;
                let said = match private_data.is_null() {
                    true => Vec::new(),
                    // SAFETY: that many bytes lie there until the event is acknowledged.
                    false => unsafe {
                        core::slice::from_raw_parts(private_data.cast::<u8>(), private_data_len.into())
                    }
                    .to_vec(),
                };
                // SAFETY: the identifier was made for this request, and is nobody's yet.
                Happening::Asked(unsafe { CmId::from_raw(self, event.id) }, said)
            }
            sys::RDMA_CM_EVENT_ADDR_RESOLVED => Happening::AddressFound,
            sys::RDMA_CM_EVENT_ROUTE_RESOLVED => Happening::RouteFound,
            sys::RDMA_CM_EVENT_CONNECT_RESPONSE => Happening::Answered,
            sys::RDMA_CM_EVENT_ESTABLISHED => Happening::Established,
            sys::RDMA_CM_EVENT_DEVICE_REMOVAL => Happening::DeviceGone,
            kind => Happening::Failed(fault_of(kind, event.status)?),
        })
    }
}

impl Drop for EventChannel {
    fn drop(&mut self) {
        // SAFETY: live, and without identifiers, which would hold it.
        unsafe { (self.library.rdma_destroy_event_channel)(self.channel) };
    }
}

/// Why there is no connection. A status is a negative error number; for InfiniBand's rejections it is a
/// reason of their own.
fn fault_of(kind: c_int, status: c_int) -> Option<LaneFault> {
    /// "Invalid service": nobody listens there.
    const NO_LISTENER: c_int = 8;
    let unacceptable = |what: &str| {
        let reason = std::io::Error::from_raw_os_error(-status);
        LaneFault::Unacceptable { why: format!("rdma_cm {what}: {reason}") }
    };
    let timed_out = status == -libc::ETIMEDOUT;
    Some(match kind {
        sys::RDMA_CM_EVENT_ADDR_ERROR => unacceptable("cannot find its address"),
        sys::RDMA_CM_EVENT_ROUTE_ERROR => unacceptable("knows no way to it"),
        sys::RDMA_CM_EVENT_UNREACHABLE | sys::RDMA_CM_EVENT_CONNECT_ERROR if timed_out => LaneFault::TimedOut,
        sys::RDMA_CM_EVENT_UNREACHABLE => unacceptable("cannot reach it"),
        sys::RDMA_CM_EVENT_CONNECT_ERROR => unacceptable("cannot connect to it"),
        sys::RDMA_CM_EVENT_REJECTED if [NO_LISTENER, -libc::ECONNREFUSED].contains(&status) => {
            LaneFault::NotThere
        }
        sys::RDMA_CM_EVENT_REJECTED => LaneFault::Unacceptable { why: "its rdma_cm rejected us".into() },
        // Ends of connections, of which the handshake's socket tells as well.
        _ => return None,
    })
}
