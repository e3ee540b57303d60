//! Structures and constants of libfabric's headers (`rdma/fabric.h` and its neighbours), under their C names.
//!
//! What the library allocates is given up to the last field that is used here; its tables only grow at their ends.
#![allow(non_camel_case_types, missing_docs, reason = "the names of the C interface")]

use core::ffi::{c_char, c_int, c_uint, c_void};

macro_rules! opaque {
    ($($name:ident),+) => {
        $(#[repr(C)]
        pub struct $name {
            _private: [u8; 0],
        })+
    };
}

opaque!(fid_mr, fid_wait, fid_nic, fi_eq_attr, fid_pep, fid_eq, fi_wait_attr);

pub type fi_addr_t = u64;
pub const FI_ADDR_UNSPEC: fi_addr_t = u64::MAX;
pub const FI_ADDR_NOTAVAIL: fi_addr_t = u64::MAX;

/// The version of the interface that is asked for: 1.14, as major and minor number.
pub const API_VERSION: u32 = 1 << 16 | 14;

pub const FI_MSG: u64 = 1 << 1;
pub const FI_TAGGED: u64 = 1 << 3;
pub const FI_RECV: u64 = 1 << 10;
pub const FI_SEND: u64 = 1 << 11;
pub const FI_TRANSMIT: u64 = FI_SEND;
pub const FI_SOURCE: u64 = 1 << 57;
pub const FI_CONTEXT: u64 = 1 << 59;
pub const FI_CONTEXT2: u64 = 1 << 52;
pub const FI_ORDER_SAS: u64 = 1 << 8;

pub const FI_EP_DGRAM: c_uint = 2;
pub const FI_EP_RDM: c_uint = 3;
pub const FI_THREAD_DOMAIN: c_uint = 3;
pub const FI_RM_ENABLED: c_uint = 2;
pub const FI_SOCKADDR_IN: u32 = 2;
pub const FI_SOCKADDR_IN6: u32 = 3;
pub const FI_ADDR_STR: u32 = 9;

pub const FI_GETWAIT: c_int = 5;
pub const FI_ENABLE: c_int = 6;
pub const FI_CQ_FORMAT_MSG: c_uint = 2;
pub const FI_WAIT_NONE: c_uint = 0;
pub const FI_WAIT_FD: c_uint = 3;

pub const FI_EAGAIN: c_int = 11;
pub const FI_ENODATA: c_int = 61;
pub const FI_EAVAIL: c_int = 259;
pub const FI_ETRUNC: c_int = 265;

#[repr(C)]
pub struct fi_tx_attr {
    pub caps: u64,
    pub mode: u64,
    pub op_flags: u64,
    pub msg_order: u64,
    pub comp_order: u64,
    pub inject_size: usize,
    pub size: usize,
    pub iov_limit: usize,
}

#[repr(C)]
pub struct fi_rx_attr {
    pub caps: u64,
    pub mode: u64,
    pub op_flags: u64,
    pub msg_order: u64,
    pub comp_order: u64,
    pub total_buffered_recv: usize,
    pub size: usize,
}

#[repr(C)]
pub struct fi_ep_attr {
    pub type_: c_uint,
    pub protocol: u32,
    pub protocol_version: u32,
    pub max_msg_size: usize,
    pub msg_prefix_size: usize,
    pub max_order_raw_size: usize,
    pub max_order_war_size: usize,
    pub max_order_waw_size: usize,
    pub mem_tag_format: u64,
}

#[repr(C)]
pub struct fi_domain_attr {
    pub domain: *mut fid_domain,
    pub name: *mut c_char,
    pub threading: c_uint,
    pub control_progress: c_uint,
    pub data_progress: c_uint,
    pub resource_mgmt: c_uint,
    pub av_type: c_uint,
    pub mr_mode: c_int,
}

#[repr(C)]
pub struct fi_fabric_attr {
    pub fabric: *mut fid_fabric,
    pub name: *mut c_char,
    pub prov_name: *mut c_char,
}

#[repr(C)]
pub struct fi_info {
    pub next: *mut fi_info,
    pub caps: u64,
    pub mode: u64,
    pub addr_format: u32,
    pub src_addrlen: usize,
    pub dest_addrlen: usize,
    pub src_addr: *mut c_void,
    pub dest_addr: *mut c_void,
    pub handle: *mut fid,
    pub tx_attr: *mut fi_tx_attr,
    pub rx_attr: *mut fi_rx_attr,
    pub ep_attr: *mut fi_ep_attr,
    pub domain_attr: *mut fi_domain_attr,
    pub fabric_attr: *mut fi_fabric_attr,
}

#[repr(C)]
pub struct fid {
    pub fclass: usize,
    pub context: *mut c_void,
    pub ops: *mut fi_ops,
}

#[repr(C)]
pub struct fi_ops {
    pub size: usize,
    pub close: unsafe extern "C" fn(*mut fid) -> c_int,
    pub bind: unsafe extern "C" fn(*mut fid, *mut fid, u64) -> c_int,
    pub control: unsafe extern "C" fn(*mut fid, c_int, *mut c_void) -> c_int,
}

#[repr(C)]
pub struct fid_fabric {
    pub fid: fid,
    pub ops: *mut fi_ops_fabric,
}

#[repr(C)]
pub struct fi_ops_fabric {
    pub size: usize,
    pub domain:
        unsafe extern "C" fn(*mut fid_fabric, *mut fi_info, *mut *mut fid_domain, *mut c_void) -> c_int,
    _others: [*mut c_void; 3],
    pub trywait: unsafe extern "C" fn(*mut fid_fabric, *mut *mut fid, c_int) -> c_int,
}

