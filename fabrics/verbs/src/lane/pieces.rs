//! What was published and has not been handed to the card yet, in as few pieces as possible.

/// Records lie in at most this many pieces between two doorbells: before the end of the ring, and after it.
pub const PIECES_MAX: usize = 2;

/// Published records that lie one after the other.
#[derive(Clone, Copy, Default)]
pub struct Piece {
    pub offset: usize,
    pub bytes: usize,
    /// By how much the ring is fuller, including what is left out at its end.
    pub lines: u32,
    /// Where the record after it will be.
    pub next_offset: usize,
}

/// The pieces that wait for a doorbell.
#[derive(Default)]
pub struct Pieces {
    pieces: [Piece; PIECES_MAX],
    waiting: usize,
}

impl Pieces {
    /// How many wait.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.waiting
    }

    /// Those that wait.
    #[inline(always)]
    pub fn pieces(&self) -> &[Piece] {
        &self.pieces[..self.waiting]
    }

    /// Adds a record, to the last piece if it lies behind that.
    ///
    /// # Panics
    /// When there are more pieces than a ring has, because records were published that overlap.
    #[inline(always)]
    pub fn add(&mut self, record: Piece) {
        if let Some(last) = self.waiting.checked_sub(1).map(|index| &mut self.pieces[index])
            && last.next_offset == record.offset
            && record.offset != 0
        {
            last.bytes = record.offset + record.bytes - last.offset;
            last.lines += record.lines;
            last.next_offset = record.next_offset;
            return;
        }
        assert!(self.waiting < PIECES_MAX, "records stay within the credit");
        self.pieces[self.waiting] = record;
        self.waiting += 1;
    }

    /// They have been handed to the card, or nobody wants them any more.
    #[inline(always)]
    pub fn clear(&mut self) {
        self.waiting = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(offset: usize, next_offset: usize) -> Piece {
        Piece { offset, bytes: 48, lines: 1, next_offset }
    }

    #[test]
    fn records_behind_each_other_are_one_piece_and_the_start_of_the_ring_begins_another() {
        let mut waiting = Pieces::default();
        for (offset, next_offset) in [(3840, 3904), (3904, 3968), (3968, 0), (0, 64), (64, 128)] {
            waiting.add(record(offset, next_offset));
        }
        let seen: Vec<_> =
            waiting.pieces().iter().map(|piece| (piece.offset, piece.bytes, piece.lines)).collect();
        assert_eq!(seen, [(3840, 176, 3), (0, 112, 2)]);
        waiting.clear();
        assert_eq!(waiting.len(), 0);
    }
}
