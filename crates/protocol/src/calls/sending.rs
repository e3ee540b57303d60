//! A message on its way out, kept until the peer has it.

use super::event::Payload;

/// The longest buffer that a slot keeps for its next message.
pub const RECYCLED_BUFFER_BYTES_MAX: usize = 64 << 10;

/// The most ranges that wait to be sent once more. What finds no room is asked for again.
const REPEATED_RANGES_MAX: usize = 16;

/// How messages are cut into packets on one session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The longest message that is one packet.
    pub whole_bytes_max: u32,
    /// The length of every piece of a longer one, but for the last.
    pub fragment_bytes: u32,
    /// How much of it goes out before it is granted.
    pub unscheduled_bytes: u32,
}

/// A piece to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) offset: u32,
    pub(super) length: u32,
    pub(super) repeated: bool,
}

/// The place of one message after another.
#[derive(Debug)]
pub(super) struct Sending<B> {
    buffer: Vec<u8>,
    owned: Option<B>,
    /// Service or status.
    pub(super) tag: u16,
    /// For a message of one packet: it is to be sent.
    pub(super) whole_due: bool,
    /// For a message of one packet: it was sent before.
    pub(super) whole_sent: bool,
    length: u32,
    /// All bytes below were sent once.
    sent: u32,
    /// All bytes below may be sent.
    granted: u32,
    /// Whether the peer knew nothing of it when all that needs no grant had been sent.
    pub(super) is_restarted: bool,
    /// The priority of what the last grant permitted.
    pub(super) granted_priority: u8,
    /// The priority of what is sent once more.
    pub(super) repeat_priority: u8,
    /// For a long message: the higher, the later it began to wait.
    pub(super) age: u64,
    /// Start and end of what is to be sent once more; all of it below `sent`, and no two of them meet.
    again: Vec<(u32, u32)>,
}

impl<B> Default for Sending<B> {
    fn default() -> Self {
        Self {
            buffer: Vec::new(),
            owned: None,
            tag: 0,
            whole_due: false,
            whole_sent: false,
            length: 0,
            sent: 0,
            granted: 0,
            is_restarted: false,
            granted_priority: 0,
            repeat_priority: 0,
            age: 0,
            again: Vec::new(),
        }
    }
}

impl<B: AsRef<[u8]>> Sending<B> {
    /// Takes a message over; its length was checked against the session's limit.
    #[inline(always)]
    pub(super) fn load(&mut self, tag: u16, payload: Payload<'_, B>) {
        self.tag = tag;
        self.length = payload.as_bytes().len() as u32;
        self.whole_due = false;
        self.whole_sent = false;
        self.sent = 0;
        self.granted = 0;
        self.is_restarted = false;
        match payload {
            Payload::Slice(bytes) => {
                self.buffer.clear();
                self.buffer.extend_from_slice(bytes);
            }
            Payload::Owned(memory) => self.owned = Some(memory),
        }
    }

    /// Drops the message; a short buffer stays for the next.
    #[inline(always)]
    pub(super) fn clear(&mut self) {
        self.owned = None;
        self.length = 0;
        self.sent = 0;
        self.granted = 0;
        self.whole_due = false;
        self.again.clear();
        if self.buffer.capacity() > RECYCLED_BUFFER_BYTES_MAX {
            self.buffer = Vec::new();
        }
    }

    /// Bytes of memory that it takes, used or not.
    #[inline]
    pub(super) fn held_bytes(&self) -> usize {
        let owned = if self.owned.is_some() { self.length as usize } else { 0 };
        self.buffer.capacity() + owned
    }

    /// Frees the buffer, in which no message is.
    pub(super) fn drop_spare(&mut self) {
        self.buffer = Vec::new();
    }

    #[inline]
    pub(super) fn bytes(&self) -> &[u8] {
        match &self.owned {
            None => &self.buffer,
            Some(memory) => memory.as_ref(),
        }
    }

    #[inline]
    pub(super) fn length(&self) -> u32 {
        self.length
    }

    /// Allows the bytes of a long message that need no grant.
    pub(super) fn start(&mut self, cut: &Cut) {
        debug_assert!(self.length > cut.whole_bytes_max, "a message of one packet has no pieces");
        self.again.clear();
        self.sent = 0;
        self.granted = cut.unscheduled_bytes.min(self.length);
    }

    /// The peer knows nothing of it: once more from the start.
    pub(super) fn restart(&mut self, cut: &Cut) {
        self.start(cut);
        self.is_restarted = true;
    }

