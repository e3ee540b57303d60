//! What a receive asks for: from whom, with which tag, how long and for how long.

use core::time::Duration;

use farcall_transport::{SessionId, Tag};

use crate::endpoint::sessions::Peer;
use crate::endpoint::slab::NO_SESSION;

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

impl Wanted {
    pub fn new(from: SourceChoice, tag: TagChoice) -> Self {
        Self { from: from.0, tag: tag.0, room: u32::MAX, timeout: None }
    }

    /// The session that the receive ends with; [`NO_SESSION`] when it asks for messages from anybody.
    #[inline(always)]
    pub fn session(&self) -> SessionId {
        self.from.map_or(NO_SESSION, |peer| peer.session)
    }
}
