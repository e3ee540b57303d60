//! From samples to figures: histograms, intervals, the laws that figures obey, and when samples count.

pub mod batches;
pub mod bootstrap;
pub mod histogram;
pub mod little;
pub mod search;
pub mod warmup;
