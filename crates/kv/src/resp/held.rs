//! Replies of a client that wait for the log.
//!
//! A reply leaves once what it says is as safe as its table promises. Replies are in the order of their
//! commands, so those behind it wait as well; the commands behind it do not, and their writes share its
//! flush.

use core::ops::Range;
use std::collections::VecDeque;

use super::reply::{Protocol, Reply};

/// A reply that waits.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    /// The group of the log that must be flushed.
    group: u64,
    /// Where it lies in all that the client is sent.
    start: u64,
    end: u64,
}

/// The replies that wait, in their order.
#[derive(Debug, Default)]
pub struct HeldReplies {
    waiting: VecDeque<Waiting>,
    /// Bytes that were sent and are forgotten: where the client's output begins.
    forgotten: u64,
}

impl HeldReplies {
    /// Whether none waits.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// A reply in this range of the output waits for a group.
    pub fn hold(&mut self, group: u64, Range { start, end }: Range<usize>) {
        let (start, end) = (self.forgotten + start as u64, self.forgotten + end as u64);
        self.waiting.push_back(Waiting { group, start, end });
    }

    /// How much of the output, which has this length, may be sent.
    #[inline]
    pub fn sendable(&self, output: usize) -> usize {
        self.waiting.front().map_or(output, |first| (first.start - self.forgotten) as usize)
    }

    /// The output was sent, and begins again.
    pub fn forget(&mut self, bytes: usize) {
        self.forgotten += bytes as u64;
    }

    /// Groups up to this one are flushed.
    pub fn flushed(&mut self, group: u64) {
        while self.waiting.front().is_some_and(|first| first.group <= group) {
            self.waiting.pop_front();
        }
    }

    /// Replaces each reply that waits by an error.
    pub fn refuse(&mut self, output: &mut Vec<u8>, text: &str) {
        let Some(first) = self.waiting.front() else { return };
        let mut at = (first.start - self.forgotten) as usize;
        let behind = output.split_off(at);
        let mut reply = Reply::new(core::mem::take(output), Protocol::default());
        let behind_at = at;
        for Waiting { start, end, .. } in self.waiting.drain(..) {
            let (start, end) = ((start - self.forgotten) as usize, (end - self.forgotten) as usize);
            // Messages of channels lie between.
            reply.append(&behind[at - behind_at..start - behind_at]);
            reply.error(text);
            at = end;
        }
        reply.append(&behind[at - behind_at..]);
        *output = reply.into_bytes();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_wait_for_their_group_and_for_those_before_them() {
        let (mut held, mut output) = (HeldReplies::default(), b"+1\r\n+2\r\n+3\r\n+4\r\n".to_vec());
        held.forget(100);
        held.hold(5, 4..8);
        held.hold(4, 8..12);
        assert_eq!(held.sendable(output.len()), 4);
        held.flushed(4);
        assert_eq!(held.sendable(output.len()), 4, "the one before it waits");
        held.flushed(5);
        assert!(held.is_empty() && held.sendable(output.len()) == output.len());
        held.hold(6, 4..8);
        held.hold(7, 12..16);
        held.flushed(6);
        held.hold(8, 16..16);
        held.refuse(&mut output, "NOREPLICAS none");
        assert_eq!(output, b"+1\r\n+2\r\n+3\r\n-NOREPLICAS none\r\n-NOREPLICAS none\r\n");
        assert!(held.is_empty());
    }
}
