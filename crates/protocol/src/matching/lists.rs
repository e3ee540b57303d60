//! Queues of numbered nodes, by key: first in, first out, and removal from anywhere.

use farcall_base::SipKey;

use super::ends::{Ends, NONE};
use super::table::{Queues, Table};

/// A node. What is known of it lies beside its place in the queue, so that both are in one cache line.
#[derive(Clone, Copy, Debug)]
struct Link<V> {
    key: u64,
    previous: u32,
    next: u32,
    value: V,
}

/// Queues by key. A node is in one of them at most.
#[derive(Debug)]
pub struct Lists<V> {
    table: Table,
    /// By node.
    links: Vec<Link<V>>,
}

/// The first nodes of all queues, for as long as nothing is added.
pub struct Firsts<'l, V> {
    queues: Queues<'l>,
    links: &'l mut [Link<V>],
}

impl<V: Copy + Default> Lists<V> {
    /// All queues are empty.
    pub fn new(secret: SipKey) -> Self {
        Self { table: Table::new(secret), links: Vec::new() }
    }

    /// The first node of the queue of `key`.
    #[inline]
    pub fn first(&self, key: u64) -> Option<u32> {
        let first = self.table.first(key);
        ((first as usize) < self.links.len()).then_some(first)
    }

    /// Whether a node is in a queue.
    pub fn has(&self, node: u32) -> bool {
        // That of a node which has left is in front of nothing, and so is the link of one that never came.
        let is_queued = |link: &Link<V>| link.previous != NONE || self.table.first(link.key) == node;
        self.links.get(node as usize).is_some_and(is_queued)
    }

    /// The node behind one that is in a queue.
    pub fn after(&self, node: u32) -> Option<u32> {
        let next = self.links[node as usize].next;
        (next != NONE).then_some(next)
    }

    /// What is known of a node that is, or once was, in a queue.
    #[inline]
    pub fn value_mut(&mut self, node: u32) -> Option<&mut V> {
        self.links.get_mut(node as usize).map(|link| &mut link.value)
    }

    /// Takes the first node off the queue of `key`; gives it and what is known of it.
    #[inline(always)]
    pub fn pop(&mut self, key: u64) -> Option<(u32, &mut V)> {
        pop(&mut self.links, self.table.queue(key))
    }

    /// To take off nodes that come first in several queues; most of their keys have the upper half of this
    /// one.
    #[inline(always)]
    pub fn firsts(&mut self, like: u64) -> Firsts<'_, V> {
        Firsts { queues: self.table.queues(like), links: &mut self.links }
    }

    /// Puts a node, which is in no queue, at the end of the queue of `key`. What is known of it is for the
    /// caller to write, field by field: a value that is first put together elsewhere would be read back
    /// before it is written.
    #[inline]
    pub fn push(&mut self, key: u64, node: u32) -> &mut V {
        if self.push_at_once(key, node).is_none() {
            self.push_new(key, node);
        }
        &mut self.links[node as usize].value
    }

    /// As [`Lists::push`] where there are a place and a queue; `None` where there are not, and then nothing
    /// has happened.
    #[inline]
    pub fn push_at_once(&mut self, key: u64, node: u32) -> Option<&mut V> {
        append(&mut self.links, self.table.taken(key)?, key, node)
    }

    /// As [`Lists::push_at_once`] where the page of the queue is current. Makes no call.
    #[inline(always)]
    pub fn push_current(&mut self, key: u64, node: u32) -> Option<&mut V> {
        append(&mut self.links, self.table.current(key)?, key, node)
    }

    /// As [`Lists::push`] of a node with a higher number than any before, or with a key that has no queue.
    #[cold]
    fn push_new(&mut self, key: u64, node: u32) {
        let nodes = self.links.len().max(node as usize + 1);
        self.links.resize(nodes, Link { key: 0, previous: NONE, next: NONE, value: V::default() });
        if self.table.taken(key).is_none() {
            self.table.take(key);
        }
        let is_there = self.push_at_once(key, node).is_some();
        debug_assert!(is_there, "place and queue were made");
    }

    #[cfg(test)]
    pub fn pages_and_places(&self) -> (usize, usize) {
        self.table.pages_and_places()
    }

    /// Takes a node, which is in one of the queues, out of it.
    pub fn remove(&mut self, node: u32) {
        let Link { key, previous, next, .. } = self.links[node as usize];
        self.links[node as usize].previous = NONE;
        if previous == NONE || next == NONE {
            let queue = self.table.queue(key);
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

impl<V> Firsts<'_, V> {
    /// Takes the first node off the queue of `key`; gives it and what is known of it.
    #[inline(always)]
    pub fn pop(&mut self, key: u64) -> Option<(u32, &mut V)> {
        pop(self.links, self.queues.of(key))
    }
}

/// Takes the first node off a queue.
#[inline(always)]
fn pop<'l, V>(links: &'l mut [Link<V>], queue: &mut Ends) -> Option<(u32, &'l mut V)> {
    let node = queue.first;
    // What stands for no node is no place here either.
    let next = links.get(node as usize)?.next;
    queue.first = next;
    if next != NONE {
        links[next as usize].previous = NONE;
    }
    Some((node, &mut links[node as usize].value))
}

/// Puts a node at the end of a queue, if there is a link for it.
#[inline(always)]
fn append<'l, V>(links: &'l mut [Link<V>], queue: &mut Ends, key: u64, node: u32) -> Option<&'l mut V> {
    if node as usize >= links.len() {
        return None;
    }
    let previous = if queue.has_nodes() {
        links[queue.last as usize].next = node;
        queue.last
    } else {
        queue.first = node;
        NONE
    };
    queue.last = node;
    let link = &mut links[node as usize];
    (link.key, link.previous, link.next) = (key, previous, NONE);
    Some(&mut link.value)
}
