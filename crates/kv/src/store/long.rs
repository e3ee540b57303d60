//! Long values: written and read in pieces, and removed in pieces.
//!
//! A value that is longer than [`VALUE_BYTES_MAX`] comes in pieces, and lies in chunks from the first of them
//! on. It is an object's from when all of it is there. Who writes it, or reads it, holds it: its chunks stay
//! for as long, whatever becomes of the object. Chunks that are nobody's are removed a few at a time.
//!
//! What is read and no object's any more takes memory that others may need. When nothing else makes room,
//! such a value is cut: its chunks go, and who reads it is told so at its next step.

use core::sync::atomic::{AtomicBool, Ordering};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::entry::{ChunkKey, Entry, Kind, NewEntry, Tail, WHOLE_BYTES_MAX, entry_bytes, head_body};
use super::logged_long::LoggedValues;
use super::writing::object_bytes;
use super::{Expiry, Object, Store, WriteError};
use crate::{Name, VALUE_BYTES_MAX};

/// The longest value that can be stored in pieces.
pub const LONG_BYTES_MAX: usize = 512 << 20;

/// The length of all pieces but the last.
pub const PIECE_BYTES: usize = WHOLE_BYTES_MAX;

/// Chunks that are removed together: those of the longest value that is written at one go.
const CHUNKS_AT_ONCE: usize = VALUE_BYTES_MAX / WHOLE_BYTES_MAX;

/// Somebody's hold of a long value. Its chunks may go when it is dropped.
#[derive(Clone, Debug)]
pub struct Held {
    id: u64,
    bytes: usize,
    is_cut: Arc<AtomicBool>,
}

impl Held {
    /// The number of its chunks.
    pub(super) fn id(&self) -> u64 {
        self.id
    }

    /// How long the value is, as far as it was written when this was made.
    pub fn len(&self) -> usize {
        self.bytes
    }
}

/// Its chunks are gone, because their memory was needed or because they were to be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut;

/// Whose a value is that is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    /// Who writes it: it is no object's yet.
    Writer,
    Object,
    /// Those who read it: it is no object's any more.
    Readers,
}

/// A value that is held.
#[derive(Debug)]
struct Holding {
    chunks: usize,
    is_cut: Arc<AtomicBool>,
    owner: Owner,
}

/// Chunks that are to be removed, from the last one to the first.
#[derive(Debug)]
struct Gone {
    id: u64,
    chunks: usize,
}

/// What is known of long values beside their entries.
#[derive(Debug, Default)]
pub struct LongValues {
    /// By their numbers, so that the oldest is the first.
    held: BTreeMap<u64, Holding>,
    gone: VecDeque<Gone>,
    pub(super) logged: LoggedValues,
}

impl LongValues {
    /// Whether the value of this number is held.
    pub fn is_held(&self, id: u64) -> bool {
        self.held.contains_key(&id)
    }

    /// The chunks of a value are no object's any more.
    pub fn leave(&mut self, id: u64, chunks: usize) {
        self.logged.end(id);
        match self.held.get_mut(&id) {
            Some(holding) => holding.owner = Owner::Readers,
            None => self.gone.push_back(Gone { id, chunks }),
        }
    }

    /// Forgets holds that were dropped.
    fn release(&mut self) {
        let Self { gone, logged, .. } = self;
        self.held.retain(|&id, holding| {
            // One is this one's.
            let is_held = Arc::strong_count(&holding.is_cut) > 1;
            if !is_held && holding.owner != Owner::Object {
                logged.end(id);
                gone.push_back(Gone { id, chunks: holding.chunks });
            }
            is_held
        });
    }

    /// Cuts the oldest value that is only read; says whether there was one.
    fn cut_oldest(&mut self) -> bool {
        let is_only_read = |(_, holding): &(&u64, &Holding)| holding.owner == Owner::Readers;
        let Some((&id, _)) = self.held.iter().find(is_only_read) else { return false };
        if let Some(holding) = self.held.remove(&id) {
            holding.is_cut.store(true, Ordering::Relaxed);
            self.gone.push_back(Gone { id, chunks: holding.chunks });
        }
        true
    }

    /// Chunks that nothing names are to be removed.
    pub(super) fn remove_later(&mut self, id: u64, chunks: usize) {
        self.gone.push_back(Gone { id, chunks });
    }

