//! How what happened to objects, and tables that clients create, become records.
//!
//! An object is recorded as it is when its changes are: what is appended is true at that moment, and so is a
//! replay that goes through the records in their order. All changes of a command, or of a transaction, are
//! appended together, in one group or in several that count together: after a crash all of them are there,
//! or none.

use std::collections::{BTreeSet, HashMap};

use farcall_base::canary::{Rule, leaves_out};

use super::format::{RECORD_BYTES, Record};
use super::{Durable, Level, REPLICAS_MAX, When};
use crate::store::{Change, CollectionHeader, LongHeader, PIECE_BYTES, Step, Steps, Store};
use crate::wire::Code;
use crate::{Name, TableId};

impl Durable {
    /// What survives what the log can: that of this process, and as many replicas as its record asks for.
    pub fn reaches(&self) -> Level {
        self.mirror.as_ref().map_or(Level::Flushed, |mirror| {
            let record = mirror.status().record;
            Level::of(record.wanted.try_into().unwrap_or(REPLICAS_MAX), record.flushed)
        })
    }

    /// Creates a durable table whose level the log reaches, and records it; when it may be told.
    pub fn create_table(&mut self, store: &mut Store, name: &str, level: Level) -> Result<When, Code> {
        let record = Record::Table { level: level.to_wire(), name };
        self.admit(record.bytes(), 0)?;
        let id = store.create_table(name)?;
        self.add_table(store, name, id, level);
        self.deleted_in = self.journal.gathering();
        Ok(When::Flushed(self.deleted_in))
    }

    /// When it may be told that a durable table is there.
    pub fn when_table(&self) -> When {
        self.when(0)
    }

    /// Records what happened to durable tables since this was last called; gives the group that has it.
    pub fn record_changes(&mut self, store: &mut Store) -> Option<u64> {
        if !store.has_changes() {
            return None;
        }
        let changes = store.take_changes();
        let changes = without_repeats(store, changes);
        self.journal.begin_command(changes.iter().map(|change| bytes_of(store, change)).sum());
        self.record_pieces(store, &changes);
        for change in changes {
            match change {
                // They are there already.
                Change::Pieces { .. } => {}
                Change::Object { table, key } => self.record_object(store, table, &key),
                Change::Cleared { table } => {
                    let (table, version) = (table.0, store.last_version());
                    self.journal.append_of_command(&Record::Cleared { table, version });
                    self.deleted_in = self.journal.gathering();
                }
                // It may be gone by now, with all that it had.
                Change::Elements(steps) if !store.has_logged(steps.number) => {}
                Change::Elements(steps) => self.record_steps(&steps),
            }
        }
        self.live_bytes = store.record_bytes();
        self.recorded_version = store.last_version();
        self.follow_ended(store);
        Some(self.journal.gathering())
    }

    /// Records pieces of long values, each once.
    fn record_pieces(&mut self, store: &Store, changes: &[Change]) {
        let mut pieces = BTreeSet::new();
        for change in changes {
            if let Change::Pieces { id, numbers } = change {
                pieces.extend(numbers.clone().map(|number| (*id, number)));
            }
        }
        for (id, number) in pieces {
            // The value may have ended since.
            if let Some((stamp, body)) = store.logged_piece(id, number) {
                let number = number as u32;
                self.journal.append_of_command(&Record::Piece { id, stamp, number, body });
            }
        }
    }

    /// Records that values have ended, as far as the log has room: that they have is known without it, too.
    pub(crate) fn follow_ended(&mut self, store: &mut Store) {
        if !store.has_ended() {
            return;
        }
        self.live_bytes = store.record_bytes();
        while !store.has_changes()
            && self.journal.admits(Record::ENDED_BYTES).is_ok()
            && let Some(id) = store.take_ended()
        {
            self.journal.append(&Record::Ended { id });
        }
    }

