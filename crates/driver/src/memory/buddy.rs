//! Which parts of the block memory are in use: a buddy allocator over offsets.
//!
//! All of its state is private to the process, so no peer can damage it. Blocks have power-of-two sizes;
//! freeing merges a block with its buddy at once, and allocation takes the half with the lower offset, so
//! that what is free stays in few, long pieces. What is freed last is used first; whether that is best is for
//! the caller, who may let a block rest (`resting.rs`) before it is freed.

/// The smallest block: a page.
pub const BLOCK_BYTES_MIN: usize = 4096;

/// Who has a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    /// A loan in this process.
    Local,
    /// The peer of this lane.
    Peer(u32),
    /// Nobody: it came back, and rests.
    Resting,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    /// The first unit of a free block of this order.
    Free(u8),
    /// The first unit of a block in use.
    Used(u8, Holder),
    /// Not the first unit of any block.
    Interior,
}

/// The allocator. Offsets and sizes are in bytes.
#[derive(Debug)]
pub struct Buddy {
    /// One entry for each unit of `BLOCK_BYTES_MIN`.
    units: Vec<Unit>,
    /// The first units of the free blocks of each order; entries whose block has changed since are skipped.
    free: Vec<Vec<u32>>,
}

impl Buddy {
    /// An allocator over `bytes` bytes, a power of two of at least one block.
    pub fn new(bytes: usize) -> Self {
        assert!(
            bytes.is_power_of_two() && bytes >= BLOCK_BYTES_MIN,
            "block memory has a power of two of bytes"
        );
        let units = bytes / BLOCK_BYTES_MIN;
        let top = units.trailing_zeros() as usize;
        let mut buddy = Self { units: vec![Unit::Interior; units], free: vec![Vec::new(); top + 1] };
        buddy.put_free(0, top);
        buddy
    }

    /// The offset of a block of at least `bytes` bytes, held locally; `None` when no such block is free.
    pub fn allocate(&mut self, bytes: usize) -> Option<usize> {
        let order = order_of(bytes);
        let mut available = (order..self.free.len()).find(|&order| self.has_free(order))?;
        let unit = self.free[available].pop().expect("an order that has a free block") as usize;
        while available > order {
            available -= 1;
            self.put_free(unit + (1 << available), available);
        }
        self.units[unit] = Unit::Used(order as u8, Holder::Local);
        Some(unit * BLOCK_BYTES_MIN)
    }

    /// Passes the block at `offset` from its local holder to a peer.
    pub fn lend(&mut self, offset: usize, lane: u32) {
        let unit = &mut self.units[offset / BLOCK_BYTES_MIN];
        let Unit::Used(order, Holder::Local) = *unit else { panic!("only a local loan can be lent") };
        *unit = Unit::Used(order, Holder::Peer(lane));
    }

    /// Takes the block at `offset` from the peer of a lane, so that it rests; says how long it is, or `None`
    /// if that peer did not have it.
    pub fn take_back(&mut self, offset: u64, lane: u32) -> Option<usize> {
        let order = self.order_held(offset, Holder::Peer(lane))?;
        self.units[offset as usize / BLOCK_BYTES_MIN] = Unit::Used(order, Holder::Resting);
        Some(BLOCK_BYTES_MIN << order)
    }

    /// Gives the block at `offset`, which rests, to a local holder.
    pub fn take_rested(&mut self, offset: usize) {
        let unit = &mut self.units[offset / BLOCK_BYTES_MIN];
        let Unit::Used(order, Holder::Resting) = *unit else { panic!("it rests") };
        *unit = Unit::Used(order, Holder::Local);
    }

    /// Frees the block at `offset` if `holder` has it; says whether it had.
    pub fn free(&mut self, offset: u64, holder: Holder) -> bool {
        let order = self.order_held(offset, holder);
        if let Some(order) = order {
            self.merge(offset as usize / BLOCK_BYTES_MIN, order.into());
        }
        order.is_some()
    }

    /// Frees every block that `holder` has.
    pub fn free_all(&mut self, holder: Holder) {
        for unit in 0..self.units.len() {
            if matches!(self.units[unit], Unit::Used(_, who) if who == holder) {
                self.free((unit * BLOCK_BYTES_MIN) as u64, holder);
            }
        }
    }

    /// Whether nothing is in use.
    #[cfg(test)]
    pub fn is_idle(&self) -> bool {
        self.units[0] == Unit::Free(self.free.len() as u8 - 1)
    }

