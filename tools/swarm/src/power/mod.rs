//! Power cuts: histories of a shard with durable tables on a simulated disk, which loses its power.
//!
//! After each cut the log is opened again, and what is there is held against the [`Book`]: it must be what
//! the first so many operations leave behind, with all that were answered among them. So nothing that was
//! acknowledged is lost, nothing is invented, and nobody has read what is gone.

mod book;
mod history;

pub use history::{PowerCase, PowerCut, PowerFindings};
