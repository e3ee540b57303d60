//! Collections and long values, while a log is read: elements and pieces come apart from what they are of,
//! and not all before the log's end.
//!
//! Elements are gathered here. Pieces go to the store at once, where they take the memory that they took when
//! they were written; those that no object names at the end are removed again.

use std::collections::HashMap;

use farcall_base::SipKey;

use super::format::{Record, records};
use super::log_error::LogError;
use crate::store::{
    Change, Changed, CollectionHeader, Elements, Growth, List, LongHeader, MEMORY_BYTES_MIN, Store,
    WriteError,
};
use crate::{Name, TableId};

/// What a key names that has more than its record.
#[derive(Clone, Copy, Debug)]
enum Named {
    Collection(CollectionHeader),
    Long(LongHeader),
}

impl Named {
    fn version(&self) -> u64 {
        match self {
            Self::Collection(header) => header.version,
            Self::Long(header) => header.version,
        }
    }
}

/// What was read of collections and long values so far.
#[derive(Debug, Default)]
pub struct Rebuilding {
    named: HashMap<(u64, Vec<u8>), Named>,
    elements: HashMap<u64, Elements>,
}

impl Rebuilding {
    /// Takes up what a record says of them.
    pub fn follow(&mut self, record: &Record<'_>) {
        match *record {
            Record::Put { table, version, key, .. }
            | Record::PutUntil { table, version, key, .. }
            | Record::Tombstone { table, version, key } => self.displaced(table, key, version),
            Record::Collection { kind, table, version, deadline, number, key } => {
                let deadline = (deadline != 0).then_some(deadline);
                let header = CollectionHeader { kind, number, version, deadline };
                self.displaced(table, key, version);
                self.named.entry((table, key.to_vec())).or_insert(Named::Collection(header));
            }
            Record::Long { table, version, deadline, id, bytes, key } => {
                let deadline = (deadline != 0).then_some(deadline);
                let header = LongHeader { version, deadline, id, bytes: bytes as usize };
                self.displaced(table, key, version);
                self.named.entry((table, key.to_vec())).or_insert(Named::Long(header));
            }
            Record::Element { number, stamp, name, value } => {
                self.elements.entry(number).or_default().put(stamp, name, value);
            }
            Record::Removed { number, name } => self.elements.entry(number).or_default().remove(name),
            Record::Cut { number, first, end } => self.elements.entry(number).or_default().cut(first, end),
            Record::Drop { table, version } | Record::Cleared { table, version } => {
                self.named.retain(|(of, _), named| *of != table || named.version() > version);
            }
            Record::Table { .. }
            | Record::Segment(_)
            | Record::Retired { .. }
            | Record::Client { .. }
            | Record::Result { .. }
            | Record::Gone { .. }
            | Record::Piece { .. }
            | Record::Ended { .. } => {}
        }
    }

    /// An object of this version takes the place of an older one.
    fn displaced(&mut self, table: u64, key: &[u8], version: u64) {
        // Most tables have none.
        if self.named.is_empty() {
            return;
        }
        let name = (table, key.to_vec());
        if self.named.get(&name).is_some_and(|named| named.version() <= version) {
            self.named.remove(&name);
        }
    }

    /// Whether a name is that of a collection, or of a long value, of a version above this one.
    pub fn is_newer(&self, table: u64, key: &[u8], version: u64) -> bool {
        !self.named.is_empty()
            && self.named.get(&(table, key.to_vec())).is_some_and(|named| named.version() > version)
    }

