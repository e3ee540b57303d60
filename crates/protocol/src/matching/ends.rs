//! The two ends of a queue of nodes.

/// No node.
pub const NONE: u32 = u32::MAX;

/// What stands for a first node where there is no queue. No node has this number either, so that a search for
/// a node need not tell the two apart.
pub const VACANT: u32 = u32::MAX - 1;

/// The two ends of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends {
    /// No node when the queue is empty.
    pub first: u32,
    pub last: u32,
}

impl Ends {
    pub const EMPTY: Self = Self { first: NONE, last: NONE };

    /// Whether it is a queue that has nodes.
    #[inline]
    pub fn has_nodes(self) -> bool {
        self.first < VACANT
    }
}
