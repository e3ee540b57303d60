//! Walks: the objects of a table, in the order of their hashes and, where two have one hash, of their keys.
//!
//! A walk is cut into pages. A page begins at a hash, or behind a key that the page before has met, and says
//! where the next one begins. Neither hashes nor keys change, so a walk meets every object that exists all
//! the while exactly once, however much is written, deleted, moved or indexed again meanwhile. A page is
//! bounded by the entries that it looks at and by its bytes, whatever the keys are: a table may have few
//! objects among many of others.

use super::entry::{Entry, Kind};
use super::index::Slot;
use super::log::Log;

/// Where a page begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScanFrom<'a> {
    /// At the lowest hash that is not lower than this. 0 is the start of a scan.
    Hash(u64),
    /// Behind the object with this key, which need not exist any more.
    After(&'a [u8]),
}

/// Where the next page begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScanNext {
    /// The table has no more objects.
    End,
    /// At this hash. It says nothing of what an object's hash is, but for the upper bits.
    Hash(u64),
    /// Behind the last object of this page.
    AfterLast,
}

/// The most that a page may have and cost.
#[derive(Clone, Copy, Debug)]
pub struct PageLimits {
    /// Bytes of keys and values, or one object.
    pub bytes: usize,
    /// Entries looked at, give or take those of a cell.
    pub looks: usize,
}

/// A part of the index is walked in this many steps at most, as a power of two: cells, of neighbouring
/// hashes.
const CELL_BITS: u32 = 8;

/// Parts of the index that cost as much as the look at an entry.
const PARTS_PER_LOOK: usize = 8;

/// The hash and the key behind which a walk begins.
#[derive(Clone, Copy)]
pub struct Start<'a> {
    pub hash: u64,
    /// With a key, objects of that hash with this key or a lower one are left out.
    pub after: Option<&'a [u8]>,
}

/// Calls `visit` with the objects of a page of the table that has this number in entries, those that are
/// wanted.
pub fn walk<'a>(
    log: &'a Log,
    (table, is_wanted): (u32, impl Fn(&Entry<'_>) -> bool),
    start: Start<'_>,
    limits: PageLimits,
    mut visit: impl FnMut(Slot, Entry<'a>),
) -> ScanNext {
    let (mut at, mut costs, mut bytes) = (start.hash, 0, None);
    loop {
        let part = log.part_of(at);
        let end = cells_end(log, part, at, limits.looks);
        for (slot, entry) in objects_between(log, table, part, (at, end), &mut costs) {
            let is_met = slot.hash == start.hash && start.after.is_some_and(|after| entry.key() <= after);
            if is_met || !is_wanted(&entry) {
                continue;
            }
            let with_it = bytes.unwrap_or(0) + entry.key().len() + entry.value_bytes();
            if bytes.is_some() && with_it > limits.bytes {
                return ScanNext::AfterLast;
            }
            bytes = Some(with_it);
            visit(slot, entry);
        }
        let Some(end) = end else { return ScanNext::End };
        if costs >= limits.looks * PARTS_PER_LOOK {
            return ScanNext::Hash(end);
        }
        at = end;
    }
}

/// The end of the cells that are looked at together from `at`, a hash of `part`: about as many entries as a
/// page may look at, or the rest of the part. `None` when there is no higher hash.
fn cells_end(log: &Log, part: usize, at: u64, looks: usize) -> Option<u64> {
    let part_bits = log.part_bits();
    let cell_shift = u64::BITS - part_bits - CELL_BITS;
    let cells = ((looks << CELL_BITS) / log.part_len(part).max(1)).clamp(1, 1 << CELL_BITS) as u64;
    let cell = (at >> cell_shift) & ((1 << CELL_BITS) - 1);
    let end_cell = (cell + cells).min(1 << CELL_BITS) + ((part as u64) << CELL_BITS);
    let is_last = end_cell >> (part_bits + CELL_BITS) != 0;
    (!is_last).then(|| end_cell << cell_shift)
}

/// The objects of a table with hashes from one up to below another, in order; adds to `costs` what it takes
/// to find them.
fn objects_between<'a>(
    log: &'a Log,
    table: u32,
    part: usize,
    (from, end): (u64, Option<u64>),
    costs: &mut usize,
) -> Vec<(Slot, Entry<'a>)> {
    let is_between = |slot: &&Slot| slot.hash >= from && end.is_none_or(|end| slot.hash < end);
    let mut looks = 0;
    let look = |slot: &Slot| {
        looks += 1;
        let entry = log.entry(slot.place);
        (entry.table() == table && entry.kind() != Kind::Chunk).then_some((*slot, entry))
    };
    let mut objects: Vec<_> = log.part(part).filter(is_between).filter_map(look).collect();
    objects.sort_unstable_by(|(slot, entry), (other, other_entry)| {
        slot.hash.cmp(&other.hash).then_with(|| entry.key().cmp(other_entry.key()))
    });
    *costs += 1 + looks * PARTS_PER_LOOK;
    objects
}

#[cfg(test)]
mod tests {
    use farcall_base::SipKey;

    use super::super::MEMORY_BYTES_MIN;
    use super::super::entry::{NewEntry, Tail};
    use super::super::hashes::Hashes;
    use super::super::log::SAME_HASH_MAX;
    use super::*;

    #[test]
    fn objects_of_one_secret_hash_are_on_pages_of_their_own_if_they_are_long() {
        let mut log = Log::new(MEMORY_BYTES_MIN, Hashes::new(SipKey([1, 2]))).expect("memory");
        const HASH: u64 = u64::MAX;
        for number in (0..SAME_HASH_MAX as u8).rev() {
            let (kind, key, body) = (Kind::Whole, &[number], &[0; 100]);
            let entry = NewEntry { kind, table: 1, key, version: 1, body, tail: Tail::default() };
            log.prepare(entry.bytes()).expect("room");
            log.add(HASH, &entry).expect("one of the first");
        }
        let (mut start, mut seen) = (Start { hash: 0, after: None }, Vec::new());
        loop {
            let mut page = Vec::new();
            let limits = PageLimits { bytes: 250, looks: 8 };
            match walk(&log, (1, |_| true), start, limits, |_, entry| page.push(entry.key())) {
                ScanNext::End => break seen.extend(page),
                ScanNext::Hash(hash) => start = Start { hash, after: None },
                ScanNext::AfterLast => start = Start { hash: HASH, after: page.last().copied() },
            }
            assert!(page.len() <= 2, "{} objects of 101 bytes", page.len());
            seen.extend(page);
        }
        let expected: Vec<_> = (0..SAME_HASH_MAX as u8).map(|number| vec![number]).collect();
        assert_eq!(seen, expected);
    }
}
