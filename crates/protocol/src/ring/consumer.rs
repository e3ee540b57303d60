//! The receiving side's view of a ring: where the next record will be, and what the peer must be told is
//! free.

use super::{LINE_BYTES, REST_BYTES, SHORT_LAP_BYTES, Violation, whole_lines};

/// Positions of the ring that we read.
#[derive(Clone, Debug)]
pub struct Consumer {
    capacity: u64,
    /// Where the next record will start.
    head: u64,
    /// The position that the peer was last told to be free up to.
    returned: u64,
    /// The head at the last look.
    head_at_look: u64,
}

impl Consumer {
    /// A ring of `capacity` bytes (a power of two) in which nothing has been read.
    pub fn new(capacity: u64) -> Self {
        assert!(
            capacity.is_power_of_two() && capacity >= 4096,
            "a ring has a power of two of bytes, 4096 or more"
        );
        Self { capacity, head: 0, returned: 0, head_at_look: 0 }
    }

    /// The offset of the next record.
    #[inline]
    pub fn offset(&self) -> usize {
        (self.head & (self.capacity - 1)) as usize
    }

    /// The record of `bytes` bytes at the head has been read.
    #[inline]
    pub fn advance(&mut self, bytes: u64) -> Result<(), Violation> {
        self.advance_to(self.head + whole_lines(bytes))
    }

    /// A wrap record was read: the next one is at the start of the ring.
    pub fn advance_to_start(&mut self) -> Result<(), Violation> {
        self.advance_to((self.head + 1).next_multiple_of(self.capacity))
    }

    #[inline]
    fn advance_to(&mut self, head: u64) -> Result<(), Violation> {
        if head > self.returned + self.capacity {
            return Err(Violation("more was sent than there was credit for"));
        }
        self.head = head;
        Ok(())
    }

    /// Whether so much has been read since the last return that a record just for credits is worth its cost.
    #[inline]
    pub fn credit_is_due(&self) -> bool {
        self.head - self.returned >= self.capacity / 4
    }

    /// Whether so much is owed to the peer that its ring could not be at rest.
    pub fn keeps_from_rest(&self) -> bool {
        self.head - self.returned > REST_BYTES
    }

    /// Looks whether little was read since the last look, and a credit is owed that the peer would wait long
    /// for.
    pub fn look(&mut self) -> bool {
        let read = self.head - self.head_at_look;
        self.head_at_look = self.head;
        read < SHORT_LAP_BYTES && self.keeps_from_rest()
    }

    /// The credit to put into an outgoing header; counts as returned.
    #[inline]
    pub fn take_credit(&mut self) -> u32 {
        self.returned = self.head;
        (self.head / LINE_BYTES) as u32
    }
}
