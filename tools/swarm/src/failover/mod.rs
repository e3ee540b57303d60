//! Fail-over: histories of primaries, backups and a registry, whose messages are lost and late, whose
//! processes end, stand still and cannot reach each other.
//!
//! Everything that decides is what ships: shards with their logs, mirrors, backups, candidates, recoveries.
//! The network, the disks, the registry and the time are simulated. Versions make the check short: an object
//! is a register whose values are ordered by their versions, so that a history is linearizable if no
//! operation shows an older version than one that ended before it began.

mod book;
mod primary;
mod shelf;
mod world;

pub use world::{FailoverCase, FailoverFindings};
