//! Queue pairs, owned. Each holds the queues that it was made with, so that they outlive it.

use core::ffi::c_int;
use std::sync::Arc;

use crate::device::Device;
use crate::error::VerbsError;
use crate::queues::{CompletionQueue, SharedReceives};
use crate::sys;

/// Sizes of a queue pair.
#[derive(Clone, Copy, Debug)]
pub struct Depths {
    /// Requests in the send queue.
    pub send: usize,
    /// Requests in the receive queue; 0 with a shared one.
    pub receive: usize,
    /// Bytes that a request may carry itself.
    pub inline_bytes: usize,
}

/// A queue pair.
pub struct QueuePair {
    device: Arc<Device>,
    pair: *mut sys::ibv_qp,
    _queues: [Arc<CompletionQueue>; 2],
    _shared: Option<Arc<SharedReceives>>,
    /// Bytes that a request may carry itself.
    pub inline_bytes: usize,
}

// SAFETY: libibverbs' objects may be used from any thread, and it locks what it shares between them.
unsafe impl Send for QueuePair {}
// SAFETY: as above.
unsafe impl Sync for QueuePair {}

impl QueuePair {
    /// A queue pair of a kind (`IBV_QPT_…`). When the device has no room for so much inline data, it is half
    /// as much, and so on.
    pub fn new(
        device: &Arc<Device>,
        kind: c_int,
        depths: Depths,
        send: &Arc<CompletionQueue>,
        receive: &Arc<CompletionQueue>,
        shared: Option<&Arc<SharedReceives>>,
    ) -> Result<Self, VerbsError> {
        let mut depths = depths;
        let mut attempt = Self::create(device, kind, depths, send, receive, shared);
        while attempt.is_err() && depths.inline_bytes > 0 {
            depths.inline_bytes /= 2;
            attempt = Self::create(device, kind, depths, send, receive, shared);
        }
        attempt
    }

    fn create(
        device: &Arc<Device>,
        kind: c_int,
        depths: Depths,
        send: &Arc<CompletionQueue>,
        receive: &Arc<CompletionQueue>,
        shared: Option<&Arc<SharedReceives>>,
    ) -> Result<Self, VerbsError> {
        let mut attributes = sys::ibv_qp_init_attr {
            qp_context: core::ptr::null_mut(),
            send_cq: send.raw(),
            recv_cq: receive.raw(),
            srq: shared.map_or(core::ptr::null_mut(), |shared| shared.raw()),
            cap: sys::ibv_qp_cap {
                max_send_wr: depths.send as u32,
                max_recv_wr: depths.receive as u32,
                max_send_sge: 1,
                max_recv_sge: 1,
                max_inline_data: depths.inline_bytes as u32,
            },
            qp_type: kind,
            sq_sig_all: 0,
        };
        // SAFETY: a live domain and live queues; the library writes the sizes that it gave to the attributes.
        let pair = unsafe { (device.library.ibv_create_qp)(device.domain, &raw mut attributes) };
        if pair.is_null() {
            return Err(VerbsError::last("create a queue pair"));
        }
        Ok(Self {
            device: Arc::clone(device),
            pair,
            _queues: [Arc::clone(send), Arc::clone(receive)],
            _shared: shared.cloned(),
            inline_bytes: depths.inline_bytes,
        })
    }

    /// Its number, by which peers name it.
    pub fn number(&self) -> u32 {
        // SAFETY: the pair lives as long as this.
        unsafe { (*self.pair).qp_num }
    }

    /// Changes its state and those attributes that `mask` names.
    pub fn modify(
        &self,
        what: &'static str,
        mut attributes: sys::ibv_qp_attr,
        mask: c_int,
    ) -> Result<(), VerbsError> {
        // SAFETY: the pair lives as long as this; the library reads the attributes.
        let result = unsafe { (self.device.library.ibv_modify_qp)(self.pair, &raw mut attributes, mask) };
        if result == 0 { Ok(()) } else { Err(VerbsError::number(what, result)) }
    }

    /// The same pair for calls of the data path.
    #[inline]
    pub fn raw(&self) -> *mut sys::ibv_qp {
        self.pair
    }
}

impl Drop for QueuePair {
    fn drop(&mut self) {
        // SAFETY: live, and used by nobody else, since its methods borrow it.
        unsafe { (self.device.library.ibv_destroy_qp)(self.pair) };
    }
}
