//! Collections, while a log is read: their elements come apart from them, and not all before the log's end.

use std::collections::HashMap;

use farcall_base::SipKey;

use super::format::{Record, records};
use super::recovery::LogError;
use crate::store::{
    Change, Changed, CollectionHeader, Elements, Growth, List, MEMORY_BYTES_MIN, Store, WriteError,
};
use crate::{Name, TableId};

/// What was read of collections so far.
#[derive(Debug, Default)]
pub struct Rebuilding {
    named: HashMap<(u64, Vec<u8>), CollectionHeader>,
    elements: HashMap<u64, Elements>,
}

impl Rebuilding {
    /// Takes up what a record says of collections.
    pub fn follow(&mut self, record: &Record<'_>) {
        match *record {
            Record::Put { table, version, key, .. }
            | Record::PutUntil { table, version, key, .. }
            | Record::Tombstone { table, version, key } => self.displaced(table, key, version),
            Record::Collection { kind, table, version, deadline, number, key } => {
                let deadline = (deadline != 0).then_some(deadline);
                let header = CollectionHeader { kind, number, version, deadline };
                self.displaced(table, key, version);
                self.named.entry((table, key.to_vec())).or_insert(header);
            }
            Record::Element { number, stamp, name, value } => {
                self.elements.entry(number).or_default().put(stamp, name, value);
            }
            Record::Removed { number, name } => self.elements.entry(number).or_default().remove(name),
            Record::Cut { number, first, end } => self.elements.entry(number).or_default().cut(first, end),
            Record::Drop { table, version } | Record::Cleared { table, version } => {
                self.named.retain(|(of, _), header| *of != table || header.version > version);
            }
            Record::Table { .. }
            | Record::Segment(_)
            | Record::Retired { .. }
            | Record::Client { .. }
            | Record::Result { .. }
            | Record::Gone { .. } => {}
        }
    }

    /// An object of this version takes the place of an older collection.
    fn displaced(&mut self, table: u64, key: &[u8], version: u64) {
        // Most tables have none.
        if self.named.is_empty() {
            return;
        }
        let name = (table, key.to_vec());
        if self.named.get(&name).is_some_and(|header| header.version <= version) {
            self.named.remove(&name);
        }
    }

    /// Whether a name is that of a collection of a version above this one.
    pub fn is_newer(&self, table: u64, key: &[u8], version: u64) -> bool {
        !self.named.is_empty()
            && self.named.get(&(table, key.to_vec())).is_some_and(|header| header.version > version)
    }

    /// Puts what was read into the store. Stamps go on from what no earlier epoch has given, also in groups
    /// that were left out.
    pub fn finish(mut self, store: &mut Store, epoch: u64) -> Result<(), LogError> {
        /// More stamps than a collection gives in an epoch.
        const STAMPS_OF_EPOCH: u64 = 1 << 40;
        for ((table, key), header) in self.named {
            let Ok(name) = Name::new(TableId(table), &key) else { continue };
            let mut elements = self.elements.remove(&header.number).unwrap_or_default();
            elements.stamp_from(epoch.saturating_mul(STAMPS_OF_EPOCH));
            match store.restore_collection(name, header, elements) {
                Ok(Ok(())) | Err(WriteError::UnknownTable) => {}
                Ok(Err(_)) => return Err(LogError::Elements { key: String::from_utf8_lossy(&key).into() }),
                Err(_) => return Err(LogError::TooLarge),
            }
        }
        Ok(())
    }
}

/// Collections of any records: they are put back, or refused, and what is put back can be changed.
pub fn fuzz(bytes: &[u8]) {
    const TABLE: &str = "t";
    let Ok(mut store) = Store::with_key(MEMORY_BYTES_MIN, SipKey([1, 2])) else { return };
    let Ok(table) = store.create_table(TABLE) else { return };
    let mut rebuilding = Rebuilding::default();
    for record in records(bytes).map_while(Result::ok) {
        rebuilding.follow(&record);
    }
    // A fuzzer does not guess the number of a table, nor need a version be the last one that there is.
    let named = core::mem::take(&mut rebuilding.named).into_iter();
    rebuilding.named = named
        .map(|((_, key), header)| {
            ((table.0, key), CollectionHeader { version: header.version >> 1 | 1, ..header })
        })
        .collect();
    let keys: Vec<Vec<u8>> = rebuilding.named.keys().map(|(_, key)| key.clone()).collect();
    if rebuilding.finish(&mut store, 1).is_err() {
        return;
    }
    store.track(table);
    for key in keys {
        let Ok(name) = Name::new(table, &key) else { continue };
        assert!(store.collection_header(name).is_some(), "the log has it");
        let pushed = store.change_collection(name, Growth { elements: 1, bytes: 1 }, |list: &mut List| {
            list.insert(0, b"x");
            (list.len(), Changed::Yes)
        });
        assert!(!matches!(pushed, Ok(None | Some(0))));
    }
    let changes = store.take_changes();
    assert!(changes.iter().all(|change| matches!(change, Change::Elements(_))), "nothing else has changed");
}
