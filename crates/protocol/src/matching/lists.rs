//! Queues of numbered nodes, by key: first in, first out, and removal from anywhere.

use super::table::{NONE, Table};

#[derive(Clone, Copy, Debug)]
struct Link {
    key: u64,
    previous: u32,
    next: u32,
}

/// Queues by key. A node is in one of them at most.
#[derive(Debug)]
pub struct Lists {
    table: Table,
    /// By node.
    links: Vec<Link>,
}

impl Lists {
    /// All queues are empty.
    pub fn new(seed: u64) -> Self {
        Self { table: Table::new(seed), links: Vec::new() }
    }

    /// The first node of the queue of `key`.
    #[inline]
    pub fn first(&self, key: u64) -> Option<u32> {
        let first = self.table.first(self.table.find(key)?);
        (first != NONE).then_some(first)
    }

    /// The node behind one that is in a queue.
    pub fn after(&self, node: u32) -> Option<u32> {
        let next = self.links[node as usize].next;
        (next != NONE).then_some(next)
    }

    /// Takes the first node off the queue of `key`.
    #[inline]
    pub fn pop(&mut self, key: u64) -> Option<u32> {
        let place = self.table.find(key)?;
        let queue = self.table.queue(place);
        let node = queue.first;
        if node == NONE {
            return None;
        }
        let next = self.links[node as usize].next;
        queue.first = next;
        if next != NONE {
            self.links[next as usize].previous = NONE;
        }
        Some(node)
    }

    /// Puts a node, which is in no queue, at the end of the queue of `key`.
    #[inline]
    pub fn push(&mut self, key: u64, node: u32) {
        let place = self.table.find_or_take(key);
        let queue = self.table.queue(place);
        let previous = if queue.first == NONE { NONE } else { queue.last };
        queue.last = node;
        if previous == NONE {
            queue.first = node;
        } else {
            self.links[previous as usize].next = node;
        }
        if self.links.len() <= node as usize {
            self.grow(node);
        }
        // One by one: a link that is first put together elsewhere would be read back before it is written.
        let link = &mut self.links[node as usize];
        link.key = key;
        link.previous = previous;
        link.next = NONE;
    }

    #[cfg(test)]
    pub fn places(&self) -> usize {
        self.table.places()
    }

    #[cold]
    fn grow(&mut self, node: u32) {
        self.links.resize(node as usize + 1, Link { key: 0, previous: NONE, next: NONE });
    }

    /// Takes a node, which is in one of the queues, out of it.
    pub fn remove(&mut self, node: u32) {
        let Link { key, previous, next } = self.links[node as usize];
        if previous == NONE || next == NONE {
            let place = self.table.find(key).expect("a queue with nodes has a place");
            let queue = self.table.queue(place);
            if previous == NONE {
                queue.first = next;
            }
            if next == NONE {
                queue.last = previous;
            }
        }
        if previous != NONE {
            self.links[previous as usize].next = next;
        }
        if next != NONE {
            self.links[next as usize].previous = previous;
        }
    }
}
