//! The seam: jobs in, outcomes out, one job at a time.
//!
//! A disk has one job in flight. Its owner gathers meanwhile what the next job writes, which is group commit
//! without a timer, and no two writes of one block can meet.

use crate::Blocks;

/// Bytes of a block: what is written or lost as a whole only by luck. Offsets and lengths are multiples of
/// it.
pub const BLOCK_BYTES: usize = 4096;

/// What a disk is asked to do.
#[derive(Debug)]
pub enum Job {
    /// Writes blocks at an offset. With `flush` they survive a power cut once the job is done; without, once
    /// a later job with `flush` is.
    Write {
        /// Where the first block goes, in bytes.
        at: u64,
        /// What is written: whole blocks, within the disk.
        blocks: Blocks,
        /// Whether they are flushed, with all that was written before.
        flush: bool,
    },
    /// Reads blocks at an offset, as many as `blocks` has.
    Read {
        /// Where the first block is, in bytes.
        at: u64,
        /// Where they go: whole blocks, within the disk.
        blocks: Blocks,
    },
    /// Makes the disk longer by this many bytes of zero, whole blocks, which survive a power cut once the job
    /// is done.
    Extend {
        /// How many.
        bytes: u64,
    },
}

/// What became of a job.
#[derive(Debug)]
pub struct Done {
    /// The job's blocks; none after [`Job::Extend`].
    pub blocks: Blocks,
    /// How it ended. After an error of a write, nobody knows what lies in its blocks.
    pub outcome: Result<(), DiskError>,
}

/// Why a job was not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DiskError {
    /// Free some space, or raise the limit.
    #[error("no space is left on the device, or its files may not become longer (ulimit -f)")]
    Full,
    /// Look into the system's log; replace the disk.
    #[error("the disk reports an error: {}", std::io::Error::from_raw_os_error(*code))]
    Failed {
        /// The system's number of the error.
        code: i32,
    },
}

/// Blocks that survive a power cut.
pub trait Disk: Send {
    /// Its length, in bytes.
    fn bytes(&self) -> u64;

    /// Begins a job.
    ///
    /// # Panics
    /// When one is in flight, or the job is not of whole blocks within the disk.
    fn begin(&mut self, job: Job);

    /// What became of the job in flight, once it is done. Never waits.
    fn poll(&mut self) -> Option<Done>;

    /// The same, waiting until it is done; `None` when no job is in flight, or a simulated disk lost its
    /// power.
    fn wait(&mut self) -> Option<Done>;
}

/// Checks the bounds of a job on a disk of this length.
pub(crate) fn check(job: &Job, disk_bytes: u64) {
    let whole = |bytes: u64| bytes.is_multiple_of(BLOCK_BYTES as u64);
    match job {
        Job::Write { at, blocks, .. } | Job::Read { at, blocks } => {
            let bytes = blocks.len() as u64;
            assert!(whole(*at) && whole(bytes) && bytes > 0, "jobs are of whole blocks");
            assert!(at + bytes <= disk_bytes, "{at} + {bytes} bytes lie beyond a disk of {disk_bytes}");
        }
        Job::Extend { bytes } => assert!(whole(*bytes) && *bytes > 0, "disks grow by whole blocks"),
    }
}
