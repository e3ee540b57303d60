//! Structures and constants of `infiniband/verbs.h` and `rdma/rdma_cma.h` (rdma-core), under their C names.
//!
//! What only the library reads and writes is opaque. The layouts belong to the library's stable binary
//! interface; the sizes at the end of this file were printed by a C compiler from the headers of
//! rdma-core 44.
#![allow(non_camel_case_types, non_snake_case, reason = "the names of the C interface")]
#![allow(dead_code, reason = "structures are given whole")]

mod connections;
mod device;
mod queues;
mod work;

pub use connections::*;
pub use device::*;
pub use queues::*;
pub use work::*;

macro_rules! opaque {
    ($($name:ident),+) => {
        $(#[repr(C)]
        pub struct $name {
            _private: [u8; 0],
        })+
    };
}

opaque!(ibv_pd, ibv_ah);

macro_rules! layouts {
    ($($name:ident: $bytes:literal $({ $($field:ident: $offset:literal),+ })?;)+) => {
        #[cfg(target_pointer_width = "64")]
        const _: () = {
            $(assert!(size_of::<$name>() == $bytes);
            $($(assert!(core::mem::offset_of!($name, $field) == $offset);)+)?)+
        };
    };
}

layouts! {
    ibv_device: 24 { transport_type: 20 };
    ibv_context_ops: 256 { poll_cq: 88, req_notify_cq: 96, post_srq_recv: 160, post_send: 200, post_recv: 208 };
    ibv_context: 272 { cmd_fd: 264, async_fd: 268 };
    ibv_comp_channel: 16 { fd: 8 };
    ibv_qp: 56 { qp_num: 52 };
    ibv_mr: 48 { lkey: 36 };
    ibv_device_attr: 232 { max_qp: 108, device_cap_flags: 116, max_cqe: 132, max_qp_rd_atom: 144, max_srq_wr: 216, phys_port_cnt: 227 };
    ibv_port_attr: 52 { lid: 34, link_layer: 46 };
    ibv_gid_entry: 32;
    ibv_wc: 48 { imm_data: 24, slid: 42 };
    ibv_sge: 16;
    ibv_recv_wr: 32;
    ibv_send_wr: 128 { imm_data: 36, wr: 40 };
    ibv_qp_init_attr: 64;
    ibv_global_route: 24;
    ibv_ah_attr: 32 { dlid: 24 };
    ibv_qp_attr: 144 { ah_attr: 56, pkey_index: 120, rate_limit: 136 };
    ibv_srq_init_attr: 24;
    ibv_async_event: 16;
    rdma_event_channel: 4;
    rdma_cm_id: 352 { port_num: 348 };
    rdma_cm_event: 80 { status: 20, param: 24 };
    rdma_conn_param: 24 { srq: 14, qp_num: 16 };
}
