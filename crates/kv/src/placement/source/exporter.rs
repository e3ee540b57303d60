//! What a source has of a range, page by page.

use std::collections::VecDeque;

use farcall_base::printable;

use crate::placement::SlotRange;
use crate::placement::entries::{Elements, ImportItem};
use crate::store::{Collection, PageLimits, ScanFrom, ScanNext, Store};
use crate::wire::hash_slot;
use crate::{Name, TableId, Value};

/// A page is sent when it has this many bytes; the last object may go beyond.
const PAGE_BYTES: usize = 128 << 10;

/// Entries of a table that are looked at in a turn.
const LOOKS: usize = 256;

/// What a turn brought.
#[derive(Debug)]
pub enum Exported {
    /// A page for the destination.
    Page(Vec<u8>),
    /// Nothing yet.
    Nothing,
    /// Everything is in pages that were given.
    All,
}

/// A collection of which a part is in pages.
#[derive(Debug)]
struct Part {
    table: TableId,
    key: Vec<u8>,
    version: u64,
    at: usize,
}

/// Goes through the durable objects of a range.
#[derive(Debug)]
pub struct Exporter {
    range: SlotRange,
    /// Tables that are to be walked, from here on.
    tables: VecDeque<TableId>,
    from: u64,
    /// Objects that are to be sent.
    next: VecDeque<(TableId, Vec<u8>)>,
    part: Option<Part>,
}

impl Exporter {
    /// Of these tables. The store must watch the range.
    pub fn new(range: SlotRange, tables: impl IntoIterator<Item = TableId>) -> Self {
        let tables = tables.into_iter().collect();
        Self { range, tables, from: 0, next: VecDeque::new(), part: None }
    }

    /// Takes up what was written since this was last called; says how much is left to be sent.
    pub fn take_written(&mut self, store: &mut Store) -> usize {
        if let Some(watched) = store.watched() {
            self.next.extend(watched.take());
        }
        self.next.len()
    }

    /// The next page. An error is why the range cannot be copied.
    pub fn next_page(&mut self, store: &mut Store) -> Result<Exported, String> {
        if store.watched().is_none_or(|watched| watched.is_emptied) {
            return Err("a table was emptied or dropped meanwhile".to_owned());
        }
        let mut page = Vec::new();
        while page.len() < PAGE_BYTES {
            if self.part.is_some() {
                self.put_part(store, &mut page);
            } else if let Some((table, key)) = self.next.pop_front() {
                self.put(store, (table, key), &mut page)?;
            } else if self.tables.is_empty() {
                return Ok(if page.is_empty() { Exported::All } else { Exported::Page(page) });
            } else {
                self.walk(store);
                if self.next.is_empty() {
                    break;
                }
            }
        }
        Ok(if page.is_empty() { Exported::Nothing } else { Exported::Page(page) })
    }

    /// Looks at some more entries of a table.
    fn walk(&mut self, store: &Store) {
        let Some(&table) = self.tables.front() else { return };
        let limits = PageLimits { bytes: usize::MAX, looks: LOOKS };
        let found = store.scan_hidden(table, ScanFrom::Hash(self.from), limits, |object| {
            if self.range.has(hash_slot(object.key())) {
                self.next.push_back((table, object.key().to_vec()));
            }
        });
        match found {
            Ok(ScanNext::Hash(hash)) => self.from = hash,
            // A table that was dropped meanwhile ends the move.
            Ok(ScanNext::End | ScanNext::AfterLast) | Err(_) => {
                self.tables.pop_front();
                self.from = 0;
            }
        }
    }

    /// Appends an object as it is now.
    fn put(
        &mut self,
        store: &Store,
        (table, key): (TableId, Vec<u8>),
        page: &mut Vec<u8>,
    ) -> Result<(), String> {
        let Ok(name) = Name::new(table, &key) else { return Ok(()) };
        let Ok(Some(object)) = store.get(name) else {
            ImportItem::Gone { name }.encode(page);
            return Ok(());
        };
        if object.is_collection() {
            self.part = Some(Part { table, version: object.version(), at: 0, key });
            return Ok(());
        }
        let bytes = object.value_bytes();
        let too_long = || {
            format!("the value of `{}` is too long to be copied", printable(&String::from_utf8_lossy(&key)))
        };
        if bytes > crate::VALUE_BYTES_MAX {
            return Err(too_long());
        }
        let copy = object.to_vec();
        let value = Value::new(&copy).map_err(|_| too_long())?;
        let (version, deadline) = (object.version(), object.deadline());
        ImportItem::Value { name, version, deadline, value }.encode(page);
        Ok(())
    }

    /// Appends more of a collection. One that has changed meanwhile was noted, and is sent again.
    fn put_part(&mut self, store: &Store, page: &mut Vec<u8>) {
        let Some(mut part) = self.part.take() else { return };
        let Ok(name) = Name::new(part.table, &part.key) else { return };
        let object = store.get(name).ok().flatten().filter(|object| object.version() == part.version);
        let collection = store.any_collection(name).ok().flatten();
        let (Some(object), Some(collection)) = (object, collection) else { return };
        let (mut encoded, first) = (Vec::new(), part.at);
        while part.at < collection.len() && encoded.len() < PAGE_BYTES {
            put_element(collection, part.at, &mut encoded);
            part.at += 1;
        }
        let (kind, elements, deadline) = (collection.kind(), Elements::new(&encoded), object.deadline());
        ImportItem::Elements { name, deadline, kind, is_first: first == 0, elements }.encode(page);
        if part.at < collection.len() {
            self.part = Some(part);
        }
    }
}

fn put_element(collection: &Collection, place: usize, to: &mut Vec<u8>) {
    match collection {
        Collection::List(list) => {
            Elements::encode_one((b"", list.get(place).unwrap_or_default()), to);
        }
        Collection::Hash(hash) => Elements::encode_one(hash.at(place), to),
        Collection::Set(set) => Elements::encode_one((set.at(place), b""), to),
        Collection::Sorted(sorted) => {
            let (member, score) = sorted.at(place);
            Elements::encode_one((member, &score.to_le_bytes()), to);
        }
    }
}
