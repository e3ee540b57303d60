//! Which objects make room for others, if any may.
//!
//! An object carries a byte that says how it is used: when it was used last, in ticks that go on as objects
//! are used, or about how often. A victim is the worst of some that lie side by side in the index, whose
//! order is a secret and says nothing about use. What is decided so is bounded, and an approximation; how
//! many objects were evicted is exact.

use farcall_base::Random;

use super::entry::Kind;
use super::log::Log;
use super::segments::Place;
use super::writing::Old;
use super::{DEADLINES_LOOKED_AT, Name, Store};

/// Who makes room when the memory is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Eviction {
    /// Nobody: writes are refused.
    #[default]
    Never,
    /// Objects that were not used for long.
    LeastRecent,
    /// Objects that are seldom used.
    LeastFrequent,
    /// Any object.
    Random,
    /// The object that expires first. Those that never expire stay.
    FirstToExpire,
}

/// Objects among which a victim is chosen.
const SAMPLE: usize = 16;

/// How often others are drawn when all of a sample are of durable tables.
const SAMPLES_MAX: usize = 8;

/// An object that is looked at this often, and stays, counts as used less often. While all objects of a store
/// make room once each is looked at about [`SAMPLE`] times.
const LOOKS_PER_LOSS: u64 = 8 * SAMPLE as u64;

/// Objects that one write evicts at most. A longer one is refused then; another try finds more room.
pub const EVICTED_PER_WRITE: usize = 1024;

/// A tick lasts for the uses of this share of all objects.
const TICKS_PER_ROUND: u64 = 32;

/// What is known of uses.
#[derive(Debug)]
pub struct Uses {
    pub policy: Eviction,
    /// The tick, and the uses that it has left.
    tick: u8,
    left: u64,
    random: Random,
    /// Objects that were evicted.
    pub evicted: u64,
}

impl Default for Uses {
    fn default() -> Self {
        Self { policy: Eviction::Never, tick: 0, left: 0, random: Random::new(0), evicted: 0 }
    }
}

impl Uses {
    /// What an object's byte becomes when it is used once more.
    fn used(&mut self, byte: u8, objects: u64) -> u8 {
        if self.policy != Eviction::LeastFrequent {
            if self.left == 0 {
                self.tick = self.tick.wrapping_add(1);
                self.left = 1 + objects / TICKS_PER_ROUND;
            }
            self.left -= 1;
            return self.tick;
        }
        // The more there were the less each counts: a byte tells a million from a thousand.
        let counts = self.random.bits().is_multiple_of(1 + u64::from(byte) * 10);
        byte.saturating_add(u8::from(counts))
    }

    /// How much an object deserves to stay.
    fn worth(&mut self, byte: u8) -> u64 {
        match self.policy {
            Eviction::LeastRecent => u64::from(u8::MAX - self.tick.wrapping_sub(byte)),
            Eviction::LeastFrequent => u64::from(byte),
            _ => self.random.bits(),
        }
    }
}

impl Store {
    /// Decides who makes room from now on. `seed` draws among objects.
    pub fn set_eviction(&mut self, policy: Eviction, seed: u64) {
        self.uses.policy = policy;
        self.uses.random = Random::new(seed);
    }

    /// Who makes room.
    pub fn eviction(&self) -> Eviction {
        self.uses.policy
    }

    /// The most bytes that objects, their index and their deadlines may take together. It is the store's
    /// memory at first, of which a part is always free.
    pub fn limit_bytes(&self) -> usize {
        self.log.limit_bytes()
    }

    /// Bytes that they take.
    pub fn taken_bytes(&self) -> usize {
        self.log.taken_bytes()
    }

    /// Sets the most that they may take; no more than the store's memory. Those that are there stay until
    /// writes or [`Store::shrink`] evict them.
    pub fn set_limit(&mut self, bytes: usize) {
        self.log.set_limit(bytes);
    }

    /// Evicts objects, at most this many, while they take more than they may; says whether there are more to
    /// be evicted.
    pub fn shrink(&mut self, objects_max: usize) -> bool {
        /// No object has to be spared; one with this hash would be spared by chance.
        const NONE: u64 = 0;
        let is_over = |store: &Self| store.taken_bytes() > store.limit_bytes();
        for _ in 0..objects_max {
            if !is_over(self) || !self.remove_gone() && !self.evict_one(NONE) {
                return false;
            }
        }
        is_over(self)
    }

