//! What a member and the thread that reads its connection share.

use std::collections::BTreeMap;
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
    Refused(Refusal),
}

impl State {
    /// That of a process which has just joined over `link`, or will.
    pub(super) fn new(link: Option<Link>) -> Self {
        Self { link, ..Self::default() }
    }

    /// When the thread has something to do although nothing arrives.
    pub(super) fn next_time(&self) -> Option<Instant> {
        let former = self.watches.values().filter_map(|watch| watch.listing.former_until());
        former.chain(self.renew_at).min()
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
