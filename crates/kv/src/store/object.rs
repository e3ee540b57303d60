//! An object, read where it lies.

use super::entry::{ChunkKey, Entry, Kind, Tail, WHOLE_BYTES_MAX};
use super::log::Log;

/// An object of a store.
#[derive(Clone, Copy)]
pub struct Object<'a> {
    log: &'a Log,
    entry: Entry<'a>,
}

impl<'a> Object<'a> {
    pub(super) fn new(log: &'a Log, entry: Entry<'a>) -> Self {
        Self { log, entry }
    }

    /// Its key.
    pub fn key(&self) -> &'a [u8] {
        self.entry.key()
    }

    /// Its version: never 0, and higher than all versions that an object with this key had before in this
    /// store.
    #[inline]
    pub fn version(&self) -> u64 {
        self.entry.version()
    }

    /// When it expires, if it does, in milliseconds of the store's clock.
    pub fn deadline(&self) -> Option<u64> {
        self.entry.deadline()
    }

    /// What it has beside its value.
    pub(crate) fn tail(&self) -> Tail {
        self.entry.tail()
    }

    /// Whether it is a collection, which has no value.
    pub fn is_collection(&self) -> bool {
        self.entry.kind() == Kind::Collection
    }

    /// The place of the collection that it is.
    pub(super) fn collection_place(&self) -> Option<u64> {
        super::collecting::collection_place(&self.entry)
    }

    /// The length of its value.
    #[inline]
    pub fn value_bytes(&self) -> usize {
        self.entry.value_bytes()
    }

    /// Bytes that it takes in memory, all its entries together.
    pub fn memory_bytes(&self) -> usize {
        super::object_bytes(self.key().len(), self.value_bytes())
    }

    /// The version as eight bytes, little-endian, and the value behind it, when both lie side by side: always
    /// for values of up to 16 KiB, and never for collections.
    #[inline]
    pub fn version_and_value(&self) -> Option<&'a [u8]> {
        (self.entry.kind() == Kind::Whole).then(|| self.entry.version_and_body())
    }

    /// Copies the value into memory of its length.
    ///
    /// # Panics
    /// When `to` has another length.
    pub fn copy_value_to(&self, to: &mut [u8]) {
        assert_eq!(to.len(), self.value_bytes(), "memory of the value's length");
        if self.entry.kind() != Kind::Head {
            return to.copy_from_slice(self.entry.body());
        }
        for (number, part) in to.chunks_mut(WHOLE_BYTES_MAX).enumerate() {
            part.copy_from_slice(&self.chunk(number)[..part.len()]);
        }
    }

    /// Calls `visit` with the pieces that bytes `from..end` of the value lie in, in order.
    ///
    /// # Panics
    /// When the value is shorter.
    pub fn pieces(&self, from: usize, end: usize, mut visit: impl FnMut(&[u8])) {
        if self.entry.kind() == Kind::Whole {
            return visit(&self.entry.body()[from..end]);
        }
        pieces_of(self.log, self.entry.chunks(), (from, end), visit);
    }

    fn chunk(&self, number: usize) -> &'a [u8] {
        chunk_of(self.log, self.entry.chunks(), number)
    }

    /// A copy of the value.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut value = vec![0; self.value_bytes()];
        self.copy_value_to(&mut value);
        value
    }
}

/// Calls `visit` with the pieces that bytes `from..end` of the value in these chunks lie in, in order.
pub(super) fn pieces_of(log: &Log, id: u64, (from, end): (usize, usize), mut visit: impl FnMut(&[u8])) {
    let mut at = from;
    while at < end {
        let (number, start) = (at / WHOLE_BYTES_MAX, at % WHOLE_BYTES_MAX);
        let bytes = (end - at).min(WHOLE_BYTES_MAX - start);
        visit(&chunk_of(log, id, number)[start..start + bytes]);
        at += bytes;
    }
}

fn chunk_of(log: &Log, id: u64, number: usize) -> &[u8] {
    let key = ChunkKey::new(id, number);
    let is_it = |entry: &Entry<'_>| entry.kind() == Kind::Chunk && entry.key() == key.as_bytes();
    let (_, chunk) = log.find(log.hashes().of_chunk(&key), is_it).expect("an object has all its chunks");
    chunk.body()
}
