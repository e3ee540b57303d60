//! Loans whose bytes were copied, for the next ones.
//!
//! A short payload is copied wherever it lies. Its loan comes back on the thread that lends, and is given as
//! it is to who asks next: that touches neither an allocator nor a count that threads share.

use crate::{BLOCK_BYTES_MIN, Loan};

/// The most loans that are kept.
const KEPT_MAX: usize = 16;

/// Memory of at most so many bytes serves any loan that is shorter, as every block does for the shortest;
/// longer memory those that need half of it.
const SHORT_BYTES_MAX: usize = BLOCK_BYTES_MIN;

/// Loans to be given again.
#[derive(Debug, Default)]
pub struct SpareLoans(Vec<Loan>);

impl SpareLoans {
    /// A loan of `bytes` bytes; what is in them is left over.
    #[inline]
    pub fn take(&mut self, bytes: usize) -> Option<Loan> {
        let fits = |room: usize| room >= bytes && (room <= SHORT_BYTES_MAX || room / 2 <= bytes);
        let place = self.0.iter().rposition(|loan| fits(loan.room_bytes()))?;
        let mut loan = self.0.swap_remove(place);
        loan.renew(bytes);
        Some(loan)
    }

    /// Keeps a loan, instead of the oldest where there are enough.
    #[inline]
    pub fn keep(&mut self, loan: Loan) {
        if self.0.len() == KEPT_MAX {
            self.0.remove(0);
        }
        self.0.push(loan);
    }

    /// Gives all memory back to its home; whether there was any.
    #[cold]
    pub fn clear(&mut self) -> bool {
        let had_any = !self.0.is_empty();
        self.0.clear();
        had_any
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::HeapLoans;

    #[test]
    fn the_loan_kept_last_that_fits_is_given() {
        let (mut loans, mut spares) = (HeapLoans::new(1 << 20), SpareLoans::default());
        let kept = [8, 100, SHORT_BYTES_MAX, 10_000].map(|bytes| {
            let loan = loans.loan(bytes).expect("memory");
            let place = loan.as_ptr();
            spares.keep(loan);
            place
        });
        assert!(spares.take(10_001).is_none() && spares.take(4_999).is_none(), "too short or far too long");
        for (bytes, place) in [(5_000, kept[3]), (9, kept[2]), (8, kept[1]), (0, kept[0])] {
            let loan = spares.take(bytes).expect("one fits");
            assert_eq!((loan.as_ptr(), loan.len()), (place, bytes));
        }
        assert!(spares.take(0).is_none(), "each is given once");
    }

    #[test]
    fn no_more_are_kept_than_are_of_use_and_all_go_home_when_asked() {
        let (mut loans, mut spares) = (HeapLoans::new(100), SpareLoans::default());
        for _ in 0..3 {
            // One by one they fit: all but the newest are home.
            (0..KEPT_MAX).for_each(|_| spares.keep(loans.loan(6).expect("memory")));
            assert_eq!(loans.loan(10).err(), Some(crate::LoanError::Exhausted));
            (0..KEPT_MAX).for_each(|_| spares.keep(loans.loan(0).expect("no memory")));
            assert!(loans.loan(100).is_ok(), "those before have made room");
            assert!(spares.clear() && !spares.clear());
        }
    }
}
