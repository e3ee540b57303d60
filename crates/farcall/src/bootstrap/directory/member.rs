//! The directory of a process that has joined a registry.
//!
//! Callers write to the connection themselves, under the lock; one thread reads it, and connects again when
//! it breaks: same place, same incarnation, same secret, everything published, registered, watched and asked
//! for told again. A refusal is reported to the callers and does not end the attempts. What has been learnt
//! once stays known while the registry is away.

use std::net::SocketAddr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use farcall_base::Address;
use rustix::event::{EventfdFlags, eventfd};

use super::super::hosts::HostPort;
use super::super::limits::{KEYS_PER_RANK_MAX, WAITS_MAX};
use super::super::listing::Listing;
use super::super::messages::{Answer, Ask, Join};
use super::super::refusal::Refusal;
use super::error::MissingRanks;
use super::link::Opened;
use super::state::{State, WaitError, Watch};
use super::thread::{RENEWALS_PER_LEASE, Shared};

/// How long the registry may take to say which ranks are missing at a barrier.
const MISSING_WITHIN: Duration = Duration::from_secs(2);

/// Membership; dropping it leaves the registry.
pub(super) struct Member {
    shared: Arc<Shared>,
    /// The thread, whose end is waited for. One that connects in the background may be in the middle of an
    /// attempt, which takes its time: it ends in the background, too.
    thread: Option<JoinHandle<()>>,
    local: Option<Local>,
}

/// How this process stands to the registry.
#[derive(Clone, Copy)]
pub(super) struct Local {
    /// This machine's address on the way to it.
    pub(super) address: SocketAddr,
    /// Whether other machines reach it.
    pub(super) beyond_machine: bool,
}

/// A name that a process watches, until this is dropped.
pub(crate) struct Watching {
    shared: Arc<Shared>,
    request: u64,
    listing: Arc<Listing>,
}

impl Watching {
    /// What the watch has found.
    pub(super) fn listing(&self) -> &Arc<Listing> {
        &self.listing
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        let Some(watch) = state.watches.get_mut(&self.request) else { return };
        watch.watchers -= 1;
        if watch.watchers > 0 {
            return;
        }
        state.watches.remove(&self.request);
        if state.link.is_some() {
            self.shared.send(&mut state, &Ask::Cancel { request: self.request });
        }
    }
}

impl Member {
    /// Goes on with a connection that has just joined; without one it is made in the background.
    pub(super) fn new(registry: HostPort, opened: Option<Opened>, join: Join) -> std::io::Result<Self> {
        let (local, reading, link) = match opened {
            None => (None, None, None),
            Some(Opened { link, beyond_machine }) => {
                let local = Local { address: link.socket().local_addr()?, beyond_machine };
                (Some(local), Some(link.try_clone()?), Some(link))
            }
        };
        let is_awaited = link.is_some();
        let state = Mutex::new(State::new(link));
        let waker = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let shared = Arc::new(Shared { registry, join, state, changed: Condvar::new(), waker });
        let theirs = Arc::clone(&shared);
        let builder = std::thread::Builder::new().name("directory".to_owned());
        let thread = builder.spawn(move || theirs.run(reading))?;
        Ok(Self { shared, thread: is_awaited.then_some(thread), local })
    }

    /// How this process stood to the registry when it joined.
    pub(super) fn local(&self) -> Option<Local> {
        self.local
    }

    /// Publishes now, or when the registry is back; false when this process has published too much.
    pub(super) fn publish(&self, key: &str, address: Address) -> Result<bool, Refusal> {
        let mut state = self.shared.lock();
        if let Some(refusal) = &state.refused {
            return Err(refusal.clone());
        }
        if state.published.len() >= KEYS_PER_RANK_MAX && !state.published.contains_key(key) {
            return Ok(false);
        }
        state.published.insert(key.to_owned(), address.clone());
        self.shared.send(&mut state, &Ask::Publish { key: key.to_owned(), address });
        Ok(true)
    }

    /// Registers now, or when the registry is back, for as long as this process lives; false when this
    /// process has registered too much.
    pub(super) fn register(
        &self,
        name: &str,
        key: &str,
        address: Address,
        lease: Duration,
    ) -> Result<bool, Refusal> {
        let mut state = self.shared.lock();
        if let Some(refusal) = &state.refused {
            return Err(refusal.clone());
        }
        let place = (name.to_owned(), key.to_owned());
        if state.registered.len() >= KEYS_PER_RANK_MAX && !state.registered.contains_key(&place) {
            return Ok(false);
        }
        state.registered.insert(place, address.clone());
        state.lease = lease;
        self.shared.send(&mut state, &Ask::Renew { lease });
        let ask = Ask::Register { name: name.to_owned(), key: key.to_owned(), address };
        self.shared.send(&mut state, &ask);
        state.renew_at = Some(Instant::now() + lease / RENEWALS_PER_LEASE);
        self.shared.wake_thread();
        Ok(true)
    }

    /// Withdraws what was registered.
    pub(super) fn withdraw(&self, name: &str, key: &str) {
        let mut state = self.shared.lock();
        if state.registered.remove(&(name.to_owned(), key.to_owned())).is_some() && state.link.is_some() {
            let ask = Ask::Withdraw { name: name.to_owned(), key: key.to_owned() };
            self.shared.send(&mut state, &ask);
        }
    }

