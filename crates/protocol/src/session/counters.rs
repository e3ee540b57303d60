//! What sessions count.

/// What happened so far, for whoever wants to know why.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SessionCounters {
    /// Packets that no correct peer sends.
    pub malformed: u64,
    /// Packets that were altered on their way.
    pub checksum_errors: u64,
    /// Packets of sessions that are over, or never were.
    pub unknown_sessions: u64,
    /// Answers of RESET to them.
    pub resets_sent: u64,
    /// Asked for signs of life.
    pub pings_sent: u64,
    /// Asked whether the processes of silent peers live.
    pub lives_asked: u64,
    /// Processes of silent peers that were found alive.
    pub lives_found: u64,
    /// OPENs and confirmations sent again.
    pub handshakes_resent: u64,
    /// Asked openers to prove their addresses.
    pub retries_sent: u64,
    /// Half-open sessions that made room for younger ones.
    pub half_open_replaced: u64,
    /// Openers that were refused for want of room.
    pub refused_full: u64,
    /// Openers that were refused because their host has as many sessions as one may have.
    pub refused_host: u64,
    /// Packets that were not sealed with the keys of their session, or carried no code of this cluster.
    pub forged: u64,
    /// Packets that came before, or too late to tell.
    pub replayed: u64,
    /// Openers that have no key, or another one.
    pub refused_key: u64,
    /// Peers that do not prove who they are, or are not known, or not as the ones that were looked for.
    pub refused_identity: u64,
    /// OPENs that were not read, because many of their host could not be read, or led to half-open sessions.
    pub openings_dropped: u64,
    /// Packets of sessions from where those are not.
    pub from_elsewhere: u64,
    /// Sessions whose peers have moved.
    pub moved: u64,
    /// Searches for the longest packet that a path carries.
    pub path_searches: u64,
    /// Asked whether packets of a length arrive.
    pub path_probes: u64,
    /// Found that a path does not carry long packets, and carries shorter ones.
    pub paths_shortened: u64,
    /// Parts of packets that were too long for their path.
    pub parts_sent: u64,
    /// Such parts that came.
    pub parts_received: u64,
    /// Session packets that found the queue full; each is repeated by a timer.
    pub queue_full: u64,
}
