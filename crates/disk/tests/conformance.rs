//! The suite, over the disks that there are.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};

use farcall_disk::testing::{DiskUnderTest, Faults, SECTOR_BYTES, SimulatedDisk, run_conformance};
use farcall_disk::{BLOCK_BYTES, Blocks, Disk, DiskError, Done, FileDisk, Job, MemoryDisk, OpenError};

/// A folder of the test's own.
struct Folder(PathBuf);

impl Folder {
    fn new(base: PathBuf, name: &str) -> Self {
        let folder = Self(base.join(format!("farcall-disk-{name}-{}", std::process::id())));
        std::fs::create_dir(&folder.0).expect("a fresh folder");
        folder
    }

    fn file(&self) -> PathBuf {
        self.0.join("disk")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).expect("the test's own");
    }
}

struct Opened(Folder);

impl DiskUnderTest for Opened {
    type Disk = FileDisk;

    fn open(&mut self) -> FileDisk {
        FileDisk::open(&self.0.file()).expect("a file")
    }

    /// This machine stays up.
    fn cut_power(&mut self) {}
}

struct Simulated(SimulatedDisk);

impl DiskUnderTest for Simulated {
    type Disk = SimulatedDisk;

    fn open(&mut self) -> SimulatedDisk {
        self.0.clone()
    }

    fn cut_power(&mut self) {
        self.0.cut_power();
    }
}

/// Memory that its owner hands from one user to the next.
#[derive(Clone, Default)]
struct Remembered(Arc<Mutex<MemoryDisk>>);

impl Remembered {
    fn disk(&self) -> MutexGuard<'_, MemoryDisk> {
        self.0.lock().expect("no test panicked with it")
    }
}

impl Disk for Remembered {
    fn bytes(&self) -> u64 {
        self.disk().bytes()
    }

    fn begin(&mut self, job: Job) {
        self.disk().begin(job);
    }

    fn poll(&mut self) -> Option<Done> {
        self.disk().poll()
    }

    fn wait(&mut self) -> Option<Done> {
        self.disk().wait()
    }
}

impl DiskUnderTest for Remembered {
    type Disk = Self;

    fn open(&mut self) -> Self {
        self.clone()
    }

    /// The process goes on.
    fn cut_power(&mut self) {}
}

/// Where the build lies: a file system of a disk.
fn on_disk() -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
}

#[test]
fn a_file_is_a_disk() {
    run_conformance(Opened(Folder::new(on_disk(), "file")));
}

#[test]
fn a_file_in_memory_is_a_disk() {
    run_conformance(Opened(Folder::new("/dev/shm".into(), "memory")));
}

#[test]
fn memory_is_a_disk() {
    run_conformance(Remembered::default());
}

#[test]
fn the_simulated_disk_is_a_disk() {
    for seed in 0..20 {
        run_conformance(Simulated(SimulatedDisk::new(
            seed,
            Faults { polls_max: seed % 3, ..Faults::default() },
        )));
    }
}

#[test]
fn a_file_is_used_by_one_at_a_time() {
    let folder = Folder::new(on_disk(), "lock");
    let first = FileDisk::open(&folder.file()).expect("nobody has it");
    let second = FileDisk::open(&folder.file()).expect_err("it is in use");
    assert!(matches!(second, OpenError::InUse { .. }), "{second}");
    drop(first);
    FileDisk::open(&folder.file()).expect("it is free again");
}

#[test]
fn no_file_can_be_opened_in_a_folder_that_is_not_there() {
    let folder = Folder::new(on_disk(), "absent");
    let error = FileDisk::open(&folder.0.join("none").join("disk")).expect_err("no such folder");
    assert!(error.to_string().starts_with("cannot open "), "{error}");
}

#[test]
fn a_file_that_is_shorter_than_a_block_is_a_disk_only_where_it_is_blank() {
    let folder = Folder::new(on_disk(), "short");
    for (bytes, is_disk) in [(&b"notes"[..], false), (&[7; 4095], false), (&[0; 4095], true), (b"", true)] {
        std::fs::write(folder.file(), bytes).expect("room");
        let opened = FileDisk::open(&folder.file());
        assert_eq!(opened.is_ok(), is_disk, "{} bytes", bytes.len());
        assert!(is_disk || matches!(opened, Err(OpenError::NoBlock { .. })));
        assert_eq!(std::fs::read(folder.file()).expect("it is there"), bytes, "it is as it was");
    }
}

#[test]
fn what_was_not_flushed_is_lost_sector_by_sector() {
    let mut fates = std::collections::BTreeSet::new();
    for seed in 0..200 {
        let mut disk = SimulatedDisk::new(seed, Faults::default());
        disk.begin(Job::Extend { bytes: 2 * BLOCK_BYTES as u64 });
        disk.wait().expect("it is done");
        let mut ones = Blocks::zeroed(BLOCK_BYTES);
        ones.fill(1);
        disk.begin(Job::Write { at: 0, blocks: ones, flush: false });
        disk.wait().expect("it is done");
        disk.cut_power();
        let kept =
            disk.platter().chunks(SECTOR_BYTES).filter(|sector| sector.iter().all(|&byte| byte == 1)).count();
        let lost =
            disk.platter().chunks(SECTOR_BYTES).filter(|sector| sector.iter().all(|&byte| byte == 0)).count();
        assert_eq!(kept + lost, 2 * BLOCK_BYTES / SECTOR_BYTES, "sectors are whole");
        fates.insert(kept);
    }
    assert!(fates.contains(&0) && fates.contains(&8) && fates.len() > 5, "{fates:?}");
}

#[test]
fn a_disk_fails_as_told() {
    let mut disk = SimulatedDisk::new(1, Faults { bytes_max: Some(BLOCK_BYTES as u64), ..Faults::default() });
    let mut carry_out = |job| {
        disk.begin(job);
        disk.wait().expect("it is done").outcome
    };
    assert_eq!(carry_out(Job::Extend { bytes: BLOCK_BYTES as u64 }), Ok(()));
    assert_eq!(carry_out(Job::Extend { bytes: BLOCK_BYTES as u64 }), Err(DiskError::Full));
    disk.set_faults(Faults { fails_from: Some(1), ..Faults::default() });
    let mut write = || {
        disk.begin(Job::Write { at: 0, blocks: Blocks::zeroed(BLOCK_BYTES), flush: true });
        disk.wait().map(|done| done.outcome)
    };
    assert_eq!((write(), write()), (Some(Ok(())), Some(Err(DiskError::Failed { code: 5 }))));
    disk.set_faults(Faults { power_fails_after: Some(0), ..Faults::default() });
    disk.begin(Job::Write { at: 0, blocks: Blocks::zeroed(BLOCK_BYTES), flush: true });
    assert!(disk.wait().is_none() && disk.is_dark());
}