    fn record_object(&mut self, store: &mut Store, table: TableId, key: &[u8]) {
        let Ok(name) = Name::new(table, key) else { return };
        let (table, key) = (name.table().0, name.key());
        if let Some(CollectionHeader { kind, number, version, deadline }) = store.collection_header(name) {
            let deadline = deadline.unwrap_or(0);
            self.journal.append_of_command(&Record::Collection {
                kind,
                table,
                version,
                deadline,
                number,
                key,
            });
            return store.collection_recorded(name, version);
        }
        if let Some(LongHeader { version, deadline, id, bytes }) = store.long_header(name) {
            let (deadline, bytes) = (deadline.unwrap_or(0), bytes as u32);
            return self.journal.append_of_command(&Record::Long {
                table,
                version,
                deadline,
                id,
                bytes,
                key,
            });
        }
        match store.get(name).ok().flatten() {
            Some(object) => {
                let (version, deadline) = (object.version(), object.deadline());
                let copy;
                let value = match object.version_and_value() {
                    Some(bytes) => &bytes[size_of::<u64>()..],
                    None => {
                        copy = object.to_vec();
                        &copy
                    }
                };
                self.journal.append_of_command(&match deadline {
                    None => Record::Put { table, version, key, value },
                    Some(deadline) => Record::PutUntil { table, version, deadline, key, value },
                });
            }
            None => {
                if !leaves_out(Rule::Tombstones) {
                    let version = store.last_version();
                    self.journal.append_of_command(&Record::Tombstone { table, version, key });
                }
                self.deleted_in = self.journal.gathering();
            }
        }
    }

    fn record_steps(&mut self, steps: &Steps) {
        let number = steps.number;
        for step in &steps.steps {
            self.journal.append_of_command(&match step {
                Step::Put { stamp, name, value } => Record::Element { number, stamp: *stamp, name, value },
                Step::Remove { name } => Record::Removed { number, name },
            });
        }
        if let Some((first, end)) = steps.range {
            self.journal.append_of_command(&Record::Cut { number, first, end });
        }
    }
}

/// What happened, an object each time that it changed but once: it is recorded as it is by now. The record of
/// a collection comes before those of its elements, wherever that is.
fn without_repeats(store: &Store, changes: Vec<Change>) -> Vec<Change> {
    if changes.len() < 2 {
        return changes;
    }
    let mut last = HashMap::new();
    for (number, change) in changes.iter().enumerate() {
        if let Change::Object { table, key } = change
            && Name::new(*table, key).is_ok_and(|name| store.collection_header(name).is_none())
        {
            last.insert((*table, key.clone()), number);
        }
    }
    let is_last = |number: usize, change: &Change| match change {
        Change::Object { table, key } => last.get(&(*table, key.clone())).is_none_or(|last| *last == number),
        Change::Cleared { .. } | Change::Elements(_) | Change::Pieces { .. } => true,
    };
    let kept = changes.iter().enumerate().map(|(number, change)| is_last(number, change)).collect::<Vec<_>>();
    changes.into_iter().zip(kept).filter_map(|(change, is_kept)| is_kept.then_some(change)).collect()
}

/// Bytes of the records of a change, or more.
fn bytes_of(store: &Store, change: &Change) -> usize {
    match change {
        Change::Object { table, key } => {
            let object = Name::new(*table, key).ok().and_then(|name| store.get(name).ok().flatten());
            let value = object.filter(|object| !object.is_collection() && !object.is_long());
            let value_bytes = value.map_or(0, |it| it.value_bytes());
            RECORD_BYTES + key.len() + value_bytes
        }
        Change::Cleared { .. } => RECORD_BYTES,
        Change::Pieces { numbers, .. } => numbers.len() * (RECORD_BYTES + PIECE_BYTES),
        Change::Elements(Steps { steps, .. }) => {
            let bytes = |step: &Step| match step {
                Step::Put { name, value, .. } => RECORD_BYTES + name.len() + value.len(),
                Step::Remove { name } => RECORD_BYTES + name.len(),
            };
            RECORD_BYTES + steps.iter().map(bytes).sum::<usize>()
        }
    }
}
