//! What lies in the log: entries of one layout.
//!
//! ```text
//! key bytes u32 │ body bytes u32 │ table u32 │ kind u8, dead u8, 0 u16 │ key │ version u64 │ body │ padding to 8
//! ```
//!
//! Tables are named by the numbers that the store gave them.
//!
//! Version and body lie side by side, because together they are the answer to a read, which is sent from here
//! without being put together anywhere else. A value that is longer than [`WHOLE_BYTES_MAX`] is cut into
//! chunks, entries of their own, so that whatever moves entries never has to move much at a time.

/// The longest value that lies in one entry, in bytes, and the length of all chunks but the last.
pub const WHOLE_BYTES_MAX: usize = 16 << 10;

/// The longest entry.
pub const ENTRY_BYTES_MAX: usize = entry_bytes(crate::KEY_BYTES_MAX, WHOLE_BYTES_MAX);

const HEADER_BYTES: usize = 16;
const VERSION_BYTES: usize = 8;
const DEAD_AT: usize = 13;

/// What an entry's body is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The object's value.
    Whole = 0,
    /// The length of the object's value as eight bytes; the value is in chunks.
    Head = 1,
    /// A part of a value. Its key names the version of the object, which no other object has, and the part.
    Chunk = 2,
}

/// Bytes that an entry takes in the log.
#[inline]
pub const fn entry_bytes(key_bytes: usize, body_bytes: usize) -> usize {
    (HEADER_BYTES + key_bytes + VERSION_BYTES + body_bytes).next_multiple_of(8)
}

/// The parts of an entry that is to be written.
#[derive(Clone, Copy, Debug)]
pub struct NewEntry<'a> {
    pub kind: Kind,
    pub table: u32,
    pub key: &'a [u8],
    pub version: u64,
    pub body: &'a [u8],
}

impl NewEntry<'_> {
    /// Bytes that it will take.
    #[inline]
    pub fn bytes(&self) -> usize {
        entry_bytes(self.key.len(), self.body.len())
    }

    /// Writes it into memory of its length.
    #[inline]
    pub fn write(&self, to: &mut [u8]) {
        let (header, rest) = to.split_at_mut(HEADER_BYTES);
        header[..4].copy_from_slice(&(self.key.len() as u32).to_le_bytes());
        header[4..8].copy_from_slice(&(self.body.len() as u32).to_le_bytes());
        header[8..12].copy_from_slice(&self.table.to_le_bytes());
        header[12..].copy_from_slice(&[self.kind as u8, 0, 0, 0]);
        let (key, rest) = rest.split_at_mut(self.key.len());
        key.copy_from_slice(self.key);
        let (version, rest) = rest.split_at_mut(VERSION_BYTES);
        version.copy_from_slice(&self.version.to_le_bytes());
        let (body, padding) = rest.split_at_mut(self.body.len());
        body.copy_from_slice(self.body);
        padding.fill(0);
    }
}

/// An entry in the log.
#[derive(Clone, Copy)]
pub struct Entry<'a> {
    /// From the entry's first byte on; more entries may follow.
    log: &'a [u8],
    key_bytes: usize,
    body_bytes: usize,
}

impl<'a> Entry<'a> {
    /// The entry at the start of `log`.
    #[inline]
    pub fn at(log: &'a [u8]) -> Self {
        let word = |at: usize| u32::from_le_bytes(log[at..at + 4].try_into().expect("four bytes")) as usize;
        Self { log, key_bytes: word(0), body_bytes: word(4) }
    }

    /// Bytes that it takes.
    #[inline]
    pub fn bytes(&self) -> usize {
        entry_bytes(self.key_bytes, self.body_bytes)
    }

    #[inline]
    pub fn kind(&self) -> Kind {
        match self.log[12] {
            0 => Kind::Whole,
            1 => Kind::Head,
            _ => Kind::Chunk,
        }
    }

    /// Whether it was marked by [`mark_dead`].
    #[inline]
    pub fn is_dead(&self) -> bool {
        self.log[DEAD_AT] != 0
    }

    #[inline]
    pub fn table(&self) -> u32 {
        u32::from_le_bytes(self.log[8..12].try_into().expect("four bytes"))
    }

