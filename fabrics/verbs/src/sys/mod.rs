//! The C interfaces of libibverbs and librdmacm, as far as this driver uses them, loaded when they are first
//! needed.
//!
//! Loading at run time instead of linking lets one program run everywhere: where there is no libibverbs,
//! verbs are reported as absent, and everything else works. Sending, receiving and polling are no functions
//! of the library but entries of a device's table, which [`types`] describes and [`operations`] calls.

mod library;
mod operations;
mod types;

pub use library::{CmLibrary, Library, cm_library, library};
pub use operations::{poll_cq, post_recv, post_send, post_srq_recv, req_notify_cq};
pub use types::*;
