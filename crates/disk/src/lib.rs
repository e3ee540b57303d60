//! Disks: aligned blocks that are written, flushed and read.
//!
//! [`Disk`] is the seam between what must survive a power cut and where it lies. [`FileDisk`] is a file of
//! this machine, past the page cache where the file system can do that; [`MemoryDisk`] is memory. With the
//! feature `testing` there is a simulated disk, which loses and damages what a real one may, from a seed, and
//! the suite that both pass.

mod blocks;
mod file;
mod memory;
mod seam;
#[cfg(feature = "testing")]
pub mod testing;
mod worker;

pub use blocks::Blocks;
pub use file::{FileDisk, OpenError};
pub use memory::{MemoryBudget, MemoryDisk};
pub use seam::{BLOCK_BYTES, Disk, DiskError, Done, Job};
