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

mod border;
mod call;
mod endpoint;
mod group;
mod message;
mod names;
mod node;
mod observe;
mod owner;
mod payload;
mod status;
mod store;
mod version;
mod wait;

pub use version::{FARCALL_ABI_VERSION, FARCALL_DEFAULT_TIMEOUT, FARCALL_REASON_BYTES_MAX, farcall_version};
