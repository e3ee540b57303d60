//! The sending side's view of a ring: where the next record goes and how much room the peer has left us.
//!
//! Positions are 64-bit and never wrap; their remainder modulo the ring's size is the offset. The invariant
//! is `tail + reserve <= released + capacity`, where the reserve holds one record that only returns credits:
//! two full rings can therefore always tell each other about the room they have made, and cannot deadlock.
//!
//! A ring that is longer than a *lap* is used as a whole by streams only. They are faster where they walk
//! through more memory than a core's own caches hold: what was written longest ago is in a cache that both
//! cores reach, and need not be regained from the other core. A conversation turns back after a lap, and
//! keeps its lines and pages warm.

use super::{LAP_BYTES, LINE_BYTES, Violation, record_bytes_max, whole_lines};

/// Positions and credit of the ring that we write.
#[derive(Clone, Debug)]
pub struct Producer {
    capacity: u64,
    /// Bytes at the end of the free space that the fabric needs for itself.
    runway: u64,
    /// Where the next record starts.
    tail: u64,
    /// Where this round ends, at the latest at the end of the ring. Not before the tail.
    lap_end: u64,
    /// Everything before this position has been read by the peer.
    released: u64,
}

/// More than this in flight at the end of a lap is a stream.
const IN_FLIGHT_BYTES_MAX: u64 = LAP_BYTES / 4;

/// The answer to a wish for room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reservation {
    /// A record of up to `bytes` bytes may be written at `offset`.
    At {
        /// Offset in the ring.
        offset: usize,
        /// The most bytes that the record may have; at least those asked for.
        bytes: usize,
    },
    /// The room is at the start of the ring: write a wrap record at `offset`, `advance_to_start`, and ask
    /// again.
    WrapAt {
        /// Offset in the ring.
        offset: usize,
    },
    /// The peer has not read enough yet.
    Full,
}

impl Producer {
    /// A ring of `capacity` bytes, all free, of which the fabric needs `runway` to stay unused.
    ///
    /// # Panics
    /// When the capacity is not a power of two of at least 4096 bytes, or the runway is more than an eighth
    /// of it.
    pub fn new(capacity: u64, runway: u64) -> Self {
        assert!(
            capacity.is_power_of_two() && capacity >= 4096,
            "a ring has a power of two of bytes, 4096 or more"
        );
        assert!(
            runway <= capacity / 8 && runway.is_multiple_of(LINE_BYTES),
            "the runway is small and aligned"
        );
        Self { capacity, runway, tail: 0, lap_end: capacity.min(LAP_BYTES), released: 0 }
    }

    /// Room for a record of at least `bytes_min` bytes, leaving the reserve for credit returns alone.
    ///
    /// # Panics
    /// When `bytes_min` is over [`record_bytes_max`]: such a record might never fit.
    #[inline]
    pub fn reserve(&mut self, bytes_min: u64) -> Reservation {
        assert!(bytes_min <= record_bytes_max(self.capacity), "records are at most a quarter of a lap");
        self.look_at_lap(bytes_min);
        self.reserve_within(bytes_min, self.free().saturating_sub(LINE_BYTES))
    }

    /// The offset of a record of up to `bytes` bytes, if there is as much room without a wrap; else
    /// [`Producer::reserve`] says what there is.
    #[inline(always)]
    pub fn reserve_at_once(&self, bytes: u64) -> Option<usize> {
        let offset = self.offset(self.tail);
        let end = self.tail + self.runway + LINE_BYTES + whole_lines(bytes);
        let has_room = bytes <= record_bytes_max(self.capacity)
            && bytes <= self.lap_end - self.tail
            && end <= self.released + self.capacity;
        has_room.then_some(offset)
    }

    /// Room for the one-line record that only returns credits; may use the reserve.
    pub fn reserve_credit_return(&mut self) -> Reservation {
        self.look_at_lap(LINE_BYTES);
        // At the end of a lap that is not the end of the ring there is one more line for it.
        self.lap_end = self.lap_end.max(self.tail + LINE_BYTES);
        self.reserve_within(LINE_BYTES, self.free())
    }

    /// The offset that follows the record of `bytes` bytes at the tail, and the tail moves there.
    #[inline]
    pub fn advance(&mut self, bytes: u64) -> usize {
        self.tail += whole_lines(bytes);
        debug_assert!(
            self.tail + self.runway <= self.released + self.capacity,
            "records stay within the credit"
        );
        self.offset(self.tail)
    }

    /// Moves the tail to the start of the ring, after a wrap record.
    pub fn advance_to_start(&mut self) {
        self.tail = self.ring_end();
        self.begin_lap();
    }

    /// Whether a credit return is one of what was sent.
    #[inline]
    pub fn admits(&self, released_lines: u32) -> bool {
        self.gained(released_lines) <= self.tail - self.released
    }

    #[inline]
    fn gained(&self, released_lines: u32) -> u64 {
        let current_lines = (self.released / LINE_BYTES) as u32;
        u64::from(released_lines.wrapping_sub(current_lines)) * LINE_BYTES
    }

    /// Takes a credit return: the peer has read everything before the position whose low 32 bits, in lines,
    /// are `released_lines`.
    #[inline]
    pub fn credit(&mut self, released_lines: u32) -> Result<(), Violation> {
        if !self.admits(released_lines) {
            return Err(Violation("a credit return beyond what was sent"));
        }
        self.released += self.gained(released_lines);
        Ok(())
    }

    /// Whether the peer has read everything.
    pub fn is_idle(&self) -> bool {
        self.tail == self.released
    }

    #[inline]
    fn free(&self) -> u64 {
        (self.released + self.capacity).saturating_sub(self.tail + self.runway)
    }

    #[inline]
    fn begin_lap(&mut self) {
        self.lap_end = self.tail + self.capacity.min(LAP_BYTES);
    }

    /// The position that follows the tail at the end of the ring.
    #[inline]
    fn ring_end(&self) -> u64 {
        (self.tail + 1).next_multiple_of(self.capacity)
    }

    /// Looks whether a record of this many bytes fits into this lap. If not, a new lap begins where the ring
    /// has come to its end, and this one goes on to the end of the ring for a writer with much in flight, as
    /// far as is known. One with little turns back, and then the largest record fits at the start although
    /// the reader need not return credit yet: [`IN_FLIGHT_BYTES_MAX`] must stay so small.
    #[inline]
    fn look_at_lap(&mut self, bytes_min: u64) {
        if whole_lines(bytes_min) <= self.lap_end - self.tail {
            return;
        }
        if self.offset(self.tail) == 0 {
            self.begin_lap();
        } else if self.tail - self.released > IN_FLIGHT_BYTES_MAX {
            self.lap_end = self.ring_end();
        }
    }

    #[inline]
    fn reserve_within(&self, bytes_min: u64, free: u64) -> Reservation {
        let offset = self.offset(self.tail);
        let (to_end, to_start) = (self.lap_end - self.tail, self.capacity - offset as u64);
        let bytes_min = whole_lines(bytes_min);
        if bytes_min <= to_end && bytes_min <= free {
            let bytes = to_end.min(free).min(record_bytes_max(self.capacity)) & !(LINE_BYTES - 1);
            return Reservation::At { offset, bytes: bytes as usize };
        }
        if bytes_min > to_end && to_start + bytes_min <= free {
            return Reservation::WrapAt { offset };
        }
        Reservation::Full
    }

    #[inline]
    fn offset(&self, position: u64) -> usize {
        (position & (self.capacity - 1)) as usize
    }
}
