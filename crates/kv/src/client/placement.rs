//! What a client knows of hash slots that have moved.
//!
//! It begins with what follows from the number of shards. Once a shard says that it does not have an object,
//! the client asks it for the map, and keeps the latest one that it has seen.

use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::sync::{Arc, Mutex, PoisonError};

use super::failure::Failure;
use super::operation::{Operation, Repeat};
use super::{Client, message};
use crate::Name;
use crate::placement::SlotMap;
use crate::store::ReadError;
use crate::wire::{SLOT_MAP, hash_slot, shard_of_slot};

/// How long an operation follows an object whose hash slot moves, however patient its client is: longer than
/// a slot is nobody's.
pub(super) const FOLLOWS_WITHIN: Duration = Duration::from_secs(10);

/// How long another shard may take that is asked where objects of one are that is away.
pub(super) const MAP_WITHIN: Duration = Duration::from_secs(1);

/// How long a patient operation looks for a shard before it asks another one whether the object is there.
pub(super) const LOOK_WITHIN: Duration = Duration::from_millis(250);

/// Which shard an operation is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// The one that it was made for.
    Fixed,
    /// The same, which may refuse it while hash slots move, and is not needed when it has none.
    Waiting,
    /// The one that has this hash slot.
    Slot(u32),
    /// The one that it was made for, as long as that has the hash slot of the first of its objects.
    Batch(u32),
    /// The one that has the results of a client, of which it asks for one about an object of this hash slot:
    /// others may have taken them over in a later version of the map than this.
    Results {
        /// The slot.
        slot: u32,
        /// The version of the map in which the client had its identity.
        since: u64,
    },
}

#[derive(Debug, Default)]
struct Known {
    map: Mutex<Option<Arc<SlotMap>>>,
    has_map: AtomicBool,
    /// An operation that nobody waits for was refused: the map is to be asked for.
    is_stale: AtomicBool,
}

/// What is known of slots, which callbacks learn as well.
#[derive(Clone, Debug, Default)]
pub struct KnownPlacement(Arc<Known>);

impl KnownPlacement {
    /// The latest map, once there is one.
    pub fn map(&self) -> Option<Arc<SlotMap>> {
        if !self.0.has_map.load(Ordering::Acquire) {
            return None;
        }
        self.0.map.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A shard has this map.
    pub fn learn(&self, map: SlotMap) {
        let mut known = self.0.map.lock().unwrap_or_else(PoisonError::into_inner);
        if known.as_ref().is_none_or(|known| known.version() < map.version()) {
            *known = Some(Arc::new(map));
            self.0.has_map.store(true, Ordering::Release);
        }
    }

    /// An operation was refused because of where its object is.
    pub fn refused(&self) {
        self.0.is_stale.store(true, Ordering::Relaxed);
    }

    fn takes_stale(&self) -> bool {
        self.0.is_stale.load(Ordering::Relaxed) && self.0.is_stale.swap(false, Ordering::Relaxed)
    }
}

impl Client<'_> {
    /// The shard that has an object, as far as this client knows.
    #[inline]
    pub fn shard_of(&self, name: Name<'_>) -> u32 {
        // One shard has everything; then nobody needs the slot.
        if self.shards() == 1 { 0 } else { self.shard_of_slot(hash_slot(name.key())) }
    }

    pub(super) fn shard_of_slot(&self, slot: u32) -> u32 {
        let map = self.placement.map().filter(|map| map.shards() == self.shards());
        map.map_or_else(|| shard_of_slot(slot, self.shards()), |map| map.owner(slot))
    }

    /// Asks a shard which shard has which hash slots. One that is away and has none fails as
    /// [`Failure::WrongShard`].
    pub fn slot_map(&self, shard: u32) -> Operation<'_, SlotMap, ReadError> {
        self.operation((shard, Route::Waiting), SLOT_MAP, message(|_| ()), Repeat::Always, |answer| {
            SlotMap::decode(&answer).ok_or(Failure::Misunderstood)
        })
    }

    /// Whether a shard is known to have no hash slots, and so nothing that a client asks for.
    pub(super) fn has_no_slots(&self, shard: u32) -> bool {
        let map = self.placement.map().filter(|map| map.shards() == self.shards());
        map.is_some_and(|map| !map.has_slots(shard))
    }

    /// Another shard than one that is away: the next one each time, shard 0 first, where all others are met.
    pub(super) fn another_than(&self, shard: u32) -> u32 {
        let others = self.shards().saturating_sub(1).max(1);
        let next = self.asked_of.get() % others;
        self.asked_of.set(next + 1);
        if next < shard { next } else { next + 1 }
    }

    /// Takes over what a shard has said; says whether slots of this store move at all. If they do not, a
    /// shard that refuses an object counts the shards otherwise than this client.
    pub(super) fn learn(&self, said: Result<SlotMap, Failure<ReadError>>) -> bool {
        if let Ok(map) = said {
            self.placement.learn(map);
        }
        self.placement.map().is_some_and(|map| map.version() > 0 && map.shards() == self.shards())
    }

    /// Begins to ask for the map if an operation was refused that nobody waits for.
    pub(super) fn refresh(&self, shard: u32) {
        if !self.placement.takes_stale() {
            return;
        }
        let placement = self.placement.clone();
        // Otherwise the next operation that is refused has it asked for.
        let _ = self.slot_map(shard).then(move |_, said| {
            if let Ok(map) = said {
                placement.learn(map);
            }
        });
    }
}
