//! When objects expire: a queue in the order of time, exact, in bounded memory.
//!
//! Each object that expires has its deadline and its hash here, from when it is written until it is removed
//! or written again, so nothing in the queue is stale. That the next object expires is one look at the front.

use std::collections::BTreeSet;

/// Memory that an element takes at most, with its share of the tree's nodes.
const ELEMENT_BYTES: usize = 48;

/// Memory is counted in steps of this.
const STEP_BYTES: usize = 64 << 10;

/// The deadlines of a store, in milliseconds of its clock.
#[derive(Debug, Default)]
pub struct Deadlines {
    queue: BTreeSet<(u64, u64)>,
}

impl Deadlines {
    /// How many objects expire.
    pub fn count(&self) -> usize {
        self.queue.len()
    }

    /// Bytes that they take, in steps.
    pub fn bytes(&self) -> usize {
        (self.queue.len() * ELEMENT_BYTES).next_multiple_of(STEP_BYTES)
    }

    /// An object with this hash expires then.
    pub fn insert(&mut self, deadline: u64, hash: u64) {
        self.queue.insert((deadline, hash));
    }

    /// No object with this hash expires then any more.
    pub fn remove(&mut self, deadline: u64, hash: u64) {
        self.queue.remove(&(deadline, hash));
    }

    /// The deadlines in their order, and the hashes of their objects.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64)> {
        self.queue.iter().copied()
    }

    /// The first deadline, and the hash of its object.
    #[inline]
    pub fn first(&self) -> Option<(u64, u64)> {
        self.queue.first().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_deadline_comes_first() {
        let mut deadlines = Deadlines::default();
        for (deadline, hash) in [(5, 1), (3, 9), (3, 2), (7, 4)] {
            deadlines.insert(deadline, hash);
        }
        deadlines.remove(3, 2);
        assert_eq!((deadlines.first(), deadlines.count()), (Some((3, 9)), 3));
        assert_eq!(deadlines.bytes(), STEP_BYTES);
    }
}
