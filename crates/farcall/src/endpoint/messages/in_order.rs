//! Things that wait for their turn, the oldest first.

/// A queue that is filled, then emptied, and keeps its memory.
pub struct InOrder<T> {
    places: Vec<Option<T>>,
    filled: usize,
    taken: usize,
}

impl<T> Default for InOrder<T> {
    fn default() -> Self {
        Self { places: Vec::new(), filled: 0, taken: 0 }
    }
}

impl<T> InOrder<T> {
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.taken == self.filled
    }

    #[inline]
    pub fn len(&self) -> usize {
        self.filled - self.taken
    }

    /// Adds what `make` makes. It is made where it stays: what was put together elsewhere a moment ago is moved with a stall,
    /// because it is read by loads that are wider than the stores it was written by.
    #[inline(always)]
    pub fn push(&mut self, make: impl FnOnce() -> T) {
        if self.filled == self.places.len() {
            self.grow();
        }
        let place = &mut self.places[self.filled];
        self.filled += 1;
        // The place is empty, or else a leak; a drop would look at all of it.
        core::mem::forget(place.replace(make()));
    }

    #[cold]
    fn grow(&mut self) {
        self.places.push(None);
    }

    /// Takes the oldest.
    #[inline]
    pub fn pop(&mut self) -> Option<T> {
        if self.is_empty() {
            return None;
        }
        let oldest = self.places[self.taken].take();
        self.taken += 1;
        if self.is_empty() {
            (self.filled, self.taken) = (0, 0);
        }
        oldest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_comes_first_and_memory_is_used_again() {
        let mut queue = InOrder::default();
        for round in 0..3 {
            assert!(queue.is_empty());
            (0..5).for_each(|number| queue.push(|| (round, number)));
            assert_eq!(queue.len(), 5);
            for number in 0..5 {
                assert_eq!(queue.pop(), Some((round, number)));
            }
        }
        assert_eq!((queue.pop(), queue.places.len()), (None, 5));
    }
}
