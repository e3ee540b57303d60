//! Homa where links are the bottleneck, in virtual time.

mod cutoffs;
mod grants;
mod losses;
mod order;
mod rack;
