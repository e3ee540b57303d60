//! Long values of durable tables, as the log has them: by piece.
//!
//! The log gets each piece as it comes, and the value as a whole by one record that names its pieces. A piece
//! has a stamp, by which it is known whether a record of it is the last one. A value that is no object's, and
//! that nothing writes any more, has *ended*: no record of it is needed, even while others read it here.

use core::ops::Range;
use std::collections::{HashMap, VecDeque};

use super::entry::{ChunkKey, Kind, NewEntry, Tail, head_body};
use super::long::{Held, is_long};
use super::{Change, PIECE_BYTES, Store, WriteError};
use crate::Name;

/// Bytes of the record of a piece beside its own.
const PIECE_RECORD_BYTES: usize = 25;

/// The record of an object whose value is long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LongHeader {
    pub version: u64,
    pub deadline: Option<u64>,
    /// The number of its pieces.
    pub id: u64,
    /// The length of its value.
    pub bytes: usize,
}

/// The values whose pieces the log has.
#[derive(Debug, Default)]
pub struct LoggedValues {
    /// Bytes of the records of each, and of all.
    values: HashMap<u64, u64>,
    bytes: u64,
    /// Those that have ended, which the log does not know yet.
    ended: VecDeque<u64>,
    /// While a log is read: values that nothing names yet, and the end of their pieces' numbers.
    unnamed: HashMap<u64, usize>,
}

impl LoggedValues {
    /// Whether the log has a value.
    pub fn has(&self, id: u64) -> bool {
        self.values.contains_key(&id)
    }

    /// Bytes of the records of all values.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// A value has ended, if the log has it.
    pub fn end(&mut self, id: u64) {
        if let Some(bytes) = self.values.remove(&id) {
            self.bytes -= bytes;
            self.ended.push_back(id);
        }
    }

    /// The log has this many more bytes of a value, if it has any.
    fn count(&mut self, id: u64, bytes: u64) {
        if let Some(of_value) = self.values.get_mut(&id) {
            *of_value += bytes;
            self.bytes += bytes;
        }
    }
}

/// Bytes of the records of this many pieces, which have so many together.
fn piece_records(pieces: usize, bytes: usize) -> u64 {
    (pieces * PIECE_RECORD_BYTES + bytes) as u64
}

/// Bytes of the records of a value of this length.
pub(crate) fn long_record_bytes(value_bytes: usize) -> usize {
    piece_records(value_bytes.div_ceil(PIECE_BYTES), value_bytes) as usize
}

impl Store {
    /// Begins a long value that the log has as well.
    pub(crate) fn begin_logged_long(&mut self) -> Held {
        let held = self.begin_long();
        self.long.logged.values.insert(held.id(), 0);
        held
    }

    /// Whether the log has a value that is held.
    pub(crate) fn is_logged(&self, held: &Held) -> bool {
        self.long.logged.has(held.id())
    }

    /// Whether the log has the pieces of a value.
    pub(crate) fn has_pieces(&self, header: &LongHeader) -> bool {
        self.long.logged.has(header.id)
    }

    /// These pieces of a value were written, which has so many more, and is longer by this many bytes.
    pub(super) fn note_pieces(&mut self, id: u64, numbers: Range<usize>, (more, bytes): (usize, usize)) {
        if self.long.logged.has(id) {
            self.long.logged.count(id, piece_records(more, bytes));
            self.changes.happened.push(Change::Pieces { id, numbers });
        }
    }

    /// A piece that the log is to have: its stamp and its bytes.
    pub(crate) fn logged_piece(&self, id: u64, number: usize) -> Option<(u64, &[u8])> {
        if self.long.logged.has(id) { self.piece(id, number) } else { None }
    }

    fn piece(&self, id: u64, number: usize) -> Option<(u64, &[u8])> {
        let key = ChunkKey::new(id, number);
        let hash = self.log.hashes().of_chunk(&key);
        let found = self.log.find(hash, |entry| entry.kind() == Kind::Chunk && entry.key() == key.as_bytes());
        found.map(|(_, entry)| (entry.version(), entry.body()))
    }

