//! The functions that the library exports, found when they are first needed.

use core::ffi::{CStr, c_char, c_int, c_void};
use std::sync::OnceLock;

use crate::libfabric::types::*;

/// The library's name, the same for all versions of its present binary interface.
const LIBRARY_NAME: &CStr = c"libfabric.so.1";

/// Declares the functions once: as fields, and as symbols with the version of the binary interface that is
/// meant.
macro_rules! functions {
    ($($name:ident @ $version:literal: fn($($argument:ty),*) $(-> $result:ty)?;)*) => {
        /// The functions by their names in C.
        pub struct Api {
            $(pub $name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
        }

        impl Api {
            #[expect(unsafe_code, reason = "a library is opened")]
            fn load() -> Result<Self, String> {
                // SAFETY: the name ends with a zero. libfabric's constructors may run in any process at any
                // time.
                let handle = unsafe { libc::dlopen(LIBRARY_NAME.as_ptr(), libc::RTLD_NOW) };
                if handle.is_null() {
                    return Err(last_error());
                }
                Ok(Self {
                    $($name: {
                        let symbol = symbol(handle, concat!(stringify!($name), "\0"), concat!($version, "\0"))?;
                        // SAFETY: this is the function of that name and version, whose declaration in C is
                        // this type.
                        unsafe {
                            core::mem::transmute::<
                                *mut c_void,
                                unsafe extern "C" fn($($argument),*) $(-> $result)?,
                            >(symbol)
                        }
                    },)*
                })
            }
        }
    };
}

functions! {
    fi_version @ "FABRIC_1.0": fn() -> u32;
    fi_strerror @ "FABRIC_1.0": fn(c_int) -> *const c_char;
    fi_getinfo @ "FABRIC_1.3":
        fn(u32, *const c_char, *const c_char, u64, *const fi_info, *mut *mut fi_info) -> c_int;
    fi_dupinfo @ "FABRIC_1.3": fn(*const fi_info) -> *mut fi_info;
    fi_freeinfo @ "FABRIC_1.3": fn(*mut fi_info);
    fi_fabric @ "FABRIC_1.1": fn(*mut fi_fabric_attr, *mut *mut fid_fabric, *mut c_void) -> c_int;
}

/// The functions; opens the library at the first call. The error says why it cannot be used.
pub fn api() -> Result<&'static Api, &'static str> {
    static API: OnceLock<Result<Api, String>> = OnceLock::new();
    let opened = API.get_or_init(|| {
        let api = Api::load().map_err(|error| {
            format!("libfabric 1.14 or later cannot be opened ({error}); install it (Debian: libfabric1)")
        })?;
        if version_of(&api) < API_VERSION {
            let (major, minor) = (version_of(&api) >> 16, version_of(&api) & 0xffff);
            return Err(format!("libfabric {major}.{minor} is too old; install 1.14 or later"));
        }
        Ok(api)
    });
    opened.as_ref().map_err(String::as_str)
}

/// The library's version as people write it, such as `1.17`.
pub fn version(api: &Api) -> String {
    let version = version_of(api);
    format!("{}.{}", version >> 16, version & 0xffff)
}

fn version_of(api: &Api) -> u32 {
    // SAFETY: it only returns a number.
    #[expect(unsafe_code, reason = "a call of libfabric")]
    unsafe {
        (api.fi_version)()
    }
}

/// A function's address. Both texts end with a zero, and the handle is that of an open library.
fn symbol(handle: *mut c_void, name: &str, version: &str) -> Result<*mut c_void, String> {
    // SAFETY: see above; this function is for the table only, which keeps to it.
    #[expect(unsafe_code, reason = "a function is looked up")]
    let symbol = unsafe { libc::dlvsym(handle, name.as_ptr().cast(), version.as_ptr().cast()) };
    if symbol.is_null() { Err(last_error()) } else { Ok(symbol) }
}

fn last_error() -> String {
    // SAFETY: the loader keeps the text of this thread's last error until its next call.
    #[expect(unsafe_code, reason = "a call of the loader")]
    let text = unsafe { libc::dlerror() };
    if text.is_null() {
        return "unknown error".into();
    }
    // SAFETY: not null, and a string of C.
    #[expect(unsafe_code, reason = "a text of the loader")]
    let text = unsafe { CStr::from_ptr(text) };
    text.to_string_lossy().into_owned()
}
