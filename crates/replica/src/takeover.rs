//! How a process becomes the primary of a log, and gets what the last one had.
//!
//! It waits until the last one has certainly ended or lost its lease, raises the epoch in the registry,
//! fences the replicas that the record names, and reads one of them: each has every acknowledged write. What
//! only some of them have was never acknowledged, and nobody has read it.

use core::time::Duration;

use farcall_base::Instant;
use farcall_disk::{Blocks, Disk, Job};

use crate::message::{Held, LogId, PIECE_BYTES_MAX, Request, Subject};
use crate::mirror::NoAnswer;
use crate::record::{Place, Record};
use crate::registry::{Compared, Registry, RegistryError};

/// Until a primary has replicas of its own its lease is this many times as long: a recovery takes its time,
/// and what is read from others meanwhile is nothing.
const RECOVERY_LEASES: u32 = 10;

/// What a process wants to be the primary of, and how.
#[derive(Clone, Debug)]
pub struct Claim {
    /// The log; its store counts only if there is none yet.
    pub log: LogId,
    /// How many shards the store has.
    pub shards: u32,
    /// Where this process is.
    pub primary: String,
    /// Its incarnation.
    pub incarnation: u64,
    /// How long it may answer without renewing.
    pub lease: Duration,
    /// How many replicas every acknowledged write is to have.
    pub wanted: u32,
    /// Whether they are flushed.
    pub flushed: bool,
}

/// A record that this process has set.
#[derive(Clone, Debug)]
pub struct Claimed {
    /// The record.
    pub record: Record,
    /// Its revision.
    pub revision: u64,
    /// When the attempt began.
    pub set_at: Instant,
    /// The incarnation of the primary before, if there was one.
    pub before: Option<u64>,
}

/// Why a log cannot be claimed, now or at all.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClaimError {
    /// Try again.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// Give all shards of a store the same number of shards.
    #[error("the store has {shards} shards, and this process would serve one of {own}; give it as many")]
    OtherShards {
        /// The store's.
        shards: u32,
        /// This process's.
        own: u32,
    },
    /// Restore the registry.
    #[error("the record of the shard is damaged, or of another version of farcall")]
    Damaged,
}

/// Watches the record of a log until its primary is gone.
#[derive(Debug)]
pub struct Candidate {
    claim: Claim,
    /// What was seen last, since when: incarnation, epoch and beat.
    seen: Option<((u64, u64, u64), Instant)>,
}

impl Candidate {
    /// One that has seen nothing yet.
    pub fn new(claim: Claim) -> Self {
        Self { claim, seen: None }
    }

    /// Looks once, and claims the log if nobody has it; `None` while somebody does. `clock` says the time.
    pub fn try_claim(
        &mut self,
        registry: &mut dyn Registry,
        clock: &dyn Fn() -> Instant,
    ) -> Result<Option<Claimed>, ClaimError> {
        let key = Record::key(self.claim.log.shard);
        let Some(found) = registry.load(&key)? else {
            return Ok(self.set(registry, clock, (0, self.first()), None)?);
        };
        let record = Record::decode(&found.value).ok_or(ClaimError::Damaged)?;
        if record.shards != self.claim.shards {
            return Err(ClaimError::OtherShards { shards: record.shards, own: self.claim.shards });
        }
        let state = (record.incarnation, record.epoch, record.beat);
        let since = match self.seen {
            Some((seen, since)) if seen == state => since,
            _ => {
                let now = clock();
                self.seen = Some((state, now));
                now
            }
        };
        // What is read now was so from then on: the load that finds it unchanged began after the lease.
        let is_over = clock() >= since + record.lease || record.incarnation == self.claim.incarnation;
        if !is_over && !registry.has_ended(record.incarnation) {
            return Ok(None);
        }
        let before = Some(record.incarnation);
        Ok(self.set(registry, clock, (found.revision, self.next(record)), before)?)
    }

