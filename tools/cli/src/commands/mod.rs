//! One file for each command.

pub mod audit;
pub mod benchkv;
pub mod compare;
pub mod diff;
mod drift;
pub mod explain;
pub mod info;
pub mod kv;
pub mod msgrate;
pub mod perf;
pub mod report;
pub mod shuffle;
pub mod sim;
pub mod stat;
pub mod top;
mod tracing;
pub mod tune;
pub mod vary;
