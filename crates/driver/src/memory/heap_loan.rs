//! Loans of plain heap memory, for fabrics that gather what they send from anywhere.
//!
//! Where the driver has no memory of its own to lend, a loan still saves a copy: the transport takes the
//! payload over instead of copying it. Memory that comes home is kept for the next loans of about its length,
//! because fresh pages cost more than a copy would.

use core::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError};

use crate::memory::spare_loans::SpareLoans;
use crate::{BlockDescriptor, Loan, LoanError, LoanHome};

/// The most pieces of memory that wait for their next loan.
const SPARES_MAX: usize = 16;

/// Lends heap memory, up to a limit at a time.
pub struct HeapLoans {
    home: Arc<Home>,
    /// The same home as loans know it.
    lender: Arc<dyn LoanHome>,
    spares: SpareLoans,
}

impl HeapLoans {
    /// Lends at most `bytes_max` bytes at a time.
    pub fn new(bytes_max: usize) -> Self {
        let home = Arc::new(Home { bytes_max, books: Mutex::default() });
        Self { lender: home.clone(), home, spares: SpareLoans::default() }
    }

    /// Lends `bytes` bytes; what is in them is left over from earlier loans.
    pub fn loan(&mut self, bytes: usize) -> Result<Loan, LoanError> {
        if let Some(loan) = self.spares.take(bytes) {
            return Ok(loan);
        }
        match self.loan_anew(bytes) {
            Err(LoanError::Exhausted) if self.spares.clear() => self.loan_anew(bytes),
            result => result,
        }
    }

    fn loan_anew(&self, bytes: usize) -> Result<Loan, LoanError> {
        let (start, descriptor) = self.home.lend(bytes)?;
        // SAFETY: the memory is an initialised boxed slice of at least `bytes` bytes. The home's books hold
        // it without touching it until the loan's one call of `reclaim`, and the loan keeps the home.
        #[expect(unsafe_code, reason = "a loan is made of raw memory")]
        let loan = unsafe { Loan::from_raw(start, descriptor, Arc::clone(&self.lender)) };
        Ok(loan)
    }

    /// Takes a loan whose bytes were copied, for the next of about its length.
    pub fn recycle(&mut self, loan: Loan) {
        if self.owns(&loan) {
            self.spares.keep(loan);
        }
    }

    /// Whether `loan` is one of these.
    pub fn owns(&self, loan: &Loan) -> bool {
        loan.is_of(&self.lender)
    }
}

struct Home {
    bytes_max: usize,
    books: Mutex<Books>,
}

/// What is lent, by the number that a loan's descriptor carries as its offset, and what is not.
#[derive(Default)]
struct Books {
    lent: Vec<Option<Memory>>,
    vacant: Vec<usize>,
    spares: Vec<Box<[u8]>>,
    lent_bytes: usize,
}

impl Home {
    fn lend(&self, bytes: usize) -> Result<(NonNull<u8>, BlockDescriptor), LoanError> {
        if bytes > self.bytes_max {
            return Err(LoanError::TooLong { bytes, bytes_max: self.bytes_max });
        }
        let mut books = self.books.lock().unwrap_or_else(PoisonError::into_inner);
        let memory = books.take(bytes);
        if books.lent_bytes + memory.len() > self.bytes_max.max(memory.len()) {
            books.keep(memory);
            return Err(LoanError::Exhausted);
        }
        books.lent_bytes += memory.len();
        let memory = Memory::of(memory);
        let start = memory.0.cast::<u8>();
        let number = books.enter(memory);
        Ok((start, BlockDescriptor { offset: number as u64, length: bytes as u64 }))
    }
}

impl LoanHome for Home {
    fn reclaim(&self, descriptor: BlockDescriptor) {
        let mut books = self.books.lock().unwrap_or_else(PoisonError::into_inner);
        let number = descriptor.offset as usize;
        if let Some(memory) = books.lent.get_mut(number).and_then(Option::take) {
            let memory = memory.into_box();
            books.vacant.push(number);
            books.lent_bytes -= memory.len();
            books.keep(memory);
        }
    }
}

impl Books {
    /// Memory for `bytes` bytes: a spare that is not much longer, or new.
    fn take(&mut self, bytes: usize) -> Box<[u8]> {
        let fits = |length: usize| length >= bytes && length / 2 <= bytes;
        match self.spares.iter().rposition(|spare| fits(spare.len())) {
            Some(place) => self.spares.swap_remove(place),
            None => vec![0; bytes].into_boxed_slice(),
        }
    }

    fn keep(&mut self, memory: Box<[u8]>) {
        if self.spares.len() == SPARES_MAX {
            self.spares.remove(0);
        }
        self.spares.push(memory);
    }

    fn enter(&mut self, memory: Memory) -> usize {
        match self.vacant.pop() {
            Some(number) => {
                self.lent[number] = Some(memory);
                number
            }
            None => {
                self.lent.push(Some(memory));
                self.lent.len() - 1
            }
        }
    }
}

/// A boxed slice that somebody else writes to: kept as a raw pointer, so that no reference says otherwise.
struct Memory(NonNull<[u8]>);

// SAFETY: it owns its slice as a box would.
#[expect(unsafe_code, reason = "a loan is made of raw memory")]
unsafe impl Send for Memory {}

impl Memory {
    fn of(memory: Box<[u8]>) -> Self {
        Self(NonNull::from(Box::leak(memory)))
    }

    /// The box again. Whoever calls this is the last user of the memory: the loan that had it is being
    /// dropped.
    fn into_box(self) -> Box<[u8]> {
        // SAFETY: the pointer came from `Box::leak` in `of`, and `self` is consumed, so that it is freed
        // once.
        #[expect(unsafe_code, reason = "a loan is made of raw memory")]
        unsafe {
            Box::from_raw(self.0.as_ptr())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_comes_home_and_is_lent_again() {
        let mut loans = HeapLoans::new(1000);
        let mut loan = loans.loan(600).expect("there is memory");
        loan[599] = 9;
        let first = loan.as_ptr();
        assert_eq!(loans.loan(500).err(), Some(LoanError::Exhausted));
        loan.truncate(1);
        drop(loan);
        let again = loans.loan(500).expect("the memory came home");
        assert_eq!((again.as_ptr(), again.len()), (first, 500));
    }

    #[test]
    fn a_loan_that_was_copied_is_given_again_and_gives_way_to_others() {
        let mut loans = HeapLoans::new(1000);
        let mut loan = loans.loan(600).expect("there is memory");
        loan.truncate(1);
        let first = loan.as_ptr();
        loans.recycle(loan);
        let again = loans.loan(600).expect("it was kept");
        assert_eq!((again.as_ptr(), again.len()), (first, 600));
        loans.recycle(again);
        assert_eq!(loans.loan(1000).expect("what is kept is not missed").len(), 1000);
    }

    #[test]
    fn loans_outlive_their_lender_and_may_be_empty() {
        let mut loans = HeapLoans::new(10);
        assert_eq!(loans.loan(11).err(), Some(LoanError::TooLong { bytes: 11, bytes_max: 10 }));
        let (empty, mut full) = (loans.loan(0).expect("nothing is asked for"), loans.loan(10).expect("all"));
        drop(loans);
        full.fill(1);
        assert_eq!((empty.len(), full.len()), (0, 10));
    }
}
