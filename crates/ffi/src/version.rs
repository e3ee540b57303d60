//! What a program must know of the library before anything else: its version, and its constants.

use core::ffi::c_char;

/// The version of the header and the library together: a program runs with a library of the same number.
pub const FARCALL_ABI_VERSION: u32 = 1;

/// The time that the endpoint's settings give: `endpoint.call_timeout` or `endpoint.message_timeout`.
pub const FARCALL_DEFAULT_TIMEOUT: u64 = u64::MAX;

/// Bytes of a reason that `farcall_refuse_because` sends; the rest is cut off.
pub const FARCALL_REASON_BYTES_MAX: usize = 1024;

const _: () = assert!(FARCALL_REASON_BYTES_MAX == farcall::REASON_BYTES_MAX);

/// The version of this library, such as `0.1.0`. From any thread. Neither allocates nor blocks.
#[unsafe(no_mangle)]
pub extern "C" fn farcall_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}
