//! Where an operation stands and since when, in a word.
//!
//! An operation begins with a single store of all that. What is looked at and changed later is a byte of it, which needs no more than
//! its own store and load.

use super::readings::Since;
use super::slot::{Kind, Stage};

/// A stage, a kind, and what the operation is counted from.
#[repr(align(4))]
pub struct Standing([u8; 4]);

const STAGE: usize = 0;
const KIND: usize = 1;

impl Standing {
    #[inline(always)]
    pub fn new(stage: Stage, kind: Kind, since: Since) -> Self {
        Self((since.in_upper_half() | (kind as u32) << 8 | stage as u32).to_le_bytes())
    }

    #[inline(always)]
    pub fn stage(&self) -> Stage {
        match self.0[STAGE] {
            0 => Stage::PendingEvent,
            1 => Stage::PendingFuture,
            2 => Stage::PendingReceiveCallback,
            3 => Stage::Pending,
            4 => Stage::Vacant,
            5 => Stage::Done,
            6 => Stage::DoneShort,
            _ => Stage::DoneCopy,
        }
    }

    #[inline(always)]
    pub fn set_stage(&mut self, stage: Stage) {
        self.0[STAGE] = stage as u8;
    }

    #[inline(always)]
    pub fn kind(&self) -> Kind {
        match self.0[KIND] {
            0 => Kind::Call,
            1 => Kind::Send,
            _ => Kind::Receive,
        }
    }

    pub fn since(&self) -> Since {
        Since::of_upper_half(u32::from_le_bytes(self.0))
    }

    pub fn set_since(&mut self, since: Since) {
        *self = Self::new(self.stage(), self.kind(), since);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_put_into_it_is_in_it() {
        let stages = [
            Stage::PendingEvent,
            Stage::PendingFuture,
            Stage::PendingReceiveCallback,
            Stage::Pending,
            Stage::Vacant,
            Stage::Done,
            Stage::DoneShort,
            Stage::DoneCopy,
        ];
        let own = Since::SETTLED.with_own_timeout();
        for stage in stages {
            for kind in [Kind::Call, Kind::Send, Kind::Receive] {
                for since in [Since::SETTLED, own] {
                    let mut standing = Standing::new(stage, kind, since);
                    assert_eq!((standing.stage(), standing.kind()), (stage, kind));
                    assert!(standing.since() == since);
                    standing.set_stage(Stage::Done);
                    standing.set_since(own);
                    assert_eq!((standing.stage(), standing.kind()), (Stage::Done, kind));
                    assert!(standing.since() == own);
                }
            }
        }
    }
}
