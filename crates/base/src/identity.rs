//! The identity of the other end of a session.

/// The endpoint that a session leads to, as it named itself in the handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Identity {
    /// Drawn at random when the process starts: a restarted process has another. Never 0.
    pub incarnation: u64,
    /// The process's rank in its cluster.
    pub rank: u32,
    /// The endpoint's number within the process, from 0.
    pub endpoint: u32,
}
