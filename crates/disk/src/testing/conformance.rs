//! What every disk does.

use crate::{BLOCK_BYTES, Blocks, Disk, DiskError, Done, Job};

/// A disk that can be opened again, as after the end of its process.
pub trait DiskUnderTest {
    /// The disk.
    type Disk: Disk;

    /// Opens it; the first time it is empty.
    fn open(&mut self) -> Self::Disk;

    /// Takes what a power cut may take of what is on the disk, which nobody has open.
    fn cut_power(&mut self);
}

/// Runs the suite.
///
/// # Panics
/// When the disk does not do what it should.
pub fn run_conformance(mut under_test: impl DiskUnderTest) {
    grows_by_zeros(&mut under_test);
    reads_what_was_written(&mut under_test);
    keeps_what_was_flushed(&mut under_test);
    answers_each_job_once(&mut under_test);
}

/// Does a job, polling until it is done.
fn carry_out(disk: &mut impl Disk, job: Job) -> Done {
    disk.begin(job);
    loop {
        if let Some(done) = disk.poll() {
            return done;
        }
        std::thread::yield_now();
    }
}

fn pattern(seed: u8, bytes: usize) -> Blocks {
    let mut blocks = Blocks::zeroed(bytes);
    blocks.iter_mut().enumerate().for_each(|(at, byte)| *byte = seed ^ (at % 251) as u8);
    blocks
}

fn read(disk: &mut impl Disk, at: usize, bytes: usize) -> Blocks {
    let done = carry_out(disk, Job::Read { at: at as u64, blocks: Blocks::zeroed(bytes) });
    assert_eq!(done.outcome, Ok(()), "it can be read");
    done.blocks
}

fn write(disk: &mut impl Disk, at: usize, blocks: Blocks, flush: bool) {
    let outcome = carry_out(disk, Job::Write { at: at as u64, blocks, flush }).outcome;
    assert_eq!(outcome, Ok(()), "it can be written");
}

fn grows_by_zeros(under_test: &mut impl DiskUnderTest) {
    let mut disk = under_test.open();
    assert_eq!(disk.bytes(), 0, "a new disk is empty");
    for bytes in [BLOCK_BYTES, 63 * BLOCK_BYTES, 64 * BLOCK_BYTES] {
        assert_eq!(carry_out(&mut disk, Job::Extend { bytes: bytes as u64 }).outcome, Ok(()));
    }
    assert_eq!(disk.bytes(), 128 * BLOCK_BYTES as u64);
    assert!(read(&mut disk, 0, 128 * BLOCK_BYTES).iter().all(|&byte| byte == 0));
    drop(disk);
    under_test.cut_power();
    assert_eq!(under_test.open().bytes(), 128 * BLOCK_BYTES as u64, "its length survives");
}

fn reads_what_was_written(under_test: &mut impl DiskUnderTest) {
    let mut disk = under_test.open();
    for (seed, at, count, flush) in [(1, 0, 128, true), (2, 5, 1, false), (3, 5, 2, true), (4, 127, 1, false)]
    {
        write(&mut disk, at * BLOCK_BYTES, pattern(seed, count * BLOCK_BYTES), flush);
        let bytes = read(&mut disk, at * BLOCK_BYTES, count * BLOCK_BYTES);
        assert_eq!(*bytes, *pattern(seed, count * BLOCK_BYTES), "what was written last is read");
    }
    assert_eq!(*read(&mut disk, 0, BLOCK_BYTES), *pattern(1, BLOCK_BYTES), "its neighbours are untouched");
}

fn keeps_what_was_flushed(under_test: &mut impl DiskUnderTest) {
    for turn in 0..8_u8 {
        let mut disk = under_test.open();
        write(&mut disk, 0, pattern(turn, 16 * BLOCK_BYTES), false);
        write(&mut disk, 16 * BLOCK_BYTES, pattern(turn ^ 0x55, BLOCK_BYTES), true);
        write(&mut disk, 32 * BLOCK_BYTES, pattern(turn, BLOCK_BYTES), false);
        drop(disk);
        under_test.cut_power();
        let mut disk = under_test.open();
        assert_eq!(*read(&mut disk, 0, 16 * BLOCK_BYTES), *pattern(turn, 16 * BLOCK_BYTES));
        assert_eq!(*read(&mut disk, 16 * BLOCK_BYTES, BLOCK_BYTES), *pattern(turn ^ 0x55, BLOCK_BYTES));
    }
}

fn answers_each_job_once(under_test: &mut impl DiskUnderTest) {
    let mut disk = under_test.open();
    assert!(disk.poll().is_none() && disk.wait().is_none(), "nothing is in flight");
    disk.begin(Job::Write { at: 0, blocks: pattern(9, BLOCK_BYTES), flush: true });
    let done = disk.wait().expect("a job is in flight");
    assert_eq!((done.outcome, &*done.blocks), (Ok::<_, DiskError>(()), &*pattern(9, BLOCK_BYTES)));
    assert!(disk.poll().is_none() && disk.wait().is_none(), "it was done once");
}
