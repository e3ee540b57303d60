//! The directory of a process that has joined a rendezvous.
//!
//! Callers write to the connection themselves, under the lock; one thread reads it, and connects again when
//! it breaks: same rank, same incarnation, everything published and asked for told again. What has been
//! resolved once stays known while the rendezvous is away.

use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use farcall_base::Address;

use super::super::limits::KEYS_PER_RANK_MAX;
use super::super::messages::{Answer, Ask, Join};
use super::super::refusal::Refusal;
use super::backoff::Backoff;
use super::link::{self, LinkError};
use super::state::{State, WaitError};

/// Membership in a cluster; dropping it leaves the cluster.
pub(super) struct Member {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    local: SocketAddr,
}

struct Shared {
    rendezvous: SocketAddr,
    join: Join,
    state: Mutex<State>,
    changed: Condvar,
}

impl Member {
    /// Goes on with a connection that has just joined.
    pub(super) fn new(stream: TcpStream, join: Join) -> std::io::Result<Self> {
        let (rendezvous, local) = (stream.peer_addr()?, stream.local_addr()?);
        let reading = stream.try_clone()?;
        let state = Mutex::new(State::connected(stream));
        let shared = Arc::new(Shared { rendezvous, join, state, changed: Condvar::new() });
        let theirs = Arc::clone(&shared);
        let builder = std::thread::Builder::new().name("directory".to_owned());
        let thread = builder.spawn(move || theirs.run(reading))?;
        Ok(Self { shared, thread: Some(thread), local })
    }

    /// This machine's address on the way to the rendezvous.
    pub(super) fn local(&self) -> SocketAddr {
        self.local
    }

    /// Publishes now, or when the rendezvous is back; false when this process has published too much.
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

    /// The address and incarnation; the last known ones while the rendezvous is away.
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
        let outcome = loop {
            if let Some(answer) = state.waits.get_mut(&request).and_then(|wait| wait.answer.take()) {
                break Ok(answer);
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
        state.waits.remove(&request);
        if outcome.is_err() && state.link.is_some() {
            self.shared.send(&mut state, &Ask::Cancel { request });
        }
        outcome
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.stopping = true;
        state.unlink();
        drop(state);
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends over the connection, if there is one. What must arrive is told again after a reconnect.
    fn send(&self, state: &mut State, ask: &Ask) {
        let sent = state.link.as_ref().is_some_and(|link| link::send(link, ask).is_ok());
        if !sent {
            state.unlink();
            state.hurried = true;
            self.changed.notify_all();
        }
    }

    /// The life of the thread: reads until the connection breaks, connects again, and so on until told to
    /// stop.
    fn run(&self, mut stream: TcpStream) {
        loop {
            while let Ok(answer) = link::receive(&stream) {
                self.take(answer);
            }
            self.lock().unlink();
            self.changed.notify_all();
            match self.reconnect() {
                Some(link) => stream = link,
                None => return,
            }
        }
    }

    fn take(&self, answer: Answer) {
        let mut state = self.lock();
        let (Answer::Resolved { request, .. } | Answer::Released { request }) = &answer else { return };
        let request = *request;
        match (state.waits.get(&request).map(|wait| wait.ask.clone()), &answer) {
            (Some(Ask::Resolve { rank, key, .. }), Answer::Resolved { address, incarnation, .. }) => {
                state.resolved.insert((rank, key), (address.clone(), *incarnation));
            }
            (Some(Ask::Barrier { .. }), Answer::Released { .. }) => (),
            // Cancelled a moment ago, or not an answer to what was asked.
            _ => return,
        }
        if let Some(wait) = state.waits.get_mut(&request) {
            wait.answer = Some(answer);
        }
        self.changed.notify_all();
    }

    /// Tries until it succeeds, the rendezvous refuses, or the thread is to stop.
    fn reconnect(&self) -> Option<TcpStream> {
        let mut backoff = Backoff::default();
        loop {
            self.pause(backoff.next_pause())?;
            let opened = link::open(self.rendezvous, &self.join, Instant::now() + link::ATTEMPT_MAX);
            let mut state = self.lock();
            match opened {
                Ok(stream) => {
                    if let Some(reading) = self.resume(&mut state, stream) {
                        return Some(reading);
                    }
                }
                Err(LinkError::Unreachable(_)) => (),
                Err(LinkError::Refused(refusal)) => {
                    state.refused = Some(refusal);
                    self.changed.notify_all();
                    return None;
                }
            }
        }
    }

    /// Waits between attempts, less when somebody is in a hurry; `None` when the thread is to stop.
    fn pause(&self, pause: std::time::Duration) -> Option<()> {
        let patient = |state: &mut State| !state.stopping && !state.hurried;
        let (mut state, _) = self
            .changed
            .wait_timeout_while(self.lock(), pause, patient)
            .unwrap_or_else(PoisonError::into_inner);
        state.hurried = false;
        (!state.stopping).then_some(())
    }

    /// Tells a rendezvous that may have started afresh all that it must know.
    fn resume(&self, state: &mut State, stream: TcpStream) -> Option<TcpStream> {
        let reading = stream.try_clone().ok()?;
        for (key, address) in &state.published {
            let (key, address) = (key.clone(), address.clone());
            link::send(&stream, &Ask::Publish { key, address }).ok()?;
        }
        for wait in state.waits.values().filter(|wait| wait.answer.is_none()) {
            link::send(&stream, &wait.ask).ok()?;
        }
        state.link = Some(stream);
        if state.stopping {
            state.unlink();
        }
        Some(reading)
    }
}
