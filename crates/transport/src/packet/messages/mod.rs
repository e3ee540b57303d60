//! Tagged messages in packets: calls whose response says that the message was taken.
//!
//! A message is the request of a call to a service of its own, with its tag and its number behind the
//! payload. Calls overtake each other; the numbers put messages back in order before they are matched. The
//! receiver answers at once as long as what nobody expects stays within a bound, and beyond it when the
//! message is received: so a sender that is too fast runs out of calls, of which messages take half at most,
//! and keeps the rest.

mod notices;
mod receiving;
mod sending;

pub use notices::{NOTICE_CALL, NOTICES};

/// The service that carries messages.
pub const MESSAGES: u16 = u16::MAX;

/// The status that says that a message was taken. No answer to a call has it.
pub const TAKEN: u16 = 4;
const _: () = assert!(crate::Status::from_wire(TAKEN).is_none());

/// Tag and number, behind the payload.
pub const TRAILER_BYTES: usize = 8;

/// The most that is behind a payload: a message that passes the window has the code of its notice there too.
pub const BEHIND_PAYLOAD_BYTES_MAX: usize = TRAILER_BYTES + 1;
