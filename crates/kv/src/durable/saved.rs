//! What a log has, read without a store: for copies of it that are kept elsewhere.

use std::collections::{BTreeMap, HashMap};

use farcall_disk::Disk;

use super::format::Record;
use super::log_error::LogError;
use super::recovery::{Recovered, read_only};
use super::{Level, TableEntry};
use crate::TableId;
use crate::store::PIECE_BYTES;
use crate::wire::PART_BYTES_MAX;

/// Objects by table and key, with their versions and values.
pub type SavedObjects = BTreeMap<(TableId, Vec<u8>), (u64, Vec<u8>)>;

/// Objects whose values are longer than 1 MiB, by table and key.
pub type SavedLongs = BTreeMap<(TableId, Vec<u8>), SavedLong>;

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
    /// Those of them whose values are long.
    pub longs: SavedLongs,
    /// Collections, and objects that expire, of Redis clients: how many there are besides.
    pub others: u64,
}

/// A value that is longer than 1 MiB, in pieces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SavedLong {
    version: u64,
    value_bytes: usize,
    pieces: Vec<Vec<u8>>,
}

impl SavedLong {
    /// The version of its object.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The length of the value.
    pub fn value_bytes(&self) -> u64 {
        self.value_bytes as u64
    }

    /// The value in parts that a shard takes, and where each begins.
    pub fn parts(&self) -> impl Iterator<Item = (u64, Vec<u8>)> {
        let parts = self.pieces.chunks(PART_BYTES_MAX / PIECE_BYTES);
        parts.enumerate().map(|(number, pieces)| ((number * PART_BYTES_MAX) as u64, pieces.concat()))
    }

    /// The value that a header names; `None` when pieces of it are missing.
    fn of(version: u64, value_bytes: usize, pieces: &Pieces) -> Option<Self> {
        let length = |number: usize| (value_bytes - number * PIECE_BYTES).min(PIECE_BYTES);
        let piece = |number: usize| {
            let (_, body) = pieces.get(&u32::try_from(number).ok()?)?;
            (body.len() == length(number)).then(|| body.clone())
        };
        let pieces: Option<_> = (0..value_bytes.div_ceil(PIECE_BYTES)).map(piece).collect();
        Some(Self { version, value_bytes, pieces: pieces? })
    }
}

impl SavedLog {
    /// Reads the log on a disk, which is not changed; `None` if nothing was ever written to it.
    pub fn read(disk: &mut dyn Disk) -> Result<Option<Self>, LogError> {
        let mut replay = Replay::default();
        let found = read_only(disk, |record| {
            replay.follow(record);
            Ok(())
        })?;
        let Some((found, mut recovered)) = found else { return Ok(None) };
        let (objects, longs, others) = replay.finish()?;
        recovered.objects = (objects.len() + longs.len()) as u64;
        let level = |entry: &TableEntry| Some((entry.name.clone(), Level::from_wire(entry.level)?));
        Ok(Some(Self {
            log: found.superblock.log,
            of: (found.superblock.shard, found.superblock.shards),
            recovered,
            tables: found.tables.iter().filter_map(level).collect(),
            objects,
            longs,
            others,
        }))
    }

    /// Whether this is a later state of the same log than another one.
    pub fn is_later_than(&self, other: &Self) -> bool {
        let state = |saved: &Self| (saved.recovered.last_version, saved.recovered.epoch);
        state(self) > state(other)
    }
}

/// Pieces by their numbers, with their stamps.
type Pieces = HashMap<u32, (u64, Vec<u8>)>;

/// What a name is that of.
enum Named {
    Value(Vec<u8>),
    Long { id: u64, bytes: usize },
    Other,
}

/// Does what a store does that opens the log.
#[derive(Default)]
struct Replay {
    /// With their versions.
    named: BTreeMap<(TableId, Vec<u8>), (u64, Named)>,
    /// By the numbers of their values. An upload that ended with its process has some that nothing names.
    pieces: HashMap<u64, Pieces>,
}

impl Replay {
    fn follow(&mut self, record: &Record<'_>) {
        match *record {
            Record::Put { table, version, key, value } => {
                self.put((table, key), version, Named::Value(value.to_vec()));
            }
            Record::Long { table, version, deadline: 0, id, bytes, key } => {
                self.put((table, key), version, Named::Long { id, bytes: bytes as usize });
            }
            Record::PutUntil { table, version, key, .. }
            | Record::Collection { table, version, key, .. }
            | Record::Long { table, version, key, .. } => self.put((table, key), version, Named::Other),
            Record::Piece { id, stamp, number, body } => {
                let piece = self.pieces.entry(id).or_default().entry(number).or_default();
                if piece.0 < stamp || piece.1.is_empty() {
                    *piece = (stamp, body.to_vec());
                }
            }
            Record::Ended { id } => _ = self.pieces.remove(&id),
            Record::Tombstone { table, version, key } => {
                let name = (TableId(table), key.to_vec());
                if self.named.get(&name).is_some_and(|(found, _)| *found <= version) {
                    self.named.remove(&name);
                }
            }
            Record::Drop { table, .. } | Record::Cleared { table, .. } => {
                self.named.retain(|(of, _), _| *of != TableId(table));
            }
            Record::Table { .. }
            | Record::Element { .. }
            | Record::Removed { .. }
            | Record::Cut { .. }
            | Record::Segment(_)
            | Record::Retired { .. }
            | Record::Client { .. }
            | Record::Result { .. }
            | Record::Gone { .. } => {}
        }
    }

    fn put(&mut self, (table, key): (u64, &[u8]), version: u64, named: Named) {
        let name = (TableId(table), key.to_vec());
        if self.named.get(&name).is_none_or(|(found, _)| *found < version) {
            self.named.insert(name, (version, named));
        }
    }

    /// The objects, those whose values are long, and how many others there are.
    fn finish(self) -> Result<(SavedObjects, SavedLongs, u64), LogError> {
        let Self { named, pieces } = self;
        let (mut objects, mut longs, mut others) = (SavedObjects::new(), SavedLongs::new(), 0);
        for (name, (version, named)) in named {
            match named {
                Named::Value(value) => _ = objects.insert(name, (version, value)),
                Named::Long { id, bytes } => {
                    let found = pieces.get(&id).and_then(|pieces| SavedLong::of(version, bytes, pieces));
                    let lacks = || LogError::Pieces { key: String::from_utf8_lossy(&name.1).into() };
                    let long = found.ok_or_else(lacks)?;
                    longs.insert(name, long);
                }
                Named::Other => others += 1,
            }
        }
        Ok((objects, longs, others))
    }
}