    /// Begins to watch a name; `None` when this process waits for too much.
    pub(super) fn watch(&self, name: &str) -> Option<Watching> {
        let mut state = self.shared.lock();
        let watched = state.watches.iter_mut().find(|(_, watch)| watch.name == name);
        if let Some((&request, watch)) = watched {
            watch.watchers += 1;
            let listing = Arc::clone(&watch.listing);
            return Some(Watching { shared: Arc::clone(&self.shared), request, listing });
        }
        if state.waits.len() + state.watches.len() >= WAITS_MAX {
            return None;
        }
        let (request, listing) = (state.next_request(), Listing::new());
        let watch = Watch {
            name: name.to_owned(),
            watchers: 1,
            is_without_room: false,
            listing: Arc::clone(&listing),
        };
        if state.link.is_none() {
            listing.source_lost(state.trouble.as_deref().unwrap_or("it is being connected to"));
        }
        state.watches.insert(request, watch);
        self.shared.send(&mut state, &Ask::Watch { request, name: name.to_owned() });
        Some(Watching { shared: Arc::clone(&self.shared), request, listing })
    }

    /// The register after the attempt to set it: whether it was set, its revision, its value.
    pub(super) fn compare_and_set(
        &self,
        key: &str,
        expected: u64,
        value: &[u8],
        deadline: Instant,
    ) -> Result<(bool, u64, Vec<u8>), WaitError> {
        let ask = |request| {
            let (key, value) = (key.to_owned(), value.to_vec());
            Ask::CompareAndSet { request, key, expected, value }
        };
        match self.wait(ask, deadline, |_| None)? {
            Answer::Compared { was_set, revision, value, .. } => Ok((was_set, revision, value)),
            other => unreachable!("{other:?} is no answer to this, which the reading thread has checked"),
        }
    }

    /// The address and incarnation; the last known ones while the registry is away.
    pub(super) fn resolve(
        &self,
        rank: u32,
        key: &str,
        deadline: Instant,
    ) -> Result<(Address, u64), WaitError> {
        let place = (rank, key.to_owned());
        let ask = |request| Ask::Resolve { request, rank, key: key.to_owned() };
        let known = |state: &State| {
            let known = state.resolved.get(&place).filter(|_| state.link.is_none())?;
            Some(Answer::Resolved { request: 0, address: known.0.clone(), incarnation: known.1 })
        };
        match self.wait(ask, deadline, known)? {
            Answer::Resolved { address, incarnation, .. } => Ok((address, incarnation)),
            other => {
                unreachable!("{other:?} does not answer a resolve, which the reading thread has checked")
            }
        }
    }

    /// Returns when all ranks have called it.
    pub(super) fn barrier(&self, name: &str, deadline: Instant) -> Result<(), WaitError> {
        let ask = |request| Ask::Barrier { request, name: name.to_owned() };
        self.wait(ask, deadline, |_| None).map(drop)
    }

    fn wait(
        &self,
        ask: impl FnOnce(u64) -> Ask,
        deadline: Instant,
        known: impl Fn(&State) -> Option<Answer>,
    ) -> Result<Answer, WaitError> {
        let mut state = self.shared.lock();
        let request = state.begin(ask)?;
        let ask = state.waits[&request].ask.clone();
        self.shared.send(&mut state, &ask);
        let mut outcome = loop {
            if let Some(answer) = state.waits.get_mut(&request).and_then(|wait| wait.answer.take()) {
                break if let Answer::Full { .. } = answer { Err(WaitError::Full) } else { Ok(answer) };
            }
            if let Some(answer) = known(&state) {
                break Ok(answer);
            }
            if let Some(refusal) = &state.refused {
                break Err(WaitError::Refused(refusal.clone()));
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break Err(WaitError::TimedOut { connected: state.link.is_some() });
            }
            state = self.shared.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        };
        if let (Err(WaitError::TimedOut { connected: true }), Ask::Barrier { name, .. }) = (&outcome, &ask) {
            // While this process is still there, so that others which ask do not miss it.
            let missing;
            (state, missing) = self.missing(state, name);
            outcome = Err(WaitError::Missing(missing));
        }
        state.waits.remove(&request);
        if outcome.is_err() && state.link.is_some() {
            self.shared.send(&mut state, &Ask::Cancel { request });
        }
        outcome
    }
}

impl Member {
    /// The ranks that are not at a barrier; none when the registry does not say so soon.
    fn missing<'s>(
        &'s self,
        mut state: MutexGuard<'s, State>,
        name: &str,
    ) -> (MutexGuard<'s, State>, MissingRanks) {
        let ask = |request| Ask::Missing { request, name: name.to_owned() };
        let Ok(request) = state.begin(ask) else { return (state, MissingRanks::default()) };
        let ask = state.waits[&request].ask.clone();
        self.shared.send(&mut state, &ask);
        let is_awaited =
            |state: &mut State| state.waits.get(&request).is_some_and(|wait| wait.answer.is_none());
        let waited = self.shared.changed.wait_timeout_while(state, MISSING_WITHIN, is_awaited);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner).0;
        match state.waits.remove(&request).and_then(|wait| wait.answer) {
            Some(Answer::Missing { count, ranks: first, .. }) => (state, MissingRanks { count, first }),
            _ => (state, MissingRanks::default()),
        }
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.stopping = true;
        if state.link.is_some() {
            self.shared.send(&mut state, &Ask::Leave);
        }
        state.unlink();
        drop(state);
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
