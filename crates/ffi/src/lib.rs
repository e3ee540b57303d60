//! farcall for C, and so for every language that can call C.
//!
//! The functions of `include/farcall.h` are here, one file for each of its chapters. None of them keeps state
//! of its own, installs a signal handler or lets a panic out. What a C program must promise is in the header;
//! what it can get wrong without breaking memory safety is answered with a status.
//!
//! Its page is `docs/c.md`.
//!
//! Rust programs use the crate `farcall`; this one is a library of Rust only for its own tests. Functions of
//! an endpoint check whose it is (`owner.rs`), and what they begin inside a callback goes through the
//! context of that callback, so that C needs one set of functions where Rust has two.
//!
//! Arguments are raw pointers, which become references in the first lines of a function; `border.rs` has what
//! all of them share.

#![allow(
    unsafe_code,
    reason = "the border to C; what C promises is in the header, and checked where it can be"
)]

// The chapters of the header, in its order: cbindgen follows them. Blank lines keep rustfmt from sorting.
mod status;

mod border;

mod node;

mod endpoint;

mod payload;

mod served;

mod caller;

mod call;

mod message;

mod names;

mod wait;

mod group;

mod store;

mod slot_outcome;

mod slots;

mod observe;

mod owner;

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
