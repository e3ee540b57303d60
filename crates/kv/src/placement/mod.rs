//! Which shard has which hash slots, and how ranges of them go from one shard to another while both serve.
//!
//! A store with a registry has a *map* there: ranges of slots with their shards, a version, and the moves in
//! progress. It changes by compare and set only, and a move is done at one moment: when the map says so. The
//! source copies objects to the destination, which stores them as its own and hides them; refuses the range
//! for a moment; and sets the map. A primary that begins ends the moves in which its shard takes part, before
//! it serves. So whoever dies leaves the range with one owner: that of the map.
//!
//! The slots of a shard whose primary is gone go to several others by the same steps, but that these read its
//! log at its backups: see [`Spread`].

mod entries;
mod keeper;
mod map;
mod source;
mod spread;
mod taking;
#[cfg(test)]
mod tests;

pub use entries::fuzz_import;
pub(crate) use entries::{ImportHeader, ImportItem, ImportItems};
pub use keeper::{Keeper, KeeperError, MAP_KEY, begin_move, give_up_move, load_map, settle};
pub(crate) use keeper::{KeeperSteps, change};
pub use map::{Ended, MoveRefused, SlotMap, SlotMove, SlotRange};
pub use source::Mover;
pub(crate) use source::{Exported, Exporter, tell};
pub use spread::{LogEnd, Spread, SpreadPart, SpreadPlan, Taken};
pub(crate) use taking::{Fetched, PartOf, TakenClient, TakesParts};

use core::fmt;

use crate::wire::{Code, HASH_SLOTS};

/// Whether a shard that refuses objects of another one will go on doing so. For another reason it is busy, or
/// lacks replicas, or has not seen the map, and may take them a little later.
fn is_refused_for_good(code: Code) -> bool {
    matches!(
        code,
        Code::Malformed
            | Code::UnknownTable
            | Code::OutOfMemory
            | Code::SameHash
            | Code::LogFull
            | Code::DiskFailed
            | Code::NotAllowed
            | Code::NoLog
    )
}

/// Words that a set of all slots takes.
const WORDS: usize = HASH_SLOTS as usize / u64::BITS as usize;

/// A set of hash slots.
#[derive(Clone, PartialEq, Eq)]
pub struct SlotSet(Box<[u64; WORDS]>);

impl Default for SlotSet {
    fn default() -> Self {
        Self(Box::new([0; WORDS]))
    }
}

impl SlotSet {
    /// Those of a range.
    pub fn of(range: SlotRange) -> Self {
        let mut set = Self::default();
        (range.first..=range.last).for_each(|slot| set.insert(slot));
        set
    }

    /// Those of several ranges.
    pub fn of_all(ranges: &[SlotRange]) -> Self {
        let mut set = Self::default();
        for range in ranges {
            (range.first..=range.last).for_each(|slot| set.insert(slot));
        }
        set
    }

    /// Adds a slot.
    pub fn insert(&mut self, slot: u32) {
        self.0[slot as usize / 64] |= 1 << (slot % 64);
    }

    /// Whether a slot is one of them.
    #[inline]
    pub fn has(&self, slot: u32) -> bool {
        self.0[slot as usize / 64] >> (slot % 64) & 1 != 0
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }
}

impl fmt::Debug for SlotSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries((0..HASH_SLOTS).filter(|slot| self.has(*slot))).finish()
    }
}
