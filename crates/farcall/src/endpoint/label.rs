//! What a message that waits for its future says of itself.

use farcall_transport::{SessionId, Tag};

use super::sessions::Peer;

/// The sender of a message, and its tag.
///
/// They are held as two words, which travel in registers from the slot to the future: the four numbers would
/// be stored and loaded again at each step.
#[derive(Clone, Copy, Debug)]
pub struct Label {
    /// The peer's session, and its rank in the upper half.
    session_and_rank: u64,
    /// The peer's endpoint, and the tag in the upper half.
    endpoint_and_tag: u64,
}

impl Label {
    /// The label of a message from `peer`.
    #[inline]
    pub const fn new(peer: Peer, tag: Tag) -> Self {
        let Peer { session, rank, endpoint } = peer;
        Self {
            session_and_rank: session.0 as u64 | (rank as u64) << 32,
            endpoint_and_tag: endpoint as u64 | (tag.0 as u64) << 32,
        }
    }

    /// The sender.
    pub const fn peer(self) -> Peer {
        Peer {
            session: SessionId(self.session_and_rank as u32),
            rank: (self.session_and_rank >> 32) as u32,
            endpoint: self.endpoint_and_tag as u32,
        }
    }

    /// Its tag.
    pub const fn tag(self) -> Tag {
        Tag((self.endpoint_and_tag >> 32) as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_says_what_it_was_made_of() {
        for number in [0, 1, u32::MAX] {
            let peer = Peer { session: SessionId(number), rank: !number, endpoint: number ^ 5 };
            let label = Label::new(peer, Tag(!number ^ 9));
            assert_eq!((label.peer(), label.tag()), (peer, Tag(!number ^ 9)));
        }
    }
}