    #[inline]
    pub fn key(&self) -> &'a [u8] {
        &self.log[HEADER_BYTES..HEADER_BYTES + self.key_bytes]
    }

    /// Version and body, side by side.
    #[inline]
    pub fn version_and_body(&self) -> &'a [u8] {
        let start = HEADER_BYTES + self.key_bytes;
        &self.log[start..start + VERSION_BYTES + self.body_bytes]
    }

    #[inline]
    pub fn version(&self) -> u64 {
        u64::from_le_bytes(self.version_and_body()[..VERSION_BYTES].try_into().expect("eight bytes"))
    }

    #[inline]
    pub fn body(&self) -> &'a [u8] {
        &self.version_and_body()[VERSION_BYTES..]
    }

    /// The length of the object's value, of which this is the first entry.
    #[inline]
    pub fn value_bytes(&self) -> usize {
        match self.kind() {
            Kind::Head => u64::from_le_bytes(self.body().try_into().expect("eight bytes")) as usize,
            _ => self.body_bytes,
        }
    }

    /// Whether it is the first entry of the object with this key.
    #[inline]
    pub fn is_of(&self, table: u32, key: &[u8]) -> bool {
        is_same(self.key(), key) && self.table() == table && self.kind() != Kind::Chunk
    }
}

/// Whether two keys are the same. Those of eight bytes, which most numbers have, are compared without a call.
#[inline]
fn is_same(key: &[u8], other: &[u8]) -> bool {
    match (<&[u8; 8]>::try_from(key), <&[u8; 8]>::try_from(other)) {
        (Ok(key), Ok(other)) => u64::from_le_bytes(*key) == u64::from_le_bytes(*other),
        _ => key == other,
    }
}

/// Marks the entry at the start of `log`: nothing refers to it any more.
#[inline]
pub fn mark_dead(log: &mut [u8]) {
    log[DEAD_AT] = 1;
}

/// Replaces version and body of the entry at the start of `log` by a body that makes it neither longer nor
/// shorter.
#[inline]
pub fn rewrite(log: &mut [u8], key_bytes: usize, version: u64, body: &[u8]) {
    log[4..8].copy_from_slice(&(body.len() as u32).to_le_bytes());
    let start = HEADER_BYTES + key_bytes;
    log[start..start + VERSION_BYTES].copy_from_slice(&version.to_le_bytes());
    log[start + VERSION_BYTES..start + VERSION_BYTES + body.len()].copy_from_slice(body);
}

/// The key of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkKey([u8; 12]);

impl ChunkKey {
    /// The key of chunk `number` of the object with this version.
    pub fn new(version: u64, number: usize) -> Self {
        let mut key = [0; 12];
        key[..8].copy_from_slice(&version.to_le_bytes());
        key[8..].copy_from_slice(&(number as u32).to_le_bytes());
        Self(key)
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_read_as_it_was_written() {
        let table = 7;
        let whole = NewEntry { kind: Kind::Whole, table, key: b"abc", version: 9, body: b"value" };
        let key = ChunkKey::new(9, 2);
        let chunk = NewEntry { kind: Kind::Chunk, table: 0, key: key.as_bytes(), version: 9, body: b"" };
        let mut log = vec![1; whole.bytes() + chunk.bytes()];
        let (start, end) = log.split_at_mut(whole.bytes());
        whole.write(start);
        chunk.write(end);
        let first = Entry::at(&log);
        assert_eq!((first.bytes(), first.bytes() % 8), (whole.bytes(), 0));
        assert_eq!((first.key(), first.version(), first.body()), (&b"abc"[..], 9, &b"value"[..]));
        assert_eq!((first.kind(), first.value_bytes(), first.is_dead()), (Kind::Whole, 5, false));
        assert!(first.is_of(table, b"abc") && !first.is_of(8, b"abc"));
        let second = Entry::at(&log[first.bytes()..]);
        assert_eq!((second.kind(), second.key()), (Kind::Chunk, key.as_bytes()));
        assert!(!second.is_of(0, key.as_bytes()), "a chunk is no object, whatever an object's key is");
    }

    #[test]
    fn a_rewritten_entry_keeps_its_size() {
        let entry = NewEntry { kind: Kind::Whole, table: 1, key: b"k", version: 1, body: b"1234" };
        let bytes = entry.bytes();
        let mut log = vec![0; bytes];
        entry.write(&mut log);
        rewrite(&mut log, 1, 2, b"1234567");
        let entry = Entry::at(&log);
        assert_eq!((entry.bytes(), entry.version(), entry.body()), (bytes, 2, &b"1234567"[..]));
        mark_dead(&mut log);
        assert!(Entry::at(&log).is_dead());
    }
}
