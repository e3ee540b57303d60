//! Records that one thread appends to a file, written and flushed one time after the other: what a disk takes
//! before it can be said that a write survives a power cut.
//!
//! As a log does, it writes whole blocks to a file whose blocks were written before, past the page cache
//! where the file system can do that (`O_DIRECT`), with the flush as a part of the write (`O_DSYNC`).
//!
//! While the disk is at work its thread sleeps. A core without another one sleeps with it, and must wake up
//! before it; that may take half as long again as the disk. The owner of a log polls on that core meanwhile,
//! so here another thread does.

use std::fs::remove_file;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use rustix::fs::{Mode, OFlags, fdatasync, open};
use rustix::io::{Errno, pwrite};

use crate::latency::Rounds;
use crate::pair::run_star;
use crate::{Core, Effort, Latency, LimitError};

/// What is written as a whole.
const BLOCK_BYTES: usize = 4096;

/// The length of the file: behind its end it begins again.
const FILE_BYTES: usize = 16 << 20;

/// The most that is written at a time.
const WRITE_BYTES_MAX: usize = 1 << 20;

/// Measures one write of `records` records of `record_bytes` bytes each, which are copied into as many blocks
/// as they take, together with its flush, in a file of the folder that is gone afterwards.
pub fn append_flushed(
    core: Core,
    folder: &Path,
    records: usize,
    record_bytes: usize,
    effort: Effort,
) -> Result<Latency, LimitError> {
    LimitError::check_size("records of a write", records * record_bytes, 1..=WRITE_BYTES_MAX)?;
    let file = Blocks::new(folder)?;
    let is_over = AtomicBool::new(false);
    let append_all = || -> Result<Latency, LimitError> {
        let record = vec![1; record_bytes];
        let bytes = (records * record_bytes).next_multiple_of(BLOCK_BYTES);
        let (mut memory, start) = aligned(bytes);
        let (mut rounds, mut at) = (Rounds::new(effort), 0);
        loop {
            let blocks = &mut memory[start..start + bytes];
            blocks.chunks_exact_mut(record_bytes).take(records).for_each(|to| to.copy_from_slice(&record));
            file.write(blocks, at)?;
            at = if at + 2 * bytes <= FILE_BYTES { at + bytes } else { 0 };
            if rounds.finished() {
                return Ok(rounds.into_latency());
            }
        }
    };
    let append = || {
        let appended = append_all();
        is_over.store(true, Ordering::Relaxed);
        appended
    };
    let poll = || {
        while !is_over.load(Ordering::Relaxed) {
            std::thread::yield_now();
        }
    };
    run_star((core, append), [(core, poll)])?.0
}

/// Memory for this many bytes, and where in it they begin at a multiple of a block.
fn aligned(bytes: usize) -> (Vec<u8>, usize) {
    let memory = vec![0; bytes + BLOCK_BYTES];
    let start = memory.as_ptr().align_offset(BLOCK_BYTES);
    (memory, start)
}

/// A file without a name, all of whose blocks were written.
struct Blocks {
    file: OwnedFd,
    path: String,
}

impl Blocks {
    fn new(folder: &Path) -> Result<Self, LimitError> {
        match Self::opened(folder, OFlags::DIRECT).and_then(Self::written) {
            Err((_, Errno::INVAL)) => {
                let opened = Self::opened(folder, OFlags::empty()).and_then(Self::written);
                opened.map_err(|(path, error)| failed("write", path, error))
            }
            opened => opened.map_err(|(path, error)| failed("write", path, error)),
        }
    }

    fn opened(folder: &Path, more: OFlags) -> Result<Self, (String, Errno)> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = folder.join(format!("farcall-limit-{}-{number}.blocks", std::process::id()));
        let name = path.display().to_string();
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::DSYNC | more;
        let file = open(&path, flags, Mode::RUSR | Mode::WUSR);
        // Whatever happens from here on, it goes with this process.
        let _ = remove_file(&path);
        Ok(Self { file: file.map_err(|error| (name.clone(), error))?, path: name })
    }

    /// The same once all blocks are there: a first write to one takes longer.
    fn written(self) -> Result<Self, (String, Errno)> {
        let (memory, start) = aligned(WRITE_BYTES_MAX);
        let zeros = &memory[start..start + WRITE_BYTES_MAX];
        let mut pieces = (0..FILE_BYTES).step_by(WRITE_BYTES_MAX);
        let all = pieces.try_for_each(|at| self.write_all(zeros, at));
        all.and_then(|()| fdatasync(&self.file)).map_err(|error| (self.path.clone(), error))?;
        Ok(self)
    }

    fn write(&self, bytes: &[u8], at: usize) -> Result<(), LimitError> {
        self.write_all(bytes, at).map_err(|error| failed("write", self.path.clone(), error))
    }

    fn write_all(&self, mut bytes: &[u8], mut at: usize) -> Result<(), Errno> {
        while !bytes.is_empty() {
            match pwrite(&self.file, bytes, at as u64) {
                Ok(0) => return Err(Errno::IO),
                Ok(written) => (at, bytes) = (at + written, &bytes[written..]),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

pub(crate) fn failed(what: &'static str, path: String, error: Errno) -> LimitError {
    LimitError::File { what, path, reason: std::io::Error::from(error).to_string() }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;
    use crate::CorePair;

    const SHORT: Effort = Effort { warmup: Duration::ZERO, measure: Duration::from_millis(1) };

    #[test]
    fn records_are_written_and_nothing_is_left() {
        let core = CorePair::first_allowed().expect("the tests have two cores").responder;
        let folder = std::env::temp_dir().join(format!("farcall-blocks-{}", std::process::id()));
        std::fs::create_dir(&folder).expect("room");
        for (records, record_bytes) in [(1, 155), (64, 155), (1, BLOCK_BYTES)] {
            let latency = append_flushed(core, &folder, records, record_bytes, SHORT).expect("room");
            assert!(latency.samples >= 1 && latency.median_nanos > 0.0);
        }
        std::fs::remove_dir(&folder).expect("it is empty");
    }

    #[test]
    fn a_folder_that_is_not_there_is_named() {
        let core = CorePair::first_allowed().expect("the tests have two cores").responder;
        let error = append_flushed(core, Path::new("/nowhere"), 1, 1, SHORT).expect_err("there is none");
        assert!(error.to_string().starts_with("cannot write /nowhere/farcall-limit-"), "{error}");
    }

    #[test]
    fn memory_begins_at_a_block() {
        let (memory, start) = aligned(3 * BLOCK_BYTES);
        assert!(memory[start..].as_ptr().addr().is_multiple_of(BLOCK_BYTES));
        assert!(memory.len() - start >= 3 * BLOCK_BYTES);
    }
}
