//! One rank of the world: who holds it, and what was published for it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Instant;

use farcall_base::Address;

use super::super::super::messages::Join;
use super::super::super::secret::Secret;
use super::LinkId;

/// One rank, whether or not a process holds it.
#[derive(Default)]
pub(super) struct Rank {
    pub(super) holder: Option<LinkId>,
    /// Without a holder: until when it is kept for the last one.
    pub(super) held_until: Option<Instant>,
    /// Of the present holder, or of the last one.
    pub(super) identity: Option<Life>,
    pub(super) process: u32,
    pub(super) host: String,
    /// Empty without a holder.
    pub(super) published: BTreeMap<String, Address>,
    pub(super) resolvers: BTreeMap<String, BTreeSet<(LinkId, u64)>>,
    /// The last barriers that this incarnation was released from, should the news not have reached it.
    pub(super) released: VecDeque<u64>,
}

/// One life of a process, and what it shows when it comes back.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Life {
    pub(super) incarnation: u64,
    pub(super) secret: Secret,
}

impl Rank {
    pub(super) fn incarnation(&self) -> u64 {
        self.identity.map_or(0, |life| life.incarnation)
    }

    pub(super) fn hold(&mut self, link: LinkId, life: Life, join: &Join) {
        if self.identity != Some(life) {
            self.released.clear();
        }
        self.holder = Some(link);
        self.held_until = None;
        self.identity = Some(life);
        self.process = join.process;
        self.host.clone_from(&join.host);
    }
}
