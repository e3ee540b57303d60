//! Counters, from the declaration to what a stranger reads.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::sync::{Mutex, PoisonError};

use super::layout::{
    GROUP_BYTES, GROUP_COUNTERS, GROUP_LABEL, HEADER_BYTES, HEADER_CAPACITY, HEADER_VERSION, LABEL_BYTES_MAX,
    Layout,
};
use super::reader::{open_memory_file, read_snapshot};
use super::{CounterFile, CounterReadError, GroupSnapshot, Snapshot};

crate::declare_counters! {
    /// Two counters to test with.
    struct TestCounters {
        sheep: "animals" => "Sheep that jumped the fence",
        wool: "bytes" => "What they carried",
    }
}

/// A file of this process that is not the one which `open_process` finds. It stays for ever, as all of them
/// do, and within reach, so that leak detectors do not mind.
fn file_of(capacity: usize) -> CounterFile {
    static FILES: Mutex<Vec<CounterFile>> = Mutex::new(Vec::new());
    let file = CounterFile::create("farcall-counters-test", capacity);
    FILES.lock().unwrap_or_else(PoisonError::into_inner).push(file);
    file
}

#[test]
fn only_memory_files_are_opened_whatever_their_names_are() {
    let folder = std::env::temp_dir().join(format!("farcall-counters-{}", std::process::id()));
    std::fs::create_dir(&folder).expect("a new folder");
    let file = folder.join("memfd:farcall-counters (deleted)");
    std::fs::write(&file, [0; 4096]).expect("a new file");
    let pipe = folder.join("pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0).expect("a pipe");
    let opened = [&file, &pipe].map(|path| open_memory_file(path).expect("it may be looked at").is_some());
    std::fs::remove_dir_all(&folder).expect("it is ours");
    assert_eq!(opened, [false, false]);
    let own = file_behind(&file_of(1));
    let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&own));
    assert!(open_memory_file(path.as_ref()).expect("it may be looked at").is_some());
}

fn file_behind(counters: &CounterFile) -> File {
    let memory = counters.memory().expect("the test machine has memory files");
    memory.file().try_clone().expect("a descriptor to spare").into()
}

fn snapshot(counters: &CounterFile) -> Snapshot {
    read_snapshot(&file_behind(counters)).expect("the file is in order")
}

fn labels(snapshot: &Snapshot) -> Vec<&str> {
    snapshot.groups.iter().map(|group| group.label.as_str()).collect()
}

#[test]
fn a_process_reads_its_own_counters_by_its_number() {
    let counters = TestCounters::new(CounterFile::process(), "meadow#1");
    counters.sheep.increment();
    counters.sheep.add(4);
    counters.wool.set(7);
    let snapshot = CounterFile::open_process(std::process::id()).expect("our own counters");
    assert_eq!(snapshot.owner, u64::from(std::process::id()));
    let group = snapshot.groups.iter().find(|group| group.label == "meadow#1").expect("our group");
    let read: Vec<_> = group.counters.iter().map(|c| (c.name.as_str(), c.unit.as_str(), c.value)).collect();
    assert_eq!(read, [("sheep", "animals", 5), ("wool", "bytes", 7)]);
    assert_eq!(group.counters[0].doc, "Sheep that jumped the fence");
}

#[test]
fn a_dropped_group_is_gone_and_its_slot_starts_again_at_zero() {
    let file = file_of(1);
    let first = TestCounters::new(&file, "first");
    first.sheep.add(100);
    drop(first);
    assert_eq!(labels(&snapshot(&file)), [""; 0]);
    let second = TestCounters::new(&file, "second");
    assert_eq!(second.sheep.get(), 0);
    assert_eq!(labels(&snapshot(&file)), ["second"]);
}

#[test]
fn a_full_file_says_so_and_the_group_still_counts() {
    let file = file_of(1);
    let listed = TestCounters::new(&file, "listed");
    let unlisted = TestCounters::new(&file, "unlisted");
    unlisted.wool.add(3);
    assert_eq!(unlisted.wool.get(), 3);
    let full = snapshot(&file);
    assert_eq!((full.unlisted_groups, labels(&full)), (1, vec!["listed"]));
    drop((listed, unlisted));
    assert_eq!(snapshot(&file).unlisted_groups, 0);
}

#[test]
fn a_long_label_is_cut_at_a_character() {
    let file = file_of(1);
    let _counters = TestCounters::new(&file, &"ö".repeat(LABEL_BYTES_MAX));
    assert_eq!(labels(&snapshot(&file)), ["ö".repeat(LABEL_BYTES_MAX / 2)]);
}

