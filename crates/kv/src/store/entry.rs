//! What lies in the log: entries of one layout.
//!
//! ```text
//! key bytes u32 │ body bytes u32 │ table u32 │ kind u8, dead u8, marks u8, uses u8
//!   │ key │ version u64 │ body │ deadline u64, if it expires │ flags u32, if there are any │ padding to 8
//! ```
//!
//! Tables are named by the numbers that the store gave them. The marks say what is behind the body: a
//! [`Tail`].
//!
//! Version and body lie side by side, because together they are the answer to a read, which is sent from here
//! without being put together anywhere else. A value that is longer than [`WHOLE_BYTES_MAX`] is cut into
//! chunks, entries of their own, so that whatever moves entries never has to move much at a time.

/// The longest value that lies in one entry, in bytes, and the length of all chunks but the last.
pub const WHOLE_BYTES_MAX: usize = 16 << 10;

/// The longest entry.
pub const ENTRY_BYTES_MAX: usize =
    entry_bytes_with(crate::KEY_BYTES_MAX, WHOLE_BYTES_MAX, DEADLINE_BYTES + FLAGS_BYTES);

const HEADER_BYTES: usize = 16;
const VERSION_BYTES: usize = 8;
const DEAD_AT: usize = 13;
const MARKS_AT: usize = 14;
const USES_AT: usize = 15;
const DEADLINE_BYTES: usize = 8;
const FLAGS_BYTES: usize = 4;

/// What the byte at [`MARKS_AT`] consists of.
const EXPIRES: u8 = 1;
const HAS_FLAGS: u8 = 2;
const IS_STALE: u8 = 4;
const IS_WON: u8 = 8;

/// What an entry's body is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The object's value.
    Whole = 0,
    /// The length of the object's value and the number of its chunks, of eight bytes each; the value is in
    /// the chunks.
    Head = 1,
    /// A part of a value. Its key has the number of the object's chunks, which no other object has, and the
    /// part's.
    Chunk = 2,
    /// The place of a collection, of eight bytes; what it has lies beside the log.
    Collection = 3,
}

/// Bytes that an entry takes in the log.
#[inline]
pub const fn entry_bytes(key_bytes: usize, body_bytes: usize) -> usize {
    (HEADER_BYTES + key_bytes + VERSION_BYTES + body_bytes).next_multiple_of(8)
}

/// The same for an entry with this many bytes behind its body.
#[inline]
pub const fn entry_bytes_with(key_bytes: usize, body_bytes: usize, tail_bytes: usize) -> usize {
    entry_bytes(key_bytes, body_bytes + tail_bytes)
}

/// What an object has beside its value. Most have nothing, and no byte of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tail {
    /// When it expires, if it does, in the milliseconds of the store's clock.
    pub deadline: Option<u64>,
    /// What a memcached client wants to know of its value later.
    pub flags: u32,
    /// A memcached client said that a new value is on its way.
    pub is_stale: bool,
    /// A memcached client was told that it is to bring the new value.
    pub is_won: bool,
}

impl Tail {
    /// Nothing but a deadline, if there is one.
    pub const fn until(deadline: Option<u64>) -> Self {
        Self { deadline, flags: 0, is_stale: false, is_won: false }
    }

    /// Bytes that it takes.
    #[inline]
    pub fn bytes(&self) -> usize {
        tail_bytes(self.marks())
    }

    #[inline]
    fn marks(&self) -> u8 {
        let mark = |is_so: bool, mark: u8| if is_so { mark } else { 0 };
        mark(self.deadline.is_some(), EXPIRES)
            | mark(self.flags != 0, HAS_FLAGS)
            | mark(self.is_stale, IS_STALE)
            | mark(self.is_won, IS_WON)
    }

    /// Writes it behind a body.
    #[inline]
    fn write(&self, to: &mut [u8]) {
        let mut at = 0;
        if let Some(deadline) = self.deadline {
            to[..DEADLINE_BYTES].copy_from_slice(&deadline.to_le_bytes());
            at = DEADLINE_BYTES;
        }
        if self.flags != 0 {
            to[at..at + FLAGS_BYTES].copy_from_slice(&self.flags.to_le_bytes());
        }
    }
}

#[inline]
const fn tail_bytes(marks: u8) -> usize {
    (marks & EXPIRES != 0) as usize * DEADLINE_BYTES + (marks & HAS_FLAGS != 0) as usize * FLAGS_BYTES
}

