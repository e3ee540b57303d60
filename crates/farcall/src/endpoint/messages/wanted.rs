//! What a receive asks for: from whom, with which tag, how long and for how long.

use core::time::Duration;

use farcall_transport::{Origin, Short, Source, Tag};

use crate::endpoint::sessions::Peer;

/// Asks for messages from anybody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnySource;

/// Asks for messages with any tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnyTag;

/// From whom a message is wanted: a [`Peer`] or [`AnySource`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceChoice(pub(in crate::endpoint) Option<Peer>);

/// Which tag is wanted: a [`Tag`] or [`AnyTag`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TagChoice(pub(in crate::endpoint) Option<Tag>);

impl From<Peer> for SourceChoice {
    fn from(peer: Peer) -> Self {
        Self(Some(peer))
    }
}

impl From<AnySource> for SourceChoice {
    fn from(_: AnySource) -> Self {
        Self(None)
    }
}

impl From<Tag> for TagChoice {
    fn from(tag: Tag) -> Self {
        Self(Some(tag))
    }
}

impl From<AnyTag> for TagChoice {
    fn from(_: AnyTag) -> Self {
        Self(None)
    }
}

/// What a receive asks for.
#[derive(Clone, Copy)]
pub struct Wanted {
    pub from: Option<Peer>,
    pub tag: Option<Tag>,
    /// The most bytes.
    pub room: u32,
    pub timeout: Option<Duration>,
}

/// A message of one peer with one tag, within the usual time.
#[derive(Clone, Copy)]
pub struct Exact {
    pub from: Origin,
    pub tag: Tag,
    /// The most bytes.
    pub room: u32,
}

impl Exact {
    /// The most bytes of a message that is taken if it is short.
    #[inline(always)]
    pub fn room_for_short(&self) -> usize {
        (self.room as usize).min(Short::BYTES_MAX)
    }
}

impl Wanted {
    pub fn new(from: SourceChoice, tag: TagChoice) -> Self {
        Self { from: from.0, tag: tag.0, room: u32::MAX, timeout: None }
    }

    /// The same, put together again: where only its parts were looked at before, it has not been in memory until now.
    #[inline(always)]
    pub fn again(self) -> Self {
        let Self { from, tag, room, timeout } = self;
        Self { from, tag, room, timeout }
    }

    /// What it asks for, if that is exact.
    #[inline(always)]
    pub fn exact(&self) -> Option<Exact> {
        let (Some(Peer { session, rank, endpoint }), Some(tag), None) = (self.from, self.tag, self.timeout)
        else {
            return None;
        };
        Some(Exact { from: Origin { source: Source::new(rank, endpoint), session }, tag, room: self.room })
    }
}
