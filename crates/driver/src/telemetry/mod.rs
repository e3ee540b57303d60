//! What a process says of itself while it runs: counters that others can read, traces of single operations,
//! and the clock of both.

pub mod clock;
pub mod counters;
pub mod probes;
pub mod trace;
