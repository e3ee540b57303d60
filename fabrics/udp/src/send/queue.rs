//! The packets that wait for a flush: a ring of equal slots, in the order of sending.

use farcall_driver::Destination;

/// A bounded queue of packets that were copied.
pub struct SendQueue {
    /// Slot `n` begins at `n * slot_bytes`.
    bytes: Box<[u8]>,
    slot_bytes: usize,
    entries: Box<[Entry]>,
    /// The slot of the oldest packet.
    head: usize,
    length: usize,
}

#[derive(Clone, Copy)]
struct Entry {
    to: Destination,
    bytes: u32,
}

impl SendQueue {
    /// Room for `packets` packets of up to `slot_bytes` bytes.
    pub fn new(packets: usize, slot_bytes: usize) -> Self {
        let bytes = vec![0; packets * slot_bytes].into_boxed_slice();
        let entries = vec![Entry { to: Destination(0), bytes: 0 }; packets].into_boxed_slice();
        Self { bytes, slot_bytes, entries, head: 0, length: 0 }
    }

    /// How many packets wait.
    #[inline]
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether no packet waits.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Whether all packets that wait are for one peer.
    pub fn is_all_for(&self, peer: Destination) -> bool {
        (0..self.length).all(|index| self.get(index).0 == peer)
    }

    /// How many packets there is room for.
    #[inline]
    pub fn room(&self) -> usize {
        self.entries.len() - self.length
    }

    /// Copies a packet of `bytes` bytes to the end, unless the queue is full.
    #[inline]
    pub fn push(&mut self, to: Destination, parts: &[&[u8]], bytes: usize) -> bool {
        if self.room() == 0 {
            return false;
        }
        let slot = self.slot(self.length);
        let mut room = &mut self.bytes[slot * self.slot_bytes..][..bytes];
        for part in parts {
            let (start, rest) = room.split_at_mut(part.len());
            start.copy_from_slice(part);
            room = rest;
        }
        self.entries[slot] = Entry { to, bytes: bytes as u32 };
        self.length += 1;
        true
    }

    /// The packet that is `index` places behind the oldest.
    #[inline]
    pub fn get(&self, index: usize) -> (Destination, &[u8]) {
        debug_assert!(index < self.length);
        let slot = self.slot(index);
        let entry = self.entries[slot];
        (entry.to, &self.bytes[slot * self.slot_bytes..][..entry.bytes as usize])
    }

    /// Takes the `packets` oldest packets away.
    ///
    /// # Panics
    /// When there are fewer.
    #[inline]
    pub fn pop(&mut self, packets: usize) {
        assert!(packets <= self.length, "only what is queued can leave");
        self.length -= packets;
        // An empty queue starts again at its first slot, which is in cache.
        self.head = if self.length == 0 { 0 } else { self.slot(packets) };
    }

    #[inline]
    fn slot(&self, index: usize) -> usize {
        let slot = self.head + index;
        if slot < self.entries.len() { slot } else { slot - self.entries.len() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    #[test]
    fn packets_leave_in_order_through_many_turns_of_the_ring() {
        let mut queue = SendQueue::new(5, 8);
        let mut model: VecDeque<(Destination, Vec<u8>)> = VecDeque::new();
        for round in 0..200_u32 {
            let packet = round.to_le_bytes();
            let (left, right) = packet.split_at(round as usize % 5);
            if queue.push(Destination(round), &[left, &[], right], 4) {
                model.push_back((Destination(round), packet.to_vec()));
            } else {
                assert_eq!(model.len(), 5, "refused though not full");
                queue.pop(1 + round as usize % 3);
                model.drain(..1 + round as usize % 3);
            }
            assert_eq!((queue.len(), queue.room()), (model.len(), 5 - model.len()));
            for (index, (to, bytes)) in model.iter().enumerate() {
                assert_eq!(queue.get(index), (*to, &bytes[..]));
            }
        }
    }
}
