//! The thread that does a file's jobs: a flush takes as long as thousands of requests.

use core::sync::atomic::{AtomicBool, Ordering};
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl, fdatasync};
use rustix::io::{Errno, ReadWriteFlags, preadv, pwritev, pwritev2};
use rustix::process::{Resource, getrlimit};

use crate::{Blocks, DiskError, Done, Job};

/// Bytes of zero that are written at a time.
const ZEROS_BYTES: usize = 256 << 10;

/// Where the one job is.
#[derive(Debug, Default)]
enum Stage {
    #[default]
    Idle,
    Begun(Job),
    Working,
    /// With the length of the file.
    Done(Done, u64),
    Stopped,
}

#[derive(Debug, Default)]
struct Shared {
    stage: Mutex<Stage>,
    begun: Condvar,
    ended: Condvar,
    /// The stage is `Done`: it can be asked for without the lock.
    is_done: AtomicBool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Stage> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The owner's end.
#[derive(Debug)]
pub struct Worker {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    in_flight: bool,
}

impl Worker {
    /// Starts the thread for a file of this many bytes.
    pub fn start(file: OwnedFd, bytes: u64, is_direct: bool) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        // Whoever had the file before may have written what it did not flush.
        let mut transfer = Transfer { file, bytes, is_direct, is_dirty: true };
        let thread = std::thread::Builder::new().name("farcall-disk".to_owned()).spawn({
            let shared = Arc::clone(&shared);
            move || transfer.serve(&shared)
        })?;
        Ok(Self { shared, thread: Some(thread), in_flight: false })
    }

    pub fn begin(&mut self, job: Job) {
        assert!(!self.in_flight, "one job is in flight at a time");
        self.in_flight = true;
        *self.shared.lock() = Stage::Begun(job);
        self.shared.begun.notify_one();
    }

    /// What became of the job, and the length of the file.
    #[inline]
    pub fn poll(&mut self) -> Option<(Done, u64)> {
        if !self.in_flight || !self.shared.is_done.load(Ordering::Acquire) {
            return None;
        }
        self.wait()
    }

    pub fn wait(&mut self) -> Option<(Done, u64)> {
        if !self.in_flight {
            return None;
        }
        let mut stage = self.shared.lock();
        loop {
            match core::mem::take(&mut *stage) {
                Stage::Done(done, bytes) => {
                    self.shared.is_done.store(false, Ordering::Relaxed);
                    self.in_flight = false;
                    return Some((done, bytes));
                }
                other => *stage = other,
            }
            stage = self.shared.ended.wait(stage).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // A job that began is done first: its file is closed by the thread.
        while self.in_flight {
            self.wait();
        }
        *self.shared.lock() = Stage::Stopped;
        self.shared.begun.notify_one();
        let joined = self.thread.take().map(JoinHandle::join);
        debug_assert!(matches!(joined, Some(Ok(()))), "the thread does not panic");
    }
}

/// The thread's end.
struct Transfer {
    file: OwnedFd,
    bytes: u64,
    is_direct: bool,
    /// Something was written and not flushed.
    is_dirty: bool,
}

impl Transfer {
    fn serve(&mut self, shared: &Shared) {
        let mut stage = shared.lock();
        loop {
            match core::mem::take(&mut *stage) {
                Stage::Begun(job) => {
                    *stage = Stage::Working;
                    drop(stage);
                    let done = self.carry_out(job);
                    stage = shared.lock();
                    *stage = Stage::Done(done, self.bytes);
                    shared.is_done.store(true, Ordering::Release);
                    shared.ended.notify_one();
                }
                Stage::Stopped => return,
                other => *stage = other,
            }
            stage = shared.begun.wait(stage).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn carry_out(&mut self, job: Job) -> Done {
        match job {
            Job::Write { at, blocks, flush } => {
                let outcome = self.write(at, &blocks, flush).map_err(error_of);
                Done { blocks, outcome }
            }
            Job::Read { at, mut blocks } => {
                let outcome = self.read(at, &mut blocks).map_err(error_of);
                Done { blocks, outcome }
            }
            Job::Extend { bytes } => {
                let outcome = self.extend(bytes).map_err(error_of);
                Done { blocks: Blocks::new(), outcome }
            }
        }
    }

    fn write(&mut self, mut at: u64, mut bytes: &[u8], flush: bool) -> Result<(), Errno> {
        // The flag flushes what is written with it, and nothing else.
        let by_flag = flush && !self.is_dirty;
        let mut flags = if by_flag { ReadWriteFlags::DSYNC } else { ReadWriteFlags::empty() };
        self.is_dirty = true;
        while !bytes.is_empty() {
            let parts = [IoSlice::new(bytes)];
            let written = if flags.is_empty() {
                pwritev(&self.file, &parts, at)
            } else {
                pwritev2(&self.file, &parts, at, flags)
            };
            match written {
                Ok(0) => return Err(Errno::IO),
                Ok(written) => {
                    (at, bytes) = (at + written as u64, &bytes[written..]);
                }
                Err(Errno::INTR) => {}
                Err(Errno::INVAL) if self.is_direct => self.give_up_direct()?,
                // A kernel or file system that does not know the flag.
                Err(Errno::OPNOTSUPP | Errno::NOSYS) if !flags.is_empty() => flags = ReadWriteFlags::empty(),
                Err(error) => return Err(error),
            }
        }
        if flush && flags.is_empty() {
            fdatasync(&self.file)?;
        }
        self.is_dirty = !flush;
        Ok(())
    }

    fn read(&mut self, mut at: u64, mut bytes: &mut [u8]) -> Result<(), Errno> {
        while !bytes.is_empty() {
            match preadv(&self.file, &mut [IoSliceMut::new(bytes)], at) {
                Ok(0) => return Err(Errno::IO),
                Ok(read) => (at, bytes) = (at + read as u64, &mut bytes[read..]),
                Err(Errno::INTR) => {}
                Err(Errno::INVAL) if self.is_direct => self.give_up_direct()?,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Some file systems take the flag when a file is opened, and refuse its transfers.
    fn give_up_direct(&mut self) -> Result<(), Errno> {
        self.is_direct = false;
        fcntl_setfl(&self.file, fcntl_getfl(&self.file)? - OFlags::DIRECT)
    }

    fn extend(&mut self, bytes: u64) -> Result<(), Errno> {
        let mut zeros = Blocks::zeroed(ZEROS_BYTES.min(bytes as usize));
        let end = self.bytes + bytes;
        // Beyond its limit the kernel would send SIGXFSZ, which ends the process.
        if getrlimit(Resource::Fsize).current.is_some_and(|most| end > most) {
            return Err(Errno::FBIG);
        }
        let mut at = self.bytes;
        while at < end {
            zeros.resize(ZEROS_BYTES.min((end - at) as usize));
            self.write(at, &zeros, false)?;
            at += zeros.len() as u64;
        }
        fdatasync(&self.file)?;
        (self.is_dirty, self.bytes) = (false, end);
        Ok(())
    }
}

fn error_of(error: Errno) -> DiskError {
    match error {
        Errno::NOSPC | Errno::DQUOT | Errno::FBIG => DiskError::Full,
        error => DiskError::Failed { code: error.raw_os_error() },
    }
}
