//! Structures and constants of libfabric's headers (`rdma/fabric.h` and its neighbours), under their C names.
//!
//! What the library allocates is given up to the last field that is used here; its tables only grow at their
//! ends.
#![allow(non_camel_case_types, missing_docs, reason = "the names of the C interface")]

mod info;
mod objects;

use core::ffi::{c_int, c_uint};

pub use info::*;
pub use objects::*;

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
pub const FI_CONTEXT: u64 = 1 << 59;
pub const FI_CONTEXT2: u64 = 1 << 52;
pub const FI_ORDER_SAS: u64 = 1 << 8;

pub const FI_EP_DGRAM: c_uint = 2;
pub const FI_EP_RDM: c_uint = 3;
pub const FI_THREAD_DOMAIN: c_uint = 3;
pub const FI_RM_ENABLED: c_uint = 2;
pub const FI_SOCKADDR: u32 = 1;
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
