//! Answers that wait for a flush.

use std::collections::VecDeque;

use farcall::Deferred;

use crate::slots::SlotAddress;
use crate::wire::Code;

/// Where an answer goes that is given later.
#[derive(Debug)]
pub enum Parked {
    /// To a caller over the network.
    Call(Deferred),
    /// To a slot of a process of this host.
    Slot(SlotAddress),
    /// To something that the shard's owner has numbered.
    Numbered(u64),
}

/// The longest answer that is held without memory of its own.
const SHORT_BYTES_MAX: usize = 17;

/// An answer that is held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Held {
    /// Up to 17 bytes, and how many.
    Short([u8; SHORT_BYTES_MAX], u8),
    /// More.
    Long(Vec<u8>),
    /// A refusal.
    Refused(Code),
}

impl Held {
    /// Holds these bytes.
    pub fn new(bytes: &[u8]) -> Self {
        if bytes.len() > SHORT_BYTES_MAX {
            return Self::Long(bytes.to_vec());
        }
        let mut short = [0; SHORT_BYTES_MAX];
        short[..bytes.len()].copy_from_slice(bytes);
        Self::Short(short, bytes.len() as u8)
    }

    /// The answer, or why there is none.
    pub fn answer(&self) -> Result<&[u8], Code> {
        match self {
            Self::Short(bytes, length) => Ok(&bytes[..usize::from(*length)]),
            Self::Long(bytes) => Ok(bytes),
            Self::Refused(code) => Err(*code),
        }
    }
}

/// An answer that may be given now.
#[derive(Debug)]
pub struct Released {
    /// Where it goes.
    pub to: Parked,
    /// What it says.
    pub answer: Held,
}

/// The answers that are held, and those that may be given.
#[derive(Debug, Default)]
pub struct Answers {
    /// By group: of the one that is out, and of the one that gathers.
    held: VecDeque<(u64, Vec<Released>)>,
    released: VecDeque<Released>,
}

impl Answers {
    /// Holds an answer until a group is flushed.
    pub fn hold(&mut self, group: u64, to: Parked, answer: Held) {
        let answer = Released { to, answer };
        match self.held.iter_mut().find(|(number, _)| *number == group) {
            Some((_, answers)) => answers.push(answer),
            None => self.held.push_back((group, vec![answer])),
        }
    }

    /// Groups up to this one are flushed.
    pub fn flushed(&mut self, group: u64) {
        let released = &mut self.released;
        self.held.retain_mut(|(number, answers)| {
            let is_flushed = *number <= group;
            if is_flushed {
                released.extend(answers.drain(..));
            }
            !is_flushed
        });
    }

    /// What is held is refused, though some of it may have happened, or happen yet.
    pub fn refuse_all(&mut self, code: Code) {
        let held = self.held.drain(..).flat_map(|(_, answers)| answers);
        let refused = held.map(|held| Released { answer: Held::Refused(code), ..held });
        self.released.extend(refused);
    }

    /// The next answer that may be given.
    #[inline]
    pub fn release(&mut self) -> Option<Released> {
        self.released.pop_front()
    }
}
