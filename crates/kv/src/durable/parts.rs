//! A log that several shards take over, each those objects that have some hash slots.
//!
//! It is read segment by segment at its backups: how many bytes each slot has, and then, by each shard, the
//! records that it needs. What a record is of is mostly said by its key. Elements of collections have none:
//! everybody gets them, and drops those of other collections. So do results of writes that happen once, which
//! no record ties to a key once the log was cleaned.

use std::collections::HashMap;

use farcall_disk::Blocks;

use super::format::{Ending, GroupHeader, Record, records};
use super::log_error::LogError;
use super::rebuilding::Rebuilding;
use super::recovery::{Group, State, check_segment};
use super::replay;
use crate::TableId;
use crate::placement::{Exporter, SlotRange, SlotSet, TakenClient};
use crate::shard::Results;
use crate::store::{Store, StoreSizeError};
use crate::wire::{Fields, HASH_SLOTS, Malformed, hash_slot};

/// How many bytes of records the hash slots of a log have.
#[derive(Debug)]
pub struct Weights {
    slots: Vec<u64>,
    /// Of elements, by the number of their collection.
    elements: HashMap<u64, u64>,
    /// The slots of collections, by their numbers.
    collections: HashMap<u64, u32>,
}

impl Default for Weights {
    fn default() -> Self {
        let slots = vec![0; HASH_SLOTS as usize];
        Self { slots, elements: HashMap::new(), collections: HashMap::new() }
    }
}

const OF_SLOT: u8 = 0;
const OF_ELEMENTS: u8 = 1;
const OF_COLLECTION: u8 = 2;

impl Weights {
    /// Adds what a segment has.
    pub fn add_segment(&mut self, segment: &CheckedSegment<'_>) {
        for record in segment.0.iter().flat_map(|(_, bytes)| records(bytes).flatten()) {
            let bytes = record.bytes() as u64;
            if let Record::Collection { number, key, .. } = record {
                self.collections.insert(number, hash_slot(key));
            }
            match (key_of(&record), record) {
                (Some(key), _) => self.slots[hash_slot(key) as usize] += bytes,
                (None, Record::Element { number, .. } | Record::Removed { number, .. }) => {
                    *self.elements.entry(number).or_default() += bytes;
                }
                _ => {}
            }
        }
    }

    /// Appends them to a message: each is a kind u8, and two numbers u64.
    pub fn encode(&self, to: &mut Vec<u8>) {
        let mut put = |kind: u8, which: u64, number: u64| {
            to.push(kind);
            to.extend_from_slice(&which.to_le_bytes());
            to.extend_from_slice(&number.to_le_bytes());
        };
        for (slot, bytes) in (0..).zip(&self.slots).filter(|(_, bytes)| **bytes > 0) {
            put(OF_SLOT, slot, *bytes);
        }
        self.elements.iter().for_each(|(number, bytes)| put(OF_ELEMENTS, *number, *bytes));
        self.collections.iter().for_each(|(number, slot)| put(OF_COLLECTION, *number, u64::from(*slot)));
    }

    /// Adds what a message says of a segment.
    pub fn add(&mut self, message: &[u8]) -> Result<(), Malformed> {
        let mut fields = Fields(message);
        while !fields.is_empty() {
            let (kind, which, number) = (fields.u8()?, fields.u64()?, fields.u64()?);
            let slot_of = |number: u64| u32::try_from(number).ok().filter(|slot| *slot < HASH_SLOTS);
            match kind {
                OF_SLOT => {
                    let sum = &mut self.slots[slot_of(which).ok_or(Malformed)? as usize];
                    *sum = sum.saturating_add(number);
                }
                OF_ELEMENTS => {
                    let sum = self.elements.entry(which).or_default();
                    *sum = sum.saturating_add(number);
                }
                OF_COLLECTION => _ = self.collections.insert(which, slot_of(number).ok_or(Malformed)?),
                _ => return Err(Malformed),
            }
        }
        Ok(())
    }

    /// The bytes of each slot, when all segments were added.
    pub fn by_slot(mut self) -> Vec<u64> {
        for (number, bytes) in self.elements {
            if let Some(slot) = self.collections.get(&number) {
                let sum = &mut self.slots[*slot as usize];
                *sum = sum.saturating_add(bytes);
            }
        }
        self.slots
    }
}

/// The key of the object that a record is of, if it has one.
fn key_of<'a>(record: &Record<'a>) -> Option<&'a [u8]> {
    match *record {
        Record::Put { key, .. }
        | Record::PutUntil { key, .. }
        | Record::Tombstone { key, .. }
        | Record::Collection { key, .. }
        | Record::Long { key, .. } => Some(key),
        _ => None,
    }
}

