//! The measuring side of farcall: statistics, experiment plans, results and their records.
//!
//! What is measured here reaches the network through the public `farcall` library only, as its users do.

pub mod analysis;
pub mod bench;
pub mod benchkv;
pub mod blocks;
pub mod bootstrap;
pub mod closed_loop;
pub mod collective;
pub mod compare;
pub mod echo;
pub mod exchange;
pub mod histogram;
pub mod little;
pub mod msgrate;
pub mod page;
pub mod peers;
pub mod program;
pub mod published;
pub mod record;
pub mod regime;
pub mod run;
pub mod simulation;
pub mod store;
pub mod table;
pub mod trace;
pub mod units;
pub mod vary;
pub mod warmup;
pub mod workload;
