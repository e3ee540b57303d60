//! The declarations of `types` against libfabric's own headers, where these and a C compiler are installed.

use core::mem::{offset_of, size_of};

use farcall_driver::conformance::agree_with_headers;
use farcall_ofi::libfabric::Context;
use farcall_ofi::libfabric::types::*;

const HEADERS: [&str; 6] = [
    "rdma/fabric.h",
    "rdma/fi_domain.h",
    "rdma/fi_endpoint.h",
    "rdma/fi_cm.h",
    "rdma/fi_tagged.h",
    "rdma/fi_errno.h",
];

/// A line for each: an expression of C, and what it is here.
macro_rules! compared {
    ($($c:literal => $rust:expr;)*) => { [$(($c, ($rust) as u64)),*] };
}

/// Offsets of fields that have the same name in both.
macro_rules! offsets {
    ($($structure:ident { $($field:ident),* })*) => {
        [$($((
            concat!("offsetof(struct ", stringify!($structure), ", ", stringify!($field), ")"),
            offset_of!($structure, $field) as u64,
        ),)*)*]
    };
}

fn agree(compared: &[(&str, u64)]) {
    if !agree_with_headers(&HEADERS, compared) {
        println!("unsupported: libfabric's headers or a C compiler are missing (Debian: libfabric-dev gcc)");
    }
}

#[test]
fn structures_agree_with_the_headers() {
    agree(&offsets! {
        fi_tx_attr { msg_order, inject_size, size, iov_limit }
        fi_rx_attr { msg_order, size }
        fi_ep_attr { protocol, max_msg_size, msg_prefix_size, mem_tag_format }
        fi_domain_attr { name, threading, data_progress, resource_mgmt, av_type, mr_mode }
        fi_fabric_attr { name, prov_name }
        fi_info {
            next, caps, mode, addr_format, src_addrlen, src_addr, handle, tx_attr, rx_attr, ep_attr, domain_attr,
            fabric_attr
        }
        fid { context, ops }
        fi_ops { close, bind, control }
        fid_fabric { ops }
        fi_ops_fabric { domain, trywait }
        fid_domain { ops }
        fi_ops_domain { av_open, cq_open, endpoint }
        fi_av_attr { rx_ctx_bits, count, flags }
        fid_av { ops }
        fi_ops_av { insert, remove }
        fi_cq_attr { flags, format, wait_obj, wait_set }
        fi_cq_msg_entry { op_context, flags, len }
        fi_cq_err_entry { op_context, len, tag, err, prov_errno, err_data, err_data_size }
        fid_cq { ops }
        fi_ops_cq { read, readerr }
        fid_ep { ops, cm, msg, tagged }
        fi_ops_ep { cancel }
        fi_ops_cm { getname }
        fi_ops_msg { recv, send, inject }
        fi_ops_tagged { recv, send, inject }
    });
}

#[test]
fn constants_and_sizes_agree_with_the_headers() {
    agree(&compared! {
        "sizeof(struct fi_context2) + sizeof(unsigned long long)" => size_of::<Context>();
        "sizeof(struct fi_cq_attr)" => size_of::<fi_cq_attr>();
        "sizeof(struct fi_av_attr)" => size_of::<fi_av_attr>();
        "sizeof(struct fi_cq_msg_entry)" => size_of::<fi_cq_msg_entry>();
        "sizeof(struct fi_cq_err_entry)" => size_of::<fi_cq_err_entry>();
        "FI_VERSION(1, 14)" => API_VERSION;
        "FI_ADDR_UNSPEC" => FI_ADDR_UNSPEC;
        "FI_ADDR_NOTAVAIL" => FI_ADDR_NOTAVAIL;
        "FI_MSG" => FI_MSG;
        "FI_TAGGED" => FI_TAGGED;
        "FI_RECV" => FI_RECV;
        "FI_TRANSMIT" => FI_TRANSMIT;
        "FI_CONTEXT" => FI_CONTEXT;
        "FI_CONTEXT2" => FI_CONTEXT2;
        "FI_ORDER_SAS" => FI_ORDER_SAS;
        "FI_EP_DGRAM" => FI_EP_DGRAM;
        "FI_EP_RDM" => FI_EP_RDM;
        "FI_THREAD_DOMAIN" => FI_THREAD_DOMAIN;
        "FI_RM_ENABLED" => FI_RM_ENABLED;
        "FI_SOCKADDR_IN" => FI_SOCKADDR_IN;
        "FI_SOCKADDR_IN6" => FI_SOCKADDR_IN6;
        "FI_ADDR_STR" => FI_ADDR_STR;
        "FI_GETWAIT" => FI_GETWAIT;
        "FI_ENABLE" => FI_ENABLE;
        "FI_CQ_FORMAT_MSG" => FI_CQ_FORMAT_MSG;
        "FI_WAIT_NONE" => FI_WAIT_NONE;
        "FI_WAIT_FD" => FI_WAIT_FD;
        "FI_EAGAIN" => FI_EAGAIN;
        "FI_ENODATA" => FI_ENODATA;
        "FI_EAVAIL" => FI_EAVAIL;
    });
}
