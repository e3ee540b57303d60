//! A part of the log of which copies differ: which bytes are right, and how they come to all copies again.
//!
//! The mirror knows blocks, and the log knows what verifies. So the log says which part it is, and gives a
//! certificate of what it holds there. The part is read here and at every replica while no write begins; the
//! certificate composes what is right, if that is anywhere; and with a repair each copy that is another one
//! is written again, by the messages that copy a replica. What nothing verifies is left as it is.

use std::collections::VecDeque;

use farcall_disk::{Blocks, Job};

use super::state::{Stage, State};
use crate::message::PIECE_BYTES_MAX;

/// What the log holds in a part of its image.
pub trait Certificate: Send {
    /// What is right, of copies that may be damaged: the first is the one here. `None` if it cannot be had
    /// from them.
    fn compose(&self, copies: &[&[u8]]) -> Option<Vec<u8>>;
}

/// What became of a part of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// What is right is there, and was not asked to be written again.
    Reparable,
    /// All copies are right again.
    Repaired,
    /// No copy verifies, not even with parts of others.
    Lost,
    /// The disk here does not take what is right.
    NotWritten,
    /// No copy that was read verifies, and a replica failed before its copy was read.
    Unread,
}

impl Fate {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Reparable, Self::Repaired, Self::Lost, Self::NotWritten, Self::Unread];
}

/// How many parts of a log met each fate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FateCounts([u64; Fate::ALL.len()]);

impl FateCounts {
    /// Counts this many more.
    pub fn add(&mut self, fate: Fate, parts: u64) {
        self.0[fate as usize] += parts;
    }

    /// Counts one less.
    pub fn take(&mut self, fate: Fate) {
        self.0[fate as usize] = self.0[fate as usize].saturating_sub(1);
    }

    /// Counts all that another count has.
    pub fn add_all(&mut self, other: Self) {
        Fate::ALL.into_iter().for_each(|fate| self.add(fate, other.of(fate)));
    }

    /// How many met a fate.
    pub fn of(&self, fate: Fate) -> u64 {
        self.0[fate as usize]
    }

    /// How many there are.
    pub fn all(&self) -> u64 {
        self.0.iter().sum()
    }
}

/// A part of the log of which not all copies are right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Where it begins.
    pub at: u64,
    /// Its length.
    pub bytes: u64,
    /// What became of it.
    pub fate: Fate,
    /// Whether the copy of the primary is another one than it should be, or cannot be read.
    pub is_here: bool,
    /// Backups whose copies are.
    pub backups: Vec<String>,
}

/// A part that is looked at. Meanwhile no job of the log begins.
pub struct Examination {
    at: u64,
    bytes: usize,
    certificate: Box<dyn Certificate>,
    here: Vec<u8>,
    /// Pieces that cannot be read here, by their offsets.
    unreadable: Vec<usize>,
    copies: Vec<Copy>,
    stage: Step,
}

/// A replica's copy.
struct Copy {
    token: u64,
    backup: String,
    data: Vec<u8>,
    /// Pieces that its disk cannot read, by their offsets.
    unreadable: Vec<usize>,
}

impl Copy {
    fn is_other(&self, right: &[u8]) -> bool {
        self.data != right || !self.unreadable.is_empty()
    }
}

enum Step {
    /// The part is read here up to this offset, and at the replicas.
    Reading(usize),
    /// What is right is written: here piece by piece, and by messages.
    Mending { left: VecDeque<(usize, Vec<u8>)>, damage: Damage },
}

impl State {
    /// Whether jobs of the log wait for an examination.
    pub(super) fn is_held(&self) -> bool {
        self.examined.is_some()
    }

    /// Looks at a part of the image that begins at `at`; no job of the log is in flight.
    pub fn examine(&mut self, at: u64, bytes: u64, certificate: Box<dyn Certificate>) {
        let bytes = bytes.min(self.bytes().saturating_sub(at)) as usize;
        let subject = self.subject();
        let mut copies = Vec::new();
        for member in self.members.iter_mut().filter(|member| member.is_whole()) {
            for offset in (0..bytes).step_by(PIECE_BYTES_MAX) {
                member.read(subject, at + offset as u64, (bytes - offset).min(PIECE_BYTES_MAX) as u32);
            }
            let (token, backup) = (member.token, member.place.backup.clone());
            copies.push(Copy { token, backup, data: vec![0; bytes], unreadable: Vec::new() });
        }
        let (here, unreadable, stage) = (vec![0; bytes], Vec::new(), Step::Reading(0));
        self.examined = Some(Examination { at, bytes, certificate, here, unreadable, copies, stage });
    }

    /// The next job of an examination for the disk here, and what the disk is at then.
    pub(super) fn examination_job(&mut self) -> Option<(Job, Stage)> {
        let Examination { at, bytes, stage, .. } = self.examined.as_mut()?;
        match stage {
            Step::Reading(offset) if *offset < *bytes => {
                let place = *at + *offset as u64;
                let blocks = Blocks::zeroed((*bytes - *offset).min(PIECE_BYTES_MAX));
                Some((Job::Read { at: place, blocks }, Stage::Examining { offset: *offset }))
            }
            Step::Reading(_) => None,
            Step::Mending { left, .. } => {
                let (offset, data) = left.pop_front()?;
                let mut blocks = Blocks::zeroed(data.len());
                blocks.copy_from_slice(&data);
                Some((Job::Write { at: *at + offset as u64, blocks, flush: true }, Stage::Mending))
            }
        }
    }

    /// A piece was read here, or cannot be.
    pub(super) fn examined_here(&mut self, offset: usize, blocks: &[u8], is_read: bool) {
        let Some(Examination { here, unreadable, stage, .. }) = &mut self.examined else { return };
        if is_read {
            here[offset..offset + blocks.len()].copy_from_slice(blocks);
        } else {
            unreadable.push(offset);
        }
        *stage = Step::Reading(offset + blocks.len());
    }