    fn first(&self) -> Record {
        let Claim { log, shards, lease, wanted, flushed, .. } = self.claim;
        Record {
            log,
            shards,
            epoch: 1,
            primary: self.claim.primary.clone(),
            incarnation: self.claim.incarnation,
            beat: 1,
            lease: lease * RECOVERY_LEASES,
            own: 0,
            wanted,
            flushed,
            replicas: Vec::new(),
        }
    }

    /// The record with which this process follows the last primary, whose replicas count until there are
    /// others.
    fn next(&self, last: Record) -> Record {
        let Record { log, epoch, beat, own, replicas, wanted, flushed, .. } = last;
        let first = self.first();
        Record {
            log,
            epoch: epoch + 1,
            beat: beat + 1,
            own,
            replicas,
            // A table that is not named again keeps its level.
            wanted: wanted.max(first.wanted),
            flushed: flushed || first.flushed,
            ..first
        }
    }

    fn set(
        &self,
        registry: &mut dyn Registry,
        clock: &dyn Fn() -> Instant,
        (expected, record): (u64, Record),
        before: Option<u64>,
    ) -> Result<Option<Claimed>, RegistryError> {
        let set_at = clock();
        let key = Record::key(record.log.shard);
        match registry.compare_and_set(&key, expected, &record.encode())? {
            Compared::Set(revision) => Ok(Some(Claimed { record, revision, set_at, before })),
            Compared::Other(_) => Ok(None),
        }
    }
}

/// Asks a backup, and waits for its answer.
pub trait Reach {
    /// The answer of the backup at this place.
    fn ask(&mut self, backup: &str, message: &[u8]) -> Result<Vec<u8>, NoAnswer>;
}

/// Why no replica could be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FetchError {
    /// Another process has become the primary meanwhile.
    #[error("another process has become the primary of the shard")]
    Replaced,
    /// Start one of the backups again, with what it had.
    #[error("none of the replicas can be read: {}", .0.join("; "))]
    NoReplica(Vec<String>),
    /// See the reason.
    #[error("the replica cannot be stored here: {0}")]
    Here(#[from] farcall_disk::DiskError),
}

/// Makes a disk that is empty, for a replica.
pub type MakeDisk<'a> = dyn FnMut(&Place) -> Result<Box<dyn Disk>, FetchError> + 'a;

/// The recovery of a log from replicas, of one after the other until one is whole.
#[derive(Debug)]
pub struct Recovery {
    record: Record,
    /// Replicas that were not tried yet, with their lengths; known once they are fenced.
    held: Option<Vec<(Place, u64)>>,
    /// Those that are tried when all others failed.
    last: Vec<Place>,
    troubles: Vec<String>,
}

impl Recovery {
    /// The recovery of what a claimed record names.
    pub fn new(record: Record) -> Self {
        Self { record, held: None, last: Vec::new(), troubles: Vec::new() }
    }

    /// The same; replicas that were found damaged before are tried when all others failed.
    pub fn again(record: Record, damaged: &[Place]) -> Self {
        Self { last: damaged.to_vec(), ..Self::new(record) }
    }

    /// A replica is of no use.
    pub fn is_damaged(&mut self, place: &Place, why: &str) {
        self.troubles.push(format!("{}: {why}", place.backup));
    }

    /// Tells all backups of the record that older epochs are over, and learns what they have.
    pub fn fence(&mut self, reach: &mut dyn Reach) -> Result<(), FetchError> {
        let mut held = Vec::new();
        for place in self.record.replicas.clone() {
            let of_backup = self.record.replicas.iter().filter(|other| other.backup == place.backup);
            let retained = of_backup.map(|other| other.replica).collect();
            let replica = self.record.first_replica();
            let subject = Subject { log: self.record.log, replica, epoch: self.record.epoch };
            let answer = reach.ask(&place.backup, &Request::Fence { retained }.encode(subject));
            let answer = answer.map(|answer| Held::decode_all(&answer));
            match answer {
                Ok(Some(answer)) => match answer.iter().find(|held| held.replica == place.replica) {
                    Some(found) => held.push((place, found.bytes)),
                    None => self.is_damaged(&place, "it does not have the replica any more"),
                },
                Ok(None) => self.is_damaged(&place, "it says what no backup says"),
                Err(NoAnswer::Refused(crate::message::Refusal::OlderEpoch)) => {
                    return Err(FetchError::Replaced);
                }
                Err(NoAnswer::Refused(refusal)) => self.is_damaged(&place, &refusal.to_string()),
                Err(NoAnswer::Silent) => self.is_damaged(&place, "it does not answer"),
            }
        }
        held.reverse();
        // The last one is tried first.
        held.sort_by_key(|(place, _)| !self.last.contains(place));
        self.held = Some(held);
        Ok(())
    }

