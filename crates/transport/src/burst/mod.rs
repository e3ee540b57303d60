//! What came together: entries of one kind that follow each other in a record.
//!
//! Whoever takes a whole burst looks up what its entries have in common once, and not for each of them.

mod calls;
mod entries;
mod messages;
mod unanswered;

pub use calls::{RequestBurst, ResponseBurst};
pub(crate) use entries::Entries;
pub use messages::{Matched, MatchedBurst, MessageBurst, ShortMessage};
pub(crate) use messages::{TOGETHER_MAX, Taken, Together};
pub(crate) use unanswered::Unanswered;

#[cfg(test)]
mod tests;