    /// A replica has read a piece. It leaves out the zeros at its end.
    pub(super) fn examined_there(&mut self, token: u64, place: u64, piece: &[u8]) {
        let Some(Examination { at, copies, .. }) = &mut self.examined else { return };
        let Some(offset) = place.checked_sub(*at).map(|offset| offset as usize) else { return };
        if let Some(copy) = copies.iter_mut().find(|copy| copy.token == token)
            && let Some(to) = copy.data.get_mut(offset..offset + piece.len())
        {
            to.copy_from_slice(piece);
        }
    }

    /// A replica's disk cannot read a piece.
    pub(super) fn unreadable_there(&mut self, token: u64, place: u64) {
        let Some(Examination { at, copies, .. }) = &mut self.examined else { return };
        if let Some(offset) = place.checked_sub(*at)
            && let Some(copy) = copies.iter_mut().find(|copy| copy.token == token)
        {
            copy.unreadable.push(offset as usize);
        }
    }

    /// A piece was written here again, or could not be.
    pub(super) fn mended_here(&mut self, is_written: bool) {
        if let Some(Examination { stage: Step::Mending { left, damage }, .. }) = &mut self.examined
            && !is_written
        {
            left.clear();
            damage.fate = Fate::NotWritten;
        }
    }

    /// Goes on with an examination whose reads or writes are done here, once they are everywhere; says
    /// whether it did.
    pub(super) fn go_on_examining(&mut self) -> bool {
        let is_settled = self.stage == Stage::Idle && self.members.iter().all(|member| member.is_settled());
        match self.examined.take_if(|_| is_settled) {
            None => return false,
            Some(Examination { stage: Step::Mending { damage, .. }, .. }) => self.end_examination(damage),
            Some(examined) => self.judge(examined),
        }
        true
    }

    fn judge(&mut self, mut examined: Examination) {
        // A replica that failed meanwhile is made again.
        examined.copies.retain(|copy| self.members.iter().any(|member| member.token == copy.token));
        // What cannot be read here says nothing: a replica's copy stands for it until it is written.
        for &offset in &examined.unreadable {
            let end = (offset + PIECE_BYTES_MAX).min(examined.bytes);
            if let Some(copy) = examined.copies.iter().find(|copy| !copy.unreadable.contains(&offset)) {
                examined.here[offset..end].copy_from_slice(&copy.data[offset..end]);
            }
        }
        let Examination { at, bytes, certificate, here, unreadable, copies, .. } = &examined;
        let all: Vec<&[u8]> =
            [&here[..]].into_iter().chain(copies.iter().map(|copy| &copy.data[..])).collect();
        let (at, length) = (*at, *bytes as u64);
        let Some(right) = certificate.compose(&all).filter(|right| right.len() == *bytes) else {
            let backups = copies.iter().map(|copy| copy.backup.clone()).collect();
            let is_read = |token: &u64| copies.iter().any(|copy| copy.token == *token);
            let are_all_read = self.scrub.as_ref().is_none_or(|scrub| scrub.replicas.iter().all(is_read));
            let fate = if are_all_read { Fate::Lost } else { Fate::Unread };
            return self.end_examination(Damage { at, bytes: length, fate, is_here: true, backups });
        };
        let is_here = *here != right || !unreadable.is_empty();
        let others = copies.iter().filter(|copy| copy.is_other(&right));
        let backups = others.map(|copy| copy.backup.clone()).collect();
        let repairs = self.scrub.as_ref().is_some_and(|scrub| scrub.repairs);
        let fate = if repairs { Fate::Repaired } else { Fate::Reparable };
        let damage = Damage { at, bytes: length, fate, is_here, backups };
        if !repairs {
            return self.end_examination(damage);
        }
        let left = self.mend(&examined, &right);
        self.examined = Some(Examination { stage: Step::Mending { left, damage }, ..examined });
    }

    /// Queues what is right for the replicas, and gives what is to be written here.
    fn mend(&mut self, examined: &Examination, right: &[u8]) -> VecDeque<(usize, Vec<u8>)> {
        let Examination { at, here, unreadable, copies, .. } = examined;
        let (subject, flush) = (self.subject(), self.record().flushed);
        let mut left = VecDeque::new();
        for (number, piece) in right.chunks(PIECE_BYTES_MAX).enumerate() {
            let offset = number * PIECE_BYTES_MAX;
            let place = at + offset as u64;
            let is_other = |copy: &[u8]| copy[offset..offset + piece.len()] != *piece;
            let is_other_here = is_other(here) || unreadable.contains(&offset);
            if is_other_here {
                left.push_back((offset, piece.to_vec()));
            }
            for member in self.members.iter_mut().filter(|member| member.has(place)) {
                let copy = copies.iter().find(|copy| copy.token == member.token);
                // One that is being copied has what was read here.
                let is_other_there = |copy: &Copy| is_other(&copy.data) || copy.unreadable.contains(&offset);
                if copy.map_or(is_other_here, is_other_there) {
                    member.write(subject, (place, true), piece, flush);
                }
            }
        }
        left
    }

    fn end_examination(&mut self, damage: Damage) {
        if damage.fate == Fate::Repaired {
            // What could not be copied may be read by now.
            self.unreadable = None;
        }
        if let Some(scrub) = &mut self.scrub {
            let end = damage.at + damage.bytes;
            scrub.suspects.retain(|place| !(damage.at..end).contains(place));
            // What was one thing when it was compared may be the same by now.
            if damage.is_here || !damage.backups.is_empty() {
                scrub.damage.push(damage);
            }
        }
        self.resume();
    }
}