#[test]
fn groups_come_and_go_under_a_readers_eyes() {
    let file = file_of(2);
    let reader = file_behind(&file);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for round in 0..2_000 {
                let label = if round % 2 == 0 { "even" } else { "odd" };
                let counters = TestCounters::new(&file, label);
                counters.sheep.set(round % 2);
            }
        });
        while !writer.is_finished() {
            for group in read_snapshot(&reader).expect("never torn").groups {
                assert_whole(&group);
            }
        }
    });
}

/// A group's label, descriptions and values are of one and the same group.
fn assert_whole(group: &GroupSnapshot) {
    assert!(["even", "odd"].contains(&group.label.as_str()), "a torn label: {:?}", group.label);
    let names: Vec<_> = group.counters.iter().map(|counter| counter.name.as_str()).collect();
    assert_eq!(names, ["sheep", "wool"]);
    assert!(group.label == "odd" || group.counters[0].value == 0, "the count of another group");
}

/// A copy of a good file with one group in one slot, altered by `damage`.
fn damaged(damage: impl FnOnce(&File) -> io::Result<()>) -> Result<Snapshot, CounterReadError> {
    let counters = file_of(1);
    let group = TestCounters::new(&counters, "victim");
    let mut bytes = vec![0; Layout { capacity: 1 }.file_bytes()];
    file_behind(&counters).read_exact_at(&mut bytes, 0).expect("a readable file");
    drop(group);
    let copy =
        rustix::fs::memfd_create("farcall-counters-copy", rustix::fs::MemfdFlags::CLOEXEC).expect("a file");
    let mut copy = File::from(copy);
    copy.write_all(&bytes).expect("room");
    damage(&copy).expect("the damage is done");
    read_snapshot(&copy)
}

#[test]
fn a_damaged_file_is_refused() {
    assert_eq!(labels(&damaged(|_| Ok(())).expect("an exact copy is fine")), ["victim"]);
    let refusal = |damage: fn(&File) -> io::Result<()>| damaged(damage).expect_err("damage is noticed");
    assert!(matches!(refusal(|file| file.set_len(0)), CounterReadError::Io(_)));
    assert!(matches!(refusal(|file| file.set_len(HEADER_BYTES as u64)), CounterReadError::Malformed { .. }));
    assert!(matches!(refusal(|file| file.write_all_at(&[0], 0)), CounterReadError::Malformed { .. }));
    let version = refusal(|file| file.write_all_at(&[9], HEADER_VERSION as u64));
    assert!(matches!(version, CounterReadError::Version { version: 9 }));
    let capacity = refusal(|file| file.write_all_at(&[0xff; 4], HEADER_CAPACITY as u64));
    assert!(matches!(capacity, CounterReadError::Malformed { .. }));
    let count = refusal(|file| file.write_all_at(&[0xff; 8], (HEADER_BYTES + GROUP_COUNTERS) as u64));
    assert!(matches!(count, CounterReadError::Malformed { .. }));
}

#[test]
fn hostile_text_cannot_reach_a_terminal() {
    let label = (HEADER_BYTES + GROUP_LABEL) as u64;
    let snapshot = damaged(|file| file.write_all_at(b"\x1b[2J\xff\n", label)).expect("only text was altered");
    assert_eq!(snapshot.groups[0].label, "\u{fffd}[2J\u{fffd}\u{fffd}");
}

#[test]
fn random_bytes_never_panic_the_reader() {
    let mut state = 0x5eed_u64;
    for _ in 0..64 {
        let result = damaged(|file| {
            for _ in 0..16 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let offset = (state >> 33) % (HEADER_BYTES + GROUP_BYTES) as u64;
                file.write_all_at(&[(state >> 24) as u8], offset)?;
            }
            Ok(())
        });
        assert!(result.is_err() || result.is_ok_and(|snapshot| snapshot.groups.len() <= 1));
    }
}

#[test]
fn a_process_without_counters_and_no_process_at_all_are_told_apart() {
    let mut child =
        std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().expect("a child");
    let without = CounterFile::open_process(child.id());
    child.kill().expect("our own child");
    let pid = child.id();
    child.wait().expect("our own child");
    assert!(matches!(without, Err(CounterReadError::NoCounters { .. })), "{without:?}");
    assert!(matches!(CounterFile::open_process(pid), Err(CounterReadError::NoProcess { .. })));
}