    /// The order of the block at `offset`, if `holder` has it.
    fn order_held(&self, offset: u64, holder: Holder) -> Option<u8> {
        let unit = usize::try_from(offset / BLOCK_BYTES_MIN as u64).ok()?;
        match self.units.get(unit) {
            Some(&Unit::Used(order, who))
                if who == holder && offset.is_multiple_of(BLOCK_BYTES_MIN as u64) =>
            {
                Some(order)
            }
            _ => None,
        }
    }

    fn merge(&mut self, mut unit: usize, mut order: usize) {
        self.units[unit] = Unit::Interior;
        while order + 1 < self.free.len() {
            let buddy = unit ^ (1 << order);
            if self.units[buddy] != Unit::Free(order as u8) {
                break;
            }
            self.units[buddy] = Unit::Interior;
            self.forget(buddy, order);
            unit &= !(1 << order);
            order += 1;
        }
        self.put_free(unit, order);
    }

    fn put_free(&mut self, unit: usize, order: usize) {
        self.units[unit] = Unit::Free(order as u8);
        self.free[order].push(unit as u32);
    }

    /// Takes a block that was just merged away off its list. It is usually the one that was put there last.
    fn forget(&mut self, unit: usize, order: usize) {
        let list = &mut self.free[order];
        let place = list.iter().rposition(|&entry| entry as usize == unit).expect("free blocks are listed");
        list.swap_remove(place);
    }

    fn has_free(&self, order: usize) -> bool {
        !self.free[order].is_empty()
    }
}

/// How long the block is that is allocated for so many bytes.
pub fn block_bytes_for(bytes: usize) -> usize {
    BLOCK_BYTES_MIN << order_of(bytes)
}

fn order_of(bytes: usize) -> usize {
    bytes.div_ceil(BLOCK_BYTES_MIN).max(1).next_power_of_two().trailing_zeros() as usize
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn blocks_never_overlap_and_all_memory_comes_back(
            steps in proptest::collection::vec((any::<bool>(), 0usize..100_000, any::<prop::sample::Index>()), 1..300),
        ) {
            let total = 1 << 20;
            let mut buddy = Buddy::new(total);
            let mut live: Vec<(usize, usize)> = Vec::new();
            for (allocate, bytes, which) in steps {
                if allocate {
                    if let Some(offset) = buddy.allocate(bytes) {
                        let end = offset + bytes.max(1);
                        prop_assert!(end <= total);
                        prop_assert!(live.iter().all(|&(start, stop)| end <= start || stop <= offset));
                        live.push((offset, end));
                    }
                } else if !live.is_empty() {
                    let (offset, _) = live.swap_remove(which.index(live.len()));
                    prop_assert!(buddy.free(offset as u64, Holder::Local));
                    prop_assert!(!buddy.free(offset as u64, Holder::Local), "a block is freed once");
                }
            }
            for (offset, _) in live {
                buddy.free(offset as u64, Holder::Local);
            }
            prop_assert!(buddy.is_idle());
        }
    }

    #[test]
    fn only_the_holder_can_free_a_block() {
        let mut buddy = Buddy::new(1 << 16);
        let offset = buddy.allocate(5000).expect("room");
        buddy.lend(offset, 7);
        assert!(!buddy.free(offset as u64, Holder::Local));
        assert!(!buddy.free(offset as u64, Holder::Peer(8)));
        assert!(!buddy.free(offset as u64 + 1, Holder::Peer(7)));
        assert!(!buddy.free(u64::MAX, Holder::Peer(7)));
        assert_eq!(buddy.take_back(offset as u64, 8), None);
        buddy.free_all(Holder::Peer(7));
        assert!(buddy.is_idle());
    }

    #[test]
    fn a_block_is_taken_back_once_and_rests_until_it_is_freed() {
        let mut buddy = Buddy::new(1 << 16);
        let offset = buddy.allocate(5000).expect("room");
        assert_eq!(buddy.take_back(offset as u64, 7), None, "it was not lent");
        buddy.lend(offset, 7);
        assert_eq!(buddy.take_back(offset as u64, 7), Some(8192));
        assert_eq!(buddy.take_back(offset as u64, 7), None);
        buddy.free_all(Holder::Peer(7));
        assert!(!buddy.is_idle());
        assert!(buddy.free(offset as u64, Holder::Resting));
        assert!(buddy.is_idle());
    }

    #[test]
    fn full_memory_is_reported() {
        let mut buddy = Buddy::new(1 << 14);
        assert!(buddy.allocate(1 << 15).is_none());
        assert!(buddy.allocate(1 << 14).is_some());
        assert!(buddy.allocate(1).is_none());
    }
}
