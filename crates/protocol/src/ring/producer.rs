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
//!
//! Laps begin short, because the memory of a ring comes when it is touched. Each that ends soon after the one
//! before lets the next be twice as long, and so does one that is too short for what is in flight. A writer
//! that its caller finds quiet ([`Producer::look`]) begins with short laps again.

use core::ops::Range;

use super::{LAP_BYTES, LINE_BYTES, REST_BYTES, SHORT_LAP_BYTES, Violation, record_bytes_max, whole_lines};

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
    /// How long this lap is to be, in bytes: at most [`LAP_BYTES`], also of one that goes on to the end of
    /// the ring.
    lap_bytes: u64,
    /// Everything before this position has been read by the peer.
    released: u64,
    /// Bytes that were written in the rounds before this one.
    passed: u64,
    /// Bytes that had been written at the last look.
    written_at_look: u64,
    /// The end of the longest round since the ring was at rest, as an offset.
    reached: u64,
}

/// What a ring at rest still needs of its memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rest {
    /// Bytes at its start that are used next.
    pub used_bytes: usize,
    /// These offsets may be read: what has not been given back, and the runway behind the tail. Where the end
    /// is not behind the start, they go on at the start of the ring.
    pub kept: Range<usize>,
}

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
        let lap_bytes = capacity.min(SHORT_LAP_BYTES);
        Self {
            capacity,
            runway,
            tail: 0,
            lap_end: lap_bytes,
            lap_bytes,
            released: 0,
            passed: 0,
            written_at_look: 0,
            reached: lap_bytes,
        }
    }

    /// Bytes of the ring that this lap and those to come go through, unless there is a stream.
    pub fn lap_bytes(&self) -> usize {
        self.lap_bytes as usize
    }

    /// Looks whether little was written since the last look, less than a short lap. Then laps are short
    /// again; and what they do not need is said, once, if the peer has read what was written, and said so.
    pub fn look(&mut self) -> Option<Rest> {
        let written = self.written();
        let since = written.saturating_sub(self.written_at_look);
        self.written_at_look = written;
        let short = self.capacity.min(SHORT_LAP_BYTES);
        if since >= SHORT_LAP_BYTES || self.reached <= short {
            return None;
        }
        self.lap_bytes = short;
        self.pass_end();
        self.lap_end = self.tail.max(self.round_start() + short);
        if self.tail - self.released > REST_BYTES {
            return None;
        }
        self.reached = short;
        let kept_end = (self.offset(self.tail) as u64 + self.runway).min(self.capacity);
        Some(Rest { used_bytes: short as usize, kept: self.offset(self.released)..kept_end as usize })
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

    /// Lets the lap go on for a record of up to `bytes` bytes, which need not be cut then, if much is in
    /// flight; says whether it does.
    pub fn goes_on_for(&mut self, bytes: u64) -> bool {
        let before = self.lap_end;
        if self.tail - self.released > self.lap_bytes / 4 {
            self.look_at_lap(bytes.min(record_bytes_max(self.capacity)));
        }
        self.lap_end != before
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
        self.passed = self.written();
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

    /// The first lap since the last look is no longer than the one before.
    fn begin_lap(&mut self) {
        if self.passed.saturating_sub(self.written_at_look) >= self.lap_bytes {
            self.lap_bytes = self.lap_bytes_max().min(2 * self.lap_bytes);
        }
        self.end_lap_at(self.tail + self.lap_bytes);
    }

    fn lap_bytes_max(&self) -> u64 {
        self.capacity.min(LAP_BYTES)
    }

    fn end_lap_at(&mut self, position: u64) {
        self.lap_end = self.tail.max(position);
        self.reached = self.reached.max(self.lap_end - self.round_start());
    }

    /// Bytes that were written in all.
    fn written(&self) -> u64 {
        let of_round = if self.is_at_end() { self.capacity } else { self.offset(self.tail) as u64 };
        self.passed + of_round
    }

    /// Whether the round has come to the end of the ring, and the next one has not begun.
    fn is_at_end(&self) -> bool {
        self.offset(self.tail) == 0 && self.lap_end == self.tail
    }

    /// Counts a round that has come to the end of the ring; the next lap is to be begun. Says whether it had.
    fn pass_end(&mut self) -> bool {
        let is_at_end = self.is_at_end();
        self.passed += if is_at_end { self.capacity } else { 0 };
        is_at_end
    }

    /// Where this round began.
    fn round_start(&self) -> u64 {
        self.tail - self.offset(self.tail) as u64
    }

    /// The position that follows the tail at the end of the ring.
    #[inline]
    fn ring_end(&self) -> u64 {
        (self.tail + 1).next_multiple_of(self.capacity)
    }

    /// Looks whether a record of this many bytes fits into this lap. If not, a new lap begins where the ring
    /// has come to its end, and this one becomes longer for a writer with much in flight, as far as is known,
    /// or with a long record: the longest lap goes on to the end of the ring. Any other turns back, and then
    /// the record fits at the start although the reader need not return credit yet: a quarter of a lap in
    /// flight and a quarter for the record leave enough for the runway in what was written of it.
    #[inline]
    fn look_at_lap(&mut self, bytes_min: u64) {
        if whole_lines(bytes_min) > self.lap_end - self.tail {
            self.end_lap(whole_lines(bytes_min));
        }
    }

    fn end_lap(&mut self, bytes: u64) {
        if self.pass_end() {
            self.begin_lap();
        }
        let in_flight = self.tail - self.released;
        while bytes > self.lap_end - self.tail && bytes.max(in_flight) > self.lap_bytes / 4 {
            if self.lap_bytes == self.lap_bytes_max() {
                return self.end_lap_at(self.ring_end());
            }
            self.lap_bytes *= 2;
            self.end_lap_at(self.round_start() + self.lap_bytes);
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
