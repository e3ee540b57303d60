//! The identity of the other end of a session.

/// The rank of a process that belongs to no world.
pub const NO_RANK: u32 = u32::MAX;

/// The endpoint that a session leads to, as it named itself in the handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Identity {
    /// Drawn at random when the process starts: a restarted process has another. Never 0.
    pub incarnation: u64,
    /// The process's rank in its world; [`NO_RANK`] without one.
    pub rank: u32,
    /// The endpoint's number within the process, from 0.
    pub endpoint: u32,
}

impl Identity {
    /// As an endpoint takes it whose world has `ranks` ranks; `None` when the peer claims a rank that this
    /// world does not have. Without a world (0 ranks) the rank that a peer claims means nothing.
    pub const fn in_world_of(self, ranks: u32) -> Option<Self> {
        match (ranks, self.rank) {
            (0, _) => Some(Self { rank: NO_RANK, ..self }),
            (_, NO_RANK) => Some(self),
            _ if self.rank < ranks => Some(self),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rank_counts_in_a_world_that_has_it() {
        let peer = |rank| Identity { incarnation: 7, rank, endpoint: 1 };
        assert_eq!(peer(3).in_world_of(4), Some(peer(3)));
        assert_eq!(peer(4).in_world_of(4), None, "no such rank");
        assert_eq!(peer(NO_RANK).in_world_of(4), Some(peer(NO_RANK)), "it claims none");
        assert_eq!(peer(3).in_world_of(0), Some(peer(NO_RANK)), "no world, no rank");
    }
}
