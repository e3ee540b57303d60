//! The part of UCP's interface that is used here, as its headers (`ucp/api/ucp.h`, `ucs/type/status.h`)
//! declare it.
//!
//! Every structure begins with a mask of the fields that are set; UCX reads and writes only those, so that
//! structures may grow at their ends. A test compares sizes, offsets and constants with the headers where
//! these are installed.
#![allow(unsafe_code, missing_docs, reason = "declarations of a C library, documented there")]

use core::ffi::{c_char, c_int, c_uint, c_void};

/// `ucs_status_t`.
pub type Status = i8;
pub const UCS_OK: Status = 0;
pub const UCS_INPROGRESS: Status = 1;
pub const UCS_ERR_BUSY: Status = -15;

/// A status or a request: pointers in the last hundred bytes of the address space are errors.
pub type StatusPointer = *mut c_void;

/// `UCS_PTR_IS_ERR`.
pub fn is_error(pointer: StatusPointer) -> bool {
    pointer.addr() >= (-100_isize) as usize
}

pub enum Config {}
pub enum Context {}
pub enum Worker {}
pub enum Endpoint {}
pub enum WorkerAddress {}

pub const UCP_PARAM_FIELD_FEATURES: u64 = 1;
pub const UCP_FEATURE_TAG: u64 = 1;
pub const UCP_FEATURE_WAKEUP: u64 = 1 << 4;
pub const UCP_FEATURE_AM: u64 = 1 << 6;

#[repr(C)]
pub struct Params {
    pub field_mask: u64,
    pub features: u64,
    pub request_size: usize,
    pub request_init: *const c_void,
    pub request_cleanup: *const c_void,
    pub tag_sender_mask: u64,
    pub mt_workers_shared: c_int,
    pub estimated_num_eps: usize,
    pub estimated_num_ppn: usize,
    pub name: *const c_char,
}

pub const UCP_WORKER_PARAM_FIELD_THREAD_MODE: u64 = 1;
pub const UCS_THREAD_MODE_SERIALIZED: c_uint = 1;

#[repr(C)]
pub struct WorkerParams {
    pub field_mask: u64,
    pub thread_mode: c_uint,
    pub cpu_mask: [u64; 16],
    pub events: c_uint,
    pub user_data: *mut c_void,
    pub event_fd: c_int,
    pub flags: u64,
    pub name: *const c_char,
    pub am_alignment: usize,
    pub client_id: u64,
}

pub const UCP_EP_PARAM_FIELD_REMOTE_ADDRESS: u64 = 1;
pub const UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE: u64 = 2;
pub const UCP_EP_PARAM_FIELD_ERR_HANDLER: u64 = 4;
pub const UCP_ERR_HANDLING_MODE_NONE: c_uint = 0;
pub const UCP_ERR_HANDLING_MODE_PEER: c_uint = 1;

pub type ErrorCallback = unsafe extern "C" fn(argument: *mut c_void, endpoint: *mut Endpoint, status: Status);

#[repr(C)]
pub struct ErrorHandler {
    pub callback: Option<ErrorCallback>,
    pub argument: *mut c_void,
}

#[repr(C)]
pub struct SocketAddress {
    pub address: *const c_void,
    pub length: u32,
}

#[repr(C)]
pub struct EndpointParams {
    pub field_mask: u64,
    pub address: *const WorkerAddress,
    pub err_mode: c_uint,
    pub err_handler: ErrorHandler,
    pub user_data: *mut c_void,
    pub flags: c_uint,
    pub sockaddr: SocketAddress,
    pub conn_request: *mut c_void,
    pub name: *const c_char,
    pub local_sockaddr: SocketAddress,
}

pub const UCP_OP_ATTR_FIELD_CALLBACK: u32 = 1 << 1;
pub const UCP_OP_ATTR_FIELD_USER_DATA: u32 = 1 << 2;
pub const UCP_OP_ATTR_FIELD_FLAGS: u32 = 1 << 4;
pub const UCP_EP_CLOSE_FLAG_FORCE: u32 = 1;

pub type SendCallback = unsafe extern "C" fn(request: *mut c_void, status: Status, user_data: *mut c_void);
pub type FetchCallback =
    unsafe extern "C" fn(request: *mut c_void, status: Status, length: usize, user_data: *mut c_void);

pub type TagCallback =
    unsafe extern "C" fn(request: *mut c_void, status: Status, info: *const c_void, user_data: *mut c_void);

/// The callback of an operation; which one it is follows from the operation.
#[derive(Clone, Copy)]
#[repr(C)]
pub union OperationCallback {
    pub send: Option<SendCallback>,
    pub fetch: Option<FetchCallback>,
    pub tag: Option<TagCallback>,
}

#[repr(C)]
pub struct RequestParam {
    pub op_attr_mask: u32,
    pub flags: u32,
    pub request: *mut c_void,
    pub callback: OperationCallback,
    pub datatype: u64,
    pub user_data: *mut c_void,
    pub reply_buffer: *mut c_void,
    pub memory_type: c_uint,
    pub recv_info: *mut c_void,
    pub memh: *mut c_void,
}

pub const UCP_AM_HANDLER_PARAM_FIELD_ID: u64 = 1;
pub const UCP_AM_HANDLER_PARAM_FIELD_FLAGS: u64 = 2;
pub const UCP_AM_HANDLER_PARAM_FIELD_CB: u64 = 4;
pub const UCP_AM_HANDLER_PARAM_FIELD_ARG: u64 = 8;
pub const UCP_AM_FLAG_WHOLE_MSG: u32 = 1;
pub const UCP_AM_RECV_ATTR_FLAG_DATA: u64 = 1 << 16;
pub const UCP_AM_RECV_ATTR_FLAG_RNDV: u64 = 1 << 17;

#[repr(C)]
pub struct ReceiveParam {
    pub recv_attr: u64,
    pub reply_ep: *mut Endpoint,
}

pub type ReceiveCallback = unsafe extern "C" fn(
    argument: *mut c_void,
    header: *const c_void,
    header_length: usize,
    data: *mut c_void,
    length: usize,
    param: *const ReceiveParam,
) -> Status;

#[repr(C)]
pub struct HandlerParam {
    pub field_mask: u64,
    pub id: c_uint,
    pub flags: u32,
    pub callback: Option<ReceiveCallback>,
    pub argument: *mut c_void,
}
