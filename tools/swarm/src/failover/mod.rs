//! Fail-over: histories of primaries, backups and a registry, whose messages are lost and late, whose
//! processes end, stand still and cannot reach each other.
//!
//! Everything that decides is what ships: shards with their logs, mirrors, backups, candidates, recoveries.
//! The network, the disks, the registry and the time are simulated. What clients are told is checked twice:
//! versions never go back, and an order explains the whole history ([`crate::history`]). Some clients add to
//! numbers and ask again until they are answered, whoever the primary is: each addition happens once.
//!
//! In a store of several shards others take over the last one, each a part, now and then.

mod book;
mod clients;
mod network;
mod primary;
mod shelf;
mod spreading;
mod takeover;
mod world;

pub use world::{FailoverCase, FailoverFindings};