    /// How many objects were evicted.
    pub fn evicted(&self) -> u64 {
        self.uses.evicted
    }

    /// An object was used, if it is there.
    pub fn count_use(&mut self, name: Name<'_>) {
        if !matches!(self.uses.policy, Eviction::LeastRecent | Eviction::LeastFrequent) {
            return;
        }
        let Some(table) = self.tables.find(name.table()) else { return };
        let Some((place, entry)) = self.find(table, name.key()) else { return };
        let byte = entry.uses();
        self.log.set_uses(place, self.uses.used(byte, self.objects));
    }

    /// About how often an object was used, where that is counted.
    pub fn use_count(&self, name: Name<'_>) -> Option<u8> {
        let table = self.tables.find(name.table())?;
        let (_, entry) = self.find(table, name.key())?;
        (self.uses.policy == Eviction::LeastFrequent).then(|| entry.uses())
    }

    /// Evicts one object, but for the one with this hash; says whether there was one.
    pub(super) fn evict_one(&mut self, spared: u64) -> bool {
        let victim = match self.uses.policy {
            Eviction::Never => None,
            Eviction::FirstToExpire => self.first_to_expire(spared),
            _ => self.worst_of_some(spared),
        };
        let Some((hash, place)) = victim else { return false };
        let old = Old::of(&self.log.entry(place));
        self.uses.evicted += u64::from(self.tables.has(old.table));
        self.remove(hash, place, old);
        self.collections.sweep();
        self.count_beside();
        true
    }

    fn first_to_expire(&self, spared: u64) -> Option<(u64, Place)> {
        // What is to survive its process does not make room.
        let first = self.deadlines.iter().take(DEADLINES_LOOKED_AT).filter(|(_, hash)| *hash != spared);
        let mut places = first.map(|(deadline, hash)| (hash, self.of_deadline(deadline, hash)));
        let found =
            places.find(|(_, (_, entry))| !self.changes.tracks(entry.table()) && !self.is_held(entry));
        found.map(|(hash, (place, _))| (hash, place))
    }

    fn worst_of_some(&mut self, spared: u64) -> Option<(u64, Place)> {
        let mut sample = Vec::new();
        for _ in 0..SAMPLES_MAX {
            sample = self::sample(&self.log, self.uses.random.bits(), spared);
            // What is to survive its process does not make room, nor does what stays while it is read.
            sample.retain(|(_, place)| {
                let entry = self.log.entry(*place);
                !self.changes.tracks(entry.table()) && !self.is_held(&entry)
            });
            if !sample.is_empty() {
                break;
            }
        }
        let mut worst = None;
        for (hash, place) in sample {
            let byte = self.log.entry(place).uses();
            let worth = self.uses.worth(byte);
            if worst.is_none_or(|(least, _)| worth < least) {
                worst = Some((worth, (hash, place)));
            }
            // What was frequent once is so no longer.
            if self.uses.policy == Eviction::LeastFrequent
                && self.uses.random.bits().is_multiple_of(LOOKS_PER_LOSS)
            {
                self.log.set_uses(place, byte.saturating_sub(1));
            }
        }
        worst.map(|(_, victim)| victim)
    }
}

/// Some objects that lie side by side at a place of the index, and behind it.
fn sample(log: &Log, at: u64, spared: u64) -> Vec<(u64, Place)> {
    let parts = 1_usize << log.part_bits();
    let (first, mut found) = (log.part_of(at), Vec::with_capacity(SAMPLE));
    for step in 0..parts {
        let part = (first + step) % parts;
        let from = if step == 0 { (at as u32 as usize) % log.part_len(part).max(1) } else { 0 };
        let slots = log.part(part).skip(from);
        let objects = slots.filter(|slot| slot.hash != spared && log.entry(slot.place).kind() != Kind::Chunk);
        found.extend(objects.take(SAMPLE - found.len()).map(|slot| (slot.hash, slot.place)));
        if found.len() == SAMPLE {
            return found;
        }
    }
    // There are few: those before the place are looked at as well.
    let slots = log.part(first).filter(|slot| slot.hash != spared);
    let objects = slots.filter(|slot| log.entry(slot.place).kind() != Kind::Chunk);
    found.extend(objects.take(SAMPLE - found.len()).map(|slot| (slot.hash, slot.place)));
    found
}
