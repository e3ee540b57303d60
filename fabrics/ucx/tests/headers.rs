//! The declarations of `ffi.rs` against UCX's own headers, where these and a C compiler are installed.

#[path = "../src/ffi.rs"]
#[allow(dead_code, reason = "only layouts are looked at here")]
mod ffi;

use core::mem::{offset_of, size_of};
use farcall_driver::conformance::agree_with_headers;
use ffi::*;

/// One line for each: an expression of C, and what it is here.
macro_rules! compared {
    ($($c:literal => $rust:expr;)*) => { [$(($c, ($rust) as u64)),*] };
}

#[test]
fn declarations_agree_with_the_headers() {
    let compared = compared! {
        "sizeof(ucs_status_t)" => size_of::<Status>();
        "(unsigned char)UCS_INPROGRESS" => UCS_INPROGRESS;
        "UCS_ERR_BUSY == -15" => UCS_ERR_BUSY == -15;
        "UCP_PARAM_FIELD_FEATURES" => UCP_PARAM_FIELD_FEATURES;
        "UCP_FEATURE_WAKEUP" => UCP_FEATURE_WAKEUP;
        "UCP_FEATURE_TAG" => UCP_FEATURE_TAG;
        "UCP_FEATURE_AM" => UCP_FEATURE_AM;
        "offsetof(ucp_params_t, features)" => offset_of!(Params, features);
        "offsetof(ucp_params_t, name)" => offset_of!(Params, name);
        "UCP_WORKER_PARAM_FIELD_THREAD_MODE" => UCP_WORKER_PARAM_FIELD_THREAD_MODE;
        "UCS_THREAD_MODE_SERIALIZED" => UCS_THREAD_MODE_SERIALIZED;
        "offsetof(ucp_worker_params_t, thread_mode)" => offset_of!(WorkerParams, thread_mode);
        "offsetof(ucp_worker_params_t, client_id)" => offset_of!(WorkerParams, client_id);
        "UCP_EP_PARAM_FIELD_REMOTE_ADDRESS" => UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
        "UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE" => UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE;
        "UCP_EP_PARAM_FIELD_ERR_HANDLER" => UCP_EP_PARAM_FIELD_ERR_HANDLER;
        "UCP_ERR_HANDLING_MODE_NONE" => UCP_ERR_HANDLING_MODE_NONE;
        "UCP_ERR_HANDLING_MODE_PEER" => UCP_ERR_HANDLING_MODE_PEER;
        "offsetof(ucp_ep_params_t, address)" => offset_of!(EndpointParams, address);
        "offsetof(ucp_ep_params_t, err_mode)" => offset_of!(EndpointParams, err_mode);
        "offsetof(ucp_ep_params_t, err_handler.cb)" => offset_of!(EndpointParams, err_handler.callback);
        "offsetof(ucp_ep_params_t, err_handler.arg)" => offset_of!(EndpointParams, err_handler.argument);
        "offsetof(ucp_ep_params_t, local_sockaddr)" => offset_of!(EndpointParams, local_sockaddr);
        "UCP_OP_ATTR_FIELD_CALLBACK" => UCP_OP_ATTR_FIELD_CALLBACK;
        "UCP_OP_ATTR_FIELD_USER_DATA" => UCP_OP_ATTR_FIELD_USER_DATA;
        "UCP_OP_ATTR_FIELD_FLAGS" => UCP_OP_ATTR_FIELD_FLAGS;
        "UCP_EP_CLOSE_FLAG_FORCE" => UCP_EP_CLOSE_FLAG_FORCE;
        "offsetof(ucp_request_param_t, flags)" => offset_of!(RequestParam, flags);
        "offsetof(ucp_request_param_t, cb)" => offset_of!(RequestParam, callback);
        "offsetof(ucp_request_param_t, user_data)" => offset_of!(RequestParam, user_data);
        "UCP_AM_HANDLER_PARAM_FIELD_ID" => UCP_AM_HANDLER_PARAM_FIELD_ID;
        "UCP_AM_HANDLER_PARAM_FIELD_FLAGS" => UCP_AM_HANDLER_PARAM_FIELD_FLAGS;
        "UCP_AM_HANDLER_PARAM_FIELD_CB" => UCP_AM_HANDLER_PARAM_FIELD_CB;
        "UCP_AM_HANDLER_PARAM_FIELD_ARG" => UCP_AM_HANDLER_PARAM_FIELD_ARG;
        "UCP_AM_FLAG_WHOLE_MSG" => UCP_AM_FLAG_WHOLE_MSG;
        "UCP_AM_RECV_ATTR_FLAG_DATA" => UCP_AM_RECV_ATTR_FLAG_DATA;
        "UCP_AM_RECV_ATTR_FLAG_RNDV" => UCP_AM_RECV_ATTR_FLAG_RNDV;
        "offsetof(ucp_am_recv_param_t, recv_attr)" => offset_of!(ReceiveParam, recv_attr);
        "offsetof(ucp_am_handler_param_t, id)" => offset_of!(HandlerParam, id);
        "offsetof(ucp_am_handler_param_t, flags)" => offset_of!(HandlerParam, flags);
        "offsetof(ucp_am_handler_param_t, cb)" => offset_of!(HandlerParam, callback);
        "offsetof(ucp_am_handler_param_t, arg)" => offset_of!(HandlerParam, argument);
    };
    if !agree_with_headers(&["ucp/api/ucp.h"], &compared) {
        println!("unsupported: UCX's headers or a C compiler are missing (Debian: libucx-dev gcc)");
    }
}
