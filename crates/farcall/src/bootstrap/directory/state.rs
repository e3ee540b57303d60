//! What a member and the thread that reads its connection share.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Shutdown;
use std::sync::Arc;
use std::time::{Duration, Instant};

use farcall_base::Address;

use super::super::limits::{BARRIER_WAITS_MAX, WAITS_MAX};
use super::super::listing::Listing;
use super::super::messages::{Answer, Ask};
use super::super::refusal::Refusal;
use super::error::MissingRanks;
use super::link::Link;

/// When the registry is told again what it had no room for.
const TELL_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// What is known and wanted. What was published and asked for outlives any one connection.
#[derive(Default)]
pub(super) struct State {
    pub(super) link: Option<Link>,
    /// Why the registry refused to take this process back, until it does.
    pub(super) refused: Option<Refusal>,
    /// Why there is no connection.
    pub(super) trouble: Option<String>,
    pub(super) stopping: bool,
    /// Somebody needs the connection now: the pause before the next attempt is skipped.
    pub(super) hurried: bool,
    pub(super) published: BTreeMap<String, Address>,
    /// By name and key.
    pub(super) registered: BTreeMap<(String, String), Address>,
    /// For how long names are registered at a time, and when that is said again.
    pub(super) lease: Duration,
    pub(super) renew_at: Option<Instant>,
    /// What the registry had no room for, of what is registered and published, and when it, and watches
    /// without room, are told again.
    pub(super) unlisted: BTreeSet<(String, String)>,
    pub(super) unpublished: BTreeSet<String>,
    pub(super) tell_again: Option<Instant>,
    /// By request.
    pub(super) watches: BTreeMap<u64, Watch>,
    /// The last answers, by rank and key, for when the rendezvous is away.
    pub(super) resolved: BTreeMap<(u32, String), (Address, u64)>,
    pub(super) waits: BTreeMap<u64, Wait>,
    requests_used: u64,
}

/// A name that is watched, by so many of this process: a registry tells each member once.
pub(super) struct Watch {
    pub(super) name: String,
    pub(super) watchers: usize,
    /// That the registry had no room for it.
    pub(super) is_without_room: bool,
    pub(super) listing: Arc<Listing>,
}

/// Somebody waits: what was asked, and the answer when it is there.
pub(super) struct Wait {
    pub(super) ask: Ask,
    pub(super) answer: Option<Answer>,
}

/// Why a wait ended without what was waited for.
pub(super) enum WaitError {
    TimedOut {
        connected: bool,
    },
    /// At a barrier, with the ranks that are missing there as far as they are known.
    Missing(MissingRanks),
    TooMany,
    Occupied,
    /// The registry has no room for it.
    Full,
    Refused(Refusal),
}

impl State {
    /// That of a process which has just joined over `link`, or will.
    pub(super) fn new(link: Option<Link>) -> Self {
        Self { link, ..Self::default() }
    }

    /// The registry had no room for a name of this process.
    pub(super) fn is_not_listed(&mut self, place: (String, String), at: Instant) {
        if self.registered.contains_key(&place) {
            self.unlisted.insert(place);
            self.tell_again_after(at);
        }
    }

    /// Nor for an address.
    pub(super) fn is_not_published(&mut self, key: String, at: Instant) {
        if self.published.contains_key(&key) {
            self.unpublished.insert(key);
            self.tell_again_after(at);
        }
    }

    /// Nor for a watch.
    pub(super) fn is_not_watched(&mut self, request: u64, trouble: &str, at: Instant) {
        if let Some(watch) = self.watches.get_mut(&request) {
            watch.is_without_room = true;
            watch.listing.source_lost(trouble);
            self.tell_again_after(at);
        }
    }

    fn tell_again_after(&mut self, at: Instant) {
        self.tell_again.get_or_insert(at + TELL_AGAIN_AFTER);
    }

    /// What the registry had no room for and is still wanted, to be told once more.
    pub(super) fn take_without_room(&mut self) -> Vec<Ask> {
        let (registered, published) = (&self.registered, &self.published);
        let mut asks: Vec<Ask> = Vec::new();
        for (name, key) in core::mem::take(&mut self.unlisted) {
            let place = (name, key);
            if let Some(address) = registered.get(&place).cloned() {
                let (name, key) = place;
                asks.push(Ask::Register { name, key, address });
            }
        }
        for key in core::mem::take(&mut self.unpublished) {
            if let Some(address) = published.get(&key).cloned() {
                asks.push(Ask::Publish { key, address });
            }
        }
        for (&request, watch) in &self.watches {
            if watch.is_without_room {
                asks.push(Ask::Watch { request, name: watch.name.clone() });
            }
        }
        self.forget_without_room();
        asks
    }

    /// The registry has been told everything.
    pub(super) fn forget_without_room(&mut self) {
        (self.unlisted, self.unpublished, self.tell_again) = Default::default();
        self.watches.values_mut().for_each(|watch| watch.is_without_room = false);
    }

    /// When the thread has something to do although nothing arrives.
    pub(super) fn next_time(&self) -> Option<Instant> {
        let former = self.watches.values().filter_map(|watch| watch.listing.former_until());
        former.chain(self.renew_at).chain(self.tell_again).min()
    }

    /// Another number for a request.
    pub(super) fn next_request(&mut self) -> u64 {
        self.requests_used += 1;
        self.requests_used
    }

    /// Ends the connection, which also wakes the thread that reads it.
    pub(super) fn unlink(&mut self) {
        if let Some(link) = self.link.take() {
            // It fails only when the connection has ended already.
            let _ = link.socket().shutdown(Shutdown::Both);
        }
    }

    /// Notes that somebody waits, under a new number.
    pub(super) fn begin(&mut self, ask: impl FnOnce(u64) -> Ask) -> Result<u64, WaitError> {
        let ask = ask(self.requests_used + 1);
        if let Ask::Barrier { name, .. } = &ask {
            let barriers = self.waits.values().filter_map(|wait| match &wait.ask {
                Ask::Barrier { name, .. } => Some(name),
                _ => None,
            });
            if barriers.clone().any(|other| other == name) {
                return Err(WaitError::Occupied);
            }
            if barriers.count() >= BARRIER_WAITS_MAX {
                return Err(WaitError::TooMany);
            }
        }
        if self.waits.len() + self.watches.len() >= WAITS_MAX {
            return Err(WaitError::TooMany);
        }
        self.requests_used += 1;
        self.waits.insert(self.requests_used, Wait { ask, answer: None });
        Ok(self.requests_used)
    }
}
