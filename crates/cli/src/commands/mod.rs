//! One file for each command.

pub mod benchkv;
pub mod compare;
pub mod info;
pub mod kv;
pub mod perf;
pub mod shuffle;
pub mod sim;
pub mod stat;
pub mod tune;
