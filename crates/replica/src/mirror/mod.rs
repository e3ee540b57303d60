//! A mirror: a disk whose blocks are also at backups.
//!
//! To the log it is a disk like any other, whose writes are done when they are done everywhere they must be:
//! on the disk of this process, and at every replica that the registry's record names. It is a state machine
//! without network or thread: in each of its turns the owner of the shard sends the messages, and asks the
//! registry, that [`Mirror::turn_with`] gives, and passes the answers back.
//!
//! Three rules make it safe.
//! - A write is done when *all* recorded replicas have it, and there are as many as the level says. So each
//!   of them has every acknowledged write, and any one is enough for a recovery.
//! - A replica that fails leaves the record, in a new epoch, before anything is done without it; and only
//!   once another one is whole. One that nobody waited for can never be taken for one that has everything.
//! - What may be read is read under a lease: who takes over waits until it is over.

mod member;
mod membership;
#[cfg(test)]
mod mending;
mod repair;
mod scrub;
mod state;
#[cfg(test)]
mod tests;

use core::time::Duration;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use farcall_base::Instant;
use farcall_disk::{Disk, Done, Job};

use crate::message::{LogId, Refusal};
use crate::record::Record;
use crate::takeover::Claimed;

pub use membership::{RegistryAnswer, RegistryJob};
pub use repair::{Certificate, Damage, Fate, FateCounts};
pub use scrub::ScrubOutcome;
use state::State;

/// What time it is. The same clock for the whole life of a mirror.
pub type ClockOf = Box<dyn Fn() -> Instant + Send>;

/// What a mirror is of.
pub struct MirrorOf {
    /// The record with which this process became the primary, and its revision.
    pub record: Record,
    /// See there.
    pub revision: u64,
    /// When the attempt to set it began: the lease counts from there.
    pub set_at: Instant,
    /// How long this process may answer without renewing, once it has replicas; as long a write waits.
    pub lease: Duration,
    /// The number of the image on the disk of this process; 0 if that ends with the process.
    pub own: u64,
    /// What this process may be lost with: no replica goes there.
    pub domain: String,
    /// The time.
    pub clock: ClockOf,
}

/// A message that is to be sent to a backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// Where to.
    pub backup: String,
    /// What its answer is passed back with.
    pub token: u64,
    /// What it says.
    pub message: Vec<u8>,
}

/// How a message to a backup failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoAnswer {
    /// The backup refused.
    Refused(Refusal),
    /// The backup cannot be reached, or does not answer.
    Silent,
}

/// How far a replica is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplicaStage {
    /// It is asked for.
    Beginning,
    /// It is copied, up to this byte.
    Copying(u64),
    /// It has everything.
    Whole,
}

/// A replica, as its primary sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaStatus {
    /// Its backup.
    pub backup: String,
    /// Its number.
    pub replica: u64,
    /// How far it is.
    pub stage: ReplicaStage,
    /// Whether the record names it.
    pub is_recorded: bool,
    /// Bytes that it was not sent yet, or has not confirmed.
    pub behind_bytes: u64,
}

/// What a mirror says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MirrorStatus {
    /// The record that it has set last.
    pub record: Record,
    /// Its replicas.
    pub replicas: Vec<ReplicaStatus>,
    /// Bytes of the image.
    pub bytes: u64,
    /// What is left of the lease.
    pub lease_left: Duration,
    /// Why the level is not reached now; `None` while it is.
    pub trouble: Option<String>,
    /// Why the registry did not answer when it was asked last; `None` if it did.
    pub silence: Option<String>,
    /// Writes that all replicas have confirmed, and their bytes.
    pub writes: u64,
    /// See there.
    pub written_bytes: u64,
    /// Replicas that have failed.
    pub failures: u64,
}

/// A mirror, as the owner of the shard sees it. All handles are of one mirror.
#[derive(Clone)]
pub struct Mirror(Arc<Mutex<State>>);

