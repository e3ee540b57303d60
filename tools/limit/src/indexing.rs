//! A file read, summed up and indexed: what a process has to do at least before it can answer for objects
//! that lie in a log.
//!
//! It reads a piece after the other, past the page cache where the file system can do that, takes the CRC32C
//! of all bytes, and puts the hash and the place of every object into a table. It does not know how a log is
//! laid out: objects are thought to lie at equal distances, with their keys in front.

use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{Mode, OFlags, fstat, open};
use rustix::io::{Errno, pread};

use crate::LimitError;
use crate::blocks::failed;

/// What is read at a time, as recovery reads segments.
const PIECE_BYTES: usize = 4 << 20;

/// Reads begin at multiples of it.
const BLOCK_BYTES: usize = 4096;

/// Bytes of a key that are hashed.
const KEY_BYTES: usize = 30;

/// A file that was read and indexed, with its table.
pub struct Indexed {
    /// Bytes that were read.
    pub bytes: u64,
    /// Their CRC32C.
    pub crc: u32,
    /// Objects that the table has.
    pub objects: u64,
    /// Where the last of them is, as the table says.
    pub last_at: u64,
    /// To give it back takes time, which is not a part of reading and indexing.
    _table: Table,
}

/// Reads `bytes` bytes of a file, or all if there are fewer, and indexes this many objects in them; then
/// looks the last one up.
///
/// # Panics
/// When there are no objects.
pub fn read_and_index(path: &Path, bytes: u64, objects: u64) -> Result<Indexed, LimitError> {
    assert!(objects > 0, "there is something to index");
    let named = |error| failed("read", path.display().to_string(), error);
    let file = opened(path).map_err(named)?;
    let length = u64::try_from(fstat(&file).map_err(named)?.st_size).unwrap_or(0).min(bytes);
    let mut table = Table::new(objects);
    let distance = length as f64 / objects as f64;
    let (mut memory, mut crc, mut at, mut object) = (vec![0; PIECE_BYTES + BLOCK_BYTES], 0, 0, 0);
    let start = memory.as_ptr().align_offset(BLOCK_BYTES);
    let mut last = 0;
    while at < length {
        let piece = &mut memory[start..start + PIECE_BYTES];
        let read = read_piece(&file, piece, at).map_err(named)?.min((length - at) as usize);
        if read == 0 {
            return Err(named(Errno::IO));
        }
        let piece = &piece[..read];
        crc = crc32c::crc32c_append(crc, piece);
        while object < objects && ((object as f64 * distance) as u64) < at + read as u64 {
            let place = (object as f64 * distance) as u64;
            let within = place.saturating_sub(at) as usize;
            last = hash_of(&piece[within..(within + KEY_BYTES).min(read)], object);
            table.insert(last, place);
            object += 1;
        }
        at += read as u64;
    }
    let last_at = table.place_of(last).expect("it was inserted");
    Ok(Indexed { bytes: length, crc, objects: table.objects, last_at, _table: table })
}

fn opened(path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    match open(path, flags | OFlags::DIRECT, Mode::empty()) {
        Err(Errno::INVAL) => open(path, flags, Mode::empty()),
        opened => opened,
    }
}

/// Fills a piece as far as the file goes.
fn read_piece(file: &OwnedFd, piece: &mut [u8], at: u64) -> Result<usize, Errno> {
    loop {
        match pread(file, &mut *piece, at) {
            Err(Errno::INTR) => {}
            read => return read,
        }
    }
}

/// Words of a key folded into each other. Objects whose bytes are the same are not: the number tells them
/// apart.
fn hash_of(key: &[u8], object: u64) -> u64 {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let fold = |hash: u64, word: u64| {
        let product = u128::from(hash ^ word) * u128::from(FACTOR);
        (product >> 64) as u64 ^ product as u64
    };
    let words = key.chunks(8).map(|chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from_le_bytes(word)
    });
    // 0 is an empty place.
    words.fold(fold(FACTOR, object), fold) | 1
}

/// Hashes and places, in open addressing.
struct Table {
    places: Vec<(u64, u64)>,
    objects: u64,
}

impl Table {
    /// With room for this many, at most three quarters full.
    fn new(objects: u64) -> Self {
        let places = (objects as usize * 4).div_ceil(3).next_power_of_two();
        Self { places: vec![(0, 0); places], objects: 0 }
    }

    fn insert(&mut self, hash: u64, place: u64) {
        let mask = self.places.len() - 1;
        let mut at = (hash >> 1) as usize & mask;
        while self.places[at].0 != 0 && self.places[at].0 != hash {
            at = (at + 1) & mask;
        }
        self.objects += u64::from(self.places[at].0 == 0);
        self.places[at] = (hash, place);
    }

    fn place_of(&self, hash: u64) -> Option<u64> {
        let mask = self.places.len() - 1;
        let from = (hash >> 1) as usize & mask;
        let places = (0..self.places.len()).map(|step| self.places[(from + step) & mask]);
        places.take_while(|(found, _)| *found != 0).find(|(found, _)| *found == hash).map(|(_, place)| place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file of the test's own.
    struct File(std::path::PathBuf);

    impl File {
        fn new(name: &str, content: &[u8]) -> Self {
            let path = std::env::temp_dir().join(format!("farcall-indexing-{name}-{}", std::process::id()));
            std::fs::write(&path, content).expect("room");
            Self(path)
        }
    }

    impl Drop for File {
        fn drop(&mut self) {
            std::fs::remove_file(&self.0).expect("the test's own");
        }
    }

    #[test]
    fn all_bytes_are_read_and_all_objects_found() {
        // Longer than a piece, and no multiple of a block.
        let content: Vec<u8> = (0..PIECE_BYTES as u32 + 70_001).map(|byte| (byte % 251) as u8).collect();
        let file = File::new("whole", &content);
        let indexed = read_and_index(&file.0, u64::MAX, 40_000).expect("it is there");
        assert_eq!((indexed.bytes, indexed.objects), (content.len() as u64, 40_000));
        assert_eq!(indexed.crc, crc32c::crc32c(&content));
        let distance = content.len() as f64 / 40_000.0;
        assert_eq!(indexed.last_at, (39_999.0 * distance) as u64);
    }

    #[test]
    fn objects_of_the_same_bytes_are_several() {
        let file = File::new("blank", &[0; 3 * BLOCK_BYTES]);
        let indexed = read_and_index(&file.0, 2 * BLOCK_BYTES as u64, 50).expect("it is there");
        assert_eq!((indexed.bytes, indexed.objects), (2 * BLOCK_BYTES as u64, 50));
    }

    #[test]
    fn a_file_that_is_not_there_is_named() {
        let error = read_and_index(Path::new("/nowhere/log"), 1, 1).err().expect("there is none");
        assert_eq!(error.to_string(), "cannot read /nowhere/log: No such file or directory (os error 2)");
    }
}
