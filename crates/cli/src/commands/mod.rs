//! One file for each command.

pub mod compare;
pub mod info;
pub mod perf;
pub mod stat;
pub mod tune;
