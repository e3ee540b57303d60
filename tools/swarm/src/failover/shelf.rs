//! The shelf of a simulated backup: disks that survive its end, and memory that does not.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use farcall_base::seed_of_stream;
use farcall_disk::testing::{Faults, SimulatedDisk};
use farcall_disk::{Disk, MemoryDisk};
use farcall_replica::{LogId, Refusal, Shelf, ShelfError, Stored};

#[derive(Debug, Default)]
struct Files {
    images: BTreeMap<(LogId, u64), SimulatedDisk>,
    epochs: BTreeMap<LogId, u64>,
    made: u64,
}

/// A shelf; all handles are of one.
#[derive(Clone, Debug)]
pub struct SimulatedShelf {
    files: Arc<Mutex<Files>>,
    seed: u64,
    polls_max: u64,
}

impl SimulatedShelf {
    /// An empty one, whose disks take up to this number of polls.
    pub fn new(seed: u64, polls_max: u64) -> Self {
        Self { files: Arc::default(), seed, polls_max }
    }

    fn lock(&self) -> MutexGuard<'_, Files> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn faults(&self) -> Faults {
        Faults { polls_max: self.polls_max, ..Faults::default() }
    }

    /// The power is cut: what was not flushed is lost, in part or as a whole.
    pub fn cut_power(&self) {
        for disk in self.lock().images.values() {
            disk.cut_power();
            disk.set_faults(self.faults());
        }
    }
}

impl Shelf for SimulatedShelf {
    fn stored(&mut self) -> Result<Vec<Stored>, ShelfError> {
        let files = self.lock();
        let stored = files.images.iter().map(|(&(log, replica), disk)| Stored {
            log,
            epoch: files.epochs.get(&log).copied().unwrap_or(0),
            replica,
            disk: Box::new(disk.clone()),
        });
        Ok(stored.collect())
    }

    fn create(
        &mut self,
        (log, epoch): (LogId, u64),
        replica: u64,
        flushed: bool,
    ) -> Result<Box<dyn Disk>, Refusal> {
        if !flushed {
            return Ok(Box::new(MemoryDisk::new()));
        }
        let faults = self.faults();
        let mut files = self.lock();
        files.epochs.insert(log, epoch);
        files.made += 1;
        let disk = SimulatedDisk::new(seed_of_stream(self.seed, files.made), faults);
        files.images.insert((log, replica), disk.clone());
        Ok(Box::new(disk))
    }

    fn raise_epoch(&mut self, log: LogId, epoch: u64) -> Result<(), Refusal> {
        let mut files = self.lock();
        if let Some(known) = files.epochs.get_mut(&log) {
            *known = epoch;
        }
        Ok(())
    }

    fn remove(&mut self, log: LogId, replica: u64) {
        self.lock().images.remove(&(log, replica));
    }
}
