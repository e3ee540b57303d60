//! One file for each command.

pub mod compare;
pub mod info;
pub mod msgrate;
pub mod perf;
pub mod shuffle;
pub mod stat;
