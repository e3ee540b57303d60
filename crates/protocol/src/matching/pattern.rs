//! Sources, tags, and what receives ask for.

/// Where a message comes from: the endpoint, whichever of its sessions it takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Source(pub u32);

impl Source {
    /// The endpoint of that number in the process of that rank, below 32,768. A peer without
    /// such a rank has a source for each of its sessions, so that no two peers share one.
    #[inline]
    pub const fn new(rank: u32, endpoint: u32, session: u32) -> Self {
        if rank < RANKS_TOLD_APART {
            return Self(rank << 16 | endpoint & 0xffff);
        }
        Self(SESSION_SOURCE | session)
    }
}

/// Ranks below it have sources of their own; no world is larger.
const RANKS_TOLD_APART: u32 = 1 << 15;

/// The bit of sources that are sessions; sources of ranks lack it.
const SESSION_SOURCE: u32 = 1 << 31;

/// What a message is about: a number that sender and receiver agree on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Tag(pub u32);

/// What a receive asks for; `None` is any.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pattern {
    /// Where the message comes from.
    pub source: Option<Source>,
    /// Its tag.
    pub tag: Option<Tag>,
}

/// How many kinds of pattern there are: source or not, tag or not.
pub(super) const KINDS: usize = 4;

impl Pattern {
    /// Which kind of pattern it is.
    #[inline]
    pub(super) const fn kind(self) -> usize {
        self.source.is_none() as usize | (self.tag.is_none() as usize) << 1
    }

    /// Differs for different patterns of the same kind.
    #[inline]
    pub(super) fn key(self) -> u64 {
        u64::from(self.source.map_or(0, |source| source.0)) << 32 | u64::from(self.tag.map_or(0, |tag| tag.0))
    }

    /// The patterns that a message fits, the one of each kind in its place.
    #[inline]
    pub(super) const fn of(source: Source, tag: Tag) -> [Self; KINDS] {
        let (source, tag) = (Some(source), Some(tag));
        [
            Self { source, tag },
            Self { source: None, tag },
            Self { source, tag: None },
            Self { source: None, tag: None },
        ]
    }
}
