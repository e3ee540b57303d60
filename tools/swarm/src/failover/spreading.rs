//! Processes that take over a shard in parts, while everything else goes on.

use std::time::Duration;

use farcall_kv::placement::{SlotMap, load_map};
use farcall_kv::replicated::SpreadSteps;
use farcall_replica::{
    BackupEntry, Candidate, Compared, MemoryRegistry, Record, Registry, RegistryError, Versioned,
};

use super::takeover::Candidacy;
use super::world::World;

/// Who takes the last shard apart: one process at a time.
pub enum Spreader {
    /// It waits for the end of the shard's primary.
    Waits(Candidate),
    /// It has claimed the shard, and waits for those that take parts.
    Spreads(Box<SpreadSteps>),
}

impl World {
    /// The map, as clients learn it: from a registry that does not answer nothing new.
    pub(super) fn map(&mut self) -> &SlotMap {
        if let Ok((map, _)) = load_map(&mut self.registry, self.case.shards) {
            self.known_map = map;
        }
        &self.known_map
    }

    /// The process that takes the last shard apart goes a step on.
    pub(super) fn spread(&mut self) {
        if self.is_recovering || self.case.shards == 1 {
            return;
        }
        let (next, incarnation) = match self.spreader.take() {
            None => {
                self.incarnations += 1;
                let (incarnation, last) = (self.incarnations, self.case.shards - 1);
                (Some(Spreader::Waits(self.new_candidate(incarnation, last))), incarnation)
            }
            Some((incarnation, Spreader::Waits(candidate))) => {
                (self.claim_for_spread(incarnation, candidate), incarnation)
            }
            Some((incarnation, Spreader::Spreads(mut steps))) => {
                let now = self.begun + Duration::from_nanos(self.nanos());
                match steps.look(now) {
                    Ok(None) => (Some(Spreader::Spreads(steps)), incarnation),
                    Ok(Some(is_done)) => {
                        if is_done {
                            self.is_recovering = true;
                            steps.drop_all(&mut Candidacy { world: self, incarnation });
                            self.is_recovering = false;
                        }
                        (None, incarnation)
                    }
                    Err(_) => (None, incarnation),
                }
            }
        };
        match next {
            Some(next) => self.spreader = Some((incarnation, next)),
            None => self.registry.ended(incarnation),
        }
    }

    fn claim_for_spread(&mut self, incarnation: u64, mut candidate: Candidate) -> Option<Spreader> {
        // One that nobody has served yet has nothing.
        let key = Record::key(self.case.shards - 1);
        if !matches!(self.registry.load(&key), Ok(Some(_))) {
            return Some(Spreader::Waits(candidate));
        }
        let clock = self.clock();
        let claimed = match candidate.try_claim(&mut self.registry, &clock) {
            Ok(Some(claimed)) => claimed,
            Ok(None) | Err(_) => return Some(Spreader::Waits(candidate)),
        };
        let lossy = Lossy { registry: self.registry.clone(), fails: self.random.chance(0.05) };
        let mut steps = SpreadSteps::new(Box::new(lossy), claimed.record);
        self.is_recovering = true;
        let now = self.begun + Duration::from_nanos(self.nanos());
        let number = steps.begin();
        let planned = number.and_then(|it| steps.plan(it, &mut Candidacy { world: self, incarnation }, now));
        self.is_recovering = false;
        matches!(planned, Ok(Ok(()))).then(|| Spreader::Spreads(Box::new(steps)))
    }

    /// It ends, or nobody hears of it any more.
    pub(super) fn end_spreader(&mut self) {
        if let Some((incarnation, _)) = self.spreader.take()
            && self.random.chance(0.5)
        {
            self.registry.ended(incarnation);
        }
    }

    /// A primary asks the registry for the map, or for what it wants to be changed there.
    pub(super) fn ask_for_map(&mut self) {
        let Some(place) = self.any_primary() else { return };
        let fails = !self.is_healing && self.random.chance(0.05);
        let primary = &mut self.primaries[place];
        if let Some(mover) = primary.mover.as_mut().filter(|_| !primary.is_paused) {
            mover.ask(&mut Lossy { registry: self.registry.clone(), fails });
        }
    }

    /// A thread of a primary reads the part that it takes.
    pub(super) fn read_part(&mut self) {
        if self.is_recovering {
            return;
        }
        let Some(place) = self.any_primary() else { return };
        let primary = &mut self.primaries[place];
        let (incarnation, part) = (primary.incarnation, primary.mover.as_mut());
        if let Some(part) = part.and_then(|mover| mover.take_wanted()) {
            self.is_recovering = true;
            part.read(&mut self.registry.clone(), &mut Candidacy { world: self, incarnation });
            self.is_recovering = false;
        }
    }
}

/// A registry of which an answer may be lost, though it has done what it was asked for.
struct Lossy {
    registry: MemoryRegistry,
    fails: bool,
}

impl Registry for Lossy {
    fn load(&mut self, key: &str) -> Result<Option<Versioned>, RegistryError> {
        self.registry.load(key)
    }

    fn compare_and_set(&mut self, key: &str, expected: u64, value: &[u8]) -> Result<Compared, RegistryError> {
        let done = self.registry.compare_and_set(key, expected, value);
        if core::mem::take(&mut self.fails) {
            let (place, reason) = ("memory".to_owned(), "its answer was lost".to_owned());
            return Err(RegistryError { place, reason });
        }
        done
    }

    fn backups(&mut self) -> Result<Vec<BackupEntry>, RegistryError> {
        self.registry.backups()
    }

    fn has_ended(&mut self, incarnation: u64) -> bool {
        self.registry.has_ended(incarnation)
    }
}
