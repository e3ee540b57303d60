//! What a part of the log holds, for copies of it to be compared with: it says which bytes are right.

use farcall_disk::{BLOCK_BYTES, Blocks};
use farcall_replica::Certificate;

use super::format::{Ending, FRAME_BYTES, FRAMES_AT, GroupHeader, SUPERBLOCKS_AT, Superblock, frame_at};

/// A part of the log: what precedes the frames, or a frame.
#[derive(Debug)]
pub struct Part {
    /// Where it begins.
    pub at: u64,
    /// How long it is, where the disk is long enough.
    pub bytes: u64,
    log: u64,
    holds: Holds,
}

#[derive(Debug)]
enum Holds {
    /// The superblock that counts, and where it is.
    Superblock(Blocks, usize),
    /// A segment, as far as it is flushed.
    Segment(Ending),
    /// Nothing that is needed.
    Nothing,
}

impl Part {
    /// The part around a place, in a log whose last superblock and segments are these.
    pub fn around(place: u64, superblock: &Superblock, mut segments: impl Iterator<Item = Ending>) -> Self {
        let log = superblock.log;
        let Some(behind) = place.checked_sub(FRAMES_AT) else {
            let slot = (superblock.generation % 2) as usize;
            let holds = Holds::Superblock(superblock.encode(), SUPERBLOCKS_AT[slot] as usize);
            return Self { at: 0, bytes: FRAMES_AT, log, holds };
        };
        let frame = (behind / FRAME_BYTES as u64) as u32;
        let segment = segments.find(|ending| ending.frame == frame);
        let holds = segment.map_or(Holds::Nothing, Holds::Segment);
        Self { at: frame_at(frame), bytes: FRAME_BYTES as u64, log, holds }
    }
}

impl Part {
    /// Bytes from its beginning on that are needed.
    pub fn needed_bytes(&self) -> usize {
        match &self.holds {
            Holds::Superblock(..) => self.bytes as usize,
            Holds::Segment(ending) => ending.bytes as usize,
            Holds::Nothing => 0,
        }
    }

    /// Whether another part holds the same; a segment may have become longer.
    pub fn is_same_as(&self, other: &Self) -> bool {
        match (&self.holds, &other.holds) {
            (Holds::Superblock(superblock, _), Holds::Superblock(other, _)) => **superblock == **other,
            (Holds::Segment(ending), Holds::Segment(other)) => ending.segment == other.segment,
            (Holds::Nothing, Holds::Nothing) => true,
            _ => false,
        }
    }
}

impl Certificate for Part {
    /// Where nothing is needed the copy here is as right as any.
    fn compose(&self, copies: &[&[u8]]) -> Option<Vec<u8>> {
        let mut right = copies.first()?.to_vec();
        match &self.holds {
            Holds::Nothing => {}
            Holds::Superblock(superblock, at) => {
                right = vec![0; right.len()];
                let other = SUPERBLOCKS_AT.map(|at| at as usize).into_iter().find(|other| other != at)?;
                // Any earlier one will do: it counts only without this one.
                let earlier = copies.iter().filter_map(|copy| copy.get(other..other + BLOCK_BYTES));
                if let Some(earlier) = { earlier }.find(|block| Superblock::decode(block).is_ok()) {
                    right.get_mut(other..other + BLOCK_BYTES)?.copy_from_slice(earlier);
                }
                right.get_mut(*at..*at + superblock.len())?.copy_from_slice(superblock);
            }
            Holds::Segment(ending) => self.compose_segment(*ending, copies, &mut right)?,
        }
        Some(right)
    }
}

impl Part {
    /// Each group from a copy in which it verifies: one that none has whole may be in parts in several.
    fn compose_segment(&self, ending: Ending, copies: &[&[u8]], right: &mut [u8]) -> Option<()> {
        let (mut at, mut crc) = (0, 0);
        while at < ending.bytes as usize {
            let follows = |copy: &&[u8]| {
                let (header, _) = GroupHeader::verify(self.log, copy.get(at..)?)?;
                let place = (header.segment, header.at, header.crc_before);
                let is_next = place == (ending.segment, at as u32, crc);
                is_next.then(|| (header.disk_bytes(), header.crc, copy[at..][..header.disk_bytes()].to_vec()))
            };
            let (bytes, next, group) = copies.iter().find_map(follows)?;
            right.get_mut(at..at + bytes)?.copy_from_slice(&group);
            (at, crc) = (at + bytes, next);
        }
        (at == ending.bytes as usize && crc == ending.crc).then_some(())
    }
}