    /// Whether nothing is held, and nothing is to be removed.
    fn is_idle(&self) -> bool {
        self.held.is_empty() && self.gone.is_empty()
    }
}

/// Whether an object's chunks are too many to be removed with it.
pub fn goes_later(chunks: usize) -> bool {
    chunks > CHUNKS_AT_ONCE
}

impl Store {
    /// Whether a value of this length could be there at all, next to nothing else.
    pub(crate) fn could_hold(&self, bytes: usize) -> bool {
        let bytes = object_bytes(crate::KEY_BYTES_MAX, bytes);
        bytes <= self.log.live_bytes_max() && bytes <= self.log.limit_bytes()
    }

    /// Begins a long value. It is nobody's until it is put.
    pub(crate) fn begin_long(&mut self) -> Held {
        // Versions and the numbers of chunks are one count, so that neither is given twice.
        self.last_version += 1;
        let (id, is_cut) = (self.last_version, Arc::new(AtomicBool::new(false)));
        let holding = Holding { chunks: 0, is_cut: Arc::clone(&is_cut), owner: Owner::Writer };
        self.long.held.insert(id, holding);
        Held { id, bytes: 0, is_cut }
    }

    /// Writes the next pieces of a value that was begun: of [`PIECE_BYTES`] all but its last.
    pub(crate) fn extend_long(&mut self, held: &mut Held, bytes: &[u8]) -> Result<(), WriteError> {
        let first = held.bytes / PIECE_BYTES;
        for piece in bytes.chunks(PIECE_BYTES) {
            let number = held.bytes / PIECE_BYTES;
            self.add_chunk(held.id, number, piece)?;
            held.bytes += piece.len();
            if let Some(holding) = self.long.held.get_mut(&held.id) {
                holding.chunks = number + 1;
            }
        }
        let numbers = first..held.bytes.div_ceil(PIECE_BYTES);
        let pieces = numbers.len();
        self.note_pieces(held.id, numbers, (pieces, bytes.len()));
        Ok(())
    }

    /// Adds a chunk, which has no other in its place.
    pub(super) fn add_chunk(&mut self, id: u64, number: usize, body: &[u8]) -> Result<(), WriteError> {
        let key = ChunkKey::new(id, number);
        let hash = self.log.hashes().of_chunk(&key);
        let (kind, key) = (Kind::Chunk, key.as_bytes());
        let entry = NewEntry { kind, table: 0, key, version: id, body, tail: Tail::default() };
        if !self.make_room(hash, entry.bytes(), 0) {
            return Err(WriteError::OutOfMemory);
        }
        self.log.prepare(entry.bytes())?;
        Ok(self.log.add(hash, &entry)?)
    }

    /// Puts a value that was written in pieces where a name is, whatever is there; gives its version.
    pub(crate) fn put_long(
        &mut self,
        name: Name<'_>,
        held: &Held,
        expiry: Expiry,
    ) -> Result<u64, WriteError> {
        let table = self.tables.find(name.table()).ok_or(WriteError::UnknownTable)?;
        let (number, hash) = (table.number, table.hash(name.key()));
        let found = self.find(table, name.key()).map(|(_, entry)| (entry.bytes(), entry.tail()));
        let (old_bytes, old_tail) = found.unwrap_or_default();
        let (tail, body) = (expiry.tail(old_tail), head_body(held.bytes, held.id));
        let new_bytes = entry_bytes(name.key().len(), body.len() + tail.bytes());
        if !self.make_room(hash, new_bytes, old_bytes) {
            return Err(WriteError::OutOfMemory);
        }
        let version = self.last_version + 1;
        self.replace_first(number, hash, name.key(), (Kind::Head, &body, version, tail))?;
        if let Some(holding) = self.long.held.get_mut(&held.id) {
            holding.owner = Owner::Object;
        }
        Ok(version)
    }

    /// Holds the value of an object that is long.
    pub(crate) fn hold_long(&mut self, name: Name<'_>) -> Option<Held> {
        let (_, entry) = self.find_entry(name).ok()??;
        let (id, bytes) = (entry.chunks_if_any()?, entry.value_bytes());
        if bytes > VALUE_BYTES_MAX { Some(self.hold(id, bytes)) } else { None }
    }

