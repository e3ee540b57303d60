//! From any key of a queue to its two ends.
//!
//! Open addressing with linear probing, never more than half full. A queue that has become empty keeps its
//! place, so that the common case, a tag used again and again, neither inserts nor removes anything; places
//! are given up when the table is rebuilt, which happens after at least as many insertions as it has places
//! left.

use farcall_base::SipKey;

use super::ends::{Ends, NONE, VACANT};
use super::page::FAMILY;

/// The fractional part of the golden ratio: of its multiples, however many, no two are much closer than the
/// others. Few other multipliers are like that. With one that is drawn at random, one endpoint in ten looks
/// at two places or more for each of a thousand neighbouring tags, for all its life, and one in fifty at nine
/// or more.
const GOLDEN_RATIO: u64 = 0x9e37_79b9_7f4a_7c15;

/// The fewest places.
const PLACES_MIN: usize = 16;

/// The queue of a key, or what stands for none.
#[derive(Clone, Copy, Debug)]
struct Place {
    key: u64,
    ends: Ends,
}

const VACANT_PLACE: Place = Place { key: 0, ends: Ends { first: VACANT, last: NONE } };

impl Place {
    #[inline]
    fn is_taken(&self) -> bool {
        self.ends.first != VACANT
    }
}

/// The ends of queues.
#[derive(Debug)]
pub struct Hashed {
    places: Vec<Place>,
    taken: usize,
    /// A secret, so that no peer knows which keys share a place.
    secret: SipKey,
    /// Leaves a hash as many bits as there are in the number of a place.
    shift: u32,
    /// The first key of the family of the one that got a queue last, and where that family begins: most keys
    /// are of one.
    last_family: (u64, u64),
}

impl Hashed {
    /// No queues.
    pub fn new(secret: SipKey) -> Self {
        let places = vec![VACANT_PLACE; PLACES_MIN];
        let last_family = (0, secret.hash(0));
        Self { places, taken: 0, secret, shift: shift_for(PLACES_MIN), last_family }
    }

    /// The place of the queue of `key`, or else the one that it would take.
    #[inline(always)]
    fn find(&self, key: u64) -> usize {
        let mask = self.places.len() - 1;
        let mut place = self.first_place(key);
        loop {
            let found = &self.places[place];
            if found.key == key || !found.is_taken() {
                return place;
            }
            place = (place + 1) & mask;
        }
    }

    /// The queue of `key`, to take nodes out. That of a key which has none is without nodes.
    #[inline(always)]
    pub fn queue(&mut self, key: u64) -> &mut Ends {
        let place = self.find(key);
        &mut self.places[place].ends
    }

    /// The queue of `key` if it has one, to put nodes in.
    #[inline(always)]
    pub fn taken(&mut self, key: u64) -> Option<&mut Ends> {
        let place = self.find(key);
        let place = &mut self.places[place];
        place.is_taken().then_some(&mut place.ends)
    }

    /// The first node of the queue of `key`, or none.
    #[inline]
    pub fn first(&self, key: u64) -> u32 {
        self.places[self.find(key)].ends.first
    }

    #[cfg(test)]
    pub fn places(&self) -> usize {
        self.places.len()
    }

    /// Gives `key`, which has none, a queue.
    pub fn take(&mut self, key: u64) {
        if (self.taken + 1) * 2 > self.places.len() {
            self.rebuild(|_| true);
        }
        self.taken += 1;
        let family = key / FAMILY;
        self.last_family = (family * FAMILY, self.secret.hash(family));
        let place = self.find(key);
        self.places[place] = Place { key, ends: Ends::EMPTY };
    }

    /// Takes the queues of a family out: calls `keep` with each that has nodes.
    pub fn take_out(&mut self, family: u64, mut keep: impl FnMut(u64, Ends)) {
        let is_of_it = |place: &&Place| place.key / FAMILY == family && place.ends.has_nodes();
        self.places.iter().filter(is_of_it).for_each(|place| keep(place.key, place.ends));
        self.rebuild(|key| key / FAMILY != family);
    }

    /// Gives up the places of queues that have no nodes, or that are not to stay.
    fn rebuild(&mut self, stays: impl Fn(u64) -> bool) {
        let is_live = |place: &&Place| place.ends.has_nodes() && stays(place.key);
        let live: Vec<Place> = self.places.iter().filter(is_live).copied().collect();
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

    /// Where the search for a key begins: neighbours far from each other, and each family where only the
    /// secret says. Of a family's keys, which everybody can tell apart, no more are close than evenly spread
    /// ones.
    #[inline(always)]
    fn first_place(&self, key: u64) -> usize {
        let (first_of_last, last_beginning) = self.last_family;
        let (neighbour, beginning) = match key.wrapping_sub(first_of_last) {
            neighbour @ 0..FAMILY => (neighbour, last_beginning),
            _ => (key % FAMILY, self.secret.hash(key / FAMILY)),
        };
        (neighbour.wrapping_mul(GOLDEN_RATIO).wrapping_add(beginning) >> self.shift) as usize
    }
}

/// For a power of two of places.
const fn shift_for(places: usize) -> u32 {
    u64::BITS - places.ilog2()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The most and the mean of places that are looked at to find each of the keys.
    fn looks(secret: SipKey, keys: &[u64]) -> (usize, f64) {
        let mut table = Hashed::new(secret);
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
            let (most, mean) = looks(SipKey([seed, 0]), &tags);
            assert!(most <= 2 && mean < 1.1, "seed {seed:#x}: {most} places at most, {mean} in the mean");
        }
    }

    #[test]
    fn keys_that_share_a_place_under_one_secret_share_none_under_its_neighbour() {
        let (known, actual) = (SipKey([7, 0]), SipKey([7 | 1 << 63, 0]));
        // Each of another family, all of which begin in the same 1024th part of the table.
        let begin_together = |family: &u64| known.hash(*family) >> 54 == 5;
        let chosen: Vec<u64> = (1..).filter(begin_together).take(256).map(|family| family * FAMILY).collect();
        let ((_, shared), (_, apart)) = (looks(known, &chosen), looks(actual, &chosen));
        assert!(shared > 50.0 && apart < 2.5, "{shared} places in the mean, and {apart}");
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
                let (_, mean) = looks(SipKey([seed, 0]), keys);
                assert!(mean < 2.5, "seed {seed:#x}, {pattern}: {mean} places in the mean");
            }
        }
    }
}
