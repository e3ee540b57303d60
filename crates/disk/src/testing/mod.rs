//! A disk that fails as told, and the suite that every disk passes.

mod conformance;
mod simulated;

pub use conformance::{DiskUnderTest, run_conformance};
pub use simulated::{Faults, SECTOR_BYTES, SimulatedDisk};