#[repr(C)]
pub struct fid_domain {
    pub fid: fid,
    pub ops: *mut fi_ops_domain,
}

#[repr(C)]
pub struct fi_ops_domain {
    pub size: usize,
    pub av_open:
        unsafe extern "C" fn(*mut fid_domain, *mut fi_av_attr, *mut *mut fid_av, *mut c_void) -> c_int,
    pub cq_open:
        unsafe extern "C" fn(*mut fid_domain, *mut fi_cq_attr, *mut *mut fid_cq, *mut c_void) -> c_int,
    pub endpoint: unsafe extern "C" fn(*mut fid_domain, *mut fi_info, *mut *mut fid_ep, *mut c_void) -> c_int,
}

#[repr(C)]
pub struct fi_av_attr {
    pub type_: c_uint,
    pub rx_ctx_bits: c_int,
    pub count: usize,
    pub ep_per_node: usize,
    pub name: *const c_char,
    pub map_addr: *mut c_void,
    pub flags: u64,
}

#[repr(C)]
pub struct fid_av {
    pub fid: fid,
    pub ops: *mut fi_ops_av,
}

#[repr(C)]
pub struct fi_ops_av {
    pub size: usize,
    pub insert:
        unsafe extern "C" fn(*mut fid_av, *const c_void, usize, *mut fi_addr_t, u64, *mut c_void) -> c_int,
    _others: [*mut c_void; 2],
    pub remove: unsafe extern "C" fn(*mut fid_av, *mut fi_addr_t, usize, u64) -> c_int,
}

#[repr(C)]
pub struct fi_cq_attr {
    pub size: usize,
    pub flags: u64,
    pub format: c_uint,
    pub wait_obj: c_uint,
    pub signaling_vector: c_int,
    pub wait_cond: c_uint,
    pub wait_set: *mut fid_wait,
}

#[derive(Clone, Copy)]
#[repr(C)]
pub struct fi_cq_msg_entry {
    pub op_context: *mut c_void,
    pub flags: u64,
    pub len: usize,
}

#[repr(C)]
pub struct fi_cq_err_entry {
    pub op_context: *mut c_void,
    pub flags: u64,
    pub len: usize,
    pub buf: *mut c_void,
    pub data: u64,
    pub tag: u64,
    pub olen: usize,
    pub err: c_int,
    pub prov_errno: c_int,
    pub err_data: *mut c_void,
    pub err_data_size: usize,
}

#[repr(C)]
pub struct fid_cq {
    pub fid: fid,
    pub ops: *mut fi_ops_cq,
}

#[repr(C)]
pub struct fi_ops_cq {
    pub size: usize,
    pub read: unsafe extern "C" fn(*mut fid_cq, *mut c_void, usize) -> isize,
    pub readfrom: unsafe extern "C" fn(*mut fid_cq, *mut c_void, usize, *mut fi_addr_t) -> isize,
    pub readerr: unsafe extern "C" fn(*mut fid_cq, *mut fi_cq_err_entry, u64) -> isize,
}

#[repr(C)]
pub struct fid_ep {
    pub fid: fid,
    pub ops: *mut fi_ops_ep,
    pub cm: *mut fi_ops_cm,
    pub msg: *mut fi_ops_msg,
    pub rma: *mut c_void,
    pub tagged: *mut fi_ops_tagged,
}

#[repr(C)]
pub struct fi_ops_ep {
    pub size: usize,
    pub cancel: unsafe extern "C" fn(*mut fid, *mut c_void) -> isize,
}

#[repr(C)]
pub struct fi_ops_cm {
    pub size: usize,
    pub setname: unsafe extern "C" fn(*mut fid, *mut c_void, usize) -> c_int,
    pub getname: unsafe extern "C" fn(*mut fid, *mut c_void, *mut usize) -> c_int,
}

#[repr(C)]
pub struct fi_ops_msg {
    pub size: usize,
    pub recv:
        unsafe extern "C" fn(*mut fid_ep, *mut c_void, usize, *mut c_void, fi_addr_t, *mut c_void) -> isize,
    _recvv: *mut c_void,
    _recvmsg: *mut c_void,
    pub send:
        unsafe extern "C" fn(*mut fid_ep, *const c_void, usize, *mut c_void, fi_addr_t, *mut c_void) -> isize,
    _sendv: *mut c_void,
    _sendmsg: *mut c_void,
    pub inject: unsafe extern "C" fn(*mut fid_ep, *const c_void, usize, fi_addr_t) -> isize,
}

#[repr(C)]
pub struct fi_ops_tagged {
    pub size: usize,
    pub recv: unsafe extern "C" fn(
        *mut fid_ep,
        *mut c_void,
        usize,
        *mut c_void,
        fi_addr_t,
        u64,
        u64,
        *mut c_void,
    ) -> isize,
    _recvv: *mut c_void,
    _recvmsg: *mut c_void,
    pub send: unsafe extern "C" fn(
        *mut fid_ep,
        *const c_void,
        usize,
        *mut c_void,
        fi_addr_t,
        u64,
        *mut c_void,
    ) -> isize,
    _sendv: *mut c_void,
    _sendmsg: *mut c_void,
    pub inject: unsafe extern "C" fn(*mut fid_ep, *const c_void, usize, fi_addr_t, u64) -> isize,
}
