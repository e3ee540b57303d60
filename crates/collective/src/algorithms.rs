//! The algorithms, by their names in the literature, and the choice among them.
//!
//! All members of a group must make the same choice: it decides which messages are sent. It depends on what
//! all of them know, the size of the group and the length of the buffers, and on [`Algorithms`], which is the
//! same everywhere.

use serde::{Deserialize, Serialize};

/// How a group does its operations. The same at all members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Algorithms {
    /// Of broadcasts, by the length of the buffer.
    pub broadcast: BySize<Broadcast>,
    /// Of gathers.
    pub gather: Gather,
    /// Of all-gathers of equal parts, by the length of a part.
    pub all_gather: BySize<AllGather>,
    /// Of all-gathers of parts whose lengths differ.
    pub all_gather_v: AllGather,
    /// Of all-reduces, by the length of the values in bytes.
    pub all_reduce: BySize<AllReduce>,
    /// Of all-to-alls of equal parts, by the length of a part.
    pub all_to_all: BySize<AllToAll>,
    /// Longer messages are cut into segments of this many bytes, which are sent one after another. At most
    /// the transport's `message_bytes_max`.
    pub segment_bytes: usize,
}

impl Default for Algorithms {
    /// The switching points of MPICH (Thakur, Rabenseifner and Gropp, "Optimization of Collective
    /// Communication Operations in MPICH", 2005), rounded to powers of two.
    fn default() -> Self {
        const KIB: usize = 1 << 10;
        Self {
            broadcast: BySize {
                short: Broadcast::Binomial,
                long: Broadcast::ScatterAllGather,
                long_from: 512 * KIB,
            },
            gather: Gather::Tree { degree: 10 },
            all_gather: BySize { short: AllGather::Bruck, long: AllGather::Ring, long_from: 32 * KIB },
            all_gather_v: AllGather::Ring,
            all_reduce: BySize {
                short: AllReduce::RecursiveDoubling,
                long: AllReduce::Ring,
                long_from: 32 * KIB,
            },
            all_to_all: BySize { short: AllToAll::Bruck, long: AllToAll::Pairwise, long_from: KIB },
            segment_bytes: 1024 * KIB,
        }
    }
}

/// One algorithm for short messages and one for long ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BySize<A> {
    /// For messages shorter than `long_from`.
    pub short: A,
    /// For all others.
    pub long: A,
    /// The length of the shortest long message, in bytes.
    pub long_from: usize,
}

impl<A: Copy> BySize<A> {
    /// One algorithm for all lengths.
    pub const fn always(algorithm: A) -> Self {
        Self { short: algorithm, long: algorithm, long_from: 0 }
    }

    /// The algorithm for messages of this length.
    pub fn choose(&self, bytes: usize) -> A {
        if bytes < self.long_from { self.short } else { self.long }
    }
}

/// How a broadcast is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broadcast {
    /// A binomial tree: log2(n) rounds, in each of which every member that has the message sends it once.
    Binomial,
    /// A tree in which every member passes the message on to `degree` others. With the size of the group it
    /// is flat.
    Tree {
        /// Children of a member, at least 1.
        degree: u32,
    },
    /// A binomial scatter and a ring all-gather (van de Geijn): every member sends about twice the length of
    /// the message, whatever the size of the group.
    ScatterAllGather,
}

/// How a gather is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gather {
    /// Every member sends its part to the root.
    Direct,
    /// A tree in which every member passes on its own part with those of its `degree` children.
    Tree {
        /// Children of a member, at least 1.
        degree: u32,
    },
}

/// How an all-gather is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AllGather {
    /// n − 1 rounds, in each of which every member passes on the part that it got in the last one.
    Ring,
    /// log2(n) rounds, rounded up: in round k a member has the parts of 2^k members and sends them to the
    /// member 2^k before it (Bruck et al., 1997).
    Bruck,
    /// log2(n) rounds of pairs that exchange all that they have. Groups whose size is no power of two take
    /// [`AllGather::Bruck`].
    RecursiveDoubling,
}

/// How an all-reduce is done, and so in which order values are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AllReduce {
    /// log2(n) rounds of pairs that exchange and combine all values, the lower member's on the left: in the
    /// order of the ranks, as a balanced tree. If n is no power of two, the first members combine in pairs
    /// before.
    RecursiveDoubling,
    /// A ring reduce-scatter and a ring all-gather: every member sends about twice the length of the values.
    /// The values are cut into n blocks; block b is combined from member b on upwards, around the ring, from
    /// left to right. The operation must be commutative.
    Ring,
    /// A binomial reduction to member 0, in the order of the ranks, and a binomial broadcast.
    Binomial,
}

/// How an all-to-all of equal parts is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AllToAll {
    /// n − 1 rounds: in round k every member sends to the member k behind it and receives from the one k
    /// before it.
    Pairwise,
    /// log2(n) rounds, rounded up, with n / 2 parts each (Bruck et al., 1997).
    Bruck,
}

/// How the chunks of an exchange are pushed: the shuffle of MilliSort (Li, Park and Ousterhout, NSDI 2021).
///
/// A message is cut into chunks. A chunk is a call; its response permits the message's next chunk. Two bounds
/// hold over all messages of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PushLimits {
    /// Which message is served next.
    pub policy: PushPolicy,
    /// The longest chunk, in bytes; at least 1.
    pub chunk_bytes: usize,
    /// Chunks that the driver does not have entirely yet; at least 1.
    pub pending_max: usize,
    /// Chunks that have no response yet; at least 1.
    pub outstanding_max: usize,
    /// Determines the choices of the random policies.
    pub seed: u64,
}

impl Default for PushLimits {
    /// Those of MilliSort's measurements.
    fn default() -> Self {
        Self {
            policy: PushPolicy::Deterministic,
            chunk_bytes: 40_000,
            pending_max: 8,
            outstanding_max: 16,
            seed: 1,
        }
    }
}

/// The rule that chooses among the messages that could send a chunk now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PushPolicy {
    /// The one with the most bytes left; of equals the first in clockwise order from the own rank.
    Deterministic,
    /// Any of them.
    Random,
    /// Of two drawn at random the one with more bytes left.
    PowerOfTwo,
}

farcall_base::named!(PushPolicy:
    Deterministic = "deterministic",
    Random = "random",
    PowerOfTwo = "power-of-two",
);

impl Algorithms {
    pub(crate) fn check(&self) {
        assert!(self.segment_bytes > 0, "segments of no bytes");
        let of_broadcasts = [self.broadcast.short, self.broadcast.long];
        let has_children = |broadcast| broadcast != Broadcast::Tree { degree: 0 };
        assert!(of_broadcasts.into_iter().all(has_children), "a tree without children");
        assert!(self.gather != Gather::Tree { degree: 0 }, "a tree without children");
    }
}
