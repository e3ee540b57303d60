//! A file as a disk.
//!
//! Its blocks are written with zeros before they are used: a write into blocks that the file system only
//! promised would also commit its journal, which takes half as long again. Where the file system takes
//! `O_DIRECT`, transfers go past the page cache; elsewhere through it, with the same promise.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, Mode, OFlags, flock, fsync, open};

use crate::seam::check;
use crate::worker::Worker;
use crate::{BLOCK_BYTES, Disk, Done, Job};

/// Why a file cannot be a disk.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// End the other process, or give this one a directory of its own.
    #[error("{path} is in use by another process; two must not write to one data directory", path = path.display())]
    InUse {
        /// The file.
        path: PathBuf,
    },
    /// Put back a copy of the file, or move it away.
    #[error(
        "{path} is no log of farcall: it has {bytes} bytes, and a log has blocks of {BLOCK_BYTES}; put back a copy \
         of the file, or move it away",
        path = path.display()
    )]
    NoBlock {
        /// The file.
        path: PathBuf,
        /// How long it is.
        bytes: u64,
    },
    /// See the reason.
    #[error("cannot open {path}: {reason}", path = path.display())]
    System {
        /// The file or its directory.
        path: PathBuf,
        /// What the system says.
        reason: io::Error,
    },
}

/// A disk in a file, locked against other processes as long as it lives.
#[derive(Debug)]
pub struct FileDisk {
    bytes: u64,
    worker: Worker,
    is_direct: bool,
}

impl FileDisk {
    /// Opens the disk in a file, an empty one where there is none. Bytes behind its last whole block do not
    /// count; a file that has nothing else is refused, unless it is blank.
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        let system =
            |reason: rustix::io::Errno| OpenError::System { path: path.to_owned(), reason: reason.into() };
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR;
        let (file, is_direct) = match open(path, flags | OFlags::DIRECT, mode) {
            Ok(file) => (file, true),
            Err(rustix::io::Errno::INVAL) => (open(path, flags, mode).map_err(system)?, false),
            Err(error) => return Err(system(error)),
        };
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => return Err(OpenError::InUse { path: path.to_owned() }),
            Err(error) => return Err(system(error)),
        }
        // The file's name must survive a power cut, too.
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = File::open(folder.unwrap_or(Path::new("."))).and_then(|folder| Ok(fsync(&folder)?));
        folder.map_err(|reason| OpenError::System { path: path.to_owned(), reason })?;
        let length = u64::try_from(rustix::fs::fstat(&file).map_err(system)?.st_size).unwrap_or(0);
        let bytes = length / BLOCK_BYTES as u64 * BLOCK_BYTES as u64;
        // A disk that was being made longer when the power was cut may have a part of a block, of zeros.
        if bytes == 0 && length > 0 && !is_blank(path)? {
            return Err(OpenError::NoBlock { path: path.to_owned(), bytes: length });
        }
        let worker = Worker::start(file, bytes, is_direct)
            .map_err(|reason| OpenError::System { path: path.to_owned(), reason })?;
        Ok(Self { bytes, worker, is_direct })
    }

    /// Whether transfers go past the page cache.
    pub fn is_direct(&self) -> bool {
        self.is_direct
    }

    fn ended(&mut self, done: Option<(Done, u64)>) -> Option<Done> {
        let (done, bytes) = done?;
        self.bytes = bytes;
        Some(done)
    }
}

/// Whether a short file has zeros only.
fn is_blank(path: &Path) -> Result<bool, OpenError> {
    let read = std::fs::read(path);
    let bytes = read.map_err(|reason| OpenError::System { path: path.to_owned(), reason })?;
    Ok(bytes.iter().all(|&byte| byte == 0))
}

impl Disk for FileDisk {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn begin(&mut self, job: Job) {
        check(&job, self.bytes);
        self.worker.begin(job);
    }

    #[inline]
    fn poll(&mut self) -> Option<Done> {
        let done = self.worker.poll();
        self.ended(done)
    }

    fn wait(&mut self) -> Option<Done> {
        let done = self.worker.wait();
        self.ended(done)
    }
}
