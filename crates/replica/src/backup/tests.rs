//! What a backup refuses, and what it has after it was started again.

use std::path::PathBuf;

use super::*;

use crate::message::PIECE_BYTES_MAX;

const LOG: LogId = LogId { store: 7, shard: 1 };

fn ask(backup: &mut Backup, epoch: u64, replica: u64, request: &Request<'_>) -> Answered {
    match backup.handle(&request.encode(Subject { log: LOG, replica, epoch })) {
        Handled::Now(answered) => answered,
        Handled::Later(number) => loop {
            match backup.poll() {
                Some((done, answered)) if done == number => return answered,
                Some(_) => panic!("an answer to another request"),
                None => std::thread::yield_now(),
            }
        },
    }
}

fn write(sequence: u64, data: &[u8]) -> Request<'_> {
    Request::Write { sequence, at: 8192, bytes: 4096, flush: true, data }
}

const READ: Request<'static> = Request::Read { at: 8192, bytes: 4096 };

fn in_memory() -> Backup {
    Backup::open(Box::new(FolderShelf::new(None).expect("memory"))).expect("nothing is there")
}

#[test]
fn what_is_written_in_order_is_read_and_summed_up() {
    let mut backup = in_memory();
    let begin = Request::Begin { flushed: false };
    assert_eq!(ask(&mut backup, 1, 5, &begin), Ok(Vec::new()));
    assert_eq!(ask(&mut backup, 1, 5, &write(1, b"one")), Ok(Vec::new()));
    assert_eq!(ask(&mut backup, 1, 5, &write(3, b"three")), Err(Refusal::OutOfOrder));
    assert_eq!(ask(&mut backup, 1, 5, &write(1, b"one")), Err(Refusal::OutOfOrder));
    assert_eq!(ask(&mut backup, 1, 5, &write(2, b"")), Ok(Vec::new()), "zeros are left out");
    assert_eq!(ask(&mut backup, 1, 5, &READ), Ok(Vec::new()));
    assert_eq!(ask(&mut backup, 1, 5, &write(3, b"three")), Ok(Vec::new()));
    assert_eq!(ask(&mut backup, 1, 5, &READ), Ok(b"three".to_vec()));
    let mut blocks = vec![0; 4096];
    blocks[..5].copy_from_slice(b"three");
    let sum = crc32c::crc32c(&blocks).to_le_bytes().to_vec();
    assert_eq!(ask(&mut backup, 1, 5, &Request::Sum { at: 8192, bytes: 4096 }), Ok(sum));
    assert_eq!(ask(&mut backup, 1, 6, &READ), Err(Refusal::NoSuchReplica));
    assert_eq!(backup.handle(b"?"), Handled::Now(Err(Refusal::Malformed)));
    let no_disk = ask(&mut backup, 1, 8, &Request::Begin { flushed: true });
    assert_eq!(no_disk, Err(Refusal::NoDisk));
}

#[test]
fn an_older_epoch_is_refused_and_a_fence_drops_what_is_not_retained() {
    let mut backup = in_memory();
    for replica in [5, 6, 8] {
        ask(&mut backup, 1, replica, &Request::Begin { flushed: false }).expect("room");
        ask(&mut backup, 1, replica, &write(1, b"x")).expect("the first");
    }
    let held = ask(&mut backup, 2, 8, &Request::Fence { retained: vec![6] }).expect("it is later");
    let held = Held::decode_all(&held).expect("a list");
    let numbers: Vec<u64> = held.iter().map(|held| held.replica).collect();
    assert_eq!((numbers, held[0].bytes), (vec![6, 8], 1 << 20), "a later replica is none of its business");
    assert_eq!(ask(&mut backup, 1, 6, &write(2, b"y")), Err(Refusal::OlderEpoch));
    assert_eq!(ask(&mut backup, 1, 6, &READ), Err(Refusal::OlderEpoch));
    assert_eq!(ask(&mut backup, 2, 6, &READ), Ok(b"x".to_vec()));
    assert_eq!(ask(&mut backup, 2, 5, &READ), Err(Refusal::NoSuchReplica));
}

#[test]
fn a_backup_bounds_what_it_holds_of_one_log() {
    let mut backup = in_memory();
    let begin = Request::Begin { flushed: false };
    for replica in 0..REPLICAS_MAX as u64 {
        ask(&mut backup, 1, replica, &begin).expect("room");
    }
    assert_eq!(ask(&mut backup, 1, 99, &begin), Err(Refusal::Full));
    let long = vec![1; PIECE_BYTES_MAX + 4096];
    let too_long = Request::Write { sequence: 1, at: 0, bytes: long.len() as u32, flush: false, data: &long };
    assert_eq!(ask(&mut backup, 1, 0, &too_long), Err(Refusal::Malformed));
}

#[test]
fn a_backup_bounds_the_memory_of_all_its_replicas() {
    let shelf = FolderShelf::new(None).expect("memory").within(2 << 20);
    let mut backup = Backup::open(Box::new(shelf)).expect("nothing is there");
    for replica in [5, 6, 7] {
        ask(&mut backup, 1, replica, &Request::Begin { flushed: false }).expect("nothing is in it yet");
    }
    assert_eq!(ask(&mut backup, 1, 5, &write(1, b"x")), Ok(Vec::new()));
    assert_eq!(ask(&mut backup, 1, 6, &write(1, b"x")), Ok(Vec::new()));
    assert_eq!(ask(&mut backup, 1, 7, &write(1, b"x")), Err(Refusal::Full));
    ask(&mut backup, 2, 7, &Request::Fence { retained: vec![6] }).expect("it is later");
    ask(&mut backup, 2, 8, &Request::Begin { flushed: false }).expect("room");
    assert_eq!(ask(&mut backup, 2, 8, &write(1, b"x")), Ok(Vec::new()), "what was dropped makes room");
}

/// A folder of the test's own.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = format!("farcall-replica-{name}-{}", std::process::id());
        Self(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../target").join(folder))
    }

    fn open(&self) -> Backup {
        Backup::open(Box::new(FolderShelf::new(Some(&self.0)).expect("a folder"))).expect("it opens")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).expect("the test's own");
    }
}

#[test]
fn a_backup_that_is_started_again_has_its_replicas_and_refuses_what_it_refused() {
    let folder = Folder::new("again");
    let mut backup = folder.open();
    ask(&mut backup, 3, 5, &Request::Begin { flushed: true }).expect("a disk");
    ask(&mut backup, 3, 5, &write(1, b"kept")).expect("the first");
    ask(&mut backup, 4, 0, &Request::Fence { retained: vec![5] }).expect("it is later");
    drop(backup);
    let mut backup = folder.open();
    assert_eq!(backup.replicas(), 1);
    assert_eq!(ask(&mut backup, 3, 5, &READ), Err(Refusal::OlderEpoch));
    assert_eq!(ask(&mut backup, 4, 5, &READ), Ok(b"kept".to_vec()));
    // Another writer goes on from nothing but a new replica.
    assert_eq!(ask(&mut backup, 4, 5, &write(2, b"no")), Err(Refusal::OutOfOrder));
    drop(backup);
    let second = folder.open();
    let in_use = Backup::open(Box::new(FolderShelf::new(Some(&folder.0)).expect("a folder")));
    assert!(matches!(in_use, Err(ShelfError::Shared { .. })));
    drop(second);
    std::fs::write(folder.0.join("0000000000000007-1.epoch"), b"torn").expect("the test's own");
    let damaged = Backup::open(Box::new(FolderShelf::new(Some(&folder.0)).expect("a folder")));
    assert!(matches!(damaged, Err(ShelfError::Damaged { .. })));
}
