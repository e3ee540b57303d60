//! What a life that ended had moved of the segment that it was cleaning.
//!
//! That segment is the oldest: they are cleaned in their order. Its records that lie behind it as well, byte
//! by byte, live there. Moved once more there would be two of each, both of which live, and with every such
//! end one more: the cleaner would move more and more, and free nothing.

use std::collections::{HashMap, HashSet};

use farcall_disk::Blocks;

use super::format::{Record, records};
use super::recovery::Group;

/// What tells most records of a segment apart.
type Mark = (u64, u64);

/// The records of the oldest segment that lie behind it as well.
#[derive(Debug, Default)]
pub struct Moved {
    segment: Option<u64>,
    /// What the segment has, until all of the log was seen.
    held: HashMap<Mark, Vec<u8>>,
    /// The highest second number of a mark of it: most of what lies behind is newer than all of it.
    newest: u64,
    moved: HashSet<Vec<u8>>,
}

impl Moved {
    /// Looks at a segment; the first one is the oldest.
    pub fn follow(&mut self, segment: u64, groups: &[Group<'_>]) {
        let oldest = *self.segment.get_or_insert(segment);
        // A group whose command goes on may be left out; a survivor is in none.
        let groups = groups.iter().filter(|(header, _)| segment == oldest || !header.continues);
        for record in groups.flat_map(|(_, bytes)| records(bytes).flatten()) {
            let Some(mark) = mark(&record) else { continue };
            if segment == oldest {
                self.newest = self.newest.max(mark.1);
                self.held.insert(mark, encoded(&record));
            } else if mark.1 <= self.newest
                && self.held.get(&mark).is_some_and(|held| *held == encoded(&record))
                && let Some(held) = self.held.remove(&mark)
            {
                self.moved.insert(held);
            }
        }
    }

    /// All of the log was seen.
    pub fn end(&mut self) {
        self.held = HashMap::new();
    }

    /// Whether a record of this segment lies behind it as well.
    pub fn has(&self, segment: u64, record: &Record<'_>) -> bool {
        self.segment == Some(segment) && !self.moved.is_empty() && self.moved.contains(&encoded(record))
    }
}

fn encoded(record: &Record<'_>) -> Vec<u8> {
    let mut bytes = Blocks::new();
    record.encode(&mut bytes);
    bytes.to_vec()
}

/// The mark of a record that the cleaner may move.
fn mark(record: &Record<'_>) -> Option<Mark> {
    match *record {
        Record::Put { table, version, .. }
        | Record::PutUntil { table, version, .. }
        | Record::Long { table, version, .. }
        | Record::Collection { table, version, .. } => Some((table, version)),
        Record::Element { number, stamp, .. } => Some((number, stamp)),
        Record::Piece { id, stamp, .. } => Some((id, stamp)),
        Record::Client { client } => Some((client, 0)),
        Record::Result { client, sequence, .. } => Some((client, sequence)),
        _ => None,
    }
}