impl Mirror {
    /// A mirror over the disk of this process, and the disk for the log. Until [`Mirror::serve`] nothing is
    /// mirrored: what is written meanwhile is that of an opened log, and is copied with all the rest.
    pub fn new(of: MirrorOf, local: Box<dyn Disk>) -> (Self, Box<dyn Disk>) {
        let mirror = Self(Arc::new(Mutex::new(State::new(of, local))));
        (mirror.clone(), Box::new(MirroredDisk(mirror)))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Its claim was renewed by somebody else, before this has had a turn: it goes on from there.
    pub fn renewed(&self, claimed: &Claimed) {
        self.lock().renewed(claimed);
    }

    /// The log is open: from now on a write is done when its replicas have it.
    pub fn serve(&self) {
        self.lock().serve();
    }

    /// Whether what is durable may be read: there are replicas, and this process is the primary for certain.
    #[inline]
    pub fn may_read(&self) -> bool {
        self.lock().may_read()
    }

    /// Whether this process is the primary, and waits for the first replicas of its own: nothing may be read
    /// before they are recorded.
    pub fn waits_for_backups(&self) -> bool {
        self.lock().waits_for_backups()
    }

    /// Whether a write may be begun: as many replicas as the level says are there, or were a moment ago.
    #[inline]
    pub fn may_write(&self) -> bool {
        self.lock().may_write()
    }

    /// Whether writes that wait have waited for too long for their replicas.
    #[inline]
    pub fn is_overdue(&self) -> bool {
        self.lock().is_overdue()
    }

    /// Why this process is not the primary any more; `None` while it is.
    pub fn deposed(&self) -> Option<String> {
        self.lock().deposed()
    }

    /// A turn of its owner, under one lock: replicas are begun and copied, the lease is renewed. Appends the
    /// messages to send; says whether something happened, and what the registry is to be asked next, one job
    /// at a time.
    pub fn turn_with(&self, messages: &mut Vec<Outgoing>) -> (bool, Option<RegistryJob>) {
        let mut state = self.lock();
        let happened = state.turn();
        messages.extend(core::iter::from_fn(|| state.next_message()));
        (happened, state.next_registry_job())
    }

    /// A message was answered. Each must be, once: by [`NoAnswer::Silent`] if its backup has ended or its
    /// time is over. Its replica is sent nothing more until then, and is not replaced.
    pub fn answered(&self, token: u64, outcome: Result<&[u8], NoAnswer>) {
        self.lock().answered(token, outcome);
    }

    /// A backup is gone, as its session says: its replica is replaced without waiting for the next write.
    pub fn lost(&self, backup: &str) {
        self.lock().lost(backup);
    }

    /// The registry has answered.
    pub fn registry_answered(&self, answer: RegistryAnswer) {
        self.lock().registry_answered(answer);
    }

    /// What a comparison of all replicas with the image here found, by a number that whoever asks has drawn
    /// for it; `None` until then. The first question begins it, once no other is in progress. With `repairs`
    /// what is damaged is written again from what is not.
    pub fn scrub(&self, run: u64, repairs: bool) -> Option<ScrubOutcome> {
        self.lock().scrub_of(run, repairs)
    }

    /// Where copies differ, and the log is to say what it holds there, by [`Mirror::examine`].
    #[inline]
    pub fn suspect(&self) -> Option<u64> {
        self.lock().suspect()
    }

    /// Examines a part of the image that begins at `at`, by what the log says that it holds there. No job of
    /// the log is in flight; those that come wait until it is done.
    pub fn examine(&self, at: u64, bytes: u64, certificate: Box<dyn Certificate>) {
        self.lock().examine(at, bytes, certificate);
    }

    /// Whether a write is done when the disks of all replicas have it, and not their memory only.
    pub fn is_flushed(&self) -> bool {
        self.lock().record().flushed
    }

    /// What it says of itself.
    pub fn status(&self) -> MirrorStatus {
        self.lock().status()
    }

    /// The log that it is of.
    pub fn log(&self) -> LogId {
        self.lock().record().log
    }
}

impl core::fmt::Debug for Mirror {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let state = self.lock();
        let record = state.record();
        write!(f, "Mirror(epoch {}, {} replicas)", record.epoch, record.replicas.len())
    }
}

/// The disk of a mirror.
struct MirroredDisk(Mirror);

impl Disk for MirroredDisk {
    fn bytes(&self) -> u64 {
        self.0.lock().bytes()
    }

    fn begin(&mut self, job: Job) {
        self.0.lock().begin(job);
    }

    fn poll(&mut self) -> Option<Done> {
        self.0.lock().poll()
    }

    /// Waits for the disk of this process only: while a log is opened.
    fn wait(&mut self) -> Option<Done> {
        self.0.lock().wait()
    }
}
