//! Queues of a device, owned: completion queues with their channel, shared receive queues; and address
//! handles.
//!
//! Each holds what it was made from, so that all are destroyed in an order that libibverbs accepts.

use core::ffi::c_int;
use std::os::fd::RawFd;
use std::sync::Arc;

use crate::device::Device;
use crate::error::VerbsError;
use crate::gid::Gid;
use crate::sys;

/// Where completion queues announce that something completed: a descriptor to sleep on.
pub struct CompletionChannel {
    device: Arc<Device>,
    channel: *mut sys::ibv_comp_channel,
}

// SAFETY: libibverbs' objects may be used from any thread, and it locks what it shares between them.
unsafe impl Send for CompletionChannel {}
// SAFETY: as above.
unsafe impl Sync for CompletionChannel {}

impl CompletionChannel {
    /// A channel whose descriptor does not block.
    pub fn new(device: &Arc<Device>) -> Result<Arc<Self>, VerbsError> {
        // SAFETY: a live context.
        let channel = unsafe { (device.library.ibv_create_comp_channel)(device.context) };
        if channel.is_null() {
            return Err(VerbsError::last("create a completion channel"));
        }
        let this = Self { device: Arc::clone(device), channel };
        make_nonblocking(this.descriptor(), "make a completion channel non-blocking")?;
        Ok(Arc::new(this))
    }

    /// What becomes readable.
    pub fn descriptor(&self) -> RawFd {
        // SAFETY: the channel lives as long as this.
        unsafe { (*self.channel).fd }
    }

    /// Takes all announcements away.
    pub fn drain(&self) {
        let (mut queue, mut context) = (core::ptr::null_mut(), core::ptr::null_mut());
        let library = self.device.library;
        // SAFETY: a live channel; the call returns an event and the queue that it is of, or fails when there
        // is none.
        while unsafe { (library.ibv_get_cq_event)(self.channel, &raw mut queue, &raw mut context) } == 0 {
            // SAFETY: the queue cannot be destroyed before its event is acknowledged, which happens here,
            // once.
            unsafe { (library.ibv_ack_cq_events)(queue, 1) };
        }
    }
}

impl Drop for CompletionChannel {
    fn drop(&mut self) {
        // SAFETY: live, and without queues, which would hold it.
        unsafe { (self.device.library.ibv_destroy_comp_channel)(self.channel) };
    }
}

/// A completion queue.
pub struct CompletionQueue {
    device: Arc<Device>,
    queue: *mut sys::ibv_cq,
    _channel: Option<Arc<CompletionChannel>>,
}

// SAFETY: libibverbs' objects may be used from any thread, and it locks what it shares between them.
unsafe impl Send for CompletionQueue {}
// SAFETY: as above.
unsafe impl Sync for CompletionQueue {}

impl CompletionQueue {
    /// A queue for `depth` completions, which announces them on `channel`.
    pub fn new(
        device: &Arc<Device>,
        depth: usize,
        channel: Option<&Arc<CompletionChannel>>,
    ) -> Result<Arc<Self>, VerbsError> {
        let raw_channel = channel.map_or(core::ptr::null_mut(), |channel| channel.channel);
        // SAFETY: a live context, and a live channel or none.
        let queue = unsafe {
            (device.library.ibv_create_cq)(
                device.context,
                depth as c_int,
                core::ptr::null_mut(),
                raw_channel,
                0,
            )
        };
        if queue.is_null() {
            return Err(VerbsError::last("create a completion queue"));
        }
        Ok(Arc::new(Self { device: Arc::clone(device), queue, _channel: channel.cloned() }))
    }

    /// The same queue for calls that make others.
    pub fn raw(&self) -> *mut sys::ibv_cq {
        self.queue
    }

