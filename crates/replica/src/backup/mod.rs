//! A backup: holds replicas of logs for their primaries.
//!
//! A state machine without network: requests in, answers out, now or when a disk has done its job. What makes
//! it safe is one number for each log, the epoch: requests of an older one are refused, so that a primary
//! that was replaced can write nowhere any more.

mod replica;
mod shelf;

use std::collections::BTreeMap;

use farcall_base::canary::{Rule, leaves_out};

pub(crate) use shelf::replace_file;
pub use shelf::{FolderOfLogs, FolderShelf, Shelf, ShelfError, Stored};

use self::replica::{Replica, Work};
use crate::message::{Held, LogId, Refusal, Request, Subject};

/// The most replicas of one log that a backup holds: the one that counts, and those that are being made.
const REPLICAS_MAX: usize = 8;

/// Answers, or a refusal.
pub type Answered = Result<Vec<u8>, Refusal>;

/// What became of a request at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Handled {
    /// This is the answer.
    Now(Answered),
    /// The answer comes with this number.
    Later(u64),
}

/// What is held of one log.
#[derive(Default)]
struct Log {
    epoch: u64,
    replicas: BTreeMap<u64, Replica>,
}

/// The replicas of a backup.
pub struct Backup {
    shelf: Box<dyn Shelf>,
    logs: BTreeMap<LogId, Log>,
    /// Answers that were promised.
    promised: u64,
}

impl Backup {
    /// A backup with what its shelf has.
    pub fn open(mut shelf: Box<dyn Shelf>) -> Result<Self, ShelfError> {
        let mut logs: BTreeMap<LogId, Log> = BTreeMap::new();
        for Stored { log, epoch, replica, disk } in shelf.stored()? {
            let log = logs.entry(log).or_default();
            log.epoch = log.epoch.max(epoch);
            log.replicas.insert(replica, Replica::new(disk));
        }
        Ok(Self { shelf, logs, promised: 0 })
    }

    /// How many replicas it has.
    pub fn replicas(&self) -> usize {
        self.logs.values().map(|log| log.replicas.len()).sum()
    }

    /// Whether it has this replica.
    pub fn has(&self, log: LogId, replica: u64) -> bool {
        self.logs.get(&log).is_some_and(|log| log.replicas.contains_key(&replica))
    }

    /// Whether a disk is at something, and [`Backup::poll`] has something to look at.
    #[inline]
    pub fn is_working(&self) -> bool {
        self.logs.values().any(|log| log.replicas.values().any(Replica::is_working))
    }

    /// Does what a message asks for, or begins to.
    pub fn handle(&mut self, message: &[u8]) -> Handled {
        let Some((subject, request)) = Request::decode(message) else {
            return Handled::Now(Err(Refusal::Malformed));
        };
        if let Err(refusal) = self.admit(subject) {
            return Handled::Now(Err(refusal));
        }
        match request {
            Request::Begin { flushed } => Handled::Now(self.begin(subject, flushed)),
            Request::Fence { retained } => Handled::Now(self.fence(subject, &retained)),
            Request::Write { sequence, at, bytes, flush, data } => {
                let work = |number, replica: &mut Replica| {
                    Work::write(number, (at, bytes), flush, data, replica.take_spare())
                };
                self.work(subject, Some(sequence), work)
            }
            Request::Read { at, bytes } => {
                self.work(subject, None, |number, _| Work::read(number, (at, bytes)))
            }
            Request::Sum { at, bytes } => {
                self.work(subject, None, |number, _| Work::sum(number, (at, bytes)))
            }
        }
    }

    /// The next answer that was promised.
    pub fn poll(&mut self) -> Option<(u64, Answered)> {
        self.logs.values_mut().flat_map(|log| log.replicas.values_mut()).find_map(Replica::poll)
    }

    /// Refuses an older epoch, and remembers a later one before anything is done in it.
    fn admit(&mut self, subject: Subject) -> Result<(), Refusal> {
        let log = self.logs.entry(subject.log).or_default();
        if subject.epoch < log.epoch {
            return if leaves_out(Rule::Fences) { Ok(()) } else { Err(Refusal::OlderEpoch) };
        }
        if subject.epoch > log.epoch {
            self.shelf.raise_epoch(subject.log, subject.epoch)?;
            log.epoch = subject.epoch;
        }
        Ok(())
    }

    fn begin(&mut self, Subject { log, replica, epoch }: Subject, flushed: bool) -> Answered {
        let held = self.logs.entry(log).or_default();
        if held.replicas.contains_key(&replica) {
            return Err(Refusal::Malformed);
        }
        if held.replicas.len() >= REPLICAS_MAX {
            return Err(Refusal::Full);
        }
        let disk = self.shelf.create((log, epoch), replica, flushed)?;
        held.replicas.insert(replica, Replica::new(disk));
        Ok(Vec::new())
    }

    /// Drops replicas that are neither retained nor later than the fence, which may arrive long after it was
    /// sent.
    fn fence(&mut self, Subject { log, replica: before, .. }: Subject, retained: &[u64]) -> Answered {
        let held = self.logs.entry(log).or_default();
        let shelf = &mut self.shelf;
        held.replicas.retain(|number, replica| {
            let stays = *number >= before || retained.contains(number) || replica.is_working();
            if !stays {
                shelf.remove(log, *number);
            }
            stays
        });
        let mut answer = Vec::new();
        for (&number, replica) in &held.replicas {
            Held { replica: number, bytes: replica.bytes() }.encode(&mut answer);
        }
        Ok(answer)
    }

    fn work(
        &mut self,
        subject: Subject,
        sequence: Option<u64>,
        work: impl FnOnce(u64, &mut Replica) -> Work,
    ) -> Handled {
        let replica = self.logs.get_mut(&subject.log).and_then(|log| log.replicas.get_mut(&subject.replica));
        let Some(replica) = replica else { return Handled::Now(Err(Refusal::NoSuchReplica)) };
        if let Some(sequence) = sequence
            && !replica.takes(sequence)
        {
            return Handled::Now(Err(Refusal::OutOfOrder));
        }
        self.promised += 1;
        let number = self.promised;
        let work = work(number, replica);
        match replica.begin(work) {
            Err(refusal) => Handled::Now(Err(refusal)),
            Ok(()) => match replica.poll() {
                Some((done, answer)) if done == number => Handled::Now(answer),
                // What is done first was promised before, and is asked for again.
                Some(other) => {
                    replica.put_back(other);
                    Handled::Later(number)
                }
                None => Handled::Later(number),
            },
        }
    }
}

impl core::fmt::Debug for Backup {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Backup({} replicas)", self.replicas())
    }
}

#[cfg(test)]
mod tests;
