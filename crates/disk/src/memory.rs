//! Memory as a disk: for what lives as long as its process, and no longer.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::seam::check;
use crate::{Blocks, Disk, DiskError, Done, Job};

/// Memory is taken in pieces of this many bytes: one that grows is never copied.
const PIECE_BYTES: usize = 1 << 20;

/// How much memory several disks may take together. All handles are of one budget.
#[derive(Clone, Debug)]
pub struct MemoryBudget(Arc<AtomicU64>);

impl MemoryBudget {
    /// This many bytes.
    pub fn new(bytes: u64) -> Self {
        Self(Arc::new(AtomicU64::new(bytes)))
    }

    fn take(&self, bytes: u64) -> bool {
        let less = |left: u64| left.checked_sub(bytes);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok()
    }

    fn give_back(&self, bytes: u64) {
        self.0.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// A disk in the memory of its process. Jobs are done when they begin.
#[derive(Debug, Default)]
pub struct MemoryDisk {
    pieces: Vec<Box<[u8]>>,
    bytes: u64,
    done: Option<Done>,
    /// What its pieces are taken from, if they are bounded.
    budget: Option<MemoryBudget>,
}

impl MemoryDisk {
    /// An empty one.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty one that is full when the budget is used up.
    pub fn within(budget: MemoryBudget) -> Self {
        Self { pieces: Vec::new(), bytes: 0, done: None, budget: Some(budget) }
    }

    /// Makes it so much longer.
    fn extend(&mut self, bytes: u64) -> Result<(), DiskError> {
        let end = self.bytes.checked_add(bytes).ok_or(DiskError::Full)?;
        let pieces = end.div_ceil(PIECE_BYTES as u64) as usize;
        let more = (pieces - self.pieces.len()) * PIECE_BYTES;
        if self.budget.as_ref().is_some_and(|budget| !budget.take(more as u64)) {
            return Err(DiskError::Full);
        }
        self.pieces.resize_with(pieces, touched_piece);
        self.bytes = end;
        Ok(())
    }

    /// Calls `visit` with the parts of a range that lie in one piece, and where in the range each begins.
    fn parts(&mut self, at: u64, bytes: usize, mut visit: impl FnMut(usize, &mut [u8])) {
        let mut offset = 0;
        while offset < bytes {
            let from = at as usize + offset;
            let (piece, within) = (from / PIECE_BYTES, from % PIECE_BYTES);
            let length = (PIECE_BYTES - within).min(bytes - offset);
            visit(offset, &mut self.pieces[piece][within..within + length]);
            offset += length;
        }
    }

    fn carry_out(&mut self, job: Job) -> Done {
        let (blocks, outcome) = match job {
            Job::Write { at, blocks, .. } => {
                let from = |offset: usize, part: &mut [u8]| {
                    part.copy_from_slice(&blocks[offset..offset + part.len()]);
                };
                self.parts(at, blocks.len(), from);
                (blocks, Ok(()))
            }
            Job::Read { at, mut blocks } => {
                let bytes = blocks.len();
                self.parts(at, bytes, |offset, part| {
                    blocks[offset..offset + part.len()].copy_from_slice(part);
                });
                (blocks, Ok(()))
            }
            Job::Extend { bytes } => (Blocks::new(), self.extend(bytes)),
        };
        Done { blocks, outcome }
    }
}

/// A piece of zeros whose pages are there: one after the other here, and not one by one under the writes that
/// come to them first. Its zeros are written once. Memory that is asked for as zeros would be zeroed by the
/// allocator where it had been used before, and is not there where it had not.
fn touched_piece() -> Box<[u8]> {
    let mut piece = core::hint::black_box(Vec::with_capacity(PIECE_BYTES));
    piece.resize(PIECE_BYTES, 0);
    piece.into_boxed_slice()
}

impl Drop for MemoryDisk {
    fn drop(&mut self) {
        if let Some(budget) = &self.budget {
            budget.give_back((self.pieces.len() * PIECE_BYTES) as u64);
        }
    }
}

impl Disk for MemoryDisk {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn begin(&mut self, job: Job) {
        check(&job, self.bytes);
        assert!(self.done.is_none(), "one job is in flight at a time");
        self.done = Some(self.carry_out(job));
    }

    fn poll(&mut self) -> Option<Done> {
        self.done.take()
    }

    fn wait(&mut self) -> Option<Done> {
        self.done.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disks_within_a_budget_are_full_together_and_give_back_what_they_had() {
        let budget = MemoryBudget::new(3 * PIECE_BYTES as u64);
        let extend = |disk: &mut MemoryDisk, bytes: usize| {
            disk.begin(Job::Extend { bytes: bytes as u64 });
            disk.wait().expect("it is done").outcome
        };
        let (mut one, mut other) = (MemoryDisk::within(budget.clone()), MemoryDisk::within(budget));
        assert_eq!(extend(&mut one, PIECE_BYTES + 4096), Ok(()), "two pieces");
        assert_eq!(extend(&mut other, PIECE_BYTES + 4096), Err(DiskError::Full));
        assert_eq!(other.bytes(), 0, "it is as it was");
        assert_eq!(extend(&mut other, PIECE_BYTES), Ok(()));
        assert_eq!(extend(&mut one, 4096), Ok(()), "it is in the second piece");
        drop(one);
        assert_eq!(extend(&mut other, 2 * PIECE_BYTES), Ok(()));
    }
}
