//! How long a process takes from its start until its shard, whose objects lie in a log, has answered a read;
//! and how long one that reads the same file, sums it up and indexes as many objects.
//!
//! The log is made once, and each side of a block starts a process of its own over it. A store that is opened
//! begins a segment of it, and the objects stay the same.

use core::any::Any;
use core::time::Duration;
use std::cell::Cell;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{ChildStdout, Command, Stdio};
use std::time::Instant;

use farcall::bootstrap::end_with_this_thread;
use farcall_kv::Answer;
use farcall_kv::durable::{LOG_BYTES_MIN, Parked};
use farcall_kv::wire::{Code, GET, GetRequest, found};
use farcall_limit::{Core, pin_to, read_and_index};
use serde::{Deserialize, Serialize};

use crate::files::ScratchFolder;
use crate::run::exchange::{Report, fill_log, key, memory_for, name, report_on, shard_with_log};
use crate::run::program::Program;

/// The argument that makes the program a worker; the next one is its job.
pub const RECOVERY_COMMAND: &str = "recovery-worker";

/// Length of the objects.
pub const OBJECT_BYTES: usize = 100;

/// What such an object takes in a log, with its key of 30 bytes.
pub const RECORD_BYTES: usize = 155;

/// How many times as long as its objects a log may become: at most half of one may be objects.
const ROOM: f64 = 2.5;

/// What a log is longer than its objects: room that is made ready, and what groups and segments say of
/// themselves.
const BESIDE_BYTES: u64 = 32 << 20;

/// Why a recovery could not be measured.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecoveryError {
    /// The log could not be written: free some space, or name another folder with `TMPDIR`.
    #[error("no log of {bytes} bytes can be made: {why}")]
    Log {
        /// How long it was to be.
        bytes: u64,
        /// What went wrong.
        why: String,
    },
    /// The process that was to recover did not.
    #[error("{side} could not be measured: {why}")]
    Failed {
        /// Which of both.
        side: &'static str,
        /// Its own words.
        why: String,
    },
}

/// What a process does with a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum RecoverySide {
    /// Its shard opens it, and answers a read.
    Store,
    /// It reads, sums up and indexes as much, and looks an object up.
    Bare,
}

/// What a process is told.
#[derive(Debug, Serialize, Deserialize)]
struct Job {
    log: PathBuf,
    bytes: u64,
    objects: u64,
    core: usize,
    side: RecoverySide,
}

/// A log with objects, which is gone with this.
#[derive(Debug)]
pub(crate) struct FilledLog {
    _folder: ScratchFolder,
    path: PathBuf,
    bytes: u64,
}

impl FilledLog {
    /// Makes one of about this many bytes, in the folder for temporary files.
    pub(crate) fn of(bytes: u64) -> Result<Self, RecoveryError> {
        let failed = |why: String| RecoveryError::Log { bytes, why };
        let folder = ScratchFolder::new().map_err(|error| failed(error.to_string()))?;
        let path = folder.file("objects.log");
        fill_log(&path, objects_in(bytes), OBJECT_BYTES, bytes_max(bytes)).map_err(failed)?;
        Ok(Self { _folder: folder, path, bytes })
    }

    /// The time from the start of a process until it has done its part.
    pub(crate) fn time(&self, side: RecoverySide, core: Core) -> Result<Duration, RecoveryError> {
        let name = match side {
            RecoverySide::Store => "the recovery of a store",
            RecoverySide::Bare => "the bare recovery",
        };
        self.try_time(side, core).map_err(|why| RecoveryError::Failed { side: name, why })
    }

    fn try_time(&self, side: RecoverySide, core: Core) -> Result<Duration, String> {
        let (log, bytes, objects) = (self.path.clone(), self.bytes, objects_in(self.bytes));
        let job = Job { log, bytes, objects, core: core.0, side };
        let mut command = Command::new(Program::THIS.path());
        command.args([RECOVERY_COMMAND, &serde_json::to_string(&job).expect("a job is JSON")]);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        end_with_this_thread(&mut command);
        let begun = Instant::now();
        let mut process = command.spawn().map_err(sentence)?;
        let said = process.stdout.take().map(first_line).transpose();
        let took = begun.elapsed();
        // It gives its memory back, which nobody waits for in the figure.
        process.wait().map_err(sentence)?;
        let said = said.map_err(sentence)?.unwrap_or_default();
        match serde_json::from_str::<Report<()>>(&said) {
            Ok(report) => report.map(|()| took),
            Err(_) => Err("its process ended without a report".to_owned()),
        }
    }
}

fn first_line(output: ChildStdout) -> std::io::Result<String> {
    let mut line = String::new();
    BufReader::new(output).read_line(&mut line)?;
    Ok(line)
}

