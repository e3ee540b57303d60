//! Finding libibverbs and librdmacm and their functions.

use core::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::ffi::CString;
use std::sync::OnceLock;

use super::types::*;

/// Declares the functions that are taken from a library, all of them required. The library has the name under
/// which every distribution installs it.
macro_rules! functions {
    ($library:ident from $file:literal { $($name:ident: fn($($argument:ty),*) $(-> $result:ty)?;)+ }) => {
        #[doc = concat!("The functions of a loaded ", $file, ".")]
        pub struct $library {
            $(pub $name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)+
        }

        impl $library {
            fn load() -> Result<Self, String> {
                // SAFETY: the name ends with a zero, and the library runs no code of ours while it is loaded.
                let handle = unsafe { libc::dlopen(concat!($file, "\0").as_ptr().cast(), libc::RTLD_NOW) };
                if handle.is_null() {
                    return Err(last_error());
                }
                Ok(Self {
                    $($name: {
                        let symbol = symbol(handle, stringify!($name))?;
                        // SAFETY: this is the function of that name, whose C declaration is the type given
                        // here.
                        unsafe { core::mem::transmute::<*mut c_void, unsafe extern "C" fn($($argument),*) $(-> $result)?>(symbol) }
                    },)+
                })
            }
        }
    };
}

functions! {
    Library from "libibverbs.so.1" {
        ibv_get_device_list: fn(*mut c_int) -> *mut *mut ibv_device;
        ibv_free_device_list: fn(*mut *mut ibv_device);
        ibv_get_device_name: fn(*mut ibv_device) -> *const c_char;
        ibv_open_device: fn(*mut ibv_device) -> *mut ibv_context;
        ibv_close_device: fn(*mut ibv_context) -> c_int;
        ibv_query_device: fn(*mut ibv_context, *mut ibv_device_attr) -> c_int;
        ibv_query_port: fn(*mut ibv_context, u8, *mut ibv_port_attr) -> c_int;
        _ibv_query_gid_table: fn(*mut ibv_context, *mut ibv_gid_entry, usize, u32, usize) -> isize;
        ibv_alloc_pd: fn(*mut ibv_context) -> *mut ibv_pd;
        ibv_dealloc_pd: fn(*mut ibv_pd) -> c_int;
        ibv_reg_mr: fn(*mut ibv_pd, *mut c_void, usize, c_int) -> *mut ibv_mr;
        ibv_dereg_mr: fn(*mut ibv_mr) -> c_int;
        ibv_create_comp_channel: fn(*mut ibv_context) -> *mut ibv_comp_channel;
        ibv_destroy_comp_channel: fn(*mut ibv_comp_channel) -> c_int;
        ibv_create_cq: fn(*mut ibv_context, c_int, *mut c_void, *mut ibv_comp_channel, c_int) -> *mut ibv_cq;
        ibv_destroy_cq: fn(*mut ibv_cq) -> c_int;
        ibv_get_cq_event: fn(*mut ibv_comp_channel, *mut *mut ibv_cq, *mut *mut c_void) -> c_int;
        ibv_ack_cq_events: fn(*mut ibv_cq, c_uint);
        ibv_create_qp: fn(*mut ibv_pd, *mut ibv_qp_init_attr) -> *mut ibv_qp;
        ibv_modify_qp: fn(*mut ibv_qp, *mut ibv_qp_attr, c_int) -> c_int;
        ibv_destroy_qp: fn(*mut ibv_qp) -> c_int;
        ibv_create_srq: fn(*mut ibv_pd, *mut ibv_srq_init_attr) -> *mut ibv_srq;
        ibv_destroy_srq: fn(*mut ibv_srq) -> c_int;
        ibv_create_ah: fn(*mut ibv_pd, *mut ibv_ah_attr) -> *mut ibv_ah;
        ibv_destroy_ah: fn(*mut ibv_ah) -> c_int;
        ibv_get_async_event: fn(*mut ibv_context, *mut ibv_async_event) -> c_int;
        ibv_ack_async_event: fn(*mut ibv_async_event);
    }
}

functions! {
    CmLibrary from "librdmacm.so.1" {
        rdma_create_event_channel: fn() -> *mut rdma_event_channel;
        rdma_destroy_event_channel: fn(*mut rdma_event_channel);
        rdma_create_id: fn(*mut rdma_event_channel, *mut *mut rdma_cm_id, *mut c_void, c_int) -> c_int;
        rdma_destroy_id: fn(*mut rdma_cm_id) -> c_int;
        rdma_bind_addr: fn(*mut rdma_cm_id, *mut c_void) -> c_int;
        rdma_get_src_port: fn(*mut rdma_cm_id) -> u16;
        rdma_listen: fn(*mut rdma_cm_id, c_int) -> c_int;
        rdma_resolve_addr: fn(*mut rdma_cm_id, *mut c_void, *mut c_void, c_int) -> c_int;
        rdma_resolve_route: fn(*mut rdma_cm_id, c_int) -> c_int;
        rdma_init_qp_attr: fn(*mut rdma_cm_id, *mut ibv_qp_attr, *mut c_int) -> c_int;
        rdma_connect: fn(*mut rdma_cm_id, *mut rdma_conn_param) -> c_int;
        rdma_accept: fn(*mut rdma_cm_id, *mut rdma_conn_param) -> c_int;
        rdma_establish: fn(*mut rdma_cm_id) -> c_int;
        rdma_reject: fn(*mut rdma_cm_id, *const c_void, u8) -> c_int;
        rdma_get_cm_event: fn(*mut rdma_event_channel, *mut *mut rdma_cm_event) -> c_int;
        rdma_ack_cm_event: fn(*mut rdma_cm_event) -> c_int;
    }
}

/// librdmacm, loaded by the first call and kept; or why it cannot be used, in the words of the loader.
pub fn cm_library() -> Result<&'static CmLibrary, &'static str> {
    static LIBRARY: OnceLock<Result<CmLibrary, String>> = OnceLock::new();
    LIBRARY.get_or_init(CmLibrary::load).as_ref().map_err(String::as_str)
}

/// libibverbs, loaded by the first call and kept; or why it cannot be used, in the words of the loader.
pub fn library() -> Result<&'static Library, &'static str> {
    static LIBRARY: OnceLock<Result<Library, String>> = OnceLock::new();
    LIBRARY.get_or_init(Library::load).as_ref().map_err(String::as_str)
}

fn symbol(handle: *mut c_void, name: &str) -> Result<*mut c_void, String> {
    let name = CString::new(name).expect("names of functions have no zeros");
    // SAFETY: the handle is that of a loaded library, and the name ends with a zero.
    let symbol = unsafe { libc::dlsym(handle, name.as_ptr()) };
    if symbol.is_null() { Err(last_error()) } else { Ok(symbol) }
}

fn last_error() -> String {
    // SAFETY: the loader keeps the text of this thread's last error until its next call.
    let text = unsafe { libc::dlerror() };
    if text.is_null() {
        return "unknown error".into();
    }
    // SAFETY: not null, and a string of C.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}
