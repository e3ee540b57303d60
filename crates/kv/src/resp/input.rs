//! What a client sent and is not done yet.
//!
//! A long request is received where it is understood, in memory that requests of other clients had before
//! ([0210](../../../../docs/decisions/0210-long-requests-in-used-memory.md)).

use core::ops::{Deref, Range};
use std::io;

use super::spares::{BUFFER_BYTES_MAX, Spares};

/// Memory that a client keeps for a request of which little has come.
const KEPT_BYTES_MAX: usize = 64 << 10;

/// The bytes, from the first request that is not done on.
#[derive(Debug, Default)]
pub struct Input {
    /// All of it has been written at some time, so that it can be received into.
    memory: Vec<u8>,
    /// How much of it has come.
    end: usize,
}

impl Input {
    /// Memory that it takes.
    pub fn memory_bytes(&self) -> usize {
        self.memory.capacity()
    }

    /// Appends bytes.
    pub fn extend(&mut self, bytes: &[u8], spares: &mut Spares) {
        self.make_room(bytes.len(), spares);
        self.memory[self.end..self.end + bytes.len()].copy_from_slice(bytes);
        self.end += bytes.len();
    }

    /// Appends at most this many bytes, which `receive` puts where it is told and counts, if there are any.
    pub fn receive(
        &mut self,
        bytes: usize,
        spares: &mut Spares,
        receive: impl FnOnce(&mut [u8]) -> io::Result<Option<usize>>,
    ) -> io::Result<Option<usize>> {
        self.make_room(bytes, spares);
        let received = receive(&mut self.memory[self.end..self.end + bytes])?;
        self.end += received.unwrap_or(0);
        Ok(received)
    }

    /// Takes bytes out.
    pub fn cut(&mut self, Range { start, end }: Range<usize>) {
        self.memory.copy_within(end..self.end, start);
        self.end -= end - start;
    }

    /// Gives memory to others of which it needs little, or nothing.
    pub fn trim(&mut self, spares: &mut Spares) {
        if self.end == 0 {
            spares.keep(core::mem::take(&mut self.memory));
        } else if self.memory.len() > KEPT_BYTES_MAX && self.end < self.memory.len() / 4 {
            // With room for what comes next: otherwise all of it would be moved again with every part.
            let mut less = vec![0; 2 * self.end];
            less[..self.end].copy_from_slice(self);
            spares.keep(core::mem::replace(&mut self.memory, less));
        }
    }

    /// Makes room behind what is there: twice as much as before, if more is needed, or memory that is there.
    fn make_room(&mut self, bytes: usize, spares: &mut Spares) {
        let needed = self.end + bytes;
        if needed <= self.memory.len() {
            return;
        }
        if needed > BUFFER_BYTES_MAX {
            return self.memory.resize(needed, 0);
        }
        let mut larger = spares.take(needed);
        if larger.len() < needed {
            larger = vec![0; needed.max(2 * self.end).min(BUFFER_BYTES_MAX)];
        }
        larger[..self.end].copy_from_slice(self);
        spares.keep(core::mem::replace(&mut self.memory, larger));
    }
}

impl Deref for Input {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.memory[..self.end]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn receive(input: &mut Input, room: usize, bytes: &[u8], spares: &mut Spares) {
        let received = input.receive(room, spares, |to| {
            assert_eq!(to.len(), room, "no more is received than was asked for");
            to[..bytes.len()].copy_from_slice(bytes);
            Ok(Some(bytes.len()))
        });
        assert!(matches!(received, Ok(Some(count)) if count == bytes.len()));
    }

    #[test]
    fn what_is_received_is_kept_in_order_until_it_is_taken_out() {
        let (mut input, mut spares) = (Input::default(), Spares::default());
        let nothing = input.receive(10, &mut spares, |_| Ok(None));
        assert!(matches!(nothing, Ok(None)) && input.is_empty());
        let mut expected = Vec::new();
        for (number, room) in [1_usize, 100, 70_000, 4 << 20, 10].into_iter().enumerate() {
            let bytes = vec![number as u8; room / 2 + 1];
            receive(&mut input, room, &bytes, &mut spares);
            input.extend(&[9; 3], &mut spares);
            expected.extend_from_slice(&bytes);
            expected.extend_from_slice(&[9; 3]);
            input.trim(&mut spares);
            assert!(*input == expected, "{room} bytes");
        }
        input.cut(10..50_000);
        expected.drain(10..50_000);
        input.cut(0..5);
        expected.drain(0..5);
        assert!(*input == expected);
    }

    #[test]
    fn what_comes_in_small_parts_is_moved_only_as_it_doubles() {
        let (mut input, mut spares, mut moved) = (Input::default(), Spares::default(), 0);
        spares.keep(vec![0; BUFFER_BYTES_MAX]);
        for _ in 0..300 {
            let place = input.as_ptr();
            receive(&mut input, 1000, &[7; 1000], &mut spares);
            input.trim(&mut spares);
            moved += usize::from(input.as_ptr() != place);
        }
        assert!(*input == [7; 300_000]);
        assert!(moved < 30, "moved {moved} times");
    }

    #[test]
    fn memory_is_used_again_and_who_sends_little_does_not_keep_it() {
        let (mut input, mut spares) = (Input::default(), Spares::default());
        receive(&mut input, 1 << 20, &[7; 10_000], &mut spares);
        let memory = input.as_ptr();
        input.trim(&mut spares);
        assert!(input.memory_bytes() <= KEPT_BYTES_MAX, "{} bytes", input.memory_bytes());
        assert!(*input == [7; 10_000]);
        let mut other = Input::default();
        receive(&mut other, 1 << 20, &[8; 300_000], &mut spares);
        assert_eq!(other.as_ptr(), memory, "fresh memory would be slow");
        other.trim(&mut spares);
        assert!(*other == [8; 300_000] && other.memory_bytes() <= 4 * other.len());
        other.cut(0..300_000);
        other.trim(&mut spares);
        assert_eq!(other.memory_bytes(), 0, "a quiet client has none");
    }
}
