//! Shared memory between the processes of one machine.
//!
//! [`ShmLanes`] connects two processes by a ring in each one's memory and lends blocks for large payloads.
//! Memory is anonymous (memfds passed over a Unix socket), so a killed process leaves none behind; which
//! processes may connect is decided by the user at the other end, and by the folder that the sockets are in
//! ([`access`], [`place`]). A thread of the driver sleeps on the sockets and notices the death of a peer; the
//! thread that moves messages makes no system calls.
//!
//! [`segment`], [`cells`], [`access`], [`place`] and [`intake`] are what other services of one machine can be
//! built of without unsafe code of their own; the slots of the key-value store are.
#![allow(unsafe_code, reason = "shared memory is what this crate is for; every block has its proof")]

pub mod access;
mod blocks;
pub mod cells;
mod conductor;
mod connection;
mod connections;
mod copy;
mod doorbell;
mod flags;
pub mod folder;
mod fuzz;
mod handshake;
pub mod intake;
mod lane;
mod mirror;
pub mod options;
pub mod place;
mod quota;
mod ring;
mod ring_memory;
pub mod segment;
mod sleep;

pub use fuzz::{fuzz_offer, fuzz_ring};
pub use lane::{ShmConfig, ShmLanes};
pub use ring::{ShmReceiver, ShmSender};

/// The lock-free protocols by themselves, for model checkers.
#[doc(hidden)]
pub mod model {
    pub use crate::copy::progress::Progress;
    pub use crate::flags::{BadFlag, Runway, Words, published};
    pub use crate::sleep::{SleepWord, announce, must_ring, withdraw};
}
