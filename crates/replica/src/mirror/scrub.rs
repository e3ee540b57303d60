//! A comparison of all replicas with the image here, piece by piece.
//!
//! A piece is read while no write is in flight, and sums are queued behind the writes before it and before
//! those after it: everybody sums up the same bytes, whatever is written meanwhile.

use super::state::State;
use crate::message::PIECE_BYTES_MAX;

/// What a comparison found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScrubOutcome {
    /// Bytes that were compared.
    pub bytes: u64,
    /// Replicas that were compared with the image here.
    pub replicas: usize,
    /// Where one differs: its backup, and the first byte of the piece.
    pub differing: Vec<(String, u64)>,
}

/// A comparison in progress.
#[derive(Debug, Default)]
pub struct Scrub {
    next: u64,
    /// The sum of the piece that was read last, and where it is.
    piece: Option<(u64, u32)>,
    outcome: ScrubOutcome,
}

/// The most places that are named.
const NAMED_MAX: usize = 100;

impl State {
    pub fn begin_scrub(&mut self) {
        if self.scrub.is_none() {
            self.scrub = Some(Scrub::default());
            self.scrub_done = None;
        }
    }

    pub fn scrubbed(&mut self) -> Option<ScrubOutcome> {
        self.scrub_done.take()
    }

    /// Which piece is to be read next, if there is one and the last was compared by all.
    pub(super) fn scrub_wants(&mut self) -> Option<(u64, usize)> {
        let (bytes, is_settled) = (self.bytes(), self.whole().all(|member| member.is_settled()));
        let replicas = self.whole().count();
        let scrub = self.scrub.as_mut()?;
        if !is_settled {
            return None;
        }
        let left = bytes.saturating_sub(scrub.next);
        if left > 0 {
            return Some((scrub.next, left.min(PIECE_BYTES_MAX as u64) as usize));
        }
        let scrub = self.scrub.take()?;
        self.scrub_done = Some(ScrubOutcome { bytes: scrub.next, replicas, ..scrub.outcome });
        None
    }

    /// A piece was read here.
    pub(super) fn scrub_read(&mut self, at: u64, blocks: &[u8]) {
        let subject = self.subject();
        let Some(scrub) = &mut self.scrub else { return };
        scrub.piece = Some((at, crc32c::crc32c(blocks)));
        scrub.next = at + blocks.len() as u64;
        for member in self.members.iter_mut().filter(|member| member.is_whole()) {
            member.sum(subject, at, blocks.len() as u32);
        }
    }

    /// A replica has summed it up.
    pub(super) fn scrub_summed(&mut self, backup: &str, at: u64, sum: &[u8]) {
        let Some(scrub) = &mut self.scrub else { return };
        let is_same = scrub.piece.is_some_and(|(place, crc)| place == at && sum == crc.to_le_bytes());
        if !is_same && scrub.outcome.differing.len() < NAMED_MAX {
            scrub.outcome.differing.push((backup.to_owned(), at));
        }
    }
}
