//! A comparison of all replicas with the image here, piece by piece.
//!
//! A piece is read while no write is in flight, and sums are queued behind the writes before it and before
//! those after it: everybody sums up the same bytes, whatever is written meanwhile. Which copy is right is
//! not for a comparison to say: where one differs, the log is asked ([`super::repair`]).

use std::collections::BTreeSet;

use super::repair::Damage;
use super::state::State;
use crate::message::PIECE_BYTES_MAX;

/// What a comparison found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScrubOutcome {
    /// Bytes that were compared.
    pub bytes: u64,
    /// Replicas that were compared with the image here, from its begin to its end.
    pub replicas: usize,
    /// Parts of the log of which not all copies are the same, or can be read.
    pub damage: Vec<Damage>,
}

/// So many outcomes are kept for those that asked and have not been told yet.
const OUTCOMES_MAX: usize = 4;

/// A comparison in progress.
#[derive(Debug)]
pub struct Scrub {
    /// For whom: what it finds answers nobody else, since damage may be new.
    run: u64,
    /// The replicas that are compared, those that were whole when it began, by their tokens.
    pub replicas: Vec<u64>,
    /// Whether what is damaged is written again from what is not.
    pub repairs: bool,
    next: u64,
    /// The sum of the piece that was read last, and where it is.
    piece: Option<(u64, u32)>,
    /// Pieces that differ, or cannot be read here.
    pub suspects: BTreeSet<u64>,
    pub damage: Vec<Damage>,
}

impl State {
    /// What the comparison of a run has found; before that, begins it once no other is in progress.
    pub fn scrub_of(&mut self, run: u64, repairs: bool) -> Option<ScrubOutcome> {
        if let Some((_, outcome)) = self.scrubs_done.iter().find(|(of, _)| *of == run) {
            return Some(outcome.clone());
        }
        if self.scrub.is_none() && !self.is_held() {
            let (suspects, damage) = (BTreeSet::new(), Vec::new());
            let replicas = self.whole().map(|member| member.token).collect();
            self.scrub = Some(Scrub { run, replicas, repairs, next: 0, piece: None, suspects, damage });
        }
        None
    }

    /// Which piece is to be read next, if there is one and the last was compared by all.
    pub(super) fn scrub_wants(&mut self) -> Option<(u64, usize)> {
        let (bytes, is_settled) = (self.bytes(), self.whole().all(|member| member.is_settled()));
        let there: Vec<u64> = self.whole().map(|member| member.token).collect();
        let scrub = self.scrub.as_mut()?;
        if !is_settled {
            return None;
        }
        let left = bytes.saturating_sub(scrub.next);
        if left > 0 {
            return Some((scrub.next, left.min(PIECE_BYTES_MAX as u64) as usize));
        }
        if scrub.suspects.is_empty() {
            let Scrub { run, replicas, next: bytes, damage, .. } = self.scrub.take()?;
            let replicas = replicas.iter().filter(|token| there.contains(token)).count();
            self.scrubs_done.truncate(OUTCOMES_MAX - 1);
            self.scrubs_done.push_front((run, ScrubOutcome { bytes, replicas, damage }));
        }
        None
    }

    /// Where the log is to say what is right: a comparison has ended there with differences.
    pub fn suspect(&self) -> Option<u64> {
        let scrub = self.scrub.as_ref().filter(|scrub| scrub.next >= self.bytes() && !self.is_held())?;
        scrub.suspects.first().copied()
    }

    /// A piece was read here, or cannot be.
    pub(super) fn scrub_read(&mut self, at: u64, blocks: &[u8], is_read: bool) {
        let subject = self.subject();
        let Some(scrub) = &mut self.scrub else { return };
        scrub.next = at + blocks.len() as u64;
        if !is_read {
            scrub.suspects.insert(at);
            return;
        }
        scrub.piece = Some((at, crc32c::crc32c(blocks)));
        let replicas = &scrub.replicas;
        for member in self.members.iter_mut().filter(|member| replicas.contains(&member.token)) {
            member.sum(subject, at, blocks.len() as u32);
        }
    }

    /// A replica has summed it up.
    pub(super) fn scrub_summed(&mut self, at: u64, sum: &[u8]) {
        let Some(scrub) = &mut self.scrub else { return };
        let is_same = scrub.piece.is_some_and(|(place, crc)| place == at && sum == crc.to_le_bytes());
        if !is_same {
            scrub.suspects.insert(at);
        }
    }
}
