//! Messages that came before anybody asked for them.

use super::Expected;
use super::lists::Lists;
use super::pattern::{KINDS, Pattern, Tag};

/// Messages by everything that can be asked for, in the order in which they came.
#[derive(Debug)]
pub struct Unexpected<M> {
    lists: [Lists; KINDS],
    messages: Vec<Option<Expected<M>>>,
    vacant: Vec<u32>,
}

impl<M> Unexpected<M> {
    pub fn new(seed: u64) -> Self {
        let lists = core::array::from_fn(|_| Lists::new(seed));
        Self { lists, messages: Vec::new(), vacant: Vec::new() }
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    #[inline]
    pub fn len(&self) -> usize {
        self.messages.len() - self.vacant.len()
    }

    pub fn push(&mut self, source: u32, tag: Tag, message: M) {
        let node = self.vacant.pop().unwrap_or_else(|| {
            self.messages.push(None);
            (self.messages.len() - 1) as u32
        });
        self.messages[node as usize] = Some(Expected { source, tag, message });
        for (lists, pattern) in self.lists.iter_mut().zip(Pattern::of(source, tag)) {
            lists.push(pattern.key(), node);
        }
    }

    /// Takes the oldest message that fits out.
    pub fn take(&mut self, pattern: Pattern) -> Option<Expected<M>> {
        let kind = pattern.kind();
        let node = self.lists[kind].pop(pattern.key())?;
        for (_, lists) in self.lists.iter_mut().enumerate().filter(|(other, _)| *other != kind) {
            lists.remove(node);
        }
        self.vacant.push(node);
        self.messages[node as usize].take()
    }
}
