//! One replica: the image of a log, block by block, on a disk of its own.

use std::collections::VecDeque;

use farcall_disk::{Blocks, Disk, DiskError, Done, Job};

use super::Answered;
use crate::message::{Refusal, without_zeros};

/// The most requests that wait for one replica: its primary has few in flight.
const WAITING_MAX: usize = 32;

/// An image grows by this many bytes at a time.
const GROWTH_BYTES: u64 = 1 << 20;

/// What is done with the blocks that a job has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    Write { flush: bool },
    Read,
    Sum,
}

/// A request that needs the disk, with the number under which its answer was promised.
#[derive(Debug)]
pub struct Work {
    number: u64,
    purpose: Purpose,
    at: u64,
    blocks: Blocks,
}

impl Work {
    /// Writes data, and zeros behind it, out of this memory.
    pub fn write(number: u64, (at, bytes): (u64, u32), flush: bool, data: &[u8], mut blocks: Blocks) -> Self {
        blocks.resize(0);
        blocks.extend_from_slice(data);
        blocks.resize(bytes as usize);
        Self { number, purpose: Purpose::Write { flush }, at, blocks }
    }

    /// Reads.
    pub fn read(number: u64, (at, bytes): (u64, u32)) -> Self {
        Self { number, purpose: Purpose::Read, at, blocks: Blocks::zeroed(bytes as usize) }
    }

    /// Sums up.
    pub fn sum(number: u64, (at, bytes): (u64, u32)) -> Self {
        Self { purpose: Purpose::Sum, ..Self::read(number, (at, bytes)) }
    }

    fn end(&self) -> u64 {
        self.at + self.blocks.len() as u64
    }
}

/// What the disk is at.
#[derive(Debug)]
enum Stage {
    Idle,
    /// It becomes long enough for a write.
    Growing(Work),
    Working {
        number: u64,
        purpose: Purpose,
    },
}

/// A replica.
pub struct Replica {
    disk: Box<dyn Disk>,
    stage: Stage,
    waiting: VecDeque<Work>,
    done: VecDeque<(u64, Answered)>,
    /// Memory for the next write: that of the last one.
    spare: Blocks,
    /// The number of the last write that was taken.
    sequence: u64,
    /// After a write that failed nobody knows what it holds: it is of no use any more. One that cannot be
    /// read somewhere is: it is written again there, and what lies elsewhere is as good as ever.
    failed: Option<Refusal>,
}

impl Replica {
    pub fn new(disk: Box<dyn Disk>) -> Self {
        let (waiting, done, spare) = (VecDeque::new(), VecDeque::new(), Blocks::new());
        Self { disk, stage: Stage::Idle, waiting, done, spare, sequence: 0, failed: None }
    }

    pub fn bytes(&self) -> u64 {
        self.disk.bytes()
    }

    /// Whether the disk is at something, or an answer waits to be fetched.
    pub fn is_working(&self) -> bool {
        !matches!(self.stage, Stage::Idle) || !self.done.is_empty()
    }

    /// Whether a write of this number is the next one, which counts from now on.
    pub fn takes(&mut self, sequence: u64) -> bool {
        let is_next = sequence == self.sequence + 1;
        if is_next {
            self.sequence = sequence;
        }
        is_next
    }

    /// Memory for a write.
    pub fn take_spare(&mut self) -> Blocks {
        core::mem::take(&mut self.spare)
    }

    pub fn begin(&mut self, work: Work) -> Result<(), Refusal> {
        if let Some(refusal) = self.failed {
            return Err(refusal);
        }
        if self.waiting.len() >= WAITING_MAX {
            return Err(Refusal::Full);
        }
        self.waiting.push_back(work);
        self.begin_next();
        Ok(())
    }

    /// The next answer.
    pub fn poll(&mut self) -> Option<(u64, Answered)> {
        while !matches!(self.stage, Stage::Idle)
            && let Some(done) = self.disk.poll()
        {
            self.ended(done);
        }
        self.done.pop_front()
    }

    pub fn put_back(&mut self, answer: (u64, Answered)) {
        self.done.push_front(answer);
    }

    fn ended(&mut self, done: Done) {
        let stage = core::mem::replace(&mut self.stage, Stage::Idle);
        match (stage, done.outcome) {
            (Stage::Growing(work), Ok(())) => self.waiting.push_front(work),
            (Stage::Working { number, purpose: Purpose::Read | Purpose::Sum }, Err(_)) => {
                self.done.push_back((number, Err(Refusal::DiskFailed)));
            }
            (Stage::Growing(Work { number, .. }) | Stage::Working { number, .. }, Err(error)) => {
                let refusal = match error {
                    DiskError::Full => Refusal::Full,
                    DiskError::Failed { .. } => Refusal::DiskFailed,
                };
                self.failed = Some(refusal);
                self.done.push_back((number, Err(refusal)));
                let waiting = self.waiting.drain(..).map(|work| (work.number, Err(refusal)));
                self.done.extend(waiting);
            }
            (Stage::Working { number, purpose }, Ok(())) => {
                let answer = match purpose {
                    Purpose::Write { .. } => {
                        self.spare = done.blocks;
                        Vec::new()
                    }
                    Purpose::Read => without_zeros(&done.blocks).to_vec(),
                    Purpose::Sum => crc32c::crc32c(&done.blocks).to_le_bytes().to_vec(),
                };
                self.done.push_back((number, Ok(answer)));
            }
            (Stage::Idle, _) => unreachable!("the disk has nothing to do then"),
        }
        self.begin_next();
    }

    fn begin_next(&mut self) {
        while matches!(self.stage, Stage::Idle)
            && let Some(work) = self.waiting.pop_front()
        {
            let is_beyond = work.end() > self.disk.bytes();
            match work.purpose {
                Purpose::Write { .. } if is_beyond => {
                    let bytes = (work.end() - self.disk.bytes()).next_multiple_of(GROWTH_BYTES);
                    self.stage = Stage::Growing(work);
                    self.disk.begin(Job::Extend { bytes });
                }
                // What was never written is zero.
                Purpose::Read | Purpose::Sum if is_beyond => self.done.push_back(beyond(&work)),
                purpose => {
                    let Work { number, at, blocks, .. } = work;
                    self.stage = Stage::Working { number, purpose };
                    self.disk.begin(match purpose {
                        Purpose::Write { flush } => Job::Write { at, blocks, flush },
                        Purpose::Read | Purpose::Sum => Job::Read { at, blocks },
                    });
                }
            }
        }
    }
}

/// The answer to a read that reaches beyond the end: a primary knows how long the image is, and asks for
/// nothing else in a recovery; of a comparison it is the sum of zeros.
fn beyond(work: &Work) -> (u64, Answered) {
    let answer = match work.purpose {
        Purpose::Sum => crc32c::crc32c(&work.blocks).to_le_bytes().to_vec(),
        _ => Vec::new(),
    };
    (work.number, Ok(answer))
}
