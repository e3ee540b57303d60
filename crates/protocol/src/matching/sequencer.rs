//! Order for messages that may overtake each other on their way.

use std::collections::VecDeque;

/// The peer used a number that no correct peer uses now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfRange;

/// Holds what came too early. Numbers count the messages of a session from 0 and wrap.
#[derive(Debug)]
pub struct Sequencer<M> {
    next: u32,
    /// From the message with the number `next` on; those that have not come are `None`.
    early: VecDeque<Option<M>>,
}

impl<M> Default for Sequencer<M> {
    fn default() -> Self {
        Self { next: 0, early: VecDeque::new() }
    }
}

impl<M> Sequencer<M> {
    /// Takes in the message with this number. At most `ahead_max` numbers are ahead of the one that is next.
    pub fn insert(&mut self, number: u32, ahead_max: usize, message: M) -> Result<(), OutOfRange> {
        let ahead = number.wrapping_sub(self.next) as usize;
        if ahead >= ahead_max {
            return Err(OutOfRange);
        }
        if self.early.len() <= ahead {
            self.early.resize_with(ahead + 1, || None);
        }
        match &mut self.early[ahead] {
            Some(_) => Err(OutOfRange),
            place => {
                *place = Some(message);
                Ok(())
            }
        }
    }

    /// Whether this is the number of the next message, which then counts as taken out: it need not be held.
    pub fn skip(&mut self, number: u32) -> bool {
        if number != self.next || self.has_next() {
            return false;
        }
        self.next = self.next.wrapping_add(1);
        self.early.pop_front();
        true
    }

    /// Whether the next message in order has come.
    pub fn has_next(&self) -> bool {
        matches!(self.early.front(), Some(Some(_)))
    }

    /// The next message in order, if it has come.
    pub fn pop(&mut self) -> Option<M> {
        if !self.has_next() {
            return None;
        }
        self.next = self.next.wrapping_add(1);
        self.early.pop_front().flatten()
    }
}
