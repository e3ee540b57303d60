//! Scans: the objects of a table in pages, in the order of the hashes of their keys.
//!
//! A page begins at a hash and says at which hash the next one begins. Hashes do not change, so a scan meets
//! every object that exists all the while exactly once, however much is written, deleted, moved or indexed
//! again meanwhile.

use super::entry::Kind;
use super::index::Slot;
use super::log::Log;
use super::object::Object;
use crate::TableId;

/// A page ends after the part of the index with the slot of this number, however few objects it has: a table
/// may have a few objects among many of other tables.
const SLOTS_PER_PAGE: usize = 4096;

/// Calls `visit` with the objects of a page that begins at the hash `from` and has at most `page_bytes` of
/// keys and values, or one object. Objects with the same hash are always on one page. Gives the hash at which
/// the next page begins; `None` when this was the last.
pub fn scan<'a>(
    log: &'a Log,
    table: TableId,
    from: u64,
    page_bytes: usize,
    mut visit: impl FnMut(Object<'a>),
) -> Option<u64> {
    let (mut slots_seen, mut bytes) = (0, 0);
    let mut last_visited = None;
    for part in log.part_of(from)..log.parts() {
        let mut slots: Vec<Slot> = log.part(part).filter(|slot| slot.hash >= from).copied().collect();
        slots_seen += slots.len();
        slots.retain(|slot| {
            let entry = log.entry(slot.place);
            entry.table() == table && entry.kind() != Kind::Chunk
        });
        slots.sort_unstable_by_key(|slot| slot.hash);
        for slot in slots {
            let object = Object::new(log, log.entry(slot.place));
            let object_bytes = object.key().len() + object.value_bytes();
            let same_hash = last_visited == Some(slot.hash);
            if last_visited.is_some() && !same_hash && bytes + object_bytes > page_bytes {
                return Some(slot.hash);
            }
            bytes += object_bytes;
            last_visited = Some(slot.hash);
            visit(object);
        }
        if slots_seen >= SLOTS_PER_PAGE && part + 1 < log.parts() {
            return Some(((part + 1) as u64) << (64 - log.parts().ilog2()));
        }
    }
    None
}
