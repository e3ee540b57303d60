//! Long values that a client reads: a piece when it has taken the one before.

use std::collections::VecDeque;

use crate::store::{Cut, Held, Store};

/// Bytes that are read at a time.
const STEP_BYTES: usize = 64 << 10;

/// A part of a long value that is not read yet. It stays as it was when the command ran.
#[derive(Debug)]
pub struct Reading {
    held: Held,
    at: usize,
    end: usize,
}

impl Reading {
    /// A part of a value.
    pub fn new(held: Held, (at, end): (usize, usize)) -> Self {
        Self { held, at, end }
    }

    /// How long the rest is.
    pub fn left(&self) -> usize {
        self.end - self.at
    }

    /// Appends the next bytes.
    fn step(&mut self, store: &Store, to: &mut Vec<u8>) -> Result<(), Cut> {
        let end = self.end.min(self.at + STEP_BYTES);
        store.read_long(&self.held, (self.at, end), |piece| to.extend_from_slice(piece))?;
        self.at = end;
        Ok(())
    }
}

/// A part of what a client is to be sent.
#[derive(Debug)]
enum Part {
    Bytes(Vec<u8>),
    Value(Reading),
}

/// What follows a client's output, once that is taken.
#[derive(Debug, Default)]
pub struct Rest {
    parts: VecDeque<Part>,
    /// Bytes that lie here, those of values apart.
    bytes: usize,
}

impl Rest {
    /// Whether nothing follows.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Bytes of it that take memory beside the store.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Cuts what follows the first long value out of an output.
    pub fn split(output: &mut Vec<u8>, longs: Vec<(usize, Reading)>) -> Self {
        let mut rest = Self::default();
        for (at, reading) in longs.into_iter().rev() {
            let behind = output.split_off(at);
            rest.bytes += behind.len();
            rest.parts.push_front(Part::Bytes(behind));
            rest.parts.push_front(Part::Value(reading));
        }
        rest
    }

    /// Puts something behind all of it.
    pub fn push(&mut self, bytes: Vec<u8>) {
        self.bytes += bytes.len();
        self.parts.push_back(Part::Bytes(bytes));
    }

    /// Appends its next part, or some of it, to an output.
    pub fn step(&mut self, store: &Store, output: &mut Vec<u8>) -> Result<(), Cut> {
        let is_done = match self.parts.front_mut() {
            Some(Part::Bytes(bytes)) => {
                self.bytes -= bytes.len();
                output.append(bytes);
                true
            }
            Some(Part::Value(reading)) => {
                reading.step(store, output)?;
                reading.left() == 0
            }
            None => return Ok(()),
        };
        if is_done {
            self.parts.pop_front();
        }
        Ok(())
    }
}
