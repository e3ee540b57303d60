//! The `ucx` transport: calls and tagged messages over Unified Communication X, the library under most MPIs.
//!
//! UCX chooses by itself what carries a message: shared memory between processes of one machine, RDMA or TCP
//! between machines, eager or by rendezvous according to its length. `UCX_TLS`, `UCX_NET_DEVICES` and its
//! other variables hold here as everywhere. What farcall adds (sessions, limits, deadlines, signs of life) is
//! the `library` transport of `farcall-transport`; this crate makes a [`Library`](farcall_transport::Library)
//! of UCX.
//!
//! - A message is an *active message*, because its head then arrives with it and its handler decides where a
//!   long payload is fetched to. Tags would need a receive posted before the length is known. What is short
//!   has its head in front of it and is copied as it comes: UCX is quickest with a message that has no header
//!   and is not left to its receiver.
//! - Tagged messages are matched by the layer above, which sends many short ones as one message.
//! - Nothing is looked for: arrivals, completed sends and failed endpoints are queued by callbacks, which UCX
//!   runs inside `ucp_worker_progress`, and are taken from these queues afterwards, when UCX is not running.
//! - An endpoint is a worker of its own, used by one thread at a time; two of them share nothing.
//! - Endpoints ask for UCX's handling of errors unless told otherwise, so that a dead peer is reported as
//!   soon as UCX knows and messages to it can be given up. It costs the shared memory: UCX takes TCP then
//!   even within a machine, and should not be told otherwise (`UCX_MM_ERROR_HANDLING`), because a peer that
//!   is killed while it writes there silences the survivor for ever. Without it, the silence of a peer is
//!   noticed by the layer above, and a worker that has messages for a dead peer is left to the end of the
//!   process, because UCX cannot end it.
//!
//! UCX writes its own messages, such as those about dead peers, to the standard output; `UCX_LOG_FILE=stderr`
//! sends them elsewhere.
//!
//! The library is opened when the first endpoint is made, not linked: a program that does not use it does not
//! get its signal handlers, memory hooks and threads, and the same program runs where there is no UCX. The
//! declarations in `ffi.rs` are for version 1.11 and later; UCX appends to its structures and says by masks
//! which fields are there.

mod address;
mod api;
mod ffi;
mod library;
mod peers;
mod sends;
mod shared;
mod worker;

pub use api::presence;
pub use library::{Ucx, UcxConfig, UcxError};
pub use worker::Reach;

/// UCX's declarations, for programs that measure UCX itself.
#[doc(hidden)]
pub mod sys {
    pub use crate::address::unwrap;
    pub use crate::api::api;
    pub use crate::ffi::*;
    pub use crate::sends::no_param;
    pub use crate::worker::{WorkerBox, refused, zeroed};
}
