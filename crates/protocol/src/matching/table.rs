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

/// The fractional part of the golden ratio: of its multiples, however many, no two are much closer than the others. Few other
/// multipliers are like that. With one that is drawn at random, one endpoint in ten looks at two places or more for each of a
/// thousand neighbouring tags, for all its life, and one in fifty at nine or more.
const GOLDEN_RATIO: u64 = 0x9e37_79b9_7f4a_7c15;

/// So many keys are neighbours, such as a program's tags.
const FAMILY: u64 = 1 << 10;

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
    /// Drawn at random, so that nobody knows which keys share a place.
    seed: u64,
    /// Leaves a hash as many bits as there are in the number of a place.
    shift: u32,
    /// The first key of the family of the one that got a queue last, and where that family begins: most keys are of one.
    last_family: (u64, u64),
}

impl Table {
    /// A table without queues.
    pub fn new(seed: u64) -> Self {
        let places = vec![VACANT_PLACE; PLACES_MIN];
        let last_family = (0, beginning_of(0, seed));
        Self { places, taken: 0, seed, shift: shift_for(PLACES_MIN), last_family }
    }

    /// The place of the queue of `key`, or else the one that it would take.
    #[inline(always)]
    fn find(&self, key: u64) -> usize {
        let mask = self.places.len() - 1;
        let mut place = self.first_place(key);
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
        let family = key / FAMILY;
        self.last_family = (family * FAMILY, beginning_of(family, self.seed));
        let place = self.find(key);
        self.places[place] = Queue { key, first: NONE, last: NONE };
    }

    fn rebuild(&mut self) {
        let live: Vec<Queue> = self.places.iter().filter(|queue| queue.has_nodes()).copied().collect();
        let places = (live.len() * 4).next_power_of_two().max(PLACES_MIN);
        self.places.clear();
        self.places.resize(places, VACANT_PLACE);
        self.shift = shift_for(places);
        self.taken = live.len();
        for queue in live {
            let place = self.find(queue.key);
            self.places[place] = queue;
        }
    }

    /// Where the search for a key begins: neighbours far from each other, and each family anywhere.
    #[inline(always)]
    fn first_place(&self, key: u64) -> usize {
        let (first_of_last, last_beginning) = self.last_family;
        let (neighbour, beginning) = match key.wrapping_sub(first_of_last) {
            neighbour @ 0..FAMILY => (neighbour, last_beginning),
            _ => (key % FAMILY, beginning_of(key / FAMILY, self.seed)),
        };
        (neighbour.wrapping_mul(GOLDEN_RATIO).wrapping_add(beginning) >> self.shift) as usize
    }
}

/// Where a family of neighbours begins. The upper bits of a product depend on all bits of its factors, so the second time all
/// of its bits do.
fn beginning_of(family: u64, seed: u64) -> u64 {
    let product = (family ^ seed).wrapping_mul(GOLDEN_RATIO);
    (product ^ product >> 32).wrapping_mul(GOLDEN_RATIO)
}

/// For a power of two of places.
const fn shift_for(places: usize) -> u32 {
    u64::BITS - places.ilog2()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The most and the mean of places that are looked at to find each of the keys.
    fn looks(seed: u64, keys: &[u64]) -> (usize, f64) {
        let mut table = Table::new(seed);
        for (node, &key) in keys.iter().enumerate() {
            table.take(key);
            // Queues without nodes do not stay.
            table.queue(key).first = node as u32;
        }
        let places = table.places.len();
        let of = |&key: &u64| (table.find(key) + places - table.first_place(key)) % places + 1;
        let all: Vec<usize> = keys.iter().map(of).collect();
        (all.iter().copied().max().unwrap_or(0), all.iter().sum::<usize>() as f64 / all.len() as f64)
    }

    fn seeds() -> impl Iterator<Item = u64> {
        (1..=200_u64).map(|number| number.wrapping_mul(0xd134_2543_de82_ef95))
    }

    #[test]
    fn neighbouring_tags_are_found_at_once_whatever_the_seed() {
        for seed in seeds() {
            let source = seed >> 8 << 32;
            let tags: Vec<u64> = (0..1000).map(|tag| source | tag).collect();
            let (most, mean) = looks(seed, &tags);
            assert!(most <= 2 && mean < 1.1, "seed {seed:#x}: {most} places at most, {mean} in the mean");
        }
    }

    #[test]
    fn keys_of_other_patterns_are_found_soon_whatever_the_seed() {
        let keys = |key: fn(u64) -> u64| (0..1000).map(key).collect::<Vec<u64>>();
        let patterns = [
            ("a tag of each source", keys(|number| (number << 32) | 7)),
            ("ten tags of each source", keys(|number| ((number / 10) << 32) | (number % 10))),
            ("every 64th tag", keys(|number| number * 64)),
            ("every 1000th tag", keys(|number| number * 1000)),
            ("every 1024th tag", keys(|number| number * 1024)),
        ];
        for seed in seeds() {
            for (pattern, keys) in &patterns {
                let (_, mean) = looks(seed, keys);
                assert!(mean < 2.5, "seed {seed:#x}, {pattern}: {mean} places in the mean");
            }
        }
    }
}
