//! The ring protocol: remote calls through a byte ring in the peer's memory.
//!
//! Each direction of a session is a ring that the sender writes and the receiver reads in place. What is sent
//! between two flushes travels as one *record*: a batch header and entries. The header returns credits for
//! the other direction, so that in a conversation flow control costs no message of its own. The fabric below
//! is reliable and ordered; therefore the protocol has no timers and no retransmission, and a request runs at
//! most once because it arrives at most once.
//!
//! The parts: [`Producer`] decides where a record may be written, [`Consumer`] knows where the next one will
//! be and which credits are due, [`BatchHeader`] and [`EntryHeader`] are the wire format, [`Hello`] the
//! handshake. The format is specified in `docs/protocol/ring.md`.

mod consumer;
mod hello;
mod producer;
mod wire;

pub use consumer::Consumer;
pub use hello::{HELLO_BYTES, Hello, HelloError, VERSION};
pub use producer::{Producer, Reservation, Rest};
pub use wire::{BatchHeader, ENTRY_LENGTH_MAX, EntryHeader, EntryKind, HeaderSeries, WORD_BYTES, padded};

/// Records start at multiples of this many bytes, and positions are counted in it on the wire.
pub const LINE_BYTES: u64 = 64;

/// The peer wrote what no correct peer writes; the session must end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Violation(pub &'static str);

/// `bytes` rounded up to whole lines: what a record takes of the ring.
#[inline(always)]
const fn whole_lines(bytes: u64) -> u64 {
    (bytes + LINE_BYTES - 1) & !(LINE_BYTES - 1)
}

/// A writer with little in flight uses only this much of a longer ring, in bytes.
pub const LAP_BYTES: u64 = 256 << 10;

/// A writer that writes little uses only this much of it, in bytes.
pub const SHORT_LAP_BYTES: u64 = 16 << 10;

/// So much of a ring at rest may not have been given back by its reader, in bytes.
pub const REST_BYTES: u64 = 1 << 10;

/// The largest record in a ring of `ring_bytes`: a quarter of it, or of a lap, so that a wrap can never make
/// a record unsendable.
pub const fn record_bytes_max(ring_bytes: u64) -> u64 {
    let round_bytes = if ring_bytes < LAP_BYTES { ring_bytes } else { LAP_BYTES };
    round_bytes / 4
}

#[cfg(test)]
mod tests;
