//! From the key of a queue to its two ends.
//!
//! Open addressing with linear probing, never more than half full. A queue that has become empty keeps its place, so
//! that the common case, a tag used again and again, neither inserts nor removes anything; places are given up when the
//! table is rebuilt, which happens after at least as many insertions as it has places left.

/// No node.
pub const NONE: u32 = u32::MAX;

/// The fractional part of the golden ratio: a multiplier that spreads neighbouring keys, whatever the seed.
const GOLDEN_RATIO: u64 = 0x9e37_79b9_7f4a_7c15;

/// The fewest places.
const PLACES_MIN: usize = 16;

#[derive(Clone, Copy, Debug)]
pub struct Queue {
    key: u64,
    taken: bool,
    /// [`NONE`] when the queue is empty.
    pub first: u32,
    pub last: u32,
}

const VACANT: Queue = Queue { key: 0, taken: false, first: NONE, last: NONE };

/// The ends of all queues.
#[derive(Debug)]
pub struct Table {
    places: Vec<Queue>,
    taken: usize,
    /// Odd, and drawn at random: makes the hash of a key.
    multiplier: u64,
}

impl Table {
    /// A table without queues.
    pub fn new(seed: u64) -> Self {
        Self { places: vec![VACANT; PLACES_MIN], taken: 0, multiplier: (seed ^ GOLDEN_RATIO) | 1 }
    }

    /// The place of the queue of `key`.
    #[inline]
    pub fn find(&self, key: u64) -> Option<usize> {
        let mask = self.places.len() - 1;
        let mut place = self.hash(key);
        loop {
            let queue = &self.places[place & mask];
            if queue.key == key && queue.taken {
                return Some(place & mask);
            }
            if !queue.taken {
                return None;
            }
            place += 1;
        }
    }

    /// The place of the queue of `key`, which gets one if it has none.
    #[inline]
    pub fn find_or_take(&mut self, key: u64) -> usize {
        match self.find(key) {
            Some(place) => place,
            None => self.take(key),
        }
    }

    /// A queue by its place, which stays the same until the next [`Table::find_or_take`].
    #[inline]
    pub fn queue(&mut self, place: usize) -> &mut Queue {
        &mut self.places[place]
    }

    /// The first node of the queue at a place.
    #[inline]
    pub fn first(&self, place: usize) -> u32 {
        self.places[place].first
    }

    #[cfg(test)]
    pub fn places(&self) -> usize {
        self.places.len()
    }

    #[cold]
    fn take(&mut self, key: u64) -> usize {
        if (self.taken + 1) * 2 > self.places.len() {
            self.rebuild();
        }
        self.taken += 1;
        let place = self.vacant_place(key);
        self.places[place] = Queue { key, taken: true, ..VACANT };
        place
    }

    fn rebuild(&mut self) {
        let live: Vec<Queue> = self.places.iter().filter(|queue| queue.first != NONE).copied().collect();
        let places = (live.len() * 4).next_power_of_two().max(PLACES_MIN);
        self.places.clear();
        self.places.resize(places, VACANT);
        self.taken = live.len();
        for queue in live {
            let place = self.vacant_place(queue.key);
            self.places[place] = queue;
        }
    }

    fn vacant_place(&self, key: u64) -> usize {
        let mask = self.places.len() - 1;
        let mut place = self.hash(key) & mask;
        while self.places[place].taken {
            place = (place + 1) & mask;
        }
        place
    }

    /// The upper half of a product depends on all bits of the key.
    #[inline]
    fn hash(&self, key: u64) -> usize {
        ((key ^ key >> 32).wrapping_mul(self.multiplier) >> 32) as usize
    }
}
