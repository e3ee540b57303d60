//! Shared memory between the processes of one machine.
//!
//! [`ShmLanes`] connects two processes by a ring in each one's memory and lends blocks for large payloads.
//! Memory is anonymous (memfds passed over a Unix socket in the abstract namespace), so a killed process
//! leaves nothing behind; who may connect is decided by the user of the process at the other end. A thread of
//! the driver sleeps on the sockets and notices the death of a peer; the thread that moves messages makes no
//! system calls.
//!
//! [`segment`], [`cells`] and [`same_user`] are what other services of one machine can be built of without
//! unsafe code of their own; the slots of the key-value store are.
#![allow(unsafe_code, reason = "shared memory is what this crate is for; every block has its proof")]

mod blocks;
pub mod cells;
mod conductor;
mod connection;
mod connections;
mod copy;
mod doorbell;
mod flags;
mod fuzz;
mod handshake;
mod lane;
mod place;
mod ring;
mod ring_memory;
mod same_user;
pub mod segment;
mod sleep;

pub use fuzz::{fuzz_offer, fuzz_ring};
pub use lane::{ShmConfig, ShmLanes};
pub use ring::{ShmReceiver, ShmSender};
pub use same_user::same_user;

/// The lock-free protocols by themselves, for model checkers.
#[doc(hidden)]
pub mod model {
    pub use crate::copy::progress::Progress;
    pub use crate::flags::{BadFlag, Runway, Words, published};
    pub use crate::sleep::{SleepWord, announce, must_ring, withdraw};
}
