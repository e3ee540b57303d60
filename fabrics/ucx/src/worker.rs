//! A worker of UCX and the context that it needs: what one endpoint owns of the library.

use core::ffi::{CStr, c_int, c_void};
use core::mem::MaybeUninit;
use core::ptr::{null, null_mut};
use std::os::fd::RawFd;

use farcall_base::Address;

use crate::address::wrap;
use crate::api::{Api, api};
use crate::ffi::*;
use crate::library::UcxError;
use crate::shared::{Shared, on_message};

/// The version of UCX's interface that this crate is written for.
const API_VERSION: (u32, u32) = (1, 11);

/// The networks that a worker is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// All that UCX finds, or those of `UCX_NET_DEVICES`.
    Network,
    /// Only that of this machine, and shared memory.
    Loopback,
}

const NET_DEVICES: &CStr = c"NET_DEVICES";
const LOOPBACK: &CStr = c"lo";

/// The number of the one active message that is used.
pub const MESSAGE_ID: u32 = 0;

/// A worker and its context. Its owner calls UCX with them from one thread at a time.
pub struct WorkerBox {
    /// The functions of UCX.
    pub api: &'static Api,
    /// The worker itself.
    pub worker: *mut Worker,
    context: *mut Context,
    descriptor: Option<RawFd>,
}

/// A value of a structure in which nothing is set.
///
/// # Safety
/// All bytes zero must be a value of `T`.
#[expect(unsafe_code, reason = "structures of C")]
pub unsafe fn zeroed<T>() -> T {
    // SAFETY: promised by the caller.
    unsafe { MaybeUninit::zeroed().assume_init() }
}

#[expect(unsafe_code, reason = "calls of UCX")]
impl WorkerBox {
    /// A context and a worker for active messages; one that can wake a sleeper when it `may_sleep`.
    pub fn new(may_sleep: bool, reach: Reach) -> Result<Self, UcxError> {
        Self::with_features(UCP_FEATURE_AM, may_sleep, reach)
    }

    /// A context and a worker for what the features say.
    pub fn with_features(features: u64, may_sleep: bool, reach: Reach) -> Result<Self, UcxError> {
        let api = api().map_err(|why| UcxError::Absent { why })?;
        let features = features | if may_sleep { UCP_FEATURE_WAKEUP } else { 0 };
        let context = create_context(api, features, reach)?;
        // SAFETY: the structure holds numbers and pointers; null and 0 are among their values.
        let mut params: WorkerParams = unsafe { zeroed() };
        params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
        params.thread_mode = UCS_THREAD_MODE_SERIALIZED;
        let mut worker = null_mut();
        // SAFETY: the context lives, and the structure says which of its fields are set.
        let status = unsafe { (api.ucp_worker_create)(context, &params, &mut worker) };
        if status != UCS_OK {
            // SAFETY: it was created above and is not used again.
            unsafe { (api.ucp_cleanup)(context) };
            return Err(refused(api, "a worker", status));
        }
        let mut this = Self { api, worker, context, descriptor: None };
        if may_sleep {
            let mut descriptor: c_int = -1;
            // SAFETY: the worker lives.
            let status = unsafe { (api.ucp_worker_get_efd)(this.worker, &mut descriptor) };
            this.descriptor = (status == UCS_OK).then_some(descriptor);
        }
        Ok(this)
    }

    /// Lets every message call `on_message` with `shared`, which must live for as long as the worker.
    pub fn listen(&mut self, shared: *mut Shared) -> Result<(), UcxError> {
        let param = HandlerParam {
            field_mask: UCP_AM_HANDLER_PARAM_FIELD_ID
                | UCP_AM_HANDLER_PARAM_FIELD_FLAGS
                | UCP_AM_HANDLER_PARAM_FIELD_CB
                | UCP_AM_HANDLER_PARAM_FIELD_ARG,
            id: MESSAGE_ID,
            flags: UCP_AM_FLAG_WHOLE_MSG,
            callback: Some(on_message),
            argument: shared.cast::<c_void>(),
        };
        // SAFETY: the worker lives; the callback keeps to UCX's rules.
        match unsafe { (self.api.ucp_worker_set_am_recv_handler)(self.worker, &param) } {
            UCS_OK => Ok(()),
            status => Err(refused(self.api, "a handler for messages", status)),
        }
    }

