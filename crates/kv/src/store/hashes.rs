//! The hashes under which the index has entries: under a secret key, so that no client can tell which keys
//! have one hash, nor which share a part of the index.
//!
//! What everybody can compute, [`Name::hash`](crate::Name::hash), only chooses the shard. These hashes are
//! computed from the bytes of entries and never leave the process; of the order that they give, a scan shows
//! no more than the upper bits of where its pages begin.

use farcall_base::{SipKey, SipPrefix};
use rustix::rand::{GetRandomFlags, getrandom};

use super::entry::{ChunkKey, Entry, Kind};

/// The word before the keys of chunks; no table has this number.
const CHUNKS: u64 = 1 << 32;

/// The same before what collections have.
const FIELDS: u64 = 2 << 32;

/// The secret of a store.
#[derive(Clone, Copy, Debug)]
pub struct Hashes {
    key: SipKey,
    chunks: SipPrefix,
}

impl Hashes {
    /// Under a key of the caller's.
    pub fn new(key: SipKey) -> Self {
        Self { key, chunks: key.prefix(CHUNKS) }
    }

    /// What the hashes of a table's keys have in common.
    pub fn of_table(&self, number: u32) -> SipPrefix {
        self.key.prefix(u64::from(number))
    }

    /// The hash under which the index has a chunk.
    pub fn of_chunk(&self, key: &ChunkKey) -> u64 {
        self.chunks.hash(key.as_bytes())
    }

    /// What the hashes of the fields of collections have in common.
    pub fn of_fields(&self) -> SipPrefix {
        self.key.prefix(FIELDS)
    }

    /// The hash under which the index has an entry.
    pub fn of_entry(&self, entry: &Entry<'_>) -> u64 {
        match entry.kind() {
            Kind::Chunk => self.chunks.hash(entry.key()),
            Kind::Whole | Kind::Head | Kind::Collection => self.of_table(entry.table()).hash(entry.key()),
        }
    }
}

/// A key from the system's random source.
pub fn secret_key() -> SipKey {
    let mut bytes = [0; 16];
    // A signal may interrupt the call, or cut it short, before the source is ready: then it is asked again.
    while getrandom(&mut bytes, GetRandomFlags::empty()) != Ok(bytes.len()) {}
    let (words, _) = bytes.as_chunks::<8>();
    SipKey([u64::from_ne_bytes(words[0]), u64::from_ne_bytes(words[1])])
}
