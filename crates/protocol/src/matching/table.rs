//! From the key of a queue to its two ends.
//!
//! Open addressing with linear probing, never more than half full. A queue that has become empty keeps its place, so
//! that the common case, a tag used again and again, neither inserts nor removes anything; places are given up when the
//! table is rebuilt, which happens after at least as many insertions as it has places left.

/// No node.
pub const NONE: u32 = u32::MAX;

/// What a place has instead of a first node when no queue has taken it. No node has this number either, so that who looks
/// for a node need not tell the two apart.
const VACANT: u32 = u32::MAX - 1;

/// The fractional part of the golden ratio: a multiplier that spreads neighbouring keys, whatever the seed.
const GOLDEN_RATIO: u64 = 0x9e37_79b9_7f4a_7c15;

/// The fewest places.
const PLACES_MIN: usize = 16;

#[derive(Clone, Copy, Debug)]
pub struct Queue {
    key: u64,
    /// No node when the queue is empty.
    pub first: u32,
    pub last: u32,
}

const VACANT_PLACE: Queue = Queue { key: 0, first: VACANT, last: NONE };

impl Queue {
    #[inline]
    fn is_taken(&self) -> bool {
        self.first != VACANT
    }

    /// Whether it is a queue that has nodes.
    #[inline]
    pub fn has_nodes(&self) -> bool {
        self.first < VACANT
    }
}

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
        Self { places: vec![VACANT_PLACE; PLACES_MIN], taken: 0, multiplier: (seed ^ GOLDEN_RATIO) | 1 }
    }

    /// The place of the queue of `key`, or else the one that it would take.
    #[inline(always)]
    fn find(&self, key: u64) -> usize {
        let mask = self.places.len() - 1;
        let mut place = self.hash(key) & mask;
        loop {
            let queue = &self.places[place];
            if queue.key == key || !queue.is_taken() {
                return place;
            }
            place = (place + 1) & mask;
        }
    }

    /// The queue of `key`, to take nodes out. That of a key which has none is without nodes.
    #[inline(always)]
    pub fn queue(&mut self, key: u64) -> &mut Queue {
        let place = self.find(key);
        &mut self.places[place]
    }

    /// The queue of `key` if it has one, to put nodes in.
    #[inline(always)]
    pub fn taken(&mut self, key: u64) -> Option<&mut Queue> {
        let place = self.find(key);
        let queue = &mut self.places[place];
        queue.is_taken().then_some(queue)
    }

    /// The first node of the queue of `key`, or none.
    #[inline]
    pub fn first(&self, key: u64) -> u32 {
        self.places[self.find(key)].first
    }

    #[cfg(test)]
    pub fn places(&self) -> usize {
        self.places.len()
    }

    /// Gives `key`, which has none, a queue.
    pub fn take(&mut self, key: u64) {
        if (self.taken + 1) * 2 > self.places.len() {
            self.rebuild();
        }
        self.taken += 1;
        let place = self.find(key);
        self.places[place] = Queue { key, first: NONE, last: NONE };
    }

    fn rebuild(&mut self) {
        let live: Vec<Queue> = self.places.iter().filter(|queue| queue.has_nodes()).copied().collect();
        let places = (live.len() * 4).next_power_of_two().max(PLACES_MIN);
        self.places.clear();
        self.places.resize(places, VACANT_PLACE);
        self.taken = live.len();
        for queue in live {
            let place = self.find(queue.key);
            self.places[place] = queue;
        }
    }

    /// The upper half of a product depends on all bits of the key.
    #[inline]
    fn hash(&self, key: u64) -> usize {
        ((key ^ key >> 32).wrapping_mul(self.multiplier) >> 32) as usize
    }
}
