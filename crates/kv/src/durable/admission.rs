//! Whether the log takes a write, and what is refused that waits for it.

use std::time::Instant;

use farcall_replica::Mirror;

use super::journal::NotAdmitted;
use super::{Durable, Refusals, format};
use crate::wire::Code;

impl Durable {
    /// Whether a write may be recorded, which adds this many bytes to what lives.
    pub fn admit(&mut self, record_bytes: usize, new_bytes: usize) -> Result<(), Code> {
        if let Some(mirror) = &self.mirror {
            self.may_answer()?;
            if !mirror.may_write() {
                return Err(Code::TooFewReplicas);
            }
        }
        match self.journal.admits(record_bytes) {
            Ok(()) => {}
            Err(NotAdmitted::Failed) => return Err(Code::DiskFailed),
            Err(NotAdmitted::Full) if !self.is_cleaning() => {
                // What adds nothing may have the last room: the cleaner has nothing to move until something
                // is deleted.
                if new_bytes > 0 || !self.journal.fits(record_bytes) {
                    return Err(self.full());
                }
            }
            Err(NotAdmitted::Busy | NotAdmitted::Full) => return Err(Code::Busy),
        }
        // Half of the log may live: the cleaner then frees more than it appends.
        // More than that may live when the disk turns out to be smaller than it was to be: what adds nothing
        // makes it less.
        let most = self.journal.frames().most() as u64 * format::FRAME_BYTES as u64 / 2;
        let is_full = new_bytes > 0 && self.live_bytes + new_bytes as u64 > most;
        if is_full { Err(self.full()) } else { Ok(()) }
    }

    /// Whether the cleaner makes room.
    fn is_cleaning(&self) -> bool {
        self.cleaner.has_work(&self.journal, self.live_bytes + self.results_bytes)
    }

    /// There is no room for a write. The device may have some for the next one.
    fn full(&mut self) -> Code {
        self.journal.look_for_room(Instant::now());
        Code::LogFull
    }

    /// Whether this process may say what durable tables have: always, unless the log is mirrored and another
    /// process may be the primary by now, or no backup has what this one has read.
    #[inline]
    pub fn may_answer(&self) -> Result<(), Code> {
        match &self.mirror {
            Some(_) if self.is_leaving => Err(Code::NotPrimary),
            Some(mirror) if mirror.may_read() => Ok(()),
            Some(mirror) if mirror.waits_for_backups() => Err(Code::TooFewReplicas),
            Some(_) => Err(Code::NotPrimary),
            None => Ok(()),
        }
    }

    /// Says nothing new from now on.
    pub fn leave(&mut self) {
        self.is_leaving = true;
    }

    /// Whether it says nothing new, and everything that waited was answered: refused, where the disk has
    /// failed.
    pub fn has_left(&self) -> bool {
        self.is_leaving && !self.is_busy()
    }

    /// What an answer is refused with that would wait for a group which will not be flushed, or not in time;
    /// `None` while it may be.
    pub fn gone_wrong(&self) -> Option<Code> {
        let failed = self.failure().map(|_| self.refusal_of_unflushed());
        failed.or_else(|| self.is_overdue.then_some(Code::LevelNotReached))
    }

    /// Its write may have happened all the same: a new primary may have taken the group over.
    pub(super) fn refusal_of_unflushed(&self) -> Code {
        let is_deposed = self.mirror.as_ref().is_some_and(|mirror| mirror.deposed().is_some());
        if is_deposed { Code::LevelNotReached } else { Code::DiskFailed }
    }

    /// Refuses what waits once replicas have not confirmed in time. What comes while that lasts is refused at
    /// once ([`Durable::gone_wrong`]), so this is news once.
    pub(super) fn refuse_overdue(&mut self) {
        let is_overdue = self.mirror.as_ref().is_some_and(Mirror::is_overdue);
        if is_overdue && !self.is_overdue {
            self.refuse_all(Code::LevelNotReached);
            // What is not confirmed cannot be handed over: this process goes on, and is read.
            self.is_leaving = false;
        }
        self.is_overdue = is_overdue;
    }

    /// What waits is refused, though some of it may have happened, or happen yet.
    pub(super) fn refuse_all(&mut self, code: Code) {
        self.answers.refuse_all(code);
        self.refusals = Refusals { count: self.refusals.count + 1, code: Some(code) };
    }
}