/// The body of a [`Kind::Head`].
pub fn head_body(value_bytes: usize, chunks: u64) -> [u8; HEAD_BODY_BYTES] {
    let mut body = [0; HEAD_BODY_BYTES];
    body[..8].copy_from_slice(&(value_bytes as u64).to_le_bytes());
    body[8..].copy_from_slice(&chunks.to_le_bytes());
    body
}

/// The length of that.
pub const HEAD_BODY_BYTES: usize = 16;

/// The parts of an entry that is to be written.
#[derive(Clone, Copy, Debug)]
pub struct NewEntry<'a> {
    pub kind: Kind,
    pub table: u32,
    pub key: &'a [u8],
    pub version: u64,
    pub body: &'a [u8],
    pub tail: Tail,
}

impl NewEntry<'_> {
    /// Bytes that it will take.
    #[inline]
    pub fn bytes(&self) -> usize {
        entry_bytes_with(self.key.len(), self.body.len(), self.tail.bytes())
    }

    /// Writes it into memory of its length.
    #[inline]
    pub fn write(&self, to: &mut [u8]) {
        let (header, rest) = to.split_at_mut(HEADER_BYTES);
        header[..4].copy_from_slice(&(self.key.len() as u32).to_le_bytes());
        header[4..8].copy_from_slice(&(self.body.len() as u32).to_le_bytes());
        header[8..12].copy_from_slice(&self.table.to_le_bytes());
        header[12..].copy_from_slice(&[self.kind as u8, 0, self.tail.marks(), 0]);
        let (key, rest) = rest.split_at_mut(self.key.len());
        key.copy_from_slice(self.key);
        let (version, rest) = rest.split_at_mut(VERSION_BYTES);
        version.copy_from_slice(&self.version.to_le_bytes());
        let (body, rest) = rest.split_at_mut(self.body.len());
        body.copy_from_slice(self.body);
        let (tail, padding) = rest.split_at_mut(self.tail.bytes());
        self.tail.write(tail);
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
        entry_bytes_with(self.key_bytes, self.body_bytes, tail_bytes(self.log[MARKS_AT]))
    }

    /// When it expires, if it does.
    #[inline]
    pub fn deadline(&self) -> Option<u64> {
        (self.log[MARKS_AT] & EXPIRES != 0).then(|| {
            let start = self.tail_at();
            u64::from_le_bytes(self.log[start..start + DEADLINE_BYTES].try_into().expect("eight bytes"))
        })
    }

    /// What it has behind its body.
    #[inline]
    pub fn tail(&self) -> Tail {
        let marks = self.log[MARKS_AT];
        if marks == 0 {
            return Tail::default();
        }
        let deadline = self.deadline();
        let flags = if marks & HAS_FLAGS == 0 {
            0
        } else {
            let start = self.tail_at() + tail_bytes(marks & EXPIRES);
            u32::from_le_bytes(self.log[start..start + FLAGS_BYTES].try_into().expect("four bytes"))
        };
        Tail { deadline, flags, is_stale: marks & IS_STALE != 0, is_won: marks & IS_WON != 0 }
    }

    #[inline]
    fn tail_at(&self) -> usize {
        HEADER_BYTES + self.key_bytes + VERSION_BYTES + self.body_bytes
    }

    /// Whether it has expired at a time.
    #[inline]
    pub fn is_expired(&self, now: u64) -> bool {
        self.log[MARKS_AT] & EXPIRES != 0 && self.deadline().is_some_and(|deadline| deadline <= now)
    }

    #[inline]
    pub fn kind(&self) -> Kind {
        match self.log[12] {
            0 => Kind::Whole,
            1 => Kind::Head,
            2 => Kind::Chunk,
            _ => Kind::Collection,
        }
    }

    /// How it is used, as the store's policy of eviction says it.
    pub fn uses(&self) -> u8 {
        self.log[USES_AT]
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
            Kind::Head => self.head_word(0) as usize,
            _ => self.body_bytes,
        }
    }

    /// The number of the chunks of a [`Kind::Head`].
    pub fn chunks(&self) -> u64 {
        self.head_word(8)
    }

    /// The number of the chunks, if it has any.
    pub fn chunks_if_any(&self) -> Option<u64> {
        (self.kind() == Kind::Head).then(|| self.chunks())
    }

    fn head_word(&self, at: usize) -> u64 {
        u64::from_le_bytes(self.body()[at..at + 8].try_into().expect("eight bytes"))
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

/// Says how the entry at the start of `log` is used.
#[inline]
pub fn set_uses(log: &mut [u8], uses: u8) {
    log[USES_AT] = uses;
}

/// Replaces all but the key of the entry at the start of `log` by what makes it neither longer nor shorter.
#[inline]
pub fn rewrite(log: &mut [u8], key_bytes: usize, version: u64, body: &[u8], tail: Tail) {
    log[4..8].copy_from_slice(&(body.len() as u32).to_le_bytes());
    let start = HEADER_BYTES + key_bytes;
    log[start..start + VERSION_BYTES].copy_from_slice(&version.to_le_bytes());
    let end = start + VERSION_BYTES + body.len();
    log[start + VERSION_BYTES..end].copy_from_slice(body);
    log[MARKS_AT] = tail.marks();
    tail.write(&mut log[end..]);
}

/// The key of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkKey([u8; 12]);

impl ChunkKey {
    /// The key of chunk `number` of the chunks that have this number together.
    pub fn new(chunks: u64, number: usize) -> Self {
        let mut key = [0; 12];
        key[..8].copy_from_slice(&chunks.to_le_bytes());
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
        let whole = NewEntry {
            kind: Kind::Whole,
            table,
            key: b"abc",
            version: 9,
            body: b"value",
            tail: Tail::default(),
        };
        let key = ChunkKey::new(9, 2);
        let (kind, body) = (Kind::Chunk, &[] as &[u8]);
        let chunk = NewEntry { kind, table: 0, key: key.as_bytes(), version: 9, body, tail: Tail::default() };
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
        let (kind, body) = (Kind::Whole, b"1234");
        let entry = NewEntry { kind, table: 1, key: b"k", version: 1, body, tail: Tail::default() };
        let bytes = entry.bytes();
        let mut log = vec![0; bytes];
        entry.write(&mut log);
        rewrite(&mut log, 1, 2, b"1234567", Tail::default());
        let entry = Entry::at(&log);
        assert_eq!((entry.bytes(), entry.version(), entry.body()), (bytes, 2, &b"1234567"[..]));
        mark_dead(&mut log);
        assert!(Entry::at(&log).is_dead());
    }

    #[test]
    fn a_deadline_lies_behind_the_body() {
        let (kind, body) = (Kind::Whole, b"123");
        let entry = NewEntry { kind, table: 1, key: b"k", version: 1, body, tail: Tail::until(Some(70)) };
        let mut log = vec![1; entry.bytes()];
        entry.write(&mut log);
        let read = Entry::at(&log);
        assert_eq!((read.bytes(), read.body(), read.deadline()), (entry.bytes(), &b"123"[..], Some(70)));
        assert!(read.is_expired(70) && !read.is_expired(69));
        rewrite(&mut log, 1, 2, b"4567", Tail::until(Some(90)));
        assert_eq!((Entry::at(&log).body(), Entry::at(&log).deadline()), (&b"4567"[..], Some(90)));
        rewrite(&mut log, 1, 3, b"0123456789ab", Tail::default());
        assert_eq!((Entry::at(&log).bytes(), Entry::at(&log).deadline()), (entry.bytes(), None));
    }

    #[test]
    fn flags_and_marks_lie_behind_the_deadline() {
        let (kind, body) = (Kind::Whole, b"123");
        for deadline in [None, Some(70)] {
            for flags in [0, 1, u32::MAX] {
                for (is_stale, is_won) in [(false, false), (true, false), (false, true), (true, true)] {
                    let tail = Tail { deadline, flags, is_stale, is_won };
                    let entry = NewEntry { kind, table: 1, key: b"k", version: 1, body, tail };
                    let mut log = vec![1; entry.bytes()];
                    entry.write(&mut log);
                    let read = Entry::at(&log);
                    assert_eq!((read.tail(), read.body(), read.bytes()), (tail, &body[..], entry.bytes()));
                    assert_eq!(read.deadline(), deadline);
                    rewrite(&mut log, 1, 2, b"", Tail { flags: 7, ..tail });
                    assert_eq!(Entry::at(&log).tail(), Tail { flags: 7, ..tail });
                }
            }
        }
    }
}
