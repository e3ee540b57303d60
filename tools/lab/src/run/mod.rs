//! Workloads: what is run, on which processes, and what each of them returns.
//!
//! A workload runs on processes of this machine, on the ranks of a launcher, or on a simulated fabric. On a
//! machine it runs in blocks, between looks at how far the cores are apart.

pub(crate) mod beside;

/// Hears which part of a measurement is done, from 0 to 1.
pub type Heard<'a> = dyn Fn(f64) + Send + Sync + 'a;

pub mod bench;
pub mod benchkv;
pub mod blocks;
pub mod closed_loop;
pub mod collective;
pub mod echo;
pub mod exchange;
pub mod losses;
pub mod msgrate;
pub mod program;
pub mod published;
pub mod recovery;
pub mod regime;
pub mod schedule;
pub mod simulation;
pub mod store;
pub mod uses;
pub mod ways;
pub mod workload;
pub mod world;
