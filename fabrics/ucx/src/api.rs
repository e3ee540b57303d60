//! UCX's functions, found in the library when it is first needed.

use core::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::OnceLock;

use farcall_transport::Presence;
use libloading::Library;

use crate::ffi::*;

/// The library's name, the same for all versions of its present binary interface.
const LIBRARY: &str = "libucp.so.0";

/// Declares the functions once: as fields, and as symbols to look up.
macro_rules! functions {
    ($($name:ident: fn($($argument:ty),*) $(-> $result:ty)?;)*) => {
        /// The functions by their names in C.
        pub struct Api {
            $(pub $name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
            /// Keeps the library, and with it the functions, in memory.
            _library: Library,
        }

        impl Api {
            fn load() -> Result<Self, libloading::Error> {
                // SAFETY: opening UCX runs its constructors, which are made to run in any process at any
                // time.
                #[expect(unsafe_code, reason = "a library is opened")]
                let library = unsafe { Library::new(LIBRARY)? };
                $(
                    // SAFETY: the type is that of the function in UCX's headers.
                    #[expect(unsafe_code, reason = "a function is looked up")]
                    let $name = unsafe {
                        *library.get::<unsafe extern "C" fn($($argument),*) $(-> $result)?>(
                            concat!(stringify!($name), "\0").as_bytes(),
                        )?
                    };
                )*
                Ok(Self { $($name,)* _library: library })
            }
        }
    };
}

functions! {
    ucp_get_version_string: fn() -> *const c_char;
    ucp_config_read: fn(*const c_char, *const c_char, *mut *mut Config) -> Status;
    ucp_config_modify: fn(*mut Config, *const c_char, *const c_char) -> Status;
    ucp_config_release: fn(*mut Config);
    ucp_init_version: fn(c_uint, c_uint, *const Params, *const Config, *mut *mut Context) -> Status;
    ucp_cleanup: fn(*mut Context);
    ucp_worker_create: fn(*mut Context, *const WorkerParams, *mut *mut Worker) -> Status;
    ucp_worker_destroy: fn(*mut Worker);
    ucp_worker_get_address: fn(*mut Worker, *mut *mut WorkerAddress, *mut usize) -> Status;
    ucp_worker_release_address: fn(*mut Worker, *mut WorkerAddress);
    ucp_worker_set_am_recv_handler: fn(*mut Worker, *const HandlerParam) -> Status;
    ucp_worker_progress: fn(*mut Worker) -> c_uint;
    ucp_worker_get_efd: fn(*mut Worker, *mut c_int) -> Status;
    ucp_worker_arm: fn(*mut Worker) -> Status;
    ucp_ep_create: fn(*mut Worker, *const EndpointParams, *mut *mut Endpoint) -> Status;
    ucp_ep_close_nbx: fn(*mut Endpoint, *const RequestParam) -> StatusPointer;
    ucp_am_send_nbx:
        fn(*mut Endpoint, c_uint, *const c_void, usize, *const c_void, usize, *const RequestParam) -> StatusPointer;
    ucp_am_recv_data_nbx:
        fn(*mut Worker, *mut c_void, *mut c_void, usize, *const RequestParam) -> StatusPointer;
    ucp_am_data_release: fn(*mut Worker, *mut c_void);
    ucp_tag_send_nbx: fn(*mut Endpoint, *const c_void, usize, u64, *const RequestParam) -> StatusPointer;
    ucp_tag_recv_nbx: fn(*mut Worker, *mut c_void, usize, u64, u64, *const RequestParam) -> StatusPointer;
    ucp_request_check_status: fn(*mut c_void) -> Status;
    ucp_request_free: fn(*mut c_void);
    ucs_status_string: fn(Status) -> *const c_char;
}

/// The functions; opens the library at the first call. The error says why it cannot be used.
pub fn api() -> Result<&'static Api, &'static str> {
    static API: OnceLock<Result<Api, String>> = OnceLock::new();
    let opened = API.get_or_init(|| {
        Api::load().map_err(|error| {
            format!("UCX 1.11 or later cannot be opened ({error}); install it (Debian: libucx0)")
        })
    });
    opened.as_ref().map_err(String::as_str)
}

impl Api {
    /// UCX's words for a status.
    pub fn words(&self, status: Status) -> String {
        // SAFETY: every status has a text that is never freed.
        #[expect(unsafe_code, reason = "a call of UCX")]
        let words = unsafe { CStr::from_ptr((self.ucs_status_string)(status)) };
        words.to_string_lossy().into_owned()
    }
}

/// Whether UCX is on this machine, and in which version.
pub fn presence() -> Presence {
    match api() {
        Ok(api) => {
            // SAFETY: the text is static.
            #[expect(unsafe_code, reason = "a call of UCX")]
            let version = unsafe { CStr::from_ptr((api.ucp_get_version_string)()) };
            Presence::Here { found: format!("UCX {}", version.to_string_lossy()) }
        }
        Err(why) => Presence::Absent { why: why.to_owned() },
    }
}