    /// Completions that are there, in the first entries of `completions`; `None` when the queue is broken.
    #[inline]
    pub fn poll<'a>(&self, completions: &'a mut [sys::ibv_wc]) -> Option<&'a [sys::ibv_wc]> {
        // SAFETY: the queue lives as long as this.
        let count = unsafe { sys::poll_cq(self.queue, completions) };
        Some(&completions[..usize::try_from(count).ok()?])
    }

    /// Takes all completions away.
    pub fn discard(&self) {
        let mut completions = [sys::ibv_wc::new(); 16];
        while self.poll(&mut completions).is_some_and(|completions| !completions.is_empty()) {}
    }

    /// Asks for an announcement of the next completion.
    pub fn arm(&self) {
        // SAFETY: the queue lives as long as this. A queue that cannot be armed is broken, which polling
        // shows.
        let _broken = unsafe { sys::req_notify_cq(self.queue) };
    }
}

impl Drop for CompletionQueue {
    fn drop(&mut self) {
        // SAFETY: live, and without queue pairs, which would hold it; its events are acknowledged as they are
        // read.
        unsafe { (self.device.library.ibv_destroy_cq)(self.queue) };
    }
}

/// Receives that several queue pairs share.
pub struct SharedReceives {
    device: Arc<Device>,
    queue: *mut sys::ibv_srq,
    /// How many receives it holds.
    pub depth: usize,
}

// SAFETY: libibverbs' objects may be used from any thread, and it locks what it shares between them.
unsafe impl Send for SharedReceives {}
// SAFETY: as above.
unsafe impl Sync for SharedReceives {}

impl SharedReceives {
    /// A queue of at least `depth` receives.
    pub fn new(device: &Arc<Device>, depth: usize) -> Result<Arc<Self>, VerbsError> {
        let mut attributes = sys::ibv_srq_init_attr {
            srq_context: core::ptr::null_mut(),
            max_wr: depth as u32,
            max_sge: 1,
            srq_limit: 0,
        };
        // SAFETY: a live domain; the library writes the depth that it gave to the attributes.
        let queue = unsafe { (device.library.ibv_create_srq)(device.domain, &raw mut attributes) };
        if queue.is_null() {
            return Err(VerbsError::last("create a shared receive queue"));
        }
        let depth = depth.max(attributes.max_wr as usize);
        Ok(Arc::new(Self { device: Arc::clone(device), queue, depth }))
    }

    /// The same queue for calls of the data path.
    #[inline]
    pub fn raw(&self) -> *mut sys::ibv_srq {
        self.queue
    }
}

impl Drop for SharedReceives {
    fn drop(&mut self) {
        // SAFETY: live, and without queue pairs, which would hold it.
        unsafe { (self.device.library.ibv_destroy_srq)(self.queue) };
    }
}

/// How to reach a port of a peer with datagrams.
pub struct AddressHandle {
    device: Arc<Device>,
    handle: *mut sys::ibv_ah,
}

// SAFETY: libibverbs' objects may be used from any thread, and it locks what it shares between them.
unsafe impl Send for AddressHandle {}
// SAFETY: as above.
unsafe impl Sync for AddressHandle {}

impl AddressHandle {
    /// The way to a port; on Ethernet this asks the network for the peer, which can take long and fail.
    pub fn new(device: &Arc<Device>, gid: Gid, lid: u16) -> Result<Self, VerbsError> {
        let mut route = device.route(gid, lid);
        // SAFETY: a live domain; the library reads the route.
        let handle = unsafe { (device.library.ibv_create_ah)(device.domain, &raw mut route) };
        if handle.is_null() {
            return Err(VerbsError::last("find the way to a peer"));
        }
        Ok(Self { device: Arc::clone(device), handle })
    }

    /// The same handle for requests.
    #[inline]
    pub fn raw(&self) -> *mut sys::ibv_ah {
        self.handle
    }
}

impl Drop for AddressHandle {
    fn drop(&mut self) {
        // SAFETY: live; requests that have been posted carry a copy of what it says.
        unsafe { (self.device.library.ibv_destroy_ah)(self.handle) };
    }
}

/// Makes a descriptor of ours fail instead of wait.
pub fn make_nonblocking(descriptor: RawFd, what: &'static str) -> Result<(), VerbsError> {
    // SAFETY: an open descriptor of ours; only its flags change.
    let result = unsafe {
        let flags = libc::fcntl(descriptor, libc::F_GETFL);
        libc::fcntl(descriptor, libc::F_SETFL, flags | libc::O_NONBLOCK)
    };
    if result < 0 { Err(VerbsError::last(what)) } else { Ok(()) }
}
