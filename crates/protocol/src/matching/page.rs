//! Queues of neighbouring keys, side by side.

use super::ends::Ends;

/// This many keys are neighbours, such as a program's tags.
pub const FAMILY: u64 = 1 << 10;

/// The queues of a family.
#[derive(Debug, Default)]
pub struct Page {
    first_key: u64,
    /// Nothing in a page of no family.
    queues: Vec<Ends>,
}

/// As a [`Page`], where the two words that are looked at for each key are borrowed once.
pub struct Open<'p> {
    first_key: u64,
    queues: &'p mut [Ends],
}

impl Page {
    /// Whether it is a page of no family.
    pub fn is_blank(&self) -> bool {
        self.queues.is_empty()
    }

    /// Whether no queue has nodes.
    pub fn is_idle(&self) -> bool {
        !self.queues.iter().any(|queue| queue.has_nodes())
    }

    /// Whether the keys of the family have that upper half.
    #[inline(always)]
    pub fn has_upper_half_of(&self, key: u64) -> bool {
        self.first_key >> 32 == key >> 32
    }

    /// Becomes the page of a family, whose queues have no nodes.
    pub fn turn_to(&mut self, family: u64) {
        self.first_key = family * FAMILY;
        self.queues.clear();
        self.queues.resize(FAMILY as usize, Ends::EMPTY);
    }

    /// The queue of `key`, if it is here.
    #[inline(always)]
    pub fn get(&self, key: u64) -> Option<&Ends> {
        self.queues.get(place(self.first_key, key))
    }

    /// The queue of `key`, if it is here.
    #[inline(always)]
    pub fn get_mut(&mut self, key: u64) -> Option<&mut Ends> {
        self.queues.get_mut(place(self.first_key, key))
    }

    #[inline(always)]
    pub fn open(&mut self) -> Open<'_> {
        Open { first_key: self.first_key, queues: &mut self.queues }
    }
}

impl Open<'_> {
    /// The queue of `key`, if it is here.
    #[inline(always)]
    pub fn get_mut(&mut self, key: u64) -> Option<&mut Ends> {
        self.queues.get_mut(place(self.first_key, key))
    }
}

/// Where the queue of `key` is, or else more than there are.
#[inline(always)]
fn place(first_key: u64, key: u64) -> usize {
    usize::try_from(key.wrapping_sub(first_key)).unwrap_or(usize::MAX)
}