    /// Whether a value that is held is that of an object, as it was when it was held.
    pub(crate) fn is_value_of(&self, name: Name<'_>, held: &Held) -> bool {
        let found = self.find_entry(name).ok().flatten();
        let is_it = |entry: &Entry<'_>| {
            is_long(entry) && (entry.chunks(), entry.value_bytes()) == (held.id, held.bytes)
        };
        found.is_some_and(|(_, entry)| is_it(&entry)) && !held.is_cut.load(Ordering::Relaxed)
    }

    /// Holds the value of an object.
    fn hold(&mut self, id: u64, bytes: usize) -> Held {
        let chunks = bytes.div_ceil(PIECE_BYTES);
        let (is_cut, owner) = (Arc::default(), Owner::Object);
        let holding = self.long.held.entry(id).or_insert(Holding { chunks, is_cut, owner });
        Held { id, bytes, is_cut: Arc::clone(&holding.is_cut) }
    }

    /// Calls `visit` with the pieces that bytes `from..end` of a value that is held lie in, in order.
    ///
    /// # Panics
    /// When the value is shorter.
    pub(crate) fn read_long(
        &self,
        held: &Held,
        (from, end): (usize, usize),
        visit: impl FnMut(&[u8]),
    ) -> Result<(), Cut> {
        if held.is_cut.load(Ordering::Relaxed) {
            return Err(Cut);
        }
        assert!(end <= held.bytes, "a part of the value");
        super::object::pieces_of(&self.log, held.id, (from, end), visit);
        Ok(())
    }

    /// Writes behind the value of an object, which is cut into chunks; gives its version.
    pub(crate) fn append_long(&mut self, name: Name<'_>, part: &[u8]) -> Result<u64, WriteError> {
        let (id, bytes) = self.chunks_at(name)?;
        // What is held makes no room for itself.
        let held = self.hold(id, bytes);
        let (first, filled) = (bytes / PIECE_BYTES, bytes % PIECE_BYTES);
        let (last, more) = part.split_at(part.len().min((PIECE_BYTES - filled) % PIECE_BYTES));
        let number = bytes.div_ceil(PIECE_BYTES);
        let mut added = Ok(());
        for (at, piece) in more.chunks(PIECE_BYTES).enumerate() {
            added = added.and_then(|()| self.add_chunk(id, number + at, piece));
        }
        if filled > 0 && !last.is_empty() {
            added = added.and_then(|()| self.lengthen_chunk((id, first), filled, last));
        }
        if let Err(error) = added {
            self.remove_chunks(id, number..number + more.len().div_ceil(PIECE_BYTES));
            return Err(error);
        }
        let end = (bytes + part.len()).div_ceil(PIECE_BYTES);
        if let Some(holding) = self.long.held.get_mut(&id) {
            holding.chunks = end;
        }
        drop(held);
        self.note_pieces(id, first..end, (end - number, part.len()));
        Ok(self.rewrite_head(name, id, bytes + part.len()))
    }

    /// Writes over a part of the value of an object, which is cut into chunks and reaches so far; gives its
    /// version. Who reads it is cut.
    pub(crate) fn overwrite_long(
        &mut self,
        name: Name<'_>,
        offset: usize,
        part: &[u8],
    ) -> Result<u64, WriteError> {
        let (id, bytes) = self.chunks_at(name)?;
        assert!(offset + part.len() <= bytes, "the value reaches so far");
        if let Some(holding) = self.long.held.remove(&id) {
            holding.is_cut.store(true, Ordering::Relaxed);
        }
        let (mut at, mut rest, stamp) = (offset, part, self.last_version + 1);
        while !rest.is_empty() {
            let (number, start) = (at / PIECE_BYTES, at % PIECE_BYTES);
            let (piece, behind) = rest.split_at(rest.len().min(PIECE_BYTES - start));
            let key = ChunkKey::new(id, number);
            let (place, chunk) = self.find_chunk(&key);
            let mut body = chunk.body().to_vec();
            body[start..start + piece.len()].copy_from_slice(piece);
            self.log.rewrite(place, key.as_bytes().len(), stamp, &body, Tail::default());
            (at, rest) = (at + piece.len(), behind);
        }
        self.note_pieces(id, offset / PIECE_BYTES..at.div_ceil(PIECE_BYTES), (0, 0));
        Ok(self.rewrite_head(name, id, bytes))
    }

    /// The number of the chunks of an object, and how long its value is.
    fn chunks_at(&self, name: Name<'_>) -> Result<(u64, usize), WriteError> {
        let found = self.find_entry(name).map_err(|_| WriteError::UnknownTable)?;
        let head = found.filter(|(_, entry)| entry.kind() == Kind::Head);
        let (_, entry) = head.ok_or(WriteError::WrongVersion { version: 0 })?;
        Ok((entry.chunks(), entry.value_bytes()))
    }

    pub(super) fn find_chunk(&self, key: &ChunkKey) -> (super::segments::Place, Entry<'_>) {
        let is_it = |entry: &Entry<'_>| entry.kind() == Kind::Chunk && entry.key() == key.as_bytes();
        let hash = self.log.hashes().of_chunk(key);
        self.log.find(hash, is_it).expect("an object in the index has all its chunks")
    }

    /// Puts a longer chunk in the place of the last one, of which `filled` bytes count.
    fn lengthen_chunk(
        &mut self,
        (id, number): (u64, usize),
        filled: usize,
        more: &[u8],
    ) -> Result<(), WriteError> {
        let key = ChunkKey::new(id, number);
        let hash = self.log.hashes().of_chunk(&key);
        let (_, chunk) = self.find_chunk(&key);
        let old_bytes = chunk.bytes();
        let body = [&chunk.body()[..filled], more].concat();
        // A stamp: the log tells by it which of two records is the later one.
        let (kind, version) = (Kind::Chunk, self.last_version + 1);
        let tail = Tail::default();
        let entry = NewEntry { kind, table: 0, key: key.as_bytes(), version, body: &body, tail };
        if !self.make_room(hash, entry.bytes(), old_bytes) {
            return Err(WriteError::OutOfMemory);
        }
        self.log.prepare(entry.bytes())?;
        let is_it = |entry: &Entry<'_>| entry.kind() == Kind::Chunk && entry.key() == key.as_bytes();
        let (place, _) = self.log.find(hash, is_it).ok_or(WriteError::OutOfMemory)?;
        self.log.replace(hash, place, &entry);
        Ok(())
    }

    /// Gives the object of a name, which is cut into chunks, another length and the next version.
    fn rewrite_head(&mut self, name: Name<'_>, id: u64, bytes: usize) -> u64 {
        self.last_version += 1;
        let found = self.find_entry(name).ok().flatten();
        let (place, entry) = found.expect("it was looked up");
        let tail = Tail { is_stale: false, is_won: false, ..entry.tail() };
        let body = head_body(bytes, id);
        self.log.rewrite(place, name.key().len(), self.last_version, &body, tail);
        self.note_rewritten(place);
        self.last_version
    }

    /// Removes some chunks that are nobody's; says whether it removed any.
    pub(super) fn remove_gone(&mut self) -> bool {
        if self.long.is_idle() {
            return false;
        }
        self.long.release();
        let Some(gone) = self.long.gone.front_mut() else { return false };
        let end = gone.chunks;
        let from = end.saturating_sub(CHUNKS_AT_ONCE);
        let id = gone.id;
        gone.chunks = from;
        if from == 0 {
            self.long.gone.pop_front();
        }
        self.remove_chunks(id, from..end);
        true
    }

    /// The same to make room, at whatever cost to those who hold values that are nobody's.
    pub(super) fn cut_held(&mut self) -> bool {
        self.long.cut_oldest() && self.remove_gone()
    }

    /// Whether the value of an entry is being read.
    pub(super) fn is_held(&self, entry: &Entry<'_>) -> bool {
        entry.kind() == Kind::Head && self.long.is_held(entry.chunks())
    }
}

/// Whether an entry's value is longer than those that are read and written at one go.
pub fn is_long(entry: &Entry<'_>) -> bool {
    entry.kind() == Kind::Head && entry.value_bytes() > VALUE_BYTES_MAX
}

impl Object<'_> {
    /// Whether its value is one that is read in pieces only.
    pub fn is_long(&self) -> bool {
        self.value_bytes() > VALUE_BYTES_MAX
    }
}