    /// The record of the object of a name, if its value is long.
    pub(crate) fn long_header(&self, name: Name<'_>) -> Option<LongHeader> {
        let (_, entry) = self.find_entry(name).ok()?.filter(|(_, entry)| is_long(entry))?;
        let (version, deadline) = (entry.version(), entry.deadline());
        Some(LongHeader { version, deadline, id: entry.chunks(), bytes: entry.value_bytes() })
    }

    /// Whether values have ended, which the log does not know yet.
    #[inline]
    pub(crate) fn has_ended(&self) -> bool {
        !self.long.logged.ended.is_empty()
    }

    /// The next of these, which the log gets to know now.
    pub(crate) fn take_ended(&mut self) -> Option<u64> {
        self.long.logged.ended.pop_front()
    }

    /// Puts a piece back that the log has, unless a later one is in its place.
    pub(crate) fn restore_piece(
        &mut self,
        (id, number): (u64, usize),
        stamp: u64,
        body: &[u8],
    ) -> Result<(), WriteError> {
        if self.piece(id, number).is_some_and(|(found, _)| found >= stamp) {
            return Ok(());
        }
        self.remove_chunks(id, number..number + 1);
        let key = ChunkKey::new(id, number);
        let hash = self.log.hashes().of_chunk(&key);
        let (kind, key, tail) = (Kind::Chunk, key.as_bytes(), Tail::default());
        let entry = NewEntry { kind, table: 0, key, version: stamp, body, tail };
        if !self.log.admits(hash, entry.bytes(), 0) {
            return Err(WriteError::OutOfMemory);
        }
        self.log.prepare(entry.bytes())?;
        self.log.add(hash, &entry)?;
        let end = self.long.logged.unnamed.entry(id).or_default();
        *end = (*end).max(number + 1);
        Ok(())
    }

    /// Removes the pieces of a value that has ended.
    pub(crate) fn forget_pieces(&mut self, id: u64) {
        if let Some(end) = self.long.logged.unnamed.remove(&id) {
            self.remove_chunks(id, 0..end);
        }
    }

    /// Removes the pieces of all values that nothing names yet: the log that had them is not what counts.
    pub(crate) fn forget_all_pieces(&mut self) {
        for (id, end) in core::mem::take(&mut self.long.logged.unnamed) {
            self.remove_chunks(id, 0..end);
        }
    }

    /// Lets a name be that of a value whose pieces were put back; says whether all of them were, and no other
    /// name has them.
    pub(crate) fn restore_long(&mut self, name: Name<'_>, header: LongHeader) -> Result<bool, WriteError> {
        let table = self.tables.find(name.table()).ok_or(WriteError::UnknownTable)?;
        let (number, hash) = (table.number, table.hash(name.key()));
        let LongHeader { version, deadline, id, bytes } = header;
        let pieces = bytes.div_ceil(PIECE_BYTES);
        if self.long.logged.unnamed.remove(&id) != Some(pieces) {
            return Ok(false);
        }
        let is_whole = (0..pieces).all(|number| {
            let length = (bytes - number * PIECE_BYTES).min(PIECE_BYTES);
            self.piece(id, number).is_some_and(|(_, body)| body.len() == length)
        });
        if !is_whole {
            return Ok(false);
        }
        let (body, tail) = (head_body(bytes, id), Tail::until(deadline));
        self.replace_first(number, hash, name.key(), (Kind::Head, &body, version, tail))?;
        self.long.logged.values.insert(id, 0);
        self.long.logged.count(id, piece_records(pieces, bytes));
        Ok(true)
    }

    /// A log was read: pieces of values that nothing names were of uploads that ended with their process.
    pub(crate) fn end_restoring(&mut self) {
        for (id, end) in core::mem::take(&mut self.long.logged.unnamed) {
            self.long.remove_later(id, end);
            self.long.logged.ended.push_back(id);
        }
    }
}
