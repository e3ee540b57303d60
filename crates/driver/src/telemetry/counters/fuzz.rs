//! Counter files that no correct process writes, as a pure function of some bytes.
//!
//! The bytes are changes to a file that is right, because a fuzzer does not guess a magic number and a
//! length.

use std::fs::File;
use std::os::unix::fs::FileExt;

use rustix::fs::{MemfdFlags, ftruncate, memfd_create};

use super::layout::{
    COUNTERS_PER_GROUP_MAX, GROUP_COUNTERS, GROUP_STATE, HEADER_CAPACITY, HEADER_MAGIC, HEADER_VERSION,
    Layout, MAGIC, VERSION,
};
use super::reader::read_snapshot;

const CAPACITY: usize = 3;

/// Reads a file with the changes that `bytes` name: each an offset of 16 bits, a length of 8, and as many
/// bytes. The offset counts from one of four places, which its highest bits choose.
#[doc(hidden)]
pub fn fuzz_counter_file(bytes: &[u8]) {
    let layout = Layout { capacity: CAPACITY };
    let file = valid_file(layout);
    let places = [0, layout.group(0), layout.values(0), layout.descriptions(0)];
    let mut rest = bytes;
    while let Some((&[low, high, length], tail)) = rest.split_first_chunk::<3>() {
        let (change, tail) = tail.split_at(tail.len().min(usize::from(length)));
        rest = tail;
        let offset = places[usize::from(high >> 6)] + usize::from(u16::from_le_bytes([low, high & 0x3f]));
        file.write_all_at(change, offset as u64).expect("a memory file takes what is written");
    }
    let Ok(snapshot) = read_snapshot(&file) else { return };
    assert!(snapshot.groups.len() <= CAPACITY, "the file's length was checked against its header");
    for group in &snapshot.groups {
        assert!(group.counters.len() <= COUNTERS_PER_GROUP_MAX);
        let texts = group.counters.iter().flat_map(|counter| [&counter.name, &counter.unit, &counter.doc]);
        for text in texts.chain([&group.label]) {
            assert!(!text.chars().any(char::is_control), "{text:?} would control a terminal");
        }
    }
}

/// A file whose groups are live and have two unnamed counters each.
fn valid_file(layout: Layout) -> File {
    let file = memfd_create("farcall-fuzz", MemfdFlags::CLOEXEC).expect("the test machine has memory files");
    ftruncate(&file, layout.file_bytes() as u64).expect("a memory file can grow");
    let file = File::from(file);
    let put = |offset: usize, value: u64| {
        file.write_all_at(&value.to_le_bytes(), offset as u64).expect("a memory file takes what is written");
    };
    put(HEADER_MAGIC, MAGIC);
    const { assert!(HEADER_CAPACITY == HEADER_VERSION + 4, "one word holds both") };
    put(HEADER_VERSION, u64::from(VERSION) | (CAPACITY as u64) << 32);
    for slot in 0..CAPACITY {
        put(layout.group(slot) + GROUP_STATE, 1);
        put(layout.group(slot) + GROUP_COUNTERS, 2);
    }
    file
}
