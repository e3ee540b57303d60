//! A simulated disk: the same seed, the same losses.
//!
//! What was written and not flushed is there to be read, and after a power cut any subset of its sectors is
//! lost. Sectors of the write in flight are new or old, each by itself. A platter can also be damaged by
//! hand: bits flip, a write goes to other blocks than it was meant for.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use farcall_base::Random;

use crate::seam::check;
use crate::{BLOCK_BYTES, Blocks, Disk, DiskError, Done, Job};

/// Bytes that a power cut leaves old or new as a whole.
pub const SECTOR_BYTES: usize = 512;

/// How a disk fails.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// The power fails when this many jobs were done; the next one is in flight then.
    pub power_fails_after: Option<u64>,
    /// This job fails, and those behind it: an error of the device.
    pub fails_from: Option<u64>,
    /// The longest that the disk becomes.
    pub bytes_max: Option<u64>,
    /// This job's blocks, if it writes, go elsewhere, and it says that it is done.
    pub misdirects: Option<u64>,
    /// A job is done after this many polls at most.
    pub polls_max: u64,
}

#[derive(Debug)]
struct State {
    platter: Vec<u8>,
    /// Sectors that were written and not flushed.
    cache: BTreeMap<u64, [u8; SECTOR_BYTES]>,
    in_flight: Option<Job>,
    polls_left: u64,
    jobs: u64,
    writes: u64,
    faults: Faults,
    random: Random,
}

/// A handle of a simulated disk; all handles are of one disk.
#[derive(Clone, Debug)]
pub struct SimulatedDisk(Arc<Mutex<State>>);

impl SimulatedDisk {
    /// An empty disk.
    pub fn new(seed: u64, faults: Faults) -> Self {
        Self(Arc::new(Mutex::new(State {
            platter: Vec::new(),
            cache: BTreeMap::new(),
            in_flight: None,
            polls_left: 0,
            jobs: 0,
            writes: 0,
            faults,
            random: Random::new(seed),
        })))
    }

    /// Cuts the power: of what was not flushed each sector survives or not, of the write in flight as well.
    /// The disk is as good as new then, but for what it holds.
    pub fn cut_power(&self) {
        let mut state = self.lock();
        let mut volatile: Vec<_> = core::mem::take(&mut state.cache).into_iter().collect();
        match state.in_flight.take() {
            Some(Job::Write { at, blocks, .. }) => volatile.extend(sectors(at, &blocks)),
            Some(Job::Extend { bytes }) if state.random.chance(0.5) => {
                let length = state.platter.len() + bytes as usize;
                state.platter.resize(length, 0);
            }
            _ => {}
        }
        // Now and then all of it survives, or nothing does.
        let survives = [0.0, 0.5, 0.9, 1.0][state.random.index(4)];
        for (sector, bytes) in volatile {
            if state.random.chance(survives) {
                state.store(sector, &bytes);
            }
        }
        (state.jobs, state.writes, state.faults) = (0, 0, Faults::default());
    }

    /// Sets how it fails from now on; jobs count from now.
    pub fn set_faults(&self, faults: Faults) {
        let mut state = self.lock();
        (state.jobs, state.faults) = (0, faults);
    }

    /// Jobs that were done since faults were set.
    pub fn jobs(&self) -> u64 {
        self.lock().jobs
    }

    /// Flips a bit on the platter.
    pub fn flip_bit(&self, at: u64, bit: u32) {
        self.lock().platter[at as usize] ^= 1 << bit;
    }

    /// What lies on the platter: flushed, and nothing else.
    pub fn platter(&self) -> Vec<u8> {
        self.lock().platter.clone()
    }

    /// Whether the power is gone.
    pub fn is_dark(&self) -> bool {
        self.lock().is_dark()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn is_dark(&self) -> bool {
        self.faults.power_fails_after.is_some_and(|jobs| self.jobs >= jobs)
    }

    fn store(&mut self, sector: u64, bytes: &[u8; SECTOR_BYTES]) {
        let at = sector as usize * SECTOR_BYTES;
        self.platter[at..at + SECTOR_BYTES].copy_from_slice(bytes);
    }

    fn flush(&mut self) {
        for (sector, bytes) in core::mem::take(&mut self.cache) {
            self.store(sector, &bytes);
        }
    }

    fn carry_out(&mut self, job: Job) -> Done {
        let number = self.jobs;
        self.jobs += 1;
        let fails = self.faults.fails_from.is_some_and(|from| number >= from);
        const EIO: i32 = 5;
        match job {
            Job::Write { blocks, .. } | Job::Read { blocks, .. } if fails => {
                Done { blocks, outcome: Err(DiskError::Failed { code: EIO }) }
            }
            Job::Extend { .. } if fails => {
                Done { blocks: Blocks::new(), outcome: Err(DiskError::Failed { code: EIO }) }
            }
            Job::Write { at, blocks, flush } => {
                self.writes += 1;
                let misdirected = self.faults.misdirects == Some(number);
                let places = (self.platter.len() - blocks.len()) / BLOCK_BYTES + 1;
                let at = if misdirected { (self.random.index(places) * BLOCK_BYTES) as u64 } else { at };
                self.cache.extend(sectors(at, &blocks));
                if flush {
                    self.flush();
                }
                Done { blocks, outcome: Ok(()) }
            }
            Job::Read { at, mut blocks } => {
                let at = at as usize;
                let bytes = blocks.len();
                blocks.copy_from_slice(&self.platter[at..at + bytes]);
                let (first, count) = (at / SECTOR_BYTES, bytes / SECTOR_BYTES);
                for (sector, bytes) in self.cache.range(first as u64..(first + count) as u64) {
                    let at = (*sector as usize - first) * SECTOR_BYTES;
                    blocks[at..at + SECTOR_BYTES].copy_from_slice(bytes);
                }
                Done { blocks, outcome: Ok(()) }
            }
            Job::Extend { bytes } => {
                let length = self.platter.len() as u64 + bytes;
                let outcome = if self.faults.bytes_max.is_some_and(|most| length > most) {
                    Err(DiskError::Full)
                } else {
                    self.platter.resize(length as usize, 0);
                    Ok(())
                };
                Done { blocks: Blocks::new(), outcome }
            }
        }
    }
}

/// The sectors of some blocks, by their numbers.
fn sectors(at: u64, blocks: &[u8]) -> impl Iterator<Item = (u64, [u8; SECTOR_BYTES])> {
    let (parts, _) = blocks.as_chunks::<SECTOR_BYTES>();
    (at / SECTOR_BYTES as u64..).zip(parts.iter().copied())
}

impl Disk for SimulatedDisk {
    fn bytes(&self) -> u64 {
        self.lock().platter.len() as u64
    }

    fn begin(&mut self, job: Job) {
        let mut state = self.lock();
        check(&job, state.platter.len() as u64);
        assert!(state.in_flight.is_none(), "one job is in flight at a time");
        let polls_max = state.faults.polls_max;
        state.polls_left = state.random.below(polls_max + 1);
        state.in_flight = Some(job);
    }

    fn poll(&mut self) -> Option<Done> {
        let mut state = self.lock();
        if state.is_dark() {
            return None;
        }
        if state.polls_left > 0 {
            state.polls_left -= 1;
            return None;
        }
        let job = state.in_flight.take()?;
        Some(state.carry_out(job))
    }

    fn wait(&mut self) -> Option<Done> {
        self.lock().polls_left = 0;
        self.poll()
    }
}