    /// Puts what was read into the store. Stamps go on from what no earlier epoch has given, also in groups
    /// that were left out.
    pub fn finish(mut self, store: &mut Store, epoch: u64) -> Result<(), LogError> {
        /// More stamps than a collection gives in an epoch.
        const STAMPS_OF_EPOCH: u64 = 1 << 40;
        for ((table, key), named) in self.named {
            let Ok(name) = Name::new(TableId(table), &key) else { continue };
            let header = match named {
                Named::Collection(header) => header,
                Named::Long(header) => {
                    place_long(store, name, header)?;
                    continue;
                }
            };
            let mut elements = self.elements.remove(&header.number).unwrap_or_default();
            elements.stamp_from(epoch.saturating_mul(STAMPS_OF_EPOCH));
            match store.restore_collection(name, header, elements) {
                Ok(Ok(())) | Err(WriteError::UnknownTable) => {}
                Ok(Err(_)) => return Err(LogError::Elements { key: String::from_utf8_lossy(&key).into() }),
                Err(_) => return Err(LogError::TooLarge),
            }
        }
        store.end_restoring();
        Ok(())
    }
}

/// Lets a name be that of a value whose pieces are there.
fn place_long(store: &mut Store, name: Name<'_>, header: LongHeader) -> Result<(), LogError> {
    match store.restore_long(name, header) {
        Ok(true) | Err(WriteError::UnknownTable) => Ok(()),
        Ok(false) => Err(LogError::Pieces { key: String::from_utf8_lossy(name.key()).into() }),
        Err(_) => Err(LogError::TooLarge),
    }
}

/// Collections and long values of any records: they are put back, or refused, and what is put back can be
/// changed.
pub fn fuzz(bytes: &[u8]) {
    const TABLE: &str = "t";
    let Ok(mut store) = Store::with_key(MEMORY_BYTES_MIN, SipKey([1, 2])) else { return };
    let Ok(table) = store.create_table(TABLE) else { return };
    let mut rebuilding = Rebuilding::default();
    for record in records(bytes).map_while(Result::ok) {
        if replay_piece(&mut store, &record).is_err() {
            return;
        }
        rebuilding.follow(&record);
    }
    // A fuzzer does not guess the number of a table, nor need a version be the last one that there is.
    let named = core::mem::take(&mut rebuilding.named).into_iter();
    let with_room = |named| match named {
        Named::Collection(header) => {
            Named::Collection(CollectionHeader { version: header.version >> 1 | 1, ..header })
        }
        Named::Long(header) => Named::Long(LongHeader { version: header.version >> 1 | 1, ..header }),
    };
    rebuilding.named = named.map(|((_, key), named)| ((table.0, key), with_room(named))).collect();
    let named: Vec<_> = rebuilding.named.iter().map(|((_, key), named)| (key.clone(), *named)).collect();
    if rebuilding.finish(&mut store, 1).is_err() {
        return;
    }
    store.track(table);
    for (key, named) in named {
        let Ok(name) = Name::new(table, &key) else { continue };
        match named {
            Named::Collection(_) => change_collection(&mut store, name),
            Named::Long(header) => {
                let held = store.hold_long(name).expect("the log has it");
                let mut bytes = 0;
                let read = store.read_long(&held, (0, held.len()), |piece| bytes += piece.len());
                assert!(read.is_ok() && bytes == header.bytes);
                let grown = store.append_long(name, b"x");
                assert!(matches!(grown, Ok(_) | Err(WriteError::OutOfMemory)), "{grown:?}");
            }
        }
    }
    let changes = store.take_changes();
    let is_part = |change: &Change| !matches!(change, Change::Cleared { .. });
    assert!(changes.iter().all(is_part), "nothing else has changed");
}

fn change_collection(store: &mut Store, name: Name<'_>) {
    assert!(store.collection_header(name).is_some(), "the log has it");
    let pushed = store.change_collection(name, Growth { elements: 1, bytes: 1 }, |list: &mut List| {
        list.insert(0, b"x");
        (list.len(), Changed::Yes)
    });
    assert!(!matches!(pushed, Ok(None | Some(0))));
}

/// Does again what a record says of pieces.
pub fn replay_piece(store: &mut Store, record: &Record<'_>) -> Result<(), LogError> {
    match *record {
        Record::Piece { id, stamp, number, body } => {
            store.restore_piece((id, number as usize), stamp, body).map_err(|_| LogError::TooLarge)
        }
        Record::Ended { id } => {
            store.forget_pieces(id);
            Ok(())
        }
        _ => Ok(()),
    }
}
