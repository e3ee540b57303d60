//! The measuring side of farcall: workloads, statistics, results and their records, and what they say.
//!
//! What is measured here reaches the network through the public `farcall` library only, as its users do.

pub mod compare;
pub mod explain;
pub mod files;
pub mod groups;
pub mod record;
pub mod run;
pub mod statistics;
pub mod table;
pub mod units;