/// Whether whoever takes these slots needs a record. Pieces of long strings nobody does: a string of which
/// they are is not taken over in parts.
fn is_needed(record: &Record<'_>, slots: &SlotSet) -> bool {
    match record {
        Record::Segment(_) | Record::Retired { .. } | Record::Piece { .. } | Record::Ended { .. } => false,
        record => key_of(record).is_none_or(|key| slots.has(hash_slot(key))),
    }
}

/// A group begins a segment.
const BEGINS: u8 = 1;
/// A group counts only with the one after it.
const CONTINUES: u8 = 2;

/// Appends the groups of a segment to a message, with those records that somebody needs who takes these
/// slots: for each the epoch u64, the last version u64, flags u8, how many bytes u32, records.
pub fn select(segment: &CheckedSegment<'_>, slots: &SlotSet, to: &mut Vec<u8>) {
    let mut kept = Blocks::new();
    for (header, group) in &segment.0 {
        kept.resize(0);
        for record in records(group).flatten().filter(|record| is_needed(record, slots)) {
            record.encode(&mut kept);
        }
        to.extend_from_slice(&header.epoch.to_le_bytes());
        to.extend_from_slice(&header.last_version.to_le_bytes());
        let begins = if header.at == 0 { BEGINS } else { 0 };
        to.push(begins | if header.continues { CONTINUES } else { 0 });
        to.extend_from_slice(&(kept.len() as u32).to_le_bytes());
        to.extend_from_slice(&kept);
    }
}

/// A segment of which a backup has the bytes: it is checked before anything is said of it.
#[derive(Debug)]
pub struct CheckedSegment<'s>(Vec<Group<'s>>);

impl<'s> CheckedSegment<'s> {
    /// One that is whole, which ends so.
    pub fn new(log: u64, ending: &Ending, segment: &'s [u8]) -> Result<Self, LogError> {
        check_segment(log, ending, segment).map(Self)
    }
}

/// A part of a log that is replayed, in a store of its own: what drops or empties a table there, or gives its
/// objects elements, has no meaning for the store of the shard that takes the part.
#[derive(Debug)]
pub struct PartReplay {
    store: Store,
    results: Results,
    collections: Rebuilding,
    state: State,
}

/// What a part has.
#[derive(Debug)]
pub struct ReplayedPart {
    pub store: Store,
    /// Goes through all of it.
    pub exporter: Exporter,
    /// Clients of the shard and their results.
    pub clients: Vec<TakenClient>,
    /// The highest version that the shard has given.
    pub last_version: u64,
}

impl PartReplay {
    /// One that may take so much memory.
    pub fn new(memory_bytes: usize) -> Result<Self, StoreSizeError> {
        let (results, collections, state) = (Results::default(), Rebuilding::default(), State::default());
        Ok(Self { store: Store::new(memory_bytes)?, results, collections, state })
    }

    /// Does again what a backup says of the next segment.
    pub fn replay(&mut self, message: &[u8]) -> Result<(), LogError> {
        let Self { store, results, collections, state } = self;
        let mut visit = |record: &Record<'_>| {
            replay((&mut *store, &mut *results), collections, record)?;
            collections.follow(record);
            Ok(())
        };
        let mut fields = Fields(message);
        while !fields.is_empty() {
            let (header, group) = next_group(&mut fields).map_err(|Malformed| LogError::NotALog)?;
            state.replay_group(header, group, &mut visit)?;
        }
        Ok(())
    }

    /// All segments were done again. Groups whose rest is missing are left out, as in every recovery.
    pub fn finish(self) -> Result<ReplayedPart, LogError> {
        let Self { mut store, results, collections, state } = self;
        collections.finish(&mut store, 1)?;
        let clients = results.all().map(|(client, first, results)| {
            let results = results.iter().map(|(sequence, it)| (*sequence, it.answer.clone())).collect();
            TakenClient { client, first, results }
        });
        let clients = clients.collect();
        let ids: Vec<_> = store.table_names().filter_map(|name| TableId::of(name).ok()).collect();
        // An exporter asks whether tables were emptied meanwhile.
        store.watch_slots(Some((SlotRange::ALL, false)));
        let exporter = Exporter::new(SlotRange::ALL, ids);
        Ok(ReplayedPart { store, exporter, clients, last_version: state.last_version })
    }
}

/// The next group of a message.
fn next_group<'m>(fields: &mut Fields<'m>) -> Result<(GroupHeader, &'m [u8]), Malformed> {
    let (epoch, last_version, flags) = (fields.u64()?, fields.u64()?, fields.u8()?);
    let bytes = fields.length()?;
    let group = fields.bytes(bytes)?;
    let (begins, continues) = (flags & BEGINS != 0, flags & CONTINUES != 0);
    let header = GroupHeader {
        epoch,
        last_version,
        continues,
        // Where it lies in its segment nobody asks any more, but whether it is the first one.
        at: u32::from(!begins),
        bytes: bytes as u32,
        segment: 0,
        records: 0,
        crc_before: 0,
        crc: 0,
    };
    Ok((header, group))
}