/// How many objects a log of this many bytes has.
fn objects_in(bytes: u64) -> u64 {
    (bytes / RECORD_BYTES as u64).max(1)
}

/// The longest that such a log may become.
fn bytes_max(bytes: u64) -> u64 {
    LOG_BYTES_MIN.max((bytes as f64 * ROOM) as u64 + BESIDE_BYTES)
}

/// What a log of this many bytes takes of the folder for temporary files.
pub fn disk_bytes(bytes: u64) -> u64 {
    bytes + BESIDE_BYTES
}

/// What the store that has its objects takes of memory, at most.
pub fn memory_bytes(bytes: u64) -> u64 {
    memory_for(objects_in(bytes) as usize, OBJECT_BYTES) as u64
}

/// Does the job that `job` describes; returns the line to print.
pub fn work(job: &str) -> String {
    let mut kept = None;
    let report = report_on(job, |job| recover(job, &mut kept));
    // The line is printed first: then the process ends, with all of its memory.
    core::mem::forget(kept);
    report
}

/// Does a job; what holds the objects is `kept`.
fn recover(job: &Job, kept: &mut Option<Box<dyn Any>>) -> Report<()> {
    pin_to(Core(job.core)).map_err(sentence)?;
    match job.side {
        RecoverySide::Bare => {
            let indexed = read_and_index(&job.log, job.bytes, job.objects).map_err(sentence)?;
            let found = indexed.objects;
            *kept = Some(Box::new(indexed));
            if found == job.objects { Ok(()) } else { Err(format!("the table has {found} objects")) }
        }
        RecoverySide::Store => {
            let mut shard = shard_with_log(&job.log, job.objects, OBJECT_BYTES, bytes_max(job.bytes))?;
            let (mut message, last) = (Vec::new(), key(job.objects - 1));
            GetRequest { name: name(&last) }.encode(&mut message);
            let answered = Cell::new(Err("a read was not answered".to_owned()));
            shard.answer(GET, &message, Heard(&answered));
            *kept = Some(Box::new(shard));
            answered.into_inner()
        }
    }
}

/// Whether an answer has the object that was asked for.
struct Heard<'a>(&'a Cell<Report<()>>);

impl Answer for Heard<'_> {
    fn send(self, message: &[u8]) {
        let has_object = matches!(found(message), Ok(Some((_, value))) if value.len() == OBJECT_BYTES);
        self.0.set(if has_object { Ok(()) } else { Err("the object that was read is not there".to_owned()) });
    }

    fn send_filled(self, bytes: usize, fill: impl FnOnce(&mut [u8])) {
        let mut message = vec![0; bytes];
        fill(&mut message);
        self.send(&message);
    }

    fn refuse(self, code: Code) {
        self.0.set(Err(format!("a read was refused: {code:?}")));
    }

    /// Everything that was recovered is flushed, so nothing waits for that.
    fn park(self) -> Parked {
        Parked::Numbered(0)
    }
}

fn sentence(error: impl core::fmt::Display) -> String {
    error.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(log: &FilledLog, side: RecoverySide) -> Job {
        let core = farcall_limit::allowed_cores().expect("the mask can be read")[0].0;
        Job { log: log.path.clone(), bytes: log.bytes, objects: objects_in(log.bytes), core, side }
    }

    #[test]
    fn both_sides_find_as_many_objects_as_the_log_has() {
        let bytes = 1 << 20;
        let log = FilledLog::of(bytes).expect("room");
        let length = std::fs::metadata(&log.path).expect("it is there").len();
        assert!((bytes..=disk_bytes(bytes)).contains(&length), "{length}");
        for side in [RecoverySide::Store, RecoverySide::Bare, RecoverySide::Store] {
            let job = job(&log, side);
            // Not on one core for the rest of the tests.
            let done = std::thread::spawn(move || recover(&job, &mut None)).join().expect("no panic");
            assert_eq!(done, Ok(()), "{side:?}");
        }
        let path = log.path.clone();
        drop(log);
        assert!(!path.exists());
    }

    #[test]
    fn a_log_that_is_not_there_is_said() {
        let log = FilledLog::of(1 << 20).expect("room");
        std::fs::remove_file(&log.path).expect("it is there");
        let job = job(&log, RecoverySide::Bare);
        let done = std::thread::spawn(move || recover(&job, &mut None)).join().expect("no panic");
        assert!(done.expect_err("it is gone").starts_with("cannot read "));
    }

    #[test]
    fn most_of_a_log_is_objects() {
        let (bytes, objects) = (1 << 30, objects_in(1 << 30));
        assert!(objects * RECORD_BYTES as u64 <= bytes && (objects + 1) * RECORD_BYTES as u64 > bytes);
        assert!(bytes_max(bytes) / 2 > bytes, "at most half of it may be objects");
    }
}
