//! Messages that came before anybody asked for them.

use farcall_base::SipKey;

use super::Expected;
use super::lists::Lists;
use super::pattern::{KINDS, Pattern, Source, Tag};

/// Messages by everything that can be asked for, in the order in which they came.
#[derive(Debug)]
pub struct Unexpected<M> {
    lists: [Lists<()>; KINDS],
    messages: Vec<Option<Expected<M>>>,
    vacant: Vec<u32>,
}

impl<M> Unexpected<M> {
    pub fn new(secret: SipKey) -> Self {
        let lists = core::array::from_fn(|_| Lists::new(secret));
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

    pub fn push(&mut self, source: Source, tag: Tag, message: M) {
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
        let (node, _) = self.lists[kind].pop(pattern.key())?;
        for (_, lists) in self.lists.iter_mut().enumerate().filter(|(other, _)| *other != kind) {
            lists.remove(node);
        }
        self.vacate(node)
    }

    /// Drops messages of a source.
    pub fn forget(&mut self, source: Source, mut is_forgotten: impl FnMut(&M) -> bool) {
        let pattern = Pattern { source: Some(source), tag: None };
        let mut next = self.lists[pattern.kind()].first(pattern.key());
        while let Some(node) = next {
            next = self.lists[pattern.kind()].after(node);
            let message = self.messages[node as usize].as_ref().expect("nodes in queues have messages");
            if is_forgotten(&message.message) {
                self.lists.iter_mut().for_each(|lists| lists.remove(node));
                self.vacate(node);
            }
        }
    }

    fn vacate(&mut self, node: u32) -> Option<Expected<M>> {
        self.vacant.push(node);
        self.messages[node as usize].take()
    }
}
