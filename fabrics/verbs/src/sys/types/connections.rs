//! rdma_cm: connections by IP address, and what it reports of them.

use core::ffi::{c_int, c_void};

use super::ibv_context;

#[repr(C)]
pub struct rdma_event_channel {
    pub fd: c_int,
}

/// Its beginning; the library allocates it.
#[repr(C)]
pub struct rdma_cm_id {
    /// Null until it belongs to a device.
    pub verbs: *mut ibv_context,
    pub channel: *mut rdma_event_channel,
    pub context: *mut c_void,
    _pair: *mut c_void,
    _route: [u64; 39],
    _port_space: c_int,
    pub port_num: u8,
}

#[repr(C)]
pub struct rdma_cm_event {
    pub id: *mut rdma_cm_id,
    pub listen_id: *mut rdma_cm_id,
    pub event: c_int,
    pub status: c_int,
    pub param: rdma_cm_event_param,
}

/// A union; the other variant, of datagrams, is longer.
#[repr(C)]
pub struct rdma_cm_event_param {
    pub conn: rdma_conn_param,
    _more: [u64; 4],
}

#[repr(C)]
pub struct rdma_conn_param {
    pub private_data: *const c_void,
    pub private_data_len: u8,
    pub responder_resources: u8,
    pub initiator_depth: u8,
    pub flow_control: u8,
    pub retry_count: u8,
    pub rnr_retry_count: u8,
    pub srq: u8,
    pub qp_num: u32,
}

pub const RDMA_PS_TCP: c_int = 0x106;

pub const RDMA_CM_EVENT_ADDR_RESOLVED: c_int = 0;
pub const RDMA_CM_EVENT_ADDR_ERROR: c_int = 1;
pub const RDMA_CM_EVENT_ROUTE_RESOLVED: c_int = 2;
pub const RDMA_CM_EVENT_ROUTE_ERROR: c_int = 3;
pub const RDMA_CM_EVENT_CONNECT_REQUEST: c_int = 4;
pub const RDMA_CM_EVENT_CONNECT_RESPONSE: c_int = 5;
pub const RDMA_CM_EVENT_CONNECT_ERROR: c_int = 6;
pub const RDMA_CM_EVENT_UNREACHABLE: c_int = 7;
pub const RDMA_CM_EVENT_REJECTED: c_int = 8;
pub const RDMA_CM_EVENT_ESTABLISHED: c_int = 9;
pub const RDMA_CM_EVENT_DEVICE_REMOVAL: c_int = 11;
