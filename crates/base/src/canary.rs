//! Rules that a test can leave out, to see that the checks of the swarm notice.
//!
//! A simulator that finds nothing proves nothing unless it finds what is there to be found. With the feature
//! `canaries`, which only the swarm's own tests ask for, a thread can leave out one of these rules. In every
//! other build [`leaves_out`] is `false` for the compiler, and nothing of it remains.

/// A rule that can be left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// A request that was received before does not run again.
    AtMostOnce,
    /// A packet whose checksum is wrong is dropped.
    Checksums,
    /// A log that is opened holds the end of each segment against its digest.
    Digests,
    /// A backup refuses the requests of an older epoch.
    Fences,
    /// A group of a log is flushed before its writes are answered.
    FlushedGroups,
    /// A primary reads only as long as its lease lasts.
    Leases,
    /// The next primary of a shard gives up the spread of its slots before it serves.
    NextSettles,
    /// Messages to an endpoint go over one session until that ends.
    OneSession,
    /// A replica that fails leaves the record before anything is acknowledged without it.
    RecordedReplicas,
    /// The result of a write that happens once is recorded with it.
    Results,
    /// A call that is over leaves its slot, and its server is told.
    SettledCalls,
    /// The next primary of a shard that takes a part of a spread gives that up before it serves.
    TakerSettles,
    /// A deleted object has a tombstone in the log.
    Tombstones,
    /// A part of a spread is said to be there when the log has it.
    WaitsForTheLog,
}

#[cfg(feature = "canaries")]
mod switch {
    use core::cell::Cell;

    use super::Rule;

    thread_local! {
        static LEFT_OUT: Cell<Option<Rule>> = const { Cell::new(None) };
    }

    /// Leaves out a rule on this thread, or none.
    pub fn leave_out(rule: Option<Rule>) {
        LEFT_OUT.set(rule);
    }

    /// Whether this thread leaves out the rule.
    pub fn leaves_out(rule: Rule) -> bool {
        LEFT_OUT.get() == Some(rule)
    }
}

#[cfg(feature = "canaries")]
pub use switch::{leave_out, leaves_out};

/// Whether this thread leaves out the rule: no.
#[cfg(not(feature = "canaries"))]
pub const fn leaves_out(_: Rule) -> bool {
    false
}
