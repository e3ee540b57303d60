//! The protocols of farcall as pure state machines.
//!
//! Nothing here knows a clock, a socket, a thread, a file or a source of randomness: packets, times and
//! commands come in, packets, deadlines and events go out. The same code therefore runs over shared memory,
//! over UDP, on a network card and, with virtual time, inside a test.
#![forbid(unsafe_code)]

pub mod basic;
pub mod calls;
pub mod homa;
pub mod keys;
pub mod matching;
pub mod ring;
pub mod session;
pub mod wire;
mod words;

pub use words::words_of;
