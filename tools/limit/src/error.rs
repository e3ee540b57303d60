//! Why a limit could not be measured.

use crate::CoresError;

/// Why a limit could not be measured.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LimitError {
    /// A thread could not run where it must: allow this process two cores.
    #[error(transparent)]
    Cores(#[from] CoresError),
    /// The system gave no thread: allow more of them.
    #[error(
        "cannot start a thread: {reason}; raise the limits of processes and memory (ulimit -u, ulimit -v, pids.max)"
    )]
    Thread {
        /// The system's own words.
        reason: String,
    },
    /// The system gave no shared memory: free some.
    #[error("cannot map {bytes} bytes of shared memory: {reason}")]
    Memory {
        /// How much was asked for.
        bytes: usize,
        /// The system's own words.
        reason: String,
    },
    /// A socket call failed: the loopback interface must be up.
    #[error("a loopback socket failed to {what}: {reason}")]
    Socket {
        /// What was attempted.
        what: &'static str,
        /// The system's own words.
        reason: String,
    },
    /// A file could not be used: free some space, or name another folder for temporary files with `TMPDIR`.
    #[error("cannot {what} {path}: {reason}")]
    File {
        /// What was attempted.
        what: &'static str,
        /// The file.
        path: String,
        /// The system's own words.
        reason: String,
    },
    /// Datagrams vanished on the loopback interface: the machine is overloaded, or its receive buffers too
    /// small.
    #[error("datagrams were lost on the loopback interface; run it again with less other load")]
    PacketsLost,
    /// A ring cannot publish in batches of that many.
    #[error("a batch of {batch} messages is not a power of two from 1 to 64")]
    Batch {
        /// The batch asked for.
        batch: u64,
    },
    /// A size that this limit is not defined for.
    #[error("{what} of {bytes} bytes is outside {bytes_min} to {bytes_max}")]
    Size {
        /// What has the size.
        what: &'static str,
        /// The size asked for.
        bytes: usize,
        /// The smallest possible.
        bytes_min: usize,
        /// The largest possible.
        bytes_max: usize,
    },
}

impl LimitError {
    /// Checks a size against its range.
    pub(crate) fn check_size(
        what: &'static str,
        bytes: usize,
        range: core::ops::RangeInclusive<usize>,
    ) -> Result<(), Self> {
        if range.contains(&bytes) {
            return Ok(());
        }
        Err(Self::Size { what, bytes, bytes_min: *range.start(), bytes_max: *range.end() })
    }
}
