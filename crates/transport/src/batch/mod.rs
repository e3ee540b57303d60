//! What came together, on its way to the sink: requests, responses or messages of one session.
//!
//! Whoever takes a whole batch looks up what its parts have in common once, and not for each of them. A batch
//! is entries of one kind that follow each other in a record, which a loop takes out of the ring one by one
//! and keeps what it needs for that in registers; or it is a single request, response or message, from
//! wherever.

mod calls;
mod entries;
mod matched;
mod messages;
mod unanswered;

pub use calls::{RequestBatch, Response, ResponseBatch};
pub(crate) use entries::Entries;
pub(crate) use matched::{MatchSource, MessagePacket, Messages};
pub use matched::{Matched, MatchedBatch, Together};
pub use messages::{Message, MessageBatch};
pub(crate) use messages::{MessageEntries, Taken};
pub(crate) use unanswered::Unanswered;

#[cfg(test)]
mod tests;
