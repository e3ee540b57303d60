//! Memory as a disk: for what lives as long as its process, and no longer.

use crate::seam::check;
use crate::{Blocks, Disk, Done, Job};

/// Memory is taken in pieces of this many bytes: one that grows is never copied.
const PIECE_BYTES: usize = 1 << 20;

/// A disk in the memory of its process. Jobs are done when they begin.
#[derive(Debug, Default)]
pub struct MemoryDisk {
    pieces: Vec<Box<[u8]>>,
    bytes: u64,
    done: Option<Done>,
}

impl MemoryDisk {
    /// An empty one.
    pub fn new() -> Self {
        Self::default()
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

    fn carry_out(&mut self, job: Job) -> Blocks {
        match job {
            Job::Write { at, blocks, .. } => {
                let from = |offset: usize, part: &mut [u8]| {
                    part.copy_from_slice(&blocks[offset..offset + part.len()]);
                };
                self.parts(at, blocks.len(), from);
                blocks
            }
            Job::Read { at, mut blocks } => {
                let bytes = blocks.len();
                self.parts(at, bytes, |offset, part| {
                    blocks[offset..offset + part.len()].copy_from_slice(part);
                });
                blocks
            }
            Job::Extend { bytes } => {
                self.bytes += bytes;
                let pieces = self.bytes.div_ceil(PIECE_BYTES as u64) as usize;
                self.pieces.resize_with(pieces, || vec![0; PIECE_BYTES].into_boxed_slice());
                Blocks::new()
            }
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
        let blocks = self.carry_out(job);
        self.done = Some(Done { blocks, outcome: Ok(()) });
    }

    fn poll(&mut self) -> Option<Done> {
        self.done.take()
    }

    fn wait(&mut self) -> Option<Done> {
        self.done.take()
    }
}
