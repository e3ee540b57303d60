//! Processes that take over a shard in parts, while everything else goes on.

use std::sync::Arc;
use std::time::Duration;

use farcall_kv::placement::{MAP_KEY, SlotMap, load_map};
use farcall_kv::replicated::SpreadSteps;
use farcall_replica::{
    BackupEntry, Candidate, Compared, MemoryRegistry, Record, Registry, RegistryError, Versioned,
};

use super::primary::Primary;
use super::takeover::Candidacy;
use super::world::{LEASE, Node, World};

/// How late those are who are to say that they have their parts, when something goes wrong.
const LATE: Duration = LEASE.saturating_mul(3);

/// What goes wrong with the spreads of a history, beside what may go wrong at any time: each of these loses
/// something if one rule is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpreadTrouble {
    None,
    /// Those that take parts do not reach their backups, and end once the slots are theirs.
    LogsAreLate,
    /// Whoever has begun the spread ends in the middle, and the next primary of the shard comes.
    SpreaderEnds,
    /// One that has its part ends before all have theirs.
    TakerEnds,
}

impl SpreadTrouble {
    pub const ALL: [Self; 4] = [Self::None, Self::LogsAreLate, Self::SpreaderEnds, Self::TakerEnds];
}

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
        let found = self.registry.load(MAP_KEY);
        if matches!(found, Ok(Some(found)) if found.revision != self.known_revision)
            && let Ok((map, revision)) = load_map(&mut self.registry, self.case.shards)
        {
            (self.known_map, self.known_revision) = (map, revision);
        }
        &self.known_map
    }

    /// The process that takes the last shard apart goes a step on.
    pub(super) fn spread(&mut self) {
        if self.is_recovering || self.case.shards == 1 {
            return;
        }
        // Nobody begins another one while those who have parts of the last one are late.
        if self.spreader.is_none() && self.nanos() < self.map_asked_from {
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
        if self.spread_trouble != SpreadTrouble::None && !self.is_healing && self.random.chance(0.05) {
            self.end_primary_of(self.case.shards - 1);
        }
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

    /// It ends, and the registry knows of it; or nobody hears of it any more.
    pub(super) fn end_spreader(&mut self, is_known: bool) {
        if let Some((incarnation, _)) = self.spreader.take().filter(|_| is_known) {
            self.registry.ended(incarnation);
        }
    }

    /// A primary asks the registry for the map, or for what it wants to be changed there.
    pub(super) fn ask_for_map(&mut self) {
        if self.nanos() < self.map_asked_from && !self.is_healing {
            return;
        }
        let Some(place) = self.any_primary() else { return };
        let fails = !self.is_healing && self.random.chance(0.05);
        let primary = &mut self.primaries[place];
        if let Some(mover) = primary.mover.as_mut().filter(|_| !primary.is_paused) {
            mover.ask(&mut Lossy { registry: self.registry.clone(), fails });
        }
        if self.spread_trouble != SpreadTrouble::None && !self.is_healing && !self.is_recovering {
            self.trouble_spread();
        }
    }

    /// What is to go wrong with spreads does so when one has come a step further.
    fn trouble_spread(&mut self) {
        let last = self.case.shards - 1;
        self.map();
        let map = Arc::clone(&self.known_map);
        let planned = map.spreads().iter().find_map(|it| Some((it.number, it.plan.as_ref()?)));
        let is_planned = planned.map(|(number, plan)| (number, plan.ready.len() as u32));
        let is_done = map.taken(last).map(|taken| (taken.number, last));
        let Some(step) = is_planned.or(is_done).filter(|step| *step > self.spread_step) else { return };
        self.spread_step = step;
        let ready = planned.and_then(|(_, plan)| plan.ready.first());
        match (self.spread_trouble, ready) {
            (SpreadTrouble::LogsAreLate, None) if step.1 == last => {
                (0..last).for_each(|taker| self.end_primary_of(taker))
            }
            (SpreadTrouble::SpreaderEnds, Some(_)) => {
                self.others_are_late();
                self.end_spreader(true);
            }
            // Nobody gives the spread up for it.
            (SpreadTrouble::TakerEnds, Some(ready)) => {
                self.others_are_late();
                self.end_primary_of(*ready);
                self.end_spreader(false);
            }
            _ => {}
        }
    }

    /// Those who have not said yet that they have their parts read them, and say so late.
    fn others_are_late(&mut self) {
        (1..self.case.shards).for_each(|_| self.read_part());
        self.map_asked_from = self.nanos() + self.random.below(LATE.as_nanos() as u64);
    }

    /// A primary does not reach some backups, or none.
    fn cut_off(&mut self, incarnation: u64) {
        let is_cut = |_: &&Node| self.random.chance(0.8);
        let nodes = self.nodes.iter().filter(is_cut).map(|node| (incarnation, node.at.clone()));
        self.cut.extend(nodes);
    }

    /// A thread of a primary reads the part that it takes.
    pub(super) fn read_part(&mut self) {
        if self.is_recovering {
            return;
        }
        let wanted = |primary: &mut Primary| {
            let part = primary.mover.as_mut().and_then(|mover| mover.take_wanted())?;
            Some((primary.incarnation, part))
        };
        if let Some((incarnation, part)) = self.primaries.iter_mut().find_map(wanted) {
            self.is_recovering = true;
            part.read(&mut self.registry.clone(), &mut Candidacy { world: self, incarnation });
            self.is_recovering = false;
            // What it has read its log does not get for a while.
            if self.spread_trouble == SpreadTrouble::LogsAreLate && !self.is_healing {
                self.cut_off(incarnation);
            }
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
