//! How much memory of peers this process maps: bounded for each of their processes, and for all.
//!
//! A peer says how large its memory is, and a memfd costs it nothing until it is touched, but its mapping
//! takes addresses here. Without a bound one process could take all that there are.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use farcall_driver::Counter;

use crate::options::Caller;

/// The most bytes of peers' memory that a driver maps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// Of each process.
    pub process_bytes: usize,
    /// Of all.
    pub total_bytes: usize,
}

/// Tells how much of the quota is in use.
#[derive(Debug)]
pub struct Ledger {
    quota: Quota,
    books: Mutex<Books>,
}

#[derive(Debug, Default)]
struct Books {
    total: usize,
    of: HashMap<Caller, usize>,
    /// Shows the total.
    gauge: Option<Counter>,
}

impl Ledger {
    /// Nothing is mapped yet.
    pub fn new(quota: Quota, gauge: Option<Counter>) -> Self {
        Self { quota, books: Mutex::new(Books { gauge, ..Books::default() }) }
    }

    /// Takes this much for memory of a process; it is given back when the claim is dropped.
    ///
    /// # Errors
    /// Says in words which part of the quota does not suffice.
    pub fn claim(self: &Arc<Self>, caller: Caller, bytes: usize) -> Result<Claim, String> {
        let Quota { process_bytes, total_bytes } = self.quota;
        let mut books = self.books();
        let has = books.of.get(&caller).copied().unwrap_or(0);
        let over = |has: usize, most: usize| has.checked_add(bytes).is_none_or(|sum| sum > most);
        if over(has, process_bytes) {
            return Err(format!(
                "its process has {has} bytes mapped here, and {bytes} more are over shm.process_bytes_max"
            ));
        }
        if over(books.total, total_bytes) {
            let total = books.total;
            return Err(format!(
                "{total} bytes of peers are mapped here, and {bytes} more are over shm.mapped_bytes_max"
            ));
        }
        books.of.insert(caller, has + bytes);
        let total = books.total + bytes;
        books.show(total);
        Ok(Claim { ledger: Arc::clone(self), caller, bytes })
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Books {
    fn show(&mut self, total: usize) {
        self.total = total;
        if let Some(gauge) = self.gauge {
            gauge.set(total as u64);
        }
    }
}

/// A part of the quota that is in use.
#[derive(Debug)]
pub struct Claim {
    ledger: Arc<Ledger>,
    caller: Caller,
    bytes: usize,
}

impl Drop for Claim {
    fn drop(&mut self) {
        let mut books = self.ledger.books();
        let total = books.total - self.bytes;
        books.show(total);
        if let Some(has) = books.of.get_mut(&self.caller) {
            *has -= self.bytes;
            if *has == 0 {
                books.of.remove(&self.caller);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_process_and_all_have_is_bounded_and_given_back() {
        let ledger = Arc::new(Ledger::new(Quota { process_bytes: 100, total_bytes: 150 }, None));
        let [one, other] = [Caller::Process(1), Caller::Number(1)];
        let first = ledger.claim(one, 60).expect("room");
        assert!(ledger.claim(one, 41).is_err_and(|why| why.contains("shm.process_bytes_max")));
        let second = ledger.claim(other, 90).expect("room");
        assert!(ledger.claim(one, 1).is_err_and(|why| why.contains("shm.mapped_bytes_max")));
        assert!(ledger.claim(other, usize::MAX).is_err());
        drop(first);
        let third = ledger.claim(one, 60).expect("room again");
        drop((second, third));
        let books = ledger.books();
        assert_eq!((books.total, books.of.len()), (0, 0));
    }
}
