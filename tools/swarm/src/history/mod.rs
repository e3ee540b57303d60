//! Histories of many clients of a store, as they are written down: what was asked for, when, and what came of
//! it; and whether an order explains them.
//!
//! A history is text, a line for each operation, so that any client can write one and any checker can read
//! it. [`check`] looks for an order of the operations on each key in which every one happens at once, at some
//! moment between its beginning and its end, and is told what it was told: linearizability (Herlihy and Wing,
//! "Linearizability: A correctness condition for concurrent objects", TOPLAS 1990). Keys are looked at one by
//! one, because a history is linearizable if the part of each object is.

mod check;
mod line;
mod search;
#[cfg(test)]
mod tests;

pub use check::{Unexplained, Verdict, check};
pub use line::{HistoryError, TITLE, parse, write};

/// What was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// The value of an object.
    Get,
    /// To write a value.
    Put(String),
    /// To delete an object.
    Delete,
    /// To add to a number; what is not there counts as 0.
    Add(i64),
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    /// This is the value.
    Found(String),
    /// There was nothing to read or to delete.
    Nothing,
    /// It was written or deleted.
    Done,
    /// This is the sum.
    Sum(i64),
}

/// An operation of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    /// Who asked.
    pub client: u64,
    /// About which object.
    pub key: String,
    /// When, by a clock that all clients share.
    pub began: u64,
    /// When it was told, and what; `None` if nobody knows: it may have happened, may happen later, or not.
    pub told: Option<(u64, Told)>,
    /// What for.
    pub asked: Asked,
}

/// What a fuzzer gives: a text that is no history, or one that is written as it was read, and that a checker
/// has something to say of.
#[doc(hidden)]
pub fn fuzz_history(bytes: &[u8]) {
    /// Few, because the checker tries orders one after the other.
    const OPERATIONS_MAX: usize = 12;
    let Ok(text) = core::str::from_utf8(bytes) else { return };
    let Ok(history) = parse(text) else { return };
    assert_eq!(parse(&write(&history)), Ok(history.clone()), "one text for each history");
    if history.len() <= OPERATIONS_MAX {
        let Verdict { unexplained, .. } = check(&history);
        assert!(unexplained.iter().all(|one| history[one.operation].key == one.key), "an operation on it");
    }
}