    /// Where others reach the worker.
    pub fn address(&self) -> Result<Address, UcxError> {
        let (mut address, mut length) = (null_mut(), 0);
        // SAFETY: the worker lives; both results are written when the status is good.
        let status = unsafe { (self.api.ucp_worker_get_address)(self.worker, &mut address, &mut length) };
        if status != UCS_OK {
            return Err(refused(self.api, "an address", status));
        }
        // SAFETY: UCX gave `length` bytes, which are its own until they are released below.
        let bytes = unsafe { core::slice::from_raw_parts(address.cast::<u8>(), length) }.to_vec();
        // SAFETY: it came from this worker and is not used again.
        unsafe { (self.api.ucp_worker_release_address)(self.worker, address) };
        wrap(&bytes).map_err(|_| UcxError::AddressTooLong { bytes: length })
    }

    /// Lets UCX work, callbacks included; returns how much there was to do.
    #[inline]
    pub fn progress(&mut self) -> usize {
        // SAFETY: the worker lives, and `&mut self` keeps others from it meanwhile.
        unsafe { (self.api.ucp_worker_progress)(self.worker) as usize }
    }

    /// Makes the descriptor readable for what comes from now on; false when something has come already.
    pub fn arm(&mut self) -> bool {
        // SAFETY: the worker lives and was made with the feature.
        let status = unsafe { (self.api.ucp_worker_arm)(self.worker) };
        status != UCS_ERR_BUSY
    }

    /// What becomes readable when there is something to do, if the worker can wake anybody.
    pub fn descriptor(&self) -> Option<RawFd> {
        self.descriptor
    }
}

#[expect(unsafe_code, reason = "calls of UCX")]
fn create_context(api: &Api, features: u64, reach: Reach) -> Result<*mut Context, UcxError> {
    let mut config = null_mut();
    // SAFETY: null stands for no prefix and no file.
    let status = unsafe { (api.ucp_config_read)(null(), null(), &mut config) };
    if status != UCS_OK {
        return Err(refused(api, "its configuration", status));
    }
    // Its listening sockets know no users and no keys. What the user says goes before.
    if reach == Reach::Loopback && std::env::var_os("UCX_NET_DEVICES").is_none() {
        // SAFETY: the configuration was read above, and both texts end with a zero.
        let status = unsafe { (api.ucp_config_modify)(config, NET_DEVICES.as_ptr(), LOOPBACK.as_ptr()) };
        if status != UCS_OK {
            // SAFETY: it was read above and is not used again.
            unsafe { (api.ucp_config_release)(config) };
            return Err(refused(api, "to stay on the loopback interface", status));
        }
    }
    // SAFETY: the structure holds numbers and pointers; null and 0 are among their values.
    let mut params: Params = unsafe { zeroed() };
    params.field_mask = UCP_PARAM_FIELD_FEATURES;
    params.features = features;
    let (major, minor) = API_VERSION;
    let mut context = null_mut();
    // SAFETY: the configuration was read above and is released once; the structure says which fields are set.
    let status = unsafe {
        let status = (api.ucp_init_version)(major, minor, &params, config, &mut context);
        (api.ucp_config_release)(config);
        status
    };
    if status == UCS_OK { Ok(context) } else { Err(refused(api, "a context", status)) }
}

/// UCX has no `what` for us.
pub fn refused(api: &Api, what: &'static str, status: Status) -> UcxError {
    UcxError::Refused { what, why: api.words(status) }
}

impl Drop for WorkerBox {
    #[expect(unsafe_code, reason = "calls of UCX")]
    fn drop(&mut self) {
        // SAFETY: both were made by `new`, nothing of them is used again, and the worker goes first.
        unsafe {
            (self.api.ucp_worker_destroy)(self.worker);
            (self.api.ucp_cleanup)(self.context);
        }
    }
}