    /// The fenced replicas, each of which has every acknowledged write, with their lengths; why there are no
    /// others.
    pub fn held(&self) -> (&[(Place, u64)], &[String]) {
        (self.held.as_deref().unwrap_or_default(), &self.troubles)
    }

    /// Reads the next replica into a disk that is empty; gives which it was. A disk is made for each replica
    /// of which the first piece was read, and is dropped if the rest cannot be. `make_disk` is told which.
    pub fn fetch(
        &mut self,
        reach: &mut dyn Reach,
        make_disk: &mut MakeDisk<'_>,
    ) -> Result<(Place, Box<dyn Disk>), FetchError> {
        if self.held.is_none() {
            self.fence(reach)?;
        }
        while let Some((place, bytes)) = self.held.as_mut().and_then(Vec::pop) {
            match self.read(reach, &place, bytes, make_disk)? {
                Ok(disk) => return Ok((place, disk)),
                Err(NoAnswer::Refused(refusal)) => self.is_damaged(&place, &refusal.to_string()),
                Err(NoAnswer::Silent) => self.is_damaged(&place, "it does not answer any more"),
            }
        }
        Err(FetchError::NoReplica(core::mem::take(&mut self.troubles)))
    }

    fn read(
        &self,
        reach: &mut dyn Reach,
        place: &Place,
        bytes: u64,
        make_disk: &mut MakeDisk<'_>,
    ) -> Result<Result<Box<dyn Disk>, NoAnswer>, FetchError> {
        if bytes == 0 {
            return Ok(Ok(make_disk(place)?));
        }
        let mut made = None;
        let mut at = 0;
        while at < bytes {
            let length = (bytes - at).min(PIECE_BYTES_MAX as u64) as u32;
            let piece = match self.read_piece(reach, place, (at, length)) {
                Ok(piece) => piece,
                Err(why) => return Ok(Err(why)),
            };
            let disk = match &mut made {
                Some(disk) => disk,
                // One that answers nothing takes no room here.
                None => {
                    let mut disk = make_disk(place)?;
                    carry_out(&mut *disk, Job::Extend { bytes })?;
                    made.insert(disk)
                }
            };
            if !piece.is_empty() {
                let mut blocks = Blocks::zeroed(length as usize);
                blocks[..piece.len()].copy_from_slice(&piece);
                carry_out(&mut **disk, Job::Write { at, blocks, flush: at + u64::from(length) >= bytes })?;
            }
            at += u64::from(length);
        }
        Ok(Ok(made.expect("it has a first piece")))
    }

    fn read_piece(
        &self,
        reach: &mut dyn Reach,
        place: &Place,
        (at, length): (u64, u32),
    ) -> Result<Vec<u8>, NoAnswer> {
        let Record { log, epoch, .. } = self.record;
        let subject = Subject { log, replica: place.replica, epoch };
        let piece = reach.ask(&place.backup, &Request::Read { at, bytes: length }.encode(subject))?;
        if piece.len() > length as usize {
            return Err(NoAnswer::Refused(crate::message::Refusal::Malformed));
        }
        Ok(piece)
    }
}

fn carry_out(disk: &mut dyn Disk, job: Job) -> Result<(), FetchError> {
    /// What a disk that has lost its power says: an error of the device.
    const NO_ANSWER: farcall_disk::DiskError = farcall_disk::DiskError::Failed { code: 5 };
    disk.begin(job);
    Ok(disk.wait().ok_or(NO_ANSWER)?.outcome?)
}
