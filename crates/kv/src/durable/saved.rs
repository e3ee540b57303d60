//! What a log has, read without a store: for copies of it that are kept elsewhere.

use std::collections::{BTreeMap, HashMap};

use farcall_disk::Disk;

use super::format::Record;
use super::recovery::{LogError, Recovered, read_only};
use super::{Level, TableEntry};
use crate::TableId;

/// Objects by table and key, with their versions and values.
pub type SavedObjects = BTreeMap<(TableId, Vec<u8>), (u64, Vec<u8>)>;

/// The durable tables of a shard, as its log has them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SavedLog {
    /// The number of the log: copies of it have the same.
    pub log: u64,
    /// The shard, and how many there were.
    pub of: (u32, u32),
    /// What is known of its end.
    pub recovered: Recovered,
    /// Tables and their levels.
    pub tables: Vec<(String, Level)>,
    /// Its objects.
    pub objects: SavedObjects,
    /// Collections, long strings, and objects that expire, of Redis clients: how many there are besides.
    pub others: u64,
}

impl SavedLog {
    /// Reads the log on a disk, which is not changed; `None` if nothing was ever written to it.
    pub fn read(disk: &mut dyn Disk) -> Result<Option<Self>, LogError> {
        let (mut objects, mut others) = (SavedObjects::new(), HashMap::new());
        let found = read_only(disk, |record| {
            replay(&mut objects, &mut others, record);
            Ok(())
        })?;
        let Some((found, mut recovered)) = found else { return Ok(None) };
        recovered.objects = objects.len() as u64;
        let level = |entry: &TableEntry| Some((entry.name.clone(), Level::from_wire(entry.level)?));
        Ok(Some(Self {
            log: found.superblock.log,
            of: (found.superblock.shard, found.superblock.shards),
            recovered,
            tables: found.tables.iter().filter_map(level).collect(),
            objects,
            others: others.len() as u64,
        }))
    }

    /// Whether this is a later state of the same log than another one.
    pub fn is_later_than(&self, other: &Self) -> bool {
        let state = |saved: &Self| (saved.recovered.last_version, saved.recovered.epoch);
        state(self) > state(other)
    }
}

/// Does what a store does that opens the log.
fn replay(objects: &mut SavedObjects, others: &mut Others, record: &Record<'_>) {
    match *record {
        Record::Put { table, version, key, value } => {
            displaced(others, (table, key), version);
            let object = objects.entry((TableId(table), key.to_vec())).or_default();
            if object.0 < version {
                *object = (version, value.to_vec());
            }
        }
        Record::PutUntil { table, version, key, .. }
        | Record::Collection { table, version, key, .. }
        | Record::Long { table, version, key, .. } => {
            let name = (TableId(table), key.to_vec());
            if objects.get(&name).is_none_or(|(found, _)| *found < version) {
                objects.remove(&name);
                others.insert(name, version);
            }
        }
        Record::Tombstone { table, version, key } => {
            displaced(others, (table, key), version);
            let name = (TableId(table), key.to_vec());
            if objects.get(&name).is_some_and(|(found, _)| *found <= version) {
                objects.remove(&name);
            }
        }
        Record::Drop { table, .. } | Record::Cleared { table, .. } => {
            objects.retain(|(of, _), _| *of != TableId(table));
            others.retain(|(of, _), _| *of != TableId(table));
        }
        Record::Table { .. }
        | Record::Element { .. }
        | Record::Removed { .. }
        | Record::Cut { .. }
        | Record::Piece { .. }
        | Record::Ended { .. }
        | Record::Segment(_)
        | Record::Retired { .. }
        | Record::Client { .. }
        | Record::Result { .. }
        | Record::Gone { .. } => {}
    }
}

/// Objects that are counted only, with their versions.
type Others = HashMap<(TableId, Vec<u8>), u64>;

fn displaced(others: &mut Others, (table, key): (u64, &[u8]), version: u64) {
    if others.is_empty() {
        return;
    }
    let name = (TableId(table), key.to_vec());
    if others.get(&name).is_some_and(|found| *found <= version) {
        others.remove(&name);
    }
}
