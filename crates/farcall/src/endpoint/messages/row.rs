//! What is filled one after the other and dealt with together.

use core::mem::{forget, replace, take};

/// Places that stay where they are while they are filled, and whose memory is kept for the next. Only
/// pointers to them move.
#[derive(Debug)]
pub struct Row<T> {
    places: Places<T>,
    /// How many of them are filled: the first ones.
    filled: usize,
    /// Memory for what comes while others are dealt with.
    spare: Option<Places<T>>,
}

/// A vector is three words, which would be moved with stalls.
type Places<T> = Box<Vec<T>>;

/// What was filled.
pub struct Taken<T> {
    pub places: Places<T>,
    /// How many of the places: the first ones.
    pub filled: usize,
}

impl<T> Default for Row<T> {
    fn default() -> Self {
        Self { places: Box::default(), filled: 0, spare: None }
    }
}

impl<T: Default> Row<T> {
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.filled == 0
    }

    /// The place that is filled next. It counts when [`Row::fill`] fills it.
    #[inline(always)]
    pub fn vacant(&mut self) -> &mut T {
        if self.filled == self.places.len() {
            self.grow();
        }
        &mut self.places[self.filled]
    }

    #[cold]
    fn grow(&mut self) {
        self.places.push(T::default());
    }

    #[inline(always)]
    pub fn fill(&mut self, fill: impl FnOnce(&mut T)) {
        fill(self.vacant());
        self.filled += 1;
    }

    /// What was filled, which is not from now on; `None` when nothing was. [`Row::give_back`] follows.
    #[inline]
    pub fn take(&mut self) -> Option<Taken<T>> {
        if self.is_empty() {
            return None;
        }
        let spare = self.spare.take().unwrap_or_default();
        Some(Taken { places: replace(&mut self.places, spare), filled: take(&mut self.filled) })
    }

    /// Takes the memory back.
    #[inline]
    pub fn give_back(&mut self, places: Places<T>) {
        // Nothing took its place: a drop would look.
        forget(self.spare.replace(places));
    }
}