    /// Allows bytes of a long message up to `offset`. False when no correct peer grants that.
    pub(super) fn grant(&mut self, offset: u32, priority: u8, cut: &Cut) -> bool {
        if offset > self.length || self.length <= cut.whole_bytes_max {
            return false;
        }
        if offset > self.granted {
            self.granted = offset;
            self.granted_priority = priority;
        }
        true
    }

    /// Plans to send a range once more, as far as it was sent; the rest counts as granted, since a receiver
    /// that misses bytes permits them. What no correct peer asks for is not planned. A message of one packet
    /// has no ranges.
    pub(super) fn repeat(&mut self, offset: u32, length: u32, priority: u8, cut: &Cut) {
        let is_long = self.length > cut.whole_bytes_max;
        if !is_long || offset >= self.length || !offset.is_multiple_of(cut.fragment_bytes) || length == 0 {
            return;
        }
        let end = offset.saturating_add(length).min(self.length);
        self.grant(end, priority, cut);
        let (mut first, mut last) = (offset, end.min(self.sent));
        if first >= last {
            return;
        }
        // Ranges that meet become one, so that all together are never more than the message.
        self.again.retain(|&(from, to)| {
            let apart = to < first || last < from;
            if !apart {
                (first, last) = (first.min(from), last.max(to));
            }
            apart
        });
        if self.again.len() < REPEATED_RANGES_MAX {
            self.again.push((first, last));
            self.repeat_priority = priority;
        }
    }

    /// Whether a long message has bytes that may be sent.
    pub(super) fn has_pieces(&self) -> bool {
        !self.again.is_empty() || self.sent < self.granted
    }

    /// Whether something of it may be sent, so that it waits here for its turn. A place in a queue does not
    /// say so: it may be the former message's.
    pub(super) fn is_due(&self) -> bool {
        self.whole_due || self.has_pieces()
    }

    /// Whether every byte was sent once.
    pub(super) fn is_sent(&self) -> bool {
        self.whole_sent || (self.length > 0 && self.sent == self.length)
    }

    /// How many bytes of a long message are still to be sent.
    pub(super) fn remaining(&self) -> u32 {
        let again: u32 = self.again.iter().map(|&(from, to)| to - from).sum();
        self.length - self.sent + again
    }

    /// The next piece of a long message, if one may be sent: first what was lost.
    pub(super) fn next_piece(&mut self, cut: &Cut) -> Option<Piece> {
        if let Some(&(from, to)) = self.again.first() {
            let length = cut.fragment_bytes.min(self.length - from);
            if from + length >= to {
                self.again.remove(0);
            } else {
                self.again[0].0 = from + length;
            }
            return Some(Piece { offset: from, length, repeated: true });
        }
        if self.sent >= self.granted {
            return None;
        }
        let offset = self.sent;
        let length = cut.fragment_bytes.min(self.length - offset);
        self.sent = offset + length;
        Some(Piece { offset, length, repeated: false })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CUT: Cut = Cut { whole_bytes_max: 1000, fragment_bytes: 1000, unscheduled_bytes: u32::MAX };

    /// A long message of which every piece was sent once.
    fn sent(bytes: u32) -> Sending<Vec<u8>> {
        let mut message = Sending { length: bytes, sent: bytes, ..Sending::default() };
        message.granted = bytes;
        message
    }

    #[test]
    fn ranges_that_overlap_are_sent_once_whatever_their_order() {
        let mut message = sent(100_000);
        // The later the beginning, the earlier it is asked for, and each to the end.
        for first in (0..REPEATED_RANGES_MAX as u32).rev() {
            message.repeat(1000 * first, u32::MAX, 0, &CUT);
        }
        assert_eq!(message.remaining(), 100_000);
        let pieces = core::iter::from_fn(|| message.next_piece(&CUT));
        assert_eq!(pieces.map(|piece| piece.length).sum::<u32>(), 100_000);
    }

    #[test]
    fn ranges_apart_stay_apart_and_one_between_joins_them() {
        let mut message = sent(10_000);
        message.repeat(0, 2000, 0, &CUT);
        message.repeat(4000, 2000, 0, &CUT);
        message.repeat(8000, 1000, 0, &CUT);
        assert_eq!(message.again, [(0, 2000), (4000, 6000), (8000, 9000)]);
        message.repeat(2000, 2000, 0, &CUT);
        assert_eq!(message.again, [(8000, 9000), (0, 6000)]);
    }

    #[test]
    fn what_remains_of_the_longest_message_fits_its_number() {
        let mut message = sent(u32::MAX);
        (0..REPEATED_RANGES_MAX as u32).for_each(|first| message.repeat(1000 * first, u32::MAX, 0, &CUT));
        assert_eq!(message.remaining(), u32::MAX);
    }
}
